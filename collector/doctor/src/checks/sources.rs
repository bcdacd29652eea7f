//! Sources of records: which would be active, and why others would not.
//!
//! Versions are those of docs/book/src/reference/coverage.md.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::libraries::{Kind, Library};
use crate::facts::version::Version;
use crate::launcher::Launcher;
use std::ffi::OsStr;

/// First NCCL that reports device times to a plugin.
pub const FIRST_WITH_TIMES: (u32, u32) = (2, 27);
/// First NCCL that has profiler plugins.
pub const FIRST_WITH_PLUGINS: (u32, u32) = (2, 23);
/// Oldest and newest NCCL and PyTorch that rankscope was tested with.
const NCCL_TESTED: [(u32, u32); 2] = [(2, 18), (2, 32)];
const TORCH_TESTED: [(u32, u32); 2] = [(1, 13), (2, 15)];
/// Variable that names a tool for the driver to load.
const INJECTION: &str = "CUDA_INJECTION64_PATH";

fn line(severity: Severity, id: &'static str, title: impl Into<String>) -> Check {
    Check::new(Subject::Sources, severity, id, title)
}

/// Returns which sources a job on this machine would be recorded from, and why others are missing.
pub fn check(facts: &Facts, launcher: &Launcher) -> Vec<Check> {
    let mut out = Vec::new();
    out.extend(gloo(facts));
    out.extend(c10d(facts));
    if let Some(nccl) = facts.libraries.first(Kind::Nccl) {
        out.extend(nccl_calls(nccl));
        out.extend(device_times(facts, nccl, launcher));
    }
    if facts.libraries.first(Kind::Rccl).is_some() {
        out.push(line(Severity::Ok, "source-rccl", "RCCL calls: recorded"));
    }
    out.extend(kernels(facts));
    if !facts.libraries.found.is_empty() {
        out.extend(nvtx(facts, launcher));
    }
    out.extend(invisible(facts));
    out
}

fn gloo(facts: &Facts) -> Vec<Check> {
    let mut out = Vec::new();
    if let Some(gloo) = facts.libraries.first(Kind::Gloo) {
        out.push(if gloo.is_hidden {
            line(Severity::Warn, "gloo-hidden", "Gloo calls: not recorded").because(format!(
                "{} contains Gloo and does not export its functions, so a preload cannot replace them",
                gloo.path.display()
            ))
        } else {
            line(Severity::Ok, "source-gloo", "Gloo calls: recorded")
        });
    }
    for (kind, what) in [
        (Kind::Jax, "Gloo calls of JAX: not recorded"),
        (Kind::Horovod, "Gloo calls of Horovod: not recorded"),
    ] {
        let Some(package) = facts.libraries.first(kind).filter(|package| package.is_hidden) else {
            continue;
        };
        // With PyTorch, the job may use PyTorch's Gloo instead.
        let is_alone = facts.libraries.first(Kind::PyTorch).is_none();
        let severity = if is_alone { Severity::Warn } else { Severity::Note };
        out.push(line(severity, "gloo-hidden", what).because(format!(
            "{} contains Gloo and does not export its functions, so a preload cannot replace them",
            package.path.display()
        )));
    }
    out
}

fn tested(library: &str, [oldest, newest]: [(u32, u32); 2]) -> String {
    format!(
        "tested: {library} {}.{} to {}.{}",
        oldest.0, oldest.1, newest.0, newest.1
    )
}

/// Returns how much it matters that the version is not between the tested ones; `None` if it is.
fn outside(version: Version, [oldest, newest]: [(u32, u32); 2]) -> Option<Severity> {
    if !version.is_at_least(oldest.0, oldest.1) {
        Some(Severity::Warn)
    } else if version.is_at_least(newest.0, newest.1 + 1) {
        Some(Severity::Note)
    } else {
        None
    }
}

fn c10d(facts: &Facts) -> Option<Check> {
    let torch = facts.libraries.first(Kind::PyTorch)?;
    let version = torch.numbers();
    Some(match version.and_then(|version| outside(version, TORCH_TESTED)) {
        Some(severity) => line(
            severity,
            "torch-untested",
            format!(
                "c10d: rankscope was not tested with PyTorch {}",
                torch.version.as_deref().unwrap_or_default()
            ),
        )
        .because(tested("PyTorch", TORCH_TESTED)),
        None => line(
            Severity::Ok,
            "source-c10d",
            "c10d: queueing, waits and DDP are recorded",
        ),
    })
}

fn nccl_calls(nccl: &Library) -> Vec<Check> {
    let version = nccl.numbers();
    let shown = nccl.version.as_deref().unwrap_or_default();
    let mut out = Vec::new();
    if let Some(severity) = version.and_then(|version| outside(version, NCCL_TESTED)) {
        out.push(
            line(
                severity,
                "nccl-untested",
                format!("NCCL calls: rankscope was not tested with NCCL {shown}"),
            )
            .because(tested("NCCL", NCCL_TESTED)),
        );
    }
    let has_times =
        version.is_some_and(|version| version.is_at_least(FIRST_WITH_TIMES.0, FIRST_WITH_TIMES.1));
    if nccl.is_hidden {
        let what = format!(
            "NCCL is a part of {}, so hooks do not see its calls",
            nccl.path.display()
        );
        out.push(if has_times {
            line(
                Severity::Note,
                "nccl-static",
                "NCCL calls: only as NCCL's profiler plugin reports them",
            )
            .because(what)
        } else {
            line(Severity::Warn, "nccl-static", "NCCL calls: not recorded")
                .because(format!("{what}, and NCCL {shown} reports no times to a plugin"))
                .advise("use NCCL 2.27 or newer, or a program that is linked with libnccl.so")
        });
    } else if out.is_empty() {
        out.push(line(Severity::Ok, "source-nccl", "NCCL calls: recorded"));
    }
    out
}

