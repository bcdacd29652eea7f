//! The life of the process: inert until the first event, one recorder per process life, a new one after a fork.
//!
//! The hot path asks one question, [`lane`]: it reads a word on a page that fork wipes, and compares it with the
//! thread's. Everything else here is cold.

use crate::communicators;
use crate::cupti::mode::Wanted;
use crate::cupti::{control, watch};
use crate::nccl::{device_model, events, plugin, version};
use crate::thread::{self, ThreadState};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{Options, Recorder};
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The one recorder of this process.
pub static RECORDER: Recorder = Recorder::new();

/// Words that a fork sets to zero in the child.
#[repr(C)]
struct WipedPage {
    /// The process life; never 0 while a recorder exists.
    epoch: AtomicU32,
    /// Who starts the recorder of this life: 0 nobody yet, 1 somebody.
    claimed: AtomicU32,
}

/// Before the page exists every thread reads epoch 0 here and takes the slow way.
static NO_PAGE: WipedPage = WipedPage {
    epoch: AtomicU32::new(0),
    claimed: AtomicU32::new(1),
};
static PAGE: AtomicPtr<WipedPage> = AtomicPtr::new((&raw const NO_PAGE).cast_mut());

/// 0 not decided, 1 off for this whole process (no RANKSCOPE_DIR, or no memory), 2 on.
static SWITCH: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;
const DECIDING: u32 = 3;

/// Counts process lives; a child inherits its parent's number and adds one.
static LIVES: AtomicU32 = AtomicU32::new(0);

/// Key whose destructor gives a thread's lane back; `u32::MAX`: none.
static LANE_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

#[inline]
fn page() -> &'static WipedPage {
    // SAFETY: the pointer is the static above or a mapping that is never undone.
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

/// The calling thread's lane if recording is on now. The first event of a process starts the recorder, the first of
/// a thread takes a lane; afterwards this is four loads.
#[inline]
pub fn lane(thread: &'static ThreadState) -> Option<(&'static LaneSet, &'static Lane)> {
    if SWITCH.load(Ordering::Relaxed) == OFF {
        return None;
    }
    let epoch = page().epoch.load(Ordering::Relaxed);
    let lane = thread.lane.get();
    if epoch != 0 && thread.epoch.get() == epoch && !lane.is_null() {
        let set = RECORDER.lanes()?;
        // SAFETY: a lane taken in this life (same epoch) lives in memory that is never unmapped.
        return Some((set, unsafe { &*lane }));
    }
    slow_lane(thread)
}

/// True if the lane that a hook holds still belongs to this process: the real function may have forked.
#[inline]
pub fn same_life(thread: &ThreadState) -> bool {
    let epoch = page().epoch.load(Ordering::Relaxed);
    epoch != 0 && thread.epoch.get() == epoch
}

/// Commits a record, or counts it if there is no place for it yet.
#[inline]
pub fn commit(thread: &'static ThreadState, record: &Record) {
    match lane(thread) {
        Some((set, lane)) => {
            lane.commit(set, record);
        }
        None => count_unplaced(record),
    }
}

#[cold]
fn count_unplaced(record: &Record) {
    if SWITCH.load(Ordering::Relaxed) == ON
        && let Some(kind) = RecordKind::from_u8(record.kind)
    {
        let (enter, leave) = (record.enter_ticks, record.leave_ticks.max(record.enter_ticks));
        match RECORDER.lanes() {
            // Recording, and yet no place: every lane has a thread.
            Some(set) => set.area.count_loss(LossCause::NoLane, kind, 1, enter, leave),
            None => RECORDER.count_while_starting(kind, enter),
        }
    }
}

#[cold]
fn slow_lane(thread: &'static ThreadState) -> Option<(&'static LaneSet, &'static Lane)> {
    start();
    let epoch = page().epoch.load(Ordering::Acquire);
    if epoch == 0 {
        return None;
    }
    let set = RECORDER.lanes()?;
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: gettid takes no arguments and cannot fail.
    let thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let lane = set.acquire(thread_id, name, ticks())?;
    thread.lane.set(lane);
    thread.epoch.set(epoch);
    let key = LANE_KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        // SAFETY: the key was created by this process or its parent; the value is only compared with null.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) };
    }
    Some((set, lane))
}

