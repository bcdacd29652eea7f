//! Merges a run and prints how long each phase took: `merge_phases RUN SESSION [SCHEDULER TOKEN_FILE]`. With a scheduler, its executors
//! read the logs and write the tables. SCHEDULER may be `in-process`.
//!
//! Processor times are those of this process alone. Executors count their own.

use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::{MergeOptions, merge, merge_by};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs units with the program next to the folder of examples.
#[derive(Debug)]
struct Submit {
    scheduler: String,
    token: String,
}

impl UnitRunner for Submit {
    fn run(&self, directory: &Path, units: Range<u32>, _: &mut dyn FnMut()) -> Result<(), String> {
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = here
            .parent()
            .and_then(Path::parent)
            .map(|folder| folder.join("rankscope-cluster"));
        let mut command = Command::new(program.unwrap_or_default());
        command.args(["submit", &self.scheduler]).arg(directory);
        command.args([units.start.to_string(), units.end.to_string()]);
        command.args(["--token-file", &self.token]).stdin(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        // The process ends with its standard input, which `wait` would close.
        let input = child.stdin.take();
        let status = child.wait().map_err(|error| error.to_string())?;
        drop(input);
        if status.success() {
            Ok(())
        } else {
            Err(status.to_string())
        }
    }
}

/// Times of the phases, in order.
struct Phases {
    all: Vec<(&'static str, Duration)>,
    since: Instant,
}

impl Phases {
    fn report(&mut self, phase: &'static str) {
        let now = Instant::now();
        match self.all.last_mut() {
            Some((last, took)) if *last == phase => *took += now - self.since,
            // What passed before a phase's first report belongs to it: a phase reports when something is done.
            _ => self.all.push((phase, now - self.since)),
        }
        self.since = now;
    }
}

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (run, output, runner) = match arguments.as_slice() {
        [run, output] => (run, output, None),
        [run, output, scheduler, token] => {
            let (scheduler, token) = (scheduler.clone(), token.clone());
            (run, output, Some(Submit { scheduler, token }))
        }
        _ => {
            eprintln!("usage: merge_phases RUN SESSION [SCHEDULER TOKEN_FILE]");
            return ExitCode::from(2);
        }
    };
    let options = MergeOptions::new(vec![PathBuf::from(run)], PathBuf::from(output));
    let start = Instant::now();
    let mut phases = Phases {
        all: Vec::new(),
        since: start,
    };
    let mut report = |now: rankscope_analysis::Progress| phases.report(now.phase);
    let merged = match runner {
        Some(runner) => merge_by(Arc::new(runner), &options, &mut report),
        None => merge(&options, &mut report),
    };
    let session = match merged {
        Ok(session) => session,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    phases.report("finishing");
    let records: u64 = session.ranks.iter().map(|rank| rank.records).sum();
    println!(
        "{:.2} s wall for {records} records of {} ranks",
        start.elapsed().as_secs_f64(),
        session.ranks.len()
    );
    for (phase, took) in phases.all {
        println!("  {:8.2} s  {phase}", took.as_secs_f64());
    }
    ExitCode::SUCCESS
}
