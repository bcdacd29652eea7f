//! Table of operations by library, operation, size class, role, scope and number of members.

use crate::identity::GlobalCommunicator;
use crate::matching::size_class;
use crate::measures::figures::{Figures, TransferClass};
use crate::measures::waited::Waited;
use crate::model::operation::{NO_STEP, NO_TIME, RankOperation};
use crate::model::quantiles::Sketch;
use rankscope_formats::session::Scope;
use rankscope_formats::session::{
    ClassCounts, Figure, LookAt, OperationClass, OperationState, RequestedOperation, SmallLaunches,
    TransferBound, WaitClass,
};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Size class of operations with unknown size.
const UNKNOWN_SIZE: u32 = u32::MAX;
/// Maximum payload of launches in the latency score (METRICS.md, section 9), in bytes.
const SMALL_BYTES: u64 = 1 << 16;

#[derive(Default)]
struct Sums {
    operations: u64,
    shared: u64,
    instances: u64,
    failed: u64,
    enqueued: u64,
    bytes: u64,
    duration: Sketch,
    queue: Sketch,
    waited: Waited,
    upper_bound: bool,
    transfer: Sketch,
    algorithm: Sketch,
    bus: Sketch,
    effective: Sketch,
    shortest_used: u64,
    invalid: u64,
    classes: ClassCounts,
    transfer_bound: TransferBound,
    slowest: Option<LookAt>,
    /// Number of calls by the operation that the program requested, where it is another one.
    requested: BTreeMap<Operation, u64>,
    /// The last two transfers, and the largest minimum of three consecutive transfers, in ns.
    last_two: [Option<i64>; 2],
    longest_three: Option<i64>,
}

impl Sums {
    fn add(&mut self, members: &[RankOperation], figures: &Figures<'_>) {
        let Figures { wait, bandwidth, .. } = figures;
        self.remember(members, figures.instance.number, wait.transfer_ns);
        self.add_waits(figures);
        if let Some((bytes, ns)) = bandwidth.on_bus {
            self.transfer_bound.launches += 1;
            self.transfer_bound.bus_bytes += bytes;
            self.transfer_bound.transfer_ns += ns as f64;
        }
        if wait.transfer_ns > 0 {
            self.transfer.add(wait.transfer_ns as f64);
        }
        if let Some(value) = bandwidth.algorithm {
            self.algorithm.add(value);
        }
        if let Some(value) = bandwidth.bus {
            self.bus.add(value);
        }
        if let Some(value) = bandwidth.effective {
            self.effective.add(value);
        }
        self.shortest_used += u64::from(bandwidth.shortest_used);
        self.invalid += u64::from(bandwidth.invalid);
        let counter = match wait.class {
            WaitClass::None => &mut self.classes.none,
            WaitClass::TransferBound => &mut self.classes.transfer_bound,
            WaitClass::SkewBound => &mut self.classes.skew_bound,
            WaitClass::Mixed => &mut self.classes.mixed,
            WaitClass::Inconclusive => &mut self.classes.inconclusive,
        };
        *counter += 1;
    }

    fn add_waits(&mut self, figures: &Figures<'_>) {
        self.instances += 1;
        self.upper_bound |= figures.wait.upper_bound;
        self.waited += figures.waited;
    }

    /// Updates the slowest transfer and the consecutive slow ones.
    fn remember(&mut self, members: &[RankOperation], number: u64, transfer_ns: i64) {
        let Some(first) = members.first().filter(|_| transfer_ns > 0) else {
            return;
        };
        if let [Some(one), Some(other)] = self.last_two {
            let three = one.min(other).min(transfer_ns);
            self.longest_three = Some(self.longest_three.map_or(three, |known| known.max(three)));
        }
        self.last_two = [self.last_two[1], Some(transfer_ns)];
        let is_slower = |known: &LookAt| transfer_ns > known.end_ns - known.start_ns;
        if self.slowest.as_ref().is_none_or(is_slower) {
            let end_ns = members.iter().map(|member| member.leave_ns).max().unwrap_or(0);
            self.slowest = Some(LookAt {
                what: format!("the longest transfer of its class: {}", first.operation.name()),
                rank: Some(first.rank.0),
                instance: Some(number),
                step: (first.step != NO_STEP).then_some(u64::from(first.step.0)),
                start_ns: end_ns - transfer_ns,
                end_ns,
            });
        }
    }
}

