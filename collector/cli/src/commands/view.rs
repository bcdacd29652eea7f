//! `rankscope view`.

use super::Exit;
use super::companion::Companion;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

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

/// The viewer. It is a separate program because its libraries may be missing on a machine without a display.
pub const VIEWER: Companion = Companion {
    program: "rankscope-viewer",
    where_from: "The viewer is a separate program: build it with `make viewer`, or put it next to rankscope or on the PATH",
};

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
        match VIEWER.start(&self.arguments)? {}
    }
}
