//! `ncclResult_t`: numbers, because later versions add some.

/// The call did what it was asked for.
pub const SUCCESS: u32 = 0;
/// An argument is wrong: nothing was enqueued.
pub const INVALID_ARGUMENT: u32 = 4;
/// The calls do not fit together: nothing was enqueued.
pub const INVALID_USAGE: u32 = 5;
/// A communicator that does not block is still at it: no error.
pub const IN_PROGRESS: u32 = 7;

/// What a function returned; the register's upper half means nothing.
#[inline]
pub fn of(returned: usize) -> u32 {
    returned as u32
}

/// True if nothing is wrong, or not yet.
#[inline]
pub fn is_fine(result: u32) -> bool {
    matches!(result, SUCCESS | IN_PROGRESS)
}
