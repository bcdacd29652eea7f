//! The hook of every call that puts an operation on a stream: collectives, messages, one-sided calls.

use super::events::{self, Timed};
use super::plugin::{self, handles};
use super::{capture, communicators, data_type, groups, result};
use crate::core::communicators::Entry;
use crate::core::in_progress::InProgress;
use crate::core::life;
use crate::core::pending::Asked;
use crate::core::stub::{Call, Wide};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::cupti::calls as cupti_calls;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, Enqueued, FLAG_BYTES_UNKNOWN, FLAG_CAPTURED, FLAG_DIRECT, FLAG_FAILED,
    FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};

/// What the arguments of a function are, by position.
pub struct Roles {
    operation: Operation,
    /// Count of elements and their type.
    payload: Option<(usize, usize)>,
    /// Counts of elements for each member, and their type.
    counts: Option<(usize, usize)>,
    reduction: Option<usize>,
    /// Root or peer.
    peer: Option<usize>,
    communicator: usize,
    stream: usize,
    /// Buffers; the same twice where there is one.
    buffers: (usize, usize),
}

/// The largest number of a built-in reduction (nccl.h, `ncclAvg`).
const LAST_REDUCTION: u32 = 4;

impl Roles {
    const fn new(operation: Operation, communicator: usize) -> Self {
        Self {
            operation,
            payload: None,
            counts: None,
            reduction: None,
            peer: None,
            communicator,
            // Everywhere the stream stands behind the communicator.
            stream: communicator + 1,
            buffers: (0, 1),
        }
    }

    /// There is one buffer, the first argument.
    const fn one_buffer(mut self) -> Self {
        self.buffers = (0, 0);
        self
    }

    const fn payload(mut self, count: usize, data_type: usize) -> Self {
        self.payload = Some((count, data_type));
        self
    }

    const fn counts(mut self, counts: usize, data_type: usize) -> Self {
        self.counts = Some((counts, data_type));
        self
    }

    const fn reduction(mut self, position: usize) -> Self {
        self.reduction = Some(position);
        self
    }

    const fn peer(mut self, position: usize) -> Self {
        self.peer = Some(position);
        self
    }

    /// `(send, receive, count, type, reduction, communicator, stream)`
    pub const ALL_REDUCE: Self = Self::new(Operation::AllReduce, 5).payload(2, 3).reduction(4);
    /// `(send, receive, send count, type, communicator, stream)`
    pub const ALL_GATHER: Self = Self::new(Operation::AllGather, 4).payload(2, 3);
    /// `(send, receive, receive count, type, reduction, communicator, stream)`
    pub const REDUCE_SCATTER: Self = Self::new(Operation::ReduceScatter, 5).payload(2, 3).reduction(4);
    /// `(send, receive, count, type, root, communicator, stream)`
    pub const BROADCAST: Self = Self::new(Operation::Broadcast, 5).payload(2, 3).peer(4);
    /// `(buffer, count, type, root, communicator, stream)`
    pub const BROADCAST_IN_PLACE: Self = Self::new(Operation::Broadcast, 4)
        .payload(1, 2)
        .peer(3)
        .one_buffer();
    /// `(send, receive, count, type, reduction, root, communicator, stream)`
    pub const REDUCE: Self = Self::new(Operation::Reduce, 6).payload(2, 3).reduction(4).peer(5);
    /// `(send, receive, count per peer, type, communicator, stream)`
    pub const ALL_TO_ALL: Self = Self::new(Operation::AllToAll, 4).payload(2, 3);
    /// `(send, send counts, offsets, receive, receive counts, offsets, type, communicator, stream)`
    pub const ALL_TO_ALL_V: Self = Self::new(Operation::AllToAllV, 7).counts(1, 6);
    /// `(send, receive, count, type, root, communicator, stream)`
    pub const GATHER: Self = Self::new(Operation::Gather, 5).payload(2, 3).peer(4);
    /// `(send, receive, count, type, root, communicator, stream)`
    pub const SCATTER: Self = Self::new(Operation::Scatter, 5).payload(2, 3).peer(4);
    /// `(buffer, count, type, peer, communicator, stream)`
    pub const SEND: Self = Self::new(Operation::Send, 4).payload(1, 2).peer(3).one_buffer();
    /// `(buffer, count, type, peer, communicator, stream)`
    pub const RECEIVE: Self = Self::new(Operation::Receive, 4)
        .payload(1, 2)
        .peer(3)
        .one_buffer();
    /// `(buffer, count, type, peer, window, offset, signal, context, flags, communicator, stream)`
    pub const PUT: Self = Self::new(Operation::Put, 9).payload(1, 2).peer(3);
    /// `(peer, signal, context, flags, communicator, stream)`
    pub const SIGNAL: Self = Self::new(Operation::Signal, 4).peer(0);
    /// `(number of descriptors, descriptors, communicator, stream)`
    pub const WAIT_SIGNAL: Self = Self::new(Operation::WaitSignal, 2);

