//! The program `rankscope-viewer`; see [`rankscope_viewer`].

use clap::Parser;
use rankscope_analysis::model::causes;
use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RANKSCOPE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    rankscope_remote::register();
    let arguments = rankscope_remote::address::local_paths(std::env::args_os());
    match rankscope_viewer::cli::Cli::parse_from(arguments).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rankscope-viewer: {}", causes::texts(error.chain()).join(": "));
            ExitCode::from(2)
        }
    }
}
