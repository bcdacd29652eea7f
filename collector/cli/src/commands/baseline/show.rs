//! `rankscope baseline show`.

use super::super::{Exit, print};
use super::key_options::KeyOptions;
use super::list::{ListedProblem, short};
use super::store_options::StoreOptions;
use super::warnings::warn;
use anyhow::{Result, bail};
use clap::Args;
use rankscope_analysis::model::date;
use rankscope_analysis::model::units;
use rankscope_compare::baseline::store::Found;
use rankscope_compare::baseline::{EntryName, Key, Store};
use rankscope_formats::comparison::{RunSummary, StoredBatch};
use rankscope_report::text::table::TextTable;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  rankscope baseline show --branch main --job train-8-ranks
  rankscope baseline show --last 1
  rankscope baseline show 20261124-020842            the entry whose file name starts with this
  rankscope baseline show --last 5 --json | jq '.entries[].batch.runs[].steps.counted'";

/// Show entries with their runs: steps, step time, and time of recording.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// Entry: its path, its file name, or a prefix of the file name (default: all matching entries).
    #[arg(value_name = "ENTRY")]
    entry: Option<String>,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    key: KeyOptions,

    /// Show only the newest N entries.
    #[arg(long, value_name = "N", conflicts_with = "entry")]
    last: Option<usize>,

    /// Print the entries as JSON, with all stored values of their runs.
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    store: String,
    entries: Vec<Shown<'a>>,
    problems: Vec<ListedProblem>,
}

/// Entry of the output.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    entry: String,
    batch: &'a StoredBatch,
}

impl Show {
    pub fn run(self) -> Result<Exit> {
        let store = self.store.open()?;
        let found = match &self.entry {
            Some(entry) => self.one(&store, entry)?,
            None => store.batches(&self.key.filter(), self.last)?,
        };
        warn(&found.problems);
        if self.json {
            let entries = found.entries.iter();
            print::json(&Document {
                store: store.shown(),
                entries: entries
                    .map(|(name, batch)| Shown {
                        entry: name.path(),
                        batch,
                    })
                    .collect(),
                problems: found.problems.iter().map(ListedProblem::from).collect(),
            })?;
        } else if found.entries.is_empty() {
            print::text(&format!("{} has no matching entries\n", store.shown()))?;
        } else {
            let shown: Vec<String> = found
                .entries
                .iter()
                .map(|(name, batch)| text(name, batch))
                .collect();
            print::text(&shown.join("\n"))?;
        }
        Ok(Exit::Fine)
    }

    /// Returns the only entry that matches.
    fn one(&self, store: &Store, meant: &str) -> Result<Found> {
        let mut view = store.view()?;
        let mut names = view.names(&self.key.filter());
        names.retain(|name| name.is_meant_by(meant));
        match names.as_slice() {
            [] => bail!(
                "{} has no entry {meant}; rankscope baseline show lists all entries",
                store.shown()
            ),
            [name] => match view.read(name) {
                Ok(batch) => Ok(Found {
                    entries: vec![(name.clone(), batch)],
                    problems: Vec::new(),
                }),
                Err(problem) => bail!("{problem}"),
            },
            [first, .., last] => bail!(
                "{meant} matches {} entries, {first} to {last}; type more of the name",
                names.len()
            ),
        }
    }
}

fn text(name: &EntryName, batch: &StoredBatch) -> String {
    let commit = batch.commit.as_deref();
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {}", short(Some(commit))));
    let mut out = format!(
        "{name}\n{}; added {}{commit}\n",
        Key::of(batch),
        date::utc(batch.added_unix_ns)
    );
    let headings = [
        "run",
        "recorded",
        "kind",
        "ranks",
        "steps",
        "step time",
        "outliers",
        "lost",
    ];
    let mut table = TextTable::new(3, &headings);
    for run in &batch.runs {
        table.push(vec![
            run.run.directory.clone(),
            date::utc(run.run.started_unix_ns),
            run.kind.clone(),
            run.world.size.to_string(),
            run.steps.counted.to_string(),
            step_time(run),
            run.steps.outliers.to_string(),
            run.world.lost.to_string(),
        ]);
    }
    for line in table.lines(usize::MAX) {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

/// Formats the mean step time of a run, or a dash.
fn step_time(run: &RunSummary) -> String {
    let measured = run.measured("step_time", None);
    let value = measured.and_then(|measured| measured.value.value.as_ref());
    value.map_or_else(|| "–".to_owned(), |value| units::time_f(value.all.mean))
}
