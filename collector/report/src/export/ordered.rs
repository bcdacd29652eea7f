//! Rows of a table in the order of their start, in bounded memory.
//!
//! An operation is written when its instance is complete. So a row may follow rows that started later: as many as its
//! rank recorded meanwhile, usually none. The reader sorts a bounded number of rows ahead. A row that is even later
//! stays late here, and the reader of the trace sorts it.

use rankscope_formats::session::{Table, TableError, TableReader};
use std::collections::VecDeque;
use std::path::Path;

/// Number of rows read ahead.
const AHEAD: usize = 80_000;

/// Rows of one file, in order.
pub struct Ordered<T: Table> {
    reader: TableReader<T>,
    rows: VecDeque<T>,
    incoming: Vec<T>,
    ended: bool,
    is_wanted: fn(&T) -> bool,
}

impl<T: Table> Ordered<T> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        Self::open_some(path, |_| true)
    }

    /// Opens a file, for the rows that are wanted.
    pub fn open_some(path: &Path, is_wanted: fn(&T) -> bool) -> Result<Self, TableError> {
        Ok(Self {
            is_wanted,
            ..Self::of(TableReader::open(path)?)
        })
    }

    /// Orders the rows of a reader.
    pub fn of(reader: TableReader<T>) -> Self {
        Self {
            is_wanted: |_| true,
            reader,
            rows: VecDeque::new(),
            incoming: Vec::new(),
            ended: false,
        }
    }

    /// Returns the next row without taking it.
    pub fn peek(&mut self) -> Result<Option<&T>, TableError> {
        if !self.ended && self.rows.len() < AHEAD {
            while self.rows.len() < 2 * AHEAD {
                if !self.reader.next_rows(&mut self.incoming)? {
                    self.ended = true;
                    break;
                }
                self.rows.extend(self.incoming.drain(..).filter(self.is_wanted));
            }
            // The rows are nearly sorted, so this costs about one comparison per row.
            self.rows.make_contiguous().sort_by_key(T::sort_key);
        }
        Ok(self.rows.front())
    }

    /// Takes the next row.
    pub fn next(&mut self) -> Result<Option<T>, TableError> {
        self.peek()?;
        Ok(self.rows.pop_front())
    }
}