/// Gives the lane back when a thread ends. A hook that runs later in the same thread takes another.
unsafe extern "C" fn give_lane_back(_: *mut c_void) {
    let thread = thread::state();
    let lane = thread.lane.replace(std::ptr::null());
    if !lane.is_null()
        && same_life(thread)
        && let Some(set) = RECORDER.lanes_even_if_paused()
    {
        // SAFETY: as in `lane`.
        set.release(unsafe { &*lane });
    }
    thread.epoch.set(0);
}

/// Starts the recorder of this process life, once. Returns at once; the background thread does the work.
pub fn start() {
    match SWITCH.load(Ordering::Acquire) {
        OFF | DECIDING => return,
        UNDECIDED => {
            if SWITCH
                .compare_exchange(UNDECIDED, DECIDING, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                return;
            }
            let ready = configured() && make_page();
            SWITCH.store(if ready { ON } else { OFF }, Ordering::Release);
            if !ready {
                return;
            }
        }
        _ => {}
    }
    let page = page();
    if page.epoch.load(Ordering::Acquire) != 0
        || page
            .claimed
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    // This thread starts the recorder of this life: of a new process, or of a forked child that forgets its parent's.
    RECORDER.reset_after_fork();
    let life = LIVES.fetch_add(1, Ordering::AcqRel) + 1;
    // Before the background thread is there, which says when it is to go.
    KEEPER.store(KEEPER_WAITS, Ordering::Release);
    if !spawn(background, BACKGROUND_STACK_BYTES) {
        KEEPER.store(0, Ordering::Release);
    } else {
        page.epoch.store(life, Ordering::Release);
        if !spawn(keep, KEEPER_STACK_BYTES) {
            KEEPER.store(0, Ordering::Release);
        }
        if let Some(wanted) = wanted_activity() {
            watch::start(Some(wanted));
        }
    }
}

/// A page that fork wipes in the child, and the key that gives lanes back.
fn make_page() -> bool {
    // SAFETY: a fresh anonymous mapping; the key's destructor lives as long as the library, which is never unloaded.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if address == libc::MAP_FAILED {
            return false;
        }
        if libc::madvise(address, 4096, libc::MADV_WIPEONFORK) != 0 {
            // Kernels before 4.14. A handler covers fork(); _Fork and clone stay uncovered there.
            libc::pthread_atfork(None, None, Some(wipe_in_child));
        }
        let mut key = 0;
        if libc::pthread_key_create(&raw mut key, Some(give_lane_back)) == 0 {
            LANE_KEY.store(key, Ordering::Release);
        }
        PAGE.store(address.cast(), Ordering::Release);
    }
    true
}

unsafe extern "C" fn wipe_in_child() {
    let page = page();
    page.epoch.store(0, Ordering::Relaxed);
    page.claimed.store(0, Ordering::Relaxed);
}

/// Starts a thread with every signal blocked: a signal meant for the job must never be taken by us.
pub fn spawn(run: extern "C" fn(*mut c_void) -> *mut c_void, stack_bytes: usize) -> bool {
    // SAFETY: the masks and attributes are initialised before use; the thread's function takes no argument.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) != 0 {
            return false;
        }
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let outcome = libc::pthread_create(&raw mut thread, &raw const attributes, run, std::ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        outcome == 0
    }
}

/// How long the thread for CUPTI may take to end.
const LAST_WAIT: Duration = Duration::from_secs(1);
const BACKGROUND_STACK_BYTES: usize = 512 << 10;
const CLOSE_RANGE_UNSHARE: u32 = 2;