/// Communicators that are counted together: same role, scope and number of members.
#[derive(Clone, PartialEq, Eq)]
struct CommunicatorKind {
    role: &'static str,
    scope: Scope,
    members: u32,
}

/// Operations that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    scope: u32,
    library: Library,
    operation: Operation,
    size: u32,
    /// True for launches of several operations, which count as one.
    is_launch: bool,
}

/// Collects operations into classes.
pub struct Classes {
    scopes: Vec<CommunicatorKind>,
    /// Scope of each communicator, followed by that of operations without a communicator.
    scope_of: Vec<u32>,
    /// Number of operations per communicator.
    pub per_communicator: Vec<u64>,
    index: FxHashMap<Key, usize>,
    /// Index of the last requested class.
    last: usize,
    sums: Vec<(Key, Sums)>,
    /// Transfers of launches of at most 64 KiB, by their scope.
    small: BTreeMap<Scope, Sketch>,
}

impl Classes {
    /// Creates an empty table for these communicators.
    pub fn new(communicators: &[GlobalCommunicator]) -> Self {
        let mut scopes: Vec<CommunicatorKind> = Vec::new();
        let unknown = CommunicatorKind {
            role: "unknown",
            scope: Scope::Unknown,
            members: 0,
        };
        let scope_of = communicators
            .iter()
            .map(|known| CommunicatorKind {
                role: known.role,
                scope: known.scope,
                members: known.size,
            })
            .chain([unknown])
            .map(|scope| {
                scopes
                    .iter()
                    .position(|known| *known == scope)
                    .unwrap_or_else(|| {
                        scopes.push(scope);
                        scopes.len() - 1
                    }) as u32
            })
            .collect();
        Self {
            scopes,
            scope_of,
            per_communicator: vec![0; communicators.len()],
            index: FxHashMap::default(),
            last: 0,
            sums: Vec::new(),
            small: BTreeMap::new(),
        }
    }

    fn sums(&mut self, operation: &RankOperation) -> &mut Sums {
        let size = operation.known_bytes().map_or(UNKNOWN_SIZE, size_class);
        self.sums_of(operation, size, false)
    }

    fn sums_of(&mut self, operation: &RankOperation, size: u32, is_launch: bool) -> &mut Sums {
        let last = self.scope_of.len() - 1;
        let scope = self.scope_of[operation.communicator.index().min(last)];
        let key = Key {
            scope,
            library: operation.library,
            operation: operation.operation,
            size,
            is_launch,
        };
        // The calls of an instance have the same class, so it is usually the last one.
        if self.sums.get(self.last).is_none_or(|(of, _)| *of != key) {
            self.last = *self.index.entry(key).or_insert_with(|| {
                self.sums.push((key, Sums::default()));
                self.sums.len() - 1
            });
        }
        &mut self.sums[self.last].1
    }

    /// Returns the number of transfers so far in the class of an instance with this first member, and their median in
    /// ns.
    pub fn transfers_like(&mut self, first: &RankOperation, class: TransferClass) -> (u64, f64) {
        let sums = match class {
            TransferClass::Operation => self.sums(first),
            TransferClass::Launch { bytes } => {
                self.sums_of(first, bytes.map_or(UNKNOWN_SIZE, size_class), true)
            }
        };
        (sums.transfer.count(), sums.transfer.quantile(0.5))
    }

    /// Counts one call, matched or not.
    pub fn operation(&mut self, operation: &RankOperation) {
        if let Some(count) = self.per_communicator.get_mut(operation.communicator.index()) {
            *count += 1;
        }
        let sums = self.sums(operation);
        sums.operations += 1;
        sums.bytes = sums.bytes.saturating_add(operation.known_bytes().unwrap_or(0));
        if let Some(requested) = operation.operation.requested_as(operation.requested) {
            *sums.requested.entry(requested).or_default() += 1;
        }
        sums.failed += u64::from(operation.state == OperationState::Failed);
        sums.enqueued += u64::from(operation.state == OperationState::Enqueued);
        if operation.is_shared() && operation.state == OperationState::Completed {
            // Its duration belongs to its launch.
            sums.shared += 1;
        } else if operation.leave_ns != NO_TIME {
            sums.duration
                .add((operation.leave_ns - operation.enter_ns) as f64);
        }
        if operation.issue_ns != NO_TIME {
            sums.queue.add((operation.enter_ns - operation.issue_ns) as f64);
        }
    }

