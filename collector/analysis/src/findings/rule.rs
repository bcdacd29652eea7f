//! A rule: its documentation and its search function.

use super::draft::Draft;
use super::facts::Facts;
use crate::model::declared::DeclaredLimits;
use rankscope_formats::session::Session;
use serde::Serialize;

/// A rule: the meaning of its findings, its condition, and when it stays silent.
#[derive(Clone, Copy, Serialize)]
pub struct Rule {
    /// Identifier: the `kind` of its findings.
    pub id: &'static str,
    /// What the rule finds, in one sentence.
    pub title: &'static str,
    /// What a finding means for the job.
    pub means: &'static str,
    /// Condition with every limit.
    pub fires: &'static str,
    /// Cases in which one might expect a finding and there is none.
    pub silent: &'static str,
    /// Search in the data of a merge; `None` if the rule needs declared limits.
    #[serde(skip)]
    pub find: Option<fn(&Facts<'_>) -> Vec<Draft>>,
    /// Search in a session with declared limits; `None` if the rule needs none.
    #[serde(skip)]
    pub find_declared: Option<fn(&Session, &DeclaredLimits) -> Vec<Draft>>,
}
