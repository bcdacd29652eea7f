//! `rankscope view`.

use super::Exit;
use anyhow::{Result, bail};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  rankscope view shared/run1                      a window: who waits for whom; ? shows all keys
  rankscope view shared/run1 --range 1.5s..2s     that part of time, which panels then tell of
  rankscope view log/                             traces of torch.profiler, imported first
  rankscope view after --compare before           two runs, aligned by step
  rankscope view shared/run1 --follow             a run that is still being recorded
  rankscope view shared/run1 --screenshot run.png --size 1920x1080
                                                  a picture, without display or graphics card
  rankscope-viewer --help                         all options";

/// The program that has the window: it needs libraries that a machine without a display may lack.
const PROGRAM: &str = "rankscope-viewer";

/// What to do where it is not found.
pub const WHERE_FROM: &str = "The viewer is a program of its own: build it with `make viewer`, or put it beside rankscope or \
                              on the PATH";

/// Look at a run: a native viewer of runs, sessions and traces of torch.profiler.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct View {
    /// A run, a session, or traces of torch.profiler; then the options of rankscope-viewer.
    #[arg(
        required = true,
        value_name = "RUN|SESSION|TRACE",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

impl View {
    pub fn run(self) -> Result<Exit> {
        let program = program();
        // It takes this process's place: signals and the exit status are its own.
        let error = Command::new(&program).args(&self.arguments).exec();
        bail!("cannot start {}: {error}. {WHERE_FROM}", program.display())
    }
}

/// The viewer: that beside this program, else that on the path.
pub fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(PROGRAM))
        .filter(|program| program.is_file())
        .unwrap_or_else(|| PathBuf::from(PROGRAM))
}
