//! `rankscope-sql`, which `rankscope sql` starts: a program of its own, because the query engine is larger than all of rankscope.

use anyhow::{Context, Result, bail};
use clap::Parser;
use rankscope_formats::whole_file::WholeFile;
use rankscope_sql::output::{self, Format};
use rankscope_sql::{Engine, EngineOptions, Runs, prompt};
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  rankscope sql run1                                             a prompt
  rankscope sql run1 \"select * from runs\"
  rankscope sql run1 run2 \"select run, operation, count(*) from operations group by all\"
  rankscope sql runs/ \"select run, step_p50_ns from runs order by started_at\"  all runs of a folder
  rankscope sql run1 \"select * from instances\" -o instances.parquet
  rankscope sql run1 \"select * from columns\"                     every column with its meaning and unit
  echo \"select count(*) from operations\" | rankscope sql run1 -

Tables: runs ranks hosts communicators members findings columns, from the summaries;
operations instances steps spans program_spans counters pauses works names stalls traffic losses problems.
Functions: algbw busbw size_class overlaps overlap_ns percentile, and those of DataFusion.";

/// Ask sessions in SQL. Every table has the rows of all given runs; the column `run` has the run's name.
#[derive(Debug, Parser)]
#[command(name = "rankscope-sql", bin_name = "rankscope sql", version, after_help = EXAMPLES)]
struct Cli {
    /// Runs that were merged, sessions, or folders of runs; and then the query. `-` reads the query from standard input.
    /// Without a query, a prompt starts.
    #[arg(required = true, value_name = "DIR|QUERY")]
    arguments: Vec<String>,
    /// Form of the result (default: by the ending of the output file, else a table).
    #[arg(long, value_name = "FORM")]
    format: Option<Format>,
    /// File for the result.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum number of rows that a table on the terminal shows.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    rows: usize,
    /// Memory for sorts, joins and groups, in MiB. What does not fit goes to temporary files.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: usize,
    /// Number of threads (default: one per processor).
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rankscope sql: {}", prompt::explain(&error));
            ExitCode::from(2)
        }
    }
}

/// Returns true if the reader of the output has gone, for example `head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Splits the arguments into directories and the query: the last one, if it is no directory.
fn split(mut arguments: Vec<String>) -> Result<(Vec<PathBuf>, Option<String>)> {
    let is_query =
        |text: &str| text == "-" || (!PathBuf::from(text).exists() && text.contains(char::is_whitespace));
    let query = arguments.pop_if(|last| is_query(last));
    if arguments.is_empty() {
        bail!("a query needs a run: rankscope sql RUN \"select …\"");
    }
    let query = match query.as_deref() {
        Some("-") => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            Some(text)
        }
        _ => query,
    };
    Ok((arguments.into_iter().map(PathBuf::from).collect(), query))
}

fn run(cli: Cli) -> Result<()> {
    let (directories, query) = split(cli.arguments)?;
    let format = output::form(cli.format, cli.output.as_deref())?;
    let options = EngineOptions {
        memory_bytes: cli.memory.saturating_mul(1 << 20),
        threads: cli.threads.unwrap_or(EngineOptions::default().threads).max(1),
    };
    let engine = Engine::new(&Runs::open(&directories)?, options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let Some(query) = query else {
        if !io::stdin().is_terminal() {
            bail!(
                "standard input is no terminal; give the query as the last argument, or - to read it from there"
            );
        }
        return prompt::run(&engine, &runtime, cli.rows);
    };
    let max_rows = match cli.output {
        Some(_) => usize::MAX,
        None => cli.rows,
    };
    let written = match &cli.output {
        Some(path) => {
            let cannot_write = || format!("cannot write {}", path.display());
            let mut file = WholeFile::create(path).with_context(cannot_write)?;
            let written = runtime.block_on(async {
                output::write(engine.query(&query).await?, format, max_rows, &mut file).await
            })?;
            file.finish().with_context(cannot_write)?;
            written
        }
        None => runtime.block_on(async {
            output::write(engine.query(&query).await?, format, max_rows, io::stdout()).await
        })?,
    };
    if let Some(path) = &cli.output {
        eprintln!("{}: {}", path.display(), prompt::count(written, max_rows));
    } else if written.is_cut {
        eprintln!("{}", prompt::count(written, max_rows));
    }
    Ok(())
}
