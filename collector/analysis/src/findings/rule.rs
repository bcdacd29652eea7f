//! A rule: how a finding is looked for, and its documentation.

use super::draft::Draft;
use super::facts::Facts;
use crate::model::stated::Stated;
use rankscope_formats::session::Session;
use serde::Serialize;

/// A rule: what a finding of it means, when it fires, when it does not.
#[derive(Clone, Copy, Serialize)]
pub struct Rule {
    /// Its name: the `kind` of its findings.
    pub id: &'static str,
    /// What it finds, in a sentence.
    pub title: &'static str,
    /// What that means.
    pub means: &'static str,
    /// When it fires.
    pub fires: &'static str,
    /// When it does not, though one might think so.
    pub silent: &'static str,
    /// Looks for it in what a merge learnt; `None` if it needs what a person states.
    #[serde(skip)]
    pub find: Option<fn(&Facts<'_>) -> Vec<Draft>>,
    /// Looks for it in a session, by what a person states.
    #[serde(skip)]
    pub of_stated: Option<fn(&Session, &Stated) -> Vec<Draft>>,
}
