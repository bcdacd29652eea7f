//! The state of CUPTI recording: found, started, yielded to another profiler, resumed, ended.
//!
//! Every change happens under one lock. Only the CUPTI thread and calls of other profilers take it. No hook of a
//! communication library and no CUPTI callback does. CUPTI is called by addresses that were looked up, never by the
//! names that rankscope intercepts.

use super::buffers::{self, Owner};
use super::mode::Mode;
use super::state::{
    ASKS, HAS_OUR_CLOCK, INNER, IS_GONE, Inner, LIFE, LINKS, NOTHING, Overheads, STOPPED, STREAMS, SUCCESS,
    State, TABLE, VERSION, define, is_ours, own, report_overheads,
};
use super::{others, records, streams, wake};
use crate::core::configuration;
use crate::core::life;
use crate::cuda::driver;
use crate::thread;
use rankscope_cupti_sys::bindings::{self as cupti, CUpti_ActivityKind as Kind, CUptiResult};
use rankscope_cupti_sys::functions::{FunctionBounds, function_bounds};
use rankscope_cupti_sys::record::OLDEST;
use rankscope_cupti_sys::table::Table;
use rankscope_ranklog::activity::Coverage;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::cuda_calls::cuda_function;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Kinds of work that are recorded.
const KINDS: [Kind; 4] = [
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY,
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY2,
    Kind::CUPTI_ACTIVITY_KIND_MEMSET,
    Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
];
/// Kinds that link works to calls. They are enabled first, because a work without its call would be unlinked.
const LINKING_KINDS: [Kind; 3] = [
    Kind::CUPTI_ACTIVITY_KIND_DRIVER,
    Kind::CUPTI_ACTIVITY_KIND_RUNTIME,
    Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
];
/// Overhead of CUPTI and of the driver. It is reported separately, and no other record depends on it.
const OVERHEAD: Kind = Kind::CUPTI_ACTIVITY_KIND_OVERHEAD;

/// `flag` of `cuptiActivityFlushAll`: deliver complete records.
pub const COMPLETE: u32 = 0;
/// `flag` of `cuptiActivityFlushAll`: deliver everything, including records of running work.
pub const FORCED: u32 = 1;

/// Result if the library's interface is older than the one that is needed.
const OLDER: CUptiResult = CUptiResult(7);

/// Returns the time that CUPTI's clock would show to another caller without rankscope. Returns `None` unless CUPTI has
/// rankscope's clock.
pub fn time_of_others() -> Option<u64> {
    if thread::state().cupti.depth.get() > 0 || !HAS_OUR_CLOCK.load(Ordering::Acquire) || !is_ours() {
        return None;
    }
    let theirs = others::clock();
    // SAFETY: 0 becomes `None`. Any other number is a function that another profiler registered with CUPTI as its
    // clock.
    let theirs = unsafe { std::mem::transmute::<usize, cupti::CUpti_TimestampCallbackFunc>(theirs) };
    // SAFETY: another profiler registered this function, and CUPTI would call it in the same way.
    Some(unsafe { theirs.map_or_else(|| wall_clock(), |clock| clock()) })
}

/// Returns true in a forked child of a process whose CUPTI thread had not started to use CUPTI, and held no lock at the
/// fork.
pub fn is_untouched_child() -> bool {
    let life = LIFE.load(Ordering::Relaxed);
    let is_child = life != 0 && life != life::number();
    is_child
        && USING.try_lock().is_ok()
        && DEFERRED.try_lock().is_ok()
        && INNER.try_lock().is_ok_and(|inner| inner.state == State::Waiting)
}

