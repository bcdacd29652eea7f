//! Slow transfers whose members arrive in time.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use crate::measures::pairs::{Kind, Path, Transfers};
use rankscope_ranklog::Operation;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of transfers of a path.
const MIN_TRANSFERS: u64 = 20;
/// Minimum number of paths of one kind, to know the usual transfer.
const MIN_PATHS: usize = 4;
/// A path is slow from this multiple of the usual transfer on, …
const SLOW_TIMES: f64 = 1.5;
/// … if the difference is at least this many standard errors of the path and spreads between the other paths.
const ERRORS: f64 = 5.0;
/// Minimum cost of a finding, in percent of step time.
const MIN_COST_PERCENT: i64 = 2;

/// A slow link.
pub const RULE: Rule = Rule {
    id: "slow-link",
    title: "Transfers on one path are slower than on similar paths",
    means: "Once all members have arrived, moving the data takes longer on one path than on others of its kind. \
            Possible causes are a cable, port, switch or route.",
    fires: "Among at least four paths of one kind with at least 20 transfers each, one takes at least 1.5 times the \
            usual transfer. The difference is at least five standard errors and five times the spread between the \
            other paths. It costs at least 2 % of step time, both directions of a pair together. The kind is \
            operation, size, members, and inside or across hosts. For messages the finding names the pair, and the \
            direction if only one is slow. For collectives it names the members of the communicator.",
    silent: "Late arrivals: a transfer begins when the last member arrives. Jobs with one communicator, where no \
            path can be compared. Jobs in which all paths are slow.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    if window == 0 || !facts.crowded().is_empty() {
        return Vec::new();
    }
    let mut kinds: BTreeMap<Kind, Vec<(Path, &Transfers)>> = BTreeMap::new();
    for (kind, path, transfers) in facts.parts.measures.paths.sorted() {
        if transfers.count >= MIN_TRANSFERS {
            kinds.entry(kind).or_default().push((path, transfers));
        }
    }
    let mut slow: BTreeMap<Link, Slow> = BTreeMap::new();
    for (kind, paths) in &kinds {
        if paths.len() < MIN_PATHS {
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
            // The median deviation of few paths is unreliable. The upper quartile errs on the side of silence.
            let spread = deviations[(deviations.len() * 3 / 4).min(deviations.len() - 1)];
            let above = transfers.mean_ln() - usual;
            if above < SLOW_TIMES.ln() || above < ERRORS * transfers.error_ln().max(spread) {
                continue;
            }
            // Time in which both directions transfer counts once.
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
        // The cost is at most the exposed transfer of a participating rank.
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
        if cost * 100 < mean_window * MIN_COST_PERCENT {
            continue;
        }
        let mean = transfers.mean_ln().exp();
        let operation = Operation::from_u8(kind.operation).map_or("operation", Operation::name);
        let like = kinds.get(&kind).map_or(0, Vec::len);
        let draft = Draft::new(
            RULE.id,
            &who,
            format!(
                "transfers on {who} are slow: {:.1} times as long as on {} similar paths, {} of step time",
                mean / usual,
                like - 1,
                percent(cost, mean_window)
            ),
        )
        .evidence(format!(
            "{} of {operation} of {} to {} bytes: geometric mean {}, elsewhere {}",
            transfers.count,
            if kind.size == 0 { 0 } else { 1u64 << (kind.size - 1) },
            1u64.checked_shl(kind.size).unwrap_or(u64::MAX),
            shown(mean as i64),
            shown(usual as i64)
        ))
        .evidence("a transfer begins when all required members have arrived, so these figures contain no lateness")
        .cause("the path between these ranks is slower than others of its kind: cable, port, switch, route, or other \
                traffic")
        .advice(
            "check the counters of the network ports and NVLinks of these hosts (errors, retransmissions, width, \
             speed) and the chosen path with NCCL_DEBUG=INFO; swap hosts to see whether the slow path moves with \
             them",
        )
        .holds("paths of this kind", like as f64, ">=", MIN_PATHS as f64, "")
        .holds("transfers on this path", transfers.count as f64, ">=", MIN_TRANSFERS as f64, "")
        .holds("duration relative to the usual transfer", mean / usual, ">=", SLOW_TIMES, "")
        .holds(
            "share of step time",
            cost as f64 / mean_window as f64 * 100.0,
            ">=",
            MIN_COST_PERCENT as f64,
            "%",
        )
        .ranks(members)
        .look_at(transfers.slowest.clone())
        .cost(
            cost,
            "transfer time beyond the usual transfer of its kind (counted once while both directions are slow), \
             limited to the exposed transfer of a participating rank",
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

/// A physical link: both directions between two ranks, or all paths inside a communicator.
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
    /// Time beyond the usual transfer, summed over all slow paths, in ns.
    excess_ns: f64,
    ways: BTreeSet<Path>,
    worst: Worst<'a>,
}

/// The transfers of a link with the largest time beyond the usual.
struct Worst<'a> {
    excess_ns: f64,
    kind: Kind,
    usual_ns: f64,
    transfers: &'a Transfers,
}

/// Returns a description of the slow paths of a link, and the ranks at its ends.
fn members_of(facts: &Facts<'_>, ways: &BTreeSet<Path>) -> (String, Vec<u32>) {
    match ways.first() {
        Some(&Path::Between(from, to)) if ways.len() == 1 => (
            format!("the path from {} to {}", facts.name(from), facts.name(to)),
            vec![from, to],
        ),
        Some(&Path::Between(one, other)) => (
            format!("the link between {} and {}", facts.name(one), facts.name(other)),
            vec![one, other],
        ),
        Some(&Path::Inside(communicator)) => {
            let known = facts.session.communicators.get(communicator as usize);
            let members: Vec<u32> = known.map_or_else(Vec::new, |known| {
                known.members.iter().flatten().copied().collect()
            });
            (
                format!(
                    "the network between {}",
                    crate::findings::shown::some(&facts.names(&members))
                ),
                members,
            )
        }
        None => ("no path".to_owned(), Vec::new()),
    }
}
