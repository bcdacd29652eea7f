//! `periods.json`: the list of a session's periods. A long run is merged in periods of the same length, each once. Every period is a
//! session of its own.
//!
//! ```text
//! session/periods.json                    this list
//! session/periods/20261128T170000Z/       session of the period that starts at this time
//! session/periods/20261128T170000Z/cut.json   ticks at which the logs were cut at its end
//! ```

use super::figure::{Figure, Ratio};
use super::findings::{Finding, Severity};
use super::losses::ProblemSummary;
use super::summary::{Session, Tool};
use crate::{files, whole_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Name of the list of periods inside a session directory.
pub const PERIODS_FILE: &str = "periods.json";
/// Name of the directory of the periods inside a session directory.
pub const PERIODS_DIRECTORY: &str = "periods";
/// Version of this layout. A reader rejects newer versions.
pub const PERIODS_VERSION: u32 = 1;

/// Periods of a run, in order of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Periods {
    /// Version of the layout: [`PERIODS_VERSION`].
    pub version: u32,
    /// Program that wrote the list.
    pub tool: Tool,
    /// Run directories from which the periods were made, as given.
    pub directories: Vec<String>,
    /// Length of a period, in nanoseconds. Periods start at multiples of it since 1970, in UTC.
    pub length_ns: i64,
    /// Zero of the axis of all periods, in nanoseconds since 1970.
    pub origin_unix_ns: i64,
    /// The periods in which something was recorded.
    pub periods: Vec<Period>,
    /// Logs with records that are in no period, because they came after the period was final.
    #[serde(default)]
    pub missed: Vec<ProblemSummary>,
}

/// One period, with its most important figures. Its session has all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Period {
    /// Name of its directory in [`PERIODS_DIRECTORY`]: its start, in UTC.
    pub name: String,
    /// Start, in nanoseconds since 1970.
    pub from_unix_ns: i64,
    /// End, in nanoseconds since 1970.
    pub until_unix_ns: i64,
    /// True if nothing can be added to the period. It is never merged again. Otherwise the next merge replaces it.
    pub is_final: bool,
    /// Number of ranks that recorded in the period.
    pub ranks: u64,
    /// Number of operations.
    pub operations: u64,
    /// Payload of the operations, in bytes.
    pub bytes: u64,
    /// Number of whole training steps.
    pub steps: u64,
    /// Median step time, in nanoseconds.
    pub median_step_ns: Figure<i64>,
    /// Exposed communication as a share of the ranks' time, both in rank-nanoseconds.
    pub exposed_communication: Figure<Ratio>,
    /// The part of it that is waiting for other ranks, as a share of the ranks' time, both in rank-nanoseconds.
    pub exposed_wait: Figure<Ratio>,
    /// Number of instances that cross an end of the period and belong to no period, because they did not complete soon after it.
    pub left_out: u64,
    /// Dropped records, if the last one was dropped in the period. Recorders count over the whole run: if records are dropped again
    /// later, the later period has the sum.
    pub lost: u64,
    /// Number of problems of the input.
    pub problems: u64,
    /// Findings, the costliest first; at most [`Period::MAX_FINDINGS`].
    pub findings: Vec<PeriodFinding>,
}

/// Finding of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeriodFinding {
    /// Rule that fired.
    pub kind: String,
    /// Severity.
    pub severity: Severity,
    /// Subject, such as `rank 3`.
    pub subject: Option<String>,
    /// Title: one sentence with numbers and units.
    pub title: String,
    /// Cost in the job's time, in nanoseconds.
    pub cost_ns: Figure<i64>,
}

/// Error while reading a list of periods.
#[derive(Debug, thiserror::Error)]
pub enum PeriodsError {
    /// An operation on the file failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file is not a list of periods.
    #[error("{path} is not a list of periods: {source}")]
    Format {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: serde_json::Error,
    },
    /// The file has a value that no list has.
    #[error("{path}: {what}")]
    Content {
        /// Path of the file.
        path: String,
        /// The value.
        what: String,
    },
    /// A newer program wrote the file.
    #[error("{path} has layout {found}; this program reads up to {PERIODS_VERSION}")]
    Version {
        /// Path of the file.
        path: String,
        /// Version of its layout.
        found: u32,
    },
}

