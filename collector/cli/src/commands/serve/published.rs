//! What the last readings found, for requests.

use rankscope_formats::status::HangVerdict;
use rankscope_live::metrics::exposition::Exposition;
use rankscope_live::top::document::TopDocument;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Results of the last readings. Each is replaced as a whole.
#[derive(Default)]
pub struct Published(Mutex<Last>);

#[derive(Default)]
struct Last {
    metrics: Arc<Exposition>,
    document: Option<Arc<str>>,
    hang: Option<HangVerdict>,
}

impl Published {
    fn last(&self) -> MutexGuard<'_, Last> {
        // Every change is one assignment, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the metrics.
    pub fn set_metrics(&self, metrics: Exposition) {
        self.last().metrics = Arc::new(metrics);
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> Arc<Exposition> {
        Arc::clone(&self.last().metrics)
    }

    /// Replaces the figures of the window.
    pub fn set_document(&self, document: &TopDocument) {
        if let Ok(json) = serde_json::to_string(document) {
            self.last().document = Some(json.into());
        }
    }

    /// Returns the figures of the window as JSON; `None` before the first reading.
    pub fn document(&self) -> Option<Arc<str>> {
        self.last().document.clone()
    }

    /// Replaces the verdict on a hang; `None` if the job does not hang.
    pub fn set_hang(&self, verdict: Option<HangVerdict>) {
        self.last().hang = verdict;
    }

    /// Returns the verdict on a hang.
    pub fn hang(&self) -> Option<HangVerdict> {
        self.last().hang.clone()
    }
}
