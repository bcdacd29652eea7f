//! `rankscope import`.

use super::progress::Progress;
use super::{Exit, merge};
use crate::launch::ending::Ending;
use crate::launch::run_directory;
use crate::launch::stop::StopWatch;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use rankscope_analysis::ingest::{ras, ray_tasks};
use rankscope_formats::problem::is_json_object;
use rankscope_formats::ray_timeline;
use rankscope_formats::whole_file::{self, WholeFile};
use rankscope_import::{ImportOptions, ReadOptions};
use rankscope_ranklog::reader::RankLog;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Name of the run directory inside a folder of traces.
const FOLDER: &str = "rankscope";
/// First bytes of a gzipped file.
const GZIP: &[u8] = &[0x1F, 0x8B];

const EXAMPLES: &str = "\
Examples:
  rankscope import kineto log/                       import traces of torch.profiler, one per rank
  rankscope import kineto rank0.json.gz rank1.json.gz -o imported
  rankscope import kineto log/ --compat hta          reproduce the figures of Holistic Trace Analysis exactly
  rankscope import flight-recorder /tmp/dumps -o imported          import dumps of PyTorch's Flight Recorder
  rankscope import inspector nccl-inspector-4711/ -o imported      import files of NCCL's Inspector
  rankscope import nsys node0.sqlite node1.sqlite -o imported      import exports of nsys export --type sqlite
  rankscope import ras ras.json --into run                         add a status of NCCL RAS to a recording
  rankscope import ray timeline.json --into run                    add the tasks of Ray's timeline to a recording
The result is a run directory for rankscope report, export, heatmap, compare and view.";

/// Convert a recording of another profiler to a run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    #[command(subcommand)]
    from: From,
}

/// Returns the names of all sources.
pub fn sources() -> Vec<String> {
    From::augment_subcommands(clap::Command::new("import"))
        .get_subcommands()
        .map(|source| source.get_name().to_owned())
        .collect()
}

#[derive(Debug, Subcommand)]
enum From {
    Kineto(Kineto),
    Nsys(Nsys),
    FlightRecorder(FlightRecorder),
    Inspector(Inspector),
    Ras(Ras),
    Ray(Ray),
}

/// Add a status of NCCL's RAS subsystem (the output of `ncclras`) to a run. Its findings name the ranks that lag or are
/// missing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Ras {
    /// Output of ncclras, as JSON (`-f json`) or text.
    #[arg(value_name = "FILE")]
    status: PathBuf,

    /// Run directory to add it to. It replaces an earlier status.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

/// Add the tasks of a timeline of Ray to a recording of its workers (`ray timeline`, or `ray.timeline(filename)` in the
/// driver). They are on the axis of the ranks that ran them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Ray {
    /// Timeline, plain or gzipped.
    #[arg(value_name = "FILE")]
    timeline: PathBuf,

    /// Run directory to add it to. It replaces an earlier timeline.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

/// Import files of NCCL's Inspector, the profiler plugin that NCCL ships, one per process.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Inspector {
    /// Files, or directories with files `HOST-pidPID.log`.
    #[arg(required = true, value_name = "DIR|FILE")]
    files: Vec<PathBuf>,

    /// Run directory to create.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

/// Import dumps of PyTorch's Flight Recorder, one per rank. They show which operations a hung job was in, and which ranks
/// never called them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct FlightRecorder {
    /// Dumps (pickle or JSON), or directories with dumps. The name of a dump ends with its rank.
    #[arg(required = true, value_name = "DIR|FILE")]
    dumps: Vec<PathBuf>,

    /// Run directory to create.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Assume that all ranks ran on one host and so share one clock. Dumps do not name their host.
    #[arg(long)]
    one_host: bool,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

/// Import reports of Nsight Systems, exported with `nsys export --type sqlite`, one per host.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Nsys {
    /// Exported reports.
    #[arg(required = true, value_name = "FILE")]
    reports: Vec<PathBuf>,

    /// Run directory to create.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

/// Tools whose figures can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compat {
    /// Holistic Trace Analysis: overlap, temporal breakdown, idle times.
    Hta,
}

