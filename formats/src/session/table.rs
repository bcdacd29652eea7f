//! Parquet tables of plain rows: written row group by row group, read back in batches, both in bounded memory.

use crate::operation::{Library, Operation};
use crate::ranklog::record::{Algorithm, Protocol};
use arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, DictionaryArray, Float64Array, Int32Array,
    Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, UInt8Type};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is damaged, not Parquet, or could not be written.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A column is missing or has another type.
    #[error(
        "{path}: column {column}: expected {expected}; the file was written by another version or program"
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The type it should have.
        expected: DataType,
    },
    /// Arrow refused a batch.
    #[error("{path}: {source}")]
    Arrow {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ArrowError,
    },
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Numbers that grow by a step, or often stay what they are: sequences, threads, durations.
    Delta,
    /// Moments: like [`Storage::Delta`], but what is left of them is noise, which packing again hardly shrinks (4 % on a
    /// recorded training).
    Moment,
    /// Few different values: names, sizes.
    Dictionary,
    /// As they are.
    Plain,
}

/// A row type that is a table.
pub trait Table: Clone + Sized + Send + 'static {
    /// Name of the table, which is its directory in a session.
    const NAME: &'static str;
    /// Its columns: name, type, whether values may be missing, storage.
    fn columns() -> Vec<(&'static str, DataType, bool, Storage)>;
    /// Rows as columns.
    fn encode(rows: &[Self]) -> Vec<ArrayRef>;
    /// Columns (in the order of [`Table::columns`]) as rows; `Err` is the number of a column of another type.
    fn decode(columns: &[ArrayRef], rows: usize, out: &mut Vec<Self>) -> Result<(), usize>;
    /// Rows of a row group are in order of this: their start.
    fn sort_key(&self) -> i64;

    /// Its Arrow schema.
    fn schema() -> Arc<Schema> {
        Arc::new(Schema::new(
            Self::columns()
                .into_iter()
                .map(|(name, kind, nullable, _)| Field::new(name, kind, nullable))
                .collect::<Vec<_>>(),
        ))
    }
}

/// A value that can stand in a column.
pub(super) trait Cell: Sized {
    /// Its Arrow type.
    fn data_type() -> DataType;
    /// Whether it may be missing.
    const NULLABLE: bool;
    /// A column of one value per row.
    fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef;
    /// Hands each value of a column to `put`; `None` if the column has another type.
    fn values(column: &ArrayRef, put: impl FnMut(usize, Self)) -> Option<()>;
}

macro_rules! numbers {
    ($($rust:ty, $array:ty, $kind:expr;)*) => {$(
        impl Cell for $rust {
            fn data_type() -> DataType { $kind }
            const NULLABLE: bool = false;
            fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
                let values: Vec<$rust> = rows.iter().map(get).collect();
                Arc::new(<$array>::from(values))
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                let array = column.as_any().downcast_ref::<$array>()?;
                for (row, &value) in array.values().iter().enumerate() { put(row, value); }
                Some(())
            }
        }
        impl Cell for Option<$rust> {
            fn data_type() -> DataType { $kind }
            const NULLABLE: bool = true;
            fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
                let mut missing = 0;
                let values: Vec<$rust> = rows
                    .iter()
                    .map(|row| {
                        let value = get(row);
                        missing += usize::from(value.is_none());
                        value.unwrap_or_default()
                    })
                    .collect();
                // Most columns of most batches miss nothing or everything.
                let nulls = match missing {
                    0 => None,
                    _ if missing == rows.len() => Some(NullBuffer::new_null(missing)),
                    _ => Some(rows.iter().map(|row| get(row).is_some()).collect()),
                };
                Arc::new(PrimitiveArray::new(ScalarBuffer::from(values), nulls) as $array)
            }
            fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
                let array = column.as_any().downcast_ref::<$array>()?;
                for (row, value) in array.iter().enumerate() { put(row, value); }
                Some(())
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

impl Cell for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }
    const NULLABLE: bool = false;
    fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
        let mut values = BooleanBufferBuilder::new(rows.len());
        for row in rows {
            values.append(get(row));
        }
        Arc::new(BooleanArray::new(values.finish(), None))
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<BooleanArray>()?;
        for row in 0..array.len() {
            put(row, array.value(row));
        }
        Some(())
    }
}

impl Cell for Option<Cow<'static, str>> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = true;
    fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
        Arc::new(rows.iter().map(get).collect::<StringArray>())
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<StringArray>()?;
        for (row, value) in array.iter().enumerate() {
            put(row, value.map(|value| Cow::Owned(value.to_owned())));
        }
        Some(())
    }
}

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = false;
    fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(get(row))).collect::<StringArray>())
    }
    fn values(column: &ArrayRef, mut put: impl FnMut(usize, Self)) -> Option<()> {
        let array = column.as_any().downcast_ref::<StringArray>()?;
        for (row, value) in array.iter().enumerate() {
            put(row, value.unwrap_or_default().to_owned());
        }
        Some(())
    }
}

