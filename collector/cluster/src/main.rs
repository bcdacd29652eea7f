//! `rankscope-cluster`, which `rankscope scheduler`, `rankscope executor` and `rankscope merge --cluster` start. It is separate because
//! Ballista takes longer to build than all of rankscope.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, value_parser};
use rankscope_cluster::access::{Access, resolve};
use rankscope_cluster::executor::{self, ExecutorOptions};
use rankscope_cluster::scheduler::{self, SchedulerOptions};
use rankscope_cluster::submit;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > token                                         once, on storage that all machines read
  rankscope scheduler --token-file token --listen 127.0.0.1:50050
  rankscope executor 127.0.0.1:50050 --token-file token
  rankscope merge --cluster 127.0.0.1:50050 --token-file token shared/run1

On several machines, with certificates of one authority:
  rankscope scheduler --listen 0.0.0.0:50050 --token-file token --tls-ca ca.pem --tls-cert head.pem --tls-key head.key
  rankscope executor head:50050 --root /shared/runs --token-file token --tls-ca ca.pem --tls-cert n1.pem --tls-key n1.key";

/// Processes of merges on several machines.
#[derive(Debug, Parser)]
#[command(name = "rankscope-cluster", bin_name = "rankscope", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Distributes the units of merges to executors.
    #[command(after_help = EXAMPLES)]
    Scheduler {
        /// Address to listen on. Port 0 lets the system choose. Addresses that other machines can reach need certificates.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
        listen: String,
        /// Time after which a silent executor counts as dead, in seconds (10 to 3600).
        #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = value_parser!(u64).range(10..=3600))]
        executor_timeout: u64,
        #[command(flatten)]
        access: Access,
    },
    /// Runs units of merges. Run directories and sessions must have the same paths on all machines.
    #[command(after_help = EXAMPLES)]
    Executor {
        /// The scheduler.
        #[arg(value_name = "HOST:PORT")]
        scheduler: String,
        /// Number of units that run at the same time, 1 to 1024 (default: one per processor).
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
        threads: Option<u32>,
        /// Directory with runs and sessions; repeat for several. Units use no files elsewhere. Default: all directories.
        #[arg(long = "root", value_name = "DIR")]
        roots: Vec<PathBuf>,
        /// Time to wait for the scheduler at the start, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        #[command(flatten)]
        access: Access,
    },
    /// Submits the units of one merge. `rankscope merge --cluster` calls it.
    #[command(hide = true)]
    Submit {
        /// The scheduler, or `in-process`.
        scheduler: String,
        /// Directory of the units.
        directory: PathBuf,
        /// Number of the first unit.
        from: u32,
        /// Number after that of the last unit.
        until: u32,
        #[command(flatten)]
        access: Access,
    },
}

fn main() -> ExitCode {
    rankscope_analysis::heap::give_back_what_is_freed();
    let cli = Cli::parse();
    // Libraries log each connection. By default, only warnings and errors appear.
    let filter = EnvFilter::try_from_env("RANKSCOPE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let name = match cli.command {
        Command::Scheduler { .. } => "scheduler",
        Command::Executor { .. } => "executor",
        Command::Submit { .. } => "merge --cluster",
    };
    let result = Runtime::new()
        .context("cannot start threads")
        .and_then(|runtime| runtime.block_on(run(cli.command)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rankscope {name}: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Scheduler {
            listen,
            executor_timeout,
            access,
        } => {
            let options = SchedulerOptions {
                listen: resolve(&listen)?,
                executor_timeout_s: executor_timeout,
                access,
            };
            let started = |address| eprintln!("rankscope scheduler: listening on {address}");
            scheduler::run(options, started, stopped()?).await
        }
        Command::Executor {
            scheduler,
            threads,
            roots,
            wait,
            access,
        } => {
            let threads = threads.map_or_else(processors, |threads| threads as usize);
            let roots = roots.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
            let options = ExecutorOptions {
                scheduler: scheduler.clone(),
                threads,
                roots,
                patience: Duration::from_secs(wait),
                access,
            };
            let started = || eprintln!("rankscope executor: {threads} units at a time for {scheduler}");
            executor::run(options, started, stopped()?).await
        }
        Command::Submit {
            scheduler,
            directory,
            from,
            until,
            access: _,
        } if scheduler == "in-process" => submit::in_process(&directory, from..until, processors()).await,
        Command::Submit {
            scheduler,
            directory,
            from,
            until,
            access,
        } => {
            let (ended, mut orphaned) = tokio::sync::oneshot::channel::<()>();
            // The merge that started this process holds the other end of its standard input. A thread of the runtime that
            // reads would keep the process alive.
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                drop(ended);
            });
            tokio::select! {
                done = submit::on_cluster(&scheduler, &access, &directory, from..until) => done,
                _ = &mut orphaned => bail!("the merge has ended"),
            }
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Returns what is ready once the process is asked to stop.
fn stopped() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle signals")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
