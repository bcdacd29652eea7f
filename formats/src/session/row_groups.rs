//! Row groups of one file: which exist, which of them a time range needs, and a reader of only those.
//!
//! The footer contains the key range of each row group, and rows are sorted inside a row group. A part of a long table
//! is therefore read without the rest. Its row groups can be read in any order and on several threads.

use super::table::{Table, TableError, TableReader};
use crate::files::{self, OpenFile};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Columns of names that were added to a table: table and column. Where an older file lacks one, its values are unknown.
const ADDED_COLUMNS: [(&str, &str); 1] = [("operations", "requested")];

/// Number of rows that are decoded at once.
const ROWS_PER_BATCH: usize = 8192;

/// Row groups of a file of table `T`. The footer is read once for any number of readers.
pub struct RowGroups<T: Table> {
    path: PathBuf,
    /// The object, which need not be requested again. Files of this machine are closed: a session has more of them than a process may
    /// have open.
    object: Option<OpenFile>,
    metadata: ArrowReaderMetadata,
    projection: ProjectionMask,
    /// Index of each column of the row type in the decoded batch; `None` if the file is older than the column.
    order: Vec<Option<usize>>,
    /// Key range of each row group; `None` if the file does not contain it.
    ranges: Vec<Option<(i64, i64)>>,
    table: PhantomData<T>,
}

impl<T: Table> RowGroups<T> {
    /// Reads the footer of a file and finds columns by name. Columns that the row type lacks are not decoded: columns
    /// of later versions, or those that a narrow row type of the table leaves out.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let file = open_file(path)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|source| {
            TableError::Parquet {
                path: path.to_path_buf(),
                source,
            }
        })?;
        let schema = metadata.schema();
        let mut columns = Vec::new();
        for (name, expected, _, _) in T::columns() {
            match schema.index_of(name) {
                Ok(index) if *schema.field(index).data_type() == expected => columns.push(Some(index)),
                Err(_) if ADDED_COLUMNS.contains(&(T::NAME, name)) => columns.push(None),
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
        // A batch contains only these columns, in the order of the file.
        let found: Vec<usize> = columns.iter().copied().flatten().collect();
        let place = |index: &usize| found.iter().filter(|other| *other < index).count();
        let order = columns.iter().map(|index| index.as_ref().map(place)).collect();
        let key = T::SORT_COLUMN.and_then(|name| schema.index_of(name).ok());
        let ranges = metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| key_range(group, key?))
            .collect();
        Ok(Self {
            path: path.to_path_buf(),
            object: matches!(file, OpenFile::Remote(_)).then_some(file),
            projection: ProjectionMask::roots(metadata.parquet_schema(), found),
            metadata,
            order,
            ranges,
            table: PhantomData,
        })
    }

    /// Returns the number of row groups.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of rows in the file.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Returns the smallest and largest key ([`Table::sort_key`]) of a row group; `None` if the file does not contain
    /// them.
    pub fn range(&self, group: usize) -> Option<(i64, i64)> {
        self.ranges.get(group).copied().flatten()
    }

    /// Returns the row groups that may contain rows with a key in `from..to`.
    pub fn between(&self, from: i64, to: i64) -> Vec<usize> {
        let may_lie = |group: &usize| {
            self.range(*group)
                .is_none_or(|(least, most)| least < to && most >= from)
        };
        (0..self.count()).filter(may_lie).collect()
    }

    /// Returns a reader of these row groups, in this order.
    pub fn reader(&self, groups: Vec<usize>) -> Result<TableReader<T>, TableError> {
        let rows_of = |&group: &usize| {
            let group = self.metadata.metadata().row_groups().get(group);
            group.map_or(0, |group| u64::try_from(group.num_rows()).unwrap_or(0))
        };
        let rows = groups.iter().map(rows_of).sum();
        let mut file = match &self.object {
            Some(object) => object.again(&self.path).map_err(|source| TableError::Io {
                path: self.path.clone(),
                source,
            })?,
            None => open_file(&self.path)?,
        };
        let projection = &self.projection;
        file.plan(self.metadata.metadata(), &groups, |column| {
            projection.leaf_included(column)
        });
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.projection.clone())
            .with_row_groups(groups)
            .with_batch_size(ROWS_PER_BATCH)
            .build()
            .map_err(|source| TableError::Parquet {
                path: self.path.clone(),
                source,
            })?;
        Ok(TableReader::new(
            reader,
            self.path.clone(),
            self.order.clone(),
            rows,
        ))
    }

    /// Returns a reader of the whole file.
    pub fn read(&self) -> Result<TableReader<T>, TableError> {
        self.reader((0..self.count()).collect())
    }
}

