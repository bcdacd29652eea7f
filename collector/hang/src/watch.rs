//! Watches a job: when to look, and what to report once.
//!
//! Usually it only reads which calls of this machine last ([`LastingCalls`]). It looks at all ranks if a call lasts half the
//! timeout, if processes came or went, and now and then for what shows in no call: NCCL's devices, and other hosts.

use crate::ending::EndingKind;
use crate::endings::{Ended, Endings};
use crate::judge::{Judge, JudgeOptions, RunningProcess, UnclosedProcess};
use crate::lasting_calls::LastingCalls;
use rankscope_analysis::ingest::IngestError;
use rankscope_formats::status::{HangKind, HangVerdict, Health, ProcessState, Status};
use rustc_hash::FxHashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two looks while nothing waits for long.
const CALM: Duration = Duration::from_secs(1);
/// Time between two looks while something waits.
const ALERT: Duration = Duration::from_millis(250);
/// Age of a call from which on the watch looks more often than usual. When a process has stopped working is known only as
/// well as the looks are close.
const FIRST_SIGN: Duration = Duration::from_millis(500);
/// Share of a call's age that two looks are apart then.
const SHARE_OF_AGE: u32 = 8;
/// A pause is at least this many times the processor time of the look before it. A look at thousands of ranks takes a second
/// of it. On a busy machine a look lasts longer than that, which is no reason to look less often.
const TIMES_THE_LOOK: u32 = 8;
/// The same while something waits for long.
const TIMES_THE_LOOK_ON_ALERT: u32 = 2;
/// A look this much later than planned shows that this process did not run.
const LATE: Duration = Duration::from_secs(3);
/// Bounds of the time between two looks at all ranks while nothing waits.
const FULL_LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// What a watch found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nothing new.
    Nothing,
    /// The job hangs. It is found once, until the job goes on.
    Hang(Box<Status>),
    /// A job that hung goes on.
    GoesOn,
    /// The first processes of the job that ended abnormally: each with its rank and how it ended. Those that end later usually
    /// end because of them.
    Ended(Vec<String>),
}

/// How a watch looks at a job. Tests use a double of it.
pub trait Looks {
    /// Looks at all ranks; `None` if there are no logs yet.
    fn look(&mut self) -> Option<Status>;
    /// Returns the time for which the oldest call in progress on this machine was seen.
    fn oldest_call(&mut self, now: Instant) -> Duration;
    /// Returns true if processes began to record or ended since the last look at all ranks.
    fn has_changed(&mut self) -> bool;
    /// Returns the processes that ended abnormally since the last call, in words.
    fn take_abnormal_ends(&mut self) -> Vec<String>;
    /// Takes over the last ends of processes: the job is over.
    fn finish(&mut self);
    /// Notes that this process did not run between two times, in nanoseconds since 1970.
    fn add_gap(&mut self, from_unix_ns: i64, until_unix_ns: i64);
}

/// Looks at the logs of run directories.
#[derive(Debug)]
pub struct LogLooks {
    judge: Judge,
    calls: LastingCalls,
    endings: Endings,
    /// Processes that ran at any look.
    observed: FxHashSet<u32>,
    abnormal_ends: Vec<Ended>,
    /// Processes whose abnormal ends were returned.
    reported: FxHashSet<u32>,
    logs: usize,
}

impl LogLooks {
    /// Creates the looks at these run directories.
    pub fn new(directories: Vec<PathBuf>, options: JudgeOptions) -> Self {
        Self {
            judge: Judge::new(directories, options),
            calls: LastingCalls::default(),
            endings: Endings::default(),
            observed: FxHashSet::default(),
            abnormal_ends: Vec::new(),
            reported: FxHashSet::default(),
            logs: 0,
        }
    }

    /// Returns the processes of this machine that ran at the last look.
    pub fn running(&self) -> &[RunningProcess] {
        self.judge.running()
    }

    fn files(&self) -> usize {
        let of = |directory: &PathBuf| fs::read_dir(directory).map_or(0, |entries| entries.count());
        self.judge.directories().iter().map(of).sum()
    }

