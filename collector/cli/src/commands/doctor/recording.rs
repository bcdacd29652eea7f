//! Checks of the place of a recording: the library, the disk, and live areas of earlier runs.

use super::document::LiveArea;
use crate::commands::print::error_line;
use crate::launch::{free_space, live_files};
use anyhow::Result;
use rankscope_doctor::check::{Check, Severity, Subject};
use std::path::{Path, PathBuf};

/// Checks whether the library was found.
pub fn library(found: &Result<PathBuf>) -> Check {
    match found {
        Ok(path) => Check::new(
            Subject::Recording,
            Severity::Ok,
            "library",
            format!("preloads {}", path.display()),
        ),
        Err(error) => Check::new(
            Subject::Recording,
            Severity::Bad,
            "library-missing",
            error_line(error),
        ),
    }
}

/// Checks the free space for a recording.
pub fn room(directory: &Path) -> Option<Check> {
    let problem = free_space::warning(directory, None)?;
    Some(Check::new(
        Subject::Recording,
        Severity::Bad,
        "disk-full",
        problem,
    ))
}

/// Maximum number of live areas that are printed. The others are counted.
const MOST_SHOWN: usize = 5;
/// Maximum number of characters of a command line that are printed.
const MOST_CHARACTERS: usize = 80;

/// Lists the live areas of this machine; with `clean`, collects or removes those of dead processes.
pub fn live_areas(clean: bool) -> (Vec<LiveArea>, Vec<Check>) {
    let areas: Vec<LiveArea> = live_files::find()
        .into_iter()
        .map(|area| {
            let advice = if clean { area.clean() } else { area.advice() };
            LiveArea {
                file: area.path.display().to_string(),
                bytes: area.bytes,
                pid: area.pid,
                is_running: area.is_running,
                command_line: area.command_line,
                run_directory: area.run_directory.map(|path| path.display().to_string()),
                advice,
            }
        })
        .collect();
    let mut checks: Vec<Check> = areas.iter().take(MOST_SHOWN).map(check).collect();
    checks.extend(areas.get(MOST_SHOWN..).and_then(more));
    if checks.is_empty() {
        checks.push(Check::new(
            Subject::Recording,
            Severity::Ok,
            "live-areas",
            "no live areas are left on this machine",
        ));
    }
    (areas, checks)
}

/// Counts the live areas that are not shown.
fn more(areas: &[LiveArea]) -> Option<Check> {
    let dead = areas.iter().filter(|area| !area.is_running).count();
    let bytes: u64 = areas.iter().map(|area| area.bytes).sum();
    let title = format!(
        "{} more live areas ({:.1} MiB), {dead} of dead processes",
        areas.len(),
        mebibytes(bytes)
    );
    let severity = if dead == 0 { Severity::Ok } else { Severity::Note };
    let check = Check::new(Subject::Recording, severity, "live-areas", title);
    let advice = "rankscope doctor --json lists all; --clean collects or removes those of dead processes";
    (!areas.is_empty()).then(|| check.advise(advice.to_owned()))
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the start of a command line.
fn shortened(command: &str) -> String {
    match command.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!(", {}…", &command[..end]),
        None => format!(", {command}"),
    }
}

fn check(area: &LiveArea) -> Check {
    let (state, severity) = if area.is_running {
        ("runs", Severity::Ok)
    } else {
        ("is dead", Severity::Note)
    };
    let command = area.command_line.as_ref();
    let title = format!(
        "{} ({:.1} MiB): process {} {state}{}",
        area.file,
        mebibytes(area.bytes),
        area.pid,
        command.map(|command| shortened(command)).unwrap_or_default(),
    );
    Check::new(Subject::Recording, severity, "live-area", title).advise(area.advice.clone())
}
