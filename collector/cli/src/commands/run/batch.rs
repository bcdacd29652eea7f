//! Repeated runs: `rankscope run --repeat`.
//!
//! No code or thread of rankscope runs between two runs. Each job finds the machine in the same state as the job before
//! it.

use super::outcome::{self, Outcome};
use super::plan::{Plan, Planned, Side};
use super::time_left::{self, TimeLeft};
use super::{Exit, Run, merge, print_message};
use crate::commands::compare;
use crate::launch::ending::Ending;
use crate::launch::inherited::Inherited;
use crate::launch::job::asked_meanwhile;
use crate::launch::run_directory;
use crate::launch::signals::Signals;
use crate::launch::stop::StopWatch;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rankscope_ranklog::place;
use rankscope_report::TextLayout;
use rankscope_report::compare::{Listed, comparison_text};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Minimum number of complete runs per side that show how much runs differ. Fewer suffice if fewer were requested.
const FEWEST: u32 = 2;

/// Records and merges all runs, then compares them if there are two sides.
pub fn run(run: &Run, repeat: u32, library: &Path) -> Result<Exit> {
    let (directory, is_new) = prepare(run.output.as_deref())?;
    let plan = Plan::new(&directory, repeat, &run.command, run.against.as_deref());
    if run.verbose {
        print_message(&format!(
            "recording {} runs into {} with {}",
            plan.runs.len(),
            directory.display(),
            library.display()
        ));
    }
    let recorded = record_all(run, &plan, library)?;
    remove_if_empty(&plan, is_new.then_some(&directory));
    if let Some(signal) = recorded.asked_to_end {
        print_next_step(
            &format!("interrupted after {}", recorded.last),
            &plan,
            &directory,
            &recorded.whole,
        );
        end_as(recorded.ending, signal);
    }
    if run.no_merge {
        print_next_step("recorded", &plan, &directory, &recorded.whole);
    } else {
        merge_all(&plan, &directory, &recorded.whole)?;
    }
    if recorded.is_stopped {
        match recorded.ending {
            Ending::Status(0) => return Ok(Exit::Inconclusive),
            ending => ending.end_likewise(),
        }
    }
    for side in [Side::Base, Side::New] {
        let whole = recorded.of(side).len() as u32;
        if (plan.is_against || side == Side::New) && whole < FEWEST.min(repeat) {
            let of = if plan.is_against {
                format!(" of {}", side.name())
            } else {
                String::new()
            };
            print_message(&format!(
                "only {whole} of {repeat} runs{of} are complete: too few for a comparison"
            ));
            return Ok(Exit::Inconclusive);
        }
    }
    if run.no_merge {
        return Ok(Exit::Fine);
    }
    if plan.is_against {
        return compare_after(&recorded.of(Side::Base), &recorded.of(Side::New));
    }
    print_message(&format!(
        "store them for later comparisons: rankscope baseline add {}",
        patterns(&plan, &directory)
    ));
    Ok(Exit::Fine)
}

/// Recorded runs, and how the recording ended.
struct Recorded {
    /// Complete runs, in the order of their recording.
    whole: Vec<Planned>,
    /// Readable name of the last run.
    last: String,
    /// How the job of the last run ended.
    ending: Ending,
    /// Signal that requested the end of that job, and so of the batch.
    asked_to_end: Option<i32>,
    /// Whether that job failed and ended the batch.
    is_stopped: bool,
}

impl Recorded {
    fn of(&self, side: Side) -> Vec<PathBuf> {
        let runs = self.whole.iter().filter(|run| run.side == side);
        runs.map(|run| run.directory.clone()).collect()
    }
}

/// Creates the directory of the batch: the named one, else RANKSCOPE_DIR, else a new one. Also returns whether it is
/// new.
fn prepare(named: Option<&Path>) -> Result<(PathBuf, bool)> {
    let path = run_directory::requested(named)?;
    let is_new = !path.exists();
    let is_used = match fs::read_dir(&path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read the directory {}", path.display()));
        }
    };
    if is_used {
        bail!(
            "{} is not empty; --repeat needs a new directory: name another with -o",
            path.display()
        );
    }
    place::make_run_directory(&path).with_context(|| {
        format!(
            "cannot create the directory {}; name another with -o",
            path.display()
        )
    })?;
    Ok((path, is_new))
}

/// Removes directories in which no run left a file.
fn remove_if_empty(plan: &Plan, made: Option<&PathBuf>) {
    let folders = plan.runs.iter().filter_map(|run| run.directory.parent());
    let is_side = |folder: &&Path| plan.is_against && folder.is_dir();
    // `remove_dir` fails if the directory has content, as intended.
    for folder in folders.filter(is_side) {
        let _ = fs::remove_dir(folder);
    }
    if let Some(made) = made {
        let _ = fs::remove_dir(made);
    }
}

