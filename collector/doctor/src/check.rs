//! Result of a check.

use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;

/// How much a result matters, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// A fact to know. It is no fault.
    Note,
    /// Something is probably wrong: the job may fail or be slow, or part of the recording is missing.
    Warn,
    /// A recording would not work.
    Bad,
}

impl Severity {
    /// Returns the number of results of this severity.
    pub fn count(self, checks: &[Check]) -> usize {
        checks.iter().filter(|check| check.severity == self).count()
    }

    /// Returns the mark at the start of a printed line.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Bad => "BAD",
        }
    }
}

/// Subject of a check. Results are printed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// Library to preload, command, and place of the recording.
    Recording,
    /// Communication libraries that the command would load.
    Libraries,
    /// Sources of records that would be active.
    Sources,
    /// Processor, memory, limits, container and driver.
    Machine,
    /// GPUs, network adapters, and their links.
    Topology,
    /// Environment variables.
    Variables,
    /// Differences between the ranks of a recorded run.
    Ranks,
}

impl Subject {
    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Recording => "Recording",
            Self::Libraries => "Libraries",
            Self::Sources => "Sources of records",
            Self::Machine => "Machine",
            Self::Topology => "Topology",
            Self::Variables => "Environment variables",
            Self::Ranks => "Ranks of the run",
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Stable name of the check.
    pub id: Cow<'static, str>,
    /// Subject of the check.
    pub subject: Subject,
    /// How much the result matters.
    pub severity: Severity,
    /// The fact, in one line.
    pub title: String,
    /// The meaning or the origin of the fact. Absent if the title says all.
    pub detail: Option<String>,
    /// Recommended action. Absent if none is needed.
    pub advice: Option<String>,
}

impl Check {
    /// Creates a result without detail and advice.
    pub fn new(subject: Subject, severity: Severity, id: &'static str, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            subject,
            severity,
            title: title.into(),
            detail: None,
            advice: None,
        }
    }

    /// Creates a warning about an environment variable.
    pub fn of_variable(id: &'static str, title: impl Into<String>) -> Self {
        Self::new(Subject::Variables, Severity::Warn, id, title)
    }

    /// Adds the meaning or the origin of the fact.
    #[must_use]
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the recommended action.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}
