//! Operations of a window by library, operation, size class and scope, from their instances.

use super::bins::Bins;
use super::scopes::Scopes;
use crate::matching::size_class;
use crate::model::quantiles::Sketch;
use rankscope_formats::session::{
    ClassCounts, Figure, InstanceState, SelectedInstance, SelectedOperations, SelectionTotals,
    SlowestInstance, TimeHistogram, WaitClass,
};
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;

/// Size class of operations with unknown size.
const UNKNOWN_SIZE: u32 = u32::MAX;

/// Operations that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub scope: u32,
    pub operation: Operation,
    pub size: u32,
    pub is_launch: bool,
}

#[derive(Clone, Default)]
struct Sums {
    instances: u64,
    complete: u64,
    enqueued: u64,
    not_matched: u64,
    shared: u64,
    size_bytes: Option<u64>,
    exposed: Option<i64>,
    hidden: Option<i64>,
    transfer: Sketch,
    transfer_bins: Bins,
    duration: Sketch,
    duration_bins: Bins,
    algorithm: Sketch,
    bus: Sketch,
    effective: Sketch,
    invalid: u64,
    classes: ClassCounts,
    slowest: Option<SlowestInstance>,
}

/// Number of classes that are cached in front of the index.
const SLOTS: usize = 32;

impl Key {
    fn slot(&self) -> usize {
        (self.size as usize)
            .wrapping_add(self.operation as usize * 7)
            .wrapping_add(self.scope as usize * 3)
            % SLOTS
    }
}

/// Sums by class, and over all classes.
#[derive(Default)]
pub struct Operations {
    index: FxHashMap<Key, usize>,
    sums: Vec<(Key, Sums)>,
    /// Indices of the last requested classes, by [`Key::slot`]. A step repeats the same few classes.
    recent: [usize; SLOTS],
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    instances: u64,
    complete: u64,
    size_bytes: Option<u64>,
    exposed: Option<i64>,
    hidden: Option<i64>,
}

/// Returns the class of an instance. It is that of its launch if the instance carries the launch's figures.
pub fn key_of(row: &SelectedInstance, scope: u32) -> Key {
    Key {
        scope,
        operation: row.operation,
        size: payload_bytes(row.operation, row.members, row.size_bytes).map_or(UNKNOWN_SIZE, size_class),
        is_launch: carries_launch(row),
    }
}

/// Returns true if the instance carries the figures of its launch.
fn carries_launch(row: &SelectedInstance) -> bool {
    row.launch.is_some() && row.exposed_wait_rank_ns.is_some()
}

/// Returns true if the instance shares a launch, so that another instance carries the figures.
fn is_shared(row: &SelectedInstance) -> bool {
    row.state == InstanceState::Complete && row.transfer_ns.is_none()
}

/// Returns the transfer of an instance, as in the whole report. A transfer ≤ 0 does not count.
pub fn transfer_of(row: &SelectedInstance) -> Option<i64> {
    row.transfer_ns.filter(|&ns| ns > 0)
}

/// Returns the time from first enter to last leave, if both are known and not shared.
pub fn duration_of(row: &SelectedInstance) -> Option<i64> {
    let is_done = matches!(row.state, InstanceState::Complete | InstanceState::Alone);
    (is_done && !is_shared(row)).then_some(row.end_ns - row.start_ns)
}

/// Returns c·e, which determines the size class. It is S divided by the members that METRICS.md, section 2, multiplies
/// it by. Operations with a count per member have no single payload; for them it is S.
pub fn payload_bytes(operation: Operation, members: u32, size_bytes: Option<u64>) -> Option<u64> {
    let members = match operation {
        Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::Gather
        | Operation::Scatter => u64::from(members.max(1)),
        _ => 1,
    };
    Some(size_bytes? / members)
}

fn add<T: std::ops::Add<Output = T> + Copy>(sum: &mut Option<T>, value: Option<T>) {
    *sum = match (*sum, value) {
        (Some(sum), Some(value)) => Some(sum + value),
        (sum, value) => sum.or(value),
    };
}

impl Operations {
    fn sums_of(&mut self, key: Key) -> &mut Sums {
        let slot = key.slot();
        if self.sums.get(self.recent[slot]).is_none_or(|(of, _)| *of != key) {
            self.recent[slot] = *self.index.entry(key).or_insert_with(|| {
                self.sums.push((key, Sums::default()));
                self.sums.len() - 1
            });
        }
        &mut self.sums[self.recent[slot]].1
    }

