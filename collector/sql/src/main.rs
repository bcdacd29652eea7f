//! `rankscope-sql`, which `rankscope sql` starts. It is separate because DataFusion takes longer to build than all of rankscope.

use anyhow::{Context, Result, bail};
use clap::{Parser, value_parser};
use mimalloc::MiMalloc;
use rankscope_formats::files::is_remote;
use rankscope_formats::whole_file::WholeFile;
use rankscope_sql::output::{self, Format, Written};
use rankscope_sql::{Engine, EngineOptions, Runs, errors, prompt, statements};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Allocator of all threads of a query.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const EXAMPLES: &str = "\
Examples:
  rankscope sql run1                                             a prompt
  rankscope sql run1 \"select * from runs\"
  rankscope sql run1 run2 \"select run, operation, count(*) from operations group by all\"
  rankscope sql runs/ \"select run, step_p50_ns from runs order by started_at\"  all runs of a folder
  rankscope sql run1 \"select * from instances\" -o instances.parquet
  rankscope sql run1 \"select * from columns\"                     every column with its meaning and unit
  echo \"select count(*) from operations\" | rankscope sql run1 -
  rankscope sql s3://bucket/runs \"select * from runs\"           runs in an object store

Tables: runs ranks hosts communicators members findings columns, from the summaries;
operations instances steps spans program_spans counters pauses works names stalls traffic losses problems.
Functions: algbw busbw size_class overlaps overlap_ns percentile, and those of DataFusion.";

/// Query sessions with SQL. Every table has the rows of all given runs; the column `run` has the run's name.
#[derive(Debug, Parser)]
#[command(name = "rankscope-sql", bin_name = "rankscope sql", version, after_help = EXAMPLES)]
struct Cli {
    /// Runs that were merged, sessions, or folders of runs; and then the query. `-` reads the query from standard input.
    /// Without a query, a prompt starts.
    #[arg(required = true, value_name = "DIR|URL|QUERY")]
    arguments: Vec<OsString>,
    /// Output format. Default: by the extension of the output file, otherwise a table.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// File for the result.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum number of rows of a readable table, 1 to 10000. Other formats write all rows.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=10_000))]
    rows: u32,
    /// Memory of a query, in MiB. Sorts and groups that need more use temporary files; joins must fit.
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = value_parser!(u32).range(16..))]
    memory: u32,
    /// Number of threads, 1 to 1024 (default: one per processor).
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

/// Size of the stack on which queries are planned, in bytes. The planner calls itself for each part of an expression, and generated
/// queries have thousands. Only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;

fn main() -> ExitCode {
    rankscope_remote::register();
    let cli = Cli::parse_from(rankscope_remote::address::local_paths(std::env::args_os()));
    let work = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(|| run(cli));
    let result = match work.map(|thread| thread.join()) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => return ExitCode::from(3),
        Err(error) => Err(error).context("cannot start a thread"),
    };
    // If a session was replaced meanwhile, the result may mix both versions.
    let result = result.and_then(|code| {
        rankscope_remote::sessions::check()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rankscope sql: {}", errors::explain(&error));
            ExitCode::from(2)
        }
    }
}

/// Returns true if the output is a closed pipe, for example to `head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Words with which a query begins.
const BEGINNINGS: [&str; 7] = ["select", "with", "explain", "describe", "show", "values", "table"];

/// Returns true if a text begins like a query.
fn is_query(text: &str) -> bool {
    let word = statements::first_word(text);
    BEGINNINGS
        .iter()
        .any(|beginning| beginning.eq_ignore_ascii_case(word))
}

/// Splits the arguments into directories and the query: the last one, if it is no directory.
fn split(mut arguments: Vec<OsString>) -> Result<(Vec<PathBuf>, Option<String>)> {
    let as_query = |argument: &OsString| {
        let text = argument.to_str()?;
        (text == "-" || (is_query(text) && !Path::new(text).exists())).then(|| text.to_owned())
    };
    let query = arguments.last().and_then(as_query);
    if query.is_some() {
        arguments.pop();
    }
    for argument in &arguments {
        if let Some(text) = as_query(argument) {
            bail!("give one query, as the last argument: {text}");
        }
        let text = argument.to_string_lossy();
        let may_exist = is_remote(Path::new(argument)) || Path::new(argument).exists();
        if !may_exist && text.contains(char::is_whitespace) {
            bail!("not a directory, and not a query that starts with SELECT or WITH: {text}");
        }
    }
    if arguments.is_empty() {
        bail!("a query needs a run: rankscope sql RUN \"select …\"");
    }
    let text = match query.as_deref() {
        Some("-") => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            Some(text)
        }
        _ => query,
    };
    let query = text.map(|text| match statements::split(&text).0[..] {
        [one] => Ok(one.to_owned()),
        [] => bail!("the query is empty"),
        _ => bail!("give one query; the prompt accepts several: rankscope sql RUN"),
    });
    Ok((
        arguments.into_iter().map(PathBuf::from).collect(),
        query.transpose()?,
    ))
}

/// How a query ended.
enum Ended {
    Written(Written),
    /// A signal with this number ended it.
    Signal(u8),
}

/// Runs a query until its end, or until a signal. What it has put into temporary files is removed in both cases.
async fn answer(
    engine: &Engine,
    query: &str,
    format: Format,
    max_rows: usize,
    out: impl Write + Send,
) -> Result<Ended> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let work = async { output::write(engine.query(query).await?, format, max_rows, out).await };
    tokio::select! {
        written = work => Ok(Ended::Written(written?)),
        _ = tokio::signal::ctrl_c() => Ok(Ended::Signal(2)),
        _ = terminated.recv() => Ok(Ended::Signal(15)),
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let (directories, query) = split(cli.arguments)?;
    let format = output::choose_format(cli.format, cli.output.as_deref())?;
    let options = EngineOptions {
        memory_bytes: (cli.memory as usize).saturating_mul(1 << 20),
        threads: cli
            .threads
            .map_or(EngineOptions::default().threads, |threads| threads as usize),
    };
    let max_rows = cli.rows as usize;
    let engine = Engine::new(&Runs::open(&directories)?, options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        // Plans run on these threads, and are as deep as the query.
        .thread_stack_size(STACK_BYTES / 4)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let Some(query) = query else {
        if !io::stdin().is_terminal() {
            bail!(
                "standard input is no terminal; give the query as the last argument, or - to read it from there"
            );
        }
        return prompt::run(&engine, &runtime, max_rows).map(|()| ExitCode::SUCCESS);
    };
    let ended = match &cli.output {
        Some(path) => {
            let cannot_write = || format!("cannot write {}", path.display());
            let mut file = WholeFile::create(path).with_context(cannot_write)?;
            let ended = runtime.block_on(answer(&engine, &query, format, max_rows, &mut file))?;
            if matches!(ended, Ended::Written(_)) {
                file.finish().with_context(cannot_write)?;
            }
            ended
        }
        None => runtime.block_on(answer(&engine, &query, format, max_rows, io::stdout()))?,
    };
    match ended {
        Ended::Written(written) => {
            if let Some(path) = &cli.output {
                eprintln!("{}: {}", path.display(), written.summary());
            } else if written.is_cut {
                eprintln!("{}", written.summary());
            }
            Ok(ExitCode::SUCCESS)
        }
        // As a shell reports it.
        Ended::Signal(number) => Ok(ExitCode::from(128 + number)),
    }
}
