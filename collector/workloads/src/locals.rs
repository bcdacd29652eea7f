//! Ranks on this host, started and ended together.

use crate::world::{LISTENER, local};
use anyhow::{Context, Result};
use std::env;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the ranks are checked.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time that the other ranks have to end by themselves after one has failed.
const GRACE: Duration = Duration::from_secs(3);

/// A rank that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its number.
    pub rank: u32,
    /// How it ended.
    pub status: ExitStatus,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "rank {} ended with status {code}", self.rank),
            (None, Some(signal)) => write!(f, "rank {} ended with signal {signal}", self.rank),
            (None, None) => write!(f, "rank {} ended", self.rank),
        }
    }
}

/// Runs this program once per rank, with these arguments and the variables of torchrun. Returns the first rank that
/// failed.
pub fn run(ranks: u32, arguments: &[OsString]) -> Result<Option<Failed>> {
    let program = env::current_exe().context("cannot determine the path of this program")?;
    let listener = TcpListener::bind(local()).context("cannot listen on the local host")?;
    let meeting = listener.local_addr()?;
    let mut running: Vec<(u32, Child)> = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            .env("MASTER_ADDR", meeting.ip().to_string())
            .env("MASTER_PORT", meeting.port().to_string())
            .env_remove(LISTENER);
        let descriptor = (rank == 0).then(|| listener.as_raw_fd());
        if let Some(descriptor) = descriptor {
            command.env(LISTENER, descriptor.to_string());
        }
        // SAFETY: the closure makes system calls only.
        unsafe {
            command.pre_exec(move || {
                // No rank outlives its starter.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if let Some(descriptor) = descriptor {
                    libc::fcntl(descriptor, libc::F_SETFD, 0);
                }
                Ok(())
            });
        }
        match command.spawn() {
            Ok(child) => running.push((rank, child)),
            Err(error) => {
                kill(&mut running);
                return Err(error).with_context(|| format!("cannot start rank {rank}"));
            }
        }
    }
    drop(listener);
    Ok(wait(running))
}

/// Returns the address at which the ranks that [`run`] starts meet.
pub fn meeting() -> Result<SocketAddr> {
    let of = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
    let address = format!("{}:{}", of("MASTER_ADDR")?, of("MASTER_PORT")?);
    address
        .parse()
        .with_context(|| format!("{address} is no address"))
}

fn wait(mut running: Vec<(u32, Child)>) -> Option<Failed> {
    let mut first: Option<(Failed, Instant)> = None;
    while !running.is_empty() {
        running.retain_mut(|(rank, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                if !status.success() && first.is_none() {
                    first = Some((Failed { rank: *rank, status }, Instant::now()));
                }
                false
            }
            Err(_) => false,
        });
        if first.is_some_and(|(_, when)| when.elapsed() > GRACE) {
            kill(&mut running);
            break;
        }
        thread::sleep(INTERVAL);
    }
    first.map(|(failed, _)| failed)
}

fn kill(running: &mut Vec<(u32, Child)>) {
    for (_, mut child) in running.drain(..) {
        let _ = child.kill();
        let _ = child.wait();
    }
}
