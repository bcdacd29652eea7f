//! All metric families of a job, and their text in the two formats that Prometheus reads.

use super::job::JobMetrics;
use super::operations::OperationMetrics;
use super::ranks::RankMetrics;
use super::tally::Tally;
use crate::top::document::TopDocument;
use crate::warnings::{Change, Warnings};
use crate::window::Window;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use rankscope_formats::status::HangVerdict;
use std::fmt;

/// `Content-Type` of [`Exposition::openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// `Content-Type` of [`Exposition::prometheus`].
pub const PROMETHEUS: &str = prometheus_text::CONTENT_TYPE;

/// All metrics at one moment, as text.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    /// In the OpenMetrics text format 1.0.
    pub openmetrics: String,
    /// In the Prometheus text format 0.0.4.
    pub prometheus: String,
}

/// All metric families of a job.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    job: JobMetrics,
    ranks: RankMetrics,
    operations: OperationMetrics,
    tally: Tally,
}

impl Metrics {
    /// Creates the families. A job with more than `most_ranks` ranks has quantiles instead of series of single ranks.
    pub fn new(most_ranks: usize) -> Self {
        let mut registry = Registry::with_prefix("rankscope");
        Self {
            job: JobMetrics::register(&mut registry),
            ranks: RankMetrics::register(&mut registry, most_ranks),
            operations: OperationMetrics::register(&mut registry),
            registry,
            tally: Tally::default(),
        }
    }

    /// Takes over a window and its figures.
    pub fn update(&mut self, window: &Window, document: &TopDocument) {
        let added = self.tally.add(window, document);
        self.job.update(document, &added);
        self.ranks.update(document);
        self.operations.update(window, document, &added);
    }

    /// Takes over the raised warnings, and what the last window changed.
    pub fn warnings(&self, warnings: &Warnings, changes: &[Change]) {
        self.job.warnings(warnings, changes);
    }

    /// Takes over the verdict on a hang; `None` if the job does not hang.
    pub fn hang(&self, verdict: Option<&HangVerdict>) {
        self.job.hang(verdict);
    }

    /// Counts a reading that failed.
    pub fn failed(&self) {
        self.job.failed();
    }

    /// Returns all metrics as text.
    pub fn exposition(&self) -> Result<Exposition, fmt::Error> {
        let mut out = Exposition::default();
        text::encode(&mut out.openmetrics, &self.registry)?;
        prometheus_text::encode(&mut out.prometheus, &self.registry)?;
        Ok(out)
    }
}
