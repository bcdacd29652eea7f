//! Rebuilds the viewer's index of a merged session and prints the cost: `index_bench SESSION_DIRECTORY`.

use rankscope_analysis::index;
use rankscope_formats::index::{VIEW_DIRECTORY, ViewFile, view_path};
use rankscope_formats::session::Session;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let Some(path) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: index_bench SESSION_DIRECTORY");
        return ExitCode::from(2);
    };
    let session = match Session::read(&path) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let _ = std::fs::remove_dir_all(path.join(VIEW_DIRECTORY));
    let before = usage().0;
    let start = Instant::now();
    let ranks = 0..session.ranks.len() as u32;
    if let Err(error) = index::ensure(&path, &session, ranks.clone(), &mut |_, _| {}) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let wall = start.elapsed().as_secs_f64();
    let (after, peak_mib) = usage();
    let (mut spans, mut bytes) = (0, 0);
    for rank in ranks {
        if let Ok(view) = ViewFile::open(&view_path(&path, rank)) {
            spans += view.footer().lanes.iter().map(|lane| lane.spans).sum::<u64>();
            bytes += view.bytes();
        }
    }
    println!(
        "{spans} spans: {wall:.2} s wall, {:.2} s processor ({:.2} M spans/s and core), {bytes} bytes ({:.1} per span), \
         peak {peak_mib} MiB",
        after - before,
        spans as f64 / (after - before) / 1e6,
        bytes as f64 / spans.max(1) as f64,
    );
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
