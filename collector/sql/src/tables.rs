//! Tables of sessions, read in place from their Parquet files.
//!
//! A table has the rows of all runs. Its first column is `run`; a table with a file per rank also has `rank`, the position in the
//! table `ranks`. Both come from the path of a file, so a condition on them skips files.

use crate::runs::Run;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::SessionContext;
use rankscope_formats::files;
use rankscope_formats::session::{
    CounterRow, InstanceRow, LossRow, NameRow, OperationRow, PauseRow, ProblemRow, ProgramSpanRow, SpanRow,
    StallRow, StepRow, Table, TrafficRow, WorkRow,
};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Column with the name of the run.
pub const RUN: &str = "run";
/// Column with the position of the rank.
pub const RANK: &str = "rank";

/// Description of a table.
#[derive(Clone)]
pub struct Description {
    /// Name of the table, which is its directory in a session.
    pub name: &'static str,
    /// Meaning of a row.
    pub meaning: String,
    /// True if it has a file for each rank.
    pub is_per_rank: bool,
    /// Columns of the files.
    pub schema: SchemaRef,
    /// Meaning of each column.
    pub columns: Vec<String>,
}

/// Returns the descriptions of all tables that a session may have.
pub fn descriptions() -> Vec<Description> {
    fn of<T: Table>(is_per_rank: bool) -> Description {
        Description {
            name: T::NAME,
            meaning: plain(T::DESCRIPTION),
            is_per_rank,
            schema: T::schema(),
            columns: T::descriptions().iter().map(|text| plain(text)).collect(),
        }
    }
    vec![
        of::<OperationRow>(true),
        of::<InstanceRow>(false),
        of::<StepRow>(true),
        of::<SpanRow>(true),
        of::<ProgramSpanRow>(true),
        of::<CounterRow>(true),
        of::<PauseRow>(true),
        of::<WorkRow>(true),
        of::<NameRow>(true),
        of::<StallRow>(true),
        of::<TrafficRow>(false),
        of::<LossRow>(false),
        of::<ProblemRow>(false),
    ]
}

/// Rust names in doc comments, and their SQL names.
const NAMES: [(&str, &str); 13] = [
    ("Index into `Session::ranks`", "Position in the table `ranks`"),
    (
        "Index into `Session::communicators`",
        "Position in the table `communicators`",
    ),
    ("Index into `Session::hosts`", "Position in the table `hosts`"),
    ("Index into `Session::", "Position in session.json's `"),
    ("index into `Session::ranks`", "position in the table `ranks`"),
    (
        "Index into the rank's `DeviceActivity::streams`",
        "Position in session.json's `activity.streams` of the rank",
    ),
    ("`InstanceRow::", "`instances."),
    ("`OperationRow::", "`operations."),
    ("`ProgramSpanRow::", "`program_spans."),
    ("`NameRow::", "`names."),
    ("`WorkRow::", "`works."),
    ("`Session::", "session.json's `"),
    ("`DeviceActivity::", "session.json's `activity."),
];

/// Returns a doc comment as one line, with SQL names and without Rust links.
fn plain(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = joined
        .replace("[`super::", "`")
        .replace("[`", "`")
        .replace("`]", "`");
    NAMES
        .into_iter()
        .fold(plain, |text, (from, to)| text.replace(from, to))
}

/// File of a table.
#[derive(Clone, Debug)]
struct TableFile {
    file: PartitionedFile,
    run: String,
    rank: Option<u32>,
    /// Object store of the file. The file system of this machine counts as one.
    store: ObjectStoreUrl,
}

/// Object store of a directory, and the prefix of the names of its objects.
struct Place {
    store: ObjectStoreUrl,
    prefix: object_store::path::Path,
}

