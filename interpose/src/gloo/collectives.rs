//! The hook of every Gloo collective: two timestamps, one record.

use super::evidence::Sampler;
use super::options::Options;
use crate::core::communicators;
use crate::core::communicators::Entry;
use crate::core::held_lane::HeldLane;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, FLAG_BYTES_UNKNOWN, FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Record,
    RecordKind,
};

/// Hook of a collective whose only argument is the address of these options. It records one call, when it ends.
#[inline]
pub fn collective(options: &'static Options, call: RealCall<'_, Narrow>) -> Returned {
    let enter_ticks = ticks();
    let thread = thread::state();
    let depth = thread.gloo.depth.get();
    if depth > 0 {
        // The collective is called inside another one. Only the outermost is the operation.
        return call.forward();
    }
    let [address, ..] = *call.arguments();
    // SAFETY: the first argument is the address of the caller's options. Every option struct starts with the context's
    // address.
    let communicator = communicators::find(unsafe { Options::context(address) });
    // SAFETY: the options are those of this row, and are decoded only if their context is known.
    let (mut record, sampled) = unsafe { describe(options, address, communicator, thread, enter_ticks) };
    // Continuations precede the call that they belong to. Without it they are useless.
    if options.operation.is_variable()
        && let Some(entry) = communicator
    {
        // SAFETY: the options are those of this row, and their context is known.
        unsafe { commit_counts(options, address, entry, thread, enter_ticks) };
    }
    if sampled {
        return recorded_and_sampled(thread, record, call);
    }
    recorded(thread, &mut record, call)
}

/// Calls the real function and commits the record.
#[inline(always)]
fn recorded(thread: &'static ThreadState, record: &mut Record, call: RealCall<'_, Narrow>) -> Returned {
    record.flags |= FLAG_FAILED;
    let lane = HeldLane::enter(&thread.lane, record);
    thread.gloo.depth.set(1);
    let ending = Ending { thread, lane, record };
    let result = call.forward();
    ending.record.leave_ticks = ticks();
    ending.record.flags &= !FLAG_FAILED;
    drop(ending);
    result
}

/// Calls the real function and commits the record, as [`recorded`] does, and keeps messages of this collective as
/// evidence. Runs a few times per second and communicator.
#[cold]
#[inline(never)]
fn recorded_and_sampled(
    thread: &'static ThreadState,
    mut record: Record,
    call: RealCall<'_, Narrow>,
) -> Returned {
    let mut sampler = Sampler::new(record.communicator, record.operation, record.tag, record.sequence);
    thread.gloo.sampler.set((&raw mut sampler).cast());
    let unsampling = Unsampling(thread);
    let result = recorded(thread, &mut record, call);
    drop(unsampling);
    sampler.finish(thread, record.leave_ticks);
    if sampler.beyond > 0
        && let Some((set, _)) = life::lane(&thread.lane)
    {
        let (first, last) = (record.enter_ticks, record.leave_ticks);
        set.area.count_loss(
            LossCause::EvidenceBound,
            RecordKind::Evidence,
            sampler.beyond,
            first,
            last,
        );
    }
    result
}

struct Unsampling(&'static ThreadState);

impl Drop for Unsampling {
    fn drop(&mut self) {
        self.0.gloo.sampler.set(std::ptr::null_mut());
    }
}

/// Creates the record of a call. Also returns whether its messages are kept.
///
/// # Safety
/// `address` must be the address of these options.
#[inline]
unsafe fn describe(
    options: &'static Options,
    address: usize,
    communicator: Option<&'static Entry>,
    thread: &'static ThreadState,
    enter_ticks: u64,
) -> (Record, bool) {
    let operation = options.operation as u8;
    let work = thread.torch.work.get();
    let mut record = Record {
        operation,
        enter_ticks,
        aux: work,
        ..Record::new(RecordKind::Call)
    };
    let Some(entry) = communicator else {
        record.flags |= FLAG_BYTES_UNKNOWN | FLAG_SEQUENCE_UNKNOWN;
        return (record, false);
    };
    // SAFETY: the caller guarantees the address, and the context is known, so the struct has this layout.
    let decoded = unsafe { options.decode(address, entry.rank(), entry.size()) };
    record.communicator = entry.index();
    record.tag = decoded.tag;
    record.element_bytes = decoded.element_bytes;
    record.peer = decoded.root;
    match decoded.bytes {
        Some(bytes) => record.bytes = bytes,
        None => record.flags |= FLAG_BYTES_UNKNOWN,
    }
    if work == 0 {
        record.flags |= FLAG_DIRECT;
        match entry.next_sequence(operation, decoded.tag) {
            Some(sequence) => record.sequence = sequence,
            None => record.flags |= FLAG_SEQUENCE_UNKNOWN,
        }
    } else {
        // c10d gives every work a separate tag. A work that calls an operation twice uses its tag twice.
        let again = thread.torch.work_operation.replace(operation) == operation;
        let calls = if again {
            thread.torch.work_calls.get() + 1
        } else {
            0
        };
        thread.torch.work_calls.set(calls);
        record.sequence = calls;
    }
    // Without a key, the messages could not be assigned to a collective.
    let sampled = record.flags & FLAG_SEQUENCE_UNKNOWN == 0
        && entry.sampling().takes(record.tag, record.sequence, enter_ticks);
    (record, sampled)
}

/// Commits the bytes per member of a v-variant, before its call.
///
/// # Safety
/// `address` must be the address of these options, whose context is known.
#[cold]
unsafe fn commit_counts(
    options: &'static Options,
    address: usize,
    entry: &Entry,
    thread: &'static ThreadState,
    enter_ticks: u64,
) {
    // SAFETY: the caller guarantees the address and that the context is known.
    let decoded = unsafe { options.decode(address, entry.rank(), entry.size()) };
    for counts in decoded.per_member.chunks(CONTINUATION_COUNTS) {
        let mut bytes = [0; CONTINUATION_COUNTS];
        for (bytes, count) in bytes.iter_mut().zip(counts) {
            *bytes = count.wrapping_mul(decoded.per_member_unit);
        }
        life::commit(&thread.lane, &Record::continuation(bytes, enter_ticks));
    }
}

/// Completes a call when it ends, also if it throws.
struct Ending<'a> {
    thread: &'static ThreadState,
    lane: HeldLane,
    record: &'a mut Record,
}

impl Drop for Ending<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record.leave_ticks == 0 {
            self.record.leave_ticks = ticks();
        }
        self.thread.gloo.depth.set(0);
        self.lane.finish(&self.thread.lane, self.record);
    }
}
