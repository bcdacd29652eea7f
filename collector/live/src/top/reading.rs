//! Reading of windows for the screen: none reaches across a restart, and the number of records is bounded.

use super::document::TopDocument;
use super::figures::{figures, newest_attempt};
use crate::window::{Window, WindowError, WindowReader};
use rankscope_analysis::ingest::part::Last;
use rankscope_formats::session::Session;
use rankscope_ranklog::process::boot_id;
use std::path::PathBuf;
use std::time::Duration;

/// Default number of records of a window. Reading them takes about a tenth of a second.
const FEW_RECORDS: u64 = 200_000;
/// Default number of records per rank, if there are many ranks.
const RECORDS_PER_RANK: u64 = 100;

/// Share of the time in which a run is read, at most: one part of this number.
const MOST_BUSY: u32 = 3;

/// Reads the figures of the screen.
#[derive(Debug)]
pub struct TopReader {
    reader: WindowReader,
    /// Requested length, in nanoseconds.
    time_ns: i64,
    /// Requested number of records.
    records: Option<u64>,
    /// Number of ranks of the previous window.
    ranks: u64,
    boot_id: Option<String>,
}

impl TopReader {
    /// Creates a reader of windows of this length, in nanoseconds, with at most about `records` records. Without such a
    /// limit, it depends on the number of ranks.
    pub fn new(directories: Vec<PathBuf>, time_ns: i64, records: Option<u64>) -> Self {
        Self {
            reader: WindowReader::without_tables(directories, Last::default()),
            time_ns,
            records,
            ranks: 0,
            boot_id: boot_id(),
        }
    }

    /// Creates a reader of windows with the rows of their instances.
    pub fn with_instances(directories: Vec<PathBuf>, time_ns: i64, records: Option<u64>) -> Self {
        Self {
            reader: WindowReader::with_instances(directories.clone(), Last::default()),
            ..Self::new(directories, time_ns, records)
        }
    }

    /// Reads the figures of the window as it is now.
    pub fn read(&mut self) -> Result<TopDocument, WindowError> {
        Ok(self.read_window()?.1)
    }

    /// Reads the window as it is now, and its figures.
    pub fn read_window(&mut self) -> Result<(Window, TopDocument), WindowError> {
        let is_first = self.ranks == 0;
        let (window, document) = self.read_once()?;
        // Only the first read shows how many ranks there are.
        let more = self.ranks * RECORDS_PER_RANK > FEW_RECORDS && self.records.is_none();
        if is_first && more && document.window.is_shortened {
            return self.read_once();
        }
        Ok((window, document))
    }

    fn read_once(&mut self) -> Result<(Window, TopDocument), WindowError> {
        let last = Last {
            time_ns: Some(self.time_ns),
            records: Some(
                self.records
                    .unwrap_or_else(|| FEW_RECORDS.max(self.ranks * RECORDS_PER_RANK)),
            ),
        };
        self.reader.set_last(last);
        let mut window = self.reader.read()?;
        if let Some(time_ns) = since_a_restart(&window.session) {
            let earlier = window.cost;
            self.reader.set_last(Last {
                time_ns: Some(time_ns),
                ..last
            });
            window = self.reader.read()?;
            window.cost += earlier;
        }
        self.ranks = window.session.ranks.len() as u64;
        let document = figures(&window, last, self.boot_id.as_deref());
        Ok((window, document))
    }
}

/// Returns the time from the start of the newest attempt to the end of the window, in nanoseconds, if the window also
/// has records of an earlier attempt.
fn since_a_restart(session: &Session) -> Option<i64> {
    let newest = newest_attempt(session);
    let has_records = |is_newest: bool| {
        let mut ranks = session.ranks.iter();
        ranks.any(|rank| (rank.attempt == newest) == is_newest && rank.records > 0)
    };
    if !has_records(false) || !has_records(true) {
        return None;
    }
    let start_ns = session.attempts.last()?.start_ns;
    Some((session.axis.end_ns - start_ns).max(1))
}

/// Returns the time from the start of a read to the start of the next one. A run that takes long to read is read less
/// often, so that reading takes at most a third of one processor.
pub fn next_read(interval: Duration, cost: Duration) -> Duration {
    interval.max(cost * MOST_BUSY)
}

/// Returns whether the document has nothing of the job yet.
pub fn is_empty(document: &TopDocument) -> bool {
    document.ranks.is_empty() || document.window.records == 0
}