    /// Takes over how processes have ended. Returns true if any has.
    fn take_endings(&mut self, is_last: bool) -> bool {
        let ended = self.endings.take_ended(is_last);
        let any = !ended.is_empty();
        let is_abnormal = |process: &&Ended| process.ending.kind != EndingKind::Normal;
        self.abnormal_ends
            .extend(ended.iter().filter(is_abnormal).cloned());
        self.judge
            .set_endings(ended.into_iter().map(|process| (process.pid, process.ending)));
        any
    }
}

impl Looks for LogLooks {
    fn look(&mut self) -> Option<Status> {
        self.logs = self.files();
        self.take_endings(false);
        match self.judge.glance() {
            Ok(status) => {
                for process in self.judge.running() {
                    self.endings.observe(process.pid, &process.start_time);
                    self.observed.insert(process.pid);
                }
                Some(status)
            }
            // The job has not begun to communicate.
            Err(IngestError::Empty(_) | IngestError::Io { .. }) => None,
        }
    }

    fn oldest_call(&mut self, now: Instant) -> Duration {
        let areas: Vec<&PathBuf> = self.judge.running().iter().map(|process| &process.live).collect();
        self.calls.look(areas, now)
    }

    fn has_changed(&mut self) -> bool {
        let has_ended = self.take_endings(false);
        self.files() != self.logs || has_ended
    }

    fn take_abnormal_ends(&mut self) -> Vec<String> {
        if self.abnormal_ends.is_empty() {
            return Vec::new();
        }
        // The ends are newer than the last look.
        self.look();
        let mut seen = std::mem::take(&mut self.abnormal_ends);
        // Whether a process closed its log says more than an end without a status.
        seen.retain(|ended| {
            let is_unclosed = |process: &UnclosedProcess| process.pid == ended.pid;
            ended.ending.kind != EndingKind::Unclosed || self.judge.unclosed().iter().any(is_unclosed)
        });
        let unclosed = self.judge.unclosed().iter();
        let unclosed = unclosed.filter(|process| !self.reported.contains(&process.pid));
        let ends = first_ends(seen, unclosed, &self.observed);
        self.reported.extend(ends.iter().map(|ended| ended.pid));
        ends.into_iter()
            .map(|Ended { pid, ending }| {
                let rank = self.judge.name_of(pid).unwrap_or("a rank");
                format!("{rank} (process {pid}): {ending}")
            })
            .collect()
    }

    fn finish(&mut self) {
        self.take_endings(true);
    }

    fn add_gap(&mut self, from_unix_ns: i64, until_unix_ns: i64) {
        self.judge.add_gap(from_unix_ns, until_unix_ns);
    }
}

/// Returns how processes ended, the likely reason for the others first: peers of a killed rank end with errors of their
/// connections. A process that was not observed, or whose status is not known, left a log that it did not close.
fn first_ends<'a>(
    seen: Vec<Ended>,
    unclosed: impl Iterator<Item = &'a UnclosedProcess>,
    observed: &FxHashSet<u32>,
) -> Vec<Ended> {
    let known: FxHashSet<u32> = seen.iter().map(|ended| ended.pid).collect();
    let of_logs = unclosed
        .filter(|process| process.ending.kind != EndingKind::Normal && !known.contains(&process.pid))
        .map(|process| Ended {
            pid: process.pid,
            ending: process.ending.clone(),
        });
    let mut ends: Vec<Ended> = seen.into_iter().chain(of_logs).collect();
    ends.sort_by_key(|ended| {
        let was_observed = observed.contains(&ended.pid);
        match ended.ending.kind {
            EndingKind::BySignal => 0,
            // It ended before any look saw it, and so before those that were observed.
            EndingKind::Unclosed if !was_observed => 1,
            EndingKind::Failed | EndingKind::Normal => 2,
            // Launchers end the peers of a failed rank, and old kernels do not keep their status.
            EndingKind::Unclosed => 3,
            EndingKind::OnRequest => 4,
        }
    });
    ends
}

/// What two verdicts on one hang have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    kind: HangKind,
    culprits: Vec<String>,
    operation: Option<String>,
    sequence: Option<u64>,
}

impl Identity {
    fn of(verdict: &HangVerdict) -> Self {
        Self {
            kind: verdict.kind,
            culprits: verdict.culprit_names.clone(),
            operation: verdict.operation.clone(),
            sequence: verdict.sequence,
        }
    }
}

