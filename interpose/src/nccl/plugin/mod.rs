//! The same library as NCCL's own profiler plugin, versions 1 to 6 of its interface: the side of an operation that its
//! call does not show. Algorithm, protocol, channels; from version 4 on (NCCL 2.27) when the kernel really worked on
//! it; replays of graphs; and callers that bypass a preload.
//!
//! NCCL finds it by NCCL_PROFILER_PLUGIN, which the launcher sets, or the constructor where there is no launcher;
//! whatever the user has put there stays. The two sources are joined, not added: a call's record says how many device
//! records belong to it, and those carry its key. From version 5 on the library names the call that an operation comes
//! from; before, [`pending`] finds it.
//!
//! Callbacks come from the program's threads, from the driver's and from the library's proxies. They take no lock,
//! allocate nothing and wait for nobody; the exceptions are `init`, which is part of a call that takes milliseconds,
//! and the first operation of a communicator that bypasses the hooks, which is then given its definition.

pub mod abi;
pub mod contexts;
pub mod handles;
pub mod tasks;
pub mod traffic;
pub mod words;

use crate::core::communicators::{self, Entry};
use crate::core::configuration;
use crate::core::life;
use crate::core::pending::Asked;
use crate::core::thread;
use crate::core::thread::ThreadState;
use abi::{Narrow, Plugin, Wide, event, state};
use contexts::Context;
use handles::Call;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::record::{
    Algorithm, DeviceWork, Enqueued, FLAG_BYTES_UNKNOWN, FLAG_CAPTURED, FLAG_DIRECT, FLAG_SEQUENCE_UNKNOWN,
    NO_COMMUNICATOR, NO_PEER, Record, RecordKind,
};
use rankscope_ranklog::{Library, Operation};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

const SUCCESS: c_int = 0;

/// Version of the interface that the library chose; 0: it has not loaded us.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// The process to which the library spoke last: what its proxies do for others is not ours.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Where the library looks for which events we want, and which that are.
static MASK: AtomicPtr<AtomicI32> = AtomicPtr::new(std::ptr::null_mut());
static WANTED: AtomicI32 = AtomicI32::new(0);

/// Nothing is asked for until [`resume`].
static PAUSED: AtomicBool = AtomicBool::new(false);

fn want(events: i32) {
    // SAFETY: null or the library's one mask for the whole process, which it reads as an atomic; forgotten when its last
    // communicator is gone.
    if let Some(mask) = unsafe { MASK.load(Ordering::Acquire).as_ref() } {
        mask.store(events, Ordering::Relaxed);
    }
}

/// Asks the library for nothing, so that it does nothing for us, until [`resume`].
pub fn pause() {
    PAUSED.store(true, Ordering::Relaxed);
    announce_pending();
    want(0);
}

/// Asks for what was asked for before.
pub fn resume() {
    PAUSED.store(false, Ordering::Relaxed);
    announce_pending();
    want(WANTED.load(Ordering::Relaxed));
}

/// The version of the interface from which on the library tells when kernels worked.
pub const FIRST_WITH_TIMES: u32 = 4;

/// What the header says of this source.
const SOURCE: &str = "source.nccl_plugin";

/// The version by which the library speaks to us; 0 if it does not.
#[inline]
pub fn version() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

/// True if the library tells of operations without naming the calls they come from.
#[inline]
pub fn needs_pending() -> bool {
    (1..=4).contains(&version()) && !PAUSED.load(Ordering::Relaxed)
}

/// Says whether new communicators need a list of pending calls.
fn announce_pending() {
    communicators::need_pending(needs_pending());
}

