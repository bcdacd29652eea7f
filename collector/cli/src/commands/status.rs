//! `rankscope status`.

use super::{Exit, duration, print};
use crate::launch::companion::{Behind, run_behind_the_job};
use anyhow::Result;
use clap::Args;
use rankscope_formats::status::{Confidence, HangKind, Health, Status as Document};
use rankscope_hang::judge::{Judge, JudgeOptions};
use rankscope_hang::words;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  rankscope status shared/run1                       what does every rank do now
  rankscope status shared/run1 --hang-timeout 5m     call a wait of five minutes a hang, and no shorter one
  rankscope status shared/run1 --stacks              with the stack of the rank that the others wait for
  rankscope status shared/run1 --json | jq .verdicts

Exit status: 0 the job does not hang, 1 it hangs, 2 wrong usage or unreadable input, 3 not enough was seen.";

/// Maximum number of groups and communicators that are printed.
const MAX_LINES: usize = 12;

/// Show what every rank of a job does now, or did when it died, and why the job hangs.
///
/// It works while the job runs, also without `rankscope run`, and on the files of killed ranks. If a rank completes no
/// operation for half a second, it takes up to a second and a half. It does not disturb the job. Ranks of other hosts are read from the shared run
/// directory, where calls appear after two seconds.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Status {
    /// Run directories of the job.
    #[arg(value_name = "RUN", required = true)]
    directories: Vec<PathBuf>,

    /// Time after which a wait is a hang.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    hang_timeout: Duration,

    /// The same for a wait on a rank that works (default: ten times --hang-timeout).
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    busy_timeout: Option<Duration>,

    /// Read the stacks of the ranks that others wait for, with py-spy or gdb if they are installed. They stop a process
    /// for some milliseconds.
    #[arg(long)]
    stacks: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub fn run(self) -> Result<Exit> {
        run_behind_the_job(Behind::Last);
        let mut options = JudgeOptions::of_timeout(self.hang_timeout);
        if let Some(busy) = self.busy_timeout {
            options.busy_timeout_ns = JudgeOptions::of_timeout(busy).timeout_ns;
        }
        options.stacks = self.stacks;
        let status = Judge::new(self.directories, options).first_look()?;
        if self.json {
            print::json(&status)?;
        } else {
            print::text(&shown(&status))?;
        }
        Ok(match status.health {
            Health::Healthy => Exit::Fine,
            Health::Hang => Exit::Regression,
            Health::Unknown => Exit::Inconclusive,
        })
    }
}

/// Formats a status for a terminal.
pub fn shown(status: &Document) -> String {
    let mut out = format!("{}\n", status.sentence);
    if let Some(first) = status.verdicts.first() {
        let sure = match first.confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        };
        let _ = writeln!(out, "\nKind: {}. Confidence: {sure}.", first.kind);
        for line in &first.evidence {
            let _ = writeln!(out, "  - {line}");
        }
    }
    let others: Vec<_> = status.verdicts.iter().skip(1).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "\nOther waits:");
        for other in others.iter().take(MAX_LINES) {
            let kind = if other.kind == HangKind::SlowNotStuck {
                String::new()
            } else {
                format!(" [{}]", other.kind)
            };
            let _ = writeln!(out, "  - {}{kind}", other.sentence);
        }
        more(&mut out, others.len());
    }
    groups(&mut out, status);
    communicators(&mut out, status);
    for rank in &status.ranks {
        if let Some(stack) = &rank.stack {
            let _ = writeln!(out, "\nStack of {}:", rank.name);
            for line in stack {
                let _ = writeln!(out, "  {line}");
            }
        }
    }
    if !status.notes.is_empty() {
        let _ = writeln!(out, "\nNot seen:");
        for note in status.notes.iter().take(MAX_LINES) {
            let _ = writeln!(out, "  - {note}");
        }
        more(&mut out, status.notes.len());
    }
    out
}

fn more(out: &mut String, lines: usize) {
    if lines > MAX_LINES {
        let _ = writeln!(out, "  … and {} more (--json lists all)", lines - MAX_LINES);
    }
}

fn groups(out: &mut String, status: &Document) {
    if status.groups.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nRanks:");
    for group in status.groups.iter().take(MAX_LINES) {
        let time = match group.for_ns {
            Some((least, most)) if words::time(least) == words::time(most) => {
                format!(" for {}", words::time(most))
            }
            Some((least, most)) => format!(" for {} to {}", words::time(least), words::time(most)),
            None => String::new(),
        };
        let _ = writeln!(out, "  {}: {}{time}", group.shown, group.what);
    }
    more(out, status.groups.len());
}

fn communicators(out: &mut String, status: &Document) {
    let pending: Vec<_> = status
        .communicators
        .iter()
        .filter_map(|communicator| Some((communicator, communicator.pending.as_ref()?)))
        .collect();
    if pending.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nCommunicators with a pending operation:");
    for (communicator, pending) in pending.iter().take(MAX_LINES) {
        let missing = if pending.missing.is_empty() {
            "nobody is missing".to_owned()
        } else {
            format!(
                "{} missing: {}",
                pending.missing.len(),
                names(status, &pending.missing)
            )
        };
        let _ = writeln!(
            out,
            "  {} ({}, {} members): {} number {} for {}; {} in it, {missing}",
            communicator.name,
            communicator.library,
            communicator.size,
            pending.operation,
            pending.sequence,
            words::time(pending.for_ns),
            pending.waiting.len(),
        );
    }
    more(out, pending.len());
}

fn names(status: &Document, ranks: &[u32]) -> String {
    let ranks = ranks.iter().filter_map(|&rank| status.ranks.get(rank as usize));
    let numbers: Option<Vec<u32>> = ranks.clone().map(|rank| rank.number).collect();
    match numbers {
        Some(numbers) => words::ranks(&numbers),
        None => ranks
            .map(|rank| rank.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    }
}