/// Import traces of torch.profiler: JSON, plain or gzipped, of any PyTorch version, one per rank.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Kineto {
    /// Traces, or directories with traces.
    #[arg(required = true, value_name = "DIR|FILE")]
    traces: Vec<PathBuf>,

    /// Run directory to create (default for a single directory of traces: `rankscope` inside it).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Also compute the figures of another tool, by its definitions. The report lists them next to the exact ones.
    #[arg(long, value_name = "TOOL")]
    compat: Option<Compat>,

    /// Keep PyTorch's operators as ranges, not only those of the program. They are most of a trace.
    #[arg(long)]
    operators: bool,

    /// Assume that all ranks ran on one host and so share one clock. Traces before 2025 do not name their host.
    #[arg(long)]
    one_host: bool,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

impl Import {
    pub fn run(self) -> Result<Exit> {
        match self.from {
            From::Kineto(kineto) => kineto.run(),
            From::Nsys(nsys) => nsys.run(),
            From::FlightRecorder(flight_recorder) => flight_recorder.run(),
            From::Inspector(inspector) => inspector.run(),
            From::Ras(ras) => ras.run(),
            From::Ray(ray) => ray.run(),
        }
    }
}

impl Kineto {
    fn run(self) -> Result<Exit> {
        let files = rankscope_import::trace_files(&self.traces)?;
        let output = match (&self.output, self.traces.as_slice()) {
            (Some(output), _) => output.clone(),
            (None, [only]) if only.is_dir() => only.join(FOLDER),
            (None, _) => bail!("several inputs need an output directory: -o DIR"),
        };
        let options = ImportOptions {
            files,
            output,
            read: ReadOptions {
                operators: self.operators,
                hta: self.compat == Some(Compat::Hta),
            },
            one_host: self.one_host,
            threads: None,
        };
        import(&options, self.json, rankscope_import::kineto)
    }
}

impl FlightRecorder {
    fn run(self) -> Result<Exit> {
        let options = ImportOptions {
            files: rankscope_import::dump_files(&self.dumps)?,
            output: self.output,
            one_host: self.one_host,
            ..ImportOptions::default()
        };
        import(&options, self.json, rankscope_import::flight_recorder)
    }
}

impl Inspector {
    fn run(self) -> Result<Exit> {
        let options = ImportOptions {
            files: rankscope_import::inspector_files(&self.files)?,
            output: self.output,
            ..ImportOptions::default()
        };
        import(&options, self.json, rankscope_import::inspector)
    }
}

