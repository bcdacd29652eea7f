//! Operations of a run's counted steps: by class, by rank, and their order.

use super::cells::{Cells, Place};
use super::counted_steps::CountedSteps;
use super::sums::{Class, Sums};
use crate::metrics::{
    BUSBW, BYTES, OPERATION_TRANSFER, OPERATION_WAIT, OPERATIONS, TRANSFER_TIME, WAIT_SHARE,
};
use rankscope_analysis::matching::size_class;
use rankscope_analysis::model::fingerprint::Fnv;
use rankscope_analysis::model::labels;
use rankscope_analysis::selection::payload_bytes;
use rankscope_formats::comparison::OperationOfRun;
use rankscope_formats::files;
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::Scope;
use rankscope_formats::session::{
    ComparedInstance, ComparedOperation, InstanceRow, OperationRow, OperationState, Session, TableError,
    TableReader, part_path, rank_path,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Attributes that distinguish classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ClassKey {
    operation: rankscope_ranklog::Operation,
    size: Option<u32>,
    group: usize,
    is_launch: bool,
}

/// Communicators grouped by role, scope and world.
struct Groups {
    all: Vec<(String, Scope)>,
    of: Vec<Option<usize>>,
}

impl Groups {
    fn new(session: &Session, world: u32) -> Self {
        let mut all: Vec<(String, Scope)> = Vec::new();
        let of = session
            .communicators
            .iter()
            .map(|known| {
                if known.world.is_some_and(|of| of != world) {
                    return None;
                }
                let group = (known.role.clone(), known.scope);
                let at = all.iter().position(|known| *known == group);
                Some(at.unwrap_or_else(|| {
                    all.push(group);
                    all.len() - 1
                }))
            })
            .collect();
        Self { all, of }
    }
}

impl Groups {
    /// Formats a class: `all-reduce 1-2 MiB world inside-host`.
    fn label(&self, key: ClassKey) -> String {
        let (role, scope) = &self.all[key.group];
        let together = if key.is_launch { " in groups" } else { "" };
        format!(
            "{}{together} {} {role} {scope}",
            key.operation.name(),
            size_label(key.size)
        )
    }
}

/// Formats a size class as users type it: `1-2 MiB`.
fn size_label(size: Option<u32>) -> String {
    match size {
        None => "of unknown size".to_owned(),
        Some(0) => "0 B".to_owned(),
        Some(power) => {
            labels::sizes(1 << (power - 1), 1_u64.checked_shl(power).unwrap_or(u64::MAX)).replace('–', "-")
        }
    }
}

/// Reads the instances of the world's communicators.
pub fn instances(
    directory: &Path,
    session: &Session,
    world: u32,
    counted: &CountedSteps,
    sums: &mut Sums,
) -> Result<(), TableError> {
    let path = part_path::<InstanceRow>(directory);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let groups = Groups::new(session, world);
    let ranks = session
        .worlds
        .get(world as usize)
        .map_or(1, |world| world.ranks.len().max(1)) as f64;
    let mut classes: FxHashMap<ClassKey, OfClass> = FxHashMap::default();
    let mut reader = TableReader::<ComparedInstance>::open(&path)?;
    let mut rows: Vec<ComparedInstance> = Vec::new();
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..) {
            let Some(place) = counted.place(row.step) else {
                continue;
            };
            let Some(group) = groups.of.get(row.communicator.index()).copied().flatten() else {
                continue;
            };
            let bytes = payload_bytes(row.operation, row.members, row.size_bytes);
            let key = ClassKey {
                operation: row.operation,
                size: bytes.map(size_class),
                group,
                is_launch: row.launch.is_some(),
            };
            classes.entry(key).or_default().add(place, &row, bytes, ranks);
        }
    }
    let mut classes: Vec<(String, ClassKey, OfClass)> = classes
        .into_iter()
        .map(|(key, class)| (groups.label(key), key, class))
        .collect();
    classes.sort_by(|one, other| one.0.cmp(&other.0));
    for (label, key, class) in classes {
        let (role, scope) = groups.all[key.group].clone();
        let entry = Class {
            operation: key.operation.name().to_owned(),
            role,
            scope,
            size_from_bytes: key
                .size
                .map(|power| if power == 0 { 0 } else { 1 << (power - 1) }),
            instances: class.instances,
            bytes: class.bytes,
        };
        class.add_metrics(&label, sums);
        sums.classes.insert(label, entry);
    }
    Ok(())
}

/// Sums over the instances of a class.
#[derive(Default)]
struct OfClass {
    instances: u64,
    bytes: u64,
    transfer: Cells,
    bandwidth: Cells,
    wait: Cells,
}

impl OfClass {
    /// Adds an instance of the step at `place`. `ranks` is the number of ranks of the world.
    fn add(&mut self, place: Place, row: &ComparedInstance, bytes: Option<u64>, ranks: f64) {
        self.instances += 1;
        self.bytes = self.bytes.saturating_add(bytes.unwrap_or(0));
        // A transfer that took no time does not count, as in the report (METRICS.md, section 2).
        if let Some(transfer) = row.transfer_ns.filter(|&ns| ns > 0) {
            self.transfer.add(place, transfer as f64, 1.0);
        }
        if let Some(bandwidth) = row.bus_bytes_per_s {
            self.bandwidth.add(place, bandwidth, 1.0);
        }
        if let Some(wait) = row.exposed_wait_rank_ns {
            self.wait.add(place, wait as f64 / ranks, 0.0);
        }
    }

