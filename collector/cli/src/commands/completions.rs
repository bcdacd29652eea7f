//! `rankscope completions`.

use super::{Cli, Exit, print};
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  rankscope completions bash > ~/.local/share/bash-completion/completions/rankscope
  rankscope completions zsh > \"${fpath[1]}/_rankscope\"
  rankscope completions fish > ~/.config/fish/completions/rankscope.fish";

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// Shell that reads the script.
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "rankscope", &mut script);
        print::text(std::str::from_utf8(&script).context("the script is not text")?)?;
        Ok(Exit::Fine)
    }
}