/// Writes down that this source is active, when the recorder is ready.
pub fn define(set: &LaneSet) {
    let version = version();
    if version > 0 {
        let payload = Payload::property(SOURCE, &[b'0' + version.min(9) as u8]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}

// ---- init and finalize -------------------------------------------------------------------------------------------

/// A communicator is made. The mask is one for the whole process, as the library has it.
unsafe fn open(context: *mut *mut c_void, mask: *mut c_int, told: &contexts::Told) -> c_int {
    // SAFETY: NCCL passes the places of both.
    unsafe {
        context.write(std::ptr::null_mut());
        if !life::is_on() {
            return SUCCESS;
        }
        life::wait_for_start();
        PROCESS.store(libc::getpid(), Ordering::Relaxed);
        let is_first = VERSION.swap(told.version, Ordering::Relaxed) == 0;
        announce_pending();
        if is_first && let Some(set) = life::definitions() {
            define(set);
        }
        let Some(place) = contexts::open(told) else {
            crate::core::communicators::count_missing_definition();
            return SUCCESS;
        };
        context.write(place.address());
        let mut wanted = event::COLL | event::P2P;
        if told.version >= FIRST_WITH_TIMES {
            wanted |= event::KERNEL_CH;
            if configuration::wants_traffic() {
                wanted |= event::PROXY_OP | event::PROXY_STEP;
            }
        }
        if told.version >= 6 {
            wanted |= event::CE_COLL;
        }
        WANTED.store(wanted as i32, Ordering::Relaxed);
        MASK.store(mask.cast(), Ordering::Release);
        want(if PAUSED.load(Ordering::Relaxed) {
            0
        } else {
            wanted as i32
        });
    }
    SUCCESS
}

unsafe extern "C" fn init<const V: u32>(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let told = contexts::Told {
        version: V,
        identity: 0,
        name: std::ptr::null(),
        size: 0,
        rank: 0,
    };
    // SAFETY: handed through.
    unsafe { open(context, mask, &told) }
}

unsafe extern "C" fn init_4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    identity: u64,
    _nodes: c_int,
    size: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    let told = contexts::Told {
        version: 4,
        identity,
        name,
        size: u32::try_from(size).unwrap_or(0),
        rank: u32::try_from(rank).unwrap_or(0),
    };
    // SAFETY: handed through.
    unsafe { open(context, mask, &told) }
}

unsafe extern "C" fn init_5<const V: u32>(
    context: *mut *mut c_void,
    identity: u64,
    mask: *mut c_int,
    name: *const c_char,
    _nodes: c_int,
    size: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    let told = contexts::Told {
        version: V,
        identity,
        name,
        size: u32::try_from(size).unwrap_or(0),
        rank: u32::try_from(rank).unwrap_or(0),
    };
    // SAFETY: handed through.
    unsafe { open(context, mask, &told) }
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    if let Some(context) = contexts::known(context) {
        if let Some(index) = context.index() {
            tasks::communicator_ended(index);
            if configuration::wants_traffic() {
                traffic::communicator_ended(index);
            }
        }
        let mask = MASK.load(Ordering::Acquire);
        context.close();
        if contexts::none_is_open() {
            // The library may be unloaded from here on, and the mask is its own; unless another has come meanwhile.
            let _ = MASK.compare_exchange(mask, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
    SUCCESS
}

// ---- what begins -------------------------------------------------------------------------------------------------

/// An operation, in whatever words a version tells it.
struct Operated {
    operation: Option<Operation>,
    send: usize,
    receive: usize,
    bytes: u64,
    element_bytes: u8,
    peer: i32,
    number: u32,
    channels: u8,
    work: DeviceWork,
}

impl Operated {
    /// # Safety
    /// The words must be C strings.
    unsafe fn coll(told: &abi::Coll4) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let element_bytes = words::element_bytes(told.data_type);
            Self {
                operation: words::operation(told.function),
                send: told.send as usize,
                receive: told.receive as usize,
                bytes: (told.count as u64).saturating_mul(u64::from(element_bytes)),
                element_bytes,
                peer: told.root,
                number: told.number as u32,
                channels: told.channels,
                work: DeviceWork {
                    warps: told.warps,
                    channels: told.channels,
                    algorithm: words::algorithm(told.algorithm),
                    protocol: words::protocol(told.protocol),
                    duration_ns: 0,
                },
            }
        }
    }

    /// # Safety
    /// The words must be C strings.
    unsafe fn p2p(
        function: *const c_char,
        buffer: usize,
        data_type: *const c_char,
        count: usize,
        peer: i32,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let element_bytes = words::element_bytes(data_type);
            Self {
                operation: words::operation(function),
                send: buffer,
                receive: buffer,
                bytes: (count as u64).saturating_mul(u64::from(element_bytes)),
                element_bytes,
                peer,
                number: 0,
                channels: 0,
                work: DeviceWork::default(),
            }
        }
    }
}

/// The library passes a root also where the operation has none.
fn has_root(operation: Operation) -> bool {
    use Operation::{Broadcast, Gather, Reduce, Scatter};
    matches!(operation, Broadcast | Reduce | Gather | Scatter)
}

fn is_message(operation: Operation) -> bool {
    matches!(operation, Operation::Send | Operation::Receive)
}

/// The call that this thread is in, if a hook knows of it.
fn call_in_progress(thread: &ThreadState) -> Option<Call> {
    if thread.nccl_depth.get() == 0 {
        return None;
    }
    Call::from_bits(thread.nccl_call.get())
}

/// The program called: a hook knows already, or nobody else will ever know. The handle by which the library names the
/// call from now on.
fn called(context: &'static Context, operated: &Operated, stream: usize, is_captured: bool) -> u64 {
    let thread = thread::state();
    if let Some(call) = call_in_progress(thread) {
        context.belongs_to(thread.nccl_handle.get(), call.communicator);
        thread.nccl_parts.set(thread.nccl_parts.get().saturating_add(1));
        return call.to_bits();
    }
    bypassed(context, operated, stream, is_captured).to_bits()
}

/// Records a call that no hook saw, from what the library tells of it.
fn bypassed(context: &'static Context, operated: &Operated, stream: usize, is_captured: bool) -> Call {
    let operation = operated.operation.unwrap_or(Operation::Unknown);
    let now = ticks();
    let mut record = Record {
        operation: operation as u8,
        flags: FLAG_DIRECT,
        element_bytes: operated.element_bytes,
        enter_ticks: now,
        leave_ticks: now,
        bytes: operated.bytes,
        object: stream as u64,
        ..Record::new(RecordKind::Enqueue)
    };
    if is_captured {
        record.flags |= FLAG_CAPTURED;
    }
    if operated.element_bytes == 0 {
        record.flags |= FLAG_BYTES_UNKNOWN;
    }
    if is_message(operation) || has_root(operation) {
        record.peer = operated.peer;
    }
    let sequence = context.bypassed().and_then(|entry| {
        record.communicator = entry.index();
        let (what, tag) = if is_message(operation) {
            (operation as u8, operated.peer as u32)
        } else {
            (0, 0)
        };
        entry.next_sequence(what, tag)
    });
    match sequence {
        Some(sequence) => record.sequence = sequence,
        None => record.flags |= FLAG_SEQUENCE_UNKNOWN,
    }
    let enqueued = Enqueued {
        group: 0,
        data_type: Enqueued::NONE,
        reduction: Enqueued::NONE,
        // What came without a key cannot be found again.
        parts: u8::from(sequence.is_some()),
        is_bypass: true,
        is_timed: false,
        is_linked: false,
    };
    record.aux = enqueued.to_aux();
    life::commit(thread::state(), &record);
    Call {
        communicator: record.communicator,
        sequence: record.sequence,
        operation: record.operation,
        flags: record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN),
    }
}

