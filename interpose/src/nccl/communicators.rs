//! NCCL's communicators: made from an id, made from another communicator, ended.
//!
//! All members come to the same identity without a word between them: from the id's 128 bytes, or from the parent's
//! identity and what all members of the child agree on. A handle may still be null when the call returns, inside a
//! group; it is read again when the group has ended. Rank and size of a split are the library's secret until it is
//! ready to tell; who is asked too early is asked again when the communicator is first used, and nobody ever waits.

use super::{config, events, groups, result, version};
use crate::core::communicators;
use crate::core::communicators::{Entry, Identity};
use crate::core::hash::Hash128;
use crate::core::in_progress::InProgress;
use crate::core::life;
use crate::core::resolve;
use crate::core::stub::{ById, Call, Narrow, OnStack, Wide};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::cuda::{device_model, driver};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What a child is made as: parts of its identity, and keys by which a parent counts its children.
const SPLIT: u8 = 251;
const SHRINK: u8 = 252;
const GROW: u8 = 253;

/// What is known of a communicator before its handle is.
#[derive(Clone, Copy)]
struct Expected {
    identity: [u8; 16],
    source: IdentitySource,
    /// By which some other members know it, if not by `identity`.
    alias: Option<[u8; 16]>,
    /// Rank and size, where the arguments tell.
    place: Option<(u32, u32)>,
    parent: u32,
    /// The parent's handle, by which the program asks whether a child is there; 0 if there is none.
    asked_by: usize,
    /// By what the parent counted this child: given back if the library refuses it.
    counted: Option<Counted>,
    name: [u8; config::NAME_BYTES],
    name_bytes: usize,
}

/// An ordinal of a parent.
#[derive(Clone, Copy)]
struct Counted {
    entry: &'static Entry,
    made_as: u8,
    tag: u32,
    ordinal: u32,
}

impl Expected {
    fn new(identity: [u8; 16], source: IdentitySource) -> Self {
        Self {
            identity,
            source,
            alias: None,
            place: None,
            parent: u32::MAX,
            asked_by: 0,
            counted: None,
            name: [0; config::NAME_BYTES],
            name_bytes: 0,
        }
    }

    /// # Safety
    /// `config` must be null or a configuration.
    unsafe fn named_by(mut self, config: usize) -> Self {
        // SAFETY: the caller's promise.
        (self.name, self.name_bytes) = unsafe { config::name(config) };
        self
    }

    /// The communicator is at `handle`. `real` is a function of its library, or 0 where it must not be asked yet.
    fn arrived(&self, handle: usize, real: usize) {
        let identity = Identity {
            value: self.identity,
            source: if self.place.is_some_and(|(_, size)| size == 1) {
                IdentitySource::SelfOnly
            } else {
                self.source
            },
            library: Library::Nccl,
            parent: self.parent,
            name: &self.name[..self.name_bytes],
        };
        match self.place {
            Some((rank, size)) => {
                communicators::made(handle, rank, size);
                communicators::define(handle, &identity);
            }
            None => {
                communicators::promised(handle, &identity);
                // Without the library at hand its first use will ask.
                if real != 0 {
                    settle(handle, real);
                }
            }
        }
        if let Some(alias) = self.alias {
            communicators::define_alias(handle, alias);
        }
    }
}

/// Asks the library for rank and size of a communicator that was promised; without an answer it stays promised.
#[cold]
fn settle(handle: usize, real: usize) {
    if let Some((rank, size)) = place_of(handle, real) {
        communicators::settle(handle, rank, size);
    }
}

/// Rank and size, if the library tells: while a communicator is being made it does not.
fn place_of(handle: usize, real: usize) -> Option<(u32, u32)> {
    // Asked too early the library would complain aloud, and keep the complaint as its last error.
    if ask(handle, real, c"ncclCommGetAsyncError") != Some(result::SUCCESS) {
        return None;
    }
    Some((
        ask(handle, real, c"ncclCommUserRank")?,
        ask(handle, real, c"ncclCommCount")?,
    ))
}