/// Watches a job.
pub struct Watch<L> {
    looks: L,
    timeout: Duration,
    last_tick: Option<(Instant, i64, Duration)>,
    last_full: Option<Instant>,
    /// Verdict of the last look, which the next one must confirm.
    suspected: Option<Identity>,
    has_reported: bool,
    /// True once processes ended abnormally, until others have begun to record.
    has_seen_ends: bool,
}

impl<L: Looks> Watch<L> {
    /// Creates a watch.
    pub fn new(looks: L, timeout: Duration) -> Self {
        Self {
            looks,
            timeout,
            last_tick: None,
            last_full: None,
            suspected: None,
            has_reported: false,
            has_seen_ends: false,
        }
    }

    /// Returns how it looks.
    pub fn looks(&self) -> &L {
        &self.looks
    }

    /// Looks once. Returns what it found, and the time until the next look.
    pub fn tick(&mut self, now: Instant) -> (Found, Duration) {
        let (unix_ns, began) = (unix_ns(), processor_time());
        if let Some((last, last_unix_ns, planned)) = self.last_tick
            && now.saturating_duration_since(last) > planned + LATE
        {
            self.looks.add_gap(last_unix_ns, unix_ns);
        }
        let oldest = self.looks.oldest_call(now);
        let is_old = oldest >= self.timeout / 2;
        let interval = if is_old || self.suspected.is_some() {
            ALERT
        } else if oldest >= FIRST_SIGN {
            (oldest / SHARE_OF_AGE).clamp(ALERT, CALM)
        } else {
            (self.timeout / 4).clamp(FULL_LOOK.0, FULL_LOOK.1)
        };
        let since_full = self.last_full.map(|last| now.saturating_duration_since(last));
        let is_due = since_full.is_none_or(|since| since >= interval);
        let mut found = Found::Nothing;
        if is_due || is_old || self.suspected.is_some() || self.has_reported || self.looks.has_changed() {
            self.last_full = Some(now);
            if let Some(status) = self.looks.look() {
                found = self.judge(status);
            }
        }
        if found == Found::Nothing {
            found = self.take_first_ends();
        }
        // The look may have found a first suspicion, or ended one.
        let is_alert = is_old || self.suspected.is_some();
        let (interval, times) = if is_alert {
            (ALERT, TIMES_THE_LOOK_ON_ALERT)
        } else {
            (interval, TIMES_THE_LOOK)
        };
        let cost = processor_time().saturating_sub(began);
        let pause = interval.min(CALM).max(cost * times);
        self.last_tick = Some((now, unix_ns, pause));
        (found, pause)
    }

    /// Looks at a job that is over. Returns its abnormal ends, unless others were found before. If a verdict explains them, it
    /// returns the status, too.
    pub fn finish(&mut self) -> (Found, Option<Box<Status>>) {
        self.looks.finish();
        let ends = self.take_first_ends();
        if !self.has_seen_ends || self.has_reported {
            return (ends, None);
        }
        let last = self.looks.look().filter(|status| status.health == Health::Hang);
        (ends, last.map(Box::new))
    }

    fn take_first_ends(&mut self) -> Found {
        let ends = self.looks.take_abnormal_ends();
        if ends.is_empty() || std::mem::replace(&mut self.has_seen_ends, true) {
            return Found::Nothing;
        }
        Found::Ended(ends)
    }

    fn judge(&mut self, status: Status) -> Found {
        let mut ranks = status.ranks.iter();
        if !status.ranks.is_empty() && ranks.all(|rank| rank.process != ProcessState::Gone) {
            // Another attempt has begun.
            self.has_seen_ends = false;
        }
        if !status.ranks.is_empty() && status.ranks.iter().all(|rank| rank.process == ProcessState::Gone) {
            // What they waited for when they died no longer matters.
            self.suspected = None;
            return Found::Nothing;
        }
        let verdict = status.verdicts.first().filter(|_| status.health == Health::Hang);
        let Some(verdict) = verdict else {
            self.suspected = None;
            return if std::mem::take(&mut self.has_reported) {
                Found::GoesOn
            } else {
                Found::Nothing
            };
        };
        let identity = Identity::of(verdict);
        let is_confirmed = self.suspected.as_ref() == Some(&identity);
        self.suspected = Some(identity);
        if !is_confirmed || self.has_reported {
            return Found::Nothing;
        }
        self.has_reported = true;
        Found::Hang(Box::new(status))
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The kernel writes one `timespec`, which lives until the call returns.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanoseconds)
}

fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;
    use rankscope_formats::status::{Confidence, STATUS_FORMAT};
    use std::collections::VecDeque;

    /// Looks that a test prescribes: health, culprit, and age of the oldest call in seconds.
    #[derive(Default)]
    struct Prescribed {
        next: VecDeque<(Health, u32, u64)>,
        last: (Option<Health>, u32, u64),
        full: u32,
        gaps: Vec<(i64, i64)>,
        ends: Vec<String>,
    }

    impl Looks for Prescribed {
        fn look(&mut self) -> Option<Status> {
            self.full += 1;
            let (health, culprit, _) = self.last;
            let health = health?;
            let verdict = HangVerdict {
                kind: HangKind::UserCode,
                confidence: Confidence::High,
                sentence: "Rank 1 sleeps.".to_owned(),
                culprits: vec![culprit],
                culprit_names: vec![format!("rank {culprit}")],
                waiting: vec![0],
                communicator: None,
                operation: Some("all-reduce".to_owned()),
                sequence: Some(7),
                for_ns: 20_000_000_000,
                evidence: Vec::new(),
            };
            Some(Status {
                format: STATUS_FORMAT.to_owned(),
                taken_unix_ns: 0,
                directories: Vec::new(),
                health,
                sentence: String::new(),
                verdicts: if health == Health::Hang {
                    vec![verdict]
                } else {
                    Vec::new()
                },
                groups: Vec::new(),
                communicators: Vec::new(),
                ranks: Vec::new(),
                notes: Vec::new(),
            })
        }

        fn oldest_call(&mut self, _now: Instant) -> Duration {
            if let Some((health, culprit, seconds)) = self.next.pop_front() {
                self.last = (Some(health), culprit, seconds);
            }
            Duration::from_secs(self.last.2)
        }

        fn has_changed(&mut self) -> bool {
            false
        }

        fn take_abnormal_ends(&mut self) -> Vec<String> {
            std::mem::take(&mut self.ends)
        }

        fn finish(&mut self) {}

        fn add_gap(&mut self, from_unix_ns: i64, until_unix_ns: i64) {
            self.gaps.push((from_unix_ns, until_unix_ns));
        }
    }

    const HANG: (Health, u32, u64) = (Health::Hang, 1, 20);
    const WELL: (Health, u32, u64) = (Health::Healthy, 0, 0);

    /// Ticks as often as the watch asks for, and returns what it found each time.
    fn run(watch: &mut Watch<Prescribed>, ticks: usize) -> Vec<&'static str> {
        let mut now = watch
            .last_tick
            .map_or_else(Instant::now, |(last, _, pause)| last + pause);
        (0..ticks)
            .map(|_| {
                let (found, pause) = watch.tick(now);
                now += pause;
                match found {
                    Found::Nothing => "",
                    Found::Hang(_) => "hang",
                    Found::GoesOn => "goes on",
                    Found::Ended(_) => "ended",
                }
            })
            .collect()
    }

    fn watch(next: &[(Health, u32, u64)]) -> Watch<Prescribed> {
        let looks = Prescribed {
            next: next.iter().copied().collect(),
            ..Prescribed::default()
        };
        Watch::new(looks, Duration::from_secs(20))
    }

    #[test]
    fn a_hang_is_reported_once_when_two_looks_agree_and_again_after_the_job_went_on() {
        let mut watch = watch(&[HANG, HANG, HANG, HANG, WELL, WELL, HANG, HANG, HANG]);
        let found = run(&mut watch, 9);
        assert_eq!(found, ["", "hang", "", "", "goes on", "", "", "hang", ""]);
    }

    #[test]
    fn two_looks_that_differ_are_no_hang() {
        let other = (Health::Hang, 2, 20);
        let mut watch = watch(&[HANG, other, HANG, other, other]);
        assert_eq!(run(&mut watch, 5), ["", "", "", "", "hang"]);
    }

    #[test]
    fn the_verdict_of_a_reported_hang_may_change_without_a_second_report() {
        let other = (Health::Hang, 2, 20);
        let mut watch = watch(&[HANG, HANG, other, other, other]);
        assert_eq!(run(&mut watch, 5), ["", "hang", "", "", ""]);
    }

    #[test]
    fn calm_jobs_are_looked_at_rarely_and_suspicious_ones_often() {
        let mut watch = watch(&[WELL]);
        run(&mut watch, 20);
        assert_eq!(
            watch.looks.full, 4,
            "every five seconds, a quarter of the timeout"
        );
        let mut watch = self::watch(&[(Health::Hang, 1, 0)]);
        let (_, pause) = watch.tick(Instant::now());
        assert_eq!(
            pause, ALERT,
            "no call of this machine lasts, but a hang is suspected"
        );
        let mut watch = self::watch(&[(Health::Healthy, 0, 4)]);
        run(&mut watch, 20);
        assert_eq!(watch.looks.full, 20, "a call lasts");
        let (_, _, pause) = watch.last_tick.expect("it has looked");
        assert_eq!(pause, Duration::from_millis(500), "an eighth of the call's age");
        let mut watch = self::watch(&[(Health::Healthy, 0, 12)]);
        run(&mut watch, 20);
        assert_eq!(watch.looks.full, 20, "a call lasts more than half the timeout");
    }

    #[test]
    fn a_look_that_only_waits_for_a_processor_does_not_delay_the_next() {
        struct Slow(u32);
        impl Looks for Slow {
            fn look(&mut self) -> Option<Status> {
                std::thread::sleep(Duration::from_millis(400));
                let until = processor_time() + Duration::from_millis(u64::from(self.0));
                while processor_time() < until {}
                None
            }
            fn oldest_call(&mut self, _: Instant) -> Duration {
                Duration::ZERO
            }
            fn has_changed(&mut self) -> bool {
                true
            }
            fn take_abnormal_ends(&mut self) -> Vec<String> {
                Vec::new()
            }
            fn finish(&mut self) {}
            fn add_gap(&mut self, _: i64, _: i64) {}
        }
        let (_, pause) = Watch::new(Slow(0), Duration::from_secs(3)).tick(Instant::now());
        assert!(pause <= CALM, "{pause:?}");
        let (_, pause) = Watch::new(Slow(400), Duration::from_secs(3)).tick(Instant::now());
        assert!(pause > CALM, "{pause:?}");
    }

    #[test]
    fn the_likely_reason_for_the_other_ends_comes_first() {
        let ended = |pid, kind| Ended {
            pid,
            ending: Ending {
                kind,
                words: String::new(),
            },
        };
        let left = |pid| UnclosedProcess {
            rank: String::new(),
            pid,
            ending: Ending::unclosed(),
        };
        let of = |seen: Vec<Ended>, unclosed: &[UnclosedProcess]| -> Vec<u32> {
            let observed = [1, 2, 3, 4].into_iter().collect();
            let ends = first_ends(seen, unclosed.iter(), &observed);
            ends.into_iter().map(|ended| ended.pid).collect()
        };
        let failed = || ended(1, EndingKind::Failed);
        // Rank 5 was killed before any look. Of rank 2, only the log shows the end.
        assert_eq!(of(vec![failed()], &[left(2), left(5)]), [5, 1, 2]);
        let ends = vec![
            ended(3, EndingKind::OnRequest),
            failed(),
            ended(4, EndingKind::BySignal),
        ];
        assert_eq!(of(ends, &[left(5)]), [4, 5, 1, 3]);
        // A process whose end was seen is listed once.
        assert_eq!(of(vec![failed()], &[left(1)]), [1]);
    }

    #[test]
    fn only_the_first_abnormal_ends_are_found() {
        let mut watch = watch(&[WELL]);
        watch.looks.ends = vec!["rank 3 (process 7): killed by SIGKILL".to_owned()];
        assert_eq!(run(&mut watch, 2), ["ended", ""]);
        watch.looks.ends = vec!["rank 0 (process 5): killed by SIGTERM".to_owned()];
        assert_eq!(run(&mut watch, 2), ["", ""], "its launcher ended it");
    }

    #[test]
    fn before_the_first_log_there_is_nothing_and_a_stopped_machine_is_a_gap() {
        let mut watch = watch(&[]);
        assert_eq!(run(&mut watch, 3), ["", "", ""]);
        assert!(watch.looks.gaps.is_empty());
        let (last, _, pause) = watch.last_tick.expect("it has looked");
        watch.tick(last + pause + Duration::from_secs(60));
        assert_eq!(watch.looks.gaps.len(), 1);
    }
}
