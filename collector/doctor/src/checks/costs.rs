//! Variables for debugging that make a job slower.
//!
//! Sources: NCCL's documentation ("Debugging" variables should not stay set), CUDA's programming guide
//! (CUDA_LAUNCH_BLOCKING), and PyTorch's documentation (TORCH_DISTRIBUTED_DEBUG).

use crate::check::{Check, Severity, Subject};
use crate::facts::variables::Variables;

pub fn check(variables: &Variables) -> Vec<Check> {
    let mut out = Vec::new();
    let mut warn = |id: &'static str, title: &str, reason: &str| {
        out.push(
            Check::of_variable(id, title)
                .because(reason)
                .advise("unset it outside of debugging"),
        );
    };
    if variables.is_on("CUDA_LAUNCH_BLOCKING") {
        warn(
            "launch-blocking",
            "CUDA_LAUNCH_BLOCKING=1: every launch waits for its kernel",
            "launches and kernels do not overlap, so the recording does not show the job as it usually runs",
        );
    }
    if variables.get("TORCH_DISTRIBUTED_DEBUG") == Some("DETAIL") {
        warn(
            "distributed-debug",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL: PyTorch checks every collective with further collectives",
            "the recording contains these further collectives, and waits become longer",
        );
    }
    let level = variables
        .get("NCCL_DEBUG")
        .unwrap_or_default()
        .to_ascii_uppercase();
    let subsystems = variables
        .get("NCCL_DEBUG_SUBSYS")
        .unwrap_or_default()
        .to_ascii_uppercase();
    let per_call = subsystems
        .split(',')
        .any(|name| ["ALL", "COLL", "P2P", "CALL"].contains(&name.trim()));
    let writes_calls = per_call && !subsystems.starts_with('^');
    if (level == "INFO" && writes_calls) || level == "TRACE" {
        warn(
            "nccl-debug-costs",
            &match level.as_str() {
                "TRACE" => "NCCL_DEBUG=TRACE: NCCL writes several lines per call".to_owned(),
                _ => format!(
                    "NCCL_DEBUG={level} with NCCL_DEBUG_SUBSYS={subsystems}: NCCL writes a line per call"
                ),
            },
            "each call takes longer, and the log grows with the job",
        );
    } else if level == "INFO" {
        out.push(Check::new(
            Subject::Variables,
            Severity::Note,
            "nccl-debug",
            "NCCL_DEBUG=INFO: NCCL writes details when it creates communicators",
        ));
    }
    out
}
