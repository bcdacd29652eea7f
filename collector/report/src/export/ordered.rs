//! Rows of a table in the order of their start, in bounded memory.
//!
//! An operation is written when its instance is complete, so a row may come after others that started later: by as many
//! as its rank did meanwhile, mostly none. Rows are looked at ahead and sorted; one that is later still comes late here
//! too, which the trace's reader sorts.

use rankscope_formats::session::{Table, TableError, TableReader};
use std::collections::VecDeque;
use std::path::Path;

/// Rows that are looked at ahead.
const AHEAD: usize = 80_000;

/// Rows of one file, in order.
pub struct Ordered<T: Table> {
    reader: TableReader<T>,
    rows: VecDeque<T>,
    incoming: Vec<T>,
    ended: bool,
}

impl<T: Table> Ordered<T> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        Ok(Self {
            reader: TableReader::open(path)?,
            rows: VecDeque::new(),
            incoming: Vec::new(),
            ended: false,
        })
    }

    /// The next row, without taking it.
    pub fn peek(&mut self) -> Result<Option<&T>, TableError> {
        if !self.ended && self.rows.len() < AHEAD {
            while self.rows.len() < 2 * AHEAD {
                if !self.reader.next_rows(&mut self.incoming)? {
                    self.ended = true;
                    break;
                }
                self.rows.extend(self.incoming.drain(..));
            }
            // Nearly sorted already: the cost is that of one comparison per row.
            self.rows.make_contiguous().sort_by_key(T::sort_key);
        }
        Ok(self.rows.front())
    }

    /// The next row.
    pub fn next(&mut self) -> Result<Option<T>, TableError> {
        self.peek()?;
        Ok(self.rows.pop_front())
    }
}
