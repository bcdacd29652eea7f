//! The place of this process among the ranks, as its launcher announces it.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Descriptor of a listening socket that the starter of local ranks passes to rank 0.
pub const LISTENER: &str = "RANKSCOPE_WORKLOAD_LISTENER";

/// Variables of one launcher: rank, number of ranks, rank on this host, and a variable that must also be set.
struct Launcher {
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    needs: Option<&'static str>,
}

/// Launchers, in the order of their precedence.
const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        // torchrun
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        needs: None,
    },
    Launcher {
        // Open MPI
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        needs: None,
    },
    Launcher {
        // MPICH
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        needs: None,
    },
    // A batch script also has the first three, but no step.
    Launcher {
        // srun
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        needs: Some("SLURM_STEP_ID"),
    },
];

/// Place of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Number of this rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Number of this rank on its host.
    pub local_rank: u32,
}

impl World {
    /// Reads the variables of the launcher. Returns `None` if no launcher started this process.
    pub fn from_environment() -> Option<Self> {
        // A job of one rank, as in an interactive shell, starts its own ranks.
        Self::read(|name| env::var(name).ok()).filter(|world| world.size > 1)
    }

    /// Reads the place of a rank that [`crate::locals`] has started. It may be the only one.
    pub fn of_local_rank() -> Option<Self> {
        Self::read(|name| env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        LAUNCHERS.iter().find_map(|launcher| {
            if let Some(needed) = launcher.needs {
                variable(needed)?;
            }
            let (rank, size) = (number(launcher.rank)?, number(launcher.size)?);
            (rank < size).then(|| Self {
                rank,
                size,
                local_rank: number(launcher.local_rank).unwrap_or(rank),
            })
        })
    }
}

/// Returns the address at which rank 0 listens: the given one, or the port after that of the launcher's own store.
pub fn rendezvous(given: Option<&str>) -> Result<SocketAddr, String> {
    if let Some(given) = given {
        return resolve(given);
    }
    let of = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (of("MASTER_ADDR"), of("MASTER_PORT")) else {
        return Err(
            "the ranks need an address at which they meet: --rendezvous HOST:PORT of rank 0's host"
                .to_owned(),
        );
    };
    let port: u16 = port
        .trim()
        .parse()
        .map_err(|_| format!("MASTER_PORT is '{port}', not a port"))?;
    // The launcher's own store listens at its port.
    let next = port.checked_add(1);
    let next =
        next.ok_or("MASTER_PORT is the last port; name another address with --rendezvous HOST:PORT")?;
    resolve(&format!("{host}:{next}"))
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve {address}: {error}"))?
        .collect::<Vec<_>>();
    // IPv4 first, as Gloo and NCCL do by default.
    found.sort_by_key(|address| address.is_ipv6());
    found
        .into_iter()
        .next()
        .ok_or_else(|| format!("{address} has no address"))
}

/// Returns an address of this host at any free port.
pub fn local() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn read(variables: &[(&str, &str)]) -> Option<(u32, u32, u32)> {
        let all: BTreeMap<_, _> = variables.iter().copied().collect();
        let world = World::read(|name| all.get(name).map(|&value| value.to_owned()))?;
        Some((world.rank, world.size, world.local_rank))
    }

    #[test]
    fn each_launcher_is_recognised() {
        let torchrun = [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")];
        assert_eq!(read(&torchrun), Some((5, 8, 1)));
        let mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(read(&mpi), Some((3, 4, 3)));
        let hydra = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0")];
        assert_eq!(read(&hydra), Some((0, 2, 0)));
    }

    #[test]
    fn a_batch_script_of_slurm_is_no_rank() {
        let batch = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_LOCALID", "0"),
        ];
        assert_eq!(read(&batch), None);
        let mut step = batch.to_vec();
        step.extend([("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "8")]);
        assert_eq!(read(&step), Some((0, 8, 0)));
    }

    #[test]
    fn implausible_numbers_are_no_rank() {
        assert_eq!(read(&[("RANK", "8"), ("WORLD_SIZE", "8")]), None);
        assert_eq!(read(&[("RANK", "x"), ("WORLD_SIZE", "8")]), None);
    }
}