/// Guard for the right to change CUPTI's configuration.
pub struct Changing(Option<MutexGuard<'static, Inner>>);

/// Waits until no other thread changes the configuration, and takes the lock.
pub fn changing() -> Changing {
    let inner = INNER.lock().unwrap_or_else(PoisonError::into_inner);
    thread::state().cupti.is_changing.set(true);
    Changing(Some(inner))
}

impl Drop for Changing {
    fn drop(&mut self) {
        thread::state().cupti.is_changing.set(false);
        self.0 = None;
        // These buffers of another profiler came back meanwhile. They are delivered without the lock, because the
        // profiler's function may take its own locks.
        let waiting = std::mem::take(&mut *DEFERRED.lock().unwrap_or_else(PoisonError::into_inner));
        for given in waiting {
            given.hand_over();
        }
    }
}

/// A buffer of another profiler that must be delivered to it.
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
        let depth = &thread::state().cupti.depth;
        // CUPTI calls of the other profiler's function belong to that profiler.
        let before = depth.replace(0);
        // SAFETY: `theirs` is the completion function that another profiler registered with CUPTI. The buffer is one
        // that this profiler supplied, with the values that CUPTI returned.
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

/// Maximum time in milliseconds for which a profiler that ends CUPTI waits until the CUPTI thread has emptied the
/// buffers.
const PATIENCE_MS: u32 = 200;

/// Lock that the CUPTI thread holds while it uses CUPTI in ways that `INNER` does not protect.
static USING: Mutex<()> = Mutex::new(());

/// Returns a guard under which the CUPTI thread may use CUPTI; `None` once CUPTI is gone.
pub fn using() -> Option<MutexGuard<'static, ()>> {
    let guard = USING.lock().unwrap_or_else(PoisonError::into_inner);
    (!IS_GONE.load(Ordering::Acquire)).then_some(guard)
}

/// Returns when the CUPTI thread no longer uses CUPTI and will not use it again, because CUPTI is about to end. If
/// buffers are still filled, waits briefly until they are emptied.
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
    /// Returns the current state.
    pub fn state(&self) -> State {
        self.0.as_ref().map_or(State::Ended, |inner| inner.state)
    }

    fn set(&mut self, state: State) {
        if let Some(inner) = &mut self.0 {
            inner.state = state;
        }
    }

    /// Stops recording before another profiler starts to record. Nothing of rankscope then disturbs it.
    pub fn yield_to_other(&mut self) {
        if self.state() == State::Recording {
            stop(at_leisure);
            self.set(State::Yielded);
        }
    }

    /// Enables rankscope's kinds again after another profiler has disabled a kind for both.
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

    /// Requests overhead records, or stops them. A refusal has no other effect.
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
        // SAFETY: the function belongs to the loaded CUPTI, which still exists. Callbacks are registered.
        let returned = own(|| unsafe { set(OVERHEAD) });
        match (is_wanted, returned) {
            (false, _) => {}
            (true, SUCCESS) => report_overheads(Overheads::Recorded, "recorded"),
            (true, refused) => report_overheads(Overheads::Refused, &in_words(table, refused)),
        }
    }

    /// Ends recording for the rest of this process.
    pub fn end(&mut self, reason: &str) {
        if self.state() == State::Recording {
            stop(at_leisure);
            self.set(State::Off);
        }
        self.leave(reason);
    }

    /// Ends recording without any further call of CUPTI, because a profiler whose calls bypass the hooks uses it.
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

    /// Ends recording at the end of the process. Delivers what there is while `is_in_time` returns true, and then
    /// leaves CUPTI alone.
    pub fn finish(&mut self, is_in_time: impl Fn() -> bool) {
        if self.state() == State::Recording && is_in_time() {
            stop(is_in_time);
        }
        ASKS.store(NOTHING, Ordering::Release);
        self.set(State::Ended);
    }

    /// Stores the result of a search after a driver was found to work.
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

    /// Changes the state to what is requested now, as far as other profilers permit.
    pub fn bring_about(&mut self, wanted: Mode) {
        match (self.state(), wanted) {
            (State::Recording, Mode::Off) => {
                stop(at_leisure);
                self.set(State::Off);
            }
            (State::Off | State::Yielded, Mode::Communication | Mode::All) => {
                if others::use_v2() {
                    self.end("another profiler subscribed by the second interface");
                } else if others::are_at_it() {
                    self.set(State::Yielded);
                } else {
                    self.start(wanted);
                }
            }
            // If only communication is recorded, overhead records would explain nothing.
            (State::Recording, Mode::Communication | Mode::All) => self.ask_overhead(wanted == Mode::All),
            (State::Yielded, Mode::Off) if !others::are_at_it() => self.set(State::Off),
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
            // Records that other profilers left in CUPTI have timestamps of their clock and belong to them.
            flush(FORCED);
        }
        match start_recording(table) {
            Ok(()) => {
                self.set(State::Recording);
                if let Some(inner) = &mut self.0 {
                    inner.asked_overhead = false;
                }
                self.ask_overhead(wanted == Mode::All);
                let is_linking = function_filter(table).is_some() && table.push_external_id.is_some();
                streams::forget();
                ASKS.store(if is_linking { LINKS } else { STREAMS }, Ordering::Release);
            }
            Err(refused) => self.end(&in_words(table, refused)),
        }
    }
}

