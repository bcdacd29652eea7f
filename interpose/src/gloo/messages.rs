//! Point-to-point messages through Gloo's unbound buffers: a post, and later a completion. Messages inside a collective
//! belong to it, except for the few that are kept as clock evidence.

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

/// Byte count with the meaning "the rest of the buffer".
const REST_OF_BUFFER: usize = usize::MAX;

/// Hook of `gloo::Context::createUnboundBuffer(void*, size_t)`, with the arguments (result, context, address, bytes).
/// It stores the communicator and size of the new buffer.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn created(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged. After the call the hidden result is a unique_ptr, which is one pointer.
    unsafe {
        let result = arguments.call(real);
        if let Some(entry) = communicators::find(arguments[1]) {
            buffers::created(read(arguments[0], 0), entry.index(), arguments[3] as u64);
        }
        result
    }
}

/// Hook of `UnboundBuffer::send(int peer, uint64_t slot, size_t offset, size_t bytes)`. It records a `Post` when the
/// call ends.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn send(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { post(Operation::Send, arguments[1] as i32, 0, real, arguments) }
}

/// Hook of `UnboundBuffer::recv(int peer, uint64_t slot, size_t offset, size_t bytes)`. It records a `Post` when the
/// call ends.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn receive(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { post(Operation::Receive, arguments[1] as i32, 0, real, arguments) }
}

/// Hook of `UnboundBuffer::recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t bytes)`. It records a
/// `Post` when the call ends.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn receive_from_any(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { post(Operation::Receive, NO_PEER, FLAG_ANY_PEER, real, arguments) }
}

/// Calls the real function and records the post.
///
/// # Safety
/// `real` and `arguments` must be a send's or receive's.
#[inline]
unsafe fn post(operation: Operation, peer: i32, flags: u8, real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    let enter_ticks = ticks();
    let [buffer, _, slot, offset, bytes] = *arguments;
    if thread.gloo_depth.get() > 0 {
        // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
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
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    ending.record.flags &= !FLAG_FAILED;
    result
}

/// Calls the real function, and passes the message to the sampler if the collective is sampled.
///
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
    // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it is
    // alive. The reference is not kept across the real call.
    if let Some(sampler) = unsafe { thread.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Receive
    {
        sampler.post_receive(buffer, peer, slot as u64, enter_ticks);
    }
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it is
    // alive. No other reference to it exists now.
    if let Some(sampler) = unsafe { thread.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Send
    {
        sampler.send(thread, peer, slot as u64, enter_ticks, ticks());
    }
    result
}

/// Hook of `UnboundBuffer::waitSend(int* rank, milliseconds)`. It records a `Complete` when the call ends.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn wait_send(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { wait(Operation::Send, real, arguments) }
}

/// Hook of `UnboundBuffer::waitRecv(int* rank, milliseconds)`. It records a `Complete` when the call ends.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn wait_receive(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { wait(Operation::Receive, real, arguments) }
}

/// Calls the real function and records the completion. Inside a collective, passes it to the sampler instead.
///
/// # Safety
/// `real` and `arguments` must be a wait's.
#[inline]
unsafe fn wait(operation: Operation, real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    if thread.gloo_depth.get() > 0 {
        // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
        // unchanged.
        let result = unsafe { arguments.call(real) };
        // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it
        // is alive. No other reference to it exists now.
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
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    // Only the low byte of a bool's register is defined. False means that the wait was aborted.
    if result & 0xFF != 0 {
        ending.record.flags &= !FLAG_FAILED;
    }
    result
}

/// Commits the record when the call ends, also if it throws.
struct Ending {
    thread: &'static ThreadState,
    record: Record,
    /// Address of the caller's rank variable; 0 if it has none.
    rank: usize,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        self.record.leave_ticks = ticks();
        let waited = self.record.kind == RecordKind::Complete as u8;
        if waited && self.rank != 0 && self.record.flags & FLAG_FAILED == 0 {
            // SAFETY: the address is not null, so the caller passed a valid int*. The wait succeeded, so the real
            // function has written it.
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
