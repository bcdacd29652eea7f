//! How long does `rankscope status` take on many ranks? Writes logs of ranks on many hosts, as their recorders leave them in a
//! shared run directory while the job hangs, and measures the released program.
//!
//! One rank has not called the last all-reduce.

use rankscope_fixtures::logs::{Ddp, SyntheticLog, TRAINING, WORKER, blocked, call, issue};
use rankscope_formats::status::{HangKind, Status};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{BlockedIn, Record};
use rankscope_tests::artefacts;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const RANKS: [u32; 3] = [8, 512, 4096];
const REPEATS: usize = 5;
const STEPS: u32 = 40;

fn write(directory: &Path, ranks: u32) -> std::io::Result<()> {
    let job = Ddp {
        ranks,
        steps: STEPS,
        hosts: ranks.div_ceil(8),
        ..Ddp::default()
    };
    let mut logs = Vec::new();
    for rank in 0..ranks {
        let mut log = SyntheticLog::create(directory, rank, ranks, &format!("host-{}", rank / 8))?;
        log.communicator(0, rank, ranks, 7)?;
        logs.push(log);
    }
    job.fill(&mut logs)?;
    let number = 2 + 1 + STEPS * job.buckets;
    let missing = ranks / 2;
    for (rank, mut log) in (0..).zip(logs) {
        let begin = log.last_ticks() + 1_000_000;
        let work = 0x7777;
        if rank != missing {
            log.push(TRAINING.0, issue(Operation::AllReduce, begin, work));
        }
        log.flush(begin + 1)?;
        if rank != missing {
            let in_progress = |record: Record| Record {
                leave_ticks: 0,
                ..record
            };
            let pending = call(Operation::AllReduce, begin + 100, 0, number, 1 << 20, work);
            let wait = blocked(BlockedIn::WorkWait, begin + 200, 0, work);
            log.in_flight(&[
                (TRAINING.0, TRAINING.1, in_progress(wait)),
                (WORKER.0, WORKER.1, in_progress(pending)),
            ])?;
        }
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    println!("ranks   median    smallest  largest   with the start of the program");
    for ranks in RANKS {
        let directory = tempfile::tempdir()?;
        write(directory.path(), ranks)?;
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..REPEATS {
            let started = Instant::now();
            let ended = Command::new(artefacts::program())
                .args(["status", "--json"])
                .arg(directory.path())
                .output()?;
            times.push(started.elapsed().as_secs_f64());
            let status: Status = serde_json::from_slice(&ended.stdout)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ended.stderr)));
            let first = status
                .verdicts
                .first()
                .unwrap_or_else(|| panic!("{}", status.sentence));
            assert_eq!(
                (first.kind, &first.culprits[..]),
                (HangKind::UserCode, &[ranks / 2][..]),
                "{}",
                status.sentence
            );
            assert_eq!(status.ranks.len(), ranks as usize);
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{ranks:5}  {:6.2} s  {:6.2} s  {:6.2} s",
            times[REPEATS / 2],
            times[0],
            times[REPEATS - 1]
        );
    }
    Ok(())
}