extern "C" fn background(_: *mut c_void) -> *mut c_void {
    // Our own copy of the standard library would print a panic's message into the job's output.
    std::panic::set_hook(Box::new(|_| {}));
    // SAFETY: plain calls on the calling thread. Failure leaves it its old name, and the descriptors of the process.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"rankscope".as_ptr());
        // An empty table of descriptors of our own: the program's `closefrom` cannot hand our number to its checkpoint
        // between two of our calls, and we take none of the numbers it is allowed. Kernels before 5.9 refuse.
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, CLOSE_RANGE_UNSHARE);
    }
    // A panic of ours ends recording, not the job: the live area stays readable.
    let _ = std::panic::catch_unwind(|| match CONFIGURATION.options() {
        Some(options) => RECORDER.run(&options, ready, each_second, on_last),
        None => RECORDER.give_up(),
    });
    // Nobody but us may be left: then the process ends with the keeper.
    watch::finish(LAST_WAIT);
    // At a regular exit, and where nothing could be recorded, others are left: it just goes.
    let next = if IS_LAST.load(Ordering::Acquire) {
        KEEPER_LEAVES
    } else {
        KEEPER_GOES
    };
    KEEPER.store(next, Ordering::Release);
    // SAFETY: wakes who waits on a word of ours.
    unsafe { libc::syscall(libc::SYS_futex, KEEPER.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    std::ptr::null_mut()
}

/// Just before the first record is taken. The start itself ran at the job's own priority: some milliseconds, during
/// which operations have no place yet; at idle priority a busy machine would make them seconds.
fn ready(set: &LaneSet) {
    communicators::define_all(set);
    plugin::define(set);
    events::define(set);
    version::define(set);
    device_model::forget();
    // SAFETY: a plain call on the calling thread, the background one; failure leaves it at normal priority.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
    }
}

/// Once a second, on the background thread: how many other threads of ours there are.
fn each_second(run_directory: &Path) -> usize {
    control::look(run_directory);
    usize::from(watch::is_running()) + usize::from(KEEPER.load(Ordering::Acquire) == KEEPER_WAITS)
}

/// The program's threads are gone: what CUPTI has is to come into the log before it is closed.
fn on_last() {
    IS_LAST.store(true, Ordering::Release);
    watch::finish(LAST_WAIT);
}

/// No thread of the program's is left.
static IS_LAST: AtomicBool = AtomicBool::new(false);
/// 0: there is no keeper, 1: it waits, 2: it leaves, as the last thread, 3: it goes at once.
static KEEPER: AtomicU32 = AtomicU32::new(0);
const KEEPER_WAITS: u32 = 1;
const KEEPER_LEAVES: u32 = 2;
const KEEPER_GOES: u32 = 3;
const KEEPER_STACK_BYTES: usize = 64 << 10;

