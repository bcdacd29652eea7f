//! Functions that NVTX calls in place of its own. A range becomes a record when it ends, a mark at once.

use super::Slot;
use super::handles::Handles;
use super::message::{self, Message, Said};
use crate::core::life;
use crate::core::texts;
use crate::cupti::mode;
use crate::thread;
use crate::thread::{NO_NUMBER, OpenRange, RANGES};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{Record, RecordKind};
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Registered strings, by handle.
pub static REGISTERED: Handles = Handles::new();
/// Created domains, by handle.
static DOMAINS: Handles = Handles::new();

/// Domain of calls that name none.
const DEFAULT: u32 = u32::MAX;
/// Domain in which NCCL marks its calls.
const NCCL: &[u8] = b"NCCL";
/// Maximum number of domains whose names are kept.
const MAX_DOMAINS: usize = 64;
const DOMAIN_BYTES: usize = 48;

struct Domain {
    name: UnsafeCell<[u8; DOMAIN_BYTES]>,
    bytes: AtomicUsize,
}

// SAFETY: `name` is written once, before `bytes` is stored with release ordering. It is read only after `bytes` was
// loaded with acquire ordering.
unsafe impl Sync for Domain {}

static DOMAIN: [Domain; MAX_DOMAINS] = [const {
    Domain {
        name: UnsafeCell::new([0; DOMAIN_BYTES]),
        bytes: AtomicUsize::new(0),
    }
}; MAX_DOMAINS];
static NEXT_DOMAIN: AtomicU32 = AtomicU32::new(0);

fn domain_name(domain: u32) -> &'static [u8] {
    let Some(domain) = DOMAIN.get(domain as usize) else {
        return b"";
    };
    let bytes = domain.bytes.load(Ordering::Acquire);
    // SAFETY: the first `bytes` bytes were written before `bytes` was stored, and never change afterwards.
    unsafe { &(&(*domain.name.get()))[..bytes.min(DOMAIN_BYTES)] }
}

/// Returns true once a recorder runs. Ranges alone do not start one.
fn is_recording() -> bool {
    life::definitions().is_some()
}

/// Returns true if the range is to be kept. NCCL's own ranges are not kept where hooks record its calls.
fn is_wanted(domain: u32) -> bool {
    is_recording() && (thread::state().nccl.depth.get() == 0 || domain_name(domain) != NCCL)
}

/// Name of an event: the number of its text, and the number at the end of the text. That number is kept separately, so
/// that a program that counts its steps has one text, not a new one in every step.
#[derive(Clone, Copy)]
struct Called {
    text: u32,
    number: u32,
}

/// Returns true for usual names of steps: "step 12", "iteration 3", "ProfilerStep#7".
fn is_step_like(what: &[u8]) -> bool {
    let end = what
        .iter()
        .rposition(|byte| byte.is_ascii_alphabetic())
        .map_or(0, |last| last + 1);
    [&b"step"[..], b"iteration", b"iter", b"batch"]
        .iter()
        .any(|word| {
            end.checked_sub(word.len())
                .is_some_and(|from| what[from..end].eq_ignore_ascii_case(word))
        })
}

/// Returns the name of an event in a domain.
fn called(domain: u32, said: &Said) -> Option<Called> {
    let name = domain_name(domain);
    let within: [&[u8]; 2] = if name.is_empty() {
        [b"", b""]
    } else {
        [name, b": "]
    };
    let (text, number) = match said {
        Said::Number(text) => (Some(*text), NO_NUMBER),
        Said::Nothing => (texts::number(&[name]), NO_NUMBER),
        Said::Text(message) => match message.counted() {
            Some((what, number)) => (texts::number(&[within[0], within[1], what, b"#"]), number),
            None => (
                texts::number(&[within[0], within[1], message.as_bytes()]),
                NO_NUMBER,
            ),
        },
    };
    if number != NO_NUMBER
        && mode::wants_steps()
        && let Said::Text(message) = said
        && let Some((what, _)) = message.counted()
        && is_step_like(what)
    {
        mode::step(number);
    }
    text.map(|text| Called { text, number })
}

