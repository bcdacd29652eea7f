//! Our own thread for CUPTI: looks for a driver, begins, takes buffers out once in a while and turns them into records,
//! and comes back after another profiler.
//!
//! A thread of its own, at the program's own priority: CUPTI's locks are held while it flushes, and the recorder's
//! thread, which is idle by intention, would keep them from the program for as long as it is not let run. It has the
//! program's descriptors, which the driver needs, and opens none itself.

use super::dump::Dump;
use super::mode::{self, Mode, Wanted};
use super::records::{self, Records};
use super::session::{self, COMPLETE};
use super::state::{self, State};
use super::wake::{WAKE, futex, wake};
use super::{buffers, calls, others};
use crate::core::adapters;
use crate::core::configuration;
use crate::core::life;
use crate::core::own_thread;
use crate::core::thread;
use crate::cuda::driver;
use rankscope_ranklog::activity::Coverage;
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two flushes.
const PERIOD: Duration = Duration::from_millis(500);
/// Between two looks for a driver, at first and later.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_LATER: Duration = Duration::from_secs(1);
const LOOKS: u32 = 200;
/// CUPTI and the driver run on it.
const STACK_BYTES: usize = 2 << 20;

/// 0: the thread is not there, 1: it runs, 2: it is to end, 3: it has ended. A futex.
static PHASE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const RUNNING: u32 = 1;
const ENDING: u32 = 2;
const ENDED: u32 = 3;

/// What was asked for last, in the environment or in the run directory, and when.
static ASKED: Mutex<Option<(Wanted, Instant)>> = Mutex::new(None);

/// True while there is such a thread in this process.
pub fn is_running() -> bool {
    matches!(PHASE.load(Ordering::Acquire), RUNNING | ENDING) && state::is_ours()
}

/// Takes over what the user asks for while the job runs.
pub fn ask(wanted: Wanted) {
    mode::announce(&wanted);
    // Not waited for: in a forked child it may be held for ever.
    if let Ok(mut asked) = ASKED.try_lock() {
        *asked = Some((wanted, Instant::now()));
    }
    calls::wants_thread(PHASE.load(Ordering::Acquire) == ABSENT || is_untouched_child());
    wake();
}

/// True in a forked child of a process whose thread had found nothing, nor held anything just then.
fn is_untouched_child() -> bool {
    ASKED.try_lock().is_ok() && session::is_untouched_child()
}

