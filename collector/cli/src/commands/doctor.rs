//! `rankscope doctor`.

use super::{Exit, print};
use crate::launch::{free_space, library, live_files, program};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  rankscope doctor                        check the library and list leftovers of earlier runs
  rankscope doctor -- torchrun train.py   check whether this command can be recorded
  rankscope doctor --clean                collect or remove the live areas of dead processes";

/// Check whether recording would work here, and list leftovers of earlier runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Complete the logs from live areas of dead processes, and remove areas whose run directory no longer exists.
    #[arg(long)]
    clean: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// Run directory to record into (default: the working directory is checked).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Command to record.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Examination {
    /// Path of the library that would be preloaded.
    library: Option<String>,
    /// Reason why no library was found.
    library_problem: Option<String>,
    /// File of the command.
    command: Option<String>,
    /// Reason why the command would not be recorded.
    command_problem: Option<String>,
    /// Reason why the directory lacks the capacity for a recording.
    room_problem: Option<String>,
    /// Live areas on this machine.
    live_areas: Vec<LiveArea>,
}

#[derive(Serialize)]
struct LiveArea {
    file: String,
    bytes: u64,
    pid: u32,
    is_running: bool,
    command_line: Option<String>,
    run_directory: Option<String>,
    /// Advice on the area, or the action that was taken.
    advice: String,
}

impl Doctor {
    pub fn run(self) -> Result<Exit> {
        let examination = self.examine();
        if self.json {
            print::json(&examination)?;
        } else {
            print::text(&examination.text())?;
        }
        let problems = [
            &examination.library_problem,
            &examination.command_problem,
            &examination.room_problem,
        ];
        let healthy = problems.iter().all(|problem| problem.is_none());
        Ok(if healthy { Exit::Fine } else { Exit::Unusable })
    }

    fn examine(&self) -> Examination {
        let (library, library_problem) = match library::find() {
            Ok(path) => (Some(path.display().to_string()), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let (mut command, mut command_problem) = (None, None);
        if let Some(name) = self.command.first() {
            match program::resolve(name) {
                Some(file) => {
                    command_problem = program::reach(&file).warning(&file);
                    command = Some(file.display().to_string());
                }
                None => command_problem = Some(format!("command not found: {}", name.to_string_lossy())),
            }
        }
        let room_problem = free_space::warning(self.output.as_deref().unwrap_or(Path::new(".")), None);
        let live_areas = live_files::find()
            .into_iter()
            .map(|area| {
                let advice = if self.clean { area.clean() } else { area.advice() };
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
        Examination {
            library,
            library_problem,
            command,
            command_problem,
            room_problem,
            live_areas,
        }
    }
}

impl Examination {
    fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |mark: &str, what: &str| {
            let _ = writeln!(out, "{mark:>4}  {}", what.replace('\n', "\n      "));
        };
        match (&self.library, &self.library_problem) {
            (Some(library), _) => line("ok", &format!("preloads {library}")),
            (None, problem) => line("BAD", problem.as_deref().unwrap_or("no library")),
        }
        match (&self.command, &self.command_problem) {
            (_, Some(problem)) => line("BAD", problem),
            (Some(command), None) => line("ok", &format!("{command} can be preloaded")),
            (None, None) => {}
        }
        if let Some(problem) = &self.room_problem {
            line("BAD", problem);
        }
        if self.live_areas.is_empty() {
            line("ok", "no live areas are left on this machine");
        }
        for area in &self.live_areas {
            let state = if area.is_running { "runs" } else { "is dead" };
            line(
                if area.is_running { "ok" } else { "note" },
                &format!(
                    "{} ({:.1} MiB): process {} {state}{}\n{}",
                    area.file,
                    area.bytes as f64 / f64::from(1 << 20),
                    area.pid,
                    area.command_line
                        .as_ref()
                        .map(|command| format!(", {command}"))
                        .unwrap_or_default(),
                    area.advice
                ),
            );
        }
        out
    }
}
