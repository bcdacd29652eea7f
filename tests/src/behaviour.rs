//! Behaviour of a job that the library must not change.

use serde_json::Value;

use crate::job::Finished;

/// Behaviour that must not change: statuses, output (in any order, because threads and children print too), and the
/// truth except for times.
#[derive(Debug, PartialEq)]
pub struct Behaviour {
    statuses: Vec<i32>,
    outputs: Vec<Vec<String>>,
    operations: Vec<Vec<String>>,
}

impl Behaviour {
    /// Returns the behaviour of a job that ended.
    pub fn of(finished: &Finished) -> Behaviour {
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let timeless = |mut line: Value| {
            if let Some(fields) = line.as_object_mut() {
                fields.retain(|name, _| !name.ends_with("_ns"));
            }
            line.to_string()
        };
        let ranks = 0..finished.ranks.len();
        Behaviour {
            statuses: finished.ranks.iter().map(|rank| rank.code()).collect(),
            outputs: finished
                .ranks
                .iter()
                .map(|rank| sorted(rank.text().lines().map(str::to_owned).collect()))
                .collect(),
            operations: ranks
                .map(|rank| sorted(finished.truth(rank).into_iter().map(timeless).collect()))
                .collect(),
        }
    }

    /// Asserts that a recorded job behaved like this one without the library.
    ///
    /// # Panics
    /// If it behaved differently. The message has the standard error of its ranks.
    pub fn expect_of(&self, recorded: &Finished, what: &str) {
        let reported: Vec<String> = recorded.ranks.iter().map(|rank| rank.complaints()).collect();
        assert_eq!(
            &Behaviour::of(recorded),
            self,
            "{what}: recorded; standard error:\n{}",
            reported.join("\n")
        );
    }
}
