//! Rows on standard output while they are measured.

use crate::commands::print;
use anyhow::Result;
use rankscope_formats::bench::{BenchResults, BenchRow, Placement};
use rankscope_report::bench::table;

/// Prints a line when all placements of a size are measured.
pub struct Lines {
    is_silent: bool,
    /// Operation of the last heading.
    heading: Option<String>,
    /// Rows of the size in progress.
    pending: Vec<BenchRow>,
}

impl Lines {
    /// Prints nothing if the results will be printed as JSON.
    pub fn new(is_silent: bool) -> Self {
        Self {
            is_silent,
            heading: None,
            pending: Vec::new(),
        }
    }

    /// Takes the last row of the results.
    pub fn row(&mut self, results: &BenchResults) -> Result<()> {
        let Some(row) = results.rows.last() else {
            return Ok(());
        };
        let belongs = self
            .pending
            .first()
            .is_none_or(|first| first.operation == row.operation && first.elements == row.elements);
        if !belongs {
            self.flush()?;
        }
        if self.heading.as_ref() != Some(&row.operation) {
            self.heading = Some(row.operation.clone());
            self.print(&table::heading(results, &row.operation))?;
        }
        self.pending.push(row.clone());
        if row.placement == Placement::InPlace {
            self.flush()?;
        }
        Ok(())
    }

    /// Prints the last line.
    pub fn end(&mut self) -> Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return Ok(());
        }
        self.print(&table::line(&rows))
    }

    fn print(&self, text: &str) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        print::text(text)
    }
}