/// An operation reached its stream. `parent` is the call it comes from, where this version names it.
fn reached(context: &'static Context, operated: &Operated, parent: u64) -> u64 {
    let Some(operation) = operated.operation else {
        return 0;
    };
    let call = Call::from_bits(parent).unwrap_or_else(|| joined(context, operated, operation));
    let called = Operation::from_u8(call.operation).unwrap_or(operation);
    tasks::begin(&tasks::Told {
        call,
        peer: if is_message(called) || has_root(called) {
            operated.peer
        } else {
            NO_PEER
        },
        bytes: operated.bytes,
        element_bytes: operated.element_bytes,
        number: operated.number,
        channels: operated.channels,
        work: operated.work,
    })
}

/// Finds the call for versions that do not name it.
fn joined(context: &'static Context, operated: &Operated, operation: Operation) -> Call {
    let thread = thread::state();
    // Some versions end a group of their own through a name that we hook: then nothing was called in it.
    let is_under_a_hook = thread.nccl_depth.get() > 0
        && (thread.nccl_call.get() != 0 || thread.nccl_group_operations.get() > 0);
    let asked = Asked {
        operation: operation as u8,
        send: operated.send,
        receive: operated.receive,
        bytes: operated.bytes,
        peer: if is_message(operation) { operated.peer } else { 0 },
    };
    // A call outside groups is launched before it returns: then it is that one and no other.
    let in_progress = match call_in_progress(thread) {
        Some(call) if call.operation == asked.operation => thread.nccl_call.get(),
        _ => 0,
    };
    let take = |entry: &'static Entry| {
        let pending = entry.pending()?;
        if in_progress != 0 && pending.take_call(in_progress) {
            return Some(in_progress);
        }
        pending.take(&asked)
    };
    if let Some(entry) = context.hooked() {
        if let Some(call) = take(entry).and_then(Call::from_bits) {
            return call;
        }
    } else if !context.bypasses() {
        // The first operation of this communicator, on whatever thread: whose buffers are these?
        let found = crate::core::communicators::live()
            .filter(|(_, entry)| context.can_be(entry))
            .find_map(|(handle, entry)| take(entry).map(|call| (handle, call)));
        if let Some((handle, call)) = found
            && let Some(call) = Call::from_bits(call)
        {
            context.belongs_to(handle, call.communicator);
            return call;
        }
    }
    // A communicator that hooks know and that no plugin's has met may be this one, whose calls were captured.
    let may_be_hooked = || {
        crate::core::communicators::live().any(|(handle, entry)| {
            contexts::known(handle as *mut c_void).is_none()
                && entry.is_of(Library::Nccl)
                && context.can_be(entry)
                && !contexts::is_met(handle)
        })
    };
    if is_under_a_hook || context.hooked().is_some() || (!context.bypasses() && may_be_hooked()) {
        // A replay of a graph: this version does not say of which call.
        return Call {
            communicator: context.index().unwrap_or(NO_COMMUNICATOR),
            sequence: 0,
            operation: operation as u8,
            flags: FLAG_SEQUENCE_UNKNOWN,
        };
    }
    context.set_bypasses();
    bypassed(context, operated, 0, false)
}

