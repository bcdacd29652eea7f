//! NCCL's communicators: made from an id, made from another communicator, ended.
//!
//! All members come to the same identity without a word between them: from the id's 128 bytes, or from the parent's
//! identity and what all members of the child agree on. A handle may still be null when the call returns, inside a
//! group; it is read again when the group has ended. Rank and size of a split are the library's secret until it is
//! ready to tell; who is asked too early is asked again when the communicator is first used, and nobody ever waits.

use super::{config, groups, result};
use crate::communicators::{self, Entry, Identity};
use crate::hash::Hash128;
use crate::in_progress::InProgress;
use crate::life;
use crate::resolve;
use crate::stub::{ById, Call, Narrow, OnStack, Wide};
use crate::thread::{self, ThreadState};
use rankscope_formats::ranklog::clock::ticks;
use rankscope_formats::ranklog::definition::IdentitySource;
use rankscope_formats::ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_formats::{Library, Operation};
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
    name: [u8; config::NAME_BYTES],
    name_bytes: usize,
}

impl Expected {
    fn new(identity: [u8; 16], source: IdentitySource) -> Self {
        Self {
            identity,
            source,
            alias: None,
            place: None,
            parent: u32::MAX,
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

    /// The communicator is at `handle`.
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
                settle(handle, real);
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
        // Made by a caller that bypasses a preload: nothing is known but its size and that it is the n-th of those.
        static FOUND: AtomicU32 = AtomicU32::new(0);
        let ordinal = FOUND.fetch_add(1, Ordering::Relaxed);
        let identity = Hash128::new()
            .add(b"nccl found")
            .add(&place.1.to_le_bytes())
            .add(&ordinal.to_le_bytes())
            .finish();
        let expected = Expected {
            place: Some(place),
            ..Expected::new(identity, IdentitySource::Ordinal)
        };
        expected.arrived(handle, real);
    }
    communicators::find(handle)
}

// ---- handles that are not there yet ------------------------------------------------------------------------------

/// Communicators that one group may make and whose handles it may hide until its end, in all threads together.
const MOST_AWAITED: usize = 256;

/// A handle that is awaited. Taken and given back by the thread `owner`, which alone touches the rest.
struct Awaited {
    owner: AtomicU32,
    place: AtomicUsize,
    expected: UnsafeCell<MaybeUninit<Expected>>,
}

// SAFETY: `expected` is only touched by the thread whose id stands in `owner`.
unsafe impl Sync for Awaited {}

static AWAITED: [Awaited; MOST_AWAITED] = [const {
    Awaited {
        owner: AtomicU32::new(0),
        place: AtomicUsize::new(0),
        expected: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MOST_AWAITED];

fn thread_id() -> u32 {
    // SAFETY: gettid takes no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// # Safety
/// `place` must be where the library writes handles until the group ends.
unsafe fn await_handle(thread: &ThreadState, place: usize, expected: &Expected) {
    let owner = thread_id();
    for awaited in &AWAITED {
        if awaited
            .owner
            .compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            awaited.place.store(place, Ordering::Relaxed);
            // SAFETY: the place is this thread's from here on.
            unsafe { (*awaited.expected.get()).write(*expected) };
            thread.nccl_awaited.set(thread.nccl_awaited.get() + 1);
            return;
        }
    }
    communicators::count_missing_definition();
}

/// The outermost group of this thread has ended: handles are there, or will never be.
///
/// # Safety
/// What was awaited must still be writable memory of the program, which NCCL itself requires until here.
#[inline]
pub unsafe fn group_ended(thread: &ThreadState, real: usize) {
    if thread.nccl_awaited.get() > 0 {
        // SAFETY: the caller's promise.
        unsafe { take_awaited(thread, real) };
    }
}

#[cold]
unsafe fn take_awaited(thread: &ThreadState, real: usize) {
    thread.nccl_awaited.set(0);
    let owner = thread_id();
    life::wait_for_start();
    for awaited in &AWAITED {
        if awaited.owner.load(Ordering::Relaxed) != owner {
            continue;
        }
        // SAFETY: the caller's promise for the handle; the rest is this thread's and was written when it was taken.
        let (handle, expected) = unsafe {
            let place = awaited.place.load(Ordering::Relaxed) as *const usize;
            (place.read(), *(*awaited.expected.get()).assume_init_ref())
        };
        awaited.owner.store(0, Ordering::Release);
        if handle != 0 {
            expected.arrived(handle, real);
        }
    }
}

/// A call that makes a communicator has returned: notes it now, or when its group ends.
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
    if !result::is_fine(outcome) || place == 0 {
        return;
    }
    // A job's first communicator takes milliseconds anyway: from here on no operation is lost to our own start.
    life::wait_for_start();
    // SAFETY: the library has just written there, or will.
    let handle = unsafe { (place as *const usize).read() };
    if groups::is_open(thread) && (handle == 0 || handle == before) {
        // SAFETY: as above.
        unsafe { await_handle(thread, place, expected) };
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
    let call = InProgress::begin(thread, &thread.nccl_depth, &mut record);
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
    let ids = if ids == 0 {
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
    static MADE: AtomicU32 = AtomicU32::new(0);
    let (handles, count) = (arguments[0], u32::try_from(arguments[1] as i32).unwrap_or(0));
    let began = ticks();
    // SAFETY: getpid takes no arguments and cannot fail.
    let pid = unsafe { libc::getpid() };
    let identity = Hash128::new()
        .add(b"nccl all")
        .add(&pid.to_le_bytes())
        .add(&began.to_le_bytes())
        .add(&MADE.fetch_add(1, Ordering::Relaxed).to_le_bytes())
        .finish();
    // SAFETY: handed through; the library has written `count` handles when it says so.
    unsafe {
        timed(thread, Operation::Connect, None, real, arguments, |outcome| {
            if !result::is_fine(outcome) || handles == 0 {
                return None;
            }
            life::wait_for_start();
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

    fn child(&self, made_as: u8, what: &[u8], ordinal: u32) -> Expected {
        let identity = Hash128::new()
            .add(b"nccl child")
            .add(&self.identity)
            .add(&[made_as])
            .add(what)
            .add(&ordinal.to_le_bytes())
            .finish();
        Expected {
            parent: self.entry.index(),
            ..Expected::new(identity, IdentitySource::UniqueId)
        }
    }
}

/// A child of a communicator that we know nothing about.
fn orphan() -> Expected {
    static ORPHANS: AtomicU32 = AtomicU32::new(0);
    let identity = Hash128::new()
        .add(b"nccl orphan")
        .add(&ORPHANS.fetch_add(1, Ordering::Relaxed).to_le_bytes())
        .finish();
    Expected::new(identity, IdentitySource::Ordinal)
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
        let expected = Parent::of(parent, real).map_or_else(orphan, |parent| {
            let ordinal = parent.entry.next_sequence(SPLIT, 0).unwrap_or(u32::MAX);
            parent.child(SPLIT, &(colour as i32).to_le_bytes(), ordinal)
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
    let excluded = if excluded == 0 {
        &[][..]
    } else {
        // SAFETY: the program passes so many ranks.
        unsafe { std::slice::from_raw_parts(excluded as *const i32, count) }
    };
    // SAFETY: handed through, and what the program passes.
    unsafe {
        let expected = Parent::of(parent, real).map_or_else(orphan, |parent| {
            // In whatever order they are named.
            let set = excluded.iter().fold(0u64, |sum, &rank| {
                let hash = Hash128::new().add(&rank.to_le_bytes()).finish();
                sum.wrapping_add(u64::from_le_bytes([
                    hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7],
                ]))
            });
            let ordinal = parent.entry.next_sequence(SHRINK, set as u32).unwrap_or(u32::MAX);
            let (rank, size) = (parent.entry.rank(), parent.entry.size());
            let below = excluded
                .iter()
                .filter(|&&other| u32::try_from(other).is_ok_and(|other| other < rank))
                .count() as u32;
            Expected {
                place: (size > excluded.len() as u32 && below <= rank)
                    .then(|| (rank - below, size - excluded.len() as u32)),
                ..parent.child(SHRINK, &set.to_le_bytes(), ordinal)
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
            (Some(parent), alias) => {
                let ordinal = parent.entry.next_sequence(GROW, 0).unwrap_or(u32::MAX);
                Expected {
                    alias,
                    // Old members keep their ranks.
                    place: place(parent.entry.rank() as usize, size),
                    ..parent.child(GROW, &[], ordinal)
                }
            }
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

/// `ncclCommFinalize(communicator)`, `ncclCommRevoke(communicator, flags)`: it is being left, and its handle lives on.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn finalize(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { ending(real, arguments, false) }
}

/// `ncclCommDestroy(communicator)`, `ncclCommAbort(communicator)`. The entry goes first: once the real function has run
/// the address can be another's.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn end(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { ending(real, arguments, true) }
}

unsafe fn ending(real: usize, arguments: &Narrow, is_gone: bool) -> usize {
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || !life::is_on() || arguments[0] == 0 {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let index = communicators::find(arguments[0]).map(Entry::index);
    if is_gone {
        communicators::gone(arguments[0]);
    }
    // SAFETY: handed through.
    unsafe { timed(thread, Operation::Disconnect, index, real, arguments, |_| None) }
}
