//! Document that `rankscope doctor --json` prints.

use super::first_problem;
use anyhow::Result;
use rankscope_doctor::check::{Check, Severity};
use rankscope_doctor::facts::Facts;
use rankscope_doctor::facts::libraries::Library;
use rankscope_doctor::facts::topology::Topology;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Version of the document. It rises when a field is removed or changes its meaning.
const FORMAT_VERSION: u32 = 1;

/// Result of an examination.
#[derive(Default, Serialize, JsonSchema)]
pub struct Examination {
    /// Version of this document. It rises when a field is removed or changes its meaning.
    pub format_version: u32,
    /// Directory of the run whose logs were examined; absent for this machine.
    pub run: Option<PathBuf>,
    /// Number of problems.
    pub bad: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Results, in the order of their subjects.
    pub checks: Vec<Check>,
    /// Path of the library that would be preloaded.
    pub library: Option<String>,
    /// Reason why no library was found.
    pub library_problem: Option<String>,
    /// File of the command.
    pub command: Option<String>,
    /// Reason why the command would not be recorded.
    pub command_problem: Option<String>,
    /// Reason why a recording would stop at once: its disk is too full.
    pub room_problem: Option<String>,
    /// Python interpreter whose packages were examined.
    pub python: Option<PathBuf>,
    /// Communication libraries that were found. The first of each kind would be loaded.
    pub libraries: Vec<Library>,
    /// GPUs, network interfaces and adapters.
    pub topology: Topology,
    /// Live areas on this machine.
    pub live_areas: Vec<LiveArea>,
}

/// Live area of a process that records, or that was not collected.
#[derive(Serialize, JsonSchema)]
pub struct LiveArea {
    /// Path of the file.
    pub file: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Process id.
    pub pid: u32,
    /// Whether the process is alive.
    pub is_running: bool,
    /// Command line of the process, with secrets redacted.
    pub command_line: Option<String>,
    /// Run directory of the process's log.
    pub run_directory: Option<String>,
    /// Advice on the area, or the action that was taken.
    pub advice: String,
}

impl Examination {
    /// Puts the results of this machine together.
    pub fn new(
        facts: &Facts,
        checks: Vec<Check>,
        live_areas: Vec<LiveArea>,
        library: &Result<PathBuf>,
    ) -> Self {
        let found = facts
            .command
            .as_ref()
            .and_then(|command| command.steps.first()?.file.clone());
        let is_of_command =
            |check: &Check| check.id.starts_with("command") || check.id.starts_with("program");
        Self {
            library: library.as_ref().ok().map(|path| path.display().to_string()),
            library_problem: first_problem(&checks, |check| check.id == "library-missing"),
            command: found.map(|path| path.display().to_string()),
            command_problem: first_problem(&checks, is_of_command),
            room_problem: first_problem(&checks, |check| check.id == "disk-full"),
            python: facts.python.as_ref().map(|python| python.interpreter.clone()),
            libraries: facts.libraries.found.clone(),
            topology: facts.topology.clone(),
            live_areas,
            ..Self::of_checks(checks)
        }
    }

    /// Counts the results.
    pub fn of_checks(checks: Vec<Check>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            bad: Severity::Bad.count(&checks),
            warnings: Severity::Warn.count(&checks),
            checks,
            ..Self::default()
        }
    }
}
