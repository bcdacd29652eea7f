//! Looks at a job again and again, and judges.

use crate::document::document;
use crate::ending::{Ending, EndingKind};
use crate::look::{Reach, view};
use crate::patience::{History, Limits};
use crate::process::{Work, ticks_per_second};
use crate::stacks;
use crate::verdict::verdicts;
use crate::view::{LogState, Rank, View};
use crate::waits::Waits;
use rankscope_analysis::ingest::{IngestError, ingest_in_place};
use rankscope_formats::status::{Health, ProcessState, Status};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Options of a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeOptions {
    /// Time after which a wait is a hang, in nanoseconds.
    pub timeout_ns: i64,
    /// The same for a wait on a rank that works, in nanoseconds.
    pub busy_timeout_ns: i64,
    /// True if stacks of the ranks that cause a wait are read, with py-spy or gdb.
    pub stacks: bool,
}

impl JudgeOptions {
    /// A rank that works may let its peers wait this many times longer.
    pub const BUSY_TIMES: i64 = 10;

    /// Returns the options for a timeout.
    pub fn of_timeout(timeout: Duration) -> Self {
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX / Self::BUSY_TIMES);
        Self {
            timeout_ns,
            busy_timeout_ns: timeout_ns.saturating_mul(Self::BUSY_TIMES),
            stacks: false,
        }
    }
}

/// Share of a processor that a process must use, or wait for, to count as busy.
const BUSY_SHARE: f64 = 0.2;
/// Bytes per second that a process must read or write to count as busy. The recorder itself reads a few kilobytes.
const BUSY_BYTES_PER_S: f64 = 256.0 * 1024.0;
/// A record is new only if it is this much younger than the last one before: clocks are aligned anew at each look, and the
/// time of the same record moves a little.
const CLOCK_JITTER_NS: i64 = 1_000_000;
/// Age from which a new record does not explain the processor time since the last reading.
const OLD_RECORD_NS: i64 = 1_500_000_000;
/// Minimum time between two readings of a process that are compared.
const LEAST_BETWEEN: Duration = Duration::from_millis(400);
/// Time between the beginnings of the two looks of [`Judge::look`].
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Time between the beginnings of the first two looks, in which processes that work show it.
const BETWEEN_FIRST_LOOKS: Duration = Duration::from_millis(700);

/// Time without a completed operation after which it is of interest whether a process works, in nanoseconds.
const QUIET_NS: i64 = 500_000_000;

/// What a process had done at a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    work: Option<Work>,
    last_record_ns: i64,
}

/// Looks at a job, and keeps what it has shown.
#[derive(Debug)]
pub struct Judge {
    directories: Vec<PathBuf>,
    options: JudgeOptions,
    history: History,
    readings: FxHashMap<u64, Reading>,
    /// How processes of this machine ended, by process id.
    endings: FxHashMap<u32, Ending>,
    /// Processes of this machine that ran at the last look.
    running: Vec<RunningProcess>,
    /// Processes that had ended at the last look without closing their logs.
    unclosed: Vec<UnclosedProcess>,
    /// Names of the ranks of this machine that any look has shown, by process id.
    names: FxHashMap<u32, String>,
}

/// A process of this machine that records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Name of its rank.
    pub rank: String,
    /// Process id.
    pub pid: u32,
    /// Start time, as /proc shows it.
    pub start_time: String,
    /// Path of its live area.
    pub live: PathBuf,
    /// Name of the launch of `rankscope run` that it belongs to.
    pub launch: Option<String>,
}

/// A process that has ended without closing its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnclosedProcess {
    /// Name of its rank.
    pub rank: String,
    /// Process id.
    pub pid: u32,
    /// How it ended, in words.
    pub ending: Ending,
}

impl Judge {
    /// Creates a judge of these run directories.
    pub fn new(directories: Vec<PathBuf>, options: JudgeOptions) -> Self {
        Self {
            directories,
            options,
            history: History::default(),
            readings: FxHashMap::default(),
            endings: FxHashMap::default(),
            running: Vec::new(),
            unclosed: Vec::new(),
            names: FxHashMap::default(),
        }
    }

