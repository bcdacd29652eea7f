//! `rankscope baseline prune`.

use super::super::{Exit, print};
use super::add::entries;
use super::age::Age;
use super::key_options::KeyOptions;
use super::store_options::{PushOptions, StoreOptions};
use super::warnings::warn;
use anyhow::Result;
use clap::Args;
use rankscope_compare::baseline::EntryName;
use rankscope_compare::baseline::prune::{Keep, choose};
use std::fmt::Write;
use std::time::SystemTime;

const EXAMPLES: &str = "\
Examples:
  rankscope baseline prune --keep 20 --dry-run                 show what would be removed
  rankscope baseline prune --keep 5 --older-than 30d --branch feature-x
  rankscope baseline prune --store git:baselines --keep 20 --push";

/// Remove old entries.
///
/// The newest entries of each branch, machine and job stay. Damaged entries are reported and stay, too. On a git branch
/// the removed entries remain in its history.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Prune {
    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    key: KeyOptions,

    /// Keep at least the newest N entries of each branch, machine and job.
    #[arg(long, value_name = "N", required = true)]
    keep: usize,

    /// Of the other entries, remove only those that were added longer ago than this: 30d, 12h, 2w.
    #[arg(long, value_name = "AGE")]
    older_than: Option<Age>,

    /// Print what would be removed, without removing it.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    push: PushOptions,
}

impl Prune {
    pub fn run(self) -> Result<Exit> {
        let store = self.store.open()?;
        self.push.before(&store)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as i64);
        let keep = Keep {
            newest: self.keep,
            after_unix_ns: self.older_than.map(|age| now.saturating_sub(age.ns)),
        };
        let pruned = choose(&mut store.view()?, &self.key.filter(), keep);
        warn(&pruned.problems);
        let names: Vec<EntryName> = pruned.removed.iter().map(|(name, _)| name.clone()).collect();
        if !self.dry_run {
            store.remove(&names)?;
            self.push.after(&store)?;
        }
        let done = if self.dry_run { "would remove" } else { "removed" };
        let mut text = String::new();
        for name in &names {
            let _ = writeln!(text, "{done} {name}");
        }
        let _ = writeln!(
            text,
            "{done} {} from {}, {} left",
            entries(names.len()),
            store.shown(),
            pruned.kept
        );
        print::text(&text)?;
        Ok(Exit::Fine)
    }
}