impl Ras {
    fn run(self) -> Result<Exit> {
        let cannot_read = || format!("cannot read {}", self.status.display());
        let bytes = ras::bytes_of(&self.status).with_context(cannot_read)?;
        if !rankscope_formats::ras::read(&bytes).is_status {
            bail!(
                "{} is no status of NCCL RAS: save the output of ncclras, as text or with -f json",
                self.status.display()
            );
        }
        recorded_logs(&self.into)?;
        ras::remove(&self.into)
            .with_context(|| format!("cannot replace the status in {}", self.into.display()))?;
        let is_json = is_json_object(&bytes);
        let [json, text] = ras::EXTENSIONS;
        let path = self
            .into
            .join(ras::NAME)
            .with_extension(if is_json { json } else { text });
        whole_file::write(&path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
        let merged = merge::merge(std::slice::from_ref(&self.into), &self.into)?;
        merged.print(self.json)?;
        Ok(merged.exit())
    }
}

impl Ray {
    fn run(self) -> Result<Exit> {
        let cannot_read = || format!("cannot read {}", self.timeline.display());
        let mut file = BufReader::new(File::open(&self.timeline).with_context(cannot_read)?);
        let is_packed = file.fill_buf().with_context(cannot_read)?.starts_with(GZIP);
        // The merge lists its problems.
        let timeline = ray_timeline::read_file(&self.timeline).with_context(cannot_read)?;
        if !timeline.is_list {
            bail!(
                "{} is no timeline of Ray: write one with `ray timeline`, or with ray.timeline(filename) in the driver",
                self.timeline.display()
            );
        }
        let logs: Vec<RankLog> = recorded_logs(&self.into)?
            .iter()
            .filter_map(|path| RankLog::open(path).ok())
            .collect();
        let workers = timeline.by_worker.len();
        let ranks = ray_tasks::ranks_of(&timeline, &logs);
        if ranks == 0 {
            let problem = timeline.problems.first().map_or_else(String::new, |problem| {
                format!(
                    " The file has a problem at byte {}: {}.",
                    problem.offset, problem.what
                )
            });
            bail!(
                "no worker of {} is a rank of {} (workers in the file: {workers}).{problem} The timeline may be of another job. \
                 Earlier versions of rankscope did not record the worker",
                self.timeline.display(),
                self.into.display()
            );
        }
        let path = ray_tasks::path(&self.into, is_packed);
        let cannot_write = || format!("cannot write {}", path.display());
        let mut copy = WholeFile::create(&path).with_context(cannot_write)?;
        io::copy(&mut file, &mut copy).with_context(cannot_write)?;
        copy.finish().with_context(cannot_write)?;
        let earlier = ray_tasks::path(&self.into, !is_packed);
        if earlier.exists() {
            fs::remove_file(&earlier).with_context(|| format!("cannot remove {}", earlier.display()))?;
        }
        let merged = merge::merge(std::slice::from_ref(&self.into), &self.into)?;
        merged.print(self.json)?;
        if !self.json {
            println!(
                "Ray: added the tasks of {ranks} of {workers} workers; the others are no ranks of this run"
            );
        }
        Ok(merged.exit())
    }
}

/// Returns the logs of a recording.
fn recorded_logs(directory: &Path) -> Result<Vec<PathBuf>> {
    let logs = run_directory::logs(directory)?;
    if logs.is_empty() {
        bail!(
            "{} has no recording: name the run directory that the file belongs to",
            directory.display()
        );
    }
    Ok(logs)
}

impl Nsys {
    fn run(self) -> Result<Exit> {
        let options = ImportOptions {
            files: self.reports,
            output: self.output,
            ..ImportOptions::default()
        };
        import(&options, self.json, rankscope_import::nsys)
    }
}

/// Reads files with `read`, merges the resulting logs, and prints the summary.
fn import(
    options: &ImportOptions,
    json: bool,
    read: impl Fn(
        &ImportOptions,
        &(dyn Fn(f64) + Sync),
    ) -> Result<rankscope_import::Imported, rankscope_import::ImportError>,
) -> Result<Exit> {
    let output = &options.output;
    let was_there = output.exists();
    clear(output)?;
    let abandoned = output.clone();
    let _watch = StopWatch::start(move |signal| {
        merge::abandon(&abandoned);
        let _ = writeln!(
            io::stderr().lock(),
            "rankscope: interrupted; the traces are intact, import them again"
        );
        Ending::Signal(signal).end_likewise()
    });
    {
        let progress = Mutex::new(Progress::new());
        read(options, &|share| {
            if let Ok(progress) = progress.try_lock() {
                progress.report("reading traces", Some(share));
            }
        })
        .inspect_err(|_| {
            // A directory that this import created is removed if the import failed. `remove_dir` removes only empty
            // directories.
            if !was_there {
                let _ = std::fs::remove_dir(output);
            }
        })?;
    }
    let merged = merge::merge(std::slice::from_ref(output), output)?;
    merged.print(json)?;
    Ok(merged.exit())
}

/// Removes the logs of an earlier import. Recorded logs are never touched.
fn clear(output: &Path) -> Result<()> {
    if !output.is_dir() {
        return Ok(());
    }
    for path in run_directory::logs(output)? {
        let is_ours = RankLog::open(&path).is_ok_and(|log| {
            log.properties
                .contains_key(rankscope_analysis::ingest::imported::SOURCE)
        });
        if !is_ours {
            bail!(
                "{} has a recording ({}): name another directory with -o",
                output.display(),
                path.display()
            );
        }
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
