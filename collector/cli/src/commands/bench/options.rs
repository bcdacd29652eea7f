//! Options of the command, and what they request.

use crate::commands::size::Size;
use crate::launch::library::LIBRARY;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use rankscope_compare::bench::Expected;
use rankscope_formats::bench::Placement;
use rankscope_workloads::case::Pattern;
use rankscope_workloads::data::DataType;
use rankscope_workloads::sweep::{PairPlan, Plan, sizes};
use std::env;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  rankscope bench                                       all GPUs of this host with NCCL, else two ranks with Gloo
  rankscope bench --backend gloo --ranks 4 --max 16M    four ranks with Gloo
  rankscope bench --operations all-reduce --min 1K --max 1G --pairs -o bench/today
  rankscope bench --against bench/monday --tolerance 5  exit with status 1 if a size is slower
  rankscope bench --expect all-reduce=40                exit with status 1 below 40 GB/s of bus bandwidth
  rankscope run -o bench/two-nodes -- srun rankscope bench --rendezvous node0:29400
                                                        on the ranks of a launcher (torchrun, mpirun, srun)
  rankscope report shared/run1 --peaks bench/today      score a run against the bandwidth of its machine";

/// Measure the communication library of this machine: latency and bandwidth of each operation at each size.
///
/// The columns are those of nccl-tests. The result of each row is checked. The time of a row is the median of several blocks,
/// and ± is half of their interquartile range. rankscope records the operations, like those of a job. The run directory gets
/// bench.json, the curves (bench.svg and bench.png) and a session. Ctrl-C stops the bench and keeps the rows so far.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct Bench {
    /// Run directory, new or empty (default: RANKSCOPE_DIR, else a new directory below the working directory).
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    /// Library to measure.
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub(super) backend: BackendName,

    /// File of the library (default: the one that python3, LD_LIBRARY_PATH or the system provides).
    #[arg(long, value_name = "FILE")]
    pub(super) library: Option<PathBuf>,

    /// Number of ranks to start on this host (default: one per GPU with NCCL, 2 with Gloo). Without it, the command
    /// uses the ranks of the launcher that started it, if any.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) ranks: Option<u32>,

    /// Operations to measure.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pattern,
          default_value = "all-reduce,all-gather,reduce-scatter,all-to-all,broadcast,send-receive")]
    pub(super) operations: Vec<Pattern>,

    /// Smallest size.
    #[arg(long, value_name = "SIZE", default_value = "8")]
    pub(super) min: Size,

    /// Largest size (default 64M with NCCL, 16M with Gloo).
    #[arg(long, value_name = "SIZE")]
    pub(super) max: Option<Size>,

    /// Factor from one size to the next.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) factor: u32,

    /// Type of the elements.
    #[arg(long = "type", value_name = "TYPE", default_value = "float32", value_parser = data_type)]
    pub(super) data_type: DataType,

    /// Placement of the buffers.
    #[arg(long, value_name = "WHERE", default_value = "both")]
    pub(super) placement: Placements,

    /// Blocks per size. Their spread is the ± of a row.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) blocks: u32,

    /// Maximum number of operations per block.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) iterations: u32,

    /// Operations before the first block.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) warmup: u32,

    /// Time per row, in seconds. Slow operations have fewer repetitions.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    pub(super) row_limit: f64,

    /// Do not check the results.
    #[arg(long)]
    pub(super) no_check: bool,

    /// Also measure the latency and the bandwidth of every pair of ranks.
    #[arg(long)]
    pub(super) pairs: bool,

    /// Do not record the operations.
    #[arg(long)]
    pub(super) no_record: bool,

    /// Earlier bench to compare with: its directory or its bench.json. A slower row gives exit status 1.
    #[arg(long, value_name = "BENCH")]
    pub(super) against: Option<PathBuf>,

    /// Tolerated difference from the earlier bench, in percent. A difference within the spread of both is also tolerated.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    pub(super) tolerance: f64,

    /// Bus bandwidth that an operation must reach at its best size, in GB/s. A lower one gives exit status 1.
    #[arg(long, value_name = "[OPERATION=]GB/s", value_parser = expected)]
    pub(super) expect: Vec<Expected>,

    /// Address at which the ranks of a launcher meet (default: MASTER_ADDR, and the port after MASTER_PORT).
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) rendezvous: Option<String>,

    /// Maximum time that a rank waits for the others, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,

    /// Print the results as JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// Print the JSON schema of the results.
    #[arg(long)]
    pub(super) schema: bool,

    /// Part of this process in a bench that another process started.
    #[arg(long, hide = true, default_value = "auto")]
    pub(super) role: Role,

    /// Let ranks share a GPU. NCCL connects them by sockets, as if they were on different hosts.
    #[arg(long, hide = true)]
    pub(super) share_device: bool,

    /// Version of the library, for messages.
    #[arg(long, hide = true)]
    pub(super) library_version: Option<String>,
}

