//! Parquet file that is written row group by row group and needs little memory in addition to the rows.
//!
//! It keeps no file open and has no encoders with separate buffers. For written data it keeps 64 bytes per column chunk
//! until the footer.

use super::column::{Chunk, Column, statistics};
use super::storage::Storage;
use arrow_schema::{DataType, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 4] = b"PAR1";

/// Minimum size of a chunk that is compressed, in bytes. A zstd frame alone takes about 20 bytes.
const COMPRESSED_FROM_BYTES: usize = 256;

thread_local! {
    /// Reused by all pages of the thread, because creating a compressor costs more than compressing most pages.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Data of a written column chunk that the footer needs.
struct Written {
    offset: u64,
    /// Size of the dictionary page with its header, in bytes; 0 without a dictionary.
    dictionary_bytes: u32,
    bytes: u32,
    unpacked_bytes: u32,
    nulls: u32,
    range: Option<(i64, i64)>,
    encoding: Encoding,
    is_compressed: bool,
}

struct Group {
    rows: u64,
    columns: Box<[Written]>,
}

/// What all files of a table have in common. It takes longer to make than a small file, and more memory.
pub struct Shape {
    /// The schema, as the footer contains it.
    footer: String,
    descriptor: SchemaDescPtr,
    columns: Vec<ColumnShape>,
}

struct ColumnShape {
    is_nullable: bool,
    is_unsigned: bool,
    storage: Storage,
}

impl Shape {
    /// Returns the shape of files with this schema, whose columns are stored in these ways.
    pub(super) fn new(
        schema: &Schema,
        storage: impl IntoIterator<Item = Storage>,
    ) -> Result<Self, ParquetError> {
        Ok(Self {
            footer: encode_arrow_schema(schema),
            descriptor: Arc::new(ArrowSchemaConverter::new().convert(schema)?),
            columns: schema
                .fields()
                .iter()
                .zip(storage)
                .map(|(field, storage)| ColumnShape {
                    is_nullable: field.is_nullable(),
                    is_unsigned: is_unsigned(field.data_type()),
                    storage,
                })
                .collect(),
        })
    }
}

/// File of one table that is being written.
pub(super) struct ParquetFile {
    path: PathBuf,
    shape: &'static Shape,
    /// Columns of the current row group.
    pub columns: Vec<Column>,
    groups: Vec<Group>,
    bytes: u64,
    rows: u64,
}

/// Error of the operating system, or of the conversion of the schema.
pub(super) enum FileError {
    Io(io::Error),
    Parquet(ParquetError),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ParquetError> for FileError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

fn is_unsigned(kind: &DataType) -> bool {
    // Narrower unsigned numbers are positive 64-bit numbers, so their signed order is the same.
    matches!(kind, DataType::UInt64)
}

impl ParquetFile {
    /// Creates the file and replaces an earlier one.
    pub fn create(path: &Path, shape: &'static Shape) -> Result<Self, FileError> {
        File::create(path)?.write_all(MAGIC)?;
        let columns = shape
            .columns
            .iter()
            .zip(shape.descriptor.columns())
            .map(|(of_table, column)| {
                Column::new(
                    column.physical_type(),
                    of_table.is_nullable,
                    of_table.is_unsigned,
                    of_table.storage,
                )
            })
            .collect();
        Ok(Self {
            path: path.to_path_buf(),
            shape,
            columns,
            groups: Vec::new(),
            bytes: MAGIC.len() as u64,
            rows: 0,
        })
    }

    /// Ends the row group, whose columns contain `rows` rows.
    pub fn end_group(&mut self, rows: usize) -> Result<(), FileError> {
        if rows == 0 {
            return Ok(());
        }
        let mut out = TrackedWrite::new(Vec::new());
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let may_shrink = column.may_shrink();
            let chunk = column.finish();
            columns.push(put_chunk(chunk, rows as u32, may_shrink, self.bytes, &mut out)?);
        }
        self.append(&out.into_inner()?)?;
        self.rows += rows as u64;
        self.groups.push(Group {
            rows: rows as u64,
            columns: columns.into(),
        });
        Ok(())
    }

    /// Appends bytes to the file. The file is open only during this call: a session of a thousand ranks has more files
    /// than a process may open.
    fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        OpenOptions::new()
            .append(true)
            .open(&self.path)?
            .write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the footer. Returns the rows and bytes of the file.
    pub fn finish(mut self) -> Result<(u64, u64), FileError> {
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in std::mem::take(&mut self.groups) {
            let columns = group
                .columns
                .iter()
                .enumerate()
                .map(|(index, written)| self.chunk_of_footer(index, written, group.rows))
                .collect::<Result<Vec<_>, _>>()?;
            let bytes = group.columns.iter().map(|chunk| i64::from(chunk.unpacked_bytes));
            let row_group = RowGroupMetaData::builder(self.shape.descriptor.clone())
                .set_num_rows(group.rows as i64)
                .set_total_byte_size(bytes.sum())
                .set_file_offset(group.columns.first().map_or(0, |first| first.offset) as i64)
                .set_column_metadata(columns)
                .build()?;
            groups.push(row_group);
        }
        let arrow = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), self.shape.footer.clone());
        let file = FileMetaData::new(
            1,
            self.rows as i64,
            Some(concat!("rankscope version ", env!("CARGO_PKG_VERSION")).to_owned()),
            Some(vec![arrow]),
            self.shape.descriptor.clone(),
            None,
        );
        let metadata = ParquetMetaData::new(file, groups);
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &metadata).finish()?;
        self.append(&footer)?;
        Ok((self.rows, self.bytes))
    }

    fn chunk_of_footer(
        &self,
        index: usize,
        written: &Written,
        rows: u64,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        let descriptor = self.shape.descriptor.column(index);
        let physical = descriptor.physical_type();
        let unsigned = self.shape.columns[index].is_unsigned;
        let has_dictionary = written.dictionary_bytes > 0;
        let mut encodings = vec![Encoding::RLE, written.encoding];
        if has_dictionary {
            encodings.push(Encoding::PLAIN);
        }
        let compression = if written.is_compressed {
            Compression::ZSTD(ZstdLevel::default())
        } else {
            Compression::UNCOMPRESSED
        };
        let mut chunk = ColumnChunkMetaData::builder(descriptor)
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(rows as i64)
            .set_total_compressed_size(i64::from(written.bytes))
            .set_total_uncompressed_size(i64::from(written.unpacked_bytes))
            .set_data_page_offset((written.offset + u64::from(written.dictionary_bytes)) as i64);
        if has_dictionary {
            chunk = chunk.set_dictionary_page_offset(Some(written.offset as i64));
        }
        if let Some(statistics) = statistics(physical, unsigned, written.range, written.nulls) {
            chunk = chunk.set_statistics(statistics);
        }
        chunk.build()
    }
}

