//! The `rankscope` command-line program: it records and analyses distributed training jobs.

mod commands;
mod launch;

use clap::Parser;
use std::io;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    rankscope_remote::register();
    let arguments = match commands::prepared(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            commands::print_error(&error);
            return commands::Exit::Unusable.into();
        }
    };
    let cli = match commands::Cli::try_parse_from(commands::with_sides(arguments.into_iter())) {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error),
    };
    start_logging();
    // If a session was replaced meanwhile, the output may mix both versions.
    let outcome = cli.run().and_then(|exit| {
        rankscope_remote::sessions::check()?;
        Ok(exit)
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) if commands::is_broken_pipe(&error) => commands::Exit::Fine.into(),
        Err(error) => {
            commands::print_error(&error);
            commands::Exit::Unusable.into()
        }
    }
}

/// Prints a message from clap: help and version to standard output with status 0, misuse to standard error with 2.
fn print_usage(error: &clap::Error) -> ExitCode {
    // A failed write is ignored: nobody reads the output any more.
    let _ = error.print();
    if error.use_stderr() {
        commands::Exit::Unusable.into()
    } else {
        commands::Exit::Fine.into()
    }
}

/// Starts rankscope's own log, for debugging rankscope itself. The log is off unless `RANKSCOPE_LOG` is set.
fn start_logging() {
    if let Ok(filter) = EnvFilter::try_from_env("RANKSCOPE_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
    }
}