fn commit(called: Called, enter_ticks: u64, leave_ticks: u64) {
    if !texts::write_down(called.text) {
        return;
    }
    let mut record = Record {
        enter_ticks,
        leave_ticks,
        object: u64::from(called.text),
        ..Record::new(RecordKind::Mark)
    };
    if called.number != NO_NUMBER && !texts::hides_number(called.text) {
        record.tag = 1;
        record.sequence = called.number;
    }
    life::commit(&thread::state().lane, &record);
}

fn mark(domain: u32, said: &Said) {
    if is_wanted(domain)
        && let Some(called) = called(domain, said)
    {
        let now = ticks();
        commit(called, now, now);
    }
}

/// Opens a range on this thread, and returns its level, from 0.
fn push(domain: u32, said: &Said) -> c_int {
    let thread = thread::state();
    let depth = thread.nvtx.depth.get();
    thread.nvtx.depth.set(depth.wrapping_add(1));
    if let Some(slot) = thread.nvtx.ranges.get(depth as usize) {
        let called = if is_wanted(domain) {
            called(domain, said)
        } else {
            None
        };
        slot.set(OpenRange {
            enter_ticks: ticks(),
            domain,
            text_plus_one: called.map_or(0, |called| called.text + 1),
            number: called.map_or(NO_NUMBER, |called| called.number),
        });
    } else if is_wanted(domain) {
        count_lost();
    }
    depth as c_int
}

/// Counts a range that is not kept, because there is no slot for it.
#[cold]
fn count_lost() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoRange, RecordKind::Mark, 1, now, now);
    }
}

/// Ends the innermost range of this domain on this thread. Returns its level, or −1 if there is none.
fn pop(domain: u32) -> c_int {
    let thread = thread::state();
    let depth = thread.nvtx.depth.get();
    if depth == 0 {
        return -1;
    }
    thread.nvtx.depth.set(depth - 1);
    if depth as usize > RANGES {
        // The range is deeper than those that are kept.
        return depth as c_int - 1;
    }
    let ranges = &thread.nvtx.ranges[..depth as usize];
    // Domains nest independently of each other.
    let Some(position) = ranges.iter().rposition(|range| range.get().domain == domain) else {
        thread.nvtx.depth.set(depth);
        return -1;
    };
    let range = ranges[position].get();
    for inner in position..ranges.len() - 1 {
        ranges[inner].set(ranges[inner + 1].get());
    }
    if range.text_plus_one > 0 && is_recording() {
        let called = Called {
            text: range.text_plus_one - 1,
            number: range.number,
        };
        commit(called, range.enter_ticks, ticks());
    }
    depth as c_int - 1
}

// ---- ranges that may end on another thread -----------------------------------------------------------------------

/// Maximum number of such ranges that are open at one time.
const MAX_OPEN: usize = 1024;
/// Maximum number of slots that are probed for one of them.
const MAX_STEPS: usize = 32;

/// Slot of an open range. `id` is 0 while it is free, and 1 while a thread fills it.
struct Started {
    id: AtomicU64,
    text: AtomicU32,
    number: AtomicU32,
    enter_ticks: AtomicU64,
}

static STARTED: [Started; MAX_OPEN] = [const {
    Started {
        id: AtomicU64::new(0),
        text: AtomicU32::new(0),
        number: AtomicU32::new(0),
        enter_ticks: AtomicU64::new(0),
    }
}; MAX_OPEN];
static LAST_ID: AtomicU64 = AtomicU64::new(1);

/// Returns the slots that can contain a range with this id.
fn places(id: u64) -> impl Iterator<Item = &'static Started> {
    let start = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 48;
    (0..MAX_STEPS).map(move |step| &STARTED[(start + step) % MAX_OPEN])
}

