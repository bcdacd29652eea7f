//! Results as a table for people, CSV, JSON or Parquet. All but the table are written batch by batch.

use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::pretty::pretty_format_batches;
use clap::ValueEnum;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::path::Path;

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people, of limited length.
    Table,
    /// CSV with a header line.
    Csv,
    /// One JSON object per line.
    Json,
    /// Parquet. It needs --output.
    Parquet,
}

impl Format {
    /// Returns the form that belongs to the ending of a file's name.
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
    /// True if the result has more rows than a table for people shows.
    pub is_cut: bool,
}

/// Writes the rows of a result. `max_rows` limits a table for people, whose columns are as wide as their widest value.
///
/// # Errors
/// Those of the query and of the file.
pub async fn write(
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
            let mut has_header = false;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                let mut writer = WriterBuilder::new().with_header(!has_header).build(&mut out);
                has_header = true;
                writer.write(&batch)?;
                written.rows += batch.num_rows();
            }
            if !has_header {
                let names: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                writeln!(out, "{}", names.join(","))?;
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

/// Returns the form of a result: as named, by the ending of the file, or a table.
///
/// # Errors
/// Parquet without a file.
pub fn form(named: Option<Format>, file: Option<&Path>) -> Result<Format> {
    let format = match (named, file) {
        (Some(format), _) => format,
        (None, Some(file)) => Format::of_file(file).with_context(|| {
            format!(
                "{}: the ending names no form; add --format, or use .csv, .json, .parquet or .txt",
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