fn ask(handle: usize, real: usize, symbol: &CStr) -> Option<u32> {
    type Ask = unsafe extern "C" fn(usize, *mut i32) -> u32;
    let address = resolve::beside(real, symbol);
    if address == 0 {
        return None;
    }
    let mut answer = -1;
    // SAFETY: these functions of NCCL have this signature in every version, check the handle themselves, and write
    // nothing but the answer.
    let outcome = unsafe {
        let function = std::mem::transmute::<usize, Ask>(address);
        function(handle, &raw mut answer)
    };
    if outcome != result::SUCCESS {
        return None;
    }
    u32::try_from(answer).ok()
}

/// The entry of a communicator that is being used; settles what was promised, and takes in what was made behind our
/// back.
///
/// # Safety
/// `handle` must be what the program passes as a communicator to `real`'s library.
#[inline]
pub unsafe fn known(handle: usize, real: usize) -> Option<&'static Entry> {
    let entry = communicators::find(handle);
    match entry {
        Some(found) if !found.is_promised() => entry,
        _ => unknown(handle, real, entry),
    }
}

#[cold]
fn unknown(handle: usize, real: usize, entry: Option<&'static Entry>) -> Option<&'static Entry> {
    if handle == 0 || !life::is_on() {
        return None;
    }
    if entry.is_some() {
        settle(handle, real);
    } else if let Some(place) = place_of(handle, real) {
        // Made by a caller that bypasses a preload: what the others call it cannot be known.
        learn_surroundings(real);
        let expected = Expected {
            place: Some(place),
            ..Expected::new(nobody_elses(b"nccl found"), IdentitySource::Ordinal)
        };
        expected.arrived(handle, real);
    }
    communicators::find(handle)
}

/// What a first communicator shows: the driver, the library's version, the device.
fn learn_surroundings(real: usize) {
    driver::find();
    version::learn(real);
    device_model::learn_current();
    events::prepare();
}

/// An identity that no other process comes to: better alone than joined with a stranger.
fn nobody_elses(what: &[u8]) -> [u8; 16] {
    static MADE: AtomicU32 = AtomicU32::new(0);
    // SAFETY: getpid takes no arguments and cannot fail.
    let pid = unsafe { libc::getpid() };
    Hash128::new()
        .add(what)
        .add(&pid.to_le_bytes())
        .add(&ticks().to_le_bytes())
        .add(&MADE.fetch_add(1, Ordering::Relaxed).to_le_bytes())
        .finish()
}

// ---- handles that are not there yet ------------------------------------------------------------------------------

/// Communicators whose handles the library may hide for a while, in all threads together.
const MOST_AWAITED: usize = 256;

/// `owner` of a place that nobody uses.
const NOBODY: u32 = 0;
/// `owner` of a handle that another thread of the library writes: told when the program asks after `asked_by`.
const LIBRARY: u32 = u32::MAX;

/// A handle that is awaited. Its owner, a thread or whoever takes it over from [`LIBRARY`], alone touches the rest.
struct Awaited {
    owner: AtomicU32,
    /// The group whose end brings it.
    group: AtomicU32,
    /// Where the library writes it, and what stood there before.
    place: AtomicUsize,
    before: AtomicUsize,
    asked_by: AtomicUsize,
    expected: UnsafeCell<MaybeUninit<Expected>>,
}

// SAFETY: `expected` is only touched by the thread whose id stands in `owner`, or that has just put its own there.
unsafe impl Sync for Awaited {}

static AWAITED: [Awaited; MOST_AWAITED] = [const {
    Awaited {
        owner: AtomicU32::new(NOBODY),
        group: AtomicU32::new(0),
        place: AtomicUsize::new(0),
        before: AtomicUsize::new(0),
        asked_by: AtomicUsize::new(0),
        expected: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MOST_AWAITED];

/// How many wait for [`LIBRARY`]: while there are none, an answer to a poll costs one load.
static POLLED: AtomicU32 = AtomicU32::new(0);

fn thread_id() -> u32 {
    // SAFETY: gettid takes no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

impl Awaited {
    fn take_over(&self, from: u32, to: u32) -> bool {
        self.owner
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// # Safety
    /// The place must still be the program's, and this thread own the entry.
    unsafe fn arrive(&self, real: usize) -> bool {
        // SAFETY: the caller's promise; `expected` was written before the owner was.
        let (handle, expected) = unsafe {
            let place = self.place.load(Ordering::Relaxed) as *const usize;
            (place.read(), *(*self.expected.get()).assume_init_ref())
        };
        let is_there = handle != 0 && handle != self.before.load(Ordering::Relaxed);
        if is_there {
            expected.arrived(handle, real);
        }
        is_there
    }
}

/// # Safety
/// `place` must be where the library writes the handle, until the group ends or the program has been told.
unsafe fn await_handle(thread: &ThreadState, place: usize, before: usize, expected: &Expected) {
    let owner = thread_id();
    let in_group = groups::is_open(thread);
    let Some(awaited) = AWAITED.iter().find(|awaited| awaited.take_over(NOBODY, owner)) else {
        communicators::count_missing_definition();
        return;
    };
    awaited.group.store(groups::number(thread), Ordering::Relaxed);
    awaited.place.store(place, Ordering::Relaxed);
    awaited.before.store(before, Ordering::Relaxed);
    awaited.asked_by.store(expected.asked_by, Ordering::Relaxed);
    // SAFETY: the entry is this thread's.
    unsafe { (*awaited.expected.get()).write(*expected) };
    if in_group {
        thread.nccl_awaited.set(thread.nccl_awaited.get() + 1);
    } else {
        POLLED.fetch_add(1, Ordering::Relaxed);
        awaited.owner.store(LIBRARY, Ordering::Release);
    }
}

/// The outermost group of this thread has ended so: handles are there, or come later, or never.
///
/// # Safety
/// What was awaited must still be writable memory of the program, which NCCL itself requires until here.
#[inline]
pub unsafe fn group_ended(thread: &ThreadState, group: u32, outcome: u32, real: usize) {
    if thread.nccl_awaited.get() > 0 {
        // SAFETY: the caller's promise.
        unsafe { take_awaited(thread, group, outcome, real) };
    }
}

#[cold]
unsafe fn take_awaited(thread: &ThreadState, group: u32, outcome: u32, real: usize) {
    thread.nccl_awaited.set(0);
    let owner = thread_id();
    life::wait_for_start();
    for awaited in &AWAITED {
        if awaited.owner.load(Ordering::Relaxed) != owner {
            continue;
        }
        // Of a group whose end was not seen, or of a dead thread that had this id: its place may be gone.
        let is_stale = awaited.group.load(Ordering::Relaxed) != group;
        // SAFETY: the caller's promise, for this group.
        let is_over = is_stale || !result::is_fine(outcome) || unsafe { awaited.arrive(real) };
        if !is_over && outcome == result::IN_PROGRESS && awaited.asked_by.load(Ordering::Relaxed) != 0 {
            POLLED.fetch_add(1, Ordering::Relaxed);
            awaited.owner.store(LIBRARY, Ordering::Release);
        } else {
            if !is_over {
                communicators::count_missing_definition();
            }
            awaited.owner.store(NOBODY, Ordering::Release);
        }
    }
}

/// True if eight bytes can be read there. The kernel looks at the new mask before it looks at what is to be done with
/// it, and nothing is ever done with number −1.
fn is_readable(address: usize) -> bool {
    let ignored: *mut u64 = std::ptr::null_mut();
    // SAFETY: the kernel reads eight bytes or fails; the program's errno stays as it was.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let outcome = libc::syscall(
            libc::SYS_rt_sigprocmask,
            -1i64,
            address,
            ignored,
            size_of::<u64>(),
        );
        let is_readable = outcome == -1 && *errno == libc::EINVAL;
        *errno = before;
        is_readable
    }
}

/// The program was told that what it asked of `communicator` is no longer in progress: its children are there.
///
/// # Safety
/// A program that waits for a handle must keep its place until it is told; it could not read it otherwise.
#[inline]
pub unsafe fn polled(communicator: usize) {
    if POLLED.load(Ordering::Relaxed) > 0 {
        // SAFETY: the caller's promise.
        unsafe { take_polled(communicator) };
    }
}

#[cold]
unsafe fn take_polled(communicator: usize) {
    let owner = thread_id();
    for awaited in &AWAITED {
        if awaited.owner.load(Ordering::Acquire) == LIBRARY
            && awaited.asked_by.load(Ordering::Relaxed) == communicator
            && awaited.take_over(LIBRARY, owner)
        {
            // Whoever saw the handle by itself may have gone on, and its place be gone: then nothing is there to read, or
            // something else, which the library must not be asked about before the program itself passes it.
            // SAFETY: it can be read.
            let is_there = is_readable(awaited.place.load(Ordering::Relaxed)) && unsafe { awaited.arrive(0) };
            if !is_there {
                communicators::count_missing_definition();
            }
            POLLED.fetch_sub(1, Ordering::Relaxed);
            awaited.owner.store(NOBODY, Ordering::Release);
        }
    }
}

/// A call that makes a communicator has returned: notes it now, or when its handle comes.
///
/// # Safety
/// `place` must be the argument in which the library returns the handle, and `before` what stood there.
unsafe fn made(
    thread: &ThreadState,
    place: usize,
    before: usize,
    outcome: u32,
    expected: &Expected,
    real: usize,
) {
    // A job's first communicator takes milliseconds anyway: from here on no operation is lost to our own start.
    life::wait_for_start();
    learn_surroundings(real);
    if let Some(counted) = expected.counted
        && matches!(outcome, result::INVALID_ARGUMENT | result::INVALID_USAGE)
    {
        // Refused: not a child. Members that are refused differently often must not count differently.
        counted
            .entry
            .return_sequence(counted.made_as, counted.tag, counted.ordinal);
    }
    if !result::is_fine(outcome) || place == 0 {
        return;
    }
    // SAFETY: the library has just written there, or will.
    let handle = unsafe { (place as *const usize).read() };
    let comes_with_the_group = groups::is_open(thread) && (handle == 0 || handle == before);
    let comes_later = handle == 0 && outcome == result::IN_PROGRESS && expected.asked_by != 0;
    if comes_with_the_group || comes_later {
        // SAFETY: as above.
        unsafe { await_handle(thread, place, before, expected) };
    } else if handle != 0 {
        expected.arrived(handle, real);
    }
}

/// # Safety
/// `place` must be null or readable.
unsafe fn read_handle(place: usize) -> usize {
    if place == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { (place as *const usize).read() }
}

/// Calls on, recorded as one blocking call that makes or ends a communicator: who hangs in it must be seen.
///
/// # Safety
/// `real` and `arguments` must belong together.
unsafe fn timed(
    thread: &'static ThreadState,
    operation: Operation,
    communicator: Option<u32>,
    real: usize,
    arguments: &impl Call,
    then: impl FnOnce(u32) -> Option<u32>,
) -> usize {
    let mut record = Record {
        operation: operation as u8,
        enter_ticks: ticks(),
        ..Record::new(RecordKind::Call)
    };
    if let Some(index) = communicator {
        record.communicator = index;
    }
    let mut call = InProgress::begin(thread, &thread.nccl_depth, &mut record);
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    call.returned(|record| {
        let outcome = result::of(returned);
        record.tag = outcome;
        if !result::is_fine(outcome) {
            record.flags |= FLAG_FAILED;
        }
        if let Some(index) = then(outcome) {
            record.communicator = index;
        }
    });
    returned
}

/// # Safety
/// As for [`timed`]; `place` must be where the library returns the handle.
unsafe fn making(place: usize, expected: &Expected, real: usize, arguments: &impl Call) -> usize {
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || !life::is_on() {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    // SAFETY: the program passes the address of a handle.
    unsafe {
        let before = read_handle(place);
        timed(thread, Operation::Connect, None, real, arguments, |outcome| {
            made(thread, place, before, outcome, expected, real);
            communicators::find(read_handle(place)).map(Entry::index)
        })
    }
}

// ---- made from an id ---------------------------------------------------------------------------------------------

fn from_ids(ids: &[OnStack]) -> [u8; 16] {
    ids.iter()
        .fold(Hash128::new().add(b"nccl"), |hash, id| hash.add(&id.0))
        .finish()
}

fn place(rank: usize, size: usize) -> Option<(u32, u32)> {
    // As the C types have it: both are ints.
    let (rank, size) = (u32::try_from(rank as i32).ok()?, u32::try_from(size as i32).ok()?);
    (rank < size).then_some((rank, size))
}

/// `ncclCommInitRank(handle, size, id, rank)` and `ncclCommInitRankConfig(handle, size, id, rank, config)`. The id
/// stands on the stack.
///
/// # Safety
/// `real` and `arguments` must be this function's; `has_config` tells which.
pub unsafe fn init_rank(real: usize, arguments: &ById, has_config: bool) -> usize {
    let [handle, size, rank, config, ..] = arguments.registers;
    let expected = Expected {
        place: place(rank, size),
        ..Expected::new(
            from_ids(std::slice::from_ref(&arguments.id)),
            IdentitySource::UniqueId,
        )
    };
    // SAFETY: the fourth argument is a configuration where there is one; the rest is handed through.
    unsafe {
        let expected = expected.named_by(if has_config { config } else { 0 });
        making(handle, &expected, real, arguments)
    }
}

/// `ncclCommInitRankScalable(handle, size, rank, number of ids, ids, config)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn init_rank_scalable(real: usize, arguments: &Wide) -> usize {
    let [handle, size, rank, count, ids, config, ..] = *arguments;
    let count = usize::try_from(count as i32).unwrap_or(0);
    // More than members would be refused, perhaps unread.
    let ids = if ids == 0 || count > usize::try_from(size as i32).unwrap_or(0) || !life::is_on() {
        &[][..]
    } else {
        // SAFETY: the program passes so many ids.
        unsafe { std::slice::from_raw_parts(ids as *const OnStack, count) }
    };
    let expected = Expected {
        place: place(rank, size),
        ..Expected::new(from_ids(ids), IdentitySource::UniqueId)
    };
    // SAFETY: a configuration or null; handed through.
    unsafe { making(handle, &expected.named_by(config), real, arguments) }
}

/// `ncclCommInitAll(handles, count, devices)`: all members are this process's.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn init_all(real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || !life::is_on() {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let (handles, count) = (arguments[0], u32::try_from(arguments[1] as i32).unwrap_or(0));
    let identity = nobody_elses(b"nccl all");
    // SAFETY: handed through; the library has written `count` handles when it says so.
    unsafe {
        timed(thread, Operation::Connect, None, real, arguments, |outcome| {
            life::wait_for_start();
            learn_surroundings(real);
            if !result::is_fine(outcome) || handles == 0 {
                return None;
            }
            for rank in 0..count {
                let handle = (handles as *const usize).add(rank as usize).read();
                if handle != 0 {
                    let expected = Expected {
                        place: Some((rank, count)),
                        ..Expected::new(identity, IdentitySource::UniqueId)
                    };
                    expected.arrived(handle, real);
                }
            }
            communicators::find(read_handle(handles)).map(Entry::index)
        })
    }
}

// ---- made from another -------------------------------------------------------------------------------------------

/// A parent as far as its children need it.
struct Parent {
    entry: &'static Entry,
    identity: [u8; 16],
}

impl Parent {
    /// # Safety
    /// As for [`known`].
    unsafe fn of(handle: usize, real: usize) -> Option<Self> {
        if !life::is_on() {
            return None;
        }
        // SAFETY: the caller's promise.
        let entry = unsafe { known(handle, real) }?;
        Some(Self {
            entry,
            identity: entry.identity()?,
        })
    }

    /// `handle` is the parent's own; children of this kind are counted by `tag`.
    fn child(&self, handle: usize, made_as: u8, tag: u32, what: &[u8]) -> Expected {
        let ordinal = self.entry.next_sequence(made_as, tag);
        let counted = ordinal.map(|ordinal| Counted {
            entry: self.entry,
            made_as,
            tag,
            ordinal,
        });
        let ordinal = ordinal.unwrap_or(u32::MAX);
        let identity = Hash128::new()
            .add(b"nccl child")
            .add(&self.identity)
            .add(&[made_as])
            .add(what)
            .add(&ordinal.to_le_bytes())
            .finish();
        Expected {
            parent: self.entry.index(),
            asked_by: handle,
            counted,
            ..Expected::new(identity, IdentitySource::UniqueId)
        }
    }
}

/// A child of a communicator that we know nothing about.
fn orphan() -> Expected {
    Expected::new(nobody_elses(b"nccl orphan"), IdentitySource::Ordinal)
}

/// `ncclCommSplit(parent, colour, key, handle, config)`. All members of the parent call it, also those whose colour
/// gives them no child.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn split(real: usize, arguments: &Narrow) -> usize {
    let [parent, colour, _, handle, config] = *arguments;
    // SAFETY: handed through, and what the program passes.
    unsafe {
        let expected = Parent::of(parent, real).map_or_else(orphan, |known| {
            known.child(parent, SPLIT, 0, &(colour as i32).to_le_bytes())
        });
        making(handle, &expected.named_by(config), real, arguments)
    }
}

/// `ncclCommShrink(parent, excluded, number of excluded, handle, config, flags)`. Only the survivors call it, so they
/// count together how often just these were left out.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn shrink(real: usize, arguments: &Wide) -> usize {
    let [parent, excluded, count, handle, config, ..] = *arguments;
    let count = usize::try_from(count as i32).unwrap_or(0);
    // SAFETY: handed through, and what the program passes.
    unsafe {
        let expected = Parent::of(parent, real).map_or_else(orphan, |known| {
            // More than there are would be refused, perhaps unread.
            let excluded = if excluded == 0 || count >= known.entry.size() as usize {
                &[][..]
            } else {
                std::slice::from_raw_parts(excluded as *const i32, count)
            };
            // In whatever order they are named.
            let set = excluded.iter().fold(0u64, |sum, &rank| {
                let hash = Hash128::new().add(&rank.to_le_bytes()).finish();
                sum.wrapping_add(u64::from_le_bytes([
                    hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7],
                ]))
            });
            let (rank, size) = (known.entry.rank(), known.entry.size());
            let below = excluded
                .iter()
                .filter(|&&other| u32::try_from(other).is_ok_and(|other| other < rank))
                .count() as u32;
            Expected {
                place: (size > excluded.len() as u32 && below <= rank)
                    .then(|| (rank - below, size - excluded.len() as u32)),
                ..known.child(parent, SHRINK, set as u32, &set.to_le_bytes())
            }
        });
        making(handle, &expected.named_by(config), real, arguments)
    }
}

