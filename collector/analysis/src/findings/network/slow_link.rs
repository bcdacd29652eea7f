//! Transfers that are slow though their members come on time.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use crate::measures::pairs::{Kind, Path, Transfers};
use rankscope_ranklog::Operation;
use std::collections::{BTreeMap, BTreeSet};

/// Transfers of a path that are needed.
const FEWEST_TRANSFERS: u64 = 20;
/// Paths of one kind that are needed to say what is usual.
const FEWEST_PATHS: usize = 4;
/// A path is slow from this multiple of the usual transfer on …
const SLOW_TIMES: f64 = 1.5;
/// … if so many of its standard errors, and of the spread between the other paths, lie between.
const ERRORS: f64 = 5.0;
/// Cost from which it is told, percent of step time.
const LEAST_COST_PERCENT: i64 = 2;

/// A link is slow.
pub const RULE: Rule = Rule {
    id: "slow-link",
    title: "Transfers on one path are slower than on its like",
    means: "Once all members have come, moving the data takes longer on one path than on others of the same kind: a cable, port, \
            switch or route.",
    fires: "Of at least four paths of one kind (operation, size, members, inside or across hosts) with 20 transfers each, one takes \
            1.5 times the usual transfer or more, by five standard errors and five times the spread between the others, and \
            that costs at least 2 % of step time, both ways of a pair together. Messages name the pair, and the direction if only one \
            is slow; collectives the members of the communicator.",
    silent: "Late arrivals (transfers begin when the last has come), jobs with one communicator only, in which no path can be \
             compared, and paths that are all slow.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    if window == 0 || !facts.crowded().is_empty() {
        return Vec::new();
    }
    let mut kinds: BTreeMap<Kind, Vec<(Path, &Transfers)>> = BTreeMap::new();
    for (kind, path, transfers) in facts.parts.analysis.paths.sorted() {
        if transfers.count >= FEWEST_TRANSFERS {
            kinds.entry(kind).or_default().push((path, transfers));
        }
    }
    let mut slow: BTreeMap<Link, Slow> = BTreeMap::new();
    for (kind, paths) in &kinds {
        if paths.len() < FEWEST_PATHS {
            continue;
        }
        for &(path, transfers) in paths {
            let others: Vec<f64> = paths
                .iter()
                .filter(|other| other.0 != path)
                .map(|(_, transfers)| transfers.mean_ln())
                .collect();
            let mut sorted = others.clone();
            sorted.sort_by(f64::total_cmp);
            let usual = sorted[sorted.len() / 2];
            let mut deviations: Vec<f64> = others.iter().map(|mean| (mean - usual).abs()).collect();
            deviations.sort_by(f64::total_cmp);
            // The middle deviation says little of few paths: the one above it errs on the side of silence.
            let spread = deviations[(deviations.len() * 3 / 4).min(deviations.len() - 1)];
            let above = transfers.mean_ln() - usual;
            if above < SLOW_TIMES.ln() || above < ERRORS * transfers.error_ln().max(spread) {
                continue;
            }
            // What both ways take at once costs once.
            let excess = (transfers.sum_ns - usual.exp() * transfers.count as f64) * transfers.alone_share();
            let found = slow.entry(Link::of(path)).or_insert_with(|| Slow {
                excess_ns: 0.0,
                ways: BTreeSet::new(),
                worst: Worst {
                    excess_ns: 0.0,
                    kind: *kind,
                    usual_ns: usual.exp(),
                    transfers,
                },
            });
            found.excess_ns += excess;
            found.ways.insert(path);
            if excess > found.worst.excess_ns {
                found.worst = Worst {
                    excess_ns: excess,
                    kind: *kind,
                    usual_ns: usual.exp(),
                    transfers,
                };
            }
        }
    }
    let ranks = entries.len() as i64;
    let mean_window = window / ranks;
    let mut out: Vec<(i64, Draft)> = Vec::new();
    for slow in slow.into_values() {
        let Worst {
            kind,
            usual_ns: usual,
            transfers,
            ..
        } = slow.worst;
        // More than what transfer was exposed to those who take part it cannot cost.
        let (who, members) = members_of(facts, &slow.ways);
        let of_members: Vec<_> = entries
            .iter()
            .copied()
            .filter(|entry| members.contains(&entry.rank))
            .collect();
        let exposed = of_members
            .iter()
            .map(|&entry| exposed_transfer_ns(&[entry]))
            .max()
            .unwrap_or(0);
        let cost = (slow.excess_ns as i64).min(exposed);
        if cost * 100 < mean_window * LEAST_COST_PERCENT {
            continue;
        }
        let mean = transfers.mean_ln().exp();
        let operation = Operation::from_u8(kind.operation).map_or("operation", Operation::name);
        let like = kinds.get(&kind).map_or(0, Vec::len);
        let draft = Draft::new(
            RULE.id,
            &who,
            format!(
                "transfers on {who} are slow: {:.1} times as long as on {} paths like it, {} of step time",
                mean / usual,
                like - 1,
                percent(cost, mean_window)
            ),
        )
        .evidence(format!(
            "{} of {operation} of {} to {} bytes: {} on geometric average, {} elsewhere",
            transfers.count,
            if kind.size == 0 { 0 } else { 1u64 << (kind.size - 1) },
            1u64.checked_shl(kind.size).unwrap_or(u64::MAX),
            shown(mean as i64),
            shown(usual as i64)
        ))
        .evidence("a transfer begins when all that it needs have come: nobody is late in these figures")
        .cause("the path between these ranks is slower than others of its kind: cable, port, switch, route, or other traffic on it")
        .advice(
            "look at the counters of the network ports and NVLinks of these hosts (errors, retransmissions, width and speed), at \
             NCCL_DEBUG=INFO for the chosen path, and exchange the hosts to see whether the slowness goes along",
        )
        .holds("paths of this kind", like as f64, ">=", FEWEST_PATHS as f64, "")
        .holds("transfers on it", transfers.count as f64, ">=", FEWEST_TRANSFERS as f64, "")
        .holds("times the usual transfer", mean / usual, ">=", SLOW_TIMES, "")
        .holds(
            "of step time",
            cost as f64 / mean_window as f64 * 100.0,
            ">=",
            LEAST_COST_PERCENT as f64,
            "%",
        )
        .ranks(members)
        .look_at(transfers.slowest.clone())
        .cost(
            cost,
            "what the transfers take beyond the usual one of their kind (once where both ways are slow at a time), as far as transfer was \
             exposed to a rank that takes part",
            &[TRANSFER],
        );
        let draft = match facts.session.steps.median_ns.value {
            Some(median) => draft.of_step((cost as f64 / mean_window as f64 * median as f64) as i64, median),
            None => draft,
        };
        out.push((cost, draft));
    }
    out.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    out.into_iter().map(|(_, draft)| draft).collect()
}

