//! Import of traces from other profilers as rank logs.
//!
//! An imported run is an ordinary run: the same code computes, shows, exports and compares it.
//!
//! Files in the order of the data: `files` lists the traces, `kineto`, `nsys`, `flight_recorder` and `inspector` read one
//! trace into a `trace` (`torch_names` maps the names that PyTorch uses, `records` numbers what records refer to, `spool` sorts them on
//! disk), `join` identifies ranks and operations across
//! traces, and `log` writes the log of a rank. `hta` computes the figures of Holistic Trace Analysis.

mod files;
mod flight_recorder;
mod hta;
mod inspector;
mod join;
mod kineto;
mod log;
mod nsys;
mod records;
mod spool;
mod torch_names;
mod trace;

pub use files::{FileError, dump_files, inspector_files, trace_files};
pub use kineto::ReadOptions;
pub use nsys::NsysError;

use rankscope_formats::session::{HtaFigures, ProblemSummary};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace::Trace;

/// Maximum number of threads that read at the same time. Each holds the records of one trace in memory: some tens of
/// megabytes.
const MAX_THREADS: usize = 16;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Traces, one per rank.
    pub files: Vec<PathBuf>,
    /// Directory for the logs. It is created if it does not exist.
    pub output: PathBuf,
    /// Options for reading each trace.
    pub read: ReadOptions,
    /// Whether all ranks ran on one host and so share a clock, whatever the traces contain.
    pub one_host: bool,
    /// Number of threads; `None`: as many as there are processors.
    pub threads: Option<usize>,
}

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Logs in the order of the ranks.
    pub logs: Vec<PathBuf>,
    /// Number of events read.
    pub events: u64,
    /// Number of unpacked bytes read.
    pub bytes: u64,
    /// Figures of Holistic Trace Analysis, if they were requested.
    pub hta: Option<HtaFigures>,
    /// Problems of the files.
    pub problems: Vec<ProblemSummary>,
}

/// Error of an import. A partly readable file is not an error.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be opened, or a log could not be written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// No file is a trace.
    #[error("{0} has no events of torch.profiler: a trace is a JSON object with the member traceEvents")]
    NoTrace(PathBuf),
    /// No file is a dump of the Flight Recorder.
    #[error(
        "{0} is no dump of PyTorch's Flight Recorder: a dump is a pickle or a JSON object with the member entries"
    )]
    NoDump(PathBuf),
    /// No file has a line of NCCL's Inspector.
    #[error(
        "{0} has no line of NCCL's Inspector: the plugin writes one JSON object a line to HOST-pidPID.log, with \
         NCCL_INSPECTOR_ENABLE=1"
    )]
    NoInspector(PathBuf),
    /// A report of Nsight Systems cannot be read.
    #[error(transparent)]
    Nsys(#[from] NsysError),
    /// Two files have the same rank.
    #[error("{one} and {other} are both of rank {rank}: give the files of one recording, one per rank")]
    TwoOfARank {
        /// Rank of both files.
        rank: u32,
        /// First file.
        one: PathBuf,
        /// Second file.
        other: PathBuf,
    },
}

/// Reads traces of torch.profiler, one per rank, and writes rank logs. `progress` receives the completed share.
///
/// # Errors
///
/// If no file is a trace, two are of one rank, or a file cannot be opened or written.
pub fn kineto(options: &ImportOptions, progress: &(dyn Fn(f64) + Sync)) -> Result<Imported, ImportError> {
    let traces = read_known(
        options,
        progress,
        |path, progress| {
            let trace = kineto::read(path, &options.output, options.read, progress)?;
            Ok(trace.into_iter().collect())
        },
        ImportError::NoTrace,
    )?;
    finish(options, traces)
}