impl Place {
    fn of(directory: &Path) -> Result<Self> {
        if !files::is_remote(directory) {
            return Ok(Self {
                store: ObjectStoreUrl::local_filesystem(),
                prefix: object_store::path::Path::from_absolute_path(directory)?,
            });
        }
        let (_, prefix) =
            rankscope_remote::client(directory).map_err(|error| DataFusionError::External(error.into()))?;
        let text = directory.to_string_lossy();
        let bucket = text.strip_suffix(prefix.as_ref()).unwrap_or(&text);
        // DataFusion ignores what precedes an @. For Azure, that is the container.
        let unique = bucket.trim_end_matches('/').replacen('@', ".", 1);
        Ok(Self {
            store: ObjectStoreUrl::parse(unique)?,
            prefix,
        })
    }
}

/// Registers the object stores of these directories with DataFusion.
pub fn register_stores<'a>(
    context: &SessionContext,
    directories: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    for directory in directories.filter(|directory| files::is_remote(directory)) {
        let (client, _) = rankscope_remote::client(directory)?;
        context.register_object_store(Place::of(directory)?.store.as_ref(), client);
    }
    Ok(())
}

/// A table over all runs. Files are listed per query, because a large run has tens of thousands of them.
#[derive(Debug)]
pub struct SessionTable {
    schema: SchemaRef,
    /// Columns of the files, and then those of their paths.
    files_schema: TableSchema,
    /// Names of the runs, and the directories of the table in their sessions.
    directories: Vec<(String, PathBuf)>,
}

impl SessionTable {
    /// Makes a table of these runs. Reads nothing.
    pub fn new(description: &Description, runs: &[Run]) -> Self {
        let mut path_columns: Vec<FieldRef> = vec![Arc::new(Field::new(RUN, DataType::Utf8, false))];
        if description.is_per_rank {
            path_columns.push(Arc::new(Field::new(RANK, DataType::UInt32, false)));
        }
        // A column that an older file lacks is null.
        let of_files: Vec<Field> = description
            .schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        let mut all: Vec<FieldRef> = path_columns.clone();
        all.extend(of_files.iter().cloned().map(Arc::new));
        let directory = |run: &Run| (run.name.clone(), run.path.join(description.name));
        Self {
            schema: Arc::new(Schema::new(all)),
            files_schema: TableSchema::builder(Arc::new(Schema::new(of_files)))
                .with_table_partition_cols(path_columns)
                .build(),
            directories: runs.iter().map(directory).collect(),
        }
    }

    /// Returns the files of all runs. A run may be merged again between two queries of a prompt.
    fn files(&self) -> Result<Vec<TableFile>> {
        let mut files = Vec::new();
        for (run, directory) in &self.directories {
            self.find(run, directory, &mut files)?;
        }
        Ok(files)
    }