/// Opens a range under the id that the other injection returned, or under a new one.
fn start(domain: u32, said: &Said, given: u64) -> u64 {
    let id = if given > 1 {
        given
    } else {
        LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
    };
    if is_wanted(domain)
        && let Some(called) = called(domain, said)
    {
        let free = places(id).find(|started| {
            started
                .id
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        });
        let Some(started) = free else {
            count_lost();
            return id;
        };
        started.text.store(called.text, Ordering::Relaxed);
        started.number.store(called.number, Ordering::Relaxed);
        started.enter_ticks.store(ticks(), Ordering::Relaxed);
        started.id.store(id, Ordering::Release);
    }
    id
}

fn end(id: u64) {
    if id <= 1 {
        return;
    }
    if let Some(started) = places(id).find(|started| started.id.load(Ordering::Acquire) == id) {
        let called = Called {
            text: started.text.load(Ordering::Relaxed),
            number: started.number.load(Ordering::Relaxed),
        };
        let enter_ticks = started.enter_ticks.load(Ordering::Relaxed);
        started.id.store(0, Ordering::Release);
        if is_recording() {
            commit(called, enter_ticks, ticks());
        }
    }
}

// ---- NVTX's functions --------------------------------------------------------------------------------------------

/// Declares NVTX's functions: number in the module, arguments, body and result. `next` is the result of the other
/// injection's function, or 0.
macro_rules! functions {
    ($($(#[$doc:meta])* $slot:ident, $name:ident = $module:ident $number:literal,
        ($($argument:ident: $kind:ty),*) $(-> $result:ty)?, |$next:ident| $body:block;)*) => {
        $(
            $(#[$doc])*
            unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
                let next = SLOTS[Index::$slot as usize].next.load(Ordering::Relaxed);
                let $next = if next == 0 {
                    Default::default()
                } else {
                    // SAFETY: the other injection installed this function under this number, so it has this type. The
                    // arguments are those of NVTX, forwarded unchanged.
                    unsafe {
                        std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) $(-> $result)?>(next)(
                            $($argument),*
                        )
                    }
                };
                $body
            }
        )*

        #[repr(usize)]
        enum Index { $($slot,)* }

        /// All functions that are installed in NVTX's tables.
        pub(super) static SLOTS: [Slot; [$(stringify!($slot)),*].len()] = [$(
            Slot::$module($number, $name as *const c_void),
        )*];
    };
}

/// Returns the domain with this handle.
fn domain_of(handle: usize) -> u32 {
    DOMAINS.get(handle).unwrap_or(DEFAULT)
}

/// Returns the level for the caller: the other injection's, if there is one.
fn level(next: c_int, ours: c_int, slot: &Slot) -> c_int {
    if slot.next.load(Ordering::Relaxed) == 0 {
        ours
    } else {
        next
    }
}

fn register(said: Message, domain: usize, given: usize) -> usize {
    // A registered text is used many times, so it is kept whole, also if it ends with a number.
    let name = domain_name(domain_of(domain));
    let within: [&[u8]; 2] = if name.is_empty() {
        [b"", b""]
    } else {
        [name, b": "]
    };
    let number = texts::number(&[within[0], within[1], said.as_bytes()]);
    let handle = if given != 0 {
        given
    } else {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    };
    if let Some(number) = number {
        REGISTERED.put(handle, number);
    }
    handle
}

fn create(name: &Message, given: usize) -> usize {
    let number = NEXT_DOMAIN.fetch_add(1, Ordering::Relaxed);
    if let Some(domain) = DOMAIN.get(number as usize) {
        let bytes = name.as_bytes().len().min(DOMAIN_BYTES);
        // SAFETY: only this call has this number. No thread reads the name before `bytes` is stored.
        unsafe { (&mut (*domain.name.get()))[..bytes].copy_from_slice(&name.as_bytes()[..bytes]) };
        domain.bytes.store(bytes, Ordering::Release);
    }
    let handle = if given != 0 { given } else { number as usize + 1 };
    DOMAINS.put(handle, number);
    handle
}

