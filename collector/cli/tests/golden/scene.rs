//! Calls of ranks, written as logs and merged.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::{START, SyntheticLog, call};
use rankscope_formats::session::{InstanceRow, Session, TableReader, part_path};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::Record;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// One microsecond, in nanoseconds.
pub const US: i64 = 1_000;

/// A log that is being written.
pub type Log = SyntheticLog<BufWriter<File>>;

/// Makes a call of a rank, with its times in µs.
pub fn at(operation: Operation, [from, to]: [u64; 2], tag: u32, bytes: u64) -> Record {
    let ticks = |us: u64| START + us * US as u64;
    call(operation, ticks(from), ticks(to), tag, bytes, 0)
}

/// Makes a call with a root.
pub fn rooted(operation: Operation, times: [u64; 2], root: i32) -> Record {
    Record {
        peer: root,
        ..at(operation, times, 0, 4096)
    }
}

/// Writes the logs of ranks 0 to `size` − 1 on one host, with a communicator of all of them. Closes each log after
/// `write`.
pub fn logs(run: &Path, size: u32, mut write: impl FnMut(u32, &mut Log)) {
    for rank in 0..size {
        let mut log = SyntheticLog::create(run, rank, size, "a").expect("create");
        log.communicator(0, rank, size, 7).expect("communicator");
        write(rank, &mut log);
        log.end().expect("end");
    }
}

/// Merges a run.
pub fn merged(run: &Path) -> (Session, Vec<InstanceRow>) {
    let output = run.join("session");
    let options = MergeOptions {
        directories: vec![run.to_path_buf()],
        output: output.clone(),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    let session = merge(&options, &mut |_| {}).expect("merge");
    let instances = TableReader::read_all(&part_path::<InstanceRow>(&output)).expect("instances");
    (session, instances)
}

/// Merges ranks that each make these calls.
pub fn of(calls: &[Vec<Record>]) -> (Session, Vec<InstanceRow>) {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), calls.len() as u32, |rank, log| {
        for &record in &calls[rank as usize] {
            log.push(0, record);
        }
    });
    merged(folder.path())
}

/// Merges ranks that each call one operation once.
pub fn once(calls: &[Record]) -> (Session, InstanceRow) {
    let calls: Vec<Vec<Record>> = calls.iter().map(|&record| vec![record]).collect();
    let (session, mut instances) = of(&calls);
    assert_eq!(instances.len(), 1);
    (session, instances.remove(0))
}
