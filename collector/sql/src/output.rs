//! Results as a readable table, CSV, JSON Lines or Parquet. All but the table are written batch by batch.

use anyhow::{Context, Result, bail};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;
use clap::ValueEnum;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A readable table. It has at most --rows rows, which are in memory to size the columns.
    Table,
    /// CSV with a header line.
    Csv,
    /// One JSON object per line.
    Json,
    /// Parquet. It needs --output.
    Parquet,
}

impl Format {
    /// Returns the format for a file extension.
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "parquet" => Some(Self::Parquet),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of rows.
    pub rows: usize,
    /// True if the result has more rows than a readable table shows.
    pub is_cut: bool,
}

/// Writes the rows of a result. `max_rows` limits a readable table, whose columns are as wide as their widest value.
///
/// # Errors
/// Those of the query and of the file.
pub async fn write(
    (schema, rows): (SchemaRef, SendableRecordBatchStream),
    format: Format,
    max_rows: usize,
    out: impl Write + Send,
) -> Result<Written> {
    let mut out = PipeWatch {
        inner: out,
        is_broken: false,
    };
    let result = write_to((schema, rows), format, max_rows, &mut out).await;
    match result {
        Err(_) if out.is_broken => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        result => result,
    }
}

/// Remembers a broken pipe, because Arrow's errors keep only the message.
struct PipeWatch<W> {
    inner: W,
    is_broken: bool,
}

impl<W: Write> Write for PipeWatch<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.is_broken |= matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.is_broken |= matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

/// Returns the batch with nested columns as strings, because CSV has no nested values.
fn plain(batch: &RecordBatch) -> Result<RecordBatch> {
    let is_nested = |field: &Arc<Field>| {
        field.data_type().is_nested() && !matches!(field.data_type(), DataType::Dictionary(..))
    };
    if !batch.schema().fields().iter().any(is_nested) {
        return Ok(batch.clone());
    }
    let options = FormatOptions::default();
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if !is_nested(field) {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let texts = ArrayFormatter::try_new(column, &options)?;
        let text = |row: usize| column.is_valid(row).then(|| texts.value(row).to_string());
        columns.push(Arc::new(StringArray::from_iter((0..column.len()).map(text))));
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

async fn write_to(
    (schema, mut rows): (SchemaRef, SendableRecordBatchStream),
    format: Format,
    max_rows: usize,
    mut out: impl Write + Send,
) -> Result<Written> {
    let mut written = Written {
        rows: 0,
        is_cut: false,
    };
    match format {
        Format::Table => {
            let mut shown: Vec<RecordBatch> = Vec::new();
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                let left = max_rows - written.rows;
                written.is_cut = batch.num_rows() > left;
                let batch = batch.slice(0, batch.num_rows().min(left));
                written.rows += batch.num_rows();
                shown.push(batch);
                if written.is_cut {
                    break;
                }
            }
            if shown.is_empty() {
                shown.push(RecordBatch::new_empty(schema));
            }
            writeln!(out, "{}", pretty_format_batches(&shown)?)?;
        }
        Format::Csv => {
            // Without rows, the header is that of an empty batch.
            let mut writer = WriterBuilder::new().with_header(true).build(&mut out);
            writer.write(&plain(&RecordBatch::new_empty(schema))?)?;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                writer.write(&plain(&batch)?)?;
                written.rows += batch.num_rows();
            }
        }
        Format::Json => {
            let mut writer = JsonBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, LineDelimited>(&mut out);
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                writer.write(&batch)?;
                written.rows += batch.num_rows();
            }
            writer.finish()?;
        }
        Format::Parquet => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .build();
            let mut writer = ArrowWriter::try_new(&mut out, schema, Some(properties))?;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                writer.write(&batch)?;
                written.rows += batch.num_rows();
            }
            writer.close()?;
        }
    }
    out.flush()?;
    Ok(written)
}

/// Returns the output format: as given, by the file extension, or a table.
///
/// # Errors
/// Parquet without a file.
pub fn choose_format(named: Option<Format>, file: Option<&Path>) -> Result<Format> {
    let format = match (named, file) {
        (Some(format), _) => format,
        (None, Some(file)) => Format::of_file(file).with_context(|| {
            format!(
                "{}: unknown extension; add --format, or use .csv, .json, .parquet or .txt",
                file.display()
            )
        })?,
        (None, None) => Format::Table,
    };
    if format == Format::Parquet && file.is_none() {
        bail!("--format parquet needs a file: add -o FILE.parquet");
    }
    Ok(format)
}

impl Written {
    /// Returns how many rows were written, as a text.
    pub fn summary(self) -> String {
        match (self.rows, self.is_cut) {
            (rows, true) => format!("first {rows} rows; use --rows or -o FILE for more"),
            (1, false) => "1 row".to_owned(),
            (rows, false) => format!("{rows} rows"),
        }
    }
}
