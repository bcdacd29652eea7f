//! Spans that a thread is inside of.

use std::cell::Cell;

/// Maximum number of spans that a thread is inside of at once. Deeper ones are counted as losses.
const DEPTH: usize = 64;

#[derive(Clone, Copy)]
struct Entered {
    span: u64,
    ticks: u64,
    is_operation: bool,
}

struct Spans {
    depth: Cell<usize>,
    entered: [Cell<Entered>; DEPTH],
}

// A destructor would make the state unusable while other thread-locals are destroyed, and these may enter spans.
const _: () = assert!(!std::mem::needs_drop::<Spans>());

thread_local! {
    static SPANS: Spans = const {
        Spans {
            depth: Cell::new(0),
            entered: [const { Cell::new(Entered { span: 0, ticks: 0, is_operation: false }) }; DEPTH],
        }
    };
}

/// Stores that this thread entered a span, which may be an operation. Returns false if it is inside too many.
#[inline]
pub fn enter(span: u64, ticks: u64, is_operation: bool) -> bool {
    SPANS.with(|spans| {
        let depth = spans.depth.get();
        let Some(place) = spans.entered.get(depth) else {
            return false;
        };
        place.set(Entered {
            span,
            ticks,
            is_operation,
        });
        spans.depth.set(depth + 1);
        true
    })
}

/// Removes the span that this thread entered last with this number. Returns when it did, and whether it
/// is an operation. `tracing` lets programs leave spans in
/// any order.
#[inline]
pub fn exit(span: u64) -> Option<(u64, bool)> {
    SPANS.with(|spans| {
        let depth = spans.depth.get();
        let at = (0..depth)
            .rev()
            .find(|&at| spans.entered[at].get().span == span)?;
        let entered = spans.entered[at].get();
        for next in at + 1..depth {
            spans.entered[next - 1].set(spans.entered[next].get());
        }
        spans.depth.set(depth - 1);
        Some((entered.ticks, entered.is_operation))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_can_be_left_in_any_order() {
        assert!(enter(1, 10, false) && enter(2, 20, true) && enter(1, 30, false));
        assert_eq!(exit(2), Some((20, true)));
        assert_eq!(exit(1), Some((30, false)), "the last one first");
        assert_eq!(exit(3), None);
        assert_eq!(exit(1), Some((10, false)));
        assert_eq!(exit(1), None);
    }

    #[test]
    fn what_is_too_deep_is_not_stored() {
        for span in 0..DEPTH as u64 + 3 {
            assert_eq!(enter(span, span, false), span < DEPTH as u64);
        }
        assert_eq!(exit(DEPTH as u64 + 1), None);
        for span in (0..DEPTH as u64).rev() {
            assert_eq!(exit(span), Some((span, false)));
        }
    }
}