impl Periods {
    /// Reads `periods.json` of a session directory. Returns `None` if the session has no periods.
    pub fn read(session: &Path) -> Result<Option<Self>, PeriodsError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let path = session.join(PERIODS_FILE);
        let name = || path.display().to_string();
        let text = match files::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(PeriodsError::Io { path: name(), source }),
        };
        let format = |source| PeriodsError::Format { path: name(), source };
        let Head { version } = serde_json::from_slice(&text).map_err(format)?;
        if version > PERIODS_VERSION {
            return Err(PeriodsError::Version {
                path: name(),
                found: version,
            });
        }
        let list: Self = serde_json::from_slice(&text).map_err(format)?;
        match list.contradiction() {
            None => Ok(Some(list)),
            Some(what) => Err(PeriodsError::Content { path: name(), what }),
        }
    }

    /// Returns what a list of periods cannot have, if it has such a thing.
    fn contradiction(&self) -> Option<String> {
        if self.length_ns <= 0 {
            return Some(format!("periods of {} ns are impossible", self.length_ns));
        }
        let is_name = |name: &str| {
            let mut parts = Path::new(name).components();
            matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        };
        let wrong = self
            .periods
            .iter()
            .find(|period| !is_name(&period.name) || period.from_unix_ns >= period.until_unix_ns)?;
        Some(format!(
            "the period '{}' has no name of a directory, or no time",
            wrong.name
        ))
    }

    /// Returns the length of a period as `--every` takes it, such as `1h` or `90s`.
    pub fn length(&self) -> String {
        const UNITS: [(i64, &str); 3] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
        ];
        let whole = UNITS.iter().find(|(ns, _)| self.length_ns % ns == 0);
        whole.map_or_else(
            || format!("{}ns", self.length_ns),
            |(ns, unit)| format!("{}{unit}", self.length_ns / ns),
        )
    }

    /// Writes `periods.json` into a session directory. The file appears completely or not at all.
    pub fn write(&self, session: &Path) -> io::Result<()> {
        let text = super::layout::to_text(self)?;
        whole_file::write(&session.join(PERIODS_FILE), &text)
    }

    /// Returns the periods that have some of the time between two times on the axis, in nanoseconds.
    pub fn between(&self, from_ns: i64, until_ns: i64) -> impl Iterator<Item = &Period> {
        let on_axis = |unix_ns: i64| unix_ns.saturating_sub(self.origin_unix_ns);
        self.periods.iter().filter(move |period| {
            on_axis(period.from_unix_ns) < until_ns && from_ns < on_axis(period.until_unix_ns)
        })
    }
}

/// Returns the number of dropped records of the losses that end in the period of a session.
fn lost_in(session: &Session) -> u64 {
    let until_ns = session
        .part
        .as_ref()
        .and_then(|part| part.until_ns)
        .unwrap_or(i64::MAX);
    let losses = session.losses.iter().filter(|loss| loss.last_ns < until_ns);
    losses.map(|loss| loss.count).sum()
}

impl Period {
    /// Maximum number of listed findings.
    pub const MAX_FINDINGS: usize = 12;

