//! Variables that make a command record.

use super::{nccl, nvtx, preload};
use std::env;
use std::path::Path;
use std::process::Command;

/// Sets the variables that load the library into the command and its children.
pub fn load(command: &mut Command, library: &Path) {
    command.env(
        "LD_PRELOAD",
        preload::appended(env::var_os("LD_PRELOAD").as_deref(), library),
    );
    let before = env::var_os(nvtx::INJECTION);
    if let Some((ours, next)) = nvtx::injected(before.as_deref(), library) {
        command.env(nvtx::INJECTION, ours);
        if let Some(next) = next {
            command.env(nvtx::NEXT, next);
        }
    }
    let chosen = env::var_os(nccl::PLUGIN).filter(|value| !value.is_empty());
    let chosen = chosen.or_else(nccl::configured);
    if let Some(plugin) = nccl::plugin(chosen.as_deref(), library).or(chosen) {
        command.env(nccl::PLUGIN, plugin);
    }
}

/// Sets the variables that name the run directory and the launch.
pub fn record_into(command: &mut Command, directory: &Path, launch: &str) {
    command
        .env("RANKSCOPE_DIR", directory)
        .env("RANKSCOPE_LAUNCH", launch);
}
