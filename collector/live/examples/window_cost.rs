//! Reads what `rankscope top` shows, and prints the cost: `window_cost RUN_DIRECTORY SECONDS RECORDS [READS]`. With 0
//! records, the number is the default one.
//!
//! Prints for each read: ranks, records, operations and step rate; wall time, processor time of all threads, and the peak
//! resident memory.

use rankscope_live::top::reading::TopReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let (Some(run), Some(seconds), Some(records)) = (arguments.first(), number(1), number(2)) else {
        eprintln!("usage: window_cost RUN_DIRECTORY SECONDS RECORDS [READS]");
        return ExitCode::from(2);
    };
    let records = Some(records).filter(|&records| records > 0);
    let mut reader = TopReader::new(vec![PathBuf::from(run)], seconds as i64 * 1_000_000_000, records);
    for _ in 0..number(3).unwrap_or(3) {
        let (before, started) = (usage().0, Instant::now());
        match reader.read() {
            Ok(found) => {
                let (after, peak_mib) = usage();
                println!(
                    "{} ranks, {} records, {:?} steps/s: {:.0} ms wall, {:.0} ms processor, peak {peak_mib} MiB",
                    found.ranks.len(),
                    found.window.records,
                    found.steps_per_s.value,
                    started.elapsed().as_secs_f64() * 1e3,
                    (after - before) * 1e3,
                );
            }
            Err(error) => println!("{error}"),
        }
    }
    ExitCode::SUCCESS
}

/// Returns the processor time of all threads in seconds and the peak resident memory in MiB.
fn usage() -> (f64, i64) {
    // SAFETY: rusage is plain data, so zeros are valid, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (
        seconds(usage.ru_utime) + seconds(usage.ru_stime),
        usage.ru_maxrss / 1024,
    )
}
