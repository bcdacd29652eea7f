//! Whether CUPTI records for us now: found, begun, put aside for another profiler, taken up again, ended.
//!
//! Everything that changes this does so under one lock, which only our own thread and other profilers' calls take; no
//! hook of a communication library does, and no callback of CUPTI's. CUPTI is called by addresses that were looked up,
//! never by the names that we intercept.

use super::buffers::{self, Owner};
use super::mode::Mode;
use super::state::{
    ASKS, HAS_OUR_CLOCK, INNER, IS_GONE, Inner, LIFE, LINKS, NOTHING, Overheads, STOPPED, STREAMS, SUCCESS,
    State, TABLE, VERSION, define, is_ours, own, tell_overheads,
};
use super::{others, records, streams, wake};
use crate::core::configuration;
use crate::core::life;
use crate::core::thread;
use crate::cuda::driver;
use rankscope_cupti_sys::bindings::{self as cupti, CUpti_ActivityKind as Kind, CUptiResult};
use rankscope_cupti_sys::record::OLDEST;
use rankscope_cupti_sys::table::Table;
use rankscope_ranklog::activity::Coverage;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::cuda_calls::CUDA_FUNCTIONS;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Kinds of activity that we record. Without what calls asked for them works stand alone, so those come first.
const KINDS: [Kind; 4] = [
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY,
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY2,
    Kind::CUPTI_ACTIVITY_KIND_MEMSET,
    Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
];
/// What CUPTI and the driver take for themselves: told beside all of the rest, and the rest does not depend on it.
const OVERHEAD: Kind = Kind::CUPTI_ACTIVITY_KIND_OVERHEAD;

/// `flag` of `cuptiActivityFlushAll`: hand out what is complete.
pub const COMPLETE: u32 = 0;
/// Hand out everything, also what still runs.
pub const FORCED: u32 = 1;

/// A library of another version of the interface than the one that was asked for.
const OLDER: CUptiResult = CUptiResult(7);

/// What CUPTI's clock would show without us, while it is ours, to somebody else who asks.
pub fn time_of_others() -> Option<u64> {
    if thread::state().cupti_depth.get() > 0 || !HAS_OUR_CLOCK.load(Ordering::Acquire) || !is_ours() {
        return None;
    }
    let theirs = others::clock();
    // SAFETY: 0 is no function; another number is one that another profiler handed to CUPTI as such.
    let theirs = unsafe { std::mem::transmute::<usize, cupti::CUpti_TimestampCallbackFunc>(theirs) };
    // SAFETY: a function that CUPTI would call just so.
    Some(unsafe { theirs.map_or_else(|| wall_clock(), |clock| clock()) })
}

/// True in a forked child of a process whose thread of ours had not begun to use CUPTI, nor held anything just then.
pub fn is_untouched_child() -> bool {
    let life = LIFE.load(Ordering::Relaxed);
    let is_child = life != 0 && life != life::number();
    is_child
        && USING.try_lock().is_ok()
        && DEFERRED.try_lock().is_ok()
        && INNER.try_lock().is_ok_and(|inner| inner.state == State::Waiting)
}

/// The right to change what CUPTI does.
pub struct Changing(Option<MutexGuard<'static, Inner>>);

/// Waits for whoever changes it now.
pub fn changing() -> Changing {
    let inner = INNER.lock().unwrap_or_else(PoisonError::into_inner);
    thread::state().cupti_changes.set(true);
    Changing(Some(inner))
}

impl Drop for Changing {
    fn drop(&mut self) {
        thread::state().cupti_changes.set(false);
        self.0 = None;
        // Buffers of another profiler's that came back meanwhile: its function may take locks of its own.
        let waiting = std::mem::take(&mut *DEFERRED.lock().unwrap_or_else(PoisonError::into_inner));
        for given in waiting {
            given.hand_over();
        }
    }
}

/// A buffer of another profiler's on its way to it.
struct Given {
    context: usize,
    stream: u32,
    buffer: usize,
    size: usize,
    valid: usize,
}

static DEFERRED: Mutex<Vec<Given>> = Mutex::new(Vec::new());

impl Given {
    fn hand_over(&self) {
        let Some((_, theirs)) = others::callbacks() else {
            return;
        };
        let depth = &thread::state().cupti_depth;
        // What it calls is its own.
        let before = depth.replace(0);
        // SAFETY: the function that another profiler registered, for a buffer that it handed out.
        unsafe {
            if let Some(theirs) =
                std::mem::transmute::<usize, cupti::CUpti_BuffersCallbackCompleteFunc>(theirs)
            {
                let context = self.context as cupti::CUcontext;
                theirs(
                    context,
                    self.stream,
                    self.buffer as *mut u8,
                    self.size,
                    self.valid,
                );
            }
        }
        depth.set(before);
    }
}

/// How long another profiler that ends CUPTI waits for our thread to take out what there is, at most.
const PATIENCE_MS: u32 = 200;

/// Held by our thread while it uses CUPTI beyond what `INNER` guards.
static USING: Mutex<()> = Mutex::new(());

/// Our thread may use CUPTI as long as this lives, if it still may at all.
pub fn using() -> Option<MutexGuard<'static, ()>> {
    let guard = USING.lock().unwrap_or_else(PoisonError::into_inner);
    (!IS_GONE.load(Ordering::Acquire)).then_some(guard)
}

