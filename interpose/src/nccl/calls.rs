//! The hook of every call that puts an operation on a stream: collectives, messages and one-sided calls.

use super::events::{self, Timed};
use super::plugin::{self, handles};
use super::{capture, communicators, data_type, open_group, result};
use crate::core::communicators::Entry;
use crate::core::in_progress::InProgress;
use crate::core::life;
use crate::core::pending::Asked;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Wide;
use crate::cupti::calls as cupti_calls;
use crate::cupti::calls::Linked;
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, Enqueued, FLAG_BYTES_UNKNOWN, FLAG_CAPTURED, FLAG_DIRECT, FLAG_FAILED,
    FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};

/// Positions of a function's arguments by their meaning.
pub struct Roles {
    operation: Operation,
    /// Positions of the element count and of the data type.
    payload: Option<(usize, usize)>,
    /// Positions of the array of element counts, one per member, and of the data type.
    counts: Option<(usize, usize)>,
    reduction: Option<usize>,
    /// Position of the root or peer.
    peer: Option<usize>,
    communicator: usize,
    stream: usize,
    /// Positions of the send and receive buffers; equal if there is only one buffer.
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
            // In every signature the stream follows the communicator.
            stream: communicator + 1,
            buffers: (0, 1),
        }
    }

    /// Declares that the function has only one buffer, its first argument.
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

    /// Returns the counter that a call's ordinal comes from. All collectives of a communicator share one counter.
    /// Messages have one per operation and peer, and one-sided calls have one per operation.
    #[inline]
    fn counted_as(&self, peer: i32) -> (u8, u32) {
        match self.operation {
            Operation::Send | Operation::Receive => (self.operation as u8, peer as u32),
            Operation::Put | Operation::Signal | Operation::WaitSignal => (self.operation as u8, 0),
            _ => (0, 0),
        }
    }
}

/// Hook of a function with these roles. It records that the program requested an operation: an `Enqueue` record,
/// committed when the real call returns.
#[inline]
pub fn enqueue(roles: &'static Roles, call: RealCall<'_, Wide>) -> Returned {
    let enter_ticks = ticks();
    let thread = thread::state();
    if thread.nccl.depth.get() > 0 {
        // The library calls itself: for example, `ncclBcast` calls `ncclBroadcast`.
        return call.forward();
    }
    if events::are_on() || cupti_calls::asks_calls() {
        return enqueue_watched(roles, call, thread, enter_ticks);
    }
    enqueue_as::<false>(roles, call, thread, enter_ticks)
}

/// The variant of [`enqueue`] for launches that are timed, or linked to their kernels. It is a separate function, so
/// that other calls do not pay for it.
#[cold]
#[inline(never)]
fn enqueue_watched(
    roles: &'static Roles,
    call: RealCall<'_, Wide>,
    thread: &'static ThreadState,
    enter_ticks: u64,
) -> Returned {
    enqueue_as::<true>(roles, call, thread, enter_ticks)
}

#[inline(always)]
fn enqueue_as<const IS_WATCHED: bool>(
    roles: &'static Roles,
    call: RealCall<'_, Wide>,
    thread: &'static ThreadState,
    enter_ticks: u64,
) -> Returned {
    let arguments = call.arguments();
    // SAFETY: the handle is the one that the program passes to the library of the real function. `known` only compares
    // it, or passes it to that library.
    let communicator = unsafe { communicators::known(arguments[roles.communicator], call.real()) };
    let mut record = describe(
        roles,
        arguments,
        communicator,
        open_group::current(thread),
        enter_ticks,
    );
    if let (Some((counts, _)), Some(entry)) = (roles.counts, communicator) {
        // SAFETY: NCCL requires the program to pass one count per member of the communicator.
        unsafe { commit_counts(&mut record, arguments[counts], entry.size(), thread) };
    }
    if record.flags & FLAG_CAPTURED != 0 {
        plugin::kernel_times::captured();
    } else if roles.operation == Operation::Broadcast {
        plugin::kernel_times::broadcast(open_group::is_open(thread));
    } else if roles
        .operation
        .copies_to_itself(record.peer, communicator.map(Entry::rank))
    {
        plugin::kernel_times::copied_to_itself();
    }
    let as_handle = handles::Call {
        communicator: record.communicator,
        sequence: record.sequence,
        operation: record.operation,
        flags: record.flags,
    }
    .to_bits();
    thread.nccl.call.set(as_handle);
    thread.nccl.handle.set(arguments[roles.communicator]);
    thread.nccl.parts.set(0);
    if plugin::needs_pending()
        && let Some(entry) = communicator
        && entry.size() > 1
    {
        await_operation(roles, arguments, &record, entry, as_handle, thread);
    }
    let (timed, linked) = if IS_WATCHED {
        watch(roles, &call, communicator, &mut record, as_handle, thread)
    } else {
        (Timed::No, None)
    };
    let returned;
    {
        let mut in_progress = InProgress::begin(&thread.lane, &thread.nccl.depth, &mut record);
        returned = call.forward();
        in_progress.returned(|record| {
            let result = returned.as_u32();
            record.tag = result;
            record.aux |= u64::from(thread.nccl.parts.get().min(255)) << Enqueued::PARTS_SHIFT;
            if !result::is_fine(result) {
                if let Some(pending) = communicator.and_then(Entry::pending_calls) {
                    pending.withdraw_call(as_handle);
                }
                // The call put nothing on a stream, and the next call may get its number.
                record.aux &= !(1 << Enqueued::TIMED_SHIFT);
                refused(record, roles, communicator, result);
            }
        });
    }
    drop(linked);
    thread.nccl.call.set(0);
    if IS_WATCHED && let Timed::Alone(guard) = timed {
        match returned.as_u32() {
            result::SUCCESS => guard.launched(arguments[roles.stream]),
            // A thread of the library puts the operation on the stream later, after the second event.
            result::IN_PROGRESS => drop(guard),
            _ => guard.refused(),
        }
    }
    returned
}

