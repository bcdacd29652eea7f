//! DataFusion with the tables and SQL functions of rankscope.

use crate::documents::{self, DocumentTable};
use crate::functions;
use crate::runs::Runs;
use crate::tables::{self, Description, SessionTable};
use anyhow::{Context, Result};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;

/// Limits of queries.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Memory of a query, in bytes. Sorts and groups that need more go to temporary files; joins must fit.
    pub memory_bytes: usize,
    /// Number of threads.
    pub threads: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            threads: std::thread::available_parallelism().map_or(1, |count| count.get()),
        }
    }
}

/// Answers queries on some runs.
pub struct Engine {
    context: SessionContext,
    /// Names and meanings of the tables.
    tables: Vec<(String, String)>,
    /// Names for completion: tables, columns and functions.
    completions: Vec<String>,
}

impl Engine {
    /// Makes the tables of the runs known. Reads no file.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn new(runs: &Runs, options: EngineOptions) -> Result<Self> {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_target_partitions(options.threads);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(options.memory_bytes)))
            .build_arc()
            .context("cannot prepare the query engine")?;
        let mut context = SessionContext::new_with_config_rt(config, runtime);
        functions::register(&mut context).context("cannot add the functions")?;

        tables::register_stores(&context, runs.0.iter().map(|run| run.path.as_path()))?;
        let mut of_files: Vec<(Description, SessionTable)> = Vec::new();
        for description in tables::descriptions() {
            let table = SessionTable::new(&description, &runs.0);
            of_files.push((description, table));
        }
        let mut in_memory = documents::tables(&runs.0)?;
        in_memory.push(documents::columns(&of_files, &in_memory)?);
        let mut words: Vec<String> = functions::ALL
            .iter()
            .map(|function| format!("{}(", function.name))
            .collect();
        let mut tables: Vec<(String, String)> = Vec::new();
        for DocumentTable {
            name,
            meaning,
            columns,
            rows,
        } in in_memory
        {
            tables.push((name.to_owned(), meaning.to_owned()));
            words.push(name.to_owned());
            words.extend(columns.iter().map(|(column, _)| (*column).to_owned()));
            let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
            context.register_table(name, Arc::new(table))?;
        }
        for (description, table) in of_files {
            tables.push((description.name.to_owned(), description.meaning.clone()));
            words.push(description.name.to_owned());
            words.extend(
                description
                    .schema
                    .fields()
                    .iter()
                    .map(|field| field.name().clone()),
            );
            context.register_table(description.name, Arc::new(table))?;
        }
        words.sort();
        words.dedup();
        Ok(Self {
            context,
            tables,
            completions: words,
        })
    }

    /// Returns the names and meanings of the tables.
    pub fn tables(&self) -> &[(String, String)] {
        &self.tables
    }

    /// Returns the names for completion: tables, columns and functions, in order.
    pub fn completions(&self) -> &[String] {
        &self.completions
    }

    /// Starts a query. Its rows arrive in batches.
    ///
    /// # Errors
    /// A query that DataFusion rejects.
    pub async fn query(&self, query: &str) -> Result<(SchemaRef, SendableRecordBatchStream)> {
        // A query reads. It neither changes tables nor writes files.
        let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
        let frame = self.context.sql_with_options(query, reads).await?;
        let schema: &Schema = frame.schema().as_arrow();
        let schema = Arc::new(schema.clone());
        Ok((schema, frame.execute_stream().await?))
    }
}
