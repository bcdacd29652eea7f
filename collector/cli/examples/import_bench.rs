//! Imports traces several times and prints the time of each phase: `import_bench DIRECTORY TRACE…`.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_import::{ImportOptions, ReadOptions};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Number of rounds. The first ones warm the caches.
const ROUNDS: usize = 7;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(output), files) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        eprintln!("usage: import_bench DIRECTORY TRACE…");
        return ExitCode::from(2);
    };
    let options = ImportOptions {
        files,
        output: output.clone(),
        read: ReadOptions {
            operators: false,
            hta: true,
        },
        ..ImportOptions::default()
    };
    let (mut reading, mut merging) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        match rankscope_import::kineto(&options, &|_| {}) {
            Ok(imported) => bytes = imported.bytes,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
        reading.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        if let Err(error) = merge(&MergeOptions::of_run(&output), &mut |_| {}) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        merging.push(start.elapsed().as_secs_f64());
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (reading, merging) = (median(&mut reading), median(&mut merging));
    println!(
        "read_s {reading:.4} merge_s {merging:.4} total_s {:.4} megabytes {:.1}",
        reading + merging,
        bytes as f64 / 1e6
    );
    ExitCode::SUCCESS
}
