//! Slow transfers whose members arrive in time.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::{StepTime, exposed_transfer_ns};
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use crate::measures::pairs::{Kind, Path, Transfers};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_ranklog::Operation;
use std::collections::btree_map::Entry;
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
    let Some(time) = facts.step_time().filter(|_| facts.crowded().is_empty()) else {
        return Vec::new();
    };
    let mut links: Vec<SlowLink<'_>> = slow_paths(facts)
        .into_values()
        .map(|paths| SlowLink::measure(facts, &time, paths))
        .filter(SlowLink::fires)
        .collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.cost_ns));
    links.into_iter().map(|link| link.draft(&time)).collect()
}

/// A physical link: both directions between two ranks, or all paths inside a communicator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Between(RankIndex, RankIndex),
    Inside(CommunicatorId),
}

impl Link {
    fn of(path: Path) -> Self {
        match path {
            Path::Between(from, to) => Self::Between(from.min(to), from.max(to)),
            Path::Inside(communicator) => Self::Inside(communicator),
        }
    }
}

/// The slow paths of one link.
struct SlowPaths<'a> {
    /// Time beyond the usual transfer, summed over all slow paths, in ns.
    excess_ns: f64,
    paths: BTreeSet<Path>,
    worst: Worst<'a>,
}

/// The transfers of a link with the largest time beyond the usual.
struct Worst<'a> {
    excess_ns: f64,
    kind: Kind,
    /// Number of compared paths of this kind, with this one.
    paths_of_kind: usize,
    usual_ns: f64,
    transfers: &'a Transfers,
}

/// Compares the paths of each kind, and returns the slow ones by link.
fn slow_paths<'a>(facts: &Facts<'a>) -> BTreeMap<Link, SlowPaths<'a>> {
    let mut kinds: BTreeMap<Kind, Vec<(Path, &Transfers)>> = BTreeMap::new();
    for (kind, path, transfers) in facts.parts.measures.paths.sorted() {
        if transfers.count >= MIN_TRANSFERS {
            kinds.entry(kind).or_default().push((path, transfers));
        }
    }
    kinds.retain(|_, paths| paths.len() >= MIN_PATHS);
    let mut slow: BTreeMap<Link, SlowPaths<'_>> = BTreeMap::new();
    for (kind, paths) in kinds {
        for &(path, transfers) in &paths {
            let Some(usual_ns) = usual_if_slow(&paths, path, transfers) else {
                continue;
            };
            // Time in which both directions transfer counts once.
            let excess_ns = (transfers.sum_ns - usual_ns * transfers.count as f64) * transfers.alone_share();
            let measured = Worst {
                excess_ns,
                kind,
                paths_of_kind: paths.len(),
                usual_ns,
                transfers,
            };
            match slow.entry(Link::of(path)) {
                Entry::Vacant(entry) => {
                    entry.insert(SlowPaths {
                        excess_ns,
                        paths: BTreeSet::from([path]),
                        worst: measured,
                    });
                }
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known.excess_ns += excess_ns;
                    known.paths.insert(path);
                    if excess_ns > known.worst.excess_ns {
                        known.worst = measured;
                    }
                }
            }
        }
    }
    slow
}

/// Returns the usual transfer of the other paths in ns, if this path is significantly slower.
fn usual_if_slow(paths: &[(Path, &Transfers)], path: Path, transfers: &Transfers) -> Option<f64> {
    let mut others: Vec<f64> = paths
        .iter()
        .filter(|other| other.0 != path)
        .map(|(_, transfers)| transfers.mean_ln())
        .collect();
    others.sort_by(f64::total_cmp);
    let usual = others[others.len() / 2];
    let mut deviations: Vec<f64> = others.iter().map(|mean| (mean - usual).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    // The median deviation of few paths is unreliable. The upper quartile errs on the side of silence.
    let spread = deviations[(deviations.len() * 3 / 4).min(deviations.len() - 1)];
    let above = transfers.mean_ln() - usual;
    let is_slow = above >= SLOW_TIMES.ln() && above >= ERRORS * transfers.error_ln().max(spread);
    is_slow.then(|| usual.exp())
}

/// A link with slow paths, and its cost.
struct SlowLink<'a> {
    /// Description of the slow paths.
    name: String,
    /// Ranks at the ends of the paths.
    members: Vec<RankIndex>,
    worst: Worst<'a>,
    cost_ns: i64,
    /// Step time, mean over ranks, in ns.
    mean_window_ns: i64,
}

impl<'a> SlowLink<'a> {
    /// Measures the cost: at most the exposed transfer of a participating rank.
    fn measure(facts: &Facts<'_>, time: &StepTime<'_>, slow: SlowPaths<'a>) -> Self {
        let (name, members) = members_of(facts, &slow.paths);
        let exposed = time
            .entries
            .iter()
            .filter(|entry| members.contains(&RankIndex(entry.rank)))
            .map(|&entry| exposed_transfer_ns(&[entry]))
            .max()
            .unwrap_or(0);
        Self {
            name,
            members,
            worst: slow.worst,
            cost_ns: (slow.excess_ns as i64).min(exposed),
            mean_window_ns: time.window_ns / time.ranks(),
        }
    }

    fn fires(&self) -> bool {
        self.cost_ns * 100 >= self.mean_window_ns * MIN_COST_PERCENT
    }

    fn draft(self, time: &StepTime<'_>) -> Draft {
        let Worst {
            kind,
            paths_of_kind,
            usual_ns: usual,
            transfers,
            ..
        } = self.worst;
        let (name, cost, mean_window) = (&self.name, self.cost_ns, self.mean_window_ns);
        let mean = transfers.mean_ln().exp();
        let operation = Operation::from_u8(kind.operation).map_or("operation", Operation::name);
        let draft = Draft::new(
            RULE.id,
            name,
            format!(
                "transfers on {name} are slow: {:.1} times as long as on {} similar paths, {} of step time",
                mean / usual,
                paths_of_kind - 1,
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
        .holds("paths of this kind", paths_of_kind as f64, ">=", MIN_PATHS as f64, "")
        .holds("transfers on this path", transfers.count as f64, ">=", MIN_TRANSFERS as f64, "")
        .holds("duration relative to the usual transfer", mean / usual, ">=", SLOW_TIMES, "")
        .holds(
            "share of step time",
            cost as f64 / mean_window as f64 * 100.0,
            ">=",
            MIN_COST_PERCENT as f64,
            "%",
        )
        .ranks(self.members)
        .look_at(transfers.slowest.clone())
        .cost(
            cost,
            "transfer time beyond the usual transfer of its kind (counted once while both directions are slow), \
             limited to the exposed transfer of a participating rank",
            &[TRANSFER],
        );
        time.add_cost_of_step(draft, cost)
    }
}

/// Returns a description of the slow paths of a link, and the ranks at its ends.
fn members_of(facts: &Facts<'_>, paths: &BTreeSet<Path>) -> (String, Vec<RankIndex>) {
    match paths.first() {
        Some(&Path::Between(from, to)) if paths.len() == 1 => (
            format!("the path from {} to {}", facts.name(from), facts.name(to)),
            vec![from, to],
        ),
        Some(&Path::Between(one, other)) => (
            format!("the link between {} and {}", facts.name(one), facts.name(other)),
            vec![one, other],
        ),
        Some(&Path::Inside(communicator)) => {
            let known = facts.session.communicators.get(communicator.index());
            let members: Vec<RankIndex> = known.map_or_else(Vec::new, |known| {
                known.members.iter().flatten().copied().map(RankIndex).collect()
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