/// Starts to time the launch of this call, and links it to its kernels. Its record says which of both is done. The
/// guards are two values, not one: dropping a structure of both would cost the calls that have none.
#[inline(always)]
fn watch(
    roles: &'static Roles,
    call: &RealCall<'_, Wide>,
    communicator: Option<&'static Entry>,
    record: &mut Record,
    as_handle: u64,
    thread: &'static ThreadState,
) -> (Timed, Option<Linked>) {
    let (mut timed, mut linked) = (Timed::No, None);
    if let Some(entry) = communicator {
        if events::are_on() {
            let handle = call.arguments()[roles.communicator];
            // SAFETY: the stream in `record`, the handle and the function are those of this call.
            timed = unsafe { events::begin(thread, entry, handle, record, as_handle, call.real()) };
        } else {
            events::read_left(thread, entry, record.enter_ticks);
        }
    }
    if !matches!(timed, Timed::No) {
        record.aux |= 1 << Enqueued::TIMED_SHIFT;
    }
    if cupti_calls::asks_calls() {
        cupti_calls::record_stream(thread, record);
        // Inside a group, the end of the group launches and creates the link.
        if !open_group::is_open(thread) {
            linked = cupti_calls::link_call(record);
        }
    }
    if linked.is_some() {
        record.aux |= 1 << Enqueued::LINKED_SHIFT;
    }
    (timed, linked)
}

/// Commits the bytes of a call for each member, and stores their sum in the record.
///
/// # Safety
/// `counts` must be null or point to `members` element counts.
#[cold]
unsafe fn commit_counts(record: &mut Record, counts: usize, members: u32, thread: &'static ThreadState) {
    if counts == 0 || members == 0 || record.element_bytes == 0 {
        record.flags |= FLAG_BYTES_UNKNOWN;
        return;
    }
    // SAFETY: `counts` is not null, so the caller guarantees that it points to `members` counts. They are the program's
    // memory and stay valid during its call.
    let counts = unsafe { std::slice::from_raw_parts(counts as *const usize, members as usize) };
    let element_bytes = u64::from(record.element_bytes);
    let bytes_of = |&count: &usize| (count as u64).saturating_mul(element_bytes);
    record.bytes = counts.iter().map(bytes_of).fold(0, u64::saturating_add);
    for some in counts.chunks(CONTINUATION_COUNTS) {
        let mut bytes = [0; CONTINUATION_COUNTS];
        for (bytes, count) in bytes.iter_mut().zip(some) {
            *bytes = bytes_of(count);
        }
        life::commit(&thread.lane, &Record::continuation(bytes, record.enter_ticks));
    }
}

/// Adds the call to the pending calls, so that the plugin finds it when the library reports its operation.
#[cold]
fn await_operation(
    roles: &Roles,
    arguments: &Wide,
    record: &Record,
    entry: &Entry,
    as_handle: u64,
    thread: &ThreadState,
) {
    if entry.pending_calls().is_none() {
        entry.make_pending_calls();
    }
    let Some(pending) = entry.pending_calls() else {
        return;
    };
    // Empty collectives are not reported as operations; empty messages are.
    let is_message = matches!(roles.operation, Operation::Send | Operation::Receive);
    // These operations came with versions that name the call. The library reports them as other operations.
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
    let group = open_group::number(thread);
    if record.flags & FLAG_CAPTURED == 0 {
        pending.push(&asked, as_handle, group);
    } else {
        pending.push_captured(&asked, as_handle, group);
    }
    thread.nccl.parts.set(1);
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
        // An array of counts has as many elements as the communicator has members. The counts are added up later.
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

/// Marks a failed call. An operation that the library refused was never enqueued, so the next call gets its ordinal.
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