/// Any handle: the library asks no more of it than that it is one.
const GROUP: u64 = 7 << 61;

unsafe fn began(
    context: *mut c_void,
    handle: *mut *mut c_void,
    begin: impl FnOnce(&'static Context) -> u64,
) -> c_int {
    let bits = contexts::known(context).map_or(0, begin);
    // SAFETY: NCCL passes a place for the handle.
    unsafe { handle.write(bits as *mut c_void) };
    SUCCESS
}

unsafe extern "C" fn start_event_5(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: the descriptor is as its kind says; words are C strings (profiler_v5.h, profiler_v6.h).
    unsafe {
        let head = &*descriptor.cast::<abi::Head>();
        let parent = head.parent as u64;
        began(context, handle, |context| match head.kind {
            event::COLL_API => {
                let told = &(*descriptor.cast::<Wide<abi::CollApi>>()).what;
                let operated = Operated::p2p(told.function, 0, told.data_type, told.count, told.root);
                called(context, &operated, told.stream as usize, told.is_captured != 0)
            }
            event::P2P_API => {
                let told = &(*descriptor.cast::<Wide<abi::P2pApi>>()).what;
                // This version does not tell the peer of a call; what bypasses the hooks gets its key from the
                // operation itself.
                let operated = Operated::p2p(told.function, 0, told.data_type, told.count, NO_PEER);
                called_message(context, &operated, told.stream as usize, told.is_captured != 0)
            }
            event::COLL => {
                let operated = Operated::coll(&(*descriptor.cast::<Wide<abi::Coll4>>()).what);
                reached(context, &operated, parent)
            }
            event::P2P => {
                let told = &(*descriptor.cast::<Wide<abi::P2p4>>()).what;
                reached_message(context, told, parent)
            }
            // Told while it is captured, and not when it is replayed: nothing ran.
            event::CE_COLL if Call::from_bits(parent).is_some_and(|call| call.flags & FLAG_CAPTURED != 0) => {
                GROUP
            }
            event::CE_COLL => {
                let mut operated = Operated::coll(&copy_engine(descriptor));
                operated.channels = 0;
                operated.work = DeviceWork {
                    algorithm: Algorithm::CopyEngine,
                    ..DeviceWork::default()
                };
                reached(context, &operated, parent)
            }
            event::KERNEL_CH => channel_began(parent, &(*descriptor.cast::<Wide<abi::KernelCh>>()).what),
            event::PROXY_OP => proxy_began(context, &(*descriptor.cast::<Wide<abi::ProxyOp>>()).what),
            event::PROXY_STEP => traffic::step_began(parent),
            _ => GROUP,
        })
    }
}

/// A send or a receive is called. Behind the hooks' back its key comes with its operation, which alone names the peer.
fn called_message(context: &'static Context, operated: &Operated, stream: usize, is_captured: bool) -> u64 {
    let thread = thread::state();
    match call_in_progress(thread) {
        Some(_) => called(context, operated, stream, is_captured),
        None => GROUP,
    }
}

/// # Safety
/// The words must be C strings.
unsafe fn reached_message(context: &'static Context, told: &abi::P2p4, parent: u64) -> u64 {
    // SAFETY: the caller's promise.
    let mut operated = unsafe {
        Operated::p2p(
            told.function,
            told.buffer as usize,
            told.data_type,
            told.count,
            told.peer,
        )
    };
    // What a rank sends to itself is a copy, of which no channel will tell.
    if u32::try_from(told.peer) != Ok(context.rank()) {
        operated.channels = told.channels;
        operated.work.channels = told.channels;
    }
    if parent == GROUP && version() >= 5 {
        let parent = bypassed(context, &operated, 0, false).to_bits();
        return reached(context, &operated, parent);
    }
    reached(context, &operated, parent)
}

/// What version 6 tells of a collective of the copy engines, in the words of the others.
///
/// # Safety
/// `descriptor` must be of this kind.
unsafe fn copy_engine(descriptor: *const c_void) -> abi::Coll4 {
    // SAFETY: the members up to the type are the same as a collective's (profiler_v6.h).
    let told = unsafe { &(*descriptor.cast::<Wide<abi::CeColl>>()).what };
    abi::Coll4 {
        number: told.number,
        function: told.function,
        send: told.send,
        receive: told.receive,
        count: told.count,
        root: told.root,
        data_type: told.data_type,
        channels: 0,
        warps: 0,
        algorithm: std::ptr::null(),
        protocol: std::ptr::null(),
    }
}

fn channel_began(parent: u64, told: &abi::KernelCh) -> u64 {
    match handles::task(parent) {
        Some(slot) => {
            tasks::channel_began(slot, told.timer_ns);
            handles::of_channel(slot)
        }
        None => 0,
    }
}

fn proxy_began(context: &'static Context, told: &abi::ProxyOp) -> u64 {
    if told.pid != PROCESS.load(Ordering::Relaxed) {
        // Done for another process of this node, whose context this is an address of (PXN).
        return 0;
    }
    traffic::work_began(context, told)
}

unsafe extern "C" fn start_event_4(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: the descriptor is as its kind says; words are C strings (profiler_v4.h).
    unsafe {
        let head = &*descriptor.cast::<abi::NarrowHead>();
        let parent = head.parent as u64;
        began(context, handle, |context| match u64::from(head.kind) {
            event::COLL => {
                let operated = Operated::coll(&(*descriptor.cast::<Narrow<abi::Coll4>>()).what);
                reached(context, &operated, 0)
            }
            event::P2P => reached_message(context, &(*descriptor.cast::<Narrow<abi::P2p4>>()).what, 0),
            event::KERNEL_CH => channel_began(parent, &(*descriptor.cast::<Narrow<abi::KernelCh>>()).what),
            event::PROXY_OP => proxy_began(context, &(*descriptor.cast::<Narrow<abi::ProxyOp>>()).what),
            event::PROXY_STEP => traffic::step_began(parent),
            _ => GROUP,
        })
    }
}

/// Versions 1 to 3 tell nothing of the device: an operation is known when it has been handed on.
unsafe extern "C" fn start_event_1<const V: u32>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: the descriptor is as its kind says; words are C strings (profiler_v1.h to profiler_v3.h).
    unsafe {
        let head = &*descriptor.cast::<abi::NarrowHead>();
        began(context, handle, |context| match u64::from(head.kind) {
            event::COLL => {
                let mut operated = coll_before_4::<V>(descriptor);
                operated.channels = 0;
                reached(context, &operated, 0)
            }
            event::P2P if V == 1 => {
                let told = &(*descriptor.cast::<Narrow<abi::P2p1>>()).what;
                let null = std::ptr::null();
                let mut operated = Operated::p2p(null, told.buffer as usize, null, told.count, told.peer);
                operated.operation = words::operation_by_number(told.function);
                operated.element_bytes = super::data_type::element_bytes(u32::from(told.data_type));
                operated.bytes = (told.count as u64).saturating_mul(u64::from(operated.element_bytes));
                reached(context, &operated, 0)
            }
            event::P2P => {
                let told = &(*descriptor.cast::<Narrow<abi::P2p2>>()).what;
                let operated = Operated::p2p(
                    told.function,
                    told.buffer as usize,
                    told.data_type,
                    told.count,
                    told.peer,
                );
                reached(context, &operated, 0)
            }
            _ => GROUP,
        })
    }
}

