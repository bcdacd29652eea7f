//! The CUPTI thread. It searches for a driver, starts the recording, regularly converts buffers to records, and resumes
//! after another profiler.
//!
//! It is a separate thread with the program's own scheduling. CUPTI holds its locks while it flushes, and the program may
//! wait for them. The recorder's thread shares no descriptors with the program. The CUPTI thread shares the program's
//! descriptors, which the driver needs, and opens none itself.

use super::dump::Dump;
use super::mode::{self, ActivityRequest, Mode};
use super::records::{self, Records};
use super::session::{self, COMPLETE};
use super::state::{self, State};
use super::wake::{WAKE, futex, wake};
use super::{buffers, calls, others};
use crate::core::adapters;
use crate::core::configuration;
use crate::core::life;
use crate::core::own_thread;
use crate::cuda::driver;
use crate::thread;
use rankscope_ranklog::activity::Coverage;
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two flushes.
const PERIOD: Duration = Duration::from_millis(500);
/// Time between two polls for a driver, at first and later.
const POLL_PERIOD: Duration = Duration::from_millis(50);
const LATER_POLL_PERIOD: Duration = Duration::from_secs(1);
const FAST_POLLS: u32 = 200;
/// Size of the thread's stack, in bytes. CUPTI and the driver run on it.
const STACK_BYTES: usize = 2 << 20;

/// State of the thread; a futex word.
static PHASE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const RUNNING: u32 = 1;
const ENDING: u32 = 2;
const ENDED: u32 = 3;

/// Last request, from the environment or the run directory, and the time at which it came.
static ASKED: Mutex<Option<(ActivityRequest, Instant)>> = Mutex::new(None);

/// True between a pause of the program and its end.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);

/// Stops the recording of device work for a pause, or starts it again.
pub fn pause(is_paused: bool) {
    IS_PAUSED.store(is_paused, Ordering::Release);
    if is_running() {
        wake();
    }
}

/// Returns true while this process has a CUPTI thread.
pub fn is_running() -> bool {
    matches!(PHASE.load(Ordering::Acquire), RUNNING | ENDING) && state::is_ours()
}

/// Stores a request that the user makes while the job runs.
pub fn ask(wanted: ActivityRequest) {
    mode::announce(&wanted);
    // The lock is only tried: in a forked child it may be held forever.
    if let Ok(mut asked) = ASKED.try_lock() {
        *asked = Some((wanted, Instant::now()));
    }
    calls::wants_thread(PHASE.load(Ordering::Acquire) == ABSENT || is_untouched_child());
    wake();
}

/// Returns true in a forked child of a process whose CUPTI thread had found nothing, and held no lock at the fork.
fn is_untouched_child() -> bool {
    ASKED.try_lock().is_ok() && session::is_untouched_child()
}

/// Starts the CUPTI thread, from a thread of the program. This happens with the recorder if device activity may be
/// requested, or later with a request made meanwhile.
pub fn start(wanted: Option<ActivityRequest>) {
    if PHASE.load(Ordering::Acquire) != ABSENT && is_untouched_child() {
        // The thread belonged to the parent, and never found anything.
        PHASE.store(ABSENT, Ordering::Release);
    }
    if PHASE
        .compare_exchange(ABSENT, RUNNING, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    calls::wants_thread(false);
    if let Some(wanted) = wanted {
        mode::announce(&wanted);
        if let Ok(mut asked) = ASKED.try_lock() {
            *asked = Some((wanted, Instant::now()));
        }
    }
    state::begin_life();
    if !own_thread::spawn(run, STACK_BYTES) {
        PHASE.store(ABSENT, Ordering::Release);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: PR_SET_NAME reads a NUL-terminated static string. On failure the thread keeps its old name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"rankscope-cupti".as_ptr()) };
    // A panic of this library ends this source, not the job.
    let outcome = std::panic::catch_unwind(|| Worker::new().run());
    if outcome.is_err() {
        session::changing().end("a fault of rankscope's own");
    }
    PHASE.store(ENDED, Ordering::Release);
    futex(&PHASE, libc::FUTEX_WAKE, i32::MAX as u32, None);
    std::ptr::null_mut()
}

/// Runs at a regular exit, while the driver still exists. Delivers everything, and then leaves CUPTI alone.
extern "C" fn at_exit() {
    finish(configuration::exit_wait() * 4);
}