/// A program whose main thread has left by `pthread_exit` ends with its last thread, which then writes what the program has
/// printed and not yet written. The background thread cannot: it has descriptors of its own. So a thread that has the
/// program's waits, does nothing, and leaves last.
extern "C" fn keep(_: *mut c_void) -> *mut c_void {
    // SAFETY: a plain call; failure leaves the thread its old name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"rankscope-keep".as_ptr()) };
    while KEEPER.load(Ordering::Acquire) == KEEPER_WAITS {
        // SAFETY: waits on a word of ours.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                KEEPER.as_ptr(),
                libc::FUTEX_WAIT,
                KEEPER_WAITS,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }
    if KEEPER.load(Ordering::Acquire) != KEEPER_LEAVES {
        return std::ptr::null_mut();
    }
    // The background thread goes first: it needs some microseconds, and is idle by intention.
    for _ in 0..1000 {
        if rankscope_ranklog::process::only_own_threads_are_left(1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::ptr::null_mut()
}

/// Longest value of a configuration variable that is taken.
const VALUE_BYTES: usize = 4096;

/// The configuration, copied from the environment on the thread of the first event: the background thread must not
/// read the environment while the program may be changing it.
struct Configuration {
    values: [AtomicPtr<u8>; VARIABLES.len()],
}

/// Every variable that the library reads. The table is their documentation.
const VARIABLES: [(&CStr, &str); 13] = [
    (c"RANKSCOPE_DIR", "run directory; unset: the library does nothing"),
    (
        c"RANKSCOPE_LIVE_DIR",
        "directory for live areas instead of /dev/shm",
    ),
    (c"RANKSCOPE_LIVE_MIB", "size of the live area in MiB, default 8"),
    (
        c"RANKSCOPE_MAX_DISK_MIB",
        "stop recording when the log has this many MiB, default 4096",
    ),
    (
        c"RANKSCOPE_MIN_FREE_MIB",
        "stop recording below this much free space, default the larger of 1 GiB and 5 %",
    ),
    (
        c"RANKSCOPE_PARTIAL_MS",
        "write half-full chunks out after this many ms, default 10000",
    ),
    (
        c"RANKSCOPE_EXIT_WAIT_MS",
        "wait at most this long at exit for the log to be closed, default 250",
    ),
    (
        c"RANKSCOPE_NCCL_TRAFFIC",
        "1: record what NCCL's proxies move to and from each peer, NCCL 2.27 and later",
    ),
    (
        c"RANKSCOPE_NCCL_EVENTS",
        "launches per second and communicator to be timed by events on the program's streams, where NCCL tells no times",
    ),
    (
        c"RANKSCOPE_KERNELS",
        "work of devices to be recorded by CUPTI: off, communication or all, with @START+LENGTH in a window",
    ),
    (
        c"RANKSCOPE_CUPTI",
        "path of the libcupti to load where the program has loaded none",
    ),
    (
        c"RANKSCOPE_CUPTI_DUMP",
        "for developers: directory to save CUPTI's first records to, as it wrote them",
    ),
    (
        INJECTION,
        "read only: names another tool that the driver loads, to which CUPTI is left",
    ),
];
const DIR: usize = 0;
const LIVE_DIR: usize = 1;
const LIVE_MIB: usize = 2;
const MAX_DISK_MIB: usize = 3;
const MIN_FREE_MIB: usize = 4;
const PARTIAL_MS: usize = 5;
const EXIT_WAIT_MS: usize = 6;
const NCCL_TRAFFIC: usize = 7;
const NCCL_EVENTS: usize = 8;
const KERNELS: usize = 9;
const CUPTI: usize = 10;
const CUPTI_DUMP: usize = 11;
const OTHER_INJECTION: usize = 12;

const INJECTION: &CStr = c"CUDA_INJECTION64_PATH";

static CONFIGURATION: Configuration = Configuration {
    values: [const { AtomicPtr::new(std::ptr::null_mut()) }; VARIABLES.len()],
};

/// Where the copies stand: no allocation at the first event, and none that a fork could catch half-way.
static COPIES: [CopiedValue; VARIABLES.len()] = [const { CopiedValue::new() }; VARIABLES.len()];

struct CopiedValue(std::cell::UnsafeCell<[u8; VALUE_BYTES]>);

// SAFETY: written once, by the thread that moved SWITCH from UNDECIDED to DECIDING, before the pointer to it is
// published with release ordering; afterwards only read.
unsafe impl Sync for CopiedValue {}

impl CopiedValue {
    const fn new() -> Self {
        Self(std::cell::UnsafeCell::new([0; VALUE_BYTES]))
    }
}

/// Copies the configuration; false if there is none and the library must stay inert.
fn configured() -> bool {
    for ((slot, copy), (name, _)) in CONFIGURATION.values.iter().zip(&COPIES).zip(VARIABLES) {
        // SAFETY: getenv's result is a NUL-terminated string; reading it here races with setenv just as any other
        // getenv of the program's libraries does. The copy has room for VALUE_BYTES with its final NUL.
        unsafe {
            let value = libc::getenv(name.as_ptr());
            if value.is_null() {
                continue;
            }
            let bytes = CStr::from_ptr(value).to_bytes();
            if bytes.len() >= VALUE_BYTES {
                continue;
            }
            let target = copy.0.get().cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            slot.store(target, Ordering::Release);
        }
    }
    CONFIGURATION.bytes(DIR).is_some_and(|dir| !dir.is_empty())
}

impl Configuration {
    fn bytes(&self, index: usize) -> Option<&'static [u8]> {
        let value = self.values[index].load(Ordering::Acquire);
        // SAFETY: null or a NUL-terminated copy that never changes again.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value.cast()) }.to_bytes())
    }

    fn path(&self, index: usize) -> Option<PathBuf> {
        let path = PathBuf::from(OsStr::from_bytes(self.bytes(index)?));
        if path.is_absolute() {
            Some(path)
        } else {
            Some(std::env::current_dir().ok()?.join(path))
        }
    }

    fn number(&self, index: usize) -> Option<u64> {
        std::str::from_utf8(self.bytes(index)?).ok()?.trim().parse().ok()
    }

    fn options(&self) -> Option<Options> {
        let mut options = Options::new(self.path(DIR)?);
        options.live_dir = self.path(LIVE_DIR);
        if let Some(mib) = self.number(LIVE_MIB) {
            options.live_bytes = mib.clamp(1, 4096) << 20;
        }
        if let Some(mib) = self.number(MAX_DISK_MIB) {
            options.max_disk_bytes = mib << 20;
        }
        options.min_free_bytes = self.number(MIN_FREE_MIB).map(|mib| mib << 20);
        if let Some(ms) = self.number(PARTIAL_MS) {
            options.partial_flush = Duration::from_millis(ms);
        }
        Some(options)
    }
}

/// At a regular exit: closes the log if that takes no time worth speaking of. Nothing depends on it.
pub fn finish() {
    if SWITCH.load(Ordering::Acquire) == ON && page().epoch.load(Ordering::Acquire) != 0 {
        RECORDER.finish(exit_wait());
    }
}

/// Waits until records are taken, for the hook of a call that itself takes milliseconds: what a job's first
/// communicator costs anyway. At most this long, once per process.
pub fn wait_for_start() {
    if SWITCH.load(Ordering::Acquire) == ON && !RECORDER.is_settled() {
        RECORDER.wait_until_settled(Duration::from_millis(100));
    }
}

/// Where definitions and losses of this process life go, also while recording is paused; `None` before the recorder
/// is there, and in a forked child that has recorded nothing: what its parent mapped is not mapped there.
pub fn definitions() -> Option<&'static LaneSet> {
    if page().epoch.load(Ordering::Acquire) == 0 {
        return None;
    }
    RECORDER.lanes_even_if_paused()
}