/// Returns true always: while the program continues, there is no deadline.
fn at_leisure() -> bool {
    true
}

/// Stops recording and delivers all records while `is_in_time` returns true.
fn stop(is_in_time: impl Fn() -> bool) {
    ASKS.store(NOTHING, Ordering::Release);
    STOPPED.store(ticks(), Ordering::Release);
    let Some(table) = TABLE.get() else { return };
    // On a thread of another profiler, the following calls would otherwise break every capture in progress.
    let _relaxed = driver::Relaxed::begin();
    disable_kinds(table);
    if is_in_time() {
        flush(COMPLETE);
    }
    if buffers::outstanding() > 0 && is_in_time() {
        // Incomplete records would end up among the other profiler's records.
        flush(FORCED);
    }
    if is_in_time() {
        put_clock_back();
        put_callbacks_back(table);
    }
}

/// Registers other profilers' functions again, if there are any. rankscope's `completed` stays, because some buffers
/// that come back may be rankscope's.
fn put_callbacks_back(table: &Table) {
    if let Some((requested, _)) = others::callbacks() {
        register(table, requested, completed as *const () as usize);
    }
}

/// CUPTI's functions and version, as found in the process.
pub struct Found {
    table: Table,
    version: u32,
}

/// Returns `None` until the driver works. Then returns CUPTI, or the reason why it cannot be used. It calls the loader,
/// so no lock may be held: a library that is being loaded may call a hook.
pub fn find() -> Option<Result<Found, String>> {
    // If a library is not loaded, the loader would search for it on disk. So it is asked only for loaded libraries.
    if !is_loaded(b"libcuda.so") {
        return None;
    }
    driver::find();
    let mut context = 0;
    // SAFETY: `context` is a local. The call succeeds once the program has initialised the driver, and it never
    // initialises it itself.
    if unsafe { driver::current_context(&raw mut context) } != driver::SUCCESS {
        return None;
    }
    if configuration::has_other_injection() {
        return Some(Err(
            "CUDA_INJECTION64_PATH names another tool, which has CUPTI".to_owned()
        ));
    }
    // No library is loaded unless the user named it, because a framework may load its own later.
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
        // SAFETY: the function belongs to the loaded CUPTI, and the driver works. `version` is a local.
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

/// Ensures that the message is written once.
static WITHOUT_LIBRARY: Once = Once::new();

/// Returns true if a library is loaded whose file name starts like this.
fn is_loaded(name: &[u8]) -> bool {
    struct Search<'a> {
        name: &'a [u8],
        is_found: bool,
    }
    unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: `search` is the pointer that `is_loaded` passed, and only this thread uses it. The loader passes a
        // valid `info`, whose name is null or NUL-terminated.
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
    // SAFETY: `look_at` gets the pointer to `search` back only during this call, while `search` lives.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) };
    search.is_found
}

/// Loads the CUPTI library that the user named.
fn load() -> Option<Table> {
    let name = configuration::cupti_path()?;
    // SAFETY: the name is NUL-terminated, and the user asked to load this library. The handle is never closed, so the
    // table's functions stay valid.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        (!handle.is_null()).then(|| Table::of(handle))
    }
}

fn in_words(table: &Table, result: CUptiResult) -> String {
    let mut words = std::ptr::null();
    if let Some(ask) = table.result_string {
        // SAFETY: the function belongs to the loaded CUPTI, and `words` is a local. CUPTI stores its own text there, or
        // nothing.
        own(|| unsafe { ask(result, &raw mut words) });
    }
    let words = if words.is_null() {
        String::new()
    } else {
        // SAFETY: `words` is not null, so it is CUPTI's own NUL-terminated text.
        unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
    };
    format!("CUPTI refused: {words} ({})", result.0)
}

