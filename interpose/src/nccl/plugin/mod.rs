//! NCCL's profiler plugin, versions 1 to 6 of the interface, in the same library. It reports what a call does not show.
//!
//! It reports algorithm, protocol and channels; from version 4 on (NCCL 2.27) the times at which the kernel processed
//! the operation; replays of graphs; and callers that bypass the preload.
//!
//! NCCL finds the plugin through NCCL_PROFILER_PLUGIN. The launcher sets this variable, or the constructor if there is
//! no launcher. A value that the user has set stays. The two sources are joined, not added: a call's record contains
//! the number of device records that belong to it, and those carry the call's key. From version 5 on the library names
//! the call that an operation comes from. In earlier versions [`pending`](crate::core::pending) finds it.
//!
//! Callbacks run on the program's threads, the driver's threads and the library's proxies. They take no lock, allocate
//! nothing and wait for no thread. There are two exceptions. `init` is part of a call that takes milliseconds. The
//! first operation of a communicator that bypasses the hooks writes its definition.

pub mod abi;
pub mod contexts;
pub mod handles;
pub mod kernel_times;
pub mod names;
pub mod tasks;
pub mod traffic;

use crate::core::communicators::{self, Entry};
use crate::core::configuration;
use crate::core::life;
use crate::core::pending::Asked;
use crate::thread;
use crate::thread::ThreadState;
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
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

const SUCCESS: c_int = 0;

/// Version of the interface that the library chose; 0 if it has not loaded this plugin.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// Process that last called `init`. Its proxies also work for other processes, and that work is not recorded here.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Address at which the library reads the mask of requested events, and the events that its version can report.
static MASK: AtomicPtr<AtomicI32> = AtomicPtr::new(std::ptr::null_mut());
static WANTED: AtomicU64 = AtomicU64::new(0);

/// True while no events are requested, until [`resume`].
static PAUSED: AtomicBool = AtomicBool::new(false);

