//! Words that one thread writes, and that others copy meanwhile: a call in progress, the values of a buffer.
//!
//! It is a sequence lock with one writer. The first word is 0 while there are no values. Otherwise it is their commit
//! word, which must differ from that of the values before. A reader that finds the same first word before and after the
//! other words has copied the words of one write.
//!
//! The words are atomics, and the fences are those that the memory model of C++ and Rust asks for. They cost the writer
//! nothing on x86-64. `tests/weak_memory.rs` checks all interleavings of this code with loom.

use super::word::Word;
use std::sync::atomic::Ordering;

/// Writes values. Only one thread may call this at a time, and only while readers take no values.
#[inline(always)]
pub fn put<W: Word, const BODY: usize>(first: &W, rest: &[W; BODY], commit_word: u64, body: [u64; BODY]) {
    // A reader that sees one of the following words also sees that the first word had changed before.
    W::fence(Ordering::Release);
    for (at, value) in body.into_iter().enumerate() {
        rest[at].store(value, Ordering::Relaxed);
    }
    first.store(commit_word, Ordering::Release);
}

/// Removes the values. Only the writer may call this.
#[inline(always)]
pub fn clear<W: Word>(first: &W) {
    first.store(0, Ordering::Release);
}

/// Copies the commit word and the other words. Returns `None` if there are no values, or if others were written meanwhile.
pub fn copy<W: Word, const BODY: usize>(first: &W, rest: &[W; BODY]) -> Option<(u64, [u64; BODY])> {
    let commit_word = first.load(Ordering::Acquire);
    if commit_word == 0 {
        return None;
    }
    let body = rest.each_ref().map(|word| word.load(Ordering::Relaxed));
    W::fence(Ordering::Acquire);
    (first.load(Ordering::Relaxed) == commit_word).then_some((commit_word, body))
}