    /// Returns the processes of this machine that ran at the last look.
    pub fn running(&self) -> &[RunningProcess] {
        &self.running
    }

    /// Returns the processes that had ended at the last look without closing their logs.
    pub fn unclosed(&self) -> &[UnclosedProcess] {
        &self.unclosed
    }

    /// Returns the name of the rank of a process of this machine, if any look has shown it.
    pub fn name_of(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Returns the run directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Sets how processes of this machine ended, by process id.
    pub fn set_endings(&mut self, endings: impl IntoIterator<Item = (u32, Ending)>) {
        self.endings.extend(endings);
    }

    /// Notes that this process did not run between two times, in nanoseconds since 1970.
    pub fn add_gap(&mut self, from_unix_ns: i64, until_unix_ns: i64) {
        self.history.add_gap(from_unix_ns, until_unix_ns);
    }

    /// Looks at the job, for a caller that looks only now. Whether processes work shows only between two looks, which a job
    /// that goes on does not need.
    pub fn first_look(&mut self) -> Result<Status, IngestError> {
        let started = Instant::now();
        let brief = self.view(Reach::Brief)?;
        let goes_on = brief.ranks.iter().all(|rank| goes_on(rank, brief.now_ns));
        if goes_on && !brief.ranks.is_empty() && self.options.timeout_ns > QUIET_NS {
            let status = self.judge(&brief);
            if status.verdicts.is_empty() {
                return Ok(status);
            }
        }
        if brief.is_over() {
            return self.glance();
        }
        // A look at thousands of ranks takes a part of this time.
        thread::sleep(BETWEEN_FIRST_LOOKS.saturating_sub(started.elapsed()));
        self.look()
    }

    /// Looks at the job once. What processes do since an earlier look is known only then.
    pub fn glance(&mut self) -> Result<Status, IngestError> {
        let view = self.view(Reach::Full)?;
        Ok(self.judge(&view))
    }

    /// Looks at the job, twice if a rank waits. A wait that one look shows and the next does not is over.
    pub fn look(&mut self) -> Result<Status, IngestError> {
        let started = Instant::now();
        let first = self.glance()?;
        if first.verdicts.is_empty() {
            return Ok(first);
        }
        thread::sleep(BETWEEN_LOOKS.saturating_sub(started.elapsed()));
        let mut second = self.glance()?;
        let is_same = first.verdicts.iter().any(|one| {
            second.verdicts.first().is_some_and(|other| {
                (one.operation.as_ref(), one.sequence) == (other.operation.as_ref(), other.sequence)
                    && one.for_ns < other.for_ns
            })
        });
        if second.health == Health::Hang && !is_same {
            // Something else is stuck than half a second before: the job goes on.
            second = self.glance()?;
        }
        if self.options.stacks {
            stacks::add(&mut second);
        }
        Ok(second)
    }

    fn judge(&mut self, view: &View) -> Status {
        // Also short waits are of interest: they show which communicators are in use, and that waits end.
        let waits = Waits::of(view, 0);
        self.history.add(view, &waits);
        let limits = Limits {
            timeout_ns: self.options.timeout_ns,
            busy_timeout_ns: self.options.busy_timeout_ns,
        };
        let verdicts = verdicts(view, &waits, &self.history, limits);
        let directories: Vec<String> = self
            .directories
            .iter()
            .map(|directory| directory.display().to_string())
            .collect();
        document(view, &waits, verdicts, &directories, self.options.timeout_ns)
    }

    fn view(&mut self, reach: Reach) -> Result<View, IngestError> {
        let mut view = view(ingest_in_place(&self.directories)?, reach);
        let (at, now_ns) = (Instant::now(), view.now_ns);
        self.running = view.ranks.iter().filter_map(running).collect();
        // A process may have the number of an earlier one.
        let gone = view.ranks.iter().filter(|rank| rank.process.is_gone());
        self.names.extend(gone.map(|rank| (rank.pid, rank.name.clone())));
        let running = self.running.iter();
        self.names
            .extend(running.map(|process| (process.pid, process.rank.clone())));
        // Of other machines, the end is not known.
        let is_unclosed = |rank: &&Rank| rank.log_state == LogState::Broken && rank.process.is_gone();
        self.unclosed = view
            .ranks
            .iter()
            .filter(is_unclosed)
            .map(|rank| UnclosedProcess {
                rank: rank.name.clone(),
                pid: rank.pid,
                ending: rank.ending.clone().unwrap_or_else(Ending::unclosed),
            })
            .collect();
        for rank in &mut view.ranks {
            if rank.process.is_gone() {
                let seen = self.endings.get(&rank.pid);
                if let Some(seen) = seen.filter(|seen| says_more(seen, rank.ending.as_ref(), rank.log_state))
                {
                    rank.ending = Some(seen.clone());
                }
                self.readings.remove(&rank.nonce);
                continue;
            }
            let now = Reading {
                at,
                work: rank.process.work,
                // A brief look may have missed the last record. Later ones were left after it.
                last_record_ns: match reach {
                    Reach::Brief => now_ns,
                    Reach::Full => rank.last_record_ns,
                },
            };
            match self.readings.get(&rank.nonce) {
                Some(before) if at - before.at >= LEAST_BETWEEN => {
                    rank.is_busy = is_busy(before, &now);
                    rank.worked_ns = worked_ns(before, &now, now_ns);
                    self.readings.insert(rank.nonce, now);
                }
                Some(before) => {
                    rank.is_busy = is_busy(before, &now).filter(|&busy| busy);
                    rank.worked_ns = worked_ns(before, &now, now_ns);
                }
                None => {
                    self.readings.insert(rank.nonce, now);
                }
            }
        }
        Ok(view)
    }
}

/// Returns the process of a rank, if it runs on this machine.
fn running(rank: &Rank) -> Option<RunningProcess> {
    let is_here = matches!(
        rank.process.state,
        ProcessState::Running | ProcessState::Stopped | ProcessState::InKernel
    );
    is_here.then(|| {
        Some(RunningProcess {
            rank: rank.name.clone(),
            pid: rank.pid,
            start_time: rank.start_time.clone()?,
            live: rank.live.clone()?,
            launch: rank.launch.clone(),
        })
    })?
}

/// Returns true if an end that was seen says more than the end that the log shows.
fn says_more(seen: &Ending, of_log: Option<&Ending>, log: LogState) -> bool {
    // Without a status, the log knows better whether the process closed it.
    let has_no_status =
        *seen == Ending::normal() || seen.kind == EndingKind::Unclosed && log == LogState::Closed;
    of_log.is_none() || !has_no_status
}

/// Returns true if a process of this machine runs and has completed an operation lately. Then no wait of it is a hang.
fn goes_on(rank: &Rank, now_ns: i64) -> bool {
    rank.process.work.is_some() && now_ns.saturating_sub(rank.progress_ns()) < QUIET_NS
}

/// Returns true if a process has left a record between two readings.
fn has_recorded(before: &Reading, now: &Reading) -> bool {
    now.last_record_ns.saturating_sub(before.last_record_ns) > CLOCK_JITTER_NS
}

/// Returns the time at which a process was last seen to work.
///
/// Processor time before its last record belongs to the record. If that record is old, because this process was not scheduled
/// for long, the processor time may be younger.
fn worked_ns(before: &Reading, now: &Reading, now_ns: i64) -> Option<i64> {
    let is_at_work = uses_the_machine(before, now);
    if has_recorded(before, now) {
        let is_old = now_ns.saturating_sub(now.last_record_ns) > OLD_RECORD_NS;
        let worked_later = is_old && is_at_work == Some(true);
        return Some(if worked_later { now_ns } else { now.last_record_ns });
    }
    is_at_work?.then_some(now_ns)
}

/// Returns true if a process has worked between two readings; `None` if that is not known.
fn is_busy(before: &Reading, now: &Reading) -> Option<bool> {
    if has_recorded(before, now) {
        return Some(true);
    }
    uses_the_machine(before, now)
}

/// Returns true if a process has used or awaited processors, or has read or written files, between two readings; `None` if that
/// is not known.
fn uses_the_machine(before: &Reading, now: &Reading) -> Option<bool> {
    let (one, two) = (before.work?, now.work?);
    let seconds = (now.at - before.at).as_secs_f64();
    if seconds <= 0.0 {
        return None;
    }
    let ticks = two.processor_ticks.saturating_sub(one.processor_ticks) as f64;
    let ready_s = two.ready_ns.saturating_sub(one.ready_ns) as f64 / 1e9;
    let share = (ticks / ticks_per_second() as f64 + ready_s) / seconds;
    let bytes = two.file_bytes.saturating_sub(one.file_bytes) as f64 / seconds;
    Some(share >= BUSY_SHARE || bytes >= BUSY_BYTES_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    /// A reading after some seconds, with the age of the last record then, and all processor time so far.
    fn reading(start: Instant, after_s: f64, record_age_s: f64, processor_s: f64) -> Reading {
        Reading {
            at: start + Duration::from_secs_f64(after_s),
            work: Some(Work {
                processor_ticks: (processor_s * ticks_per_second() as f64) as u64,
                ready_ns: 0,
                file_bytes: 0,
            }),
            last_record_ns: ((after_s - record_age_s) * SECOND_NS as f64) as i64,
        }
    }

    #[test]
    fn an_end_without_a_status_does_not_replace_that_of_the_log() {
        let of = |kind| Ending {
            kind,
            words: "seen".to_owned(),
        };
        let (closed, left) = (Ending::normal(), Ending::unclosed());
        assert!(!says_more(&Ending::normal(), Some(&left), LogState::Broken));
        assert!(!says_more(
            &of(EndingKind::Unclosed),
            Some(&closed),
            LogState::Closed
        ));
        assert!(says_more(
            &of(EndingKind::Unclosed),
            Some(&left),
            LogState::Broken
        ));
        assert!(says_more(
            &of(EndingKind::Failed),
            Some(&closed),
            LogState::Closed
        ));
        assert!(says_more(&Ending::normal(), None, LogState::Open));
    }

    #[test]
    fn a_record_whose_time_moves_with_the_clock_is_no_new_record() {
        let start = Instant::now();
        let (before, mut now) = (reading(start, 1.0, 1.0, 0.0), reading(start, 2.0, 2.0, 0.0));
        now.last_record_ns += 900;
        assert_eq!(is_busy(&before, &now), Some(false));
        assert_eq!(worked_ns(&before, &now, 2 * SECOND_NS), None);
        let works = reading(start, 2.0, 2.0, 0.5);
        assert_eq!(worked_ns(&before, &works, 2 * SECOND_NS), Some(2 * SECOND_NS));
    }

    #[test]
    fn a_new_record_counts_from_its_own_time() {
        let start = Instant::now();
        let (before, now) = (reading(start, 1.0, 1.0, 0.0), reading(start, 2.0, 0.75, 0.9));
        assert_eq!(is_busy(&before, &now), Some(true));
        assert_eq!(worked_ns(&before, &now, 2 * SECOND_NS), Some(5 * SECOND_NS / 4));
    }

    #[test]
    fn after_a_long_time_without_a_look_processor_time_is_younger_than_an_old_record() {
        let start = Instant::now();
        let (before, works) = (reading(start, 1.0, 1.0, 0.0), reading(start, 7.0, 5.5, 6.0));
        assert_eq!(worked_ns(&before, &works, 7 * SECOND_NS), Some(7 * SECOND_NS));
        let sleeps = reading(start, 7.0, 5.5, 0.1);
        assert_eq!(
            worked_ns(&before, &sleeps, 7 * SECOND_NS),
            Some(3 * SECOND_NS / 2)
        );
    }
}
