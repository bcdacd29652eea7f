//! NCCL's communicators: created from an id, created from another communicator, or ended.
//!
//! All members derive the same identity without communication: from the id's 128 bytes, or from the parent's identity
//! and values that all members of the child agree on. Inside a group a handle may still be null when the call returns;
//! it is read again when the group has ended. The library reports rank and size of a split only when the split is
//! ready. If it is not ready, the library is asked again when the communicator is first used. No hook ever waits for
//! it.

use super::{config, events, open_group, result, version};
use crate::core::communicators;
use crate::core::communicators::{Entry, Identity};
use crate::core::hash::Hash128;
use crate::core::in_progress::InProgress;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::resolve;
use crate::core::stub::{Arguments, ById, Narrow, UniqueId, Wide};
use crate::cuda::{device_properties, driver};
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Ways to create a child: parts of its identity, and keys by which a parent counts its children.
const SPLIT: u8 = 251;
const SHRINK: u8 = 252;
const GROW: u8 = 253;

/// Values that are known about a communicator before its handle exists.
#[derive(Clone, Copy)]
struct Expected {
    identity: [u8; 16],
    source: IdentitySource,
    /// Identity by which some other members know the communicator, if it differs from `identity`.
    alias: Option<[u8; 16]>,
    /// Rank and size, if the arguments contain them.
    place: Option<(u32, u32)>,
    parent: u32,
    /// Handle of the parent, which the program polls until the child is ready; 0 if there is none.
    asked_by: usize,
    /// Ordinal that the parent gave to this child. It is returned if the library refuses the child.
    counted: Option<Counted>,
    name: [u8; config::NAME_BYTES],
    name_bytes: usize,
}

/// Ordinal that a parent gave to a child.
#[derive(Clone, Copy)]
struct Counted {
    entry: &'static Entry,
    created_as: u8,
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

    /// Adds the name from a configuration.
    ///
    /// # Safety
    /// `config` must be null or point to a configuration.
    unsafe fn named_by(mut self, config: usize) -> Self {
        // SAFETY: the caller guarantees that `config` is null or points to a configuration.
        (self.name, self.name_bytes) = unsafe { config::name(config) };
        self
    }

    /// Records the communicator at `handle`. `real` is a function of its library, or 0 if the library must not be asked
    /// yet.
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
                communicators::created(handle, rank, size);
                communicators::define(handle, &identity);
            }
            None => {
                communicators::pending(handle, &identity);
                // Without `real`, the first use of the communicator asks the library.
                if real != 0 {
                    complete(handle, real);
                }
            }
        }
        if let Some(alias) = self.alias {
            communicators::define_alias(handle, alias);
        }
    }
}

/// Asks the library for rank and size of a pending communicator. Without an answer it stays pending.
#[cold]
fn complete(handle: usize, real: usize) {
    if let Some((rank, size)) = place_of(handle, real) {
        communicators::complete(handle, rank, size);
    }
}

/// Returns rank and size if the library reports them. It does not while the communicator is being created.
fn place_of(handle: usize, real: usize) -> Option<(u32, u32)> {
    // If it is asked too early, the library prints an error and keeps it as its last error.
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
    // SAFETY: `address` is a function of the library that owns `handle`. These functions have this signature in every
    // version and check the handle themselves. They write only to `answer`, a local.
    let outcome = unsafe {
        let function = std::mem::transmute::<usize, Ask>(address);
        function(handle, &raw mut answer)
    };
    if outcome != result::SUCCESS {
        return None;
    }
    u32::try_from(answer).ok()
}

/// Returns the entry of a communicator that is being used. It completes a pending entry. If a communicator was created
/// without passing the hooks, it creates an entry.
///
/// # Safety
/// `handle` must be the value that the program passes as a communicator to `real`'s library.
#[inline]
pub unsafe fn known(handle: usize, real: usize) -> Option<&'static Entry> {
    let entry = communicators::find(handle);
    match entry {
        Some(found) if !found.is_pending() => entry,
        _ => unknown(handle, real, entry),
    }
}