/// `ncclCommGrow(parent, size, id, rank, handle, config)`. Members of the parent know it by the parent, of which only
/// one has the id; new members have only the id.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn grow(real: usize, arguments: &Wide) -> usize {
    let [parent, size, id, rank, handle, config, ..] = *arguments;
    // SAFETY: null or an id.
    let by_id = (id != 0).then(|| unsafe { from_ids(std::slice::from_ref(&*(id as *const OnStack))) });
    // SAFETY: handed through, and what the program passes.
    unsafe {
        let expected = match (Parent::of(parent, real), by_id) {
            (Some(known), alias) => Expected {
                alias,
                // Old members keep their ranks.
                place: place(known.entry.rank() as usize, size),
                ..known.child(parent, GROW, 0, &[])
            },
            (None, Some(identity)) => Expected {
                place: place(rank, size),
                ..Expected::new(identity, IdentitySource::UniqueId)
            },
            (None, None) => orphan(),
        };
        making(handle, &expected.named_by(config), real, arguments)
    }
}

// ---- ended -------------------------------------------------------------------------------------------------------

/// How a communicator is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// `ncclCommFinalize(communicator)`, `ncclCommRevoke(communicator, flags)`: it is being left, and its handle lives on.
    Left,
    /// `ncclCommDestroy(communicator)`: an orderly end; the device is there.
    Destroyed,
    /// `ncclCommAbort(communicator)`: what was asked may hang, and the driver with it.
    Aborted,
}