/// What has one cable: both directions between two ranks, or the members of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Between(u32, u32),
    Inside(u32),
}

impl Link {
    fn of(path: Path) -> Self {
        match path {
            Path::Between(from, to) => Self::Between(from.min(to), from.max(to)),
            Path::Inside(communicator) => Self::Inside(communicator),
        }
    }
}

/// A link with slow paths.
struct Slow<'a> {
    /// What all of them take more than usual, ns.
    excess_ns: f64,
    ways: BTreeSet<Path>,
    worst: Worst<'a>,
}

/// Of a link's transfers those that take most of what is more than usual.
struct Worst<'a> {
    excess_ns: f64,
    kind: Kind,
    usual_ns: f64,
    transfers: &'a Transfers,
}

/// The slow ways of a link for people, and the ranks at it.
fn members_of(facts: &Facts<'_>, ways: &BTreeSet<Path>) -> (String, Vec<u32>) {
    match ways.first() {
        Some(&Path::Between(from, to)) if ways.len() == 1 => (
            format!("the way from {} to {}", facts.name(from), facts.name(to)),
            vec![from, to],
        ),
        Some(&Path::Between(one, other)) => (
            format!("the ways between {} and {}", facts.name(one), facts.name(other)),
            vec![one, other],
        ),
        Some(&Path::Inside(communicator)) => {
            let known = facts.session.communicators.get(communicator as usize);
            let members: Vec<u32> = known.map_or_else(Vec::new, |known| {
                known.members.iter().flatten().copied().collect()
            });
            (
                format!(
                    "the paths between {}",
                    crate::findings::shown::some(&facts.names(&members))
                ),
                members,
            )
        }
        None => ("no path".to_owned(), Vec::new()),
    }
}
