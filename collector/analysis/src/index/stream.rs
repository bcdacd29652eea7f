//! Reads a table of one rank, row by row in order of time.

use rankscope_formats::files;
use rankscope_formats::session::{Table, TableError, TableReader, rank_path};
use std::collections::VecDeque;
use std::path::Path;

/// Number of rows that are held back, so that a row after later ones is sorted. Rows that are later still arrive out of
/// order.
const HELD: usize = 1 << 15;

/// Rows in order of their start.
pub(super) struct Stream<T: Table> {
    reader: Option<TableReader<T>>,
    rows: VecDeque<T>,
    more: Vec<T>,
    /// Number of rows that arrived out of order.
    pub late: u64,
    last: i64,
    /// Reason why the table was not read to its end.
    pub problem: Option<String>,
}

impl<T: Table> Stream<T> {
    /// Opens a rank's table. A missing table has no rows, because not every rank has every table.
    pub(super) fn open(session: &Path, rank: u32) -> Result<Self, TableError> {
        let path = rank_path::<T>(session, rank);
        let (reader, problem) = if files::may_exist(&path) {
            match TableReader::open(&path) {
                Ok(reader) => (Some(reader), None),
                // A missing column is missing in all tables: the session has another version.
                Err(error @ TableError::Column { .. }) => return Err(error),
                Err(error) => (None, Some(error.to_string())),
            }
        } else {
            (None, None)
        };
        Ok(Self {
            reader,
            rows: VecDeque::new(),
            more: Vec::new(),
            late: 0,
            last: i64::MIN,
            problem,
        })
    }

    /// Returns the start of the next row.
    pub(super) fn peek(&mut self) -> Option<i64> {
        if self.rows.len() <= HELD && self.reader.is_some() {
            self.fill();
        }
        self.rows.front().map(T::sort_key)
    }

    /// Returns the next row.
    pub(super) fn next(&mut self) -> Option<T> {
        self.peek()?;
        let row = self.rows.pop_front()?;
        let key = row.sort_key();
        self.late += u64::from(key < self.last);
        self.last = self.last.max(key);
        Some(row)
    }

    fn fill(&mut self) {
        while self.rows.len() < 2 * HELD {
            let Some(reader) = &mut self.reader else { break };
            match reader.next_rows(&mut self.more) {
                Ok(true) => self.rows.extend(self.more.drain(..)),
                Ok(false) => self.reader = None,
                // Rows that were read are shown, and the error is reported.
                Err(error) => {
                    self.problem = Some(error.to_string());
                    self.reader = None;
                }
            }
        }
        // This sort is fast on nearly sorted rows.
        self.rows.make_contiguous().sort_by_key(T::sort_key);
    }
}
