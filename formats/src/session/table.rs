//! Parquet tables of plain rows. Writing goes row group by row group and reading goes in batches, both in bounded
//! memory.
//!
//! Rows are encoded by this crate ([`super::column`]) and decoded by the parquet crate.

use super::column::Column;
use super::differences::{pack_option, pack_text, pack_word, take_option, take_text, take_word};
use super::parquet_file::{FileError, ParquetFile, Shape};
use super::row_groups::RowGroups;
use super::storage::Storage;
use crate::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::errors::ParquetError;
use rankscope_ranklog::operation::{Library, Operation};
use rankscope_ranklog::record::{Algorithm, Protocol};
use std::borrow::Cow;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error while writing or reading a table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// An operation on the file failed.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file is damaged, is not Parquet, or could not be written.
    #[error("{path}: {source}")]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: ParquetError,
    },
    /// A column is missing or has another type.
    #[error(
        "{path}: column {column}: expected {expected}; the file was written by another version or program"
    )]
    Column {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// Expected type of the column.
        expected: DataType,
    },
    /// Arrow could not decode a batch.
    #[error("{path}: {source}")]
    Arrow {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: ArrowError,
    },
}

/// Row type of a table.
pub trait Table: Clone + Sized + Send + 'static {
    /// Name of the table, which is also its directory in a session.
    const NAME: &'static str;
    /// Name of the column that is the sort key; `None` if the key is not a column.
    const SORT_COLUMN: Option<&'static str>;
    /// Meaning of a row.
    const DESCRIPTION: &'static str;
    /// Returns the meaning of each column, with its unit, in the order of [`Table::columns`].
    fn descriptions() -> &'static [&'static str];
    /// Returns the columns: name, type, whether values may be missing, and storage.
    fn columns() -> Vec<(&'static str, DataType, bool, Storage)>;
    /// Returns what all files of the table have in common.
    #[doc(hidden)]
    fn shape() -> Result<&'static Shape, ParquetError>;
    /// Appends rows to `columns`, which are in the order of [`Table::columns`].
    #[doc(hidden)]
    fn encode(rows: &[Self], columns: &mut Columns);
    /// Decodes columns, in the order of [`Table::columns`], into rows. `Err` is the index of a column that has another
    /// type.
    fn decode(columns: &[ArrayRef], rows: usize, out: &mut Vec<Self>) -> Result<(), usize>;
    /// Returns the key, usually the start, by which rows are sorted inside a row group.
    fn sort_key(&self) -> i64;
    /// Returns a row of zeros and missing values, which comes before the first packed row.
    #[doc(hidden)]
    fn blank() -> Self;
    /// Appends the difference from the row before ([`super::PackedRows`]).
    #[doc(hidden)]
    fn pack(&self, before: &Self, out: &mut Vec<u8>);
    /// Takes a row that [`Table::pack`] appended.
    #[doc(hidden)]
    fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self>;

    /// Returns the Arrow schema of the table.
    fn schema() -> Arc<Schema> {
        Arc::new(Schema::new(
            Self::columns()
                .into_iter()
                .map(|(name, kind, nullable, _)| Field::new(name, kind, nullable))
                .collect::<Vec<_>>(),
        ))
    }
}

/// Type of a value in a column.
pub(super) trait Cell: Sized {
    /// Returns the Arrow type of the column.
    fn data_type() -> DataType;
    /// True if values may be missing.
    const NULLABLE: bool;
    /// Appends one value per row to a column.
    fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self);
    /// Calls `put` with the index and value of each row; `None` if the column has another type.
    fn values(column: &ArrayRef, put: impl FnMut(usize, Self)) -> Option<()>;
    /// Returns zero or a missing value.
    fn blank() -> Self;
    /// Appends the difference from another value. Returns false and appends nothing if there is none.
    fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool;
    /// Takes a value whose difference [`Cell::pack`] appended.
    fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self>;
}

/// Turns a number into 64 bits and back. The bits of doubles are kept, because equal doubles may have different ones.
macro_rules! word {
    ($value:expr, f64) => {
        $value.to_bits() as i64
    };
    ($value:expr, $rust:tt) => {
        $value as i64
    };
    (@back $word:expr, f64) => {
        f64::from_bits($word as u64)
    };
    (@back $word:expr, $rust:tt) => {
        $word as $rust
    };
}

