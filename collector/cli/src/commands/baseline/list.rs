//! `rankscope baseline list`.

use super::super::{Exit, print};
use super::key_options::KeyOptions;
use super::store_options::StoreOptions;
use super::warnings::warn;
use anyhow::Result;
use clap::Args;
use rankscope_analysis::model::date;
use rankscope_compare::baseline::{Key, Problem, View};
use rankscope_report::text::table::TextTable;
use serde::Serialize;
use std::collections::BTreeMap;

const EXAMPLES: &str = "\
Examples:
  rankscope baseline list
  rankscope baseline list --store git:baselines --branch main
  rankscope baseline list --json | jq '.keys[].entries'";

/// Number of displayed digits of a commit.
pub const COMMIT_DIGITS: usize = 12;

/// List branches, machines and jobs, with their number of entries.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct List {
    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    key: KeyOptions,

    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

/// Entries of one key.
#[derive(Debug, Serialize)]
struct Listed {
    branch: String,
    machine: String,
    job: String,
    entries: usize,
    runs: usize,
    /// Time at which the newest entry was added, in nanoseconds since 1970.
    newest_unix_ns: i64,
    newest_entry: String,
    /// Commit of the newest entry.
    commit: Option<String>,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    store: String,
    keys: Vec<&'a Listed>,
    problems: Vec<ListedProblem>,
}

/// File that was left out.
#[derive(Debug, Serialize)]
pub struct ListedProblem {
    path: String,
    what: String,
}

impl From<&Problem> for ListedProblem {
    fn from(problem: &Problem) -> Self {
        Self {
            path: problem.path.clone(),
            what: problem.what.clone(),
        }
    }
}

impl List {
    pub fn run(self) -> Result<Exit> {
        let store = self.store.open()?;
        let mut view = store.view()?;
        let (listed, problems) = self.read(&mut view);
        warn(&problems);
        if self.json {
            print::json(&Document {
                store: store.shown(),
                keys: listed.values().collect(),
                problems: problems.iter().map(ListedProblem::from).collect(),
            })?;
        } else if listed.is_empty() {
            print::text(&format!("{} has no matching entries\n", store.shown()))?;
        } else {
            print::text(&table(&listed))?;
        }
        Ok(Exit::Fine)
    }

    /// Reads one entry at a time and keeps only its listed values.
    fn read(&self, view: &mut View) -> (BTreeMap<Key, Listed>, Vec<Problem>) {
        let filter = self.key.filter();
        let mut problems = view.problems().to_vec();
        let mut listed: BTreeMap<Key, Listed> = BTreeMap::new();
        for name in view.names(&filter) {
            let batch = match view.read(&name) {
                Ok(batch) => batch,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let key = Key::of(&batch);
            if !filter.matches(&key) {
                continue;
            }
            let (entries, runs) = listed
                .get(&key)
                .map_or((0, 0), |known| (known.entries, known.runs));
            let newest = Listed {
                branch: key.branch.clone(),
                machine: key.machine.clone(),
                job: key.job.clone(),
                entries: entries + 1,
                runs: runs + batch.runs.len(),
                newest_unix_ns: batch.added_unix_ns,
                newest_entry: name.path(),
                commit: batch.commit,
            };
            listed.insert(key, newest);
        }
        (listed, problems)
    }
}

fn table(listed: &BTreeMap<Key, Listed>) -> String {
    let mut table = TextTable::new(
        3,
        &["branch", "job", "machine", "entries", "runs", "newest", "commit"],
    );
    for known in listed.values() {
        table.push(vec![
            known.branch.clone(),
            known.job.clone(),
            known.machine.clone(),
            known.entries.to_string(),
            known.runs.to_string(),
            date::utc(known.newest_unix_ns),
            short(known.commit.as_deref()),
        ]);
    }
    // A truncated key would look like another key.
    table.lines(usize::MAX).join("\n") + "\n"
}

/// Returns the first digits of a commit.
pub fn short(commit: Option<&str>) -> String {
    commit.unwrap_or_default().chars().take(COMMIT_DIGITS).collect()
}
