//! The NVIDIA driver, and the permission to profile.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::text::counted;

pub fn check(facts: &Facts) -> Vec<Check> {
    let gpus = facts
        .topology
        .gpus
        .iter()
        .filter(|gpu| gpu.maker == "NVIDIA")
        .count();
    let driver = &facts.driver;
    let mut out = Vec::new();
    match &driver.version {
        Some(version) => out.push(Check::new(
            Subject::Machine,
            Severity::Ok,
            "driver",
            format!("NVIDIA driver {version}"),
        )),
        None if gpus > 0 => out.push(
            Check::new(
                Subject::Machine,
                Severity::Warn,
                "driver-missing",
                format!("{} of NVIDIA, but no driver is loaded", counted(gpus, "GPU")),
            )
            .advise("load the driver (modprobe nvidia)"),
        ),
        None => return out,
    }
    if driver.version.is_some() && gpus > 0 && driver.device_files == 0 {
        out.push(
            Check::new(
                Subject::Machine,
                Severity::Warn,
                "gpu-files-missing",
                "the driver is loaded, but there is no /dev/nvidia0",
            )
            .because("programs in this environment cannot use the GPUs")
            .advise("in a container: --gpus all, with the NVIDIA Container Toolkit"),
        );
    }
    if driver.restricts_profiling == Some(true) && !facts.may_profile {
        out.push(
            Check::new(
                Subject::Machine,
                Severity::Note,
                "profiling-restricted",
                "the driver gives performance counters to root only (NVreg_RestrictProfilingToAdminUsers=1)",
            )
            .because(
                "rankscope reads no counters, and tracing with --kernels needs none. If CUPTI refuses with \
                 INSUFFICIENT_PRIVILEGES, this is why",
            )
            .advise("set the module's option NVreg_RestrictProfilingToAdminUsers=0, or give a container the capability SYS_ADMIN"),
        );
    }
    out
}