    /// Adds the metrics of the class to those of the run.
    fn add_metrics(&self, label: &str, sums: &mut Sums) {
        // Transfer per step is the same sum, divided by steps instead of launches.
        let cells = [
            (TRANSFER_TIME, &self.transfer),
            (OPERATION_TRANSFER, &self.transfer),
            (BUSBW, &self.bandwidth),
            (OPERATION_WAIT, &self.wait),
        ];
        for (metric, cells) in cells.into_iter().filter(|(_, cells)| !cells.is_empty()) {
            sums.cells
                .entry((metric, label.to_owned()))
                .or_default()
                .merge(cells);
        }
    }
}

/// Reads the operations of one rank. For the first rank, also reads the sequence of each step.
pub fn of_rank(
    directory: &Path,
    session: &Session,
    rank: u32,
    is_first: bool,
    counted: &CountedSteps,
    sums: &mut Sums,
) -> Result<(), TableError> {
    let path = rank_path::<OperationRow>(directory, rank);
    if !files::may_exist(&path) {
        return Ok(());
    }
    let mut reader = TableReader::<ComparedOperation>::open(&path)?;
    let mut rows: Vec<ComparedOperation> = Vec::new();
    let mut steps: BTreeMap<StepIndex, Vec<(i64, u64)>> = BTreeMap::new();
    let (mut operations, mut payload, mut waits) = (Cells::default(), Cells::default(), Cells::default());
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..) {
            let Some(place) = counted.place(row.step) else {
                continue;
            };
            if row.state == OperationState::Captured {
                continue;
            }
            operations.add(place, 1.0, 0.0);
            payload.add(place, row.bytes.unwrap_or(0) as f64, 0.0);
            if let (Some(exposed), Some(hidden), Some(leave), 1) = (
                row.exposed_wait_ns,
                row.hidden_wait_ns,
                row.leave_ns,
                row.launch_operations,
            ) {
                // METRICS.md, section 3: only waiting inside the operation counts, not waiting in a queue before it.
                let until = row.waited_until_ns.unwrap_or(row.enter_ns);
                let since_enter = until.saturating_sub(row.enter_ns).max(0);
                let waited = exposed.saturating_add(hidden).min(since_enter);
                let inside = leave.saturating_sub(row.enter_ns);
                waits.add(place, waited as f64, inside as f64);
            }
            if let (true, Some(step)) = (is_first, row.step) {
                let asked = row.issue_ns.or(row.called_ns).unwrap_or(row.enter_ns);
                steps
                    .entry(step)
                    .or_default()
                    .push((asked, call_hash(session, &row)));
            }
        }
    }
    for (metric, cells) in [(OPERATIONS, operations), (BYTES, payload), (WAIT_SHARE, waits)] {
        if !cells.is_empty() {
            sums.cells
                .entry((metric, String::new()))
                .or_default()
                .merge(&cells);
        }
    }
    for (_, mut calls) in steps {
        calls.sort_by_key(|call| call.0);
        let calls: Vec<u64> = calls.into_iter().map(|(_, call)| call).collect();
        // The position of a cut between steps depends on timing, but the cyclic order does not.
        let (before, after) = calls.split_at(least_rotation(&calls));
        let mut hash = Fnv::default();
        after
            .iter()
            .chain(before)
            .for_each(|call| hash.add(&call.to_le_bytes()));
        sums.sequence.add(hash.hash());
    }
    Ok(())
}

/// Returns the start of the lexicographically smallest rotation of a sequence. It is equal for all rotations of one
/// sequence (the algorithm of two pointers, Shiloach 1981).
fn least_rotation(calls: &[u64]) -> usize {
    let count = calls.len();
    let (mut one, mut other, mut same) = (0, 1, 0);
    while one < count && other < count && same < count {
        match calls[(one + same) % count].cmp(&calls[(other + same) % count]) {
            std::cmp::Ordering::Equal => same += 1,
            std::cmp::Ordering::Greater => {
                one += same + 1;
                same = 0;
            }
            std::cmp::Ordering::Less => {
                other += same + 1;
                same = 0;
            }
        }
        if one == other {
            other += 1;
        }
    }
    one.min(other).min(count)
}

/// Returns the identity of a call in a sequence. It is equal in all runs of the same program.
fn call_hash(session: &Session, row: &ComparedOperation) -> u64 {
    let mut hash = Fnv::default();
    hash.add(row.operation.name().as_bytes());
    hash.add(&row.bytes.unwrap_or(u64::MAX).to_le_bytes());
    let communicator = row
        .communicator
        .and_then(|number| session.communicators.get(number.index()));
    if let Some(known) = communicator {
        hash.add(known.role.as_bytes());
        hash.add(&known.size.to_le_bytes());
    }
    hash.hash()
}

/// Returns the operations of the mean step, by class.
pub fn of_run(sums: &Sums, counted: &CountedSteps) -> Vec<OperationOfRun> {
    let steps = counted.counted.max(1) as f64;
    sums.classes
        .iter()
        .map(|(label, class)| OperationOfRun {
            class: label.clone(),
            operation: class.operation.clone(),
            role: class.role.clone(),
            scope: class.scope,
            size_from_bytes: class.size_from_bytes,
            instances_per_step: class.instances as f64 / steps,
            bytes_per_step: class.bytes as f64 / steps,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_rotations_start_at_the_same_place(calls in prop::collection::vec(0..3_u64, 0..12), by in 0..12_usize) {
            let rotated = |calls: &[u64], at: usize| [&calls[at..], &calls[..at]].concat();
            let least = rotated(&calls, least_rotation(&calls));
            let all = (0..calls.len()).map(|at| rotated(&calls, at));
            prop_assert_eq!(&least, &all.min().unwrap_or_default());
            let other = rotated(&calls, by.min(calls.len()));
            prop_assert_eq!(least, rotated(&other, least_rotation(&other)));
        }
    }
}
