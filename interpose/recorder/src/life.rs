//! The life of the process: inert until the first event, one recorder per process life, a new one after a fork.
//!
//! The hot path calls only [`lane`]. It reads a word on a page that fork wipes, and compares it with the thread's copy.
//! Everything else here is cold.

use super::own_thread::spawn;
use super::{adapters, configuration, keeper};
use crate::thread_lane::ThreadLane;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::Recorder;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The only recorder of this process.
pub static RECORDER: Recorder = Recorder::new();

/// Words that a fork sets to zero in the child.
#[repr(C)]
struct WipedPage {
    /// Number of the process life; never 0 while a recorder exists.
    epoch: AtomicU32,
    /// 1 once a thread has claimed the start of this life's recorder, else 0.
    claimed: AtomicU32,
}

/// Placeholder until the page exists. Every thread reads epoch 0 here and takes the slow path.
static NO_PAGE: WipedPage = WipedPage {
    epoch: AtomicU32::new(0),
    claimed: AtomicU32::new(1),
};
static PAGE: AtomicPtr<WipedPage> = AtomicPtr::new((&raw const NO_PAGE).cast_mut());

/// Whether this process records. OFF (no RANKSCOPE_DIR, or no memory) is final for the whole process.
static SWITCH: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;
const DECIDING: u32 = 3;

/// Number of process lives. A child inherits its parent's number and adds one.
static LIVES: AtomicU32 = AtomicU32::new(0);

/// Key whose destructor releases a thread's lane; `u32::MAX` if there is none.
static LANE_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

#[inline]
fn page() -> &'static WipedPage {
    // SAFETY: the pointer is the static above or a mapping that is never unmapped.
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

/// Returns the calling thread's lane if recording is on. The first event of a process starts the recorder, and the
/// first event of a thread takes a lane. Afterwards this function is four loads.
#[inline]
pub fn lane(thread: &'static ThreadLane) -> Option<(&'static LaneSet, &'static Lane)> {
    lane_in(thread, Recorder::lanes)
}

/// Returns the calling thread's lane as [`lane`] does, also during a pause. For records of work that ran before the pause
/// and is reported later.
pub fn lane_until_the_end(thread: &'static ThreadLane) -> Option<(&'static LaneSet, &'static Lane)> {
    lane_in(thread, Recorder::lanes_until_the_end)
}

#[inline]
fn lane_in(
    thread: &'static ThreadLane,
    lanes: impl Fn(&Recorder) -> Option<&'static LaneSet>,
) -> Option<(&'static LaneSet, &'static Lane)> {
    if SWITCH.load(Ordering::Relaxed) == OFF {
        return None;
    }
    let epoch = page().epoch.load(Ordering::Relaxed);
    let lane = thread.lane.get();
    if epoch != 0 && thread.epoch.get() == epoch && !lane.is_null() {
        let set = lanes(&RECORDER)?;
        // SAFETY: the epochs are equal, so this thread took the lane in this process life. The memory of such a lane is
        // never unmapped.
        return Some((set, unsafe { &*lane }));
    }
    slow_lane(thread, lanes)
}

/// Returns true if the lane that a hook holds still belongs to this process. It does not if the real function forked.
#[inline]
pub fn same_life(thread: &ThreadLane) -> bool {
    let epoch = page().epoch.load(Ordering::Relaxed);
    epoch != 0 && thread.epoch.get() == epoch
}

/// Commits a record, or counts it if there is no lane for it yet.
#[inline]
pub fn commit(thread: &'static ThreadLane, record: &Record) {
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
        // Without a life, this may be a forked child in which another thread has not yet forgotten the parent's lanes.
        let set = (page().epoch.load(Ordering::Acquire) != 0).then(|| RECORDER.lanes());
        match set.flatten() {
            // The recorder runs, but another thread holds every lane.
            Some(set) => set.area.count_loss(LossCause::NoLane, kind, 1, enter, leave),
            None => RECORDER.count_while_starting(kind, enter),
        }
    }
}

