//! rankscope: see what a distributed training job really does.

mod commands;
mod launch;

use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let cli = match commands::Cli::try_parse_from(commands::with_sides(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error),
    };
    start_logging();
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => commands::Exit::Fine.into(),
        Err(error) => {
            print_error(&error);
            commands::Exit::Unusable.into()
        }
    }
}

/// What clap has to say: help and version to standard output with 0, misuse to standard error with 2.
fn print_usage(error: &clap::Error) -> ExitCode {
    // Nobody is left to read it if this fails.
    let _ = error.print();
    if error.use_stderr() {
        commands::Exit::Unusable.into()
    } else {
        commands::Exit::Fine.into()
    }
}

/// Our own log, for people who debug rankscope itself: off unless RANKSCOPE_LOG asks for it.
fn start_logging() {
    if let Ok(filter) = EnvFilter::try_from_env("RANKSCOPE_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
    }
}

/// The reader went away (`| head`): its right.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn print_error(error: &anyhow::Error) {
    let mut stderr = io::stderr().lock();
    let mut causes = error.chain();
    if let Some(first) = causes.next() {
        let _ = writeln!(stderr, "rankscope: {first}");
    }
    for cause in causes {
        let _ = writeln!(stderr, "  because: {cause}");
    }
}
