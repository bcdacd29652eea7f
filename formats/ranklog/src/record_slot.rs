//! A record's place in a chunk: its lane writes it once, and readers wait for its commit word.
//!
//! A release store of the commit word follows the other words, and readers acquire it. The low half of the commit word is
//! the generation of the chunk. So the records of an earlier use of the chunk are not taken for new ones. A chunk changes
//! its generation only after its records were read. `tests/weak_memory.rs` checks all interleavings with loom.

use super::word::Word;
use std::sync::atomic::Ordering;

/// Writes a record. Only the owner of the chunk may call this, once per use of the place.
#[inline(always)]
pub fn put<W: Word, const BODY: usize>(first: &W, rest: &[W; BODY], commit_word: u64, body: [u64; BODY]) {
    for (word, value) in rest.iter().zip(body) {
        word.store(value, Ordering::Relaxed);
    }
    first.store(commit_word, Ordering::Release);
}

/// Reads a record: the commit word and the other words. Returns `None` if no record of this generation is committed.
#[inline(always)]
pub fn copy<W: Word, const BODY: usize>(
    first: &W,
    rest: &[W; BODY],
    generation: u32,
) -> Option<(u64, [u64; BODY])> {
    let commit_word = first.load(Ordering::Acquire);
    (commit_word as u32 == generation).then(|| {
        (
            commit_word,
            rest.each_ref().map(|word| word.load(Ordering::Relaxed)),
        )
    })
}