/// A value of a small fixed set, stored by name.
pub(super) trait Named: Copy + 'static {
    /// Every value.
    const ALL: &'static [Self];
    /// Its name in the table.
    fn name(self) -> &'static str;
    /// Its position in [`Named::ALL`].
    fn position(self) -> u8;
}

/// Cells of named values, which a blanket implementation would forbid beside those of numbers.
macro_rules! named_cell {
    ($($named:ty),*) => {$(
        impl Cell for $named {
            fn data_type() -> DataType {
                DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
            }
            const NULLABLE: bool = false;
            fn column<R>(rows: &[R], get: impl Fn(&R) -> Self) -> ArrayRef {
                $crate::session::table::named_column::<$named, R>(rows, get)
            }
            fn values(column: &ArrayRef, put: impl FnMut(usize, Self)) -> Option<()> {
                $crate::session::table::named_values::<$named>(column, put)
            }
        }
    )*};
}
pub(super) use named_cell;

pub(super) fn named_column<N: Named, R>(rows: &[R], get: impl Fn(&R) -> N) -> ArrayRef {
    let keys: Vec<u8> = rows.iter().map(|row| get(row).position()).collect();
    let names: StringArray = N::ALL.iter().map(|value| Some(value.name())).collect();
    // Keys are positions in ALL, so they are inside the dictionary.
    Arc::new(DictionaryArray::<UInt8Type>::new(
        UInt8Array::from(keys),
        Arc::new(names),
    ))
}

pub(super) fn named_values<N: Named>(column: &ArrayRef, mut put: impl FnMut(usize, N)) -> Option<()> {
    let array = column.as_any().downcast_ref::<DictionaryArray<UInt8Type>>()?;
    let names = array.values().as_any().downcast_ref::<StringArray>()?;
    let known: Vec<Option<N>> = names
        .iter()
        .map(|name| N::ALL.iter().copied().find(|value| Some(value.name()) == name))
        .collect();
    for (row, &key) in array.keys().values().iter().enumerate() {
        // A name of a later version has no value here: that column is refused, never guessed.
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
        // Numbers run from 1 without holes; only `Unknown` stands apart, at the end.
        (self as u8 - 1).min(Operation::ALL.len() as u8 - 1)
    }
}

