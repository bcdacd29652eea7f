//! Values of `ncclResult_t`, as numbers, because later versions add some.

/// The call succeeded.
pub const SUCCESS: u32 = 0;
/// An argument is invalid. Nothing was enqueued.
pub const INVALID_ARGUMENT: u32 = 4;
/// The calls do not fit together. Nothing was enqueued.
pub const INVALID_USAGE: u32 = 5;
/// A nonblocking communicator is still working. This is not an error.
pub const IN_PROGRESS: u32 = 7;

/// Returns true if there is no error so far.
#[inline]
pub fn is_fine(result: u32) -> bool {
    matches!(result, SUCCESS | IN_PROGRESS)
}