#[cold]
fn slow_lane(
    thread: &'static ThreadLane,
    lanes: impl Fn(&Recorder) -> Option<&'static LaneSet>,
) -> Option<(&'static LaneSet, &'static Lane)> {
    start();
    let epoch = page().epoch.load(Ordering::Acquire);
    if epoch == 0 {
        return None;
    }
    let set = lanes(&RECORDER)?;
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, and `name` has 16.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: gettid takes no arguments and cannot fail.
    let thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let lane = set.acquire(thread_id, name, ticks())?;
    thread.lane.set(lane);
    thread.epoch.set(epoch);
    let key = LANE_KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        // SAFETY: this process or its parent created the key. The value is the address of this thread's own state, which
        // the key's destructor expects.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(thread).cast()) };
    }
    Some((set, lane))
}

/// Releases the lane when a thread ends. A hook that runs later in the same thread takes another lane.
unsafe extern "C" fn give_lane_back(thread: *mut c_void) {
    // SAFETY: `slow_lane` stored the address of this thread's own state, and no other value. The C library frees
    // thread-local storage after the destructors of keys.
    let thread = unsafe { &*thread.cast::<ThreadLane>() };
    let lane = thread.lane.replace(std::ptr::null());
    if !lane.is_null()
        && same_life(thread)
        && let Some(set) = RECORDER.lanes_even_if_paused()
    {
        // SAFETY: as in `lane`: this thread took the lane in this process life, and its memory is never unmapped.
        set.release(unsafe { &*lane });
    }
    thread.epoch.set(0);
}

/// Starts the recorder of this process life, once. Returns without waiting, because the background thread does the
/// work.
pub fn start() {
    match SWITCH.load(Ordering::Acquire) {
        OFF | DECIDING => return,
        // A hook ran before this library's constructor. Recording starts with the first event after the constructor.
        UNDECIDED if !adapters::are_registered() => return,
        UNDECIDED => {
            if SWITCH
                .compare_exchange(UNDECIDED, DECIDING, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                return;
            }
            let ready = configuration::copy() && make_page();
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
    // This thread starts the recorder of this life, in a new process or in a forked child. The child forgets the
    // parent's recorder.
    RECORDER.reset_after_fork();
    let life = LIVES.fetch_add(1, Ordering::AcqRel) + 1;
    keeper::announce();
    // The life begins before its recorder runs. The recorder writes the definitions that exist, and a thread that defines
    // something later must find it.
    page.epoch.store(life, Ordering::Release);
    if !spawn(background, BACKGROUND_STACK_BYTES) {
        page.epoch.store(0, Ordering::Release);
        keeper::withdraw();
        // Nobody shall wait for a recorder that never runs.
        RECORDER.abandon();
    } else {
        keeper::start();
        for adapter in adapters::registered() {
            (adapter.started)();
        }
    }
}

/// Creates the page that fork wipes in the child, and the key that releases lanes.
fn make_page() -> bool {
    // SAFETY: the mapping is fresh, anonymous and large enough for `WipedPage`, and zeros are a valid `WipedPage`. The
    // key's destructor exists as long as the library, which is never unloaded.
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
            // Kernels before 4.14. A handler detects fork(). On these kernels _Fork and clone stay undetected.
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

/// Maximum time in which the CUPTI thread may end.
const LAST_WAIT: Duration = Duration::from_secs(1);
const BACKGROUND_STACK_BYTES: usize = 512 << 10;
const CLOSE_RANGE_UNSHARE: u32 = 2;

extern "C" fn background(_: *mut c_void) -> *mut c_void {
    for adapter in adapters::registered() {
        (adapter.on_thread)();
    }
    // SAFETY: both calls affect only the calling thread. PR_SET_NAME reads a static string. If they fail, the thread
    // keeps its old name and the descriptors of the process.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"rankscope".as_ptr());
        // Creates a separate, empty descriptor table. With it, the program's `closefrom` cannot close one of our
        // descriptors between two of our calls and give its number to a checkpoint file. It also takes none of the
        // numbers that the program may use. Kernels before 5.9 refuse.
        let outcome = libc::syscall(libc::SYS_close_range, 0, u32::MAX, CLOSE_RANGE_UNSHARE);
        OWN_DESCRIPTORS.store(outcome == 0, Ordering::Relaxed);
    }
    // A panic of this library ends the recording but not the job. The live area stays readable.
    let _ = std::panic::catch_unwind(|| match configuration::recorder_options() {
        Some(options) => RECORDER.run(&options, ready, each_second, on_last),
        None => RECORDER.abandon(),
    });
    // If no thread of the program is left, the process now ends with the keeper.
    adapters::finish(LAST_WAIT);
    // At a regular exit, or if recording could not start, other threads are left. The keeper then leaves at once.
    keeper::release(IS_LAST.load(Ordering::Acquire));
    std::ptr::null_mut()
}

/// True if the recorder's thread has a separate descriptor table.
static OWN_DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// Returns true if the recorder's thread has a separate descriptor table. Only that thread asks.
pub fn has_own_descriptors() -> bool {
    OWN_DESCRIPTORS.load(Ordering::Relaxed)
}

/// Runs just before the first record is taken.
fn ready(set: &LaneSet) {
    for adapter in adapters::registered() {
        (adapter.ready)(set);
    }
    // The thread does not interrupt a thread of the job when it wakes up. Its priority stays the job's: a killed process ends
    // with its last thread, and a thread that a busy machine does not run would keep the process's memory and devices.
    // SAFETY: the call reads a local and affects only the calling thread, which is the background thread. On failure it
    // keeps the normal policy.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        // A job with another policy, such as a real-time one, keeps it.
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
        }
    }
}

