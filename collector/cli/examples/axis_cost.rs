//! Measures what the axis of several hosts adds to a merge: `axis_cost DIRECTORY [OPERATIONS [RANKS [TURNS]]]`.
//!
//! Merges the logs of one job in turn as logs of one host, which needs no pass for evidence, and as logs of four hosts.
//! Prints the medians and their ratio.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: axis_cost DIRECTORY [OPERATIONS [RANKS [TURNS]]]");
        return ExitCode::from(2);
    };
    let mut number = |otherwise: u64| {
        arguments
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(otherwise)
    };
    let (operations, ranks, turns) = (number(1_000_000), number(8), number(5));
    let hosts = [1u32, 4];
    for hosts in hosts {
        let mut job = Ddp {
            ranks: ranks as u32,
            hosts,
            noise: 1,
            slow: Some((ranks as u32 / 2, 50_000)),
            ..Ddp::default()
        };
        job.steps = (operations / ranks / u64::from(job.buckets)) as u32;
        if let Err(error) = job.write(&directory.join(hosts.to_string())) {
            eprintln!("{}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
    }
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..turns {
        for (hosts, seconds) in hosts.iter().zip(&mut seconds) {
            let run = directory.join(hosts.to_string());
            let start = Instant::now();
            if let Err(error) = merge(&MergeOptions::of_run(&run), &mut |_| {}) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    for seconds in &mut seconds {
        seconds.sort_by(f64::total_cmp);
    }
    let [one, several] = seconds.map(|seconds| seconds[seconds.len() / 2]);
    println!(
        "{operations} operations of {ranks} ranks: {one:.2} s on one host, {several:.2} s on four, ratio {:.3}",
        several / one
    );
    ExitCode::SUCCESS
}