    /// Finds the files of a run, in the order of its ranks. Not every session has every table.
    fn find(&self, run: &str, directory: &Path, files: &mut Vec<TableFile>) -> Result<()> {
        let entries = match files::list(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                let named = io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
                return Err(DataFusionError::IoError(named));
            }
        };
        let place = Place::of(directory)?;
        let is_per_rank = self.path_column_count() > 1;
        let first = files.len();
        for entry in entries {
            let Some(part) = entry.name.strip_suffix(".parquet") else {
                continue;
            };
            let rank = match is_per_rank {
                true => match part.strip_prefix("rank=").map(str::parse) {
                    Some(Ok(rank)) => Some(rank),
                    _ => continue,
                },
                false if !part.starts_with("part-") => continue,
                false => None,
            };
            let meta = object_store::ObjectMeta {
                location: place.prefix.clone().join(entry.name.as_str()),
                last_modified: Default::default(),
                size: entry.bytes,
                e_tag: None,
                version: None,
            };
            let mut values = vec![ScalarValue::from(run)];
            values.extend(rank.map(ScalarValue::from));
            files.push(TableFile {
                file: PartitionedFile::new_from_meta(meta).with_partition_values(values),
                run: run.to_owned(),
                rank,
                store: place.store.clone(),
            });
        }
        files[first..].sort_by_key(|file| file.rank);
        Ok(())
    }

    /// Number of columns that come from the paths of files.
    fn path_column_count(&self) -> usize {
        self.files_schema.table_partition_cols().len()
    }

    /// Returns the schema of the columns from paths.
    fn path_schema(&self) -> Schema {
        Schema::new(self.files_schema.table_partition_cols().clone())
    }

    fn uses_only_path_columns(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        let names: Vec<&String> = self
            .files_schema
            .table_partition_cols()
            .iter()
            .map(|field| field.name())
            .collect();
        !filter.is_volatile() && columns.iter().all(|column| names.contains(&&column.name))
    }

    /// Returns the files that satisfy the filters on `run` and `rank`.
    fn files_that_match(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<TableFile>> {
        let files = self.files()?;
        let of_paths = filters
            .iter()
            .filter(|filter| self.uses_only_path_columns(filter))
            .cloned();
        let Some(condition) = conjunction(of_paths) else {
            return Ok(files);
        };
        let schema = Arc::new(self.path_schema());
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(
            files.iter().map(|file| &file.run),
        ))];
        if self.path_column_count() > 1 {
            columns.push(Arc::new(UInt32Array::from_iter(
                files.iter().map(|file| file.rank),
            )));
        }
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let condition = state.create_physical_expr(condition, &DFSchema::try_from(schema)?)?;
        let holds = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
        let Some(holds) = holds.as_any().downcast_ref::<BooleanArray>() else {
            return not_impl_err!("a condition that is neither true nor false");
        };
        Ok(files
            .into_iter()
            .zip(holds)
            .filter_map(|(file, holds)| (holds == Some(true)).then_some(file))
            .collect())
    }
}

#[async_trait::async_trait]
impl TableProvider for SessionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match self.uses_only_path_columns(filter) {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Inexact,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (of_paths, of_files) = (
            self.path_column_count(),
            self.files_schema.file_schema().fields().len(),
        );
        let wanted: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let files = self.files_that_match(state, filters)?;
        if files.is_empty() {
            let schema = self.schema.project(&wanted)?;
            return Ok(Arc::new(EmptyExec::new(Arc::new(schema))));
        }
        // In the scan, the columns from paths come last.
        let in_scan: Vec<usize> = wanted
            .iter()
            .map(|&column| {
                if column < of_paths {
                    of_files + column
                } else {
                    column - of_paths
                }
            })
            .collect();
        // Conditions on rows reach the files later, by DataFusion's physical optimizer.
        let limit = limit.filter(|_| filters.iter().all(|filter| self.uses_only_path_columns(filter)));
        let mut of_stores: BTreeMap<String, (ObjectStoreUrl, Vec<PartitionedFile>)> = BTreeMap::new();
        for file in files {
            let key = file.store.as_str().to_owned();
            let (_, files) = of_stores.entry(key).or_insert_with(|| (file.store, Vec::new()));
            files.push(file.file);
        }
        let options = state.table_options().parquet.clone();
        let scans = of_stores
            .into_values()
            .map(|(store, files)| -> Result<Arc<dyn ExecutionPlan>> {
                let source =
                    ParquetSource::new(self.files_schema.clone()).with_table_parquet_options(options.clone());
                let scan = FileScanConfigBuilder::new(store, Arc::new(source))
                    .with_file_groups(FileGroup::new(files).split_files(state.config().target_partitions()))
                    .with_projection_indices(Some(Vec::clone(&in_scan)))?
                    .with_limit(limit)
                    .build();
                Ok(DataSourceExec::from_data_source(scan))
            });
        let mut scans = scans.collect::<Result<Vec<_>>>()?;
        match scans.len() {
            1 => Ok(scans.swap_remove(0)),
            // A scan reads from one store.
            _ => UnionExec::try_new(scans),
        }
    }
}
