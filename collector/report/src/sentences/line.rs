//! Line of a report: a sentence with its severity. Lists and shares in sentences.

use crate::figures::{self, percent};
use crate::prose::{Prose, prose};
use crate::source::share;

/// Severity of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As expected.
    Good,
    /// For information.
    Plain,
    /// Worth checking.
    Warning,
    /// Wrong, or costly.
    Bad,
}

/// Sentence with its severity.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Severity of the sentence.
    pub level: Level,
    /// The sentence.
    pub text: Prose,
    /// Advice on the problem.
    pub advice: Option<Prose>,
}

impl Line {
    /// Creates a line for information.
    pub fn plain(text: impl Into<Prose>) -> Self {
        Self::new(Level::Plain, text)
    }

    pub(super) fn new(level: Level, text: impl Into<Prose>) -> Self {
        Self {
            level,
            text: text.into(),
            advice: None,
        }
    }

    pub(super) fn with_advice(mut self, advice: impl Into<Prose>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Joins the first items of a list and the number of further ones.
pub fn some_of(items: &[impl AsRef<str>], most: usize) -> String {
    some_prose(items.iter().map(AsRef::as_ref), most).plain()
}

/// Like [`some_of`], with sources.
pub fn some_prose<I>(items: I, most: usize) -> Prose
where
    I: IntoIterator<Item: Into<Prose>, IntoIter: ExactSizeIterator>,
{
    let items = items.into_iter();
    let more = items.len().saturating_sub(most);
    let mut parts: Vec<Prose> = items.take(most).map(Into::into).collect();
    if more > 0 {
        parts.push(prose!["and ", figures::drawn(more.to_string()), " more"]);
    }
    Prose::join(parts, ", ")
}

/// Formats a part of a window in percent, or nothing if the window is empty. `part` and `window` are their sources.
pub fn share_of(ns: i64, window_ns: i64, part: &str, window: &str) -> Prose {
    if window_ns > 0 {
        percent(ns as f64 / window_ns as f64, share(part, window)).into()
    } else {
        "–".into()
    }
}