/// # Safety
/// `descriptor` must be a collective's of version `V`, which is below 4.
unsafe fn coll_before_4<const V: u32>(descriptor: *const c_void) -> Operated {
    // SAFETY: the caller's promise.
    unsafe {
        match V {
            3 => Operated::coll(&(*descriptor.cast::<Narrow<abi::Coll3>>()).what.rest),
            2 => {
                let told = &(*descriptor.cast::<Narrow<abi::Coll2>>()).what;
                Operated::coll(&abi::Coll4 {
                    number: told.number,
                    function: told.function,
                    send: told.send,
                    receive: told.receive,
                    count: told.count,
                    root: told.root,
                    data_type: told.data_type,
                    channels: told.channels,
                    warps: told.warps,
                    algorithm: told.algorithm,
                    protocol: told.protocol,
                })
            }
            _ => {
                let told = &(*descriptor.cast::<Narrow<abi::Coll1>>()).what;
                let element_bytes = super::data_type::element_bytes(u32::from(told.data_type));
                Operated {
                    operation: words::operation_by_number(told.function),
                    send: told.send as usize,
                    receive: told.receive as usize,
                    bytes: (told.count as u64).saturating_mul(u64::from(element_bytes)),
                    element_bytes,
                    peer: told.root,
                    number: told.number as u32,
                    channels: 0,
                    work: DeviceWork {
                        warps: told.warps,
                        channels: told.channels,
                        algorithm: words::algorithm_by_number(told.algorithm),
                        protocol: words::protocol_by_number(told.protocol),
                        duration_ns: 0,
                    },
                }
            }
        }
    }
}

