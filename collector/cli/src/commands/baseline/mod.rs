//! `rankscope baseline`.

mod add;
mod age;
mod defaults;
mod key_options;
mod list;
mod prune;
mod show;
mod store_options;

use super::Exit;
use anyhow::Result;
use clap::{Args, Subcommand};
use rankscope_compare::baseline::Problem;
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  rankscope baseline add runs/main/run-*                           keep these runs, as one entry
  rankscope baseline add --store git:baselines --push runs/main/*  on a git branch, and push it
  rankscope baseline list --store git:baselines                    what is there
  rankscope baseline show --branch main --last 3                   the newest entries of a branch
  rankscope baseline prune --keep 20 --older-than 90d --dry-run    what would be removed";

const STORES: &str = "\
Where a baseline is:
  --store DIR          a directory: on a shared disk, or in a cache of your CI
  --store git:BRANCH   a branch of its own in a git repository; nobody needs to check it out
  RANKSCOPE_BASELINES  the store without --store; else .rankscope-baselines here
Many may add to a store at once: nothing is lost. An entry is one small file with the summaries of a batch of runs. \
Traces are not kept.

Entries are kept by branch, machine and job:
  --branch   without it GITHUB_REF_NAME or CI_COMMIT_REF_NAME, else git's branch here, else 'none'
  --machine  without it the model and number of processors, of hosts, and whether there were devices
  --job      without it the script or program, and how many ranks; arguments do not count
Name the machine yourself if it has devices of several kinds: a recording does not say which.

Exit status: 0 done, 2 wrong usage, a store or a run that cannot be used. Damaged entries are named and left out.";

/// Keep summaries of runs, so that later runs can be compared with them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{STORES}"))]
pub struct Baseline {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Add(add::Add),
    List(list::List),
    Show(show::Show),
    Prune(prune::Prune),
}

impl Baseline {
    pub fn run(self) -> Result<Exit> {
        match self.command {
            What::Add(add) => add.run(),
            What::List(list) => list.run(),
            What::Show(show) => show.run(),
            What::Prune(prune) => prune.run(),
        }
    }
}

/// Names what was left out, where it cannot be mistaken for the result.
fn warn(problems: &[Problem]) {
    let mut stderr = io::stderr().lock();
    for problem in problems {
        // Nobody is left to read it if this fails.
        let _ = writeln!(stderr, "rankscope: left out: {problem}");
    }
}
