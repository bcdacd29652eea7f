//! `rankscope reference`, hidden: writes the generated pages of the book, and the man pages.

use super::rules::whole_page;
use super::{Cli, Exit};
use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rankscope reference docs/book/src/reference   after a change of a command, an option or a rule
  rankscope reference --man DIR                 for a package";

/// Columns of the printed help.
const WIDTH: usize = 100;

/// Write the pages of the book that are generated, commands and rules, or the man pages.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Reference {
    /// Directory of the pages.
    directory: PathBuf,
    /// Write a man page for each command instead.
    #[arg(long)]
    man: bool,
}

impl Reference {
    pub fn run(self) -> Result<Exit> {
        if self.man {
            // The long version names the commit, and would change every page.
            clap_mangen::generate_to(Cli::command().long_version(None), &self.directory)
                .with_context(|| format!("cannot write into {}", self.directory.display()))?;
            return Ok(Exit::Fine);
        }
        for (name, page) in [("commands.md", commands()), ("rules.md", whole_page())] {
            let path = self.directory.join(name);
            fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Exit::Fine)
    }
}

/// Returns the page of all commands: the help of each.
fn commands() -> String {
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    let mut page = "# Commands\n\nThis page is the output of `--help` of each command.\n".to_owned();
    add(&mut page, &root, "rankscope");
    page
}

fn add(page: &mut String, command: &Command, name: &str) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        page,
        "\n## {name}\n\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    );
    for sub in command.get_subcommands() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            add(page, sub, &format!("{name} {}", sub.get_name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_book_has_the_pages_as_generated() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/reference");
        for (name, page) in [("commands.md", commands()), ("rules.md", whole_page())] {
            let written = fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(
                written == page,
                "{name} differs: run `cargo run -p rankscope -- reference docs/book/src/reference`"
            );
        }
    }

    #[test]
    fn every_command_has_a_heading_and_its_help() {
        let page = commands();
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            assert!(page.contains(&format!("\n## rankscope {}\n", command.get_name())));
        }
        assert!(page.contains("## rankscope baseline add") && !page.contains("rankscope reference"));
    }
}