/// Appends the pages of a chunk to `out`, which will be written at offset `base`.
fn put_chunk(
    chunk: Chunk,
    rows: u32,
    may_shrink: bool,
    base: u64,
    out: &mut TrackedWrite<Vec<u8>>,
) -> Result<Written, FileError> {
    let offset = base + out.bytes_written() as u64;
    let (keys, count) = chunk.dictionary.unwrap_or_default();
    let unpacked = [keys.len(), chunk.page.len()];
    // All pages of a chunk must use the same codec.
    let packed = may_shrink
        .then(|| packed(&keys, &chunk.page))
        .transpose()?
        .flatten();
    let is_compressed = packed.is_some();
    let (keys, page) = packed.unwrap_or((keys, chunk.page));
    let mut pages = SerializedPageWriter::new(out);
    let (mut dictionary_bytes, mut unpacked_bytes) = (0, 0);
    if count > 0 {
        let page = Page::DictionaryPage {
            buf: keys.into(),
            num_values: count,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let spec = pages.write_page(CompressedPage::new(page, unpacked[0]))?;
        dictionary_bytes = spec.compressed_size as u32;
        unpacked_bytes += spec.uncompressed_size as u32;
    }
    let page = Page::DataPage {
        buf: page.into(),
        num_values: rows,
        encoding: chunk.encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let spec = pages.write_page(CompressedPage::new(page, unpacked[1]))?;
    Ok(Written {
        offset,
        dictionary_bytes,
        bytes: dictionary_bytes + spec.compressed_size as u32,
        unpacked_bytes: unpacked_bytes + spec.uncompressed_size as u32,
        nulls: chunk.nulls,
        range: chunk.range,
        encoding: chunk.encoding,
        is_compressed,
    })
}

/// Compresses both pages of a chunk; `None` if the saving does not justify the cost of reading.
#[allow(clippy::type_complexity, reason = "two pages")]
fn packed(keys: &[u8], page: &[u8]) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let bytes = keys.len() + page.len();
    if bytes < COMPRESSED_FROM_BYTES {
        return Ok(None);
    }
    let page = compressed(page)?;
    let keys = if keys.is_empty() {
        Vec::new()
    } else {
        compressed(keys)?
    };
    let is_worth = keys.len() + page.len() + bytes / 16 < bytes;
    Ok(is_worth.then_some((keys, page)))
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = match compressor {
            Some(compressor) => compressor,
            none => none.insert(zstd::bulk::Compressor::new(1)?),
        };
        compressor.compress(bytes)
    })
}