/// A call that ends a communicator. Where its handle goes, the entry goes first: once the real function has run the
/// address can be another's.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn end(real: usize, arguments: &Narrow, ending: Ending) -> usize {
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || !life::is_on() || arguments[0] == 0 {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let entry = communicators::find(arguments[0]);
    let index = entry.map(Entry::index);
    let mut leaving = None;
    if ending != Ending::Left {
        leaving = entry.and_then(events::leaves);
        communicators::gone(arguments[0]);
    }
    // SAFETY: handed through.
    let returned = unsafe { timed(thread, Operation::Disconnect, index, real, arguments, |_| None) };
    if let Some(leaving) = leaving {
        // In a group, or in the background, it goes on.
        let is_over = ending == Ending::Destroyed
            && !groups::is_open(thread)
            && result::of(returned) == result::SUCCESS;
        events::left(leaving, thread, is_over);
    }
    returned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_told_without_reading_it() {
        let here = 7u64;
        assert!(is_readable(&raw const here as usize));
        assert!(!is_readable(0));
        assert!(!is_readable(8));
        // SAFETY: a fresh mapping, undone before it is asked about.
        let gone = unsafe {
            let size = 4096;
            let address = libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(is_readable(address as usize));
            libc::munmap(address, size);
            address as usize
        };
        assert!(!is_readable(gone));
    }
}
