//! Rows in a tenth of their memory, for callers that hold many of them.
//!
//! A packed row is its difference from the row before it: a mask of the columns that changed, and their differences. This is no file
//! format: only the process that packed the rows reads them.

use super::table::Table;

/// Packed rows of a table. Append to it with [`PackedRows::push`], and read it with an [`Unpacker`].
pub struct PackedRows<T: Table> {
    before: T,
    bytes: Vec<u8>,
    rows: u32,
}

impl<T: Table> Default for PackedRows<T> {
    fn default() -> Self {
        Self {
            before: T::blank(),
            bytes: Vec::new(),
            rows: 0,
        }
    }
}

impl<T: Table> PackedRows<T> {
    /// Appends a row.
    pub fn push(&mut self, row: T) {
        row.pack(&self.before, &mut self.bytes);
        self.before = row;
        self.rows += 1;
    }

    /// Returns the number of rows since the last call of [`PackedRows::clear`].
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Returns true if there are no rows since the last call of [`PackedRows::clear`].
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the packed rows.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the rows and frees their memory. The next row is still packed as its difference from the last one.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
        self.rows = 0;
    }
}

/// Unpacks rows in the order in which they were packed.
pub struct Unpacker<T: Table> {
    before: T,
}

impl<T: Table> Default for Unpacker<T> {
    fn default() -> Self {
        Self { before: T::blank() }
    }
}

impl<T: Table> Unpacker<T> {
    /// Appends `rows` rows to `out`. Returns `None` if the bytes are damaged.
    pub fn unpack(&mut self, mut bytes: &[u8], rows: usize, out: &mut Vec<T>) -> Option<()> {
        out.reserve_exact(rows);
        for _ in 0..rows {
            let row = T::unpack(&self.before, &mut bytes)?;
            out.push(row.clone());
            self.before = row;
        }
        bytes.is_empty().then_some(())
    }
}
