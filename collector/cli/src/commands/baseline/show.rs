//! `rankscope baseline show`.

use super::super::{Exit, print};
use super::key_options::KeyOptions;
use super::list::{ListedProblem, short};
use super::store_options::StoreOptions;
use super::warn;
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
  rankscope baseline show 20261124-020842            the entry whose file begins so
  rankscope baseline show --last 5 --json | jq '.entries[].batch.runs[].steps.counted'";

/// Show entries with their runs: steps, step time, when they were recorded.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// An entry: its path, its file's name, or the beginning of that. Without it all entries that match.
    #[arg(value_name = "ENTRY")]
    entry: Option<String>,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    key: KeyOptions,

    /// Only the newest entries, as many as this.
    #[arg(long, value_name = "N", conflicts_with = "entry")]
    last: Option<usize>,

    /// Print the entries as JSON, with everything that is kept of their runs.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    store: String,
    entries: Vec<Shown<'a>>,
    problems: Vec<ListedProblem>,
}

/// An entry.
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
            print::text(&format!("{} has no such entries\n", store.shown()))?;
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

    /// The one entry that is meant.
    fn one(&self, store: &Store, meant: &str) -> Result<Found> {
        let mut view = store.view()?;
        let mut names = view.names(&self.key.filter());
        names.retain(|name| name.is_meant_by(meant));
        match names.as_slice() {
            [] => bail!(
                "{} has no entry {meant}; rankscope baseline show lists them",
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
                "{meant} may be any of {} entries, {first} to {last}; write more of the name",
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

/// Mean step time of a run, or a dash.
fn step_time(run: &RunSummary) -> String {
    let measured = run.measured("step_time", None);
    let value = measured.and_then(|measured| measured.value.value.as_ref());
    value.map_or_else(|| "–".to_owned(), |value| units::time_f(value.all.mean))
}
