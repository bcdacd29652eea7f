//! Communicators of this process: a table from addresses to entries.
//!
//! The table never allocates and is read without a lock. An address is never an identity: each new communicator gets a
//! fresh entry.

use super::adapters::Adapter;
use super::pending::Pending;
use super::rate::Rate;
use super::sampling::Sampling;
use super::{configuration, life, redacted};
use rankscope_ranklog::Library;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::{
    IdentitySource, KIND_COMMUNICATOR, KIND_COMMUNICATOR_ALIAS, KIND_COMMUNICATOR_END, Payload,
};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{NO_COMMUNICATOR, RecordKind};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of live communicators. Further ones are counted as missing definitions.
const ENTRIES: usize = 4096;
/// Number of slots in the address table: a power of two, and twice the number of entries.
const PLACES: usize = 8192;
/// Maximum length of a name, in bytes. Longer names are truncated.
const NAME_BYTES: usize = 256;
/// Names of this length may have lost their end: NCCL's configuration and this table cut them.
const CUT_FROM_BYTES: usize = 63;
/// Maximum number of tags, or peers of messages, per communicator whose uses are counted separately. Only touched pages
/// take memory.
const TAG_PLACES: usize = 4096;

/// Marks a slot whose address was removed. A search continues after it.
const REMOVED: usize = 1;

/// State of one communicator.
pub struct Entry {
    /// Number in this process's log plus one; 0 until the communicator is defined. All fields start as zero, so the
    /// table takes no space in the file, and no memory before it is used.
    index_plus_one: AtomicU32,
    rank: AtomicU32,
    size: AtomicU32,
    state: AtomicU32,
    created_ticks: AtomicU64,
    /// Number of communicators that were created from this one.
    children: AtomicU32,
    sampling: Sampling,
    /// Error that the library reported last; 0 if none.
    failure: AtomicU32,
    tags: AtomicPtr<TagTable>,
    /// Calls whose operations the plugin has not reported yet. Null unless the library reports operations without
    /// naming their call.
    pending: AtomicPtr<Pending>,
    /// Number of the event pool that times the communicator's launches; 0 while unknown.
    event_pool: AtomicU32,
    /// Limits how many of the communicator's launches are timed.
    event_rate: Rate,
    text: UnsafeCell<MaybeUninit<Text>>,
}

#[derive(Clone, Copy)]
struct Text {
    identity: [u8; 16],
    source: IdentitySource,
    library: Library,
    parent: u32,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
}

/// Values of an entry's `state`.
const FREE: u32 = 0;
const CREATED: u32 = 1;
const DEFINED: u32 = 2;
/// The communicator has a name, but its rank and size are not known yet.
const PENDING: u32 = 3;

// SAFETY: `text` is written only while the entry is not DEFINED, by the thread that creates the communicator. It is
// read only after DEFINED was loaded with acquire ordering. All other fields are atomic.
unsafe impl Sync for Entry {}

impl Entry {
    const fn new() -> Self {
        Self {
            index_plus_one: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            size: AtomicU32::new(0),
            state: AtomicU32::new(FREE),
            created_ticks: AtomicU64::new(0),
            children: AtomicU32::new(0),
            sampling: Sampling::new(),
            failure: AtomicU32::new(0),
            tags: AtomicPtr::new(std::ptr::null_mut()),
            pending: AtomicPtr::new(std::ptr::null_mut()),
            event_pool: AtomicU32::new(0),
            event_rate: Rate::new(),
            text: UnsafeCell::new(MaybeUninit::zeroed()),
        }
    }

    /// Returns the number by which records name this communicator.
    #[inline]
    pub fn index(&self) -> u32 {
        // Wraps 0 to NO_COMMUNICATOR.
        self.index_plus_one.load(Ordering::Relaxed).wrapping_sub(1)
    }