// ---- what goes on and ends ---------------------------------------------------------------------------------------

unsafe extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    let bits = handle as u64;
    // What a channel has to say at its end it says by its state.
    if let Some(slot) = handles::task(bits) {
        tasks::handed_on(slot);
    } else if let Some(slot) = handles::step(bits) {
        traffic::step_ended(slot);
    } else if let Some(slot) = handles::traffic(bits) {
        traffic::work_ended(slot);
    }
    SUCCESS
}

unsafe extern "C" fn record_event_state(handle: *mut c_void, to: c_int, arguments: *const c_void) -> c_int {
    let bits = handle as u64;
    if arguments.is_null() {
        return SUCCESS;
    }
    if let Some(slot) = handles::channel(bits) {
        if to == state::KERNEL_CH_STOP {
            // SAFETY: this state's argument is the device's timer (profiler_v4.h and later).
            tasks::channel_ended(slot, unsafe { arguments.cast::<u64>().read() });
        }
    } else if let Some(slot) = handles::step(bits) {
        // SAFETY: the argument of a step's states is a size (profiler_v4.h and later).
        traffic::step_went_on(slot, to, unsafe { arguments.cast::<usize>().read() } as u64);
    }
    SUCCESS
}

unsafe extern "C" fn ignore_event_state(_: *mut c_void, _: c_int, _: *const c_void) -> c_int {
    SUCCESS
}

// ---- what NCCL looks for -----------------------------------------------------------------------------------------

const NAME: *const c_char = c"rankscope".as_ptr();

macro_rules! plugins {
    ($($symbol:ident: $init:ty = $function:expr, $start:expr, $state:expr;)*) => {
        $(
            /// Looked up by name by NCCL.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
            pub static $symbol: Plugin<$init> = Plugin {
                name: NAME,
                init: $function,
                start_event: $start,
                stop_event,
                record_event_state: $state,
                finalize,
            };
        )*
    };
}

plugins! {
    ncclProfiler_v1: abi::Init1 = init::<1>, start_event_1::<1>, ignore_event_state;
    ncclProfiler_v2: abi::Init1 = init::<2>, start_event_1::<2>, ignore_event_state;
    ncclProfiler_v3: abi::Init1 = init::<3>, start_event_1::<3>, ignore_event_state;
    ncclProfiler_v4: abi::Init4 = init_4, start_event_4, record_event_state;
    ncclProfiler_v5: abi::Init5 = init_5::<5>, start_event_5, record_event_state;
    ncclProfiler_v6: abi::Init5 = init_5::<6>, start_event_5, record_event_state;
}