/// Part of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// The process that the user or a launcher started.
    Auto,
    /// Starts the ranks of this host.
    Starter,
    /// One rank.
    Rank,
}

/// Placements to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placements {
    /// Input and output are different buffers.
    OutOfPlace,
    /// The output is, or contains, the input.
    InPlace,
    /// Both.
    Both,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
    let known = Pattern::ALL
        .into_iter()
        .find(|pattern| plain(pattern.name()) == plain(text));
    known.ok_or_else(|| {
        let names: Vec<_> = Pattern::ALL.into_iter().map(Pattern::name).collect();
        format!("unknown operation; use {}", names.join(", "))
    })
}

/// Parses a number from above 0 to `most`.
fn positive(text: &str, most: f64, what: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|&number| number > 0.0 && number <= most);
    number.ok_or_else(|| format!("'{text}' is not {what} above 0 and up to {most}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    positive(text, 3_600.0, "a number of seconds")
}

fn percent(text: &str) -> Result<f64, String> {
    positive(text, 1_000.0, "a percentage")
}

fn data_type(text: &str) -> Result<DataType, String> {
    let known = DataType::ALL
        .into_iter()
        .find(|data_type| data_type.name() == text);
    known.ok_or_else(|| {
        let names: Vec<_> = DataType::ALL.into_iter().map(DataType::name).collect();
        format!("unknown type; use {}", names.join(", "))
    })
}

fn expected(text: &str) -> Result<Expected, String> {
    let (operation, number) = match text.split_once('=') {
        Some((operation, number)) => (Some(pattern(operation)?.name().to_owned()), number),
        None => (None, text),
    };
    let number: f64 = number
        .trim()
        .trim_end_matches("GB/s")
        .trim()
        .parse()
        .map_err(|_| format!("'{number}' is not a bandwidth in GB/s"))?;
    if !number.is_finite() || number <= 0.0 {
        return Err(format!("'{number}' is not a bandwidth above 0"));
    }
    Ok(Expected {
        operation,
        bus_bytes_per_s: number * 1e9,
    })
}

/// Whether a preloaded library records this process.
fn is_recorded() -> bool {
    let preloaded = env::var_os("LD_PRELOAD").is_some_and(|names| names.to_string_lossy().contains(LIBRARY));
    preloaded && env::var_os("RANKSCOPE_DIR").is_some_and(|directory| !directory.is_empty())
}

/// Sizes of messages between pairs, and their number.
const PAIR_PLAN: PairPlan = PairPlan {
    small_bytes: 8,
    large_bytes: 8 << 20,
    messages: 20,
};

/// Library to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// NCCL if there are GPUs, else Gloo.
    Auto,
    /// Gloo, in PyTorch or as a library of the system.
    Gloo,
    /// NCCL on GPUs of NVIDIA.
    Nccl,
}

impl BackendName {
    /// Returns the name in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gloo => "gloo",
            Self::Nccl => "nccl",
        }
    }
}

impl Bench {
    /// Returns the maximum time that a rank waits for the others.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Returns what is measured.
    pub fn plan(&self, is_nccl: bool) -> Result<Plan> {
        let default = if is_nccl { 64 << 20 } else { 16 << 20 };
        let max = self.max.map_or(default, |size| size.0);
        let sizes = sizes(self.min.0, max, self.factor);
        if sizes.is_empty() {
            bail!(
                "no size is at least --min {} and at most --max {max} bytes",
                self.min.0
            );
        }
        let mut patterns = Vec::new();
        for &pattern in &self.operations {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok(Plan {
            patterns,
            sizes,
            placements: match self.placement {
                Placements::OutOfPlace => vec![Placement::OutOfPlace],
                Placements::InPlace => vec![Placement::InPlace],
                Placements::Both => vec![Placement::OutOfPlace, Placement::InPlace],
            },
            data_type: self.data_type,
            blocks: self.blocks,
            most_iterations: self.iterations,
            warmup_iterations: self.warmup,
            row_limit: Duration::from_secs_f64(self.row_limit),
            is_checked: !self.no_check,
            is_recorded: is_recorded(),
            pairs: self.pairs.then_some(PAIR_PLAN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_in_every_common_spelling() {
        for text in ["all-reduce", "all_reduce", "AllReduce", "allreduce"] {
            assert_eq!(pattern(text), Ok(Pattern::AllReduce));
        }
        assert!(pattern("al-reduce").is_err());
    }

    #[test]
    fn expected_bandwidths_name_an_operation_or_all() {
        let of = |text: &str| expected(text).expect("valid");
        assert_eq!(of("40").bus_bytes_per_s, 40e9);
        assert_eq!(of("all_gather=1.5GB/s").operation.as_deref(), Some("all-gather"));
        for wrong in ["", "x", "-1", "NaN", "all-reduce=", "nothing=3"] {
            assert!(expected(wrong).is_err(), "{wrong}");
        }
    }
}