    /// Counts an instance that begins in the window.
    pub fn take(&mut self, row: &SelectedInstance, scope: u32) {
        self.totals.instances += 1;
        self.totals.complete += u64::from(row.state == InstanceState::Complete);
        add(&mut self.totals.size_bytes, row.size_bytes);
        add(&mut self.totals.exposed, row.exposed_wait_rank_ns);
        add(&mut self.totals.hidden, row.hidden_wait_rank_ns);
        let key = key_of(row, scope);
        if key.is_launch {
            let own = Key {
                size: UNKNOWN_SIZE,
                is_launch: false,
                ..key
            };
            let sums = self.sums_of(own);
            sums.count(row.state);
            sums.shared += 1;
        }
        let sums = self.sums_of(key);
        sums.count(row.state);
        sums.shared += u64::from(is_shared(row));
        sums.measure(row);
    }

    /// Adds the sums of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (key, sums) in &other.sums {
            self.sums_of(*key).merge(sums);
        }
        let (totals, more) = (&mut self.totals, &other.totals);
        totals.instances += more.instances;
        totals.complete += more.complete;
        add(&mut totals.size_bytes, more.size_bytes);
        add(&mut totals.exposed, more.exposed);
        add(&mut totals.hidden, more.hidden);
    }

    /// Returns the sums over all classes.
    pub fn totals(&self) -> SelectionTotals {
        let totals = &self.totals;
        SelectionTotals {
            instances: totals.instances,
            complete: totals.complete,
            size_bytes: self.total(totals.size_bytes, "no size is known"),
            exposed_wait_rank_ns: self.total(totals.exposed, "no instance is complete"),
            hidden_wait_rank_ns: self.total(totals.hidden, "no instance is complete"),
        }
    }

    /// Returns 0 if there are no instances. If no instance has the value, it is unknown.
    fn total<T: Default>(&self, sum: Option<T>, reason: &str) -> Figure<T> {
        match sum {
            Some(sum) => Figure::known(sum),
            None if self.totals.instances == 0 => Figure::known(T::default()),
            None => Figure::unknown(reason),
        }
    }

    /// Returns the classes, the one with the most time first.
    pub fn table(&self, scopes: &Scopes) -> Vec<SelectedOperations> {
        let mut classes: Vec<&(Key, Sums)> = self.sums.iter().collect();
        let time = |sums: &Sums| sums.duration.quantiles().map_or(0.0, |quantiles| quantiles.sum);
        // Threads find classes in any order. Durations are whole numbers, so their sums do not depend on it.
        classes.sort_by(|(one, a), (two, b)| time(b).total_cmp(&time(a)).then_with(|| one.cmp(two)));
        let rows = classes.into_iter();
        rows.filter_map(|(key, sums)| Some(sums.row(key, scopes.get(key.scope)?)))
            .collect()
    }
}

impl Sums {
    fn count(&mut self, state: InstanceState) {
        self.instances += 1;
        match state {
            InstanceState::Complete => self.complete += 1,
            InstanceState::Enqueued => self.enqueued += 1,
            InstanceState::Incomplete | InstanceState::Mismatched | InstanceState::Unmatched => {
                self.not_matched += 1;
            }
            InstanceState::Alone
            | InstanceState::OneSided
            | InstanceState::WithoutKey
            | InstanceState::Template => {}
        }
    }

    fn measure(&mut self, row: &SelectedInstance) {
        add(&mut self.size_bytes, row.size_bytes);
        add(&mut self.exposed, row.exposed_wait_rank_ns);
        add(&mut self.hidden, row.hidden_wait_rank_ns);
        if let Some(ns) = transfer_of(row) {
            self.transfer.add(ns as f64);
            self.transfer_bins.add(ns);
            self.look_at(SlowestInstance {
                instance: row.instance,
                start_ns: row.start_ns,
                end_ns: row.end_ns,
                transfer_ns: ns,
            });
        }
        if let Some(ns) = duration_of(row) {
            self.duration.add(ns as f64);
            self.duration_bins.add(ns);
            if let Some(bytes) = row.size_bytes.filter(|_| ns > 0) {
                self.effective.add(bytes as f64 / ns as f64 * 1e9);
            }
        }
        if let Some(rate) = row.algorithm_bytes_per_s {
            self.algorithm.add(rate);
        }
        if let Some(rate) = row.bus_bytes_per_s {
            self.bus.add(rate);
        }
        let is_transfer_bound = row.class == WaitClass::TransferBound;
        self.invalid +=
            u64::from(is_transfer_bound && row.size_bytes.is_some() && row.bus_bytes_per_s.is_none());
        if row.state == InstanceState::Complete && !is_shared(row) {
            *match row.class {
                WaitClass::None => &mut self.classes.none,
                WaitClass::TransferBound => &mut self.classes.transfer_bound,
                WaitClass::SkewBound => &mut self.classes.skew_bound,
                WaitClass::Mixed => &mut self.classes.mixed,
                WaitClass::Inconclusive => &mut self.classes.inconclusive,
            } += 1;
        }
    }

