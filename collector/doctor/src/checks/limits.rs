//! Limits of processes and of the control group.

use crate::check::{Check, Severity, Subject};
use crate::facts::machine::Machine;
use crate::facts::topology::Topology;

/// Usual limit of open files. Gloo and NCCL need several for each peer.
const FEW_FILES: u64 = 1024;
/// Least limit of processes and threads without a warning. A rank of PyTorch has hundreds of threads.
const FEW_PROCESSES: u64 = 4096;
/// Least limit of locked memory without a warning, in bytes. RDMA needs more than the usual 8 MiB.
const LITTLE_LOCKED_BYTES: u64 = 1 << 30;

fn warn(id: &'static str, title: String) -> Check {
    Check::new(Subject::Machine, Severity::Warn, id, title)
}

pub fn check(machine: &Machine, topology: &Topology) -> Vec<Check> {
    let mut out = Vec::new();
    let below = |limit: Option<Option<u64>>, least: u64| limit.flatten().filter(|limit| *limit < least);
    if let Some(files) = below(machine.open_files, FEW_FILES) {
        out.push(
            warn("few-open-files", format!("a process may open only {files} files"))
                .because("each connection to a peer takes several")
                .advise("ulimit -n 65536"),
        );
    }
    if let Some(processes) = below(machine.processes, FEW_PROCESSES) {
        out.push(
            warn(
                "few-processes",
                format!("this user may have only {processes} processes and threads"),
            )
            .because("a rank of PyTorch has hundreds of threads")
            .advise("ulimit -u 65536"),
        );
    }
    if let Some(bytes) = below(machine.locked_memory, LITTLE_LOCKED_BYTES)
        && !topology.ports.is_empty()
    {
        out.push(
            warn(
                "little-locked-memory",
                format!("a process may lock only {} KiB of memory", bytes >> 10),
            )
            .because("RDMA adapters need locked memory: NCCL may fail to register its buffers")
            .advise("ulimit -l unlimited; in a container --ulimit memlock=-1"),
        );
    }
    if let Some((limit, used)) = machine.group_memory {
        let title = format!(
            "the control group uses {:.1} of {:.1} GiB of memory",
            gibibytes(used),
            gibibytes(limit)
        );
        out.push(if used > limit / 10 * 9 {
            warn("group-memory-full", title)
                .because("at the limit the kernel kills a process. Live areas and /dev/shm count as memory")
        } else {
            Check::new(Subject::Machine, Severity::Ok, "group-memory", title)
        });
    }
    out
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