/// CUPTI is about to be ended: returns when our thread does not use it, and will not again. A little later, if there is
/// something to be taken out yet.
pub fn wait_until_unused() {
    wake::wake();
    for _ in 0..PATIENCE_MS {
        if !buffers::has_filled() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    IS_GONE.store(true, Ordering::Release);
    drop(USING.lock().unwrap_or_else(PoisonError::into_inner));
}

impl Changing {
    /// Where we are.
    pub fn state(&self) -> State {
        self.0.as_ref().map_or(State::Ended, |inner| inner.state)
    }

    fn set(&mut self, state: State) {
        if let Some(inner) = &mut self.0 {
            inner.state = state;
        }
    }

    /// Another profiler is about to record: nothing of ours is left in its way.
    pub fn step_aside(&mut self) {
        if self.state() == State::Recording {
            stop(at_leisure);
            self.set(State::Aside);
        }
    }

    /// Another profiler has disabled a kind, for us as well.
    pub fn enable_again(&mut self) {
        if self.state() == State::Recording
            && let Some(table) = TABLE.get()
        {
            enable_kinds(table);
            let asked = self
                .0
                .as_mut()
                .map(|inner| std::mem::take(&mut inner.asked_overhead));
            self.ask_overhead(asked.unwrap_or(false));
        }
    }

    /// Asks for records of overhead, or not any more. A refusal changes nothing else.
    fn ask_overhead(&mut self, is_wanted: bool) {
        let (Some(table), Some(inner)) = (TABLE.get(), &mut self.0) else {
            return;
        };
        if std::mem::replace(&mut inner.asked_overhead, is_wanted) == is_wanted {
            return;
        }
        let Some(set) = (if is_wanted { table.enable } else { table.disable }) else {
            return;
        };
        // SAFETY: CUPTI is there, and callbacks are registered.
        let returned = own(|| unsafe { set(OVERHEAD) });
        match (is_wanted, returned) {
            (false, _) => {}
            (true, SUCCESS) => tell_overheads(Overheads::Recorded, "recorded"),
            (true, refused) => tell_overheads(Overheads::Refused, &in_words(table, refused)),
        }
    }

    /// It never will record again in this process.
    pub fn end(&mut self, reason: &str) {
        if self.state() == State::Recording {
            stop(at_leisure);
            self.set(State::Off);
        }
        self.leave(reason);
    }

    /// The same, and nothing more is done to CUPTI: somebody has it whose calls we do not see.
    pub fn leave(&mut self, reason: &str) {
        ASKS.store(NOTHING, Ordering::Release);
        if self.state() == State::Recording {
            STOPPED.store(ticks(), Ordering::Release);
        }
        if self.state() != State::Ended {
            self.set(State::Ended);
            define("source.cupti_ended", reason);
        }
    }

    /// The process ends: what there is is handed out, as long as there is time, and CUPTI is left alone from then on.
    pub fn finish(&mut self, is_in_time: impl Fn() -> bool) {
        if self.state() == State::Recording && is_in_time() {
            stop(is_in_time);
        }
        ASKS.store(NOTHING, Ordering::Release);
        self.set(State::Ended);
    }

    /// A driver works, and this is what there is of CUPTI.
    pub fn found(&mut self, found: Result<Found, String>) {
        if self.state() != State::Waiting {
            return;
        }
        match found {
            Ok(found) => {
                VERSION.store(found.version, Ordering::Relaxed);
                define("source.cupti", &found.version.to_string());
                let _ = TABLE.set(found.table);
                self.set(State::Off);
            }
            Err(reason) => self.end(&reason),
        }
    }

    /// Brings about what is wanted now, as far as others let us.
    pub fn bring_about(&mut self, wanted: Mode) {
        match (self.state(), wanted) {
            (State::Recording, Mode::Off) => {
                stop(at_leisure);
                self.set(State::Off);
            }
            (State::Off | State::Aside, Mode::Communication | Mode::All) => {
                if others::use_v2() {
                    self.end("another profiler subscribed by the second interface");
                } else if others::are_at_it() {
                    self.set(State::Aside);
                } else {
                    self.start(wanted);
                }
            }
            // Beside communication's own records alone there is nothing that it would explain.
            (State::Recording, Mode::Communication | Mode::All) => self.ask_overhead(wanted == Mode::All),
            (State::Aside, Mode::Off) if !others::are_at_it() => self.set(State::Off),
            _ => {}
        }
    }

    fn start(&mut self, wanted: Mode) {
        let Some(table) = TABLE.get() else { return };
        if !buffers::make() {
            return self.end("no memory for buffers");
        }
        let _relaxed = driver::Relaxed::begin();
        if others::callbacks().is_some() {
            // What they left in CUPTI is stamped by their clock, and theirs.
            flush(FORCED);
        }
        match start_recording(table) {
            Ok(()) => {
                self.set(State::Recording);
                if let Some(inner) = &mut self.0 {
                    inner.asked_overhead = false;
                }
                self.ask_overhead(wanted == Mode::All);
                let is_linking = table.enable_driver_api.is_some() && table.push_external_id.is_some();
                streams::forget();
                ASKS.store(if is_linking { LINKS } else { STREAMS }, Ordering::Release);
            }
            Err(refused) => self.end(&in_words(table, refused)),
        }
    }
}

/// While the program goes on nothing has to be done by a deadline.
fn at_leisure() -> bool {
    true
}

/// Stops recording and takes out all that there is, as long as there is time.
fn stop(is_in_time: impl Fn() -> bool) {
    ASKS.store(NOTHING, Ordering::Release);
    STOPPED.store(ticks(), Ordering::Release);
    let Some(table) = TABLE.get() else { return };
    // On a thread of another profiler's this would break every capture that is going on.
    let _relaxed = driver::Relaxed::begin();
    disable_kinds(table);
    if is_in_time() {
        flush(COMPLETE);
    }
    if buffers::outstanding() > 0 && is_in_time() {
        // What is not complete would lie in the way of the other's records.
        flush(FORCED);
    }
    if is_in_time() {
        put_clock_back();
        put_callbacks_back(table);
    }
}

/// Others' functions, where there are any: with ours for what comes back, for some of it may be ours.
fn put_callbacks_back(table: &Table) {
    if let Some((requested, _)) = others::callbacks() {
        register(table, requested, completed as *const () as usize);
    }
}

/// What there is of CUPTI.
pub struct Found {
    table: Table,
    version: u32,
}

/// Whether the driver is there and works; then what there is of CUPTI, or why there is nothing. Asks the loader, so no
/// lock may be held: a library that is being loaded may call us.
pub fn find() -> Option<Result<Found, String>> {
    // Asking the loader for what is not there makes it look on the disk.
    if !is_loaded(b"libcuda.so") {
        return None;
    }
    driver::find();
    let mut context = 0;
    // SAFETY: a place of ours. Succeeds once the program has initialised the driver, and never does so itself.
    if unsafe { driver::current_context(&raw mut context) } != driver::SUCCESS {
        return None;
    }
    if configuration::has_other_injection() {
        return Some(Err(
            "CUDA_INJECTION64_PATH names another tool, which has CUPTI".to_owned()
        ));
    }
    // Nothing is loaded that the user has not named: a framework may load its own later.
    let table = if is_loaded(b"libcupti.so") {
        Table::of_loaded()
    } else {
        load()
    };
    let Some(table) = table else {
        WITHOUT_LIBRARY.call_once(|| {
            define(
                "source.cupti_refused",
                "the program has loaded no libcupti; name one with RANKSCOPE_CUPTI",
            );
        });
        return None;
    };
    if !table.is_usable() {
        let missing = table.missing().join(", ");
        return Some(Err(format!("this libcupti lacks functions: {missing}")));
    }
    let mut version = 0;
    let asked = match table.version {
        // SAFETY: there is a driver that works; a place of ours.
        Some(ask) => own(|| unsafe { ask(&raw mut version) }),
        None => OLDER,
    };
    if asked != SUCCESS || version < OLDEST {
        return Some(Err(format!(
            "CUPTI says that it is version {version} (result {}); {OLDEST} is the oldest that is read",
            asked.0
        )));
    }
    Some(Ok(Found { table, version }))
}

/// Said once.
static WITHOUT_LIBRARY: Once = Once::new();

/// True if a library whose file's name begins so is loaded.
fn is_loaded(name: &[u8]) -> bool {
    struct Search<'a> {
        name: &'a [u8],
        is_found: bool,
    }
    unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: our own pointer, and what the loader hands out, whose names end with a zero byte.
        unsafe {
            let search = &mut *search.cast::<Search<'_>>();
            if !(*info).dlpi_name.is_null() {
                let path = CStr::from_ptr((*info).dlpi_name).to_bytes();
                let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
                search.is_found |= file.starts_with(search.name);
            }
        }
        0
    }
    let mut search = Search {
        name,
        is_found: false,
    };
    // SAFETY: the callback gets our pointer back while `search` lives.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) };
    search.is_found
}