/// Appends numbers to a column. `f64` has a separate case because doubles are ordered differently.
macro_rules! number {
    (@put $column:ident, $rows:ident, $get:expr, f64) => {
        $column.doubles($rows.iter().map($get))
    };
    (@put $column:ident, $rows:ident, $get:expr, $rust:tt) => {
        $column.numbers(
            $rows
                .iter()
                .map($get)
                .map(|value| value.map(|value| value as i64)),
        )
    };
}

macro_rules! numbers {
    ($($rust:tt, $array:ty, $kind:expr;)*) => {$(
        impl Cell for $rust {
            fn data_type() -> DataType { $kind }
            const NULLABLE: bool = false;
            fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
                number!(@put column, rows, |row| Some(get(row)), $rust);
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                let array = column.as_any().downcast_ref::<$array>()?;
                for (row, &value) in array.values().iter().enumerate() { put(row, value); }
                Some(())
            }
            fn blank() -> Self { Default::default() }
            #[inline]
            fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
                pack_word(word!(*self, $rust), word!(*before, $rust), out)
            }
            #[inline]
            fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self> {
                take_word(word!(*before, $rust), from).map(|word| word!(@back word, $rust))
            }
        }
        impl Cell for Option<$rust> {
            fn data_type() -> DataType { $kind }
            const NULLABLE: bool = true;
            fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
                number!(@put column, rows, get, $rust);
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                let array = column.as_any().downcast_ref::<$array>()?;
                for (row, value) in array.iter().enumerate() { put(row, value); }
                Some(())
            }
            fn blank() -> Self { None }
            #[inline]
            fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
                let word = |value: &Self| value.map(|value| word!(value, $rust));
                pack_option(word(self), word(before), out)
            }
            #[inline]
            fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self> {
                let before = before.map(|value| word!(value, $rust));
                take_option(before, from).map(|word| word.map(|word| word!(@back word, $rust)))
            }
        }
    )*};
}

numbers! {
    u8, UInt8Array, DataType::UInt8;
    u16, UInt16Array, DataType::UInt16;
    u32, UInt32Array, DataType::UInt32;
    u64, UInt64Array, DataType::UInt64;
    i32, Int32Array, DataType::Int32;
    i64, Int64Array, DataType::Int64;
    f64, Float64Array, DataType::Float64;
}

/// Implements [`Cell`] for the types of identifiers, whose columns have 32 bits.
macro_rules! identifiers {
    ($($id:ident)*) => {$(
        impl Cell for $id {
            fn data_type() -> DataType { <u32 as Cell>::data_type() }
            const NULLABLE: bool = false;
            fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
                u32::put(column, rows, |row| get(row).0);
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                <u32 as Cell>::values(column, |row, value| put(row, $id(value)))
            }
            fn blank() -> Self { $id(0) }
            #[inline]
            fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool { self.0.pack(&before.0, out) }
            #[inline]
            fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self> { u32::unpack(&before.0, from).map($id) }
        }
        impl Cell for Option<$id> {
            fn data_type() -> DataType { <u32 as Cell>::data_type() }
            const NULLABLE: bool = true;
            fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
                Option::<u32>::put(column, rows, |row| get(row).map(|id| id.0));
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                Option::<u32>::values(column, |row, value| put(row, value.map($id)))
            }
            fn blank() -> Self { None }
            #[inline]
            fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
                self.map(|id| id.0).pack(&before.map(|id| id.0), out)
            }
            #[inline]
            fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self> {
                Option::<u32>::unpack(&before.map(|id| id.0), from).map(|id| id.map($id))
            }
        }
    )*};
}

identifiers! { CommunicatorId MemberIndex RankIndex StepIndex }

impl Cell for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }
    const NULLABLE: bool = false;
    fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
        column.bits(rows.iter().map(get));
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<BooleanArray>()?;
        for row in 0..array.len() {
            put(row, array.value(row));
        }
        Some(())
    }
    fn blank() -> Self {
        false
    }
    fn pack(&self, before: &Self, _: &mut Vec<u8>) -> bool {
        self != before
    }
    fn unpack(before: &Self, _: &mut &[u8]) -> Option<Self> {
        Some(!before)
    }
}