// SAFETY, for every `unsafe` block below: NVTX forwards its caller's arguments, and these are their types.
functions! {
    MarkEx, mark_ex = core 1, (attributes: *const u8), |next| {
        let () = next;
        // SAFETY: as above.
        mark(DEFAULT, &unsafe { message::of_attributes(attributes) });
    };
    MarkA, mark_a = core 2, (text: *const c_char), |next| {
        let () = next;
        // SAFETY: as above.
        mark(DEFAULT, &Said::Text(unsafe { Message::narrow(text) }));
    };
    MarkW, mark_w = core 3, (text: *const u32), |next| {
        let () = next;
        // SAFETY: as above.
        mark(DEFAULT, &Said::Text(unsafe { Message::wide(text) }));
    };
    StartEx, start_ex = core 4, (attributes: *const u8) -> u64, |next| {
        // SAFETY: as above.
        start(DEFAULT, &unsafe { message::of_attributes(attributes) }, next)
    };
    StartA, start_a = core 5, (text: *const c_char) -> u64, |next| {
        // SAFETY: as above.
        start(DEFAULT, &Said::Text(unsafe { Message::narrow(text) }), next)
    };
    StartW, start_w = core 6, (text: *const u32) -> u64, |next| {
        // SAFETY: as above.
        start(DEFAULT, &Said::Text(unsafe { Message::wide(text) }), next)
    };
    End, range_end = core 7, (id: u64), |next| {
        let () = next;
        end(id);
    };
    PushEx, push_ex = core 8, (attributes: *const u8) -> c_int, |next| {
        // SAFETY: as above.
        let ours = push(DEFAULT, &unsafe { message::of_attributes(attributes) });
        level(next, ours, &SLOTS[Index::PushEx as usize])
    };
    PushA, push_a = core 9, (text: *const c_char) -> c_int, |next| {
        // SAFETY: as above.
        let ours = push(DEFAULT, &Said::Text(unsafe { Message::narrow(text) }));
        level(next, ours, &SLOTS[Index::PushA as usize])
    };
    PushW, push_w = core 10, (text: *const u32) -> c_int, |next| {
        // SAFETY: as above.
        let ours = push(DEFAULT, &Said::Text(unsafe { Message::wide(text) }));
        level(next, ours, &SLOTS[Index::PushW as usize])
    };
    Pop, range_pop = core 11, () -> c_int, |next| {
        level(next, pop(DEFAULT), &SLOTS[Index::Pop as usize])
    };
    DomainMarkEx, domain_mark_ex = core2 1, (domain: usize, attributes: *const u8), |next| {
        let () = next;
        // SAFETY: as above.
        mark(domain_of(domain), &unsafe { message::of_attributes(attributes) });
    };
    DomainStartEx, domain_start_ex = core2 2, (domain: usize, attributes: *const u8) -> u64, |next| {
        // SAFETY: as above.
        start(domain_of(domain), &unsafe { message::of_attributes(attributes) }, next)
    };
    DomainEnd, domain_range_end = core2 3, (_domain: usize, id: u64), |next| {
        let () = next;
        end(id);
    };
    DomainPushEx, domain_push_ex = core2 4, (domain: usize, attributes: *const u8) -> c_int, |next| {
        // SAFETY: as above.
        let ours = push(domain_of(domain), &unsafe { message::of_attributes(attributes) });
        level(next, ours, &SLOTS[Index::DomainPushEx as usize])
    };
    DomainPop, domain_range_pop = core2 5, (domain: usize) -> c_int, |next| {
        level(next, pop(domain_of(domain)), &SLOTS[Index::DomainPop as usize])
    };
    RegisterA, register_a = core2 10, (domain: usize, text: *const c_char) -> usize, |next| {
        // SAFETY: as above.
        register(unsafe { Message::narrow(text) }, domain, next)
    };
    RegisterW, register_w = core2 11, (domain: usize, text: *const u32) -> usize, |next| {
        // SAFETY: as above.
        register(unsafe { Message::wide(text) }, domain, next)
    };
    CreateA, create_a = core2 12, (name: *const c_char) -> usize, |next| {
        // SAFETY: as above.
        create(&unsafe { Message::narrow(name) }, next)
    };
    CreateW, create_w = core2 13, (name: *const u32) -> usize, |next| {
        // SAFETY: as above.
        create(&unsafe { Message::wide(name) }, next)
    };
}