fn device_times(facts: &Facts, nccl: &Library, launcher: &Launcher) -> Option<Check> {
    let library = launcher.library.as_deref()?;
    let chosen = facts
        .variables
        .get("NCCL_PROFILER_PLUGIN")
        .filter(|chosen| OsStr::new(chosen) != library);
    let is_kept = (launcher.choose_plugin)(chosen.map(OsStr::new), library).is_none();
    if let (Some(chosen), true) = (chosen, is_kept) {
        return Some(
            line(Severity::Warn, "plugin-taken", "NCCL device times: not recorded")
                .because(format!(
                    "NCCL_PROFILER_PLUGIN={chosen}, and NCCL loads only one profiler plugin"
                ))
                .advise("unset NCCL_PROFILER_PLUGIN"),
        );
    }
    let version = nccl.numbers()?;
    if version.is_at_least(FIRST_WITH_TIMES.0, FIRST_WITH_TIMES.1) {
        return Some(line(
            Severity::Ok,
            "source-plugin",
            "NCCL device times: recorded by NCCL's profiler plugin",
        ));
    }
    let reason = if version.is_at_least(FIRST_WITH_PLUGINS.0, FIRST_WITH_PLUGINS.1) {
        "NCCL reports them to a profiler plugin from 2.27 on"
    } else {
        "NCCL has profiler plugins from 2.23 on, and reports times from 2.27 on"
    };
    Some(
        line(
            Severity::Note,
            "no-device-times",
            format!("NCCL device times: not recorded, NCCL is {version}"),
        )
        .because(reason)
        .advise("rankscope run --nccl-events times the launches instead"),
    )
}

fn kernels(facts: &Facts) -> Vec<Check> {
    let mut out = Vec::new();
    if let Some(tool) = facts.variables.get(INJECTION) {
        out.push(
            line(
                Severity::Warn,
                "cupti-taken",
                "kernels: not recorded, even with --kernels",
            )
            .because(format!("{INJECTION}={tool}: rankscope leaves CUPTI to that tool"))
            .advise(format!("unset {INJECTION}, or do not use --kernels")),
        );
        return out;
    }
    let has_gpu = facts.topology.gpus.iter().any(|gpu| gpu.maker == "NVIDIA");
    if let Some(cupti) = facts.libraries.first(Kind::Cupti) {
        out.push(
            line(
                Severity::Ok,
                "source-cupti",
                "kernels: recorded on request, with --kernels",
            )
            .because(format!(
                "CUPTI is {}. With --kernels, each launch takes about 1 µs longer",
                cupti.path.display()
            )),
        );
    } else if has_gpu && facts.has_searched_libraries() {
        out.push(
            line(
                Severity::Note,
                "no-cupti",
                "kernels: --kernels would not work, because no CUPTI was found",
            )
            .advise("if there is a libcupti.so elsewhere, set RANKSCOPE_CUPTI to its path"),
        );
    }
    if facts.variables.is_on("KINETO_USE_DAEMON") {
        out.push(line(
            Severity::Note,
            "kineto-daemon",
            "KINETO_USE_DAEMON is set: rankscope leaves CUPTI to torch.profiler while that records on request",
        ));
    }
    out
}

fn nvtx(facts: &Facts, launcher: &Launcher) -> Option<Check> {
    let library = launcher.library.as_deref()?;
    let before = facts
        .variables
        .get("NVTX_INJECTION64_PATH")
        .filter(|before| OsStr::new(before) != library);
    Some(
        match (
            (launcher.choose_injection)(before.map(OsStr::new), library),
            before,
        ) {
            (None, Some(value)) => line(Severity::Note, "nvtx-off", "NVTX ranges: not recorded")
                .because(format!("NVTX_INJECTION64_PATH={value} switches injection off")),
            (Some((_, Some(next))), _) => line(Severity::Ok, "source-nvtx", "NVTX ranges: recorded")
                .because(format!("{} also gets them", next.to_string_lossy())),
            _ => line(Severity::Ok, "source-nvtx", "NVTX ranges: recorded"),
        },
    )
}

/// Reports libraries whose communication no source records.
fn invisible(facts: &Facts) -> Vec<Check> {
    [
        (Kind::Mpi, "mpi-invisible", "MPI calls: not recorded"),
        (
            Kind::Nvshmem,
            "nvshmem-invisible",
            "NVSHMEM: communication inside kernels is not recorded",
        ),
    ]
    .into_iter()
    .filter(|(kind, _, _)| facts.libraries.first(*kind).is_some())
    .map(|(_, id, title)| line(Severity::Note, id, title))
    .collect()
}
