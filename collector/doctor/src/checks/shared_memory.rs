//! /dev/shm: NCCL and data loaders need it, and live areas are in it.
//!
//! NCCL's documentation ("Troubleshooting: Shared Memory") asks for a larger one in containers, where 64 MiB are usual.

use crate::check::{Check, Severity, Subject};
use crate::facts::machine::Machine;

/// Least size without a warning, in bytes.
const SMALL_BYTES: u64 = 1 << 30;

fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

pub fn check(machine: &Machine) -> Option<Check> {
    let advice = "in a container: --shm-size=8g or --ipc=host; on Kubernetes an emptyDir with medium: Memory";
    if !machine.has_shared_memory {
        return Some(
            Check::new(Subject::Machine, Severity::Warn, "shm-missing", "there is no /dev/shm")
                .because("NCCL and data loaders fail without it. rankscope records into a file on a local disk instead")
                .advise(advice),
        );
    }
    let capacity = machine.shared_memory?;
    let free = capacity.free_bytes;
    let shown = match free {
        Some(free) => format!(
            "/dev/shm has {} MiB, {} MiB of it free",
            mebibytes(capacity.total_bytes),
            mebibytes(free)
        ),
        None => format!("/dev/shm has {} MiB", mebibytes(capacity.total_bytes)),
    };
    let is_small = capacity.total_bytes < SMALL_BYTES;
    let is_full = free.is_some_and(|free| free < SMALL_BYTES / 8);
    Some(if is_small || is_full {
        let id = if is_small { "shm-small" } else { "shm-full" };
        Check::new(Subject::Machine, Severity::Warn, id, shown)
            .because("NCCL and the workers of data loaders use it, and fail when it is full")
            .advise(if is_small {
                advice
            } else {
                "remove files of ended jobs from /dev/shm"
            })
    } else {
        Check::new(Subject::Machine, Severity::Ok, "shm", shown)
    })
}