/// Reads dumps of PyTorch's Flight Recorder, one per rank, and writes rank logs. `progress` receives the completed
/// share.
///
/// # Errors
///
/// If no file is a dump, two are of one rank, or a file cannot be opened or written.
pub fn flight_recorder(
    options: &ImportOptions,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Imported, ImportError> {
    let traces = read_known(
        options,
        progress,
        |path, _| {
            Ok(flight_recorder::read(path, &options.output)?
                .into_iter()
                .collect())
        },
        ImportError::NoDump,
    )?;
    let mut traces = with_ranks(traces)?;
    flight_recorder::find_members(&mut traces);
    flight_recorder::leave_out_older(&mut traces);
    write(options, traces)
}

/// Reads files of NCCL's Inspector, one per process, and writes rank logs. `progress` receives the completed share.
///
/// # Errors
///
/// If no file has a line of the Inspector, or a file cannot be opened or written.
pub fn inspector(options: &ImportOptions, progress: &(dyn Fn(f64) + Sync)) -> Result<Imported, ImportError> {
    let mut traces = read_known(
        options,
        progress,
        |path, _| inspector::read(path, &options.output),
        ImportError::NoInspector,
    )?;
    inspector::number(&mut traces);
    finish(options, traces)
}

/// Reads all files. A directory of traces may contain other files. They are skipped if there is a trace; else the error
/// `none` names the first of them.
fn read_known(
    options: &ImportOptions,
    progress: &(dyn Fn(f64) + Sync),
    read: impl Fn(&Path, &mut dyn FnMut(u64)) -> io::Result<Vec<Trace>> + Sync,
    none: fn(PathBuf) -> ImportError,
) -> Result<Vec<Trace>, ImportError> {
    let others: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut traces = read_all(options, progress, |path, progress| {
        let found = read(path, progress).map_err(|source| ImportError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        if found.is_empty() {
            let mut others = others.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            others.push(path.to_path_buf());
        }
        Ok(found)
    })?;
    let mut others = others
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    others.sort();
    match traces.first_mut() {
        Some(first) => first.notes.extend(
            others
                .iter()
                .map(|path| format!("{} is not a trace and was left out", path.display())),
        ),
        None => {
            return Err(none(others.into_iter().next().unwrap_or_default()));
        }
    }
    Ok(traces)
}

/// Reads reports of Nsight Systems, exported as SQLite, one per host. Writes rank logs, one per process that used a
/// device. `progress` receives the completed share.
///
/// # Errors
///
/// If a file is not a report, or cannot be opened or written.
pub fn nsys(options: &ImportOptions, progress: &(dyn Fn(f64) + Sync)) -> Result<Imported, ImportError> {
    let traces = read_all(options, progress, |path, _| {
        Ok(nsys::read(path, &options.output)?)
    })?;
    finish(options, traces)
}

/// Assigns ranks, joins the traces and writes the logs.
fn finish(options: &ImportOptions, traces: Vec<Trace>) -> Result<Imported, ImportError> {
    write(options, with_ranks(traces)?)
}

/// Sorts the traces and assigns a rank to each.
fn with_ranks(mut traces: Vec<Trace>) -> Result<Vec<Trace>, ImportError> {
    // A trace without a rank is numbered by its position among the others.
    traces.sort_by(|one, other| (one.process.rank, &one.path).cmp(&(other.process.rank, &other.path)));
    number(&mut traces)?;
    Ok(traces)
}

/// Joins the traces and writes the logs.
fn write(options: &ImportOptions, traces: Vec<Trace>) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    for trace in &traces {
        imported.events += trace.events;
        imported.bytes += trace.bytes;
        imported.problems.extend(trace.problems.iter().cloned());
    }
    if options.read.hta {
        imported.hta = Some(hta_figures(&traces));
    }
    let joined = join::join(&traces, options.one_host);
    let writing: Vec<(Trace, join::Joined)> = traces.into_iter().zip(joined).collect();
    let hta = imported.hta.as_ref();
    imported.logs = in_parallel(options.threads, writing, |(trace, joined)| {
        let rank = trace.process.rank.unwrap_or(0);
        let path = options.output.join(format!("rank-{rank}.rslog"));
        log::write(&path, trace, joined, hta).map_err(|source| ImportError::Io {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    })?;
    Ok(imported)
}

/// Reads all files, each on one thread.
fn read_all(
    options: &ImportOptions,
    progress: &(dyn Fn(f64) + Sync),
    read: impl Fn(&Path, &mut dyn FnMut(u64)) -> Result<Vec<Trace>, ImportError> + Sync,
) -> Result<Vec<Trace>, ImportError> {
    fs::create_dir_all(&options.output).map_err(|source| ImportError::Io {
        path: options.output.clone(),
        source,
    })?;
    rankscope_analysis::ingest::open_files::allow_many_files();
    // The unpacked size of a file is not known before its end, so progress counts whole files.
    let done = AtomicUsize::new(0);
    let files = options.files.len().max(1) as f64;
    let report_progress = || progress(done.load(Ordering::Relaxed) as f64 / files);
    let traces = in_parallel(options.threads, options.files.clone(), |path| {
        let mut traces = read(&path, &mut |_| report_progress())?;
        if options.files.len() > MAX_THREADS {
            // Records go to disk, because all traces wait for the last one.
            for trace in &mut traces {
                trace.records.spool.settle().map_err(|source| ImportError::Io {
                    path: options.output.clone(),
                    source,
                })?;
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
        report_progress();
        Ok(traces)
    })?;
    Ok(traces.into_iter().flatten().collect())
}

/// Processes items in order on several threads.
fn in_parallel<T: Send, R: Send>(
    threads: Option<usize>,
    things: Vec<T>,
    work: impl Fn(T) -> Result<R, ImportError> + Sync,
) -> Result<Vec<R>, ImportError> {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads
        .unwrap_or_else(available)
        .clamp(1, MAX_THREADS)
        .min(things.len().max(1));
    let count = things.len();
    let waiting = Mutex::new(things.into_iter().enumerate());
    let results: Mutex<Vec<(usize, Result<R, ImportError>)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = waiting
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .next();
                    let Some((position, thing)) = next else {
                        return;
                    };
                    let result = work(thing);
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((position, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|&(position, _)| position);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Assigns a rank to each trace: its own, else the first free one.
fn number(traces: &mut [Trace]) -> Result<(), ImportError> {
    let mut known: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for trace in traces.iter() {
        if let Some(rank) = trace.process.rank
            && let Some(one) = known.insert(rank, trace.path.clone())
        {
            return Err(ImportError::TwoOfARank {
                rank,
                one,
                other: trace.path.clone(),
            });
        }
    }
    let mut taken: BTreeSet<u32> = known.into_keys().collect();
    for trace in traces.iter_mut().filter(|trace| trace.process.rank.is_none()) {
        let free = (0..).find(|rank| !taken.contains(rank)).unwrap_or(u32::MAX);
        taken.insert(free);
        trace.process.rank = Some(free);
        trace.notes.push(format!(
            "the rank of process {} is not recorded; it is called rank {free} by the order of files and devices",
            trace.process.id
        ));
    }
    traces.sort_by_key(|trace| trace.process.rank);
    // A trace without a world size belongs to the world of the files that were given together.
    let highest = traces
        .iter()
        .filter_map(|trace| trace.process.rank)
        .max()
        .unwrap_or(0);
    for trace in traces.iter_mut() {
        trace.process.world.get_or_insert(highest.saturating_add(1));
    }
    Ok(())
}

fn hta_figures(traces: &[Trace]) -> HtaFigures {
    let steps: BTreeSet<&str> = traces
        .iter()
        .filter_map(|trace| trace.hta.as_ref())
        .flat_map(|hta| hta.steps())
        .collect();
    let is_filtered = steps.len() >= 2;
    let mut all = HtaFigures::default();
    for trace in traces {
        if let (Some(hta), Some(rank)) = (&trace.hta, trace.process.rank) {
            let mut figures = hta.figures(rank, is_filtered);
            all.overlap.append(&mut figures.overlap);
            all.temporal.append(&mut figures.temporal);
            all.idle.append(&mut figures.idle);
        }
    }
    all
}

/// Returns the displayed file name, without directories.
fn shown(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
