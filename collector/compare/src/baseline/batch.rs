//! Check of runs that become one entry: they must be similar, have steps, and be new.

use super::entry::EntryName;
use super::key::Key;
use rankscope_formats::comparison::{READABLE_FROM, RunSummary, STORED_VERSION, StoredBatch};

/// Reason why runs cannot become an entry.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// There are no runs.
    #[error("no run is given; an entry of a baseline needs at least one")]
    NoRuns,
    /// A run has no steps.
    #[error("cannot add {run} to a baseline: {reason}")]
    NoSteps {
        /// Run without steps.
        run: String,
        /// Reason why it has none.
        reason: String,
    },
    /// Two runs were recorded differently.
    #[error(
        "{first} and {other} differ in their {what}: {first_has} and {other_has}; add them one by one, each as a \
         separate entry"
    )]
    Different {
        /// Property that differs.
        what: &'static str,
        /// First run.
        first: String,
        /// Its value.
        first_has: String,
        /// Other run.
        other: String,
        /// Value of the other run.
        other_has: String,
    },
    /// Two runs are the same.
    #[error("{first} and {other} are the same run; give each run once")]
    Twice {
        /// First run.
        first: String,
        /// Second run.
        other: String,
    },
    /// A run was added before.
    #[error("{run} is already in the baseline, in entry {entry}")]
    AlreadyThere {
        /// Run that was added before.
        run: String,
        /// Entry with this run.
        entry: EntryName,
    },
}

/// Makes an entry of runs that were recorded together.
pub fn batch(
    key: &Key,
    commit: Option<String>,
    added_unix_ns: i64,
    runs: Vec<RunSummary>,
) -> Result<StoredBatch, BatchError> {
    check(&runs)?;
    Ok(StoredBatch {
        version: STORED_VERSION,
        readable_from: READABLE_FROM,
        branch: key.branch.clone(),
        machine: key.machine.clone(),
        job: key.job.clone(),
        commit,
        added_unix_ns,
        runs,
    })
}

/// Rejects runs that were added before.
pub fn refuse_known(runs: &[RunSummary], entries: &[(EntryName, StoredBatch)]) -> Result<(), BatchError> {
    for run in runs {
        let has = |batch: &StoredBatch| batch.runs.iter().any(|known| known.run.id == run.run.id);
        if let Some((entry, _)) = entries.iter().find(|(_, batch)| has(batch)) {
            return Err(BatchError::AlreadyThere {
                run: run.run.directory.clone(),
                entry: entry.clone(),
            });
        }
    }
    Ok(())
}

/// Rejects runs that cannot be one batch.
pub fn check(runs: &[RunSummary]) -> Result<(), BatchError> {
    let first = runs.first().ok_or(BatchError::NoRuns)?;
    let shown = |run: &RunSummary| run.run.directory.clone();
    for (position, run) in runs.iter().enumerate() {
        if let Some(reason) = &run.steps.reason {
            return Err(BatchError::NoSteps {
                run: shown(run),
                reason: reason.clone(),
            });
        }
        if let Some(same) = runs[..position].iter().find(|other| other.run.id == run.run.id) {
            return Err(BatchError::Twice {
                first: shown(same),
                other: shown(run),
            });
        }
        different("kind of recording", [first, run], |run| run.kind.clone())?;
        different("number of ranks", [first, run], |run| run.world.size.to_string())?;
    }
    Ok(())
}

/// Rejects two runs that differ.
pub fn different(
    what: &'static str,
    [first, other]: [&RunSummary; 2],
    has: impl Fn(&RunSummary) -> String,
) -> Result<(), BatchError> {
    let (first_has, other_has) = (has(first), has(other));
    if first_has == other_has {
        return Ok(());
    }
    Err(BatchError::Different {
        what,
        first: first.run.directory.clone(),
        first_has,
        other: other.run.directory.clone(),
        other_has,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::test_runs::{entry, run};

    fn refused(runs: Vec<RunSummary>) -> String {
        let key = Key::of(&entry("x", "main", 0));
        batch(&key, None, 0, runs).expect_err("refused").to_string()
    }

    #[test]
    fn runs_of_a_batch_are_alike() {
        assert!(refused(vec![]).contains("no run"));
        let mut empty = run("b");
        empty.steps.reason = Some("it has no training steps".into());
        let message = refused(vec![run("a"), empty]);
        assert!(
            message.contains("runs/b") && message.contains("no training steps"),
            "{message}"
        );
        assert!(refused(vec![run("a"), run("a")]).contains("the same run"));
        let mut kind = run("b");
        kind.kind = "device".into();
        let message = refused(vec![run("a"), kind]);
        assert!(message.contains("host and device"), "{message}");
        let mut size = run("b");
        size.world.size = 4;
        let message = refused(vec![run("a"), size]);
        assert!(message.contains("number of ranks: 2 and 4"), "{message}");
    }

    #[test]
    fn a_run_is_added_once() {
        let known = entry("a", "main", 7);
        let name = EntryName::new(&Key::of(&known), 7, b"");
        let entries = [(name, known)];
        assert!(refuse_known(&[run("b")], &entries).is_ok());
        let message = refuse_known(&[run("b"), run("a")], &entries)
            .expect_err("known")
            .to_string();
        assert!(
            message.contains("runs/a") && message.contains("19700101-000000-000000007"),
            "{message}"
        );
    }
}
