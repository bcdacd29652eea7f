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
  rankscope view shared/run1                      open a window; ? shows all keys
  rankscope view shared/run1 --range 1.5s..2s     select an interval; the panels describe it
  rankscope view log/                             traces of torch.profiler, imported first
  rankscope view after --compare before           two runs, aligned by step
  rankscope view shared/run1 --follow             a run that is still being recorded
  rankscope view shared/run1 --screenshot run.png --size 1920x1080
                                                  write a picture; needs no display or graphics card
  rankscope-viewer --help                         all options";

/// Name of the viewer. It is a separate program because its libraries may be missing on a machine without a display.
const PROGRAM: &str = "rankscope-viewer";

/// Advice for the case that the viewer is not found.
pub const WHERE_FROM: &str = "The viewer is a separate program: build it with `make viewer`, or put it next to \
    rankscope or on the PATH";

/// Open a run in the viewer: a run, a session, or traces of torch.profiler.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct View {
    /// Run, session, or traces of torch.profiler; then the options of rankscope-viewer.
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
        // The viewer replaces this process. It receives the signals, and its exit status is the result.
        let error = Command::new(&program).args(&self.arguments).exec();
        bail!("cannot start {}: {error}. {WHERE_FROM}", program.display())
    }
}

/// Returns the path of the viewer: next to this program if it exists there, else on the `PATH`.
pub fn program() -> PathBuf {
    beside().unwrap_or_else(|| PathBuf::from(PROGRAM))
}

/// Returns the viewer that is installed: next to this program, or on the `PATH`.
pub fn installed() -> Option<PathBuf> {
    let on_path = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders)
            .map(|folder| folder.join(PROGRAM))
            .find(|program| program.is_file())
    };
    beside().or_else(on_path)
}

fn beside() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
