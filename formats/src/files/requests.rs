//! Splits ranges of an object into requests of limited size.

use std::ops::Range;

/// Maximum number of bytes of one request.
pub(super) const REQUEST_BYTES: u64 = 8 << 20;

/// Returns the requests that read a range, in order.
pub(super) fn requests(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    (0..request_count(range) as u64).map(move |number| {
        let start = start + number * REQUEST_BYTES;
        start..end.min(start + REQUEST_BYTES)
    })
}

/// Returns the number of requests that read a range.
pub(super) fn request_count(range: &Range<u64>) -> usize {
    // The bytes of a range are held in memory, so it is smaller than the address space.
    range.end.saturating_sub(range.start).div_ceil(REQUEST_BYTES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_of_a_range_follow_each_other(start in 0u64..100, bytes in 0u64..5 * REQUEST_BYTES) {
            let range = start..start + bytes;
            let mut at = range.start;
            for request in requests(&range) {
                prop_assert_eq!(request.start, at);
                prop_assert!(request.end > at && request.end - at <= REQUEST_BYTES);
                at = request.end;
            }
            prop_assert_eq!(at, range.end);
            prop_assert_eq!(requests(&range).count(), request_count(&range));
        }
    }
}