/// Ends the CUPTI thread, and waits for it at most this long.
pub fn finish(limit: Duration) {
    if !is_running() {
        return;
    }
    let until = ticks().saturating_add((limit.as_secs_f64() * ticks_per_second() as f64) as u64);
    // A later call does not extend the deadline, because the driver may be gone by then.
    DEADLINE.fetch_min(until, Ordering::AcqRel);
    let _ = PHASE.compare_exchange(RUNNING, ENDING, Ordering::AcqRel, Ordering::Relaxed);
    wake();
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if PHASE.load(Ordering::Acquire) != ENDING || left.is_zero() {
            return;
        }
        futex(&PHASE, libc::FUTEX_WAIT, ENDING, Some(left));
    }
}

/// Deadline for the end, in ticks.
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns true while CUPTI may be called. After the deadline the program continues to exit, and CUPTI's dependencies
/// disappear with it.
fn is_in_time() -> bool {
    ticks() < DEADLINE.load(Ordering::Acquire)
}

fn is_ending() -> bool {
    PHASE.load(Ordering::Acquire) == ENDING
}

/// Returns the last request, and for how long it has been known.
fn last_request() -> (ActivityRequest, Duration) {
    let asked = ASKED.lock().ok().and_then(|asked| *asked);
    asked.map_or((ActivityRequest::NONE, Duration::ZERO), |(wanted, asked)| {
        (wanted, asked.elapsed())
    })
}

/// Returns the mode that a request asks for now. Without a log, or if the log accepts no more records, nothing can be
/// recorded.
fn mode_of(wanted: &ActivityRequest, since: Duration) -> Option<Mode> {
    let set = life::definitions()?;
    Some(if set.is_stopped() || IS_PAUSED.load(Ordering::Acquire) {
        Mode::Off
    } else {
        wanted.now(since, mode::last_step())
    })
}

/// Changes the recording as the request requires, and returns its new state.
fn change_state(mode: Option<Mode>, is_last: bool) -> State {
    let mut changing = session::changing();
    if is_last {
        // Records that come from now on cannot be delivered any more.
        changing.finish(is_in_time);
    } else if let Some(mode) = mode {
        changing.bring_about(mode);
    }
    changing.state()
}

struct Worker {
    records: Records,
    dump: Option<Dump>,
    polls: u32,
    /// End of the time for which the log contains coverage.
    covered_until: u64,
    last_coverage: Option<Coverage>,
    /// Mode that was recorded last.
    last_mode: Mode,
    /// True if the previous round was recording.
    was_recording: bool,
    /// True if CUPTI reports times of the clock that it was given; `None` before the first check.
    reports_our_clock: Option<bool>,
    is_registered_for_exit: bool,
    /// True once driver calls of this thread do not affect any thread's capture.
    is_relaxed: bool,
}

impl Worker {
    fn new() -> Self {
        Self {
            records: Records::from_now(),
            dump: Dump::wanted(),
            polls: 0,
            covered_until: ticks(),
            last_coverage: None,
            last_mode: Mode::Off,
            was_recording: false,
            reports_our_clock: None,
            is_registered_for_exit: false,
            is_relaxed: false,
        }
    }

    fn run(&mut self) {
        loop {
            let seen = WAKE.load(Ordering::Acquire);
            let (wanted, since) = last_request();
            let mode = mode_of(&wanted, since);
            let before = session::changing().state();
            if before == State::Waiting
                && matches!(mode, Some(Mode::All | Mode::Communication))
                && let Some(found) = session::find()
            {
                session::changing().found(found);
            }
            // Read once per round. An end that is requested later takes effect in the next round.
            let is_last = is_ending();
            let state = change_state(mode, is_last);
            let mode = mode.unwrap_or(Mode::Off);
            let is_missing =
                mode != Mode::Off && matches!(state, State::Yielded | State::Ended) && !is_ending();
            for adapter in adapters::registered() {
                (adapter.kernels_missing)(is_missing);
            }
            if state == State::Recording {
                self.prepare_to_record();
            }
            let until = ticks();
            // Coverage of the time until now, during which the previous state was in effect.
            let coverage = session::coverage(before, self.last_mode);
            self.deliver(before, state, until);
            self.cover_round(coverage, state, mode, until);
            if is_last {
                if let Some(dump) = &mut self.dump {
                    dump.write();
                }
                return;
            }
            let pause = match state {
                State::Waiting => {
                    self.polls = self.polls.saturating_add(1);
                    if self.polls < FAST_POLLS {
                        POLL_PERIOD
                    } else {
                        LATER_POLL_PERIOD
                    }
                }
                _ => PERIOD,
            };
            let pause = wanted.changes_in(since).map_or(pause, |change| pause.min(change));
            futex(&WAKE, libc::FUTEX_WAIT, seen, Some(pause));
        }
    }

