//! Communicators of this process: from an address to an entry, in a table that never allocates and is read without a
//! lock. An address is never an identity: an entry is made anew each time a communicator is.

use super::adapters::Adapter;
use super::life;
use super::pending::Pending;
use super::rate::Rate;
use super::sampling::Sampling;
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

/// Live communicators at most.
const ENTRIES: usize = 4096;
/// Places of the address table: a power of two, twice the entries.
const PLACES: usize = 8192;
/// Longest name kept.
const NAME_BYTES: usize = 256;
/// Tags, or peers of messages, whose uses are counted one by one, per communicator. Only touched pages take memory.
const TAG_PLACES: usize = 4096;

/// A place whose address was removed: a search goes on behind it.
const REMOVED: usize = 1;

/// What is known about a communicator.
pub struct Entry {
    /// Number in this process's log plus one; 0 until it is defined. All of an entry starts as zero, so that the table
    /// takes no room in the file, nor in memory before it is used.
    index_plus_one: AtomicU32,
    rank: AtomicU32,
    size: AtomicU32,
    state: AtomicU32,
    created_ticks: AtomicU64,
    /// Communicators made from this one so far.
    children: AtomicU32,
    sampling: Sampling,
    /// Error that the library reported last, 0 if none.
    failure: AtomicU32,
    tags: AtomicPtr<TagTable>,
    /// Calls whose operations the library is still to tell of, where it does so without naming the call; else null.
    pending: AtomicPtr<Pending>,
    /// Number of the pool of events that times its launches; 0 while unknown.
    event_pool: AtomicU32,
    /// Limits how many of its launches are timed.
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

/// `state` of an entry.
const FREE: u32 = 0;
const MADE: u32 = 1;
const DEFINED: u32 = 2;
/// Named, but rank and size are not known yet.
const PROMISED: u32 = 3;

// SAFETY: `text` is written only while the entry is not DEFINED, by the thread that makes the communicator, and read
// only after acquiring DEFINED; everything else is atomic.
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

    /// Number by which records name this communicator.
    #[inline]
    pub fn index(&self) -> u32 {
        // 0 gives NO_COMMUNICATOR.
        self.index_plus_one.load(Ordering::Relaxed).wrapping_sub(1)
    }

    /// This process's number in it.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank.load(Ordering::Relaxed)
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// True if it is defined and this library's.
    pub fn is_of(&self, library: Library) -> bool {
        // SAFETY: as in `identity`.
        self.state.load(Ordering::Acquire) == DEFINED
            && unsafe { (*self.text.get()).assume_init_ref().library == library }
    }

    /// Its identity, once defined.
    pub fn identity(&self) -> Option<[u8; 16]> {
        // SAFETY: DEFINED was acquired, after which `text` does not change while the entry lives.
        (self.state.load(Ordering::Acquire) == DEFINED)
            .then(|| unsafe { (*self.text.get()).assume_init_ref().identity })
    }

    /// True if rank and size are not known yet.
    #[inline]
    pub fn is_promised(&self) -> bool {
        self.state.load(Ordering::Acquire) == PROMISED
    }

    /// True if the library did not report this error last time.
    pub fn is_new_failure(&self, error: u32) -> bool {
        self.failure.swap(error, Ordering::Relaxed) != error
    }

    /// Gives the number back that [`Entry::next_sequence`] gave last: what it was for did not come about.
    pub fn return_sequence(&self, operation: u8, tag: u32, sequence: u32) {
        // SAFETY: null or a mapping that is never undone.
        if let Some(table) = unsafe { self.tags.load(Ordering::Acquire).as_ref() } {
            table.give_back(u64::from(operation) << 32 | u64::from(tag), sequence);
        }
    }

    /// Calls that wait to be told of; see [`Pending`].
    #[inline]
    pub fn pending(&self) -> Option<&'static Pending> {
        // SAFETY: null or a mapping that is never undone.
        unsafe { self.pending.load(Ordering::Acquire).as_ref() }
    }

    /// Makes that list for a communicator that was defined before the plugin was there. Once, and only if this thread is
    /// the first.
    #[cold]
    pub fn make_pending(&self) {
        let fresh: *mut Pending = renewed(std::ptr::null_mut());
        let before =
            self.pending
                .compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
        if before.is_err() && !fresh.is_null() {
            // SAFETY: a mapping of our own that nobody else has seen.
            unsafe { libc::munmap(fresh.cast(), size_of::<Pending>()) };
        }
    }

    /// Number of the pool of events that times its launches; 0 while unknown.
    pub fn event_pool(&self) -> &AtomicU32 {
        &self.event_pool
    }

    /// Limits how many of its launches are timed.
    pub fn event_rate(&self) -> &Rate {
        &self.event_rate
    }

    /// Ordinal for the next communicator made from this one.
    pub fn next_child(&self) -> u32 {
        self.children.fetch_add(1, Ordering::Relaxed)
    }

    /// n-th use of this (operation, tag), from 0; `None` if the table of tags is full.
    #[inline]
    pub fn next_sequence(&self, operation: u8, tag: u32) -> Option<u32> {
        // SAFETY: null or a mapping that is never undone.
        let table = unsafe { self.tags.load(Ordering::Acquire).as_ref() }?;
        table.next(u64::from(operation) << 32 | u64::from(tag))
    }

    /// Which of its collectives have their messages kept.
    #[inline]
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }
}

