//! The hook of every Gloo collective: two stamps, one record.

use super::evidence::Sampler;
use super::options::Options;
use crate::core::communicators;
use crate::core::communicators::Entry;
use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{
    CONTINUATION_COUNTS, FLAG_BYTES_UNKNOWN, FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Record,
    RecordKind,
};

/// Records one collective call.
///
/// # Safety
/// `real` must be the real function of this row and `arguments` its arguments: the address of its options.
#[inline]
pub unsafe fn collective(options: &'static Options, real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    let thread = thread::state();
    let depth = thread.gloo_depth.get();
    if depth > 0 {
        // A collective built from others: the outermost is the operation.
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    // SAFETY: every option struct begins with the context's address.
    let communicator = communicators::find(unsafe { Options::context(arguments[0]) });
    // SAFETY: the options are this row's, and are decoded only if their context is known.
    let (mut record, sampled) = unsafe { describe(options, arguments[0], communicator, thread, enter_ticks) };
    // Continuations stand before the call they belong to; they are worth nothing without it.
    if options.operation.is_variable()
        && let Some(entry) = communicator
    {
        // SAFETY: as above.
        unsafe { commit_counts(options, arguments[0], entry, thread, enter_ticks) };
    }
    if sampled {
        // SAFETY: handed through.
        return unsafe { call_sampled(thread, record, real, arguments) };
    }
    // SAFETY: handed through.
    unsafe { call(thread, &mut record, real, arguments) }
}

/// Calls on and records.
///
/// # Safety
/// As for [`collective`].
#[inline(always)]
unsafe fn call(thread: &'static ThreadState, record: &mut Record, real: usize, arguments: &Narrow) -> usize {
    record.flags |= FLAG_FAILED;
    let lane = life::lane(thread);
    if let Some((set, lane)) = lane {
        lane.enter(set, record);
    }
    thread.gloo_depth.set(1);
    let ending = Ending { thread, lane, record };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.record.leave_ticks = ticks();
    ending.record.flags &= !FLAG_FAILED;
    drop(ending);
    result
}

/// The same, with messages of this collective kept as evidence. A few times a second and communicator.
///
/// # Safety
/// As for [`collective`].
#[cold]
#[inline(never)]
unsafe fn call_sampled(
    thread: &'static ThreadState,
    mut record: Record,
    real: usize,
    arguments: &Narrow,
) -> usize {
    let mut sampler = Sampler::new(record.communicator, record.operation, record.tag, record.sequence);
    thread.sampler.set((&raw mut sampler).cast());
    let unsampling = Unsampling(thread);
    // SAFETY: handed through.
    let result = unsafe { call(thread, &mut record, real, arguments) };
    drop(unsampling);
    sampler.finish(thread, record.leave_ticks);
    if sampler.beyond > 0
        && let Some((set, _)) = life::lane(thread)
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
        self.0.sampler.set(std::ptr::null_mut());
    }
}

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
    let work = thread.work.get();
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
    // SAFETY: the context is known, so this is such a struct.
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
        // c10d gives every work a tag of its own; a work that calls an operation twice uses it twice.
        let again = thread.work_operation.replace(operation) == operation;
        let calls = if again { thread.work_calls.get() + 1 } else { 0 };
        thread.work_calls.set(calls);
        record.sequence = calls;
    }
    // Without a key nobody could say which collective it was.
    let sampled = record.flags & FLAG_SEQUENCE_UNKNOWN == 0
        && entry.sampling().takes(record.tag, record.sequence, enter_ticks);
    (record, sampled)
}

/// # Safety
/// `address` must be the address of these options.
#[cold]
unsafe fn commit_counts(
    options: &'static Options,
    address: usize,
    entry: &Entry,
    thread: &'static ThreadState,
    enter_ticks: u64,
) {
    // SAFETY: handed through.
    let decoded = unsafe { options.decode(address, entry.rank(), entry.size()) };
    for counts in decoded.per_member.chunks(CONTINUATION_COUNTS) {
        let mut bytes = [0; CONTINUATION_COUNTS];
        for (bytes, count) in bytes.iter_mut().zip(counts) {
            *bytes = count.wrapping_mul(decoded.per_member_unit);
        }
        life::commit(thread, &Record::continuation(bytes, enter_ticks));
    }
}

/// What must happen when the call ends, also if it throws. Like `in_progress.rs`, and not by it: the compiler makes the
/// price of a barrier 1.8 times the floor of that instead of 1.1 (`tests/benchmarks/call_price.sh`).
struct Ending<'a> {
    thread: &'static ThreadState,
    lane: Option<(&'static LaneSet, &'static Lane)>,
    record: &'a mut Record,
}

impl Drop for Ending<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record.leave_ticks == 0 {
            self.record.leave_ticks = ticks();
        }
        self.thread.gloo_depth.set(0);
        match self.lane {
            Some((set, lane)) if life::same_life(self.thread) => {
                lane.leave(set);
                lane.commit(set, self.record);
            }
            Some(_) => {}
            None => life::commit(self.thread, self.record),
        }
    }
}