    /// Returns the rank of this process in the communicator.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank.load(Ordering::Relaxed)
    }

    /// Returns the number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns true if the communicator is defined and belongs to this library.
    pub fn is_of(&self, library: Library) -> bool {
        // SAFETY: as in `identity`.
        self.state.load(Ordering::Acquire) == DEFINED
            && unsafe { (*self.text.get()).assume_init_ref().library == library }
    }

    /// Returns the communicator's identity once it is defined.
    pub fn identity(&self) -> Option<[u8; 16]> {
        // SAFETY: DEFINED was loaded with acquire ordering, so `text` is initialised. It does not change while the
        // entry lives.
        (self.state.load(Ordering::Acquire) == DEFINED)
            .then(|| unsafe { (*self.text.get()).assume_init_ref().identity })
    }

    /// Returns true while rank and size are not known.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// Stores `error` and returns true if it differs from the error that the library reported last.
    pub fn is_new_failure(&self, error: u32) -> bool {
        self.failure.swap(error, Ordering::Relaxed) != error
    }

    /// Takes back the number that [`Entry::next_sequence`] returned last, because its operation did not happen.
    pub fn return_sequence(&self, operation: u8, tag: u32, sequence: u32) {
        // SAFETY: the pointer is null or points to a mapping that is never unmapped.
        if let Some(table) = unsafe { self.tags.load(Ordering::Acquire).as_ref() } {
            table.give_back(u64::from(operation) << 32 | u64::from(tag), sequence);
        }
    }

    /// Returns the calls whose operations were not reported yet; see [`Pending`].
    #[inline]
    pub fn pending_calls(&self) -> Option<&'static Pending> {
        // SAFETY: the pointer is null or points to a mapping that is never unmapped.
        unsafe { self.pending.load(Ordering::Acquire).as_ref() }
    }

    /// Creates the list of pending calls for a communicator that was defined before the plugin was initialised. If
    /// another thread already created the list, that list stays.
    #[cold]
    pub fn make_pending_calls(&self) {
        let fresh: *mut Pending = renewed(std::ptr::null_mut());
        let before =
            self.pending
                .compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
        if before.is_err() && !fresh.is_null() {
            // SAFETY: `fresh` is a mapping that this thread just created. The exchange failed, so no other thread has
            // seen it.
            unsafe { libc::munmap(fresh.cast(), size_of::<Pending>()) };
        }
    }

    /// Returns the number of the event pool that times the communicator's launches; 0 while unknown.
    pub fn event_pool(&self) -> &AtomicU32 {
        &self.event_pool
    }

    /// Returns the limit on the number of timed launches.
    pub fn event_rate(&self) -> &Rate {
        &self.event_rate
    }

    /// Returns the ordinal of the next communicator that is created from this one.
    pub fn next_child(&self) -> u32 {
        self.children.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns n for the n-th use of this operation and tag, counted from 0. Returns `None` if the table of tags is
    /// full.
    #[inline]
    pub fn next_sequence(&self, operation: u8, tag: u32) -> Option<u32> {
        // SAFETY: the pointer is null or points to a mapping that is never unmapped.
        let table = unsafe { self.tags.load(Ordering::Acquire).as_ref() }?;
        table.next(u64::from(operation) << 32 | u64::from(tag))
    }

    /// Returns the state that selects which collectives have their messages kept.
    #[inline]
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }
}

/// Counts the uses of tags: open addressing, insert only, no lock. Its size is a multiple of the page size, because
/// [`renewed`] resets whole pages.
struct TagTable {
    keys: [AtomicU64; TAG_PLACES],
    counts: [AtomicU32; TAG_PLACES],
}

const _: () = assert!(size_of::<TagTable>().is_multiple_of(4096));

