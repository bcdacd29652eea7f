//! Writes the rank logs of a synthetic training on GPUs as a recorder with CUPTI writes them: `synthetic_kernels
//! DIRECTORY WORKS [RANKS]`.

use rankscope_fixtures::logs::kernels::{WORKS, write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(works)) = (
        arguments.next().map(PathBuf::from),
        arguments.next().and_then(|text| text.parse::<u64>().ok()),
    ) else {
        eprintln!("usage: synthetic_kernels DIRECTORY WORKS [RANKS]");
        return ExitCode::from(2);
    };
    let ranks: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2);
    let steps = (works / u64::from(ranks) / WORKS).max(1);
    let mut bytes = 0;
    for rank in 0..ranks {
        if let Err(error) = write(&directory, rank, ranks, steps) {
            eprintln!("{}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
        let path = directory.join(format!("rank-{rank}.rslog"));
        bytes += std::fs::metadata(path).map_or(0, |meta| meta.len());
    }
    let works = steps * WORKS * u64::from(ranks);
    println!(
        "{works} works of {ranks} ranks in {}: {:.2} bytes each, with their launches, links and operations",
        directory.display(),
        bytes as f64 / works as f64
    );
    ExitCode::SUCCESS
}
