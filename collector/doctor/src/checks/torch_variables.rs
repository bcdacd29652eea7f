//! Variables of PyTorch's process groups.
//!
//! Sources: PyTorch's documentation, "PYTORCH ProcessGroupNCCL Environment Variables", and its file
//! torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp. The names got the prefix `TORCH_` in 2.2.

use crate::check::Check;
use crate::facts::variables::Variables;
use crate::facts::version::Version;

/// Names before 2.2. The new name has `TORCH_` before it.
const RENAMED: [&str; 5] = [
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING",
    "NCCL_TRACE_BUFFER_SIZE",
];
/// First version with the new names.
const RENAMED_IN: (u32, u32) = (2, 2);

pub fn check(variables: &Variables, torch: Option<Version>) -> Vec<Check> {
    let mut out = Vec::new();
    let has_new_names = torch.is_some_and(|torch| torch.is_at_least(RENAMED_IN.0, RENAMED_IN.1));
    for name in RENAMED.into_iter().filter(|name| variables.get(name).is_some()) {
        if has_new_names {
            out.push(
                Check::of_variable(
                    "variable-renamed",
                    format!("{name} has another name since PyTorch 2.2"),
                )
                .because("a later version may ignore it")
                .advise(format!("set TORCH_{name}")),
            );
        }
    }
    out.extend(waits(variables));
    let dumps = variables.is_on("TORCH_NCCL_DUMP_ON_TIMEOUT");
    if dumps && variables.number("TORCH_NCCL_TRACE_BUFFER_SIZE") == Some(0) {
        out.push(
            Check::of_variable(
                "contradiction-dump",
                "TORCH_NCCL_DUMP_ON_TIMEOUT=1 and TORCH_NCCL_TRACE_BUFFER_SIZE=0 are both set",
            )
            .because("the Flight Recorder keeps no operations, so a timeout has nothing to dump"),
        );
    }
    out
}

fn waits(variables: &Variables) -> Option<Check> {
    let blocks = variables.is_on("TORCH_NCCL_BLOCKING_WAIT") || variables.is_on("NCCL_BLOCKING_WAIT");
    if !blocks {
        return None;
    }
    let handles =
        variables.is_on("TORCH_NCCL_ASYNC_ERROR_HANDLING") || variables.is_on("NCCL_ASYNC_ERROR_HANDLING");
    Some(if handles {
        Check::of_variable(
            "contradiction-wait",
            "blocking waits and asynchronous error handling are both on",
        )
        .because("with blocking waits, PyTorch switches the asynchronous error handling off")
        .advise("unset TORCH_NCCL_BLOCKING_WAIT")
    } else {
        Check::of_variable(
            "blocking-wait",
            "TORCH_NCCL_BLOCKING_WAIT=1: every wait blocks its thread until the operation ends",
        )
        .because("computation and communication overlap less, and training is slower")
        .advise("unset it outside of debugging")
    })
}
