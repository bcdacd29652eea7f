//! The processes of the training, and how the first one starts the others.

use anyhow::{Context, Result, bail};
use std::env;
use std::net::TcpListener;
use std::process::Command;

/// This process among all.
pub struct World {
    /// Number of this process.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// Rank r listens on this port plus r.
    pub port: u16,
}

impl World {
    /// Reads the variables that launchers set; `None` if there are none.
    pub fn of_environment() -> Result<Option<Self>> {
        let Ok(rank) = env::var("RANK") else {
            return Ok(None);
        };
        let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
        Ok(Some(Self {
            rank: rank.parse().context("RANK is no number")?,
            size: variable("WORLD_SIZE")?
                .parse()
                .context("WORLD_SIZE is no number")?,
            port: variable("MASTER_PORT")?
                .parse()
                .context("MASTER_PORT is no number")?,
        }))
    }
}

/// Starts this program once per rank, and waits for all.
pub fn start(ranks: u32) -> Result<()> {
    let port = free_ports(ranks)?;
    let program = env::current_exe()?;
    let mut running = Vec::new();
    for rank in 0..ranks {
        let child = Command::new(&program)
            .args(env::args_os().skip(1))
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            .env("MASTER_PORT", port.to_string())
            .spawn()?;
        running.push(child);
    }
    let mut failed = 0;
    for mut child in running {
        failed += u32::from(!child.wait()?.success());
    }
    if failed > 0 {
        bail!("{failed} of {ranks} ranks failed");
    }
    Ok(())
}

/// Returns the first of `count` adjacent free ports.
fn free_ports(count: u32) -> Result<u16> {
    for _ in 0..64 {
        let first = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let all = (0..count).map(|rank| {
            let port = u16::try_from(u32::from(first) + rank)?;
            Ok(TcpListener::bind(("127.0.0.1", port))?)
        });
        if all.collect::<Result<Vec<TcpListener>>>().is_ok() {
            return Ok(first);
        }
    }
    bail!("no {count} adjacent ports are free")
}
