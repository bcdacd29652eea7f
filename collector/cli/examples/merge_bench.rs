//! Merges a run directory and prints the cost: `merge_bench RUN_DIRECTORY SESSION_DIRECTORY [TRACE]`. With a third
//! argument it also exports the session to Perfetto.
//!
//! Prints records and operations per second, of wall time and of processor time (all threads), and the peak resident
//! memory. A record is one entry of a log: a c10d operation has three or four, a work of a device has its own and that
//! of its launch.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_report::export::perfetto::{PerfettoOptions, export};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(run), Some(output)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: merge_bench RUN_DIRECTORY SESSION_DIRECTORY");
        return ExitCode::from(2);
    };
    let options = MergeOptions::new(vec![run], output.clone());
    let start = Instant::now();
    let session = match merge(&options, &mut |_| {}) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let wall = start.elapsed().as_secs_f64();
    let (processor, peak_mib) = usage();
    let operations = session.totals.operations as f64;
    let records: u64 = session.ranks.iter().map(|rank| rank.records).sum();
    println!(
        "{records} records, {} operations, {} instances, {} steps: {wall:.2} s wall, {processor:.2} s processor \
         ({:.2} M records/s and core, {:.2} M operations/s and core), peak {peak_mib} MiB",
        session.totals.operations,
        session.totals.instances,
        session.steps.count,
        records as f64 / processor / 1e6,
        operations / processor / 1e6,
    );
    let works = session.tables.iter().find(|table| table.name == "works");
    if let Some(works) = works.map(|table| table.rows as f64) {
        println!(
            "  {works} works of devices: {:.2} M/s, {:.2} M/s and core",
            works / wall / 1e6,
            works / processor / 1e6,
        );
    }
    for table in &session.tables {
        println!("  {}: {} rows, {} bytes", table.name, table.rows, table.bytes);
    }
    for finding in &session.findings {
        println!("  {}", finding.title);
    }
    let Some(trace) = arguments.next() else {
        return ExitCode::SUCCESS;
    };
    let start = Instant::now();
    let options = PerfettoOptions {
        max_bytes: u64::MAX,
        ..PerfettoOptions::whole(trace)
    };
    match export(&output, &session, &options, &mut |_| {}) {
        Ok(exported) => {
            let seconds = start.elapsed().as_secs_f64();
            let rate = exported.written.slices as f64 / seconds / 1e6;
            println!(
                "  trace: {exported:?} in {seconds:.2} s ({rate:.2} M slices/s), peak {} MiB",
                usage().1
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
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
