//! Is a stream being captured into a graph? Then a call is a template, and nothing runs.

use crate::cuda::driver;

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NONE: i32 = 0;

/// True if what is called on this stream now becomes part of a graph.
#[inline]
pub fn is_capturing(stream: usize) -> bool {
    status(stream).is_some_and(|status| status != NONE)
}

/// True if it is known that nothing put on this stream becomes part of a graph, or disturbs one.
pub fn is_free(stream: usize) -> bool {
    status(stream) == Some(NONE)
}

/// `None`: there is no driver to ask, or it refuses to answer, as of the legacy stream while another is captured, which
/// that one is not.
#[inline]
fn status(stream: usize) -> Option<i32> {
    let mut status = NONE;
    // SAFETY: the stream is what the program passes to NCCL, which asks the same of it.
    let outcome = unsafe { driver::stream_is_capturing(stream, &raw mut status) };
    (outcome == driver::SUCCESS).then_some(status)
}