#[cold]
fn unknown(handle: usize, real: usize, entry: Option<&'static Entry>) -> Option<&'static Entry> {
    if handle == 0 || !life::is_on() {
        return None;
    }
    if entry.is_some() {
        complete(handle, real);
    } else if let Some(place) = place_of(handle, real) {
        // A caller that bypasses the preload created this communicator. The identity that the other members use cannot
        // be known.
        learn_surroundings(real);
        let expected = Expected {
            place: Some(place),
            ..Expected::new(nobody_elses(b"nccl found"), IdentitySource::Ordinal)
        };
        expected.arrived(handle, real);
    }
    communicators::find(handle)
}

/// Learns facts that the first communicator makes available: the driver, the library's version and the device.
fn learn_surroundings(real: usize) {
    driver::find();
    version::learn(real);
    device_properties::learn_current();
    events::prepare();
}

/// Returns an identity that no other process computes. A separate communicator is better than a join with an unrelated
/// one.
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

// ---- handles that do not exist yet ------------------------------------------------------------------------------

/// Maximum number of awaited handles in all threads together. Further ones are counted as missing definitions.
const MAX_AWAITED: usize = 256;

/// `owner` of an unused slot.
const NOBODY: u32 = 0;
/// `owner` of a handle that another thread of the library writes. It is read when the program polls `asked_by`.
const LIBRARY: u32 = u32::MAX;

/// A handle that is awaited. Only the owner uses the other fields: a thread, or the thread that takes the slot over
/// from [`LIBRARY`].
struct Awaited {
    owner: AtomicU32,
    /// Number of the group whose end brings the handle.
    group: AtomicU32,
    /// Address at which the library writes the handle.
    place: AtomicUsize,
    before: AtomicUsize,
    asked_by: AtomicUsize,
    expected: UnsafeCell<MaybeUninit<Expected>>,
}

// SAFETY: only one thread uses `expected`: the one whose id is in `owner`. A thread gets there by a compare-exchange
// with acquire ordering, and releases the slot with release ordering.
unsafe impl Sync for Awaited {}

static AWAITED: [Awaited; MAX_AWAITED] = [const {
    Awaited {
        owner: AtomicU32::new(NOBODY),
        group: AtomicU32::new(0),
        place: AtomicUsize::new(0),
        before: AtomicUsize::new(0),
        asked_by: AtomicUsize::new(0),
        expected: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MAX_AWAITED];

/// Number of slots owned by [`LIBRARY`]. While it is 0, an answer to a poll costs one load.
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

    /// Reads the handle, and records the communicator if its handle has arrived. Returns true in that case.
    ///
    /// # Safety
    /// The address in `place` must still be readable memory of the program, and this thread must own the slot.
    unsafe fn arrive(&self, real: usize) -> bool {
        // SAFETY: the caller guarantees that `place` is readable and that this thread owns the slot. `expected` is
        // initialised: this thread wrote it, or took the slot over after [`await_handle`] had written it and released
        // the slot.
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

/// Waits for a handle that the library writes later.
///
/// # Safety
/// `place` must be the address at which the library writes the handle. It must stay valid until the group ends, or
/// until a poll reports that the request is complete.
unsafe fn await_handle(thread: &ThreadState, place: usize, before: usize, expected: &Expected) {
    let owner = thread_id();
    let in_group = open_group::is_open(thread);
    let Some(awaited) = AWAITED.iter().find(|awaited| awaited.take_over(NOBODY, owner)) else {
        communicators::count_missing_definition();
        return;
    };
    awaited.group.store(open_group::number(thread), Ordering::Relaxed);
    awaited.place.store(place, Ordering::Relaxed);
    awaited.before.store(before, Ordering::Relaxed);
    awaited.asked_by.store(expected.asked_by, Ordering::Relaxed);
    // SAFETY: this thread owns the slot, so no other thread uses `expected`.
    unsafe { (*awaited.expected.get()).write(*expected) };
    if in_group {
        thread.nccl.awaited.set(thread.nccl.awaited.get() + 1);
    } else {
        POLLED.fetch_add(1, Ordering::Relaxed);
        awaited.owner.store(LIBRARY, Ordering::Release);
    }
}

/// Reads awaited handles after the outermost group of this thread has ended with `outcome`. Depending on `outcome`, the
/// handles have arrived, come later, or never come.
///
/// # Safety
/// The addresses of awaited handles must still be writable memory of the program. NCCL itself requires this until here.
#[inline]
pub unsafe fn group_ended(thread: &ThreadState, group: u32, outcome: u32, real: usize) {
    if thread.nccl.awaited.get() > 0 {
        // SAFETY: the caller guarantees that the addresses of awaited handles are still valid.
        unsafe { take_awaited(thread, group, outcome, real) };
    }
}

#[cold]
unsafe fn take_awaited(thread: &ThreadState, group: u32, outcome: u32, real: usize) {
    thread.nccl.awaited.set(0);
    let owner = thread_id();
    life::wait_for_start();
    for awaited in &AWAITED {
        if awaited.owner.load(Ordering::Relaxed) != owner {
            continue;
        }
        // The slot belongs to a group whose end was not seen, or to a dead thread that had the same id. Its address may
        // be invalid.
        let is_stale = awaited.group.load(Ordering::Relaxed) != group;
        // SAFETY: this thread owns the slot, and the slot belongs to this group. The caller guarantees that the
        // addresses of this group are still valid.
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

/// Returns true if eight bytes at `address` can be read. The kernel reads the new signal mask before it checks the
/// operation to perform with it. Operation −1 does not exist, so nothing changes.
fn is_readable(address: usize) -> bool {
    let ignored: *mut u64 = std::ptr::null_mut();
    // SAFETY: the kernel reads eight bytes or fails. It writes nothing, because the operation is invalid and `ignored`
    // is null. errno belongs to this thread, and its value is restored.
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

/// Reads awaited handles after the program got the answer that `communicator` has no request in progress any more. Its
/// children exist now.
///
/// # Safety
/// A program that waits for a handle must keep its address valid until this answer. It could not read the handle
/// otherwise.
#[inline]
pub unsafe fn polled(communicator: usize) {
    if POLLED.load(Ordering::Relaxed) > 0 {
        // SAFETY: the caller guarantees that awaited addresses were valid until this answer.
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
            // Before this thread took it over, the slot may have passed to another communicator.
            if awaited.asked_by.load(Ordering::Relaxed) != communicator {
                awaited.owner.store(LIBRARY, Ordering::Release);
                continue;
            }
            // A program that saw the handle without polling may have continued, and its variable may no longer exist.
            // The address is then unreadable, or it holds another value. So `arrive` gets no function: the library must
            // not be asked about that value before the program itself passes it.
            // SAFETY: this thread has taken the slot over, and the address is readable.
            let is_there = is_readable(awaited.place.load(Ordering::Relaxed)) && unsafe { awaited.arrive(0) };
            if !is_there {
                communicators::count_missing_definition();
            }
            POLLED.fetch_sub(1, Ordering::Relaxed);
            awaited.owner.store(NOBODY, Ordering::Release);
        }
    }
}

/// Records a communicator after the call that creates it has returned, or arranges to do so when its handle comes.
///
/// # Safety
/// `place` must be the argument in which the library returns the handle, and `before` the value before the call.
unsafe fn created(
    thread: &ThreadState,
    place: usize,
    before: usize,
    outcome: u32,
    expected: &Expected,
    real: usize,
) {
    // A job's first communicator takes milliseconds anyway. From here on, no operation is lost because the recorder is
    // still starting.
    life::wait_for_start();
    learn_surroundings(real);
    if let Some(counted) = expected.counted
        && matches!(outcome, result::INVALID_ARGUMENT | result::INVALID_USAGE)
    {
        // The library refused the call, so there is no child. Members that are refused a different number of times must
        // still count alike.
        counted
            .entry
            .return_sequence(counted.created_as, counted.tag, counted.ordinal);
    }
    if !result::is_fine(outcome) || place == 0 {
        return;
    }
    // SAFETY: `place` is not null. The program passed it for the handle, and the library has written it or will write
    // it.
    let handle = unsafe { (place as *const usize).read() };
    let comes_with_the_group = open_group::is_open(thread) && (handle == 0 || handle == before);
    let comes_later = handle == 0 && outcome == result::IN_PROGRESS && expected.asked_by != 0;
    if comes_with_the_group || comes_later {
        // SAFETY: `place` is the program's variable for the handle. The library writes it before the group ends, or
        // before a poll reports that the request is complete.
        unsafe { await_handle(thread, place, before, expected) };
    } else if handle != 0 {
        expected.arrived(handle, real);
    }
}

/// Reads a handle; returns 0 if `place` is null.
///
/// # Safety
/// `place` must be null or readable.
unsafe fn read_handle(place: usize) -> usize {
    if place == 0 {
        return 0;
    }
    // SAFETY: `place` is not null, so the caller guarantees that it is readable.
    unsafe { (place as *const usize).read() }
}

/// Calls the real function and records it as one blocking call that creates or ends a communicator. While it is in
/// flight it is visible, so that a call that hangs can be seen.
fn timed(
    thread: &'static ThreadState,
    operation: Operation,
    communicator: Option<u32>,
    call: RealCall<'_, impl Arguments>,
    then: impl FnOnce(u32) -> Option<u32>,
) -> Returned {
    let mut record = Record {
        operation: operation as u8,
        enter_ticks: ticks(),
        ..Record::new(RecordKind::Call)
    };
    if let Some(index) = communicator {
        record.communicator = index;
    }
    let mut in_progress = InProgress::begin(&thread.lane, &thread.nccl.depth, &mut record);
    let returned = call.forward();
    in_progress.returned(|record| {
        let outcome = returned.as_u32();
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

/// Calls the real function, and records the call and the communicator that it creates.
///
/// # Safety
/// `place` must be the argument in which the library returns the handle.
unsafe fn creating(place: usize, expected: &Expected, call: RealCall<'_, impl Arguments>) -> Returned {
    let thread = thread::state();
    if thread.nccl.depth.get() > 0 || !life::is_on() {
        return call.forward();
    }
    let real = call.real();
    // SAFETY: `place` is null or the address of the program's handle, which is valid during its call.
    let before = unsafe { read_handle(place) };
    timed(thread, Operation::Connect, None, call, |outcome| {
        // SAFETY: as above. The program is still in its call.
        let handle = unsafe {
            created(thread, place, before, outcome, expected, real);
            read_handle(place)
        };
        communicators::find(handle).map(Entry::index)
    })
}

// ---- created from an id ------------------------------------------------------------------------------------------

fn from_ids(ids: &[UniqueId]) -> [u8; 16] {
    ids.iter()
        .fold(Hash128::new().add(b"nccl"), |hash, id| hash.add(&id.0))
        .finish()
}

fn place(rank: usize, size: usize) -> Option<(u32, u32)> {
    // Both C types are int, so the upper halves of the registers mean nothing.
    let (rank, size) = (u32::try_from(rank as i32).ok()?, u32::try_from(size as i32).ok()?);
    (rank < size).then_some((rank, size))
}

/// Hook of `ncclCommInitRank(handle, size, id, rank)` and `ncclCommInitRankConfig(handle, size, id, rank, config)`. It
/// records one blocking call and the new communicator. `has_config` is true for the second.
pub fn init_rank(call: RealCall<'_, ById>, has_config: bool) -> Returned {
    let arguments = call.arguments();
    let [handle, size, rank, config, ..] = arguments.integers;
    let expected = Expected {
        place: place(rank, size),
        ..Expected::new(
            from_ids(std::slice::from_ref(&arguments.id)),
            IdentitySource::UniqueId,
        )
    };
    // SAFETY: the fourth integer is a configuration if `has_config`, else it is not read. `handle` is the program's
    // variable for the handle.
    unsafe {
        let expected = expected.named_by(if has_config { config } else { 0 });
        creating(handle, &expected, call)
    }
}

/// Hook of `ncclCommInitRankScalable(handle, size, rank, number of ids, ids, config)`. It records one blocking call and
/// the new communicator.
pub fn init_rank_scalable(call: RealCall<'_, Wide>) -> Returned {
    let [handle, size, rank, count, ids, config, ..] = *call.arguments();
    let count = usize::try_from(count as i32).unwrap_or(0);
    // The library refuses more ids than members, perhaps without reading them. So they must not be read here either.
    let ids = if ids == 0 || count > usize::try_from(size as i32).unwrap_or(0) || !life::is_on() {
        &[][..]
    } else {
        // SAFETY: `ids` is not null, and the program passes `count` ids of 128 bytes that are valid during its call.
        unsafe { std::slice::from_raw_parts(ids as *const UniqueId, count) }
    };
    let expected = Expected {
        place: place(rank, size),
        ..Expected::new(from_ids(ids), IdentitySource::UniqueId)
    };
    // SAFETY: `config` is a configuration or null. `handle` is the program's variable for the handle.
    unsafe { creating(handle, &expected.named_by(config), call) }
}

/// Hook of `ncclCommInitAll(handles, count, devices)`. It records one blocking call and all new communicators. All
/// members belong to this process.
pub fn init_all(call: RealCall<'_, Narrow>) -> Returned {
    let thread = thread::state();
    if thread.nccl.depth.get() > 0 || !life::is_on() {
        return call.forward();
    }
    let [handles, count, ..] = *call.arguments();
    let count = u32::try_from(count as i32).unwrap_or(0);
    let identity = nobody_elses(b"nccl all");
    let real = call.real();
    timed(thread, Operation::Connect, None, call, |outcome| {
        life::wait_for_start();
        learn_surroundings(real);
        if !result::is_fine(outcome) || handles == 0 {
            return None;
        }
        for rank in 0..count {
            // SAFETY: the library reported success, so it has written `count` handles.
            let handle = unsafe { (handles as *const usize).add(rank as usize).read() };
            if handle != 0 {
                let expected = Expected {
                    place: Some((rank, count)),
                    ..Expected::new(identity, IdentitySource::UniqueId)
                };
                expected.arrived(handle, real);
            }
        }
        // SAFETY: the address is not null, and the library accepted it.
        communicators::find(unsafe { read_handle(handles) }).map(Entry::index)
    })
}

// ---- created from another communicator ---------------------------------------------------------------------------

/// Values of a parent that its children need.
struct Parent {
    entry: &'static Entry,
    identity: [u8; 16],
}

impl Parent {
    /// Returns the parent if it is known and has an identity.
    ///
    /// # Safety
    /// As for [`known`].
    unsafe fn of(handle: usize, real: usize) -> Option<Self> {
        if !life::is_on() {
            return None;
        }
        // SAFETY: the caller guarantees that the program passes `handle` as a communicator to `real`'s library.
        let entry = unsafe { known(handle, real) }?;
        Some(Self {
            entry,
            identity: entry.identity()?,
        })
    }

    /// Returns the expected values of a child. `handle` is the parent's own handle. Children of this kind are counted
    /// by `tag`.
    fn child(&self, handle: usize, created_as: u8, tag: u32, what: &[u8]) -> Expected {
        let ordinal = self.entry.next_sequence(created_as, tag);
        let counted = ordinal.map(|ordinal| Counted {
            entry: self.entry,
            created_as,
            tag,
            ordinal,
        });
        let ordinal = ordinal.unwrap_or(u32::MAX);
        let identity = Hash128::new()
            .add(b"nccl child")
            .add(&self.identity)
            .add(&[created_as])
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

/// Returns the expected values of a child whose parent is unknown.
fn orphan() -> Expected {
    Expected::new(nobody_elses(b"nccl orphan"), IdentitySource::Ordinal)
}

/// Hook of `ncclCommSplit(parent, colour, key, handle, config)`. It records one blocking call and the new communicator.
/// All members of the parent call it, including those whose colour gives them no child.
pub fn split(call: RealCall<'_, Narrow>) -> Returned {
    let [parent, colour, _, handle, config] = *call.arguments();
    // SAFETY: the program passes `parent`, `config` and `handle` to the library, so they are valid during this call.
    unsafe {
        let expected = Parent::of(parent, call.real()).map_or_else(orphan, |known| {
            known.child(parent, SPLIT, 0, &(colour as i32).to_le_bytes())
        });
        creating(handle, &expected.named_by(config), call)
    }
}

/// Hook of `ncclCommShrink(parent, excluded, number of excluded, handle, config, flags)`. It records one blocking call
/// and the new communicator. Only the remaining members call it. So they all count how often exactly these members were
/// left out.
pub fn shrink(call: RealCall<'_, Wide>) -> Returned {
    let [parent, excluded, count, handle, config, ..] = *call.arguments();
    let count = usize::try_from(count as i32).unwrap_or(0);
    // SAFETY: the program passes `parent`, `config` and `handle` to the library, so they are valid during this call. It
    // passes `count` excluded ranks, which are read only if fewer than the parent's members.
    unsafe {
        let expected = Parent::of(parent, call.real()).map_or_else(orphan, |known| {
            // The library refuses as many excluded ranks as members or more, perhaps without reading them.
            let excluded = if excluded == 0 || count >= known.entry.size() as usize {
                &[][..]
            } else {
                std::slice::from_raw_parts(excluded as *const i32, count)
            };
            // The hash does not depend on the order of the ranks.
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
        creating(handle, &expected.named_by(config), call)
    }
}

/// Hook of `ncclCommGrow(parent, size, id, rank, handle, config)`. It records one blocking call and the new
/// communicator. Members of the parent know it by the parent, and only one of them has the id. New members have only
/// the id.
pub fn grow(call: RealCall<'_, Wide>) -> Returned {
    let [parent, size, id, rank, handle, config, ..] = *call.arguments();
    // SAFETY: `id` is not null, so it points to the program's id of 128 bytes, which is valid during its call.
    let by_id = (id != 0).then(|| unsafe { from_ids(std::slice::from_ref(&*(id as *const UniqueId))) });
    // SAFETY: the program passes `parent`, `config` and `handle` to the library, so they are valid during this call.
    unsafe {
        let expected = match (Parent::of(parent, call.real()), by_id) {
            (Some(known), alias) => Expected {
                alias,
                // Members of the parent keep their ranks.
                place: place(known.entry.rank() as usize, size),
                ..known.child(parent, GROW, 0, &[])
            },
            (None, Some(identity)) => Expected {
                place: place(rank, size),
                ..Expected::new(identity, IdentitySource::UniqueId)
            },
            (None, None) => orphan(),
        };
        creating(handle, &expected.named_by(config), call)
    }
}

// ---- ended -------------------------------------------------------------------------------------------------------

/// Way in which a communicator ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// `ncclCommFinalize(communicator)` or `ncclCommRevoke(communicator, flags)`: the member leaves, and its handle
    /// stays valid.
    Left,
    /// `ncclCommDestroy(communicator)`: an orderly end. The device works.
    Destroyed,
    /// `ncclCommAbort(communicator)`: requested operations may hang, and the driver with them.
    Aborted,
}

/// Hook of a call that ends a communicator. It records one blocking call. If the call invalidates the handle, the entry
/// is removed first: after the real function, another communicator may have the same address.
pub fn end(call: RealCall<'_, Narrow>, ending: Ending) -> Returned {
    let thread = thread::state();
    let [handle, ..] = *call.arguments();
    if thread.nccl.depth.get() > 0 || !life::is_on() || handle == 0 {
        return call.forward();
    }
    let entry = communicators::find(handle);
    let index = entry.map(Entry::index);
    let mut leaving = None;
    if ending != Ending::Left {
        leaving = entry.and_then(events::leaves);
        communicators::removed(handle);
    }
    let returned = timed(thread, Operation::Disconnect, index, call, |_| None);
    if let Some(leaving) = leaving {
        // Inside a group, or if it continues in the background, the end is not complete yet.
        let is_over = ending == Ending::Destroyed
            && !open_group::is_open(thread)
            && returned.as_u32() == result::SUCCESS;
        events::left(leaving, thread, is_over);
    }
    returned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_addresses_are_recognised_without_reading_them() {
        let here = 7u64;
        assert!(is_readable(&raw const here as usize));
        assert!(!is_readable(0));
        assert!(!is_readable(8));
        // SAFETY: `address` is a fresh mapping that only this test uses. It is unmapped before the last check.
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
