//! `rankscope serve`: metrics of a running job for Prometheus, by HTTP.
//!
//! | thread | content |
//! |---|---|
//! | `http` | answers requests from the last readings; never reads a log |
//! | `reader` | reads the last seconds of the job, and computes the metrics |
//! | `hangs` | watches for hangs, which a reading of thousands of ranks must not delay |
//! | main | waits for the end of the job |

mod http;
mod published;
mod token;

use super::{Exit, duration, print};
use crate::launch::companion::{Behind, run_behind_the_job};
use crate::launch::job_end::{Ended, JobEnd};
use anyhow::{Context, Result, bail};
use clap::Args;
use published::Published;
use rankscope_hang::judge::JudgeOptions;
use rankscope_hang::watch::{Found, LogLooks, Watch};
use rankscope_live::metrics::exposition::Metrics;
use rankscope_live::metrics::labels::MAX_RANKS;
use rankscope_live::top::reading::{TopReader, is_empty, next_read};
use rankscope_live::warnings::Warnings;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use token::Token;

const EXAMPLES: &str = "\
Examples:
  rankscope serve shared/run1                                   metrics at http://127.0.0.1:9400/metrics
  rankscope serve shared/run1 --metrics 0.0.0.0:9400 --token-file /etc/rankscope.token
  rankscope run --metrics 127.0.0.1:9400 -- torchrun train.py   the same beside a job that is started now
  curl -s http://127.0.0.1:9400/metrics | grep rankscope_hang

Exit status: 0 the job has ended, 2 wrong usage, 3 no rank was seen.";

/// Address without `--metrics`.
const ADDRESS: &str = "127.0.0.1:9400";

/// Options on the server that `run` and `serve` share.
#[derive(Clone, Debug, Default, Args)]
pub struct MetricsOptions {
    /// Offer metrics to Prometheus at this address and port: http://ADDR/metrics.
    ///
    /// Anyone who can reach the address can read the names of hosts and operations. So an address other than loopback needs
    /// --token-file.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,

    /// File with a token. Requests need the header `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    token_file: Option<PathBuf>,
}

impl MetricsOptions {
    /// Reports a usage error.
    pub fn check(&self) -> Result<()> {
        if self.metrics.is_some() {
            drop(self.listen()?);
        }
        Ok(())
    }

    /// Binds the address, and reads the token.
    fn listen(&self) -> Result<(TcpListener, Option<Token>)> {
        let address = self.metrics.as_deref().unwrap_or(ADDRESS);
        let token = self.token_file.as_deref().map(Token::read).transpose()?;
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen at {address}; write it as 127.0.0.1:9400"))?;
        if !listener.local_addr()?.ip().is_loopback() && token.is_none() {
            bail!(
                "other machines can reach {address}: give a token with --token-file, or listen at {ADDRESS}"
            );
        }
        Ok((listener, token))
    }
}

/// Returns the command line of `rankscope serve` beside a job; `None` if no metrics were requested.
pub fn arguments(options: &MetricsOptions, directory: &Path) -> Option<Vec<OsString>> {
    let mut out: Vec<OsString> = vec![
        "serve".into(),
        "--metrics".into(),
        options.metrics.clone()?.into(),
    ];
    if let Some(file) = &options.token_file {
        out.extend(["--token-file".into(), file.into()]);
    }
    out.extend(["--beside".into(), directory.into()]);
    Some(out)
}

/// Offer metrics of a running job to Prometheus: steps, operations, waits, hangs, warnings.
///
/// It reads the run directory and the memory of the recorders, and does not disturb the job. It ends half a minute after the
/// job has ended. If several nodes share a run directory, start it on one of them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Directory of the run, or one per node. They may still be empty.
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,

    #[command(flatten)]
    options: MetricsOptions,

    /// Length of the part of the run that the gauges describe.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    window: Duration,

    /// Time between two readings. It is longer if a reading takes more than a third of it.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    interval: Duration,

    /// Read at most about N records at a time, over all ranks (default: 200000, and at least 100 per rank).
    #[arg(long, value_name = "N")]
    records: Option<u64>,

    /// Number of ranks up to which each rank has its own series. A larger job has quantiles over its ranks.
    #[arg(long, value_name = "N", default_value_t = MAX_RANKS)]
    max_ranks: usize,

    /// Time after which a wait is a hang.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    hang_timeout: Duration,

    /// Set by `rankscope run`. The end of the input ends this process.
    #[arg(long, hide = true)]
    beside: bool,
}