/// Starts recording, or leaves everything unchanged.
fn start_recording(table: &Table) -> Result<(), CUptiResult> {
    // The clock is registered first, because records get their timestamps from it.
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

/// Enables the kinds to record.
fn enable_kinds(table: &Table) -> CUptiResult {
    let Some(enable) = table.enable else { return OLDER };
    let enable_all = |kinds: &[Kind]| {
        // SAFETY: the function belongs to the loaded CUPTI, which still exists. Callbacks are registered.
        let mut results = kinds.iter().map(|&kind| own(|| unsafe { enable(kind) }));
        results.find(|&enabled| enabled != SUCCESS)
    };
    let refused = enable_all(linking_kinds(table)).or_else(|| {
        set_other_functions(table, false);
        enable_all(&KINDS)
    });
    refused.unwrap_or(SUCCESS)
}

fn disable_kinds(table: &Table) {
    let Some(disable) = table.disable else { return };
    // The next profiler expects records of all functions. They can only be included while their kind is enabled.
    set_other_functions(table, true);
    own(|| {
        for &kind in [OVERHEAD].iter().chain(&KINDS).chain(linking_kinds(table)) {
            // SAFETY: the function belongs to the loaded CUPTI, which still exists. CUPTI refuses to disable a kind
            // that was never enabled, which does no harm.
            unsafe { disable(kind) };
        }
    });
}

/// Returns the kinds that link works to calls. There are none if this version cannot exclude functions: the records of
/// all functions would be too many.
fn linking_kinds(table: &Table) -> &'static [Kind] {
    if function_filter(table).is_some() {
        &LINKING_KINDS
    } else {
        &[]
    }
}

/// CUPTI's functions that exclude calls from the records, or include them again.
struct FunctionFilter {
    driver: cupti::cuptiActivityEnableDriverApi,
    runtime: cupti::cuptiActivityEnableRuntimeApi,
    bounds: FunctionBounds,
}

/// Returns `None` if this version of CUPTI cannot exclude functions.
fn function_filter(table: &Table) -> Option<FunctionFilter> {
    Some(FunctionFilter {
        driver: table.enable_driver_api?,
        runtime: table.enable_runtime_api?,
        bounds: function_bounds(VERSION.load(Ordering::Relaxed))?,
    })
}

/// Includes or excludes all functions that rankscope does not record. CUPTI 13.0 ignores this for a kind that is not
/// enabled.
fn set_other_functions(table: &Table, is_included: bool) {
    let Some(filter) = function_filter(table) else {
        return;
    };
    own(|| {
        for number in 1..filter.bounds.driver {
            if cuda_function(number, false).is_none() {
                // SAFETY: the function belongs to the loaded CUPTI, which still exists, and knows the number.
                unsafe { (filter.driver)(number, u8::from(is_included)) };
            }
        }
        for number in 1..filter.bounds.runtime {
            if cuda_function(number, true).is_none() {
                // SAFETY: as above.
                unsafe { (filter.runtime)(number, u8::from(is_included)) };
            }
        }
    });
}

fn register(table: &Table, requested: usize, completed: usize) -> CUptiResult {
    let Some(register) = table.register_callbacks else {
        return OLDER;
    };
    // SAFETY: both functions have these signatures: they are rankscope's, or another profiler registered them with
    // CUPTI. The called function belongs to the loaded CUPTI.
    own(|| unsafe {
        register(
            std::mem::transmute::<usize, cupti::CUpti_BuffersCallbackRequestFunc>(requested),
            std::mem::transmute::<usize, cupti::CUpti_BuffersCallbackCompleteFunc>(completed),
        )
    })
}

fn register_clock(clock: cupti::CUpti_TimestampCallbackFunc) -> CUptiResult {
    match TABLE.get().and_then(|table| table.register_timestamp_callback) {
        // SAFETY: the function belongs to the loaded CUPTI. `clock` takes no arguments and returns a number that never
        // decreases.
        Some(register) => own(|| unsafe { register(clock) }),
        None => OLDER,
    }
}