/// Runs once a second on the background thread. Returns the number of other threads of this library.
fn each_second(run_directory: &Path) -> usize {
    let of_adapters: usize = adapters::registered()
        .iter()
        .map(|adapter| (adapter.each_second)(run_directory))
        .sum();
    of_adapters + usize::from(keeper::is_waiting())
}

/// True once no thread of the program is left.
static IS_LAST: AtomicBool = AtomicBool::new(false);

/// Runs when the program's threads are gone. CUPTI's records must reach the log before it is closed.
fn on_last() {
    IS_LAST.store(true, Ordering::Release);
    adapters::finish(LAST_WAIT);
}

/// Closes the log at a regular exit, within the configured limit. Nothing depends on it.
pub fn finish() {
    if SWITCH.load(Ordering::Acquire) == ON && page().epoch.load(Ordering::Acquire) != 0 {
        RECORDER.finish(configuration::exit_wait());
    }
}

/// Waits until records are taken, at most 100 ms. For hooks of calls that themselves take
/// milliseconds: the first communicator of a job takes that long anyway.
pub fn wait_for_start() {
    if SWITCH.load(Ordering::Acquire) == ON && !RECORDER.is_settled() {
        RECORDER.wait_until_settled(Duration::from_millis(100));
    }
}

/// Returns the destination of definitions and losses of this process life, also while recording is paused. Returns
/// `None` before the recorder runs. It also returns `None` in a forked child that has recorded nothing, because the
/// parent's mapping does not exist there.
pub fn definitions() -> Option<&'static LaneSet> {
    if page().epoch.load(Ordering::Acquire) == 0 {
        return None;
    }
    RECORDER.lanes_even_if_paused()
}

/// Returns the number of this process life; 0 before a recorder exists.
#[inline]
pub fn number() -> u32 {
    page().epoch.load(Ordering::Relaxed)
}

/// Returns true if this process records or is about to. Otherwise cold hooks do nothing else.
pub fn is_on() -> bool {
    start();
    // Another thread may be reading the configuration, which takes some microseconds.
    for _ in 0..10_000 {
        if SWITCH.load(Ordering::Acquire) != DECIDING {
            break;
        }
        std::hint::spin_loop();
    }
    SWITCH.load(Ordering::Acquire) == ON
}

/// Returns true if the recorder could not start.
pub fn has_failed() -> bool {
    RECORDER.has_failed()
}