impl Serve {
    pub fn run(self) -> Result<Exit> {
        if self.interval * 2 > self.window {
            bail!(
                "--window must be at least twice --interval, so that no operation falls between two windows"
            );
        }
        for directory in &self.directories {
            if !directory.exists() {
                bail!("directory not found: {}", directory.display());
            }
        }
        let (listener, token) = self.options.listen()?;
        let address = listener.local_addr()?;
        let metrics = Metrics::new(self.max_ranks);
        let published = Arc::new(Published::default());
        published.set_metrics(metrics.exposition()?);
        let server = http::start(listener, token, Arc::clone(&published))?;
        // The thread that answers keeps its priority: a scrape has a time limit.
        run_behind_the_job(Behind::Last);
        self.say(&format!("metrics at http://{address}/metrics"));
        let mut end = JobEnd::new(self.directories.clone(), self.beside);
        let options = JudgeOptions::of_timeout(self.hang_timeout);
        let mut watch = Watch::new(
            LogLooks::new(self.directories.clone(), options),
            self.hang_timeout,
        );
        let reader = Reader {
            reader: TopReader::with_instances(
                self.directories.clone(),
                i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX),
                self.records,
            ),
            metrics,
            warnings: Warnings::new(self.window),
            interval: self.interval,
            published: Arc::clone(&published),
        };
        let reader = thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reader.read())?;
        loop {
            if server.is_finished() || reader.is_finished() {
                bail!("a thread ended unexpectedly; please report this");
            }
            let (found, pause) = watch.tick(Instant::now());
            match found {
                Found::Hang(status) => published.set_hang(status.verdicts.first().cloned()),
                Found::GoesOn => published.set_hang(None),
                Found::Nothing | Found::Ended(_) => {}
            }
            match end.wait(pause, !watch.looks().running().is_empty()) {
                Some(Ended::AfterRanks) => {
                    self.say("the job has ended; its metrics are no longer served");
                    return Ok(Exit::Fine);
                }
                Some(Ended::WithoutRanks) => {
                    self.say("no rank was seen to run on this machine; start it on a node of the job");
                    return Ok(Exit::Inconclusive);
                }
                None => {}
            }
        }
    }
}

impl Serve {
    /// Prints a message, unless the terminal belongs to a job.
    fn say(&self, what: &str) {
        if !self.beside {
            print::message(what);
        }
    }
}

/// Reads the job again and again.
struct Reader {
    reader: TopReader,
    metrics: Metrics,
    warnings: Warnings,
    interval: Duration,
    published: Arc<Published>,
}

impl Reader {
    fn read(mut self) {
        loop {
            let started = Instant::now();
            let mut interval = self.interval;
            match self.reader.read_window() {
                Ok((window, document)) => {
                    self.metrics.update(&window, &document);
                    if !is_empty(&document) {
                        let changes = self.warnings.update(&document.warnings, started);
                        self.metrics.warnings(&self.warnings, &changes);
                    }
                    if document.window.is_shortened
                        && let Some(ns) = document.window.length_ns.value
                    {
                        // Shorter windows need more readings, or operations fall between them.
                        interval = interval.min(Duration::from_nanos(ns.unsigned_abs() / 2));
                    }
                    self.published.set_document(&document);
                }
                // Before the first record there is nothing to read.
                Err(error) if is_early(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a reading failed");
                    self.metrics.failed();
                }
            }
            self.metrics.hang(self.published.hang().as_ref());
            match self.metrics.exposition() {
                Ok(exposition) => self.published.set_metrics(exposition),
                Err(error) => tracing::warn!(%error, "the metrics could not be written"),
            }
            let cost = started.elapsed();
            thread::sleep(next_read(interval, cost).saturating_sub(cost));
        }
    }
}

/// Whether the job has not begun to communicate.
fn is_early(error: &rankscope_live::window::WindowError) -> bool {
    use rankscope_analysis::MergeError;
    use rankscope_analysis::ingest::IngestError;
    use rankscope_live::window::WindowError;
    matches!(
        error,
        WindowError::Merge(MergeError::Ingest(IngestError::Empty(_)))
    )
}
