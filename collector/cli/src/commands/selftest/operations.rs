//! Recorded operations against those that a bench has run.

use super::outcome::Found;
use crate::commands::session::FOLDER;
use anyhow::{Context, Result};
use rankscope_formats::bench::{BenchResults, BenchRow};
use rankscope_formats::session::{OperationRow, Session, TableReader, rank_path};
use rankscope_ranklog::Operation;
use std::collections::BTreeMap;
use std::path::Path;

/// Operations of a row before its blocks, with `--warmup 1`: the check and one more.
const BEFORE_BLOCKS: u32 = 2;
/// Operations of a block before its clock starts.
const SETTLING: u32 = 2;
/// Failures that are listed.
const MOST: usize = 5;

/// Returns the operations that a row runs on each rank.
fn runs(row: &BenchRow) -> u64 {
    u64::from(BEFORE_BLOCKS + row.blocks_ns.len() as u32 * (SETTLING + row.iterations))
}

/// Demands that the recording has the operations of all rows, exactly unless the bench was interrupted.
pub fn check(results: &BenchResults, session: &Session, directory: &Path, found: &mut Found) -> Result<()> {
    let mut failures = Vec::new();
    let mut total = 0;
    let lost: u64 = session.losses.iter().map(|loss| loss.count).sum();
    for rank in 0..results.ranks {
        let path = rank_path::<OperationRow>(&directory.join(FOLDER), rank);
        let rows = TableReader::<OperationRow>::read_all(&path)
            .with_context(|| format!("cannot read the operations of rank {rank}"))?;
        let mut recorded: BTreeMap<(Operation, u64), u64> = BTreeMap::new();
        for row in &rows {
            if !matches!(row.operation, Operation::Connect | Operation::Disconnect) {
                *recorded
                    .entry((row.operation, row.bytes.unwrap_or(0)))
                    .or_default() += 1;
            }
        }
        let mut expected: BTreeMap<(Operation, u64), u64> = BTreeMap::new();
        for row in &results.rows {
            for (operation, per_run) in parts(row, rank, results) {
                let bytes = row.elements * element_bytes(results);
                *expected.entry((operation, bytes)).or_default() += per_run * runs(row);
            }
        }
        total += expected.values().sum::<u64>();
        for (key, &count) in &expected {
            let got = recorded.remove(key).unwrap_or(0);
            let fits = if results.is_complete {
                got == count
            } else {
                got >= count
            };
            if !fits {
                failures.push(format!(
                    "rank {rank}: {got} of {count} {} operations of {} bytes were recorded",
                    key.0.name(),
                    key.1
                ));
            }
        }
        if results.is_complete {
            for ((operation, bytes), count) in recorded {
                failures.push(format!(
                    "rank {rank}: {count} {} operations of {bytes} bytes were recorded, but never called",
                    operation.name()
                ));
            }
        }
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

/// Returns the recorded operations of one run of a row on a rank, and their number.
fn parts(row: &BenchRow, rank: u32, results: &BenchResults) -> Vec<(Operation, u64)> {
    let ranks = u64::from(results.ranks);
    let is_nccl = results.library.name == "nccl";
    let messages = |sent: u64, received: u64| vec![(Operation::Send, sent), (Operation::Receive, received)];
    match row.operation.as_str() {
        "send-receive" => messages(1, 1),
        // With NCCL, these are groups of messages.
        "all-to-all" if is_nccl => messages(ranks, ranks),
        "gather" if is_nccl => messages(1, if rank == 0 { ranks } else { 0 }),
        "scatter" if is_nccl => messages(if rank == 0 { ranks } else { 0 }, 1),
        name => Operation::ALL
            .iter()
            .filter(|operation| operation.name() == name)
            .map(|&operation| (operation, 1))
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