/// Requests the events that the current state requires. Each change of the state is followed by this call. It repeats the
/// store if another thread has changed the state meanwhile, so the last change takes effect.
fn apply_request() {
    let required = || {
        if PAUSED.load(Ordering::Relaxed) {
            0
        } else {
            kernel_times::permitted(WANTED.load(Ordering::Relaxed))
        }
    };
    // The change precedes the reads below, and each store precedes the next reads. Otherwise two threads could each miss
    // the other's change.
    fence(Ordering::SeqCst);
    loop {
        let events = required();
        // SAFETY: the pointer is null or the library's only mask for the whole process, which the library reads as an
        // atomic. It is set to null when the library's last communicator has ended.
        let Some(mask) = (unsafe { MASK.load(Ordering::Acquire).as_ref() }) else {
            return;
        };
        mask.store(events as i32, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if required() == events {
            return;
        }
    }
}

/// Requests no events until [`resume`], so that the library does no work for this plugin.
pub fn pause() {
    PAUSED.store(true, Ordering::Relaxed);
    announce_pending();
    apply_request();
}

/// Requests the events that were requested before [`pause`].
pub fn resume() {
    kernel_times::resumed();
    PAUSED.store(false, Ordering::Relaxed);
    announce_pending();
    apply_request();
}

/// First version of the interface in which the library reports the times of kernels.
pub const FIRST_WITH_TIMES: u32 = 4;

/// Property of the log's header for this source.
const SOURCE: &str = "source.nccl_plugin";

/// Returns the version of the interface that the library uses; 0 if it does not use the plugin.
#[inline]
pub fn version() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

/// Returns true if the library reports operations without naming their calls.
#[inline]
pub fn needs_pending() -> bool {
    (1..=4).contains(&version()) && !PAUSED.load(Ordering::Relaxed)
}

/// Sets whether new communicators need a list of pending calls.
fn announce_pending() {
    communicators::need_pending(needs_pending());
}

/// Writes that this source is active. Runs when the recorder is ready.
pub fn define(set: &LaneSet) {
    let version = version();
    if version > 0 {
        let payload = Payload::property(SOURCE, &[b'0' + version.min(9) as u8]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
    kernel_times::define(set);
}

// ---- init and finalize -------------------------------------------------------------------------------------------

/// Handles the creation of a communicator. The library has one mask for the whole process.
unsafe fn open(context: *mut *mut c_void, mask: *mut c_int, arguments: &contexts::InitArguments) -> c_int {
    // SAFETY: NCCL passes valid pointers for the context and for the mask, and a C string or null as name.
    unsafe {
        context.write(std::ptr::null_mut());
        if !life::is_on() {
            return SUCCESS;
        }
        life::wait_for_start();
        PROCESS.store(libc::getpid(), Ordering::Relaxed);
        let is_first = VERSION.swap(arguments.version, Ordering::Relaxed) == 0;
        announce_pending();
        if is_first && let Some(set) = life::definitions() {
            define(set);
        }
        let Some(place) = contexts::open(arguments) else {
            crate::core::communicators::count_missing_definition();
            return SUCCESS;
        };
        context.write(place.address());
        let mut wanted = event::COLL | event::P2P;
        if arguments.version >= FIRST_WITH_TIMES {
            wanted |= event::KERNEL_CH;
            if configuration::wants_traffic() {
                wanted |= event::PROXY_OP | event::PROXY_STEP;
            }
        }
        if arguments.version >= 6 {
            wanted |= event::CE_COLL;
        }
        WANTED.store(wanted, Ordering::Relaxed);
        MASK.store(mask.cast(), Ordering::Release);
        apply_request();
    }
    SUCCESS
}

unsafe extern "C" fn init<const V: u32>(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let arguments = contexts::InitArguments {
        version: V,
        identity: 0,
        name: std::ptr::null(),
        size: 0,
        rank: 0,
    };
    // SAFETY: NCCL's own arguments of `init` are forwarded unchanged, and the name is null.
    unsafe { open(context, mask, &arguments) }
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
    let arguments = contexts::InitArguments {
        version: 4,
        identity,
        name,
        size: u32::try_from(size).unwrap_or(0),
        rank: u32::try_from(rank).unwrap_or(0),
    };
    // SAFETY: NCCL's own arguments of `init` are forwarded unchanged; its name is null or a C string.
    unsafe { open(context, mask, &arguments) }
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
    let arguments = contexts::InitArguments {
        version: V,
        identity,
        name,
        size: u32::try_from(size).unwrap_or(0),
        rank: u32::try_from(rank).unwrap_or(0),
    };
    // SAFETY: NCCL's own arguments of `init` are forwarded unchanged; its name is null or a C string.
    unsafe { open(context, mask, &arguments) }
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
            // From here on the library may be unloaded, and the mask with it. If another library has stored a mask
            // meanwhile, that one stays.
            let removed =
                MASK.compare_exchange(mask, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
            // Another communicator may have been created since, with the same mask.
            if removed.is_ok() && !contexts::none_is_open() {
                let _ =
                    MASK.compare_exchange(std::ptr::null_mut(), mask, Ordering::AcqRel, Ordering::Relaxed);
                apply_request();
            }
        }
    }
    SUCCESS
}

// ---- start of events ---------------------------------------------------------------------------------------------

/// An operation as reported by any version.
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
    /// Converts a collective.
    ///
    /// # Safety
    /// The strings must be null or C strings.
    unsafe fn coll(arguments: &abi::Coll4) -> Self {
        // SAFETY: the caller guarantees null or C strings.
        unsafe {
            let element_bytes = names::element_bytes(arguments.data_type);
            Self {
                operation: names::operation(arguments.function),
                send: arguments.send as usize,
                receive: arguments.receive as usize,
                bytes: (arguments.count as u64).saturating_mul(u64::from(element_bytes)),
                element_bytes,
                peer: arguments.root,
                number: arguments.number as u32,
                channels: arguments.channels,
                work: DeviceWork {
                    warps: arguments.warps,
                    channels: arguments.channels,
                    algorithm: names::algorithm(arguments.algorithm),
                    protocol: names::protocol(arguments.protocol),
                    duration_ns: 0,
                },
            }
        }
    }

    /// Converts a message, or a call without further members.
    ///
    /// # Safety
    /// The strings must be null or C strings.
    unsafe fn p2p(
        function: *const c_char,
        buffer: usize,
        data_type: *const c_char,
        count: usize,
        peer: i32,
    ) -> Self {
        // SAFETY: the caller guarantees null or C strings.
        unsafe {
            let element_bytes = names::element_bytes(data_type);
            Self {
                operation: names::operation(function),
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

/// Returns true if the operation has a root. The library also passes a root for operations without one.
fn has_root(operation: Operation) -> bool {
    use Operation::{Broadcast, Gather, Reduce, Scatter};
    matches!(operation, Broadcast | Reduce | Gather | Scatter)
}

fn is_message(operation: Operation) -> bool {
    matches!(operation, Operation::Send | Operation::Receive)
}

/// Returns the call in progress on this thread, if a hook has seen it.
fn call_in_progress(thread: &ThreadState) -> Option<Call> {
    if thread.nccl.depth.get() == 0 {
        return None;
    }
    Call::from_bits(thread.nccl.call.get())
}

/// Handles a call of the program, and returns the handle by which the library names the call from now on. Either a hook
/// has seen the call, or this is the only report of it.
fn called(context: &'static Context, operated: &Operated, stream: usize, is_captured: bool) -> u64 {
    let thread = thread::state();
    if is_captured {
        // The hook knows it already, unless it could not ask the driver.
        kernel_times::captured();
    }
    if let Some(call) = call_in_progress(thread) {
        context.belongs_to(thread.nccl.handle.get(), call.communicator);
        thread.nccl.parts.set(thread.nccl.parts.get().saturating_add(1));
        return call.to_bits();
    }
    kernel_times::bypassed();
    bypassed(context, operated, stream, is_captured).to_bits()
}

/// Records a call that no hook saw, with the values that the library reports.
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
        // A call without a key cannot be found again.
        parts: u8::from(sequence.is_some()),
        is_bypass: true,
        is_timed: false,
        is_linked: false,
    };
    record.aux = enqueued.to_aux();
    life::commit(&thread::state().lane, &record);
    Call {
        communicator: record.communicator,
        sequence: record.sequence,
        operation: record.operation,
        flags: record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN),
    }
}

/// Handles an operation that reached its stream, and returns its handle. `parent` is the call that it comes from, if
/// this version names it.
fn reached(context: &'static Context, operated: &Operated, parent: u64) -> u64 {
    let Some(operation) = operated.operation else {
        return 0;
    };
    let call = Call::from_bits(parent).unwrap_or_else(|| joined(context, operated, operation));
    // If a graph needs no proxy, the library reports its calls while they are captured, and never their replays.
    if call.flags & FLAG_CAPTURED != 0 && thread::state().nccl.depth.get() > 0 {
        return GROUP;
    }
    let called = Operation::from_u8(call.operation).unwrap_or(operation);
    tasks::begin(&tasks::TaskReport {
        call,
        peer: if is_message(called) || has_root(called) {
            operated.peer
        } else {
            NO_PEER
        },
        bytes: operated.bytes,
        element_bytes: operated.element_bytes,
        number: operated.number,
        channels: if kernel_times::are_expected(operation) {
            operated.channels
        } else {
            0
        },
        work: operated.work,
    })
}

/// Finds the call for versions that do not name it.
fn joined(context: &'static Context, operated: &Operated, operation: Operation) -> Call {
    let thread = thread::state();
    // Some versions end a group of their own through a hooked name. The program has called nothing in such a group.
    let is_under_a_hook = thread.nccl.depth.get() > 0
        && (thread.nccl.call.get() != 0 || thread.nccl.group_operations.get() > 0);
    let asked = Asked {
        operation: operation as u8,
        send: operated.send,
        receive: operated.receive,
        bytes: operated.bytes,
        peer: if is_message(operation) { operated.peer } else { 0 },
    };
    // A call outside groups is launched before it returns, so the operation belongs to the call in progress.
    let in_progress = match call_in_progress(thread) {
        Some(call) if call.operation == asked.operation => thread.nccl.call.get(),
        _ => 0,
    };
    let take = |entry: &'static Entry| {
        let pending = entry.pending_calls()?;
        if in_progress != 0 && pending.take_call(in_progress) {
            return Some(in_progress);
        }
        pending.take(&asked).or_else(|| pending.replay(&asked))
    };
    if let Some(entry) = context.hooked() {
        if let Some(call) = take(entry).and_then(Call::from_bits) {
            return call;
        }
    } else if !context.bypasses() {
        // This is the first operation of this communicator, on any thread. Its buffers identify the communicator.
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
    // A communicator that hooks know, and that no plugin context has been joined with, may be this one. Its calls were
    // captured then.
    let may_be_hooked = || {
        crate::core::communicators::live().any(|(handle, entry)| {
            contexts::known(handle as *mut c_void).is_none()
                && entry.is_of(Library::Nccl)
                && context.can_be(entry)
                && !contexts::is_met(handle)
        })
    };
    if is_under_a_hook || context.hooked().is_some() || (!context.bypasses() && may_be_hooked()) {
        // This is a replay of a graph whose call is no longer in the list.
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

/// Handle of all other events. The library only requires that it is not null.
const GROUP: u64 = 7 << 61;

unsafe fn began(
    context: *mut c_void,
    handle: *mut *mut c_void,
    begin: impl FnOnce(&'static Context) -> u64,
) -> c_int {
    let bits = contexts::known(context).map_or(0, begin);
    // SAFETY: NCCL passes a valid pointer for the handle.
    unsafe { handle.write(bits as *mut c_void) };
    SUCCESS
}

unsafe extern "C" fn start_event_5(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: NCCL passes a descriptor whose layout its kind determines. Its strings are C strings (profiler_v5.h,
    // profiler_v6.h). The descriptor is valid during this call.
    unsafe {
        let head = &*descriptor.cast::<abi::Head>();
        let parent = head.parent as u64;
        began(context, handle, |context| match head.kind {
            event::COLL_API => {
                let arguments = &(*descriptor.cast::<Wide<abi::CollApi>>()).what;
                let operated = Operated::p2p(
                    arguments.function,
                    0,
                    arguments.data_type,
                    arguments.count,
                    arguments.root,
                );
                called(
                    context,
                    &operated,
                    arguments.stream as usize,
                    arguments.is_captured != 0,
                )
            }
            event::P2P_API => {
                let arguments = &(*descriptor.cast::<Wide<abi::P2pApi>>()).what;
                // This version does not report the peer of a call. If the call bypasses the hooks, its key comes from
                // the operation itself.
                let operated = Operated::p2p(
                    arguments.function,
                    0,
                    arguments.data_type,
                    arguments.count,
                    NO_PEER,
                );
                called_message(
                    context,
                    &operated,
                    arguments.stream as usize,
                    arguments.is_captured != 0,
                )
            }
            event::COLL => {
                let operated = Operated::coll(&(*descriptor.cast::<Wide<abi::Coll4>>()).what);
                reached(context, &operated, parent)
            }
            event::P2P => {
                let arguments = &(*descriptor.cast::<Wide<abi::P2p4>>()).what;
                reached_message(context, arguments, parent)
            }
            // It is reported while it is captured but not when it is replayed, so nothing ran.
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

/// Handles a call of a send or a receive. If it bypasses the hooks, its key comes with its operation, because only that
/// names the peer.
fn called_message(context: &'static Context, operated: &Operated, stream: usize, is_captured: bool) -> u64 {
    let thread = thread::state();
    match call_in_progress(thread) {
        Some(_) => called(context, operated, stream, is_captured),
        None => {
            kernel_times::bypassed();
            GROUP
        }
    }
}

/// Handles a message that reached its stream, and returns its handle.
///
/// # Safety
/// The strings must be null or C strings.
unsafe fn reached_message(context: &'static Context, arguments: &abi::P2p4, parent: u64) -> u64 {
    // SAFETY: the caller guarantees null or C strings.
    let mut operated = unsafe {
        Operated::p2p(
            arguments.function,
            arguments.buffer as usize,
            arguments.data_type,
            arguments.count,
            arguments.peer,
        )
    };
    // A message from a rank to itself is a copy, and no channel reports it.
    if u32::try_from(arguments.peer) != Ok(context.rank()) {
        operated.channels = arguments.channels;
        operated.work.channels = arguments.channels;
    }
    if parent == GROUP && version() >= 5 {
        let parent = bypassed(context, &operated, 0, false).to_bits();
        return reached(context, &operated, parent);
    }
    reached(context, &operated, parent)
}

/// Converts version 6's collective of the copy engines to the common structure.
///
/// # Safety
/// `descriptor` must be of this kind.
unsafe fn copy_engine(descriptor: *const c_void) -> abi::Coll4 {
    // SAFETY: the caller guarantees the kind. The members up to the type are those of a collective (profiler_v6.h).
    let arguments = unsafe { &(*descriptor.cast::<Wide<abi::CeColl>>()).what };
    abi::Coll4 {
        number: arguments.number,
        function: arguments.function,
        send: arguments.send,
        receive: arguments.receive,
        count: arguments.count,
        root: arguments.root,
        data_type: arguments.data_type,
        channels: 0,
        warps: 0,
        algorithm: std::ptr::null(),
        protocol: std::ptr::null(),
    }
}

fn channel_began(parent: u64, arguments: &abi::KernelCh) -> u64 {
    match handles::task(parent) {
        Some(slot) => {
            tasks::channel_began(slot, arguments.timer_ns);
            handles::of_channel(slot)
        }
        None => 0,
    }
}

fn proxy_began(context: &'static Context, arguments: &abi::ProxyOp) -> u64 {
    if arguments.pid != PROCESS.load(Ordering::Relaxed) {
        // The proxy works for another process of this node (PXN). The context is an address in that process.
        return 0;
    }
    traffic::work_began(context, arguments)
}

unsafe extern "C" fn start_event_4(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: NCCL passes a descriptor whose layout its kind determines. Its strings are C strings (profiler_v4.h). The
    // descriptor is valid during this call.
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

/// Handles the start of an event in versions 1 to 3. They report nothing from the device, so an operation is complete
/// when the library has passed it on.
unsafe extern "C" fn start_event_1<const V: u32>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const c_void,
) -> c_int {
    // SAFETY: NCCL passes a descriptor whose layout its kind determines. Its strings are C strings (profiler_v1.h to
    // profiler_v3.h). The descriptor is valid during this call.
    unsafe {
        let head = &*descriptor.cast::<abi::NarrowHead>();
        began(context, handle, |context| match u64::from(head.kind) {
            event::COLL => {
                let mut operated = coll_before_4::<V>(descriptor);
                operated.channels = 0;
                reached(context, &operated, 0)
            }
            event::P2P if V == 1 => {
                let arguments = &(*descriptor.cast::<Narrow<abi::P2p1>>()).what;
                let null = std::ptr::null();
                let mut operated = Operated::p2p(
                    null,
                    arguments.buffer as usize,
                    null,
                    arguments.count,
                    arguments.peer,
                );
                operated.operation = names::operation_by_number(arguments.function);
                operated.element_bytes = super::data_type::element_bytes(u32::from(arguments.data_type));
                operated.bytes = (arguments.count as u64).saturating_mul(u64::from(operated.element_bytes));
                reached(context, &operated, 0)
            }
            event::P2P => {
                let arguments = &(*descriptor.cast::<Narrow<abi::P2p2>>()).what;
                let operated = Operated::p2p(
                    arguments.function,
                    arguments.buffer as usize,
                    arguments.data_type,
                    arguments.count,
                    arguments.peer,
                );
                reached(context, &operated, 0)
            }
            _ => GROUP,
        })
    }
}

/// Converts a collective of version `V`.
///
/// # Safety
/// `descriptor` must be a collective's of version `V`, which is below 4.
unsafe fn coll_before_4<const V: u32>(descriptor: *const c_void) -> Operated {
    // SAFETY: the caller guarantees that the descriptor is a collective's of version `V`.
    unsafe {
        match V {
            3 => Operated::coll(&(*descriptor.cast::<Narrow<abi::Coll3>>()).what.rest),
            2 => {
                let arguments = &(*descriptor.cast::<Narrow<abi::Coll2>>()).what;
                Operated::coll(&abi::Coll4 {
                    number: arguments.number,
                    function: arguments.function,
                    send: arguments.send,
                    receive: arguments.receive,
                    count: arguments.count,
                    root: arguments.root,
                    data_type: arguments.data_type,
                    channels: arguments.channels,
                    warps: arguments.warps,
                    algorithm: arguments.algorithm,
                    protocol: arguments.protocol,
                })
            }
            _ => {
                let arguments = &(*descriptor.cast::<Narrow<abi::Coll1>>()).what;
                let element_bytes = super::data_type::element_bytes(u32::from(arguments.data_type));
                Operated {
                    operation: names::operation_by_number(arguments.function),
                    send: arguments.send as usize,
                    receive: arguments.receive as usize,
                    bytes: (arguments.count as u64).saturating_mul(u64::from(element_bytes)),
                    element_bytes,
                    peer: arguments.root,
                    number: arguments.number as u32,
                    channels: 0,
                    work: DeviceWork {
                        warps: arguments.warps,
                        channels: arguments.channels,
                        algorithm: names::algorithm_by_number(arguments.algorithm),
                        protocol: names::protocol_by_number(arguments.protocol),
                        duration_ns: 0,
                    },
                }
            }
        }
    }
}

// ---- changes and ends of events ----------------------------------------------------------------------------------

unsafe extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    let bits = handle as u64;
    // The end of a channel is reported by its state, not here.
    if let Some(slot) = handles::task(bits) {
        tasks::emit_if_whole(slot);
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
            // SAFETY: the argument is not null. For this state it points to the device's timer (profiler_v4.h and
            // later).
            tasks::channel_ended(slot, unsafe { arguments.cast::<u64>().read() });
        }
    } else if let Some(slot) = handles::step(bits) {
        // SAFETY: the argument is not null. For the states of a step it points to a size (profiler_v4.h and later).
        traffic::step_went_on(slot, to, unsafe { arguments.cast::<usize>().read() } as u64);
    }
    SUCCESS
}

unsafe extern "C" fn ignore_event_state(_: *mut c_void, _: c_int, _: *const c_void) -> c_int {
    SUCCESS
}

// ---- symbols that NCCL looks up ----------------------------------------------------------------------------------

const NAME: *const c_char = c"rankscope".as_ptr();

macro_rules! plugins {
    ($($symbol:ident: $init:ty = $function:expr, $start:expr, $state:expr;)*) => {
        $(
            /// Table of functions that NCCL looks up by this name.
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
