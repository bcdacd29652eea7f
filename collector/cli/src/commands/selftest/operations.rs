//! Recorded operations against those that a bench has run.

use super::outcome::Found;
use anyhow::{Context, Result};
use rankscope_formats::bench::{BenchResults, BenchRow};
use rankscope_formats::session::{OperationRow, SESSION_DIRECTORY, Session, TableReader, rank_path};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::{Library, Operation};
use std::collections::BTreeMap;
use std::path::Path;

/// Failures that are listed.
const MOST: usize = 5;

/// Number of operations by their kind and the caller's bytes.
type Counts = BTreeMap<(Operation, u64), u64>;

/// Demands that the recording has the operations of all rows, exactly unless the bench was interrupted.
pub fn check(results: &BenchResults, session: &Session, directory: &Path, found: &mut Found) -> Result<()> {
    let mut failures = Vec::new();
    let mut total = 0;
    // Messages inside collectives are sampled by design. What exceeds the sample is no lost operation.
    let sampled = LossCause::EvidenceBound.name();
    let losses = session.losses.iter().filter(|loss| loss.cause != sampled);
    let lost: u64 = losses.map(|loss| loss.count).sum();
    for rank in 0..results.ranks {
        let path = rank_path::<OperationRow>(&directory.join(SESSION_DIRECTORY), rank);
        let rows = TableReader::<OperationRow>::read_all(&path)
            .with_context(|| format!("cannot read the operations of rank {rank}"))?;
        let mut recorded = Counts::new();
        for row in &rows {
            if !matches!(row.operation, Operation::Connect | Operation::Disconnect) {
                *recorded
                    .entry((row.operation, row.bytes.unwrap_or(0)))
                    .or_default() += 1;
            }
        }
        let mut expected = Counts::new();
        for row in &results.rows {
            for (operation, per_call) in as_recorded(row, rank, results) {
                let bytes = row.elements * element_bytes(results);
                *expected.entry((operation, bytes)).or_default() += per_call * row.calls;
            }
        }
        total += expected.values().sum::<u64>();
        failures.extend(differences(&expected, recorded, results.is_complete, rank));
    }
    let wrong: u64 = results.rows.iter().filter_map(|row| row.wrong_elements).sum();
    found.demand(wrong == 0, || format!("{wrong} elements of results are wrong"));
    found.demand(lost == 0, || format!("{lost} records were dropped"));
    found.demand(total > 0, || "no operation ran".to_owned());
    if session.matching.incomplete + session.matching.mismatched > 0 && results.is_complete {
        failures.push(format!(
            "{} instances are incomplete and {} do not match",
            session.matching.incomplete, session.matching.mismatched
        ));
    }
    let more = failures.len().saturating_sub(MOST);
    failures.truncate(MOST);
    if more > 0 {
        failures.push(format!("and {more} more"));
    }
    let is_exact = failures.is_empty();
    found.failures.extend(failures);
    found.figure("operations", total as f64);
    if is_exact {
        found.seen.push(format!(
            "{total} operations of {} ranks, all recorded with their name and size",
            results.ranks
        ));
    }
    Ok(())
}

/// Returns how the recorded operations of a rank differ from the expected ones. Of an interrupted bench, later operations may
/// be recorded, too.
fn differences(expected: &Counts, mut recorded: Counts, is_complete: bool, rank: u32) -> Vec<String> {
    let mut failures = Vec::new();
    for (key, &count) in expected {
        let got = recorded.remove(key).unwrap_or(0);
        let fits = if is_complete { got == count } else { got >= count };
        if !fits {
            failures.push(format!(
                "rank {rank}: {got} of {count} {} operations of {} bytes were recorded",
                key.0.name(),
                key.1
            ));
        }
    }
    if is_complete {
        for ((operation, bytes), count) in recorded {
            failures.push(format!(
                "rank {rank}: {count} {} operations of {bytes} bytes were recorded, but never called",
                operation.name()
            ));
        }
    }
    failures
}

/// Returns the operations that one call of a row is recorded as on a rank, and their number.
fn as_recorded(row: &BenchRow, rank: u32, results: &BenchResults) -> Vec<(Operation, u64)> {
    let ranks = u64::from(results.ranks);
    let is_nccl = results.library.name == Library::Nccl.name();
    let messages = |sent: u64, received: u64| vec![(Operation::Send, sent), (Operation::Receive, received)];
    match row.operation.as_str() {
        "send-receive" => messages(1, 1),
        // With NCCL, these are groups of messages.
        "all-to-all" if is_nccl => messages(ranks, ranks),
        "gather" if is_nccl => messages(1, if rank == 0 { ranks } else { 0 }),
        "scatter" if is_nccl => messages(if rank == 0 { ranks } else { 0 }, 1),
        name => Operation::named(name)
            .map(|operation| (operation, 1))
            .into_iter()
            .collect(),
    }
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .collect()
}

fn element_bytes(results: &BenchResults) -> u64 {
    rankscope_workloads::data::DataType::ALL
        .iter()
        .find(|data_type| data_type.name() == results.data_type)
        .map_or(1, |data_type| data_type.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(Operation, u64, u64)]) -> Counts {
        of.iter()
            .map(|&(operation, bytes, count)| ((operation, bytes), count))
            .collect()
    }

    #[test]
    fn lost_added_and_changed_operations_are_found() {
        let called = counts(&[(Operation::AllReduce, 8, 20), (Operation::Broadcast, 64, 20)]);
        let found =
            |recorded: &[(Operation, u64, u64)]| differences(&called, counts(recorded), true, 0).len();
        let broadcasts = (Operation::Broadcast, 64, 20);
        assert_eq!(found(&[(Operation::AllReduce, 8, 20), broadcasts]), 0);
        assert_eq!(
            found(&[(Operation::AllReduce, 8, 19), broadcasts]),
            1,
            "one is lost"
        );
        assert_eq!(
            found(&[(Operation::AllReduce, 8, 21), broadcasts]),
            1,
            "one is recorded twice"
        );
        assert_eq!(
            found(&[(Operation::AllReduce, 16, 20), broadcasts]),
            2,
            "another size"
        );
        assert_eq!(
            found(&[(Operation::Reduce, 8, 20), broadcasts]),
            2,
            "another name"
        );
        // The ranks were killed in the middle of the next row.
        let more = counts(&[
            (Operation::AllReduce, 8, 25),
            broadcasts,
            (Operation::Reduce, 8, 3),
        ]);
        assert!(differences(&called, more, false, 0).is_empty());
    }
}