impl Cell for Option<Cow<'static, str>> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = true;
    fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
        column.texts(rows.iter().map(get));
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<StringArray>()?;
        for (row, value) in array.iter().enumerate() {
            put(row, value.map(|value| Cow::Owned(value.to_owned())));
        }
        Some(())
    }
    fn blank() -> Self {
        None
    }
    fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
        pack_text(self.as_deref(), before.as_deref(), out)
    }
    fn unpack(_: &Self, from: &mut &[u8]) -> Option<Self> {
        take_text(from).map(|text| text.map(Cow::Owned))
    }
}

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = false;
    fn put<R>(column: &mut Column, rows: &[R], get: impl Fn(&R) -> Self) {
        column.texts(rows.iter().map(|row| Some(Cow::Owned(get(row)))));
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<StringArray>()?;
        for (row, value) in array.iter().enumerate() {
            put(row, value.unwrap_or_default().to_owned());
        }
        Some(())
    }
    fn blank() -> Self {
        String::new()
    }
    fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
        pack_text(Some(self), Some(before), out)
    }
    fn unpack(_: &Self, from: &mut &[u8]) -> Option<Self> {
        take_text(from).flatten()
    }
}

/// Value of a small fixed set, stored by its name.
pub(super) trait Named: Copy + 'static {
    /// All values of the set.
    const ALL: &'static [Self];
    /// Returns the name of the value in the table.
    fn name(self) -> &'static str;
    /// Returns the index of the value in [`Named::ALL`].
    fn position(self) -> u8;
}

/// Implements [`Cell`] for types that are [`Named`]. A blanket implementation would conflict with those for numbers.
macro_rules! named_cell {
    ($($named:ty),*) => {$(
        impl Cell for $named {
            fn data_type() -> DataType {
                DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
            }
            const NULLABLE: bool = false;
            fn put<R>(column: &mut $crate::session::column::Column, rows: &[R], get: impl Fn(&R) -> Self) {
                use $crate::session::table::Named;
                column.names(
                    rows.iter().map(|row| get(row).position()),
                    $crate::session::table::name_at::<$named>,
                );
            }
            fn values(column: &ArrayRef, put: impl FnMut(usize, Self)) -> Option<()> {
                $crate::session::table::named_values::<$named>(column, put)
            }
            fn blank() -> Self {
                <Self as $crate::session::table::Named>::ALL[0]
            }
            fn pack(&self, before: &Self, out: &mut Vec<u8>) -> bool {
                use $crate::session::table::Named;
                let differs = self != before;
                if differs {
                    out.push(self.position());
                }
                differs
            }
            fn unpack(_: &Self, from: &mut &[u8]) -> Option<Self> {
                let (&position, rest) = from.split_first()?;
                *from = rest;
                <Self as $crate::session::table::Named>::ALL.get(usize::from(position)).copied()
            }
        }
    )*};
}
pub(super) use named_cell;

/// Returns the name of the value at an index of [`Named::ALL`].
pub(super) fn name_at<N: Named>(position: i64) -> &'static str {
    let value = usize::try_from(position).ok().and_then(|at| N::ALL.get(at));
    // Every stored position comes from a value, so the fallback is never used.
    value.map_or("", |value| value.name())
}

pub(super) fn named_values<N: Named>(column: &ArrayRef, mut put: impl FnMut(usize, N)) -> Option<()> {
    let array = column.as_any().downcast_ref::<DictionaryArray<UInt8Type>>()?;
    let names = array.values().as_any().downcast_ref::<StringArray>()?;
    let known: Vec<Option<N>> = names
        .iter()
        .map(|name| N::ALL.iter().copied().find(|value| Some(value.name()) == name))
        .collect();
    for (row, &key) in array.keys().values().iter().enumerate() {
        // A name of a later version has no value here. The column is then rejected, because a guess would be wrong.
        put(row, known.get(usize::from(key)).copied().flatten()?);
    }
    Some(())
}

impl Named for Operation {
    const ALL: &'static [Self] = Operation::ALL;
    fn name(self) -> &'static str {
        self.name()
    }
    fn position(self) -> u8 {
        // Numbers run from 1 without gaps. Only `Unknown` has a number far apart, and it is the last value.
        (self as u8 - 1).min(Operation::ALL.len() as u8 - 1)
    }
}

impl Named for Library {
    const ALL: &'static [Self] = Library::ALL;
    fn name(self) -> &'static str {
        self.name()
    }
    fn position(self) -> u8 {
        self as u8 - 1
    }
}

impl Named for Algorithm {
    const ALL: &'static [Self] = Algorithm::ALL;
    fn name(self) -> &'static str {
        self.name()
    }
    fn position(self) -> u8 {
        self as u8
    }
}

