//! A slot for a call in progress: the hook of the call writes it, and readers copy it meanwhile.
//!
//! It is a sequence lock with one writer. The first word is 0 while the slot is free. Otherwise its low half is the
//! generation: a counter of the writer's calls, never 0. So two calls of one kind in a row have different first words.
//! A reader that finds the same first word before and after the other words has copied one call.
//!
//! The words are atomics, and the fences are those that the memory model of C++ and Rust asks for. They cost the writer
//! nothing on x86-64. `tests/weak_memory.rs` checks all interleavings of this code with loom.

use super::word::Word;
use std::sync::atomic::Ordering;

/// Writes a call into a free slot. Only the owner of the slot may call this.
#[inline(always)]
pub fn put<W: Word, const BODY: usize>(first: &W, rest: &[W; BODY], commit_word: u64, body: [u64; BODY]) {
    // A reader that sees one of the following words also sees that the slot was freed before.
    W::fence(Ordering::Release);
    for (at, value) in body.into_iter().enumerate() {
        rest[at].store(value, Ordering::Relaxed);
    }
    first.store(commit_word, Ordering::Release);
}

/// Frees a slot. Only its owner may call this.
#[inline(always)]
pub fn clear<W: Word>(first: &W) {
    first.store(0, Ordering::Release);
}

/// Copies a slot: the commit word and the other words.
///
/// Returns `None` if it is free, or if its owner began another call meanwhile. Such a call is not stuck.
pub fn copy<W: Word, const BODY: usize>(first: &W, rest: &[W; BODY]) -> Option<(u64, [u64; BODY])> {
    let commit_word = first.load(Ordering::Acquire);
    if commit_word == 0 {
        return None;
    }
    let body = rest.each_ref().map(|word| word.load(Ordering::Relaxed));
    W::fence(Ordering::Acquire);
    (first.load(Ordering::Relaxed) == commit_word).then_some((commit_word, body))
}