impl TagTable {
    fn give_back(&self, key: u64, count: u32) {
        let key = key + 1;
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize;
        let mut places = (0..TAG_PLACES).map(|step| (start + step) % TAG_PLACES);
        if let Some(place) = places.find(|&place| self.keys[place].load(Ordering::Relaxed) == key) {
            // If another operation took a number meanwhile, it keeps that number, and this one stays unused.
            let _ = self.counts[place].compare_exchange(
                count.wrapping_add(1),
                count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    fn next(&self, key: u64) -> Option<u32> {
        // An empty slot has key 0, so the stored key is never 0.
        let key = key + 1;
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize;
        for step in 0..TAG_PLACES {
            let place = (start + step) % TAG_PLACES;
            let mut found = self.keys[place].load(Ordering::Relaxed);
            if found == 0 {
                found = match self.keys[place].compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => key,
                    Err(other) => other,
                };
            }
            if found == key {
                // No atomic increment is needed. Gloo forbids two operations to use a tag at once, so each counter has
                // one writer at a time. A program that breaks this rule gets a number twice, which is visible in the
                // records.
                let count = self.counts[place].load(Ordering::Relaxed);
                self.counts[place].store(count.wrapping_add(1), Ordering::Relaxed);
                return Some(count);
            }
        }
        None
    }
}

static ENTRY: [Entry; ENTRIES] = [const { Entry::new() }; ENTRIES];
static ADDRESS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
static PLACE: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
static NEXT_INDEX: AtomicU32 = AtomicU32::new(0);

/// True while new communicators need a list of pending calls ([`Pending`]).
static NEEDS_PENDING: AtomicBool = AtomicBool::new(false);

/// Sets whether new communicators get a list of pending calls.
pub fn need_pending(needed: bool) {
    NEEDS_PENDING.store(needed, Ordering::Relaxed);
}

/// Writes the definitions of communicators when the recorder is ready.
pub static ADAPTER: Adapter = Adapter {
    ready: define_all,
    ..Adapter::NOTHING
};

/// Lock that is held while an address is added or removed, which happens only when communicators are created or
/// destroyed. It contains the holder's pid, so a forked child does not wait for a thread of its parent. The hot path
/// never takes it. The number of attempts is bounded. A thread that cannot get the lock gives up, and the operations of
/// that communicator are recorded with communicator "unknown".
static EDITING: AtomicU32 = AtomicU32::new(0);

struct Editing;

impl Editing {
    fn begin() -> Option<Self> {
        // SAFETY: getpid takes no arguments and cannot fail.
        let own = unsafe { libc::getpid() } as u32;
        for attempt in 0..100_000u32 {
            let holder = EDITING.load(Ordering::Relaxed);
            if holder != own
                && EDITING
                    .compare_exchange_weak(holder, own, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Some(Self);
            }
            if attempt > 100 {
                // SAFETY: no arguments.
                unsafe { libc::sched_yield() };
            }
        }
        None
    }
}

impl Drop for Editing {
    fn drop(&mut self) {
        EDITING.store(0, Ordering::Release);
    }
}

fn start_place(address: usize) -> usize {
    (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 51
}

/// Returns the communicator at this address.
#[inline]
pub fn find(address: usize) -> Option<&'static Entry> {
    let start = start_place(address);
    for step in 0..PLACES {
        let place = (start + step) % PLACES;
        match ADDRESS[place].load(Ordering::Acquire) {
            0 => return None,
            found if found == address => {
                return ENTRY.get(PLACE[place].load(Ordering::Relaxed) as usize);
            }
            _ => {}
        }
    }
    None
}

/// Iterates over all communicators that are defined now, with their addresses.
pub fn live() -> impl Iterator<Item = (usize, &'static Entry)> {
    ADDRESS.iter().zip(&PLACE).filter_map(|(address, place)| {
        let address = address.load(Ordering::Acquire);
        let entry = ENTRY.get(place.load(Ordering::Relaxed) as usize)?;
        (address > REMOVED && entry.index() != NO_COMMUNICATOR).then_some((address, entry))
    })
}

/// Records that a communicator was constructed at `address`. Any previous communicator at this address has ended.
pub fn created(address: usize, rank: u32, size: u32) {
    if address <= REMOVED || !life::is_on() {
        return;
    }
    removed(address);
    let Some(_editing) = Editing::begin() else { return };
    let Some(number) = ENTRY
        .iter()
        .position(|entry| entry.state.load(Ordering::Relaxed) == FREE)
    else {
        count_missing_definition();
        return;
    };
    let entry = &ENTRY[number];
    entry.index_plus_one.store(0, Ordering::Relaxed);
    entry.rank.store(rank, Ordering::Relaxed);
    entry.size.store(size, Ordering::Relaxed);
    entry.children.store(0, Ordering::Relaxed);
    entry.failure.store(0, Ordering::Relaxed);
    entry.sampling.reset();
    entry.event_pool.store(0, Ordering::Relaxed);
    entry.event_rate.reset();
    entry.created_ticks.store(ticks(), Ordering::Relaxed);
    entry.state.store(CREATED, Ordering::Release);
    let start = start_place(address);
    for step in 0..PLACES {
        let place = (start + step) % PLACES;
        if ADDRESS[place].load(Ordering::Relaxed) <= REMOVED {
            PLACE[place].store(number as u32, Ordering::Relaxed);
            ADDRESS[place].store(address, Ordering::Release);
            return;
        }
    }
}

/// Name and identity of a communicator.
pub struct Identity<'a> {
    /// Identity that is equal on all members.
    pub value: [u8; 16],
    /// Origin of the identity, which says how reliable it is.
    pub source: IdentitySource,
    /// Library that the communicator belongs to.
    pub library: Library,
    /// Index of the parent communicator; `u32::MAX` if there is none.
    pub parent: u32,
    /// Name for display.
    pub name: &'a [u8],
}

/// Gives the communicator at `address` its identity, a number and a table of tags, and writes its definition.
pub fn define(address: usize, identity: &Identity<'_>) {
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    if entry.state.load(Ordering::Acquire) == DEFINED {
        // The context was connected a second time, so this is a new communicator at the same address.
        end(entry);
    }
    call(entry, identity);
    publish(entry);
}

/// Records that a communicator was constructed at `address`, and its name. [`complete`] completes it.
pub fn pending(address: usize, identity: &Identity<'_>) {
    created(address, 0, 0);
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    call(entry, identity);
    entry.state.store(PENDING, Ordering::Release);
}

/// Stores rank and size of a pending communicator, and writes its definition.
pub fn complete(address: usize, rank: u32, size: u32) {
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    // Two threads may have asked the library, so the entry may be complete already.
    if entry.state.load(Ordering::Acquire) == PENDING {
        entry.rank.store(rank, Ordering::Relaxed);
        entry.size.store(size, Ordering::Relaxed);
        publish(entry);
    }
}

/// Stores the name and identity of an entry. The caller must hold the editing lock.
fn call(entry: &Entry, identity: &Identity<'_>) {
    let name_bytes = identity.name.len().min(NAME_BYTES);
    let mut text = Text {
        identity: identity.value,
        source: identity.source,
        library: identity.library,
        parent: identity.parent,
        name: [0; NAME_BYTES],
        name_bytes,
    };
    text.name[..name_bytes].copy_from_slice(&identity.name[..name_bytes]);
    entry.state.store(CREATED, Ordering::Release);
    // SAFETY: the entry is not DEFINED, so no thread reads the text. The caller holds the editing lock, so no other
    // thread writes it.
    unsafe { (*entry.text.get()).write(text) };
}

/// Gives a named entry its number and its table of tags, and writes its definition. The caller must hold the editing
/// lock.
fn publish(entry: &Entry) {
    entry
        .tags
        .store(renewed(entry.tags.load(Ordering::Relaxed)), Ordering::Release);
    let before = entry.pending.load(Ordering::Relaxed);
    if !before.is_null() || NEEDS_PENDING.load(Ordering::Relaxed) {
        entry.pending.store(renewed(before), Ordering::Release);
    }
    let index = NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
    entry.index_plus_one.store(index + 1, Ordering::Relaxed);
    entry.state.store(DEFINED, Ordering::Release);
    if let Some(set) = life::definitions() {
        write_definition(set, entry);
    }
}

/// Writes an additional identity by which some members know the communicator at `address`. The communicator must be
/// defined and the recorder must be running, because a recorder that starts later does not write aliases again.
pub fn define_alias(address: usize, identity: [u8; 16]) {
    let Some(entry) = find(address).filter(|entry| entry.index() != NO_COMMUNICATOR) else {
        return;
    };
    if let Some(set) = life::definitions() {
        let payload = Payload::communicator_alias(entry.index(), identity);
        if !set.area.define(KIND_COMMUNICATOR_ALIAS, payload.as_bytes()) {
            count_missing_definition();
        }
    }
}

/// Returns a zeroed table, in the memory of the old one if there is one. The memory is mapped and not allocated, so
/// that the job's allocator is not involved. Zeros must be a valid `T`, and `T` must have no destructor.
fn renewed<T>(old: *mut T) -> *mut T {
    const { assert!(!std::mem::needs_drop::<T>()) };
    // The kernel drops the pages and supplies zeroed ones on the next access. Clearing them would take memory for pages
    // that are never touched.
    // SAFETY: `old` is null or a mapping from this function, and only a communicator that has ended used it.
    if !old.is_null() && unsafe { libc::madvise(old.cast(), size_of::<T>(), libc::MADV_DONTNEED) } == 0 {
        return old;
    }
    // SAFETY: the call creates a fresh anonymous mapping at an address that the kernel chooses. It is zeroed, and zeros
    // are a valid empty table.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        std::ptr::null_mut()
    } else {
        address.cast()
    }
}