/// Starts the thread, on a thread of the program: with the recorder, if devices' work may ever be asked for, or later,
/// with what was asked for meanwhile.
pub fn start(wanted: Option<Wanted>) {
    if PHASE.load(Ordering::Acquire) != ABSENT && is_untouched_child() {
        // The thread was the parent's, and never found anything.
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
    // SAFETY: a plain call; failure leaves the thread its old name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"rankscope-cupti".as_ptr()) };
    // A panic of ours ends this source, not the job.
    let outcome = std::panic::catch_unwind(|| Watch::new().run());
    if outcome.is_err() {
        session::changing().end("a fault of rankscope's own");
    }
    PHASE.store(ENDED, Ordering::Release);
    futex(&PHASE, libc::FUTEX_WAKE, i32::MAX as u32, None);
    std::ptr::null_mut()
}

/// At a regular exit, while the driver is still there: takes out everything, and lets CUPTI alone from then on.
extern "C" fn at_exit() {
    finish(configuration::exit_wait() * 4);
}

/// Ends the thread; waits for it at most so long.
pub fn finish(limit: Duration) {
    if !is_running() {
        return;
    }
    let until = ticks().saturating_add((limit.as_secs_f64() * ticks_per_second() as f64) as u64);
    // Who comes later gives no more time: by then the driver may be gone.
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

/// Until when the end may take, in ticks.
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// True while CUPTI may be called: behind the deadline the program goes on to end, and what CUPTI needs with it.
fn is_in_time() -> bool {
    ticks() < DEADLINE.load(Ordering::Acquire)
}

fn is_ending() -> bool {
    PHASE.load(Ordering::Acquire) == ENDING
}

struct Watch {
    records: Records,
    dump: Option<Dump>,
    looks: u32,
    /// Until when the log says whether there was activity.
    covered_until: u64,
    last_coverage: Option<Coverage>,
    /// What was recorded last.
    last_mode: Mode,
    /// It was recorded when this was last looked at.
    was_recording: bool,
    /// CUPTI tells its time by our clock, as far as it was asked.
    tells_time: Option<bool>,
    is_registered_for_exit: bool,
}

impl Watch {
    fn new() -> Self {
        Self {
            records: Records::from_now(),
            dump: Dump::wanted(),
            looks: 0,
            covered_until: ticks(),
            last_coverage: None,
            last_mode: Mode::Off,
            was_recording: false,
            tells_time: None,
            is_registered_for_exit: false,
        }
    }

    fn run(&mut self) {
        // What this thread asks the driver has nothing to do with anybody's capture.
        let mut is_relaxed = false;
        loop {
            let seen = WAKE.load(Ordering::Acquire);
            let wanted = ASKED.lock().ok().and_then(|asked| *asked);
            let (wanted, since) = wanted.map_or((Wanted::NONE, Duration::ZERO), |(wanted, asked)| {
                (wanted, asked.elapsed())
            });
            // Without a log, or where it takes no more, there is nothing to record into.
            let mode = match life::definitions() {
                None => None,
                Some(set) if set.is_stopped() => Some(Mode::Off),
                Some(_) => Some(wanted.now(since, mode::last_step())),
            };
            let before = session::changing().state();
            if before == State::Waiting
                && matches!(mode, Some(Mode::All | Mode::Communication))
                && let Some(found) = session::find()
            {
                session::changing().found(found);
            }
            // Asked once in a round: an end that comes later is heard in the next.
            let is_last = is_ending();
            let state = {
                let mut changing = session::changing();
                if is_last {
                    // What comes from now on cannot be handed out any more.
                    changing.finish(is_in_time);
                } else if let Some(mode) = mode {
                    changing.bring_about(mode);
                }
                changing.state()
            };
            let mode = mode.unwrap_or(Mode::Off);
            let is_missing =
                mode != Mode::Off && matches!(state, State::Aside | State::Ended) && !is_ending();
            for adapter in adapters::registered() {
                (adapter.kernels_missing)(is_missing);
            }
            if !is_relaxed && state == State::Recording {
                let mut relaxed = driver::RELAXED;
                // SAFETY: a place of ours.
                is_relaxed = unsafe { driver::exchange_capture_mode(&raw mut relaxed) } == driver::SUCCESS;
            }
            if state == State::Recording && !self.is_registered_for_exit {
                // Behind the driver's own, which was registered when it was initialised: so it runs before.
                // SAFETY: a function of the library, which is never unloaded.
                self.is_registered_for_exit = unsafe { libc::atexit(at_exit) } == 0;
            }
            let until = ticks();
            // Of the time until now, in which the state was what it was.
            let coverage = session::coverage(before, self.last_mode);
            if let Some(_using) = session::using().filter(|_| is_in_time()) {
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
            let mut coverage = coverage;
            if self.was_recording && state != State::Recording {
                // Until it was stopped, by us or by somebody else meanwhile; what follows is what it is now.
                coverage = session::coverage(state, mode);
                let stopped = state::stopped_ticks().clamp(self.covered_until, until);
                self.account(session::coverage(State::Recording, self.last_mode), stopped);
            }
            self.was_recording = state == State::Recording;
            if state == State::Recording {
                self.last_mode = mode;
            }
            self.account(coverage, until);
            let coverage_now = session::coverage(state, mode);
            if coverage_now != coverage
                && let Some(coverage) = coverage_now
            {
                // From here on: a reader is not to take what comes for what is not recorded.
                records::cover(thread::state(), until, until, coverage, 0);
            }
            if is_last {
                if let Some(dump) = &mut self.dump {
                    dump.write();
                }
                return;
            }
            let pause = match state {
                State::Waiting => {
                    self.looks = self.looks.saturating_add(1);
                    if self.looks < LOOKS { LOOK } else { LOOK_LATER }
                }
                _ => PERIOD,
            };
            let pause = wanted.changes_in(since).map_or(pause, |change| pause.min(change));
            futex(&WAKE, libc::FUTEX_WAIT, seen, Some(pause));
        }
    }

    /// Empties the buffers that came back so far.
    fn take_out(&mut self, mode: Mode) {
        let thread = thread::state();
        let only_communication = mode == Mode::Communication;
        let may_wait = || state::is_there() && (!is_ending() || is_in_time());
        // What comes meanwhile is the next round's, if there is one: windows end, and buffers are asked for.
        let end = if is_ending() { u64::MAX } else { buffers::tickets() };
        while is_in_time()
            && let Some(filled) = buffers::next_filled(end)
        {
            // SAFETY: CUPTI gave this buffer back with so many bytes of records in it, and nobody else has it now.
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

    /// Says in the log what was recorded.
    fn account(&mut self, coverage: Option<Coverage>, until: u64) {
        let from = std::mem::replace(&mut self.covered_until, until);
        if let Some(coverage) = coverage {
            let works = self.records.take_works();
            let is_news = self.last_coverage.replace(coverage) != Some(coverage);
            // Where nothing is recorded, once is enough until that changes.
            if coverage != Coverage::Off || is_news || works > 0 {
                records::cover(thread::state(), from, until, coverage, works);
            }
        }
    }

    /// What CUPTI says that it dropped.
    fn count_dropped(&self, until: u64) {
        // The account of who records now is not ours to clear.
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

    /// Another profiler whose calls do not come by us may have put its clock in the place of ours: then it has CUPTI, and
    /// whatever we did to get it back would be its loss.
    fn check_clock(&mut self) {
        let is_ours = session::has_our_clock();
        // A version whose answer never is that of the clock it was given proves nothing.
        if *self.tells_time.get_or_insert(is_ours) && !is_ours {
            let mut changing = session::changing();
            if changing.state() == State::Recording && !session::has_our_clock() {
                changing.leave("another profiler took CUPTI past us");
            }
        }
    }
}