    /// Does once per thread and per process what recording needs.
    fn prepare_to_record(&mut self) {
        if !self.is_relaxed {
            let mut relaxed = driver::RELAXED;
            // SAFETY: `relaxed` is a local.
            self.is_relaxed = unsafe { driver::exchange_capture_mode(&raw mut relaxed) } == driver::SUCCESS;
        }
        if !self.is_registered_for_exit {
            // Exit functions run in reverse order. The driver registered its own when it was initialised, so this one
            // runs earlier.
            // SAFETY: `at_exit` is a function of this library, which is never unloaded.
            self.is_registered_for_exit = unsafe { libc::atexit(at_exit) } == 0;
        }
    }

    /// Converts the records that CUPTI has for rankscope. The state was `before` until this round changed it.
    fn deliver(&mut self, before: State, state: State, until: u64) {
        let Some(_using) = session::using().filter(|_| is_in_time()) else {
            return;
        };
        if state == State::Recording {
            session::flush(COMPLETE);
        }
        self.take_out(self.last_mode);
        if before == State::Recording && is_in_time() {
            self.count_dropped(until);
        }
        if state == State::Recording {
            self.check_clock();
        }
    }

    /// Writes the coverage of this round, and marks a change of it.
    fn cover_round(&mut self, before: Option<Coverage>, state: State, mode: Mode, until: u64) {
        let coverage_now = session::coverage(state, mode);
        let mut coverage = before;
        if self.was_recording && state != State::Recording {
            // The recording lasted until it was stopped, by this thread or by another profiler meanwhile. After that,
            // the current state is in effect.
            coverage = coverage_now;
            let stopped = state::stopped_ticks().clamp(self.covered_until, until);
            self.account(session::coverage(State::Recording, self.last_mode), stopped);
        }
        self.was_recording = state == State::Recording;
        if state == State::Recording {
            self.last_mode = mode;
        }
        self.account(coverage, until);
        if coverage_now != coverage
            && let Some(coverage) = coverage_now
        {
            // Marks the change from here on. A reader must not take the following records for a time that was not
            // recorded.
            records::cover(thread::state(), until, until, coverage, 0);
        }
    }

    /// Empties the buffers that came back so far.
    fn take_out(&mut self, mode: Mode) {
        let thread = thread::state();
        let only_communication = mode == Mode::Communication;
        let may_wait = || state::is_there() && (!is_ending() || is_in_time());
        // Buffers that come back meanwhile belong to the next round, if there is one: windows end, and CUPTI needs
        // buffers.
        let end = if is_ending() { u64::MAX } else { buffers::tickets() };
        while is_in_time()
            && let Some(filled) = buffers::next_filled(end)
        {
            // SAFETY: CUPTI returned this buffer with `valid_bytes` bytes of records. Only this thread has it now.
            unsafe {
                session::each_record(filled.address, filled.valid_bytes, |record| {
                    if let Some(dump) = &mut self.dump {
                        dump.next(record.cast());
                    }
                    self.records.take(thread, record, only_communication, &may_wait);
                    is_in_time()
                });
            }
            if let Some(dump) = &mut self.dump {
                dump.end(filled.address, filled.valid_bytes);
            }
        }
    }

    /// Writes the coverage of the time since the last call.
    fn account(&mut self, coverage: Option<Coverage>, until: u64) {
        let from = std::mem::replace(&mut self.covered_until, until);
        if let Some(coverage) = coverage {
            let works = self.records.take_works();
            let is_news = self.last_coverage.replace(coverage) != Some(coverage);
            // If nothing is recorded, one record is enough until that changes.
            if coverage != Coverage::Off || is_news || works > 0 {
                records::cover(thread::state(), from, until, coverage, works);
            }
        }
    }

    /// Counts the records that CUPTI dropped.
    fn count_dropped(&self, until: u64) {
        // Reading the number resets it, and the number now belongs to the profiler that records.
        if others::are_at_it() {
            return;
        }
        let dropped = session::dropped();
        if dropped > 0
            && let Some(set) = life::definitions()
        {
            set.area.count_loss(
                LossCause::Profiler,
                RecordKind::Activity,
                dropped,
                self.covered_until,
                until,
            );
        }
    }

    /// Ends the recording if another profiler, whose calls bypass the hooks, has replaced the clock. That profiler then
    /// uses CUPTI, and taking it back would harm that profiler.
    fn check_clock(&mut self) {
        let is_ours = session::has_our_clock();
        // A version that never answers with the clock it was given proves nothing.
        if *self.reports_our_clock.get_or_insert(is_ours) && !is_ours {
            let mut changing = session::changing();
            if changing.state() == State::Recording && !session::has_our_clock() {
                changing.leave("another profiler took CUPTI past us");
            }
        }
    }
}
