//! Recordings of made-up jobs, each of them a different run.
#![allow(dead_code, reason = "each test uses its part")]

use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::{Ddp, SyntheticLog};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Writes the logs of a run. Its process numbers occur in no run with another `number`.
pub fn record(directory: &Path, job: &Ddp, number: u32) {
    fs::create_dir_all(directory).expect("a directory");
    let mut logs: Vec<SyntheticLog<BufWriter<File>>> = (0..job.ranks)
        .map(|rank| {
            let file = File::create(directory.join(format!("rank-{rank}.rslog"))).expect("a file");
            let (file, of) = (BufWriter::new(file), (rank, job.ranks));
            let mut log = SyntheticLog::new_of(file, of.0, of.1, "host-a", u64::from(number) << 8, number)
                .expect("written");
            for (key, value) in [("processor_model", "Made-Up 9000"), ("processors", "64")] {
                log.property(key, value).expect("written");
            }
            log.communicator(0, rank, job.ranks, number as u8)
                .expect("written");
            log
        })
        .collect();
    job.fill(&mut logs).expect("written");
    for log in logs {
        log.end().expect("written");
    }
}

/// Returns a small job.
pub fn small() -> Ddp {
    Ddp {
        ranks: 2,
        steps: 20,
        noise: 1,
        ..Ddp::default()
    }
}

/// Records and merges a run.
pub fn merged(directory: &Path, job: &Ddp, number: u32) -> PathBuf {
    record(directory, job, number);
    let options = MergeOptions {
        directories: vec![directory.to_path_buf()],
        output: directory.join("session"),
        threads: Some(1),
        most_pending: None,
        origins: Vec::new(),
    };
    merge(&options, &mut |_| {}).expect("merged");
    directory.to_path_buf()
}
