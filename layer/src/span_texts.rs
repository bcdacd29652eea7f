//! Texts of a layer's spans. A look into `tracing`'s registry costs as much as the rest of a record.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of places; a power of two.
const PLACES: usize = 1 << TEXT_BITS;
/// Bits of a place that contain the number of a text. The recorder's numbers have as many.
const TEXT_BITS: u32 = 12;

/// The text of the span that was created last at each place.
///
/// A place is one word, so that no thread sees one span's identifier with the text of another. The product with an odd number is
/// different for each identifier. Its upper bits are in the word, and its lower bits select the place.
#[derive(Debug)]
pub struct SpanTexts(Box<[AtomicU64]>);

impl SpanTexts {
    /// Creates an empty table of 32 KiB.
    pub fn new() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the place of a span, and the word without a text.
    #[inline]
    fn place(&self, id: u64) -> (&AtomicU64, u64) {
        let product = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let lower = PLACES as u64 - 1;
        (&self.0[(product & lower) as usize], product & !lower)
    }

    /// Stores the text of a new span. `id` is never 0. The registry uses an identifier again after the span was closed.
    #[inline]
    pub fn created(&self, id: u64, text: u32) {
        let (place, word) = self.place(id);
        // A text that is not stored has no such number. Its span must not get the text of an earlier one.
        let word = if u64::from(text) < PLACES as u64 {
            word | u64::from(text)
        } else {
            0
        };
        place.store(word, Ordering::Relaxed);
    }

    /// Returns the text of a span, unless another span took its place.
    #[inline]
    pub fn of(&self, id: u64) -> Option<u32> {
        let (place, word) = self.place(id);
        // Whoever enters a span got it from the thread that created it, which orders this load after that store.
        let found = place.load(Ordering::Relaxed);
        let is_of_span = found != 0 && found & !(PLACES as u64 - 1) == word;
        is_of_span.then_some(found as u32 & (PLACES as u32 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_never_has_the_text_of_another_one() {
        let texts = SpanTexts::new();
        assert_eq!(texts.of(1), None);
        for id in 1..100_000 {
            texts.created(id, id as u32 % 4096);
            assert_eq!(texts.of(id), Some(id as u32 % 4096));
        }
        let known = (1..100_000).filter_map(|id| Some((id, texts.of(id)?)));
        assert!(known.clone().count() > 1000);
        assert!(known.clone().all(|(id, text)| text == id as u32 % 4096));
    }

    #[test]
    fn the_last_span_with_an_identifier_counts() {
        let texts = SpanTexts::new();
        texts.created(7, 3);
        texts.created(7, 4);
        assert_eq!(texts.of(7), Some(4));
        texts.created(7, u32::MAX);
        assert_eq!(texts.of(7), None, "the recorder has too many texts");
    }
}