impl Named for Protocol {
    const ALL: &'static [Self] = Protocol::ALL;
    fn name(self) -> &'static str {
        self.name()
    }
    fn position(self) -> u8 {
        self as u8
    }
}

named_cell!(Operation, Library, Algorithm, Protocol);

/// Declares a row type and its table. Each column names its storage. Several row types may be declared for one table,
/// so that a caller that needs few columns decodes no others.
macro_rules! table {
    // The sort key is a column. The footer then has the range of its values for each row group.
    (
        $(#[doc = $doc:literal])*
        $row:ident = $name:literal, sorted by |$of:ident| $this:ident.$sort:ident;
        $($columns:tt)*
    ) => {
        $crate::session::table::table! {
            @declare
            $(#[doc = $doc])*
            $row = $name, Some(stringify!($sort)), |$of| $this.$sort;
            $($columns)*
        }
    };
    (
        $(#[doc = $doc:literal])*
        $row:ident = $name:literal, sorted by $key:expr;
        $($columns:tt)*
    ) => {
        $crate::session::table::table! {
            @declare
            $(#[doc = $doc])*
            $row = $name, None, $key;
            $($columns)*
        }
    };
    (
        @declare
        $(#[doc = $doc:literal])*
        $row:ident = $name:literal, $sort:expr, $key:expr;
        $($(#[doc = $column_doc:literal])* $column:ident: $kind:ty = $storage:ident,)*
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $($(#[doc = $column_doc])* pub $column: $kind,)* }

        impl $crate::session::table::Table for $row {
            const NAME: &'static str = $name;
            const SORT_COLUMN: Option<&'static str> = $sort;
            const DESCRIPTION: &'static str = concat!($($doc, "\n",)*);

            fn descriptions() -> &'static [&'static str] {
                &[$(concat!($($column_doc, "\n",)*),)*]
            }

            fn columns() -> Vec<(&'static str, arrow_schema::DataType, bool, $crate::session::storage::Storage)> {
                use $crate::session::storage::Storage;
                use $crate::session::table::Cell;
                vec![$((stringify!($column), <$kind as Cell>::data_type(), <$kind as Cell>::NULLABLE, Storage::$storage),)*]
            }

            fn shape() -> Result<&'static $crate::session::parquet_file::Shape, parquet::errors::ParquetError> {
                static SHAPE: std::sync::OnceLock<$crate::session::parquet_file::Shape> = std::sync::OnceLock::new();
                if let Some(shape) = SHAPE.get() {
                    return Ok(shape);
                }
                let storage = Self::columns().into_iter().map(|(.., storage)| storage);
                let shape = $crate::session::parquet_file::Shape::new(&Self::schema(), storage)?;
                Ok(SHAPE.get_or_init(|| shape))
            }

            fn encode(rows: &[Self], columns: &mut $crate::session::table::Columns) {
                use $crate::session::table::Cell;
                let mut columns = columns.0.columns.iter_mut();
                $(
                    if let Some(column) = columns.next() {
                        <$kind as Cell>::put(column, rows, |row: &Self| row.$column.clone());
                    }
                )*
            }

            fn decode(columns: &[arrow_array::ArrayRef], rows: usize, out: &mut Vec<Self>) -> Result<(), usize> {
                use $crate::session::table::Cell;
                let start = out.len();
                let mut number = 0;
                $(
                    let mut $column: Vec<$kind> = Vec::with_capacity(rows);
                    columns
                        .get(number)
                        .and_then(|column| <$kind as Cell>::values(column, |_, value| $column.push(value)))
                        .filter(|()| $column.len() == rows)
                        .ok_or(number)?;
                    number += 1;
                )*
                let _ = number;
                $(let mut $column = $column.into_iter();)*
                out.extend((0..rows).map_while(|_| Some(Self { $($column: $column.next()?,)* })));
                debug_assert_eq!(out.len(), start + rows);
                Ok(())
            }

            fn sort_key(&self) -> i64 {
                let key: fn(&Self) -> i64 = $key;
                key(self)
            }

            fn blank() -> Self {
                use $crate::session::table::Cell;
                Self { $($column: <$kind as Cell>::blank(),)* }
            }

            fn pack(&self, before: &Self, out: &mut Vec<u8>) {
                use $crate::session::table::Cell;
                const COLUMNS: usize = [$(stringify!($column),)*].len();
                let mask = out.len();
                out.extend_from_slice(&[0; COLUMNS.div_ceil(8)]);
                let mut column = 0;
                $(
                    if <$kind as Cell>::pack(&self.$column, &before.$column, out) {
                        out[mask + column / 8] |= 1 << (column % 8);
                    }
                    column += 1;
                )*
                debug_assert_eq!(column, COLUMNS);
            }

            fn unpack(before: &Self, from: &mut &[u8]) -> Option<Self> {
                use $crate::session::table::Cell;
                const COLUMNS: usize = [$(stringify!($column),)*].len();
                let (mask, rest) = from.split_at_checked(COLUMNS.div_ceil(8))?;
                *from = rest;
                let mut column = 0;
                let mut has_changed = || {
                    column += 1;
                    mask[(column - 1) / 8] & 1 << ((column - 1) % 8) != 0
                };
                Some(Self {
                    $($column: if has_changed() {
                        <$kind as Cell>::unpack(&before.$column, from)?
                    } else {
                        before.$column.clone()
                    },)*
                })
            }
        }
    };
}
pub(super) use table;

/// Columns of a file that is being written.
pub struct Columns(pub(super) ParquetFile);

/// Number of rows in a batch. A row group can end only between batches.
const ROWS_PER_BATCH: usize = 1024;

/// Number of rows that are encoded at once. Each column iterates over all of them again. They should therefore fit into
/// the first-level cache of the processor, with rows of up to 256 bytes.
const ROWS_AT_ONCE: usize = 128;

/// Limits for the rows that a writer keeps in memory. Rows that are already encoded take another 10 to 20 bytes each.
#[derive(Clone, Copy, Debug)]
pub struct RowLimits {
    /// Number of rows in a row group.
    pub per_group: usize,
    /// Number of rows that are held back, so that a row that arrives late can still be sorted into its place.
    pub held: usize,
}

impl Default for RowLimits {
    /// Returns limits for a small number of tables.
    fn default() -> Self {
        Self {
            per_group: 1 << 16,
            held: 1024,
        }
    }
}

impl From<usize> for RowLimits {
    /// Returns limits for a small number of tables, with `per_group` rows in a row group.
    fn from(per_group: usize) -> Self {
        Self {
            per_group,
            ..Self::default()
        }
    }
}

/// Maximum number of rows in a row group; larger requests are clamped. Pages count their bytes in 32 bits.
const MAX_PER_GROUP: usize = 1 << 20;

/// Writes one Parquet file of a table. Rows need to arrive only nearly in the order of their start. In each row group
/// they are sorted.
pub struct TableWriter<T: Table> {
    /// Missing if the rows are dropped.
    file: Option<TableFile>,
    limits: RowLimits,
    /// Rows of the current group that are already encoded, without the held rows.
    rows_in_group: usize,
    last_key: i64,
    held: Vec<T>,
}

/// File of a table that is being written.
struct TableFile {
    columns: Columns,
    path: PathBuf,
}

impl<T: Table> TableWriter<T> {
    /// Creates a writer that drops all rows, for a caller that needs only the summary of a session.
    pub fn dropping() -> Self {
        Self {
            file: None,
            limits: RowLimits::default(),
            rows_in_group: 0,
            last_key: i64::MIN,
            held: Vec::new(),
        }
    }

    /// Creates the file and its directory. A row group has fewer rows than the limit if a row arrives too late to be
    /// sorted into it.
    pub fn create(path: &Path, limits: impl Into<RowLimits>) -> Result<Self, TableError> {
        let limits = limits.into();
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|source| TableError::Io {
                path: path.to_path_buf(),
                source,
            })?;
        }
        let file = T::shape().map_err(FileError::Parquet);
        let file = file.and_then(|shape| ParquetFile::create(path, shape));
        let file = file.map_err(|error| file_error(path, error))?;
        Ok(Self {
            file: Some(TableFile {
                columns: Columns(file),
                path: path.to_path_buf(),
            }),
            limits: RowLimits {
                per_group: limits.per_group.clamp(1, MAX_PER_GROUP),
                ..limits
            },
            rows_in_group: 0,
            last_key: i64::MIN,
            held: Vec::new(),
        })
    }

    /// Takes the rows and empties the vector, whose memory is kept for reuse.
    pub fn write(&mut self, rows: &mut Vec<T>) -> Result<(), TableError> {
        if self.file.is_none() {
            rows.clear();
            return Ok(());
        }
        // Reserves exactly: there are as many writers as ranks, and each keeps the memory that it once reserved.
        self.held.reserve_exact(rows.len());
        self.held.append(rows);
        // Waits until twice the limit is held before it writes rows: sorting the held rows then costs less per row.
        if self.held.len() < 2 * self.limits.held {
            return Ok(());
        }
        let due = self.held.len() - self.limits.held;
        self.write_held(due)
    }

    /// Writes the first `due` of the held rows, in order.
    fn write_held(&mut self, due: usize) -> Result<(), TableError> {
        // The sort is stable, and fast on nearly sorted input such as the rows of one rank.
        self.held.sort_by_key(T::sort_key);
        let mut held = std::mem::take(&mut self.held);
        for rows in held[..due].chunks(ROWS_PER_BATCH) {
            self.write_batch(rows)?;
        }
        held.drain(..due);
        self.held = held;
        Ok(())
    }

    fn write_batch(&mut self, rows: &[T]) -> Result<(), TableError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(());
        };
        if self.rows_in_group >= self.limits.per_group || first.sort_key() < self.last_key {
            self.end_group()?;
        }
        if let Some(file) = &mut self.file {
            for rows in rows.chunks(ROWS_AT_ONCE) {
                T::encode(rows, &mut file.columns);
            }
        }
        self.last_key = last.sort_key();
        self.rows_in_group += rows.len();
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), TableError> {
        let rows = std::mem::take(&mut self.rows_in_group);
        let Some(TableFile { columns, path }) = &mut self.file else {
            return Ok(());
        };
        columns.0.end_group(rows).map_err(|error| file_error(path, error))
    }

    /// Writes the held rows and the footer. Returns the rows and bytes of the file, zeros without a file.
    pub fn finish(mut self) -> Result<(u64, u64), TableError> {
        let due = self.held.len();
        self.write_held(due)?;
        self.end_group()?;
        match self.file {
            Some(TableFile { columns, path }) => columns.0.finish().map_err(|error| file_error(&path, error)),
            None => Ok((0, 0)),
        }
    }
}

/// Returns the values of a column of names that a file lacks.
fn unknown_names(rows: usize) -> ArrayRef {
    let names = StringArray::from(vec!["unknown"]);
    Arc::new(DictionaryArray::<UInt8Type>::new(
        vec![0; rows].into(),
        Arc::new(names),
    ))
}

fn file_error(path: &Path, error: FileError) -> TableError {
    let path = path.to_path_buf();
    match error {
        FileError::Io(source) => TableError::Io { path, source },
        FileError::Parquet(source) => TableError::Parquet { path, source },
    }
}

/// Reads one Parquet file of a table in batches.
pub struct TableReader<T: Table> {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    /// Index in a batch of each column of the row type; `None` if the file lacks the column.
    order: Vec<Option<usize>>,
    rows: u64,
    table: PhantomData<T>,
}

impl<T: Table> TableReader<T> {
    pub(super) fn new(
        reader: ParquetRecordBatchReader,
        path: PathBuf,
        order: Vec<Option<usize>>,
        rows: u64,
    ) -> Self {
        Self {
            reader,
            path,
            order,
            rows,
            table: PhantomData,
        }
    }

    /// Opens a whole file, as [`RowGroups::open`] does.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        RowGroups::open(path)?.read()
    }

    /// Returns the number of rows that this reader returns in total.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends the next batch of rows to `out`. Returns false at the end.
    pub fn next_rows(&mut self, out: &mut Vec<T>) -> Result<bool, TableError> {
        let Some(batch) = self.reader.next() else {
            return Ok(false);
        };
        let batch = batch.map_err(|source| TableError::Arrow {
            path: self.path.clone(),
            source,
        })?;
        let columns: Vec<ArrayRef> = self
            .order
            .iter()
            .map(|index| match index {
                Some(index) => batch.column(*index).clone(),
                None => unknown_names(batch.num_rows()),
            })
            .collect();
        T::decode(&columns, batch.num_rows(), out).map_err(|number| {
            let (column, expected) = T::columns()
                .into_iter()
                .nth(number)
                .map_or((String::new(), DataType::Null), |(name, kind, _, _)| {
                    (name.to_owned(), kind)
                });
            TableError::Column {
                path: self.path.clone(),
                column,
                expected,
            }
        })?;
        Ok(true)
    }

    /// Reads all rows of a small file.
    pub fn read_all(path: &Path) -> Result<Vec<T>, TableError> {
        let mut reader = Self::open(path)?;
        let mut out = Vec::new();
        while reader.next_rows(&mut out)? {}
        Ok(out)
    }
}
