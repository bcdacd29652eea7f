//! Interning: a string is written once per packet sequence. After that it is referred to by its number.
//!
//! The engine has one number space per sequence and kind. Here the numbers are the same for all sequences. A bit per
//! sequence says whether it has the definition. Memory is bounded: at a limit all strings are forgotten, and every
//! sequence starts again with cleared state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::wire::{bytes_field, close, int_field, open};

/// Kind of a string, which determines its field in InternedData
/// (protos/perfetto/trace/interned_data/interned_data.proto).
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Category,
    EventName,
    ArgName,
    ArgString,
}

const KINDS: usize = 4;
const FIELDS: [u32; KINDS] = [1, 2, 3, 29];

/// Fields of every interned message: number and text.
const IID: u32 = 1;
const TEXT: u32 = 2;

/// Approximate overhead of an entry, in bytes: the slot of the map and the allocation.
const ENTRY_BYTES: usize = 64;

#[derive(Default)]
struct Table {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<FoldHasher>>,
    /// One bit per sequence and number. It is set once the sequence has the definition.
    sent: Vec<Vec<u64>>,
}

/// Strings of all kinds, and the definitions that the current packet must still write.
pub(super) struct Interner {
    tables: [Table; KINDS],
    bytes: usize,
    limit: usize,
    pending: Vec<u8>,
}

impl Interner {
    /// Creates an interner that forgets everything when it holds more than about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Interner {
            tables: Default::default(),
            bytes: 0,
            limit,
            pending: Vec::new(),
        }
    }

    /// Forgets everything if the limit is reached; returns true in that case. Call it only between packets. Every
    /// sequence must then clear its state with its next packet.
    #[inline]
    pub(super) fn restart_if_full(&mut self) -> bool {
        if self.bytes <= self.limit {
            return false;
        }
        self.tables = Default::default();
        self.bytes = 0;
        true
    }

    /// Returns the number of `text`, from 1. If `sequence` does not have the definition yet, it becomes pending.
    #[inline]
    pub(super) fn iid(&mut self, kind: Kind, sequence: usize, text: &str) -> u64 {
        let table = &mut self.tables[kind as usize];
        let number = match table.numbers.get(text) {
            Some(&number) => number,
            None => {
                let number = table.numbers.len() as u32 + 1;
                table.numbers.insert(text.into(), number);
                self.bytes += text.len() + ENTRY_BYTES;
                number
            }
        };
        let (word, bit) = (number as usize / 64, 1u64 << (number % 64));
        let sent = table
            .sent
            .get(sequence)
            .and_then(|words| words.get(word))
            .is_some_and(|w| w & bit != 0);
        if !sent {
            self.define(kind, sequence, number, text);
        }
        u64::from(number)
    }

    #[cold]
    fn define(&mut self, kind: Kind, sequence: usize, number: u32, text: &str) {
        let sent = &mut self.tables[kind as usize].sent;
        if sent.len() <= sequence {
            sent.resize_with(sequence + 1, Vec::new);
        }
        let words = &mut sent[sequence];
        let word = number as usize / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (number % 64);
        let message = open(&mut self.pending, FIELDS[kind as usize], 1);
        int_field(&mut self.pending, IID, u64::from(number));
        bytes_field(&mut self.pending, TEXT, text.as_bytes());
        close(&mut self.pending, message);
    }

    /// Appends the pending definitions, if any, as field `field` of the open packet.
    #[inline]
    pub(super) fn write_pending(&mut self, buffer: &mut Vec<u8>, field: u32) {
        if !self.pending.is_empty() {
            bytes_field(buffer, field, &self.pending);
            self.pending.clear();
        }
    }
}

/// Hasher that folds eight bytes at a time through a 128-bit product. On the short strings of a trace it is several
/// times faster than the default hasher. The strings come from the traced program itself, and the table is bounded, so
/// collision attacks are pointless.
#[derive(Default)]
struct FoldHasher(u64);

impl FoldHasher {
    #[inline]
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for FoldHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Including the length distinguishes "a" from "a\0".
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u8(&mut self, _end_of_str: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_pending_once_per_sequence() {
        let mut interner = Interner::new(1 << 20);
        assert_eq!(interner.iid(Kind::EventName, 0, "a"), 1);
        assert_eq!(interner.iid(Kind::EventName, 0, "b"), 2);
        assert_eq!(interner.iid(Kind::ArgName, 0, "b"), 1);
        let mut first = Vec::new();
        interner.write_pending(&mut first, 12);
        assert!(!first.is_empty());

        assert_eq!(interner.iid(Kind::EventName, 0, "b"), 2);
        let mut nothing = Vec::new();
        interner.write_pending(&mut nothing, 12);
        assert!(nothing.is_empty());

        assert_eq!(interner.iid(Kind::EventName, 3, "b"), 2);
        let mut again = Vec::new();
        interner.write_pending(&mut again, 12);
        assert!(!again.is_empty(), "another sequence needs its own definition");
    }

    #[test]
    fn at_the_limit_everything_is_forgotten() {
        let mut interner = Interner::new(1000);
        for i in 0..20 {
            interner.iid(Kind::ArgString, 0, &format!("value {i}"));
        }
        assert!(interner.restart_if_full());
        assert!(!interner.restart_if_full());
        assert_eq!(interner.iid(Kind::ArgString, 0, "value 19"), 1);
    }
}
