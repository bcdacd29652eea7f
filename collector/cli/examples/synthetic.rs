//! Writes the rank logs of a synthetic DistributedDataParallel job: `synthetic DIRECTORY OPERATIONS [RANKS [SEED [HOSTS [SLOWER]]]]`. With
//! SLOWER, steps take that many times as long, so that the run is long although it has few operations.

use rankscope_fixtures::logs::Ddp;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(operations)) = (
        arguments.next().map(PathBuf::from),
        arguments.next().and_then(|text| text.parse::<u64>().ok()),
    ) else {
        eprintln!("usage: synthetic DIRECTORY OPERATIONS [RANKS [SEED [HOSTS [SLOWER]]]]");
        return ExitCode::from(2);
    };
    let ranks = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(8);
    let noise = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let hosts = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let slower: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let usual = Ddp::default();
    let mut job = Ddp {
        ranks,
        hosts,
        noise,
        slow: Some((ranks / 2, 50_000 * slower)),
        forward_ns: usual.forward_ns * slower,
        bucket_ns: usual.bucket_ns * slower,
        transfer_ns: usual.transfer_ns * slower,
        ..usual
    };
    job.steps = u32::try_from(operations / u64::from(ranks) / u64::from(job.buckets)).unwrap_or(u32::MAX);
    match job.write(&directory) {
        Ok(()) => {
            println!(
                "{} operations of {ranks} ranks in {}",
                job.operations(),
                directory.display()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