    /// What the ordinal of a call counts: all collectives of a communicator together, messages by peer, one-sided
    /// calls by themselves.
    #[inline]
    fn counted_as(&self, peer: i32) -> (u8, u32) {
        match self.operation {
            Operation::Send | Operation::Receive => (self.operation as u8, peer as u32),
            Operation::Put | Operation::Signal | Operation::WaitSignal => (self.operation as u8, 0),
            _ => (0, 0),
        }
    }
}

/// Records that an operation was asked for.
///
/// # Safety
/// `real` must be the real function of this row and `arguments` its arguments.
#[inline]
pub unsafe fn enqueue(roles: &'static Roles, real: usize, arguments: &Wide) -> usize {
    let enter_ticks = ticks();
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 {
        // The library calls itself: `ncclBcast` is a `ncclBroadcast`.
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    if events::are_on() || cupti_calls::asks_calls() {
        // SAFETY: as above.
        return unsafe { enqueue_watched(roles, real, arguments, thread, enter_ticks) };
    }
    // SAFETY: as above.
    unsafe { enqueue_as::<false>(roles, real, arguments, thread, enter_ticks) }
}

/// The same where launches are timed, or linked to what they launch: apart, so that it costs the others nothing.
#[cold]
#[inline(never)]
unsafe fn enqueue_watched(
    roles: &'static Roles,
    real: usize,
    arguments: &Wide,
    thread: &'static ThreadState,
    enter_ticks: u64,
) -> usize {
    // SAFETY: handed through.
    unsafe { enqueue_as::<true>(roles, real, arguments, thread, enter_ticks) }
}

#[inline(always)]
unsafe fn enqueue_as<const IS_WATCHED: bool>(
    roles: &'static Roles,
    real: usize,
    arguments: &Wide,
    thread: &'static ThreadState,
    enter_ticks: u64,
) -> usize {
    // SAFETY: the address is only compared, or handed to the library itself.
    let communicator = unsafe { communicators::known(arguments[roles.communicator], real) };
    let mut record = describe(
        roles,
        arguments,
        communicator,
        groups::current(thread),
        enter_ticks,
    );
    if let (Some((counts, _)), Some(entry)) = (roles.counts, communicator) {
        // SAFETY: the program passes as many counts as the communicator has members.
        unsafe { commit_counts(&mut record, arguments[counts], entry.size(), thread) };
    }
    let as_handle = handles::Call {
        communicator: record.communicator,
        sequence: record.sequence,
        operation: record.operation,
        flags: record.flags,
    }
    .to_bits();
    thread.nccl_call.set(as_handle);
    thread.nccl_handle.set(arguments[roles.communicator]);
    thread.nccl_parts.set(0);
    if plugin::needs_pending()
        && let Some(entry) = communicator
        && record.flags & FLAG_CAPTURED == 0
        && entry.size() > 1
    {
        await_operation(roles, arguments, &record, entry, as_handle, thread);
    }
    let mut timed = Timed::No;
    if IS_WATCHED
        && let Some(entry) = communicator
        && !events::are_on()
    {
        events::read_left(thread, entry, enter_ticks);
    } else if IS_WATCHED && let Some(entry) = communicator {
        let handle = arguments[roles.communicator];
        // SAFETY: handed through.
        timed = unsafe { events::begin(thread, entry, handle, &record, as_handle, real) };
        if !matches!(timed, Timed::No) {
            record.aux |= 1 << Enqueued::TIMED_SHIFT;
        }
    }
    if IS_WATCHED && cupti_calls::asks_calls() {
        cupti_calls::tell_stream(thread, &record);
    }
    // In a group its end launches.
    let linked = if IS_WATCHED && cupti_calls::asks_calls() && !groups::is_open(thread) {
        cupti_calls::link_call(&record)
    } else {
        None
    };
    if linked.is_some() {
        record.aux |= 1 << Enqueued::LINKED_SHIFT;
    }
    let returned;
    {
        let mut call = InProgress::begin(thread, &thread.nccl_depth, &mut record);
        // SAFETY: handed through.
        returned = unsafe { arguments.call(real) };
        call.returned(|record| {
            let result = result::of(returned);
            record.tag = result;
            record.aux |= u64::from(thread.nccl_parts.get().min(255)) << Enqueued::PARTS_SHIFT;
            if !result::is_fine(result) {
                if let Some(pending) = communicator.and_then(Entry::pending) {
                    pending.withdraw_call(as_handle);
                }
                // Nothing of it is on a stream, and its number may become the next call's.
                record.aux &= !(1 << Enqueued::TIMED_SHIFT);
                refused(record, roles, communicator, result);
            }
        });
    }
    drop(linked);
    thread.nccl_call.set(0);
    if IS_WATCHED && let Timed::Alone(guard) = timed {
        match result::of(returned) {
            result::SUCCESS => guard.launched(arguments[roles.stream]),
            // It reaches the stream later, by a thread of the library: behind our second event.
            result::IN_PROGRESS => drop(guard),
            _ => guard.refused(),
        }
    }
    returned
}

/// Writes down what a call has for each member, and adds it up.
///
/// # Safety
/// `counts` must be null or so many counts of elements.
#[cold]
unsafe fn commit_counts(record: &mut Record, counts: usize, members: u32, thread: &'static ThreadState) {
    if counts == 0 || members == 0 || record.element_bytes == 0 {
        record.flags |= FLAG_BYTES_UNKNOWN;
        return;
    }
    // SAFETY: the caller's promise.
    let counts = unsafe { std::slice::from_raw_parts(counts as *const usize, members as usize) };
    let element_bytes = u64::from(record.element_bytes);
    let bytes_of = |&count: &usize| (count as u64).saturating_mul(element_bytes);
    record.bytes = counts.iter().map(bytes_of).fold(0, u64::saturating_add);
    for some in counts.chunks(CONTINUATION_COUNTS) {
        let mut bytes = [0; CONTINUATION_COUNTS];
        for (bytes, count) in bytes.iter_mut().zip(some) {
            *bytes = bytes_of(count);
        }
        life::commit(thread, &Record::continuation(bytes, record.enter_ticks));
    }
}

/// Leaves word by which the plugin will find this call when the library tells of its operation.
#[cold]
fn await_operation(
    roles: &Roles,
    arguments: &Wide,
    record: &Record,
    entry: &Entry,
    as_handle: u64,
    thread: &ThreadState,
) {
    if entry.pending().is_none() {
        entry.make_pending();
    }
    let Some(pending) = entry.pending() else { return };
    // Empty collectives are no operations; empty messages are.
    let is_message = matches!(roles.operation, Operation::Send | Operation::Receive);
    // These came with versions that name the call, and are told as others.
    let is_later = matches!(
        roles.operation,
        Operation::AllToAll | Operation::Gather | Operation::Scatter | Operation::Put
    );
    if is_later || roles.payload.is_none() || (record.bytes == 0 && !is_message) {
        return;
    }
    let asked = Asked {
        operation: record.operation,
        send: arguments[roles.buffers.0],
        receive: arguments[roles.buffers.1],
        bytes: record.bytes,
        peer: if is_message { record.peer } else { 0 },
    };
    pending.push(&asked, as_handle, groups::number(thread));
    thread.nccl_parts.set(1);
}

#[inline]
fn describe(
    roles: &'static Roles,
    arguments: &Wide,
    communicator: Option<&'static Entry>,
    group: u32,
    enter_ticks: u64,
) -> Record {
    let mut record = Record {
        operation: roles.operation as u8,
        flags: FLAG_DIRECT,
        enter_ticks,
        object: arguments[roles.stream] as u64,
        ..Record::new(RecordKind::Enqueue)
    };
    if capture::is_capturing(arguments[roles.stream]) {
        record.flags |= FLAG_CAPTURED;
    }
    let mut enqueued = Enqueued {
        group,
        data_type: Enqueued::NONE,
        reduction: Enqueued::NONE,
        ..Enqueued::default()
    };
    if let Some((count, data_type)) = roles.payload.or(roles.counts) {
        let data_type = arguments[data_type] as u32;
        enqueued.data_type = u8::try_from(data_type).unwrap_or(Enqueued::NONE);
        record.element_bytes = data_type::element_bytes(data_type);
        if roles.payload.is_some() {
            record.bytes = (arguments[count] as u64).saturating_mul(u64::from(record.element_bytes));
        }
        // How many counts there are, which are added up later, is the communicator's size.
        if record.element_bytes == 0 || (roles.counts.is_some() && communicator.is_none()) {
            record.flags |= FLAG_BYTES_UNKNOWN;
        }
    }
    if let Some(reduction) = roles.reduction {
        let number = arguments[reduction] as u32;
        enqueued.reduction = if number <= LAST_REDUCTION {
            number as u8
        } else {
            Enqueued::CUSTOM
        };
    }
    if let Some(peer) = roles.peer {
        record.peer = arguments[peer] as u32 as i32;
    }
    record.aux = enqueued.to_aux();
    match communicator {
        Some(entry) => {
            record.communicator = entry.index();
            let (operation, tag) = roles.counted_as(record.peer);
            match entry.next_sequence(operation, tag) {
                Some(sequence) => record.sequence = sequence,
                None => record.flags |= FLAG_SEQUENCE_UNKNOWN,
            }
        }
        None => record.flags |= FLAG_SEQUENCE_UNKNOWN,
    }
    record
}

/// The call failed. What the library refused was never enqueued: its ordinal is the next call's.
#[cold]
fn refused(record: &mut Record, roles: &Roles, communicator: Option<&'static Entry>, result: u32) {
    record.flags |= FLAG_FAILED;
    if let Some(entry) = communicator
        && matches!(result, result::INVALID_ARGUMENT | result::INVALID_USAGE)
        && record.flags & FLAG_SEQUENCE_UNKNOWN == 0
    {
        let (operation, tag) = roles.counted_as(record.peer);
        entry.return_sequence(operation, tag, record.sequence);
        record.flags |= FLAG_SEQUENCE_UNKNOWN;
    }
}