fn record_all(run: &Run, plan: &Plan, library: &Path) -> Result<Recorded> {
    // Signals stay blocked after the first run. Every job gets the signal state that this process inherited.
    let inherited = Inherited::read();
    let mut left = TimeLeft::default();
    let mut recorded = Recorded {
        whole: Vec::new(),
        last: String::new(),
        ending: Ending::Status(0),
        asked_to_end: None,
        is_stopped: false,
    };
    for (position, planned) in plan.runs.iter().enumerate() {
        let outcome = outcome::record(run, planned, library, inherited)?;
        recorded.last = plan.shown(position);
        recorded.ending = outcome.ending;
        recorded.asked_to_end = outcome.asked_to_end;
        left.add(planned.side, outcome.took);
        let Some(failure) = outcome.failure() else {
            recorded.whole.push(planned.clone());
            print_progress(plan, position, &outcome, &left);
            // Ctrl-C between two runs.
            recorded.asked_to_end = asked_meanwhile();
            if recorded.asked_to_end.is_some() {
                break;
            }
            continue;
        };
        let place = outcome::set_aside(planned);
        let place = place.map_or_else(String::new, |place| {
            format!("; its recording is in {}", place.display())
        });
        print_message(&format!("{} failed: {failure}{place}", recorded.last));
        if !run.keep_going || outcome.asked_to_end.is_some() || outcome.is_not_started {
            recorded.is_stopped = true;
            break;
        }
    }
    Ok(recorded)
}

/// Prints one line after each run. On a terminal it has a bar, and stays: while a job runs, the terminal belongs to the
/// job.
fn print_progress(plan: &Plan, position: usize, outcome: &Outcome, left: &TimeLeft) {
    let done = position + 1;
    let mut line = format!("{} took {}", plan.shown(position), time_left::shown(outcome.took));
    if done < plan.runs.len() {
        line.push_str(&format!("; about {} left", time_left::shown(left.of(plan, done))));
    }
    if !io::stderr().is_terminal() {
        print_message(&line);
        return;
    }
    let bar = ProgressBar::with_draw_target(Some(plan.runs.len() as u64), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("rankscope: {bar:20} {msg}") {
        Ok(style) => {
            bar.set_style(style);
            bar.set_position(done as u64);
            bar.abandon_with_message(line);
        }
        Err(_) => print_message(&line),
    }
}

/// Writes sessions and reports of all runs. Traces would take longer than all else, and hardly any would be opened.
fn merge_all(plan: &Plan, directory: &Path, whole: &[Planned]) -> Result<()> {
    let (of_plan, at, runs) = (plan.clone(), directory.to_path_buf(), whole.to_vec());
    let _watch = StopWatch::start(move |signal| {
        runs.iter().for_each(|run| merge::abandon(&run.directory));
        print_next_step("interrupted; the recordings are complete", &of_plan, &at, &runs);
        Ending::Signal(signal).end_likewise()
    });
    // The user may still stop this process or request a core dump of it.
    Signals::none().with(libc::SIGTSTP).with(libc::SIGQUIT).unblock();
    for run in whole {
        merge::merge_without_trace(std::slice::from_ref(&run.directory), &run.directory)
            .with_context(|| format!("cannot merge {}", run.directory.display()))?;
    }
    if !whole.is_empty() {
        print_message(&format!(
            "merged {} in {}",
            runs_in_words(whole.len()),
            directory.display()
        ));
    }
    Ok(())
}

/// Compares both sides. Like all output of rankscope about a job, the text goes to standard error.
fn compare_after(base: &[PathBuf], new: &[PathBuf]) -> Result<Exit> {
    let comparison = compare::of_runs(base, new)?;
    let text = comparison_text(&comparison, Listed::Notable, &TextLayout::of_stderr());
    let mut stderr = io::stderr().lock();
    // A failed write is ignored: nobody reads the output any more.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    let folder = |runs: &[PathBuf]| {
        runs.first()
            .and_then(|run| run.parent())
            .map(|path| path.display().to_string())
    };
    if let (Some(base), Some(new)) = (folder(base), folder(new)) {
        print_message(&format!(
            "to compare again: rankscope compare {base} -- {new} (add --html page.html for a page with charts)"
        ));
    }
    Ok(compare::exit(&comparison))
}

/// Ends this process as the job ended. If the job ignored the signal, this process still ends by it: the batch is
/// incomplete.
fn end_as(ending: Ending, signal: i32) -> ! {
    match ending {
        Ending::Status(0) => Ending::Signal(signal).end_likewise(),
        ending => ending.end_likewise(),
    }
}

fn print_next_step(what: &str, plan: &Plan, directory: &Path, whole: &[Planned]) {
    if whole.is_empty() {
        print_message(&format!("{what}; no run is complete"));
        return;
    }
    print_message(&format!(
        "{what}; {} complete. To merge: for run in {}; do rankscope merge \"$run\"; done",
        match whole.len() {
            1 => "1 run is".to_owned(),
            count => format!("{count} runs are"),
        },
        patterns(plan, directory)
    ));
}

fn runs_in_words(count: usize) -> String {
    format!("{count} {}", if count == 1 { "run" } else { "runs" })
}

/// Returns shell patterns that match all complete runs.
fn patterns(plan: &Plan, directory: &Path) -> String {
    let directory = directory.display();
    if plan.is_against {
        format!("{directory}/base/run-* {directory}/new/run-*")
    } else {
        format!("{directory}/run-*")
    }
}