fn write_definition(set: &LaneSet, entry: &Entry) {
    // SAFETY: callers hold the editing lock, or run before any record is taken, so no thread writes the text. The entry
    // is DEFINED, so the text is initialised.
    let text = unsafe { (*entry.text.get()).assume_init_ref() };
    let payload = Payload::communicator(
        entry.index(),
        text.library,
        text.source,
        entry.rank(),
        entry.size(),
        text.identity,
        entry.created_ticks.load(Ordering::Relaxed),
        text.parent,
        redacted::label(
            &configuration::redactor(),
            &text.name[..text.name_bytes],
            text.name_bytes >= CUT_FROM_BYTES,
        )
        .as_bytes(),
    );
    if !set.area.define(KIND_COMMUNICATOR, payload.as_bytes()) {
        count_missing_definition();
    }
}

/// Counts a communicator that could not be defined. Its operations have no known communicator.
pub fn count_missing_definition() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoDefinition, RecordKind::Call, 1, now, now);
    }
}

/// Writes the definitions of all communicators that exist when the recorder is ready. These were created while it
/// started or, in a forked child, inherited from the parent.
fn define_all(set: &LaneSet) {
    let Some(_editing) = Editing::begin() else { return };
    for entry in &ENTRY {
        if entry.state.load(Ordering::Acquire) == DEFINED {
            write_definition(set, entry);
        }
    }
}