/// Number of this process life; 0 before there is a recorder.
#[inline]
pub fn number() -> u32 {
    page().epoch.load(Ordering::Relaxed)
}

/// True if what NCCL's proxies move is asked for.
pub fn wants_traffic() -> bool {
    CONFIGURATION.number(NCCL_TRAFFIC) == Some(1)
}

/// How many launches per second and communicator are to be timed by events; 0: none.
pub fn wanted_events() -> u32 {
    let wanted = CONFIGURATION.number(NCCL_EVENTS).unwrap_or(0);
    u32::try_from(wanted).unwrap_or(u32::MAX)
}

/// False if the user wants no launch timed by events, whatever else can be had.
pub fn allows_events() -> bool {
    CONFIGURATION.number(NCCL_EVENTS) != Some(0)
}

/// What of the devices' work is to be recorded, if that was ever said. What means nothing is not said.
fn wanted_activity() -> Option<Wanted> {
    let text = CONFIGURATION.bytes(KERNELS)?;
    Wanted::parse(std::str::from_utf8(text).ok()?)
}

/// The CUPTI to load where the program has loaded none.
pub fn cupti_path() -> Option<&'static CStr> {
    let value = CONFIGURATION.values[CUPTI].load(Ordering::Acquire);
    // SAFETY: null or a NUL-terminated copy that never changes again.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value.cast()) })
}

/// Where CUPTI's records are to be saved.
pub fn cupti_dump() -> Option<PathBuf> {
    CONFIGURATION.path(CUPTI_DUMP)
}

/// True if the driver loads another tool, which has CUPTI then.
pub fn has_other_injection() -> bool {
    CONFIGURATION
        .bytes(OTHER_INJECTION)
        .is_some_and(|path| !path.is_empty())
}

/// How long a regular exit may wait for us.
pub fn exit_wait() -> Duration {
    Duration::from_millis(CONFIGURATION.number(EXIT_WAIT_MS).unwrap_or(250))
}

/// True if this process records or is about to: cold hooks do nothing else otherwise.
pub fn is_on() -> bool {
    start();
    SWITCH.load(Ordering::Acquire) == ON
}