fn open_file(path: &Path) -> Result<OpenFile, TableError> {
    files::open(path).map_err(|source| TableError::Io {
        path: path.to_path_buf(),
        source,
    })
}

/// Returns the smallest and largest value of an integer column from the footer.
fn key_range(group: &RowGroupMetaData, column: usize) -> Option<(i64, i64)> {
    match group.columns().get(column)?.statistics()? {
        Statistics::Int64(of) => Some((*of.min_opt()?, *of.max_opt()?)),
        Statistics::Int32(of) => Some((i64::from(*of.min_opt()?), i64::from(*of.max_opt()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::TableWriter;
    use crate::session::table::table;
    use proptest::prelude::*;

    table! {
        /// Row as it is written.
        Whole = "things", sorted by |row| row.start_ns;
        /// Name.
        name: String = Plain,
        /// Size in bytes.
        bytes: Option<u64> = Dictionary,
        /// Sort key.
        start_ns: i64 = Moment,
        /// End of the interval.
        end_ns: i64 = Moment,
    }

    table! {
        /// Row with fewer columns, in another order.
        Narrow = "things", sorted by |row| row.start_ns;
        /// Sort key.
        start_ns: i64 = Moment,
        /// Size in bytes.
        bytes: Option<u64> = Dictionary,
    }

    fn thing(start_ns: i64) -> Whole {
        Whole {
            name: format!("thing {start_ns}"),
            bytes: (start_ns % 3 != 0).then_some(start_ns as u64 % 7),
            start_ns,
            end_ns: start_ns + 5,
        }
    }

    fn write(path: &Path, starts: &[i64], per_group: usize) {
        let mut writer = TableWriter::create(path, per_group).expect("create");
        for starts in starts.chunks(100) {
            let mut rows: Vec<Whole> = starts.iter().copied().map(thing).collect();
            writer.write(&mut rows).expect("write");
        }
        writer.finish().expect("finish");
    }

    #[test]
    fn a_narrow_row_has_its_columns_at_any_position() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("things.parquet");
        let starts: Vec<i64> = (0..5000).collect();
        write(&path, &starts, 1 << 12);
        let narrow = TableReader::<Narrow>::read_all(&path).expect("read");
        let expected: Vec<Narrow> = starts
            .iter()
            .map(|&start| thing(start))
            .map(|row| Narrow {
                start_ns: row.start_ns,
                bytes: row.bytes,
            })
            .collect();
        assert_eq!(narrow, expected);
    }

    #[test]
    fn a_key_that_is_no_column_skips_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("problems.parquet");
        let mut writer = TableWriter::create(&path, 1).expect("create");
        let problem = |what: &str| crate::session::ProblemRow {
            rank: None,
            file: None,
            offset_bytes: None,
            what: what.to_owned(),
        };
        writer
            .write(&mut vec![problem("one"), problem("two")])
            .expect("write");
        writer.finish().expect("finish");
        let groups = RowGroups::<crate::session::ProblemRow>::open(&path).expect("open");
        assert_eq!(groups.range(0), None);
        assert_eq!(groups.between(7, 8).len(), groups.count());
    }

    proptest! {
        #[test]
        fn skipped_row_groups_have_no_row_of_the_interval(
            mut starts in proptest::collection::vec(-50_000i64..50_000, 0..6000),
            from in -60_000i64..60_000,
            length in 0i64..30_000,
            sorted in any::<bool>(),
        ) {
            if sorted {
                starts.sort_unstable();
            }
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("things.parquet");
            write(&path, &starts, 1024);
            let to = from + length;
            let groups = RowGroups::<Whole>::open(&path).expect("open");
            let mut reader = groups.reader(groups.between(from, to)).expect("reader");
            let mut some = Vec::new();
            while reader.next_rows(&mut some).expect("rows") {}
            let mut all = TableReader::<Whole>::read_all(&path).expect("read");
            prop_assert_eq!(groups.rows(), all.len() as u64);
            prop_assert_eq!(reader.rows(), some.len() as u64);
            for rows in [&mut some, &mut all] {
                rows.retain(|row| (from..to).contains(&row.start_ns));
            }
            prop_assert_eq!(some, all);
        }
    }
}
