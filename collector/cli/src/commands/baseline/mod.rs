//! `rankscope baseline`.

mod add;
mod age;
mod defaults;
mod key_options;
mod list;
mod prune;
mod show;
mod store_options;
mod warnings;

use super::Exit;
use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  rankscope baseline add runs/main/run-*                           store these runs as one entry
  rankscope baseline add --store git:baselines --push runs/main/*  store on a git branch, and push it
  rankscope baseline list --store git:baselines                    list the keys of the entries
  rankscope baseline show --branch main --last 3                   show the newest entries of a branch
  rankscope baseline prune --keep 20 --older-than 90d --dry-run    show what would be removed";

const STORES: &str = "\
Stores:
  --store DIR          a directory, for example on a shared disk or in the cache of a CI
  --store git:BRANCH   a separate branch of a git repository; no checkout is needed
  RANKSCOPE_BASELINES  the store without --store; its default is .rankscope-baselines here
Several processes can add to a store at the same time. An entry is one small file with the summaries of a batch of \
runs. Traces are not stored.

The key of an entry is branch, machine and job:
  --branch   default: GITHUB_REF_NAME or CI_COMMIT_REF_NAME, else git's branch here, else 'none'
  --machine  default: model and number of processors, number of hosts, and whether there were devices
  --job      default: the script or program, and the number of ranks; arguments do not count
Name the machine if machines have different devices: a recording does not name the device type.

Exit status: 0 success, 2 wrong usage, or an unusable store or run. Damaged entries are reported and left out.";

/// Store summaries of runs, for comparisons with later runs.
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
