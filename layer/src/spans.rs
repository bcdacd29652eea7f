//! Spans that a thread is inside of.

use std::cell::Cell;

/// Maximum number of spans that a thread is inside of at once. Deeper ones are not recorded.
const DEPTH: usize = 64;

#[derive(Clone, Copy)]
struct Entered {
    span: u64,
    ticks: u64,
}

/// Number of spans whose texts a thread remembers.
const TEXTS: usize = 16;

/// Text of a span. The registry's number contains a generation, so it is not used again for a long time.
#[derive(Clone, Copy)]
struct SpanText {
    id: u64,
    text: u32,
}

struct Spans {
    texts: [Cell<SpanText>; TEXTS],
    depth: Cell<usize>,
    entered: [Cell<Entered>; DEPTH],
}

// A destructor would make the state unusable while other thread-locals are destroyed, and these may enter spans.
const _: () = assert!(!std::mem::needs_drop::<Spans>());

thread_local! {
    static SPANS: Spans = const {
        Spans {
            texts: [const { Cell::new(SpanText { id: 0, text: 0 }) }; TEXTS],
            depth: Cell::new(0),
            entered: [const { Cell::new(Entered { span: 0, ticks: 0 }) }; DEPTH],
        }
    };
}

/// Returns the number of the text of a span, by the registry's number, which is never 0. `find` looks it up. This thread remembers
/// it, because a look into the registry costs as much as all the rest of a record.
#[inline]
pub fn text(id: u64, find: impl FnOnce() -> Option<u32>) -> Option<u32> {
    SPANS.with(|spans| {
        let place = &spans.texts[(id ^ id >> 8) as usize % TEXTS];
        let known = place.get();
        if known.id == id {
            return Some(known.text);
        }
        let text = find()?;
        place.set(SpanText { id, text });
        Some(text)
    })
}

/// Stores that this thread entered a span. Returns false if it is inside too many.
#[inline]
pub fn enter(span: u64, ticks: u64) -> bool {
    SPANS.with(|spans| {
        let depth = spans.depth.get();
        let Some(place) = spans.entered.get(depth) else {
            return false;
        };
        place.set(Entered { span, ticks });
        spans.depth.set(depth + 1);
        true
    })
}

/// Removes the span that this thread entered last with this number. Returns when it did. `tracing` lets programs leave spans in
/// any order.
#[inline]
pub fn exit(span: u64) -> Option<u64> {
    SPANS.with(|spans| {
        let depth = spans.depth.get();
        let at = (0..depth)
            .rev()
            .find(|&at| spans.entered[at].get().span == span)?;
        let ticks = spans.entered[at].get().ticks;
        for next in at + 1..depth {
            spans.entered[next - 1].set(spans.entered[next].get());
        }
        spans.depth.set(depth - 1);
        Some(ticks)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_can_be_left_in_any_order() {
        assert!(enter(1, 10) && enter(2, 20) && enter(1, 30));
        assert_eq!(exit(2), Some(20));
        assert_eq!(exit(1), Some(30), "the last one first");
        assert_eq!(exit(3), None);
        assert_eq!(exit(1), Some(10));
        assert_eq!(exit(1), None);
    }

    #[test]
    fn a_text_is_looked_up_once() {
        assert_eq!(text(900, || None), None);
        assert_eq!(text(900, || Some(7)), Some(7));
        assert_eq!(text(900, || panic!("it is known")), Some(7));
        // The same place.
        assert_eq!(text(900 + (TEXTS as u64) * 256 * 17, || Some(8)), Some(8));
    }

    #[test]
    fn what_is_too_deep_is_not_stored() {
        for span in 0..DEPTH as u64 + 3 {
            assert_eq!(enter(span, span), span < DEPTH as u64);
        }
        assert_eq!(exit(DEPTH as u64 + 1), None);
        for span in (0..DEPTH as u64).rev() {
            assert_eq!(exit(span), Some(span));
        }
    }
}