    /// Counts a complete instance in the class of its first member.
    pub fn instance(&mut self, members: &[RankOperation], figures: &Figures<'_>) {
        let Some(first) = members.first() else { return };
        self.count_small(first, first.known_bytes(), figures.wait.transfer_ns);
        self.sums(first).add(members, figures);
    }

    /// Counts transfers for the latency score (METRICS.md, section 9).
    fn count_small(&mut self, first: &RankOperation, bytes: Option<u64>, transfer_ns: i64) {
        if bytes.is_none_or(|bytes| bytes > SMALL_BYTES) || transfer_ns <= 0 {
            return;
        }
        let last = self.scope_of.len() - 1;
        let scope = self.scope_of[first.communicator.index().min(last)];
        let scope = self.scopes[scope as usize].scope;
        self.small.entry(scope).or_default().add(transfer_ns as f64);
    }

    /// Returns the transfers for the latency score.
    pub fn small_launches(&self) -> Vec<SmallLaunches> {
        let scopes = self.small.iter();
        scopes
            .filter_map(|(scope, sketch)| {
                Some(SmallLaunches {
                    scope: *scope,
                    transfer_ns: sketch.quantiles()?,
                })
            })
            .collect()
    }

    /// Counts a launch of several instances of one operation, in the class of the first member of its first instance.
    /// With the sum of their payloads, it counts as one instance in a separate class.
    pub fn launch(&mut self, members: &[RankOperation], bytes: Option<u64>, figures: &Figures<'_>) {
        let Some(first) = members.first() else { return };
        self.count_small(first, bytes, figures.wait.transfer_ns);
        let sums = self.sums_of(first, bytes.map_or(UNKNOWN_SIZE, size_class), true);
        sums.operations += members.len() as u64;
        let own = bytes.unwrap_or(0).saturating_mul(members.len() as u64);
        sums.bytes = sums.bytes.saturating_add(own);
        for member in members {
            sums.duration.add((member.leave_ns - member.enter_ns) as f64);
        }
        sums.add(members, figures);
    }

    /// Counts a complete instance that shares its launch, so only its waits are known.
    pub fn waited(&mut self, first: &RankOperation, figures: &Figures<'_>) {
        self.sums(first).add_waits(figures);
    }

