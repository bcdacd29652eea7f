//! Point-to-point messages through Gloo's unbound buffers: a post, and later a completion. Messages inside a collective
//! belong to it, except for the few that are kept as clock evidence.

use super::buffers;
use super::evidence::Sampler;
use crate::core::communicators;
use crate::core::held_lane::HeldLane;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::{Narrow, Object};
use crate::thread;
use crate::thread::ThreadState;
use rankscope_gloo_abi::memory::read;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{
    FLAG_ANY_PEER, FLAG_BYTES_UNKNOWN, FLAG_FAILED, NO_PEER, Record, RecordKind,
};

/// Byte count with the meaning "the rest of the buffer".
const REST_OF_BUFFER: usize = usize::MAX;

/// Hook of `gloo::Context::createUnboundBuffer(void*, size_t)`, with the arguments (result, context, address, bytes).
/// It stores the communicator and size of the new buffer.
#[inline]
pub fn created(call: RealCall<'_, Object>) -> Returned {
    let [buffer, context, _, bytes, _] = call.arguments().0;
    let result = call.forward();
    if let Some(entry) = communicators::find(context) {
        // SAFETY: after the call the hidden result is a unique_ptr, which is one pointer.
        let buffer = unsafe { read(buffer, 0) };
        buffers::created(buffer, entry.index(), bytes as u64);
    }
    result
}

/// Hook of `UnboundBuffer::send(int peer, uint64_t slot, size_t offset, size_t bytes)`. It records a `Post` when the
/// call ends.
#[inline]
pub fn send(call: RealCall<'_, Narrow>) -> Returned {
    let [_, peer, ..] = *call.arguments();
    post(Operation::Send, peer as i32, 0, call)
}

/// Hook of `UnboundBuffer::recv(int peer, uint64_t slot, size_t offset, size_t bytes)`. It records a `Post` when the
/// call ends.
#[inline]
pub fn receive(call: RealCall<'_, Narrow>) -> Returned {
    let [_, peer, ..] = *call.arguments();
    post(Operation::Receive, peer as i32, 0, call)
}

/// Hook of `UnboundBuffer::recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t bytes)`. It records a
/// `Post` when the call ends.
#[inline]
pub fn receive_from_any(call: RealCall<'_, Narrow>) -> Returned {
    post(Operation::Receive, NO_PEER, FLAG_ANY_PEER, call)
}

/// Calls the real function and records the post.
#[inline]
fn post(operation: Operation, peer: i32, flags: u8, call: RealCall<'_, Narrow>) -> Returned {
    let thread = thread::state();
    let enter_ticks = ticks();
    let [buffer, _, slot, offset, bytes] = *call.arguments();
    if thread.gloo.depth.get() > 0 {
        return post_inside_collective(operation, peer, enter_ticks, thread, call);
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
        lane: None,
    };
    let result = call.forward();
    ending.record.flags &= !FLAG_FAILED;
    result
}

/// Calls the real function, and passes the message to the sampler if the collective is sampled.
fn post_inside_collective(
    operation: Operation,
    peer: i32,
    enter_ticks: u64,
    thread: &'static ThreadState,
    call: RealCall<'_, Narrow>,
) -> Returned {
    let [buffer, _, slot, ..] = *call.arguments();
    // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it is
    // alive. The reference is not kept across the real call.
    if let Some(sampler) = unsafe { thread.gloo.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Receive
    {
        sampler.post_receive(buffer, peer, slot as u64, enter_ticks);
    }
    let result = call.forward();
    // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it is
    // alive. No other reference to it exists now.
    if let Some(sampler) = unsafe { thread.gloo.sampler.get().cast::<Sampler>().as_mut() }
        && operation == Operation::Send
    {
        sampler.send(thread, peer, slot as u64, enter_ticks, ticks());
    }
    result
}

/// Hook of `UnboundBuffer::waitSend(int* rank, milliseconds)`. It records a `Complete` when the call ends.
#[inline]
pub fn wait_send(call: RealCall<'_, Narrow>) -> Returned {
    wait(Operation::Send, call)
}

/// Hook of `UnboundBuffer::waitRecv(int* rank, milliseconds)`. It records a `Complete` when the call ends.
#[inline]
pub fn wait_receive(call: RealCall<'_, Narrow>) -> Returned {
    wait(Operation::Receive, call)
}

/// Calls the real function and records the completion. Inside a collective, passes it to the sampler instead.
#[inline]
fn wait(operation: Operation, call: RealCall<'_, Narrow>) -> Returned {
    let [buffer, rank, ..] = *call.arguments();
    let thread = thread::state();
    if thread.gloo.depth.get() > 0 {
        let result = call.forward();
        // SAFETY: the pointer is null or the sampler of the collective's hook, further down this thread's stack, so it
        // is alive. No other reference to it exists now.
        if let Some(sampler) = unsafe { thread.gloo.sampler.get().cast::<Sampler>().as_mut() }
            && operation == Operation::Receive
            && result.as_bool()
        {
            sampler.received(thread, buffer, ticks());
        }
        return result;
    }
    let mut record = Record {
        operation: operation as u8,
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object: buffer as u64,
        ..Record::new(RecordKind::Complete)
    };
    if let Some((communicator, bytes)) = buffers::find(buffer) {
        record.communicator = communicator;
        record.bytes = bytes;
    }
    let lane = Some(HeldLane::enter(&thread.lane, &record));
    let mut ending = Ending {
        thread,
        record,
        rank,
        lane,
    };
    let result = call.forward();
    // False means that the wait was aborted.
    if result.as_bool() {
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
    /// Lane that lists a wait; `None` for a post.
    lane: Option<HeldLane>,
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
        match self.lane {
            Some(lane) => lane.finish(&self.thread.lane, &self.record),
            None => life::commit(&self.thread.lane, &self.record),
        }
    }
}
