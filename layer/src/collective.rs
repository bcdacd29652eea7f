//! Collectives and messages that the program performs by its own means.

use crate::access::api;
use crate::operation::Operation;
use std::marker::PhantomData;
use std::thread;

/// Processes that communicate by the program's own means. The communicator ends when the value is dropped.
///
/// rankscope matches the n-th call of an operation on one member with the n-th call on the others. So all members must call
/// the same operations in the same order. Different groups need different names. A thread has one operation at a time: one that
/// begins inside another is counted, and not recorded.
///
/// ```
/// use rankscope_layer::{Communicator, Operation};
///
/// // This process is member 1 of 4.
/// let ring = Communicator::new("ring", 1, 4);
/// {
///     let _collective = ring.collective(Operation::AllReduce, 4096);
///     // ... move the data ...
/// }
/// {
///     let _message = ring.message(Operation::Send, 4096, 2, 0);
///     // ... send to member 2 ...
/// }
/// ```
#[derive(Debug)]
pub struct Communicator {
    handle: usize,
}

impl Communicator {
    /// Defines a communicator. All members must give the same name and size. `rank` is the number of this member, below
    /// `size`. Starts the recording.
    pub fn new(name: &str, rank: u32, size: u32) -> Self {
        let handle = api().map_or(0, |api| {
            // SAFETY: the text has this length.
            unsafe { (api.communicator)(name.as_ptr().cast(), name.len(), rank, size) }
        });
        Self { handle }
    }

    /// Begins a collective without a root. It ends when the result is dropped. `bytes` is the payload of this member.
    pub fn collective(&self, operation: Operation, bytes: u64) -> Collective<'_> {
        self.begin(operation, bytes, -1, 0)
    }

    /// Begins a collective with a root: a member's number.
    pub fn rooted(&self, operation: Operation, bytes: u64, root: u32) -> Collective<'_> {
        self.begin(operation, bytes, member(root), 0)
    }

    /// Begins a message to or from `peer`, a member's number. Messages with different tags may overtake each other.
    pub fn message(&self, operation: Operation, bytes: u64, peer: u32, tag: u32) -> Collective<'_> {
        self.begin(operation, bytes, member(peer), tag)
    }

    fn begin(&self, operation: Operation, bytes: u64, peer: i32, tag: u32) -> Collective<'_> {
        if let Some(api) = api() {
            (api.begin_collective)(self.handle, operation.number(), bytes, 0, peer, tag);
        }
        Collective {
            has_failed: false,
            was_panicking: thread::panicking(),
            of: PhantomData,
        }
    }
}

fn member(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(api) = api().filter(|_| self.handle != 0) {
            (api.end_communicator)(self.handle);
        }
    }
}

/// An operation that this thread performs. It ends when the value is dropped, and has failed if a panic drops it.
#[derive(Debug)]
#[must_use = "the operation ends when this is dropped"]
pub struct Collective<'a> {
    has_failed: bool,
    /// True if the operation began while a panic unwound the thread.
    was_panicking: bool,
    /// The operation belongs to its thread, so that the value must not leave it.
    of: PhantomData<(&'a Communicator, *const ())>,
}

impl Collective<'_> {
    /// Ends the operation, which did not complete.
    pub fn fail(mut self) {
        self.has_failed = true;
    }
}

impl Drop for Collective<'_> {
    fn drop(&mut self) {
        if let Some(api) = api() {
            let is_unwinding = thread::panicking() && !self.was_panicking;
            (api.end_collective)(i32::from(self.has_failed || is_unwinding));
        }
    }
}
