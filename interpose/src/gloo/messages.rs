//! Point-to-point messages through Gloo's unbound buffers: a post, later a completion. Inside a collective they are
//! its own business, except for the few kept as clock evidence.

use super::buffers;
use super::evidence::Sampler;
use super::memory::read;
use crate::core::communicators;
use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{
    FLAG_ANY_PEER, FLAG_BYTES_UNKNOWN, FLAG_FAILED, NO_PEER, Record, RecordKind,
};

/// Byte count that means "the rest of the buffer".
const REST_OF_BUFFER: usize = usize::MAX;

/// `gloo::Context::createUnboundBuffer(void*, size_t)`: (result, context, address, bytes).
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn created(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through; afterwards the hidden result is a unique_ptr, one pointer.
    unsafe {
        let result = arguments.call(real);
        if let Some(entry) = communicators::find(arguments[1]) {
            buffers::created(read(arguments[0], 0), entry.index(), arguments[3] as u64);
        }
        result
    }
}

/// `UnboundBuffer::send(int peer, uint64_t slot, size_t offset, size_t bytes)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn send(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { post(Operation::Send, arguments[1] as i32, 0, real, arguments) }
}

/// `UnboundBuffer::recv(int peer, uint64_t slot, size_t offset, size_t bytes)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn receive(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { post(Operation::Receive, arguments[1] as i32, 0, real, arguments) }
}

/// `UnboundBuffer::recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t bytes)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn receive_from_any(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { post(Operation::Receive, NO_PEER, FLAG_ANY_PEER, real, arguments) }
}

/// # Safety
/// `real` and `arguments` must be a send's or receive's.
#[inline]
unsafe fn post(operation: Operation, peer: i32, flags: u8, real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    let enter_ticks = ticks();
    let [buffer, _, slot, offset, bytes] = *arguments;
    if thread.gloo_depth.get() > 0 {
        // SAFETY: handed through.
        return unsafe { post_inside_collective(operation, peer, enter_ticks, thread, real, arguments) };
    }
    let known = buffers::find(buffer);
    let mut record = Record {
        operation: operation as u8,
        flags: flags | FLAG_FAILED,
        enter_ticks,
        object: buffer as u64,
        tag: slot as u32,
        peer,
        aux: slot as u64,
        ..Record::new(RecordKind::Post)
    };
    if let Some((communicator, buffer_bytes)) = known {
        record.communicator = communicator;
        record.bytes = if bytes == REST_OF_BUFFER {
            buffer_bytes.saturating_sub(offset as u64)
        } else {
            bytes as u64
        };
    } else if bytes == REST_OF_BUFFER {
        record.flags |= FLAG_BYTES_UNKNOWN;
    } else {
        record.bytes = bytes as u64;
    }
    let mut ending = Ending {
        thread,
        record,
        rank: 0,
    };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.record.flags &= !FLAG_FAILED;
    result
}

/// # Safety
/// `real` and `arguments` must be a send's or receive's.
unsafe fn post_inside_collective(
    operation: Operation,
    peer: i32,
    enter_ticks: u64,
    thread: &'static ThreadState,
    real: usize,
    arguments: &Narrow,
) -> usize {
    let [buffer, _, slot, ..] = *arguments;
    // SAFETY: null or the sampler on the stack of the collective's hook, below us; not kept across the call.
    if let Some(sampler) = unsafe { thread.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Receive
    {
        sampler.post_receive(buffer, peer, slot as u64, enter_ticks);
    }
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    // SAFETY: as above.
    if let Some(sampler) = unsafe { thread.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Send
    {
        sampler.send(thread, peer, slot as u64, enter_ticks, ticks());
    }
    result
}

/// `UnboundBuffer::waitSend(int* rank, milliseconds)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn wait_send(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { wait(Operation::Send, real, arguments) }
}

/// `UnboundBuffer::waitRecv(int* rank, milliseconds)`.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn wait_receive(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { wait(Operation::Receive, real, arguments) }
}

/// # Safety
/// `real` and `arguments` must be a wait's.
#[inline]
unsafe fn wait(operation: Operation, real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    if thread.gloo_depth.get() > 0 {
        // SAFETY: handed through.
        let result = unsafe { arguments.call(real) };
        // SAFETY: null or the sampler on the stack of the collective's hook, below us.
        if let Some(sampler) = unsafe { thread.sampler.get().cast::<Sampler>().as_mut() }
            && operation == Operation::Receive
            && result & 0xFF != 0
        {
            sampler.received(thread, arguments[0], ticks());
        }
        return result;
    }
    let mut record = Record {
        operation: operation as u8,
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object: arguments[0] as u64,
        ..Record::new(RecordKind::Complete)
    };
    if let Some((communicator, bytes)) = buffers::find(arguments[0]) {
        record.communicator = communicator;
        record.bytes = bytes;
    }
    if let Some((set, lane)) = life::lane(thread) {
        lane.enter(set, &record);
    }
    let mut ending = Ending {
        thread,
        record,
        rank: arguments[1],
    };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    // Only the low byte of a bool's register is defined. False: the wait was aborted.
    if result & 0xFF != 0 {
        ending.record.flags &= !FLAG_FAILED;
    }
    result
}

/// Commits the record when the call ends, also if it throws.
struct Ending {
    thread: &'static ThreadState,
    record: Record,
    /// Address of the caller's rank variable, 0 if it wants none.
    rank: usize,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        self.record.leave_ticks = ticks();
        let waited = self.record.kind == RecordKind::Complete as u8;
        if waited && self.rank != 0 && self.record.flags & FLAG_FAILED == 0 {
            // SAFETY: the caller passed a valid int* which the real function has filled in.
            self.record.peer = unsafe { read::<i32>(self.rank, 0) };
        }
        if let Some((set, lane)) = life::lane(self.thread) {
            if waited {
                lane.leave(set);
            }
            lane.commit(set, &self.record);
        } else {
            life::commit(self.thread, &self.record);
        }
    }
}