/// Counts uses of tags: open addressing, insert only, no lock. Whole pages ([`renewed`]).
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
            // Whoever came in between keeps its number: then a hole stays.
            let _ = self.counts[place].compare_exchange(
                count.wrapping_add(1),
                count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    fn next(&self, key: u64) -> Option<u32> {
        // Key 0 would read as an empty place.
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
                // No atomic increment: a tag must not be used by two operations at once (Gloo's own rule), so one
                // counter has one writer at a time; whoever breaks the rule gets a number twice, which shows.
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

/// Held while an address is added or removed, which only happens when communicators are made or destroyed: the pid of
/// the holder, so that a child does not wait for a thread that its parent's fork left behind. The hot path never takes
/// it. Bounded: whoever cannot get it gives up, and that communicator's operations are told apart by nothing but
/// "unknown".
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

/// The communicator at this address.
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

/// All communicators that are defined now, with their addresses.
pub fn live() -> impl Iterator<Item = (usize, &'static Entry)> {
    ADDRESS.iter().zip(&PLACE).filter_map(|(address, place)| {
        let address = address.load(Ordering::Acquire);
        let entry = ENTRY.get(place.load(Ordering::Relaxed) as usize)?;
        (address > REMOVED && entry.index() != NO_COMMUNICATOR).then_some((address, entry))
    })
}

/// Notes a communicator that was constructed at `address`; what was there before is gone.
pub fn made(address: usize, rank: u32, size: u32) {
    if address <= REMOVED || !life::is_on() {
        return;
    }
    gone(address);
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
    entry.state.store(MADE, Ordering::Release);
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

/// What a communicator is called and told apart by.
pub struct Identity<'a> {
    /// The same on all members.
    pub value: [u8; 16],
    /// How sure.
    pub source: IdentitySource,
    /// Whose.
    pub library: Library,
    /// Index of the parent, `u32::MAX` if none.
    pub parent: u32,
    /// For people.
    pub name: &'a [u8],
}

/// Gives the communicator at `address` its identity, a number, and a table of tags; writes its definition.
pub fn define(address: usize, identity: &Identity<'_>) {
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    if entry.state.load(Ordering::Acquire) == DEFINED {
        // Connected a second time: a new communicator at the same address.
        end(entry);
    }
    call(entry, identity);
    publish(entry);
}

/// Notes a communicator that was constructed at `address` and what it is called; [`settle`] completes it.
pub fn promised(address: usize, identity: &Identity<'_>) {
    made(address, 0, 0);
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    call(entry, identity);
    entry.state.store(PROMISED, Ordering::Release);
}

/// Rank and size of a communicator that was promised are known now.
pub fn settle(address: usize, rank: u32, size: u32) {
    let Some(entry) = find(address) else { return };
    let Some(_editing) = Editing::begin() else { return };
    // Two threads may have asked.
    if entry.state.load(Ordering::Acquire) == PROMISED {
        entry.rank.store(rank, Ordering::Relaxed);
        entry.size.store(size, Ordering::Relaxed);
        publish(entry);
    }
}

/// Writes what an entry is called. The editing lock must be held.
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
    entry.state.store(MADE, Ordering::Release);
    // SAFETY: the entry is not DEFINED and the editing lock is held, so nobody reads or writes the text.
    unsafe { (*entry.text.get()).write(text) };
}

/// Gives an entry that has a name its number and its table of tags, and writes its definition. The editing lock must be
/// held.
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

/// Writes down another identity by which some members know the communicator at `address`. It must be defined, and the
/// recorder be there: it is not written again when a recorder starts.
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

/// A zeroed table, the old one's memory if there is one. Mapped, not allocated: the job's allocator stays out of it.
/// `T` must be valid as zeros, and have no destructor.
fn renewed<T>(old: *mut T) -> *mut T {
    const { assert!(!std::mem::needs_drop::<T>()) };
    // Its pages are given back and come again as zeros: clearing them would take memory for what is never touched.
    // SAFETY: `old` is null or such a mapping, which only an ended communicator used.
    if !old.is_null() && unsafe { libc::madvise(old.cast(), size_of::<T>(), libc::MADV_DONTNEED) } == 0 {
        return old;
    }
    // SAFETY: a fresh anonymous mapping, zeroed, which is a valid empty table.
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
    // SAFETY: callers hold the editing lock, or run before any record is taken; the entry is DEFINED.
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
        &text.name[..text.name_bytes],
    );
    if !set.area.define(KIND_COMMUNICATOR, payload.as_bytes()) {
        count_missing_definition();
    }
}

/// A communicator could not be defined: its operations are nobody's.
pub fn count_missing_definition() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoDefinition, RecordKind::Call, 1, now, now);
    }
}

/// Writes the definitions of all communicators that exist when the recorder is ready: those made while it started,
/// and in a forked child those inherited.
fn define_all(set: &LaneSet) {
    let Some(_editing) = Editing::begin() else { return };
    for entry in &ENTRY {
        if entry.state.load(Ordering::Acquire) == DEFINED {
            write_definition(set, entry);
        }
    }
}

/// Forgets the communicator at this address, before its memory can be used for another.
pub fn gone(address: usize) {
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
        // SAFETY: all zero is an empty table.
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