impl Named for Library {
    const ALL: &'static [Self] = &[Library::C10d, Library::Gloo, Library::Nccl, Library::Mpi];
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

/// Declares a row type and its table. Each column names its storage.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $row:ident = $name:literal, sorted by $key:expr;
        $($(#[$column_doc:meta])* $column:ident: $kind:ty = $storage:ident,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $($(#[$column_doc])* pub $column: $kind,)* }

        impl $crate::session::table::Table for $row {
            const NAME: &'static str = $name;

            fn columns() -> Vec<(&'static str, arrow::datatypes::DataType, bool, $crate::session::table::Storage)> {
                use $crate::session::table::{Cell, Storage};
                vec![$((stringify!($column), <$kind as Cell>::data_type(), <$kind as Cell>::NULLABLE, Storage::$storage),)*]
            }

            fn encode(rows: &[Self]) -> Vec<arrow::array::ArrayRef> {
                use $crate::session::table::Cell;
                vec![$(<$kind as Cell>::column(rows, |row: &Self| row.$column.clone()),)*]
            }

            fn decode(columns: &[arrow::array::ArrayRef], rows: usize, out: &mut Vec<Self>) -> Result<(), usize> {
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
        }
    };
}
pub(super) use table;

/// Rows that are turned into columns at once. Each column walks over all of them again, so they should stay in the
/// processor's cache.
const ROWS_PER_BATCH: usize = 1024;

/// Rows held back, so that one that comes late still finds its place.
const ROWS_HELD: usize = 1024;

/// Writes one Parquet file of a table. Rows may come nearly in order of their start; in each row group they are in
/// order.
pub struct TableWriter<T: Table> {
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    path: PathBuf,
    rows_per_group: usize,
    /// Rows of the group being written, beside those held.
    rows_in_group: usize,
    last_key: i64,
    held: Vec<T>,
    rows: u64,
}

impl<T: Table> TableWriter<T> {
    /// Creates the file, and its directory. Row groups get this many rows, fewer where a row came too late for its
    /// place. A group in progress takes 10 to 20 bytes per row and some 10 KiB per compressed column.
    pub fn create(path: &Path, rows_per_group: usize) -> Result<Self, TableError> {
        let io_error = |source| TableError::Io {
            path: path.to_path_buf(),
            source,
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(io_error)?;
        }
        let file = File::create(path).map_err(io_error)?;
        let schema = T::schema();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for (name, kind, _, storage) in T::columns() {
            let column = ColumnPath::from(name);
            if matches!(kind, DataType::Dictionary(..)) {
                // The first and last name in the alphabet bound nothing, and finding them compares every value.
                properties =
                    properties.set_column_statistics_enabled(column.clone(), EnabledStatistics::None);
            }
            properties = match storage {
                Storage::Delta => properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
                Storage::Moment => properties
                    .set_column_encoding(column.clone(), Encoding::DELTA_BINARY_PACKED)
                    .set_column_compression(column, Compression::UNCOMPRESSED),
                Storage::Dictionary => properties.set_column_dictionary_enabled(column, true),
                Storage::Plain => properties,
            };
        }
        let writer =
            ArrowWriter::try_new(file, schema.clone(), Some(properties.build())).map_err(|source| {
                TableError::Parquet {
                    path: path.to_path_buf(),
                    source,
                }
            })?;
        Ok(Self {
            writer,
            schema,
            path: path.to_path_buf(),
            rows_per_group: rows_per_group.max(1),
            rows_in_group: 0,
            last_key: i64::MIN,
            held: Vec::new(),
            rows: 0,
        })
    }

    /// Takes these rows and empties the vector (its memory is kept).
    pub fn write(&mut self, rows: &mut Vec<T>) -> Result<(), TableError> {
        self.held.append(rows);
        if self.held.len() < ROWS_PER_BATCH + ROWS_HELD {
            return Ok(());
        }
        let due = self.held.len() - ROWS_HELD;
        self.write_held(due)
    }

    /// Writes the first of the rows that are held, in order.
    fn write_held(&mut self, due: usize) -> Result<(), TableError> {
        // Stable and fast on what is nearly sorted, which rows of one rank are.
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
        if self.rows_in_group >= self.rows_per_group || first.sort_key() < self.last_key {
            self.rows_in_group = 0;
            self.writer.flush().map_err(|source| self.parquet_error(source))?;
        }
        let batch = RecordBatch::try_new(self.schema.clone(), T::encode(rows)).map_err(|source| {
            TableError::Arrow {
                path: self.path.clone(),
                source,
            }
        })?;
        self.last_key = last.sort_key();
        self.rows_in_group += rows.len();
        self.rows += rows.len() as u64;
        self.writer
            .write(&batch)
            .map_err(|source| self.parquet_error(source))
    }

    fn parquet_error(&self, source: ParquetError) -> TableError {
        TableError::Parquet {
            path: self.path.clone(),
            source,
        }
    }

    /// Writes what is held and the footer. Returns rows and bytes of the file.
    pub fn finish(mut self) -> Result<(u64, u64), TableError> {
        let due = self.held.len();
        self.write_held(due)?;
        let Self {
            writer, path, rows, ..
        } = self;
        writer.close().map_err(|source| TableError::Parquet {
            path: path.clone(),
            source,
        })?;
        let bytes = fs::metadata(&path)
            .map_err(|source| TableError::Io { path, source })?
            .len();
        Ok((rows, bytes))
    }
}

/// Reads one Parquet file of a table in batches.
pub struct TableReader<T: Table> {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    order: Vec<usize>,
    rows: u64,
    table: PhantomData<T>,
}

impl<T: Table> TableReader<T> {
    /// Opens a file. Columns are found by name; columns of later versions are ignored.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let parquet_error = |source| TableError::Parquet {
            path: path.to_path_buf(),
            source,
        };
        let file = File::open(path).map_err(|source| TableError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet_error)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let schema = builder.schema().clone();
        let mut order = Vec::new();
        for (name, expected, _, _) in T::columns() {
            match schema.index_of(name) {
                Ok(index) if *schema.field(index).data_type() == expected => order.push(index),
                _ => {
                    let (path, column) = (path.to_path_buf(), name.to_owned());
                    return Err(TableError::Column {
                        path,
                        column,
                        expected,
                    });
                }
            }
        }
        let reader = builder.with_batch_size(8192).build().map_err(parquet_error)?;
        Ok(Self {
            reader,
            path: path.to_path_buf(),
            order,
            rows,
            table: PhantomData,
        })
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends the next rows to `out`; false at the end.
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
            .map(|&index| batch.column(index).clone())
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

    /// All rows of a small file.
    pub fn read_all(path: &Path) -> Result<Vec<T>, TableError> {
        let mut reader = Self::open(path)?;
        let mut out = Vec::new();
        while reader.next_rows(&mut out)? {}
        Ok(out)
    }
}
