//! Runs that are to become one entry: they must be alike, have steps, and be new.

use super::entry::EntryName;
use super::key::Key;
use rankscope_formats::comparison::{READABLE_FROM, RunSummary, STORED_VERSION, StoredBatch};

/// Runs cannot become an entry.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// There are none.
    #[error("no run was given; a baseline's entry needs at least one")]
    NoRuns,
    /// One has no steps.
    #[error("{run} cannot be part of a baseline: {reason}")]
    NoSteps {
        /// The run.
        run: String,
        /// Why it has none.
        reason: String,
    },
    /// Two were recorded differently.
    #[error(
        "{first} and {other} differ in their {what}: {first_has} and {other_has}; add them one by one, each as its own entry"
    )]
    Different {
        /// What differs.
        what: &'static str,
        /// A run.
        first: String,
        /// What it has.
        first_has: String,
        /// Another.
        other: String,
        /// What that has.
        other_has: String,
    },
    /// Two are the same.
    #[error("{first} and {other} are the same run; give each run once")]
    Twice {
        /// One.
        first: String,
        /// The other.
        other: String,
    },
    /// One was added before.
    #[error("{run} is in the baseline already, in entry {entry}")]
    AlreadyThere {
        /// The run.
        run: String,
        /// The entry.
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

/// Refuses runs that were added before.
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

/// Refuses runs that cannot be one batch.
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

/// Refuses two runs that differ.
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
    use crate::baseline::made_up::{entry, run};

    fn refused(runs: Vec<RunSummary>) -> String {
        let key = Key::of(&entry("x", "main", 0));
        batch(&key, None, 0, runs).expect_err("refused").to_string()
    }

    #[test]
    fn runs_of_a_batch_are_alike() {
        assert!(refused(vec![]).contains("no run"));
        let mut empty = run("b");
        empty.steps.reason = Some("it has no training steps".into());
        let said = refused(vec![run("a"), empty]);
        assert!(
            said.contains("runs/b") && said.contains("no training steps"),
            "{said}"
        );
        assert!(refused(vec![run("a"), run("a")]).contains("the same run"));
        let mut kind = run("b");
        kind.kind = "device".into();
        let said = refused(vec![run("a"), kind]);
        assert!(said.contains("host and device"), "{said}");
        let mut size = run("b");
        size.world.size = 4;
        let said = refused(vec![run("a"), size]);
        assert!(said.contains("number of ranks: 2 and 4"), "{said}");
    }

    #[test]
    fn a_run_is_added_once() {
        let known = entry("a", "main", 7);
        let name = EntryName::new(&Key::of(&known), 7, b"");
        let entries = [(name, known)];
        assert!(refuse_known(&[run("b")], &entries).is_ok());
        let said = refuse_known(&[run("b"), run("a")], &entries)
            .expect_err("known")
            .to_string();
        assert!(
            said.contains("runs/a") && said.contains("19700101-000000-000000007"),
            "{said}"
        );
    }
}