    /// Takes the figures of a period from its session.
    pub fn of(
        session: &Session,
        name: String,
        (from_unix_ns, until_unix_ns): (i64, i64),
        is_final: bool,
    ) -> Self {
        let sum = |part: fn(&super::RankBreakdown) -> i64| {
            session.breakdown.iter().map(part).fold(0, i64::saturating_add)
        };
        let window_ns = sum(|entry| entry.window_ns);
        let share = |part: i64| Ratio::figure(part, window_ns, "no rank has any time in this period");
        let is_finding = |finding: &&Finding| finding.severity != Severity::Note;
        Self {
            name,
            from_unix_ns,
            until_unix_ns,
            is_final,
            ranks: session.ranks.len() as u64,
            operations: session.totals.operations,
            bytes: session.totals.bytes,
            steps: session.steps.count,
            median_step_ns: session.steps.median_ns.clone(),
            exposed_communication: share(sum(|entry| entry.exposed_communication_ns)),
            exposed_wait: share(sum(|entry| entry.exposed_wait_ns)),
            left_out: session
                .part
                .as_ref()
                .map_or(0, |part| part.left_out.not_completed),
            lost: lost_in(session),
            problems: session.problems.total,
            findings: session
                .findings
                .iter()
                .filter(is_finding)
                .take(Self::MAX_FINDINGS)
                .map(|finding| PeriodFinding {
                    kind: finding.kind.clone(),
                    severity: finding.severity,
                    subject: finding.subject.clone(),
                    title: finding.title.clone(),
                    cost_ns: finding.cost_ns.clone(),
                })
                .collect(),
        }
    }

    /// Returns the directory of its session.
    pub fn path(&self, session: &Path) -> PathBuf {
        session.join(PERIODS_DIRECTORY).join(&self.name)
    }
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    /// Returns a list of hours with these names. All but the last are final.
    pub fn list_of(names: &[&str]) -> Periods {
        let period = |(at, name): (usize, &&str)| Period {
            name: (*name).to_owned(),
            from_unix_ns: at as i64 * HOUR_NS,
            until_unix_ns: (at as i64 + 1) * HOUR_NS,
            is_final: at + 1 < names.len(),
            ranks: 4,
            operations: 1_000,
            bytes: 1 << 30,
            steps: 100,
            median_step_ns: Figure::known(1_000_000_000),
            exposed_communication: Ratio::figure(1, 10, ""),
            exposed_wait: Ratio::figure(1, 20, ""),
            left_out: 0,
            lost: 0,
            problems: 0,
            findings: Vec::new(),
        };
        Periods {
            version: PERIODS_VERSION,
            tool: Tool {
                name: "rankscope".to_owned(),
                version: "0".to_owned(),
            },
            directories: vec!["run".to_owned()],
            length_ns: HOUR_NS,
            origin_unix_ns: 0,
            periods: names.iter().enumerate().map(period).collect(),
            missed: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::list_of;
    use super::*;
    use std::fs;

    #[test]
    fn damaged_lists_are_errors_that_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = list_of(&["20261128T170000Z", "20261128T180000Z"]);
        good.write(folder.path()).expect("written");
        assert_eq!(
            Periods::read(folder.path()).expect("readable"),
            Some(good.clone())
        );
        let damages: [fn(&mut Periods); 4] = [
            |list| list.length_ns = 0,
            |list| list.periods[1].name = "../elsewhere".to_owned(),
            |list| list.periods[1].name.clear(),
            |list| list.periods[0].until_unix_ns = i64::MIN,
        ];
        for damage in damages {
            let mut list = good.clone();
            damage(&mut list);
            list.write(folder.path()).expect("written");
            let error = Periods::read(folder.path()).expect_err("a contradiction");
            assert!(error.to_string().contains(PERIODS_FILE), "{error}");
        }
        for text in ["", "{", "[]", r#"{"version": 99}"#] {
            fs::write(folder.path().join(PERIODS_FILE), text).expect("written");
            let error = Periods::read(folder.path()).expect_err("damage");
            assert!(error.to_string().contains(PERIODS_FILE), "{error}");
        }
    }

    #[test]
    fn lengths_are_written_as_the_option_takes_them() {
        let mut list = list_of(&[]);
        for (seconds, text) in [(3600, "1h"), (7200, "2h"), (5400, "90m"), (90, "90s"), (60, "1m")] {
            list.length_ns = seconds * 1_000_000_000;
            assert_eq!(list.length(), text);
        }
    }
}
