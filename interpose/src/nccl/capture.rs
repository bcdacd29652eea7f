//! Checks whether a stream is being captured into a graph. A call on such a stream is a template, and nothing runs.

use crate::cuda::driver;

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NONE: i32 = 0;

/// Returns true if a call on this stream now becomes part of a graph.
#[inline]
pub fn is_capturing(stream: usize) -> bool {
    status(stream).is_some_and(|status| status != NONE)
}

/// Returns true if the driver confirms that no capture includes this stream. Work on it then neither joins nor disturbs
/// a graph.
pub fn is_free(stream: usize) -> bool {
    status(stream) == Some(NONE)
}

/// Returns the capture status of a stream. Returns `None` if no driver is loaded, or if it refuses to answer. It
/// refuses for the legacy stream while another stream is captured; the legacy stream itself is not captured then.
#[inline]
fn status(stream: usize) -> Option<i32> {
    let mut status = NONE;
    // SAFETY: the stream is the one that the program passes to NCCL, which makes the same query. `status` is a local.
    let outcome = unsafe { driver::stream_is_capturing(stream, &raw mut status) };
    (outcome == driver::SUCCESS).then_some(status)
}