/// Loads the CUPTI that the user names.
fn load() -> Option<Table> {
    let name = configuration::cupti_path()?;
    // SAFETY: loads a library by the name that the user gave; kept for ever.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        (!handle.is_null()).then(|| Table::of(handle))
    }
}

fn in_words(table: &Table, result: CUptiResult) -> String {
    let mut words = std::ptr::null();
    if let Some(ask) = table.result_string {
        // SAFETY: CUPTI's own text, or nothing.
        own(|| unsafe { ask(result, &raw mut words) });
    }
    let words = if words.is_null() {
        String::new()
    } else {
        // SAFETY: a text of CUPTI's that ends with a zero byte.
        unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
    };
    format!("CUPTI refused: {words} ({})", result.0)
}

/// Begins, or leaves everything as it was.
fn start_recording(table: &Table) -> Result<(), CUptiResult> {
    // The clock first: what is recorded is stamped by it.
    HAS_OUR_CLOCK.store(true, Ordering::Release);
    let clock = register_clock(Some(now));
    if clock != SUCCESS {
        HAS_OUR_CLOCK.store(false, Ordering::Release);
        return Err(clock);
    }
    let registered = register(
        table,
        requested as *const () as usize,
        completed as *const () as usize,
    );
    if registered != SUCCESS {
        put_clock_back();
        return Err(registered);
    }
    let enabled = enable_kinds(table);
    if enabled != SUCCESS {
        disable_kinds(table);
        put_clock_back();
        put_callbacks_back(table);
        return Err(enabled);
    }
    Ok(())
}

