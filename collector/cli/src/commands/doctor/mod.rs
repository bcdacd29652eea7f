//! `rankscope doctor`.

mod document;
mod recording;

use super::{Exit, print};
use crate::launch::{library, nccl, nvtx, run_directory};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use document::Examination;
use rankscope_analysis::findings::environment::unread_variables::why_nccl_ignores;
use rankscope_doctor::check::{Check, Severity};
use rankscope_doctor::facts::Facts;
use rankscope_doctor::launcher::Launcher;
use rankscope_doctor::surroundings::Surroundings;
use rankscope_doctor::{checks, run, text};
use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  rankscope doctor                        check this machine and list leftovers of earlier runs
  rankscope doctor -- torchrun train.py   check which parts of this command would be recorded
  rankscope doctor shared/run1            compare the ranks of a recorded run
  rankscope doctor --fail-on warn -- torchrun train.py || exit   in a job script
  rankscope doctor --clean                collect or remove the live areas of dead processes";

/// Check whether recording would work here: command, libraries, machine, links and environment variables. Or compare
/// the ranks of a recorded run.
///
/// A line is `ok`, a `note`, a warning (`warn`) or a problem (`BAD`). A problem means that nothing would be recorded.
/// A warning means that the job may fail or be slow, or that a part of the recording would be missing. The job does not
/// run. Only a Python interpreter starts, and prints its search path: that of the command, or python3.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Complete the logs from live areas of dead processes, and remove areas whose run directory no longer exists.
    #[arg(long)]
    clean: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// Print the JSON schema of --json.
    #[arg(long, conflicts_with_all = ["json", "clean", "run", "command"])]
    schema: bool,

    /// Exit with status 1 if there is a warning (warn). A problem always exits with status 2.
    #[arg(long, value_name = "SEVERITY", default_value = "bad")]
    fail_on: FailOn,

    /// Run directory whose disk is checked for free space (default: the working directory).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Directory that is examined instead of the root directory. For tests.
    #[arg(long, value_name = "DIR", hide = true)]
    sysroot: Option<PathBuf>,

    /// Directory of a recorded run. Its logs are examined instead of this machine.
    #[arg(value_name = "RUN", conflicts_with_all = ["command", "clean", "output"])]
    run: Option<PathBuf>,

    /// Command to record, after `--`.
    #[arg(last = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Severity from which the exit status is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A warning or a problem.
    Warn,
    /// A problem.
    Bad,
}

impl Doctor {
    pub fn run(self) -> Result<Exit> {
        if self.schema {
            print::json(&schemars::schema_for!(Examination))?;
            return Ok(Exit::Fine);
        }
        let examination = match &self.run {
            Some(directory) => examine_run(directory)?,
            None => self.examine(),
        };
        if self.json {
            print::json(&examination)?;
        } else {
            print::text(&text::print(&examination.checks))?;
        }
        let worst = examination.checks.iter().map(|check| check.severity).max();
        Ok(match worst {
            Some(Severity::Bad) => Exit::Unusable,
            Some(Severity::Warn) if self.fail_on == FailOn::Warn => Exit::Regression,
            _ => Exit::Fine,
        })
    }

    fn examine(&self) -> Examination {
        let mut surroundings = Surroundings::system();
        if let Some(root) = &self.sysroot {
            surroundings = surroundings.with_root(root);
        }
        let words: Vec<String> = self
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let found = library::find();
        let launcher = Launcher::new(found.as_ref().ok().cloned(), nccl::plugin, nvtx::injected);
        let facts = Facts::gather(&surroundings, &words);
        let mut all = vec![recording::library(&found)];
        all.extend(recording::room(self.output.as_deref().unwrap_or(Path::new("."))));
        let (live_areas, of_areas) = recording::live_areas(self.clean);
        all.extend(of_areas);
        all.extend(checks::all(&facts, &launcher, why_nccl_ignores));
        all.sort_by_key(|check| (check.subject, Reverse(check.severity)));
        Examination::new(&facts, all, live_areas, &found)
    }
}

/// Examines the logs of a run.
fn examine_run(directory: &Path) -> Result<Examination> {
    if !directory.is_dir() {
        bail!(
            "{} is no run directory; to examine a command: rankscope doctor -- {}",
            directory.display(),
            directory.display()
        );
    }
    let logs = run_directory::logs(directory)?;
    if logs.is_empty() {
        bail!("{} has no rank logs", directory.display());
    }
    Ok(Examination {
        run: Some(directory.to_path_buf()),
        ..Examination::of_checks(run::examine(&logs, why_nccl_ignores))
    })
}

/// Returns the title of the first problem among checks.
fn first_problem(checks: &[Check], is_wanted: impl Fn(&Check) -> bool) -> Option<String> {
    let mut bad = checks.iter().filter(|check| check.severity == Severity::Bad);
    bad.find(|check| is_wanted(check))
        .map(|check| check.title.clone())
}
