//! The hook of every Gloo collective: two stamps, one record.

use super::evidence::Sampler;
use super::options::Options;
use crate::communicators::{self, Entry};
use crate::life;
use crate::stub::{Call, Narrow};
use crate::thread::{self, ThreadState};
use rankscope_formats::ranklog::clock::ticks;
use rankscope_formats::ranklog::lanes::{Lane, LaneSet};
use rankscope_formats::ranklog::loss::LossCause;
use rankscope_formats::ranklog::record::{
    CONTINUATION_COUNTS, FLAG_BYTES_UNKNOWN, FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};

/// About a second in ticks of any counter: time-stamp counters run at one to five ticks per ns, clocks at one.
const SAMPLE_INTERVAL_TICKS: u64 = 1 << 30;

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
    let lane = life::lane(thread);
    if let Some((set, lane)) = lane {
        lane.enter(set, &record);
    }
    let mut sampler = Sampler::new(record.communicator, record.operation, record.tag, record.sequence);
    thread.gloo_depth.set(1);
    if sampled {
        thread.sampler.set(&raw mut sampler);
    }
    record.flags |= FLAG_FAILED;
    let mut ending = Ending { thread, lane, record, sampler: &raw mut sampler };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.record.leave_ticks = ticks();
    ending.record.flags &= !FLAG_FAILED;
    drop(ending);
    result
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
    let mut record = Record { operation, enter_ticks, aux: work, ..Record::new(RecordKind::Call) };
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
    (record, entry.should_sample(enter_ticks, SAMPLE_INTERVAL_TICKS))
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

/// What must happen when the call ends, also if it throws.
struct Ending {
    thread: &'static ThreadState,
    lane: Option<(&'static LaneSet, &'static Lane)>,
    record: Record,
    /// On the same stack frame, and written through the thread's pointer while the call runs.
    sampler: *mut Sampler,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record.leave_ticks == 0 {
            self.record.leave_ticks = ticks();
        }
        self.thread.gloo_depth.set(0);
        self.thread.sampler.set(std::ptr::null_mut());
        match self.lane {
            Some((set, lane)) if life::same_life(self.thread) => {
                lane.leave(set);
                lane.commit(set, &self.record);
                // SAFETY: the sampler outlives this value (declared before it), and the call that used it has ended.
                let beyond = unsafe { (*self.sampler).beyond };
                if beyond > 0 {
                    let (first, last) = (self.record.enter_ticks, self.record.leave_ticks);
                    set.area.count_loss(LossCause::EvidenceBound, RecordKind::Evidence, beyond, first, last);
                }
            }
            Some(_) => {}
            None => life::commit(self.thread, &self.record),
        }
    }
}
