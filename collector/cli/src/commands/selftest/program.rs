//! The programs of the parts, each in its own process.

use super::end::End;
use crate::commands::Exit;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_formats::bench::BenchLibrary;
use rankscope_workloads::backend::Backend;
use rankscope_workloads::gloo::backend::Gloo;
use rankscope_workloads::nccl::backend::Nccl;
use rankscope_workloads::selftest::device_work::{self, Work};
use rankscope_workloads::selftest::price;
use rankscope_workloads::star::Star;
use rankscope_workloads::world::World;
use rankscope_workloads::{locals, thread};
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Time after which a request of `rankscope ctl` has taken effect. Processes look for one every second, and then load
/// and start CUPTI.
const UNTIL_RECORDED: Duration = Duration::from_millis(5000);
/// Maximum time that a rank waits for the others.
const LIMIT: Duration = Duration::from_secs(60);

/// Options of the programs.
#[derive(Debug, Clone, Args)]
pub struct Program {
    /// Program to run.
    #[arg(long, hide = true)]
    pub role: Option<Role>,

    /// File for the truth or the figure.
    #[arg(long, hide = true)]
    truth: Option<PathBuf>,

    /// Way to end.
    #[arg(long, hide = true, default_value = "exit")]
    end: End,

    /// Kernels with known start and end.
    #[arg(long, hide = true, default_value_t = 0)]
    known: u64,

    /// Small kernels.
    #[arg(long, hide = true, default_value_t = 0)]
    small: u64,

    /// Pause after each batch, in microseconds.
    #[arg(long, hide = true, default_value_t = 1000)]
    pause_us: u64,

    /// Replay a graph that is created while the recording is on.
    #[arg(long, hide = true)]
    late_graph: bool,

    /// Replay a graph that was created before.
    #[arg(long, hide = true)]
    early_graph: bool,

    /// Run another profiler for a while.
    #[arg(long, hide = true)]
    other_profiler: bool,

    /// Library to call.
    #[arg(long, hide = true)]
    called: Option<PathBuf>,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Known work on the device.
    Device,
    /// Time of a launch.
    LaunchPrice,
    /// Starts two ranks that measure the time of a call of Gloo.
    GlooPrice,
    /// One of these ranks.
    GlooPriceRank,
    /// Time of a call of NCCL on one rank.
    NcclPrice,
}

impl Program {
    pub fn run(&self) -> Result<Exit> {
        match self.role {
            Some(Role::Device) => self.device(),
            Some(Role::LaunchPrice) => {
                self.write(price::of_launch(self.called.as_ref().context("no NCCL")?)?)
            }
            Some(Role::GlooPrice) => {
                // The first word is this program. The last of equal options counts.
                let mut words: Vec<_> = env::args_os().skip(1).collect();
                words.extend(["--role", "gloo-price-rank"].map(Into::into));
                match locals::run(2, &words)? {
                    None => Ok(Exit::Fine),
                    Some(failed) => bail!("{failed}"),
                }
            }
            Some(Role::GlooPriceRank) => {
                let world = World::of_local_rank().context("this process is no rank")?;
                let ns = thread::run(|| -> Result<f64> {
                    let mut star = Star::connect(&world, locals::meeting()?, LIMIT)?;
                    let mut gloo = Gloo::connect(&self.library("gloo")?, &world, &mut star, LIMIT)?;
                    let ns = price::of_call(&mut gloo, world.size)?;
                    star.barrier()?;
                    Ok(ns)
                })??;
                if world.rank == 0 {
                    self.write(ns)
                } else {
                    Ok(Exit::Fine)
                }
            }
            Some(Role::NcclPrice) => {
                let world = World {
                    rank: 0,
                    size: 1,
                    local_rank: 0,
                };
                let mut star = Star::connect(&world, rankscope_workloads::world::local(), LIMIT)?;
                let mut nccl = Nccl::connect(&self.library("nccl")?, &world, &mut star, LIMIT)?;
                self.write(price::of_call(&mut nccl as &mut dyn Backend, 1)?)
            }
            None => bail!("no program"),
        }
    }

    fn library(&self, name: &str) -> Result<BenchLibrary> {
        Ok(BenchLibrary {
            name: name.to_owned(),
            version: None,
            path: self.called.clone().context("no library")?,
        })
    }

    fn write(&self, ns: f64) -> Result<Exit> {
        let path = self.truth.as_ref().context("no file for the figure")?;
        std::fs::write(path, ns.to_string())?;
        Ok(Exit::Fine)
    }

    fn device(&self) -> Result<Exit> {
        let work = Work {
            known: self.known,
            small: self.small,
            pause_us: self.pause_us,
            has_late_graph: self.late_graph,
            has_early_graph: self.early_graph,
            has_other_profiler: self.other_profiler,
        };
        let nccl = self.called.as_ref().context("no NCCL")?;
        let truth = device_work::run(nccl, &work, switch_on)?;
        truth.write(self.truth.as_ref().context("no file for the truth")?)?;
        match self.end {
            End::Exit => Ok(Exit::Fine),
            // SAFETY: ends the process at once, which is the purpose.
            End::ImmediateExit => unsafe { libc::_exit(0) },
            End::Kill => {
                // SAFETY: kills this process, which is the purpose.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                Ok(Exit::Unusable)
            }
        }
    }
}

/// Switches the recording of device work on, as a user does while a job runs. Work of the library before it is not counted.
fn switch_on() -> Result<()> {
    let Some(directory) = env::var_os("RANKSCOPE_DIR") else {
        return Ok(());
    };
    let status = Command::new(env::current_exe()?)
        .arg("ctl")
        .arg(directory)
        .arg("--kernels=all")
        .env_remove("LD_PRELOAD")
        .status()?;
    if !status.success() {
        bail!("the recording could not be switched on");
    }
    std::thread::sleep(UNTIL_RECORDED);
    Ok(())
}