/// Enables what we record. Calls are recorded function by function, where the version can (12.6).
fn enable_kinds(table: &Table) -> CUptiResult {
    let Some(enable) = table.enable else { return OLDER };
    set_functions(table, true);
    // SAFETY: CUPTI is there, and callbacks are registered.
    own(|| unsafe {
        if table.enable_driver_api.is_some() {
            let linked = enable(Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
            if linked != SUCCESS {
                return linked;
            }
        }
        KINDS
            .iter()
            .map(|&kind| enable(kind))
            .find(|&enabled| enabled != SUCCESS)
            .unwrap_or(SUCCESS)
    })
}

fn disable_kinds(table: &Table) {
    let Some(disable) = table.disable else { return };
    // SAFETY: as above; what was never enabled is refused, which does no harm.
    own(|| unsafe {
        disable(OVERHEAD);
        for kind in KINDS {
            disable(kind);
        }
        if table.enable_driver_api.is_some() {
            disable(Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
        }
    });
    set_functions(table, false);
}

fn set_functions(table: &Table, is_on: bool) {
    for function in CUDA_FUNCTIONS {
        let set = if function.is_runtime {
            table.enable_runtime_api
        } else {
            table.enable_driver_api
        };
        if let Some(set) = set {
            // SAFETY: as above; a version that does not know the function refuses it.
            own(|| unsafe { set(function.number, u8::from(is_on)) });
        }
    }
}

fn register(table: &Table, requested: usize, completed: usize) -> CUptiResult {
    let Some(register) = table.register_callbacks else {
        return OLDER;
    };
    // SAFETY: functions of these signatures: ours, or those that another profiler handed to CUPTI as such.
    own(|| unsafe {
        register(
            std::mem::transmute::<usize, cupti::CUpti_BuffersCallbackRequestFunc>(requested),
            std::mem::transmute::<usize, cupti::CUpti_BuffersCallbackCompleteFunc>(completed),
        )
    })
}

fn register_clock(clock: cupti::CUpti_TimestampCallbackFunc) -> CUptiResult {
    match TABLE.get().and_then(|table| table.register_timestamp_callback) {
        // SAFETY: a function that returns a number, which only grows.
        Some(register) => own(|| unsafe { register(clock) }),
        None => OLDER,
    }
}

/// The clock that CUPTI would have without us: another profiler's, or its own, which is that of the wall.
fn put_clock_back() {
    HAS_OUR_CLOCK.store(false, Ordering::Release);
    let theirs = others::clock();
    // SAFETY: 0 is no function; another number is one that another profiler handed to CUPTI as such.
    let theirs = unsafe { std::mem::transmute::<usize, cupti::CUpti_TimestampCallbackFunc>(theirs) };
    register_clock(theirs.or(Some(wall_clock)));
}

/// The clock that all our stamps are read from.
unsafe extern "C" fn now() -> u64 {
    ticks()
}

/// CUPTI's own clock (documentation of `cuptiActivityRegisterTimestampCallback`).
unsafe extern "C" fn wall_clock() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CUPTI needs a buffer: on whichever thread has something to record.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let (address, bytes) = buffers::take();
    // SAFETY: CUPTI's places for its answers.
    unsafe {
        *buffer = address;
        *size = bytes;
        *most_records = 0;
    }
}

/// A buffer comes back: ours, or another profiler's, who gets it as if we were not there.
///
/// # Safety
/// As CUPTI calls it: `buffer` was handed out by us or by the profiler that is registered, and holds `valid` bytes.
pub unsafe extern "C" fn completed(
    context: cupti::CUcontext,
    stream: u32,
    buffer: *mut u8,
    size: usize,
    valid: usize,
) {
    match buffers::owner(buffer) {
        Owner::Pool => {
            if buffers::give_back(buffer, valid) {
                wake::wake();
            }
        }
        Owner::Small => {
            let mut lost = 0;
            // SAFETY: CUPTI has just filled so much of this buffer.
            unsafe {
                each_record(buffer, valid, |record| {
                    lost += u64::from(records::tells_of_work(record));
                    true
                })
            };
            if lost > 0
                && let Some(set) = life::definitions()
            {
                let now = ticks();
                set.area
                    .count_loss(LossCause::NoBuffer, RecordKind::Activity, lost, now, now);
            }
            buffers::forget_small(buffer);
        }
        Owner::Other => {
            let given = Given {
                context: context as usize,
                stream,
                buffer: buffer as usize,
                size,
                valid,
            };
            if thread::state().cupti_changes.get() {
                DEFERRED
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(given);
            } else {
                given.hand_over();
            }
        }
    }
}

/// Hands out the records of a buffer, as long as whoever takes them goes on.
///
/// # Safety
/// `buffer` must hold `valid` bytes of records that CUPTI wrote.
pub unsafe fn each_record(
    buffer: *mut u8,
    valid: usize,
    mut take: impl FnMut(*const cupti::CUpti_Activity) -> bool,
) {
    let Some(next) = TABLE.get().and_then(|table| table.next_record) else {
        return;
    };
    let mut record: *mut cupti::CUpti_Activity = std::ptr::null_mut();
    loop {
        // SAFETY: the caller's promise; CUPTI itself steps from one to the next.
        if own(|| unsafe { next(buffer, valid, &raw mut record) }) != SUCCESS {
            return;
        }
        if !take(record) {
            return;
        }
    }
}

/// Hands out buffers; not while somebody else records.
pub fn flush(flag: u32) {
    if let Some(flush) = TABLE.get().and_then(|table| table.flush) {
        // SAFETY: CUPTI is there. It calls back on this thread, which holds nothing that a callback takes.
        own(|| unsafe { flush(flag) });
    }
}

/// Records that CUPTI says it has dropped since the last question.
pub fn dropped() -> u64 {
    let mut dropped = 0;
    if let Some(ask) = TABLE.get().and_then(|table| table.dropped_records) {
        // SAFETY: all contexts, all streams; a place of ours.
        own(|| unsafe { ask(std::ptr::null_mut::<c_void>().cast(), 0, &raw mut dropped) });
    }
    dropped as u64
}

/// True if CUPTI's clock is ours: what it says lies between two stamps.
pub fn has_our_clock() -> bool {
    let Some(ask) = TABLE.get().and_then(|table| table.timestamp) else {
        return true;
    };
    let mut told = 0;
    let before = ticks();
    // SAFETY: a place of ours.
    let asked = own(|| unsafe { ask(&raw mut told) });
    asked != SUCCESS || (before..=ticks()).contains(&told)
}

/// What the log says of a state.
pub fn coverage(state: State, wanted: Mode) -> Option<Coverage> {
    match (state, wanted) {
        (State::Recording, Mode::Communication) => Some(Coverage::Communication),
        (State::Recording, _) => Some(Coverage::All),
        (State::Aside, _) => Some(Coverage::Yielded),
        (State::Off | State::Ended, _) => Some(Coverage::Off),
        (State::Waiting, _) => None,
    }
}