    fn look_at(&mut self, found: SlowestInstance) {
        // The first instance of equal transfers counts, whichever thread finds it.
        let is_slower = |known: SlowestInstance| {
            (found.transfer_ns, std::cmp::Reverse(found.instance))
                > (known.transfer_ns, std::cmp::Reverse(known.instance))
        };
        if self.slowest.is_none_or(is_slower) {
            self.slowest = Some(found);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.instances += other.instances;
        self.complete += other.complete;
        self.enqueued += other.enqueued;
        self.not_matched += other.not_matched;
        self.shared += other.shared;
        add(&mut self.size_bytes, other.size_bytes);
        add(&mut self.exposed, other.exposed);
        add(&mut self.hidden, other.hidden);
        self.transfer.merge(&other.transfer);
        self.transfer_bins.merge(&other.transfer_bins);
        self.duration.merge(&other.duration);
        self.duration_bins.merge(&other.duration_bins);
        self.algorithm.merge(&other.algorithm);
        self.bus.merge(&other.bus);
        self.effective.merge(&other.effective);
        self.invalid += other.invalid;
        self.classes.transfer_bound += other.classes.transfer_bound;
        self.classes.skew_bound += other.classes.skew_bound;
        self.classes.mixed += other.classes.mixed;
        self.classes.inconclusive += other.classes.inconclusive;
        self.classes.none += other.classes.none;
        if let Some(slowest) = other.slowest {
            self.look_at(slowest);
        }
    }

    /// Returns why figures of complete instances are unknown.
    fn no_instance(&self, members: u32) -> &'static str {
        if members == 1 {
            "one member: nothing is transferred"
        } else if self.enqueued > 0 && self.complete == 0 {
            "completion times were not recorded"
        } else if self.shared > 0 && self.shared == self.complete {
            "all calls share launches with other operations"
        } else {
            "no instance is complete"
        }
    }

    fn no_bandwidth(&self, key: &Key, members: u32) -> &'static str {
        if key.operation == Operation::Barrier {
            "a barrier has no payload"
        } else if self.transfer.count() == 0 || members == 1 {
            self.no_instance(members)
        } else if self.size_bytes.is_none() {
            "sizes were not recorded, or there was no payload"
        } else {
            "no launch with a wait share of at most 20 %"
        }
    }

    fn row(&self, key: &Key, scope: &super::scopes::CommunicatorKind) -> SelectedOperations {
        let known_size = key.size != UNKNOWN_SIZE;
        let no_instance = self.no_instance(scope.members);
        let no_bandwidth = self.no_bandwidth(key, scope.members);
        let figure = |sketch: &Sketch, reason: &str| {
            sketch
                .quantiles()
                .map_or_else(|| Figure::unknown(reason), Figure::known)
        };
        let sum = |sum: Option<i64>| sum.map_or_else(|| Figure::unknown(no_instance), Figure::known);
        let histogram = |of: &str, bins: &Bins| {
            Figure::known(TimeHistogram {
                of: of.to_owned(),
                bins: bins.table(),
            })
        };
        SelectedOperations {
            library: scope.library.clone(),
            operation: key.operation.name().to_owned(),
            size_from_bytes: known_size.then(|| if key.size == 0 { 0 } else { 1 << (key.size - 1) }),
            size_below_bytes: known_size.then(|| 1u64.checked_shl(key.size).unwrap_or(u64::MAX)),
            role: scope.role.clone(),
            scope: scope.scope,
            members: scope.members,
            launches: key.is_launch,
            instances: self.instances,
            complete: self.complete,
            enqueued: self.enqueued,
            not_matched: self.not_matched,
            shared: self.shared,
            size_bytes: self.size_bytes.map_or_else(
                || {
                    Figure::unknown(
                        if key.operation == Operation::Barrier || self.transfer.count() > 0 {
                            no_bandwidth
                        } else {
                            no_instance
                        },
                    )
                },
                Figure::known,
            ),
            exposed_wait_rank_ns: sum(self.exposed),
            hidden_wait_rank_ns: sum(self.hidden),
            transfer_ns: figure(&self.transfer, no_instance),
            duration_ns: figure(&self.duration, no_instance),
            algorithm_bytes_per_s: figure(&self.algorithm, no_bandwidth),
            bus_bytes_per_s: figure(&self.bus, no_bandwidth),
            effective_bytes_per_s: figure(&self.effective, no_bandwidth),
            bandwidth_invalid: self.invalid,
            classes: self.classes,
            histogram: if self.transfer.count() > 0 {
                histogram("transfer", &self.transfer_bins)
            } else if self.duration.count() > 0 {
                histogram("duration", &self.duration_bins)
            } else {
                Figure::unknown(no_instance)
            },
            slowest: self.slowest,
        }
    }
}