    /// Returns the table, the class with the most time first.
    pub fn table(&self) -> Vec<OperationClass> {
        let mut rows: Vec<(f64, OperationClass)> = self
            .sums
            .iter()
            .map(|(key, sums)| {
                let time = sums.duration.quantiles().map_or(0.0, |quantiles| quantiles.sum);
                (time, row(key, &self.scopes[key.scope as usize], sums))
            })
            .collect();
        rows.sort_by(|(one, a), (two, b)| {
            two.total_cmp(one).then_with(|| {
                (&a.operation, a.size_from_bytes, a.members).cmp(&(
                    &b.operation,
                    b.size_from_bytes,
                    b.members,
                ))
            })
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// Returns the requested operations, most calls first.
fn requested(calls: &BTreeMap<Operation, u64>) -> Vec<RequestedOperation> {
    let mut sorted: Vec<RequestedOperation> = calls
        .iter()
        .map(|(operation, &calls)| RequestedOperation {
            operation: operation.name().to_owned(),
            calls,
        })
        .collect();
    sorted.sort_by_key(|requested| std::cmp::Reverse(requested.calls));
    sorted
}

/// Returns the row of a class.
fn row(key: &Key, scope: &CommunicatorKind, sums: &Sums) -> OperationClass {
    let known_size = key.size != UNKNOWN_SIZE;
    let no_bandwidth = why_no_bandwidth(key, scope, sums);
    let figure = |sketch: &Sketch, reason: &str| {
        let known = sketch.quantiles();
        known.map_or_else(|| Figure::unknown(reason), Figure::known)
    };
    OperationClass {
        library: key.library.name().to_owned(),
        operation: key.operation.name().to_owned(),
        size_from_bytes: known_size.then(|| if key.size == 0 { 0 } else { 1 << (key.size - 1) }),
        size_below_bytes: known_size.then(|| 1u64.checked_shl(key.size).unwrap_or(u64::MAX)),
        role: scope.role.to_owned(),
        scope: scope.scope,
        members: scope.members,
        launches: key.is_launch,
        operations: sums.operations,
        requested: requested(&sums.requested),
        shared: sums.shared,
        instances: sums.instances,
        failed: sums.failed,
        bytes: if known_size {
            Figure::known(sums.bytes)
        } else {
            Figure::unknown("sizes could not be read from this version of the library")
        },
        duration_ns: figure(
            &sums.duration,
            if sums.enqueued > 0 {
                "completion times were not recorded"
            } else if sums.shared > 0 {
                "all calls share launches with other operations"
            } else {
                "no call completed"
            },
        ),
        queue_ns: figure(&sums.queue, "these calls have no queue"),
        exposed_wait_rank_ns: sums.waited.exposed_ns,
        hidden_wait_rank_ns: sums.waited.hidden_ns,
        wait_is_upper_bound: sums.upper_bound,
        transfer_ns: figure(&sums.transfer, why_no_transfer(scope, sums)),
        algorithm_bytes_per_s: figure(&sums.algorithm, no_bandwidth),
        bus_bytes_per_s: figure(&sums.bus, no_bandwidth),
        effective_bytes_per_s: figure(
            &sums.effective,
            if sums.instances > 0 && known_size && sums.shared < sums.operations {
                "no payload"
            } else {
                no_bandwidth
            },
        ),
        shortest_duration_used: sums.shortest_used,
        bandwidth_invalid: sums.invalid,
        classes: sums.classes,
        transfer_bound: sums.transfer_bound,
        slowest: sums.slowest.clone(),
        longest_three_in_a_row_ns: sums.longest_three.map_or_else(
            || Figure::unknown("fewer than three launches have a transfer"),
            Figure::known,
        ),
    }
}

/// Returns the reason why a class has no bandwidth.
fn why_no_bandwidth(key: &Key, scope: &CommunicatorKind, sums: &Sums) -> &'static str {
    if key.size == UNKNOWN_SIZE {
        "sizes were not recorded"
    } else if key.operation == Operation::Barrier {
        "a barrier has no payload"
    } else if scope.members == 1 {
        "one member: nothing is transferred"
    } else if sums.instances == 0 && sums.enqueued > 0 {
        "completion times were not recorded"
    } else if sums.shared > 0 && sums.shared == sums.operations {
        "all calls share launches with other operations"
    } else if sums.instances == 0 {
        "no instance is complete"
    } else {
        "no launch with a wait share of at most 20 %"
    }
}

/// Returns the reason why a class has no transfer time.
fn why_no_transfer(scope: &CommunicatorKind, sums: &Sums) -> &'static str {
    if scope.members == 1 {
        "one member: nothing is transferred"
    } else if sums.enqueued > 0 {
        "completion times were not recorded"
    } else if sums.shared > 0 && sums.shared == sums.operations {
        "all calls share launches with other operations"
    } else {
        "no instance is complete"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_three_in_a_row_is_the_largest_minimum_of_three_neighbours() {
        let longest = |transfers: &[i64]| {
            let mut sums = Sums::default();
            for (number, &ns) in (0..).zip(transfers) {
                sums.remember(&[RankOperation::sample(0, 0, ns.max(1))], number, ns);
            }
            (
                sums.longest_three,
                sums.slowest.and_then(|moment| moment.instance),
            )
        };
        assert_eq!(longest(&[]), (None, None));
        assert_eq!(longest(&[9, 9]), (None, Some(0)));
        // 5 7 6 → 5, 7 6 2 → 2, 6 2 8 → 2.
        assert_eq!(longest(&[5, 7, 6, 2, 8]), (Some(5), Some(4)));
        // An instance without a transfer does not count in the row.
        assert_eq!(longest(&[5, 0, 7, 6]), (Some(5), Some(2)));
        assert_eq!(longest(&[1, 100, 1, 100, 1]), (Some(1), Some(1)));
    }
}
