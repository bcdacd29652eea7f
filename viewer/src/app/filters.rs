//! The filter of the timeline, compiled for each session.

use crate::model::Opened;
use crate::picture::painter::HighlightFilter;
use crate::search::{expression::Filter, parse};
use std::sync::Arc;

/// The filter of the timeline. Each session has a compiled one, because it contains ranks and communicators.
#[derive(Default)]
pub struct Filters {
    /// Text that was compiled. `None`: compile again.
    text: Option<String>,
    /// Filter of the session.
    pub own: Option<HighlightFilter>,
    /// Filter of the compared session.
    pub other: Option<HighlightFilter>,
    /// The reason why the text is no filter.
    pub error: Option<String>,
}

impl Filters {
    /// Compiles a text if it changed. An empty text is no filter.
    pub fn update(&mut self, text: &str, opened: &Opened, other: Option<&Opened>) {
        if self.text.as_deref() == Some(text) {
            return;
        }
        *self = Self {
            text: Some(text.to_owned()),
            ..Self::default()
        };
        if text.trim().is_empty() {
            return;
        }
        match parse(text) {
            Ok(filter) => {
                self.own = Some(compiled(&filter, opened));
                self.other = other.map(|other| compiled(&filter, other));
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// Makes the next update compile the text again, because a session changed. Until then, the old filter applies.
    pub fn invalidate(&mut self) {
        self.text = None;
    }

    /// Removes the compiled filters, because they belong to another comparison.
    pub fn clear(&mut self) {
        *self = Self {
            error: self.error.take(),
            ..Self::default()
        };
    }
}

fn compiled(filter: &Filter, opened: &Opened) -> HighlightFilter {
    Arc::new(filter.compile(opened))
}