/// Removes the communicator at this address, before its memory can be used for another one.
pub fn removed(address: usize) {
    if find(address).is_none() {
        return;
    }
    let Some(_editing) = Editing::begin() else { return };
    let start = start_place(address);
    for step in 0..PLACES {
        let place = (start + step) % PLACES;
        match ADDRESS[place].load(Ordering::Relaxed) {
            0 => return,
            found if found == address => {
                if let Some(entry) = ENTRY.get(PLACE[place].load(Ordering::Relaxed) as usize) {
                    end(entry);
                    entry.state.store(FREE, Ordering::Release);
                }
                ADDRESS[place].store(REMOVED, Ordering::Release);
                return;
            }
            _ => {}
        }
    }
}

fn end(entry: &Entry) {
    if entry.state.load(Ordering::Acquire) == DEFINED
        && let Some(set) = life::definitions()
    {
        let payload = Payload::communicator_end(entry.index(), ticks());
        set.area.define(KIND_COMMUNICATOR_END, payload.as_bytes());
    }
    entry.index_plus_one.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_a_tag_are_counted_one_by_one_until_the_table_is_full() {
        // SAFETY: zeros are a valid empty table.
        let table: Box<TagTable> = unsafe { Box::new(std::mem::zeroed()) };
        assert_eq!(
            [table.next(0), table.next(0), table.next(7), table.next(0)],
            [Some(0), Some(1), Some(0), Some(2)]
        );
        table.give_back(0, 2);
        assert_eq!(table.next(0), Some(2));
        table.give_back(0, 1);
        assert_eq!(table.next(0), Some(3), "another came in between");
        let new = (100..9000).filter(|&key| table.next(key).is_some()).count();
        assert_eq!(new, TAG_PLACES - 2);
        assert_eq!(table.next(7), Some(1));
    }
}