/// Registers the clock that CUPTI would have without rankscope: another profiler's clock, or CUPTI's own, which is the
/// wall clock.
fn put_clock_back() {
    HAS_OUR_CLOCK.store(false, Ordering::Release);
    let theirs = others::clock();
    // SAFETY: 0 becomes `None`. Any other number is a function that another profiler registered with CUPTI as its
    // clock.
    let theirs = unsafe { std::mem::transmute::<usize, cupti::CUpti_TimestampCallbackFunc>(theirs) };
    register_clock(theirs.or(Some(wall_clock)));
}

/// Returns the counter that all rankscope timestamps come from.
unsafe extern "C" fn now() -> u64 {
    ticks()
}

/// Returns the time of CUPTI's own clock (documentation of `cuptiActivityRegisterTimestampCallback`).
unsafe extern "C" fn wall_clock() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a local.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CUPTI calls this function on any thread that has something to record and needs a buffer.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let (address, bytes) = buffers::take();
    // SAFETY: CUPTI passes valid pointers for its three results.
    unsafe {
        *buffer = address;
        *size = bytes;
        *most_records = 0;
    }
}

/// CUPTI calls this function when a buffer comes back. If the buffer belongs to another profiler, that profiler gets it
/// as it would without rankscope.
///
/// # Safety
/// As CUPTI calls it: rankscope or the registered profiler supplied `buffer`, and it contains `valid` bytes.
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
            // SAFETY: CUPTI has just filled `valid` bytes of this buffer, and returned it, so only this thread uses it.
            unsafe {
                each_record(buffer, valid, |record| {
                    lost += u64::from(records::is_device_work(record));
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
            if thread::state().cupti.is_changing.get() {
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

/// Passes the records of a buffer to `take`, until `take` returns false.
///
/// # Safety
/// `buffer` must contain `valid` bytes of records that CUPTI wrote.
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
        // SAFETY: the caller guarantees the buffer's content. `record` is null or the previous record of this buffer,
        // and CUPTI itself computes the next one.
        if own(|| unsafe { next(buffer, valid, &raw mut record) }) != SUCCESS {
            return;
        }
        if !take(record) {
            return;
        }
    }
}

/// Makes CUPTI deliver buffers. Must not be called while another profiler records.
pub fn flush(flag: u32) {
    if let Some(flush) = TABLE.get().and_then(|table| table.flush) {
        // SAFETY: the function belongs to the loaded CUPTI, which still exists. CUPTI calls back on this thread, which
        // holds no lock that a callback takes.
        own(|| unsafe { flush(flag) });
    }
}

/// Returns the number of records that CUPTI has dropped since the last call.
pub fn dropped() -> u64 {
    let mut dropped = 0;
    if let Some(ask) = TABLE.get().and_then(|table| table.dropped_records) {
        // SAFETY: the function belongs to the loaded CUPTI. Null and 0 mean all contexts and all streams, and `dropped`
        // is a local.
        own(|| unsafe { ask(std::ptr::null_mut::<c_void>().cast(), 0, &raw mut dropped) });
    }
    dropped as u64
}

/// Returns true if CUPTI has rankscope's clock: its time is between two readings of that clock.
pub fn has_our_clock() -> bool {
    let Some(ask) = TABLE.get().and_then(|table| table.timestamp) else {
        return true;
    };
    let mut told = 0;
    let before = ticks();
    // SAFETY: the function belongs to the loaded CUPTI, and `told` is a local.
    let asked = own(|| unsafe { ask(&raw mut told) });
    asked != SUCCESS || (before..=ticks()).contains(&told)
}

/// Returns the coverage that the log contains for a state.
pub fn coverage(state: State, wanted: Mode) -> Option<Coverage> {
    match (state, wanted) {
        (State::Recording, Mode::Communication) => Some(Coverage::Communication),
        (State::Recording, _) => Some(Coverage::All),
        (State::Yielded, _) => Some(Coverage::Yielded),
        (State::Off | State::Ended, _) => Some(Coverage::Off),
        (State::Waiting, _) => None,
    }
}
