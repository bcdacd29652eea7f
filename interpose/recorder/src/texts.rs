//! Strings that records refer to by number.
//!
//! Each string is kept once. It is written into the log once per process life, when it is first used there. The table
//! has a fixed size, never allocates and is read without a lock.

use crate::hash::Hash128;
use crate::{configuration, life, redacted};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::definition::{KIND_TEXT, Payload, framed_bytes};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Maximum number of different strings; a power of two.
const PLACES: usize = 4096;
/// Maximum number of slots that are probed for one string. Without a limit, a program with a new text for each step
/// would make each step slower.
const MAX_STEPS: usize = 32;
/// Strings may take one part in SHARE of the capacity for definitions, because communicators need the rest.
const SHARE: u64 = 4;
/// Values may take one part in VALUE_SHARE of the slots and of the capacity. A program that reports many different values still
/// has names for its spans.
const VALUE_SHARE: usize = 2;
/// Maximum length of a string, in bytes. Longer strings are truncated.
pub const MOST_BYTES: usize = 256;

struct Place {
    hash: AtomicU64,
    /// Process life in which the string was written into the log.
    life: AtomicU32,
    /// Length of the string plus one; 0 before the string is complete.
    length: AtomicU32,
    /// 1 for a value, 0 for a name.
    is_value: AtomicU32,
    /// 1 if the values of this name are secrets. Valid once the string was written into a log.
    is_secret: AtomicU32,
    /// 1 if the number at the end of the string is part of a secret. Valid as `is_secret`.
    hides_number: AtomicU32,
    /// The string. Threads that use it for the first time at the same moment all store the same bytes, so that none waits for
    /// another one.
    text: [AtomicU8; MOST_BYTES],
}

static PLACE: [Place; PLACES] = [const {
    Place {
        hash: AtomicU64::new(0),
        life: AtomicU32::new(0),
        length: AtomicU32::new(0),
        is_value: AtomicU32::new(0),
        is_secret: AtomicU32::new(0),
        hides_number: AtomicU32::new(0),
        text: [const { AtomicU8::new(0) }; MOST_BYTES],
    }
}; PLACES];

/// Returns the number of the string that these pieces form. If the table has no slot for it, counts a loss and returns
/// `None`.
pub fn number(pieces: &[&[u8]]) -> Option<u32> {
    let found = find(pieces);
    if found.is_none() {
        count_loss();
    }
    found
}

/// As [`number`], but counts no loss.
pub fn find(pieces: &[&[u8]]) -> Option<u32> {
    find_of_class(pieces, false)
}

/// As [`find`], for a value or a message. There is less room for values than for names.
pub fn find_value(value: &[u8]) -> Option<u32> {
    find_of_class(&[value], true)
}

/// Number of slots with values.
static VALUES: AtomicU32 = AtomicU32::new(0);

fn find_of_class(pieces: &[&[u8]], is_value: bool) -> Option<u32> {
    let hash = pieces
        .iter()
        .fold(Hash128::new(), |hash, piece| hash.add(piece))
        .finish();
    // Hash 0 marks an empty slot, so the lowest bit is set.
    let hash = u64::from_le_bytes([
        hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7],
    ]) | 1;
    // The upper bits of an FNV hash differ little between similar texts. The product spreads them over the table.
    let start = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    for step in 0..MAX_STEPS {
        let number = (start + step) % PLACES;
        let place = &PLACE[number];
        let mut stored = place.hash.load(Ordering::Relaxed);
        if stored == 0 {
            if is_value && VALUES.load(Ordering::Relaxed) as usize >= PLACES / VALUE_SHARE {
                return None;
            }
            let taken = place
                .hash
                .compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() && is_value {
                VALUES.fetch_add(1, Ordering::Relaxed);
                place.is_value.store(1, Ordering::Relaxed);
            }
            stored = taken.err().unwrap_or(hash);
        }
        if stored == hash {
            place.complete(pieces);
            return Some(number as u32);
        }
    }
    None
}

/// Writes a string into the log, unless this process life has done so. If there is no capacity, counts a loss and
/// returns false; no record may refer to the string then.
#[inline]
pub fn write_down(number: u32) -> bool {
    let Some(place) = PLACE.get(number as usize) else {
        return false;
    };
    let now = life::number();
    place.life.load(Ordering::Relaxed) == now || place.define(number, now)
}

/// Writes a name to the log, and returns whether its values are secret. Returns `None` if the name cannot be written, and counts that
/// loss.
pub fn write_name(number: u32) -> Option<bool> {
    let Some(place) = PLACE.get(number as usize) else {
        count_loss();
        return None;
    };
    if !write_down(number) {
        return None;
    }
    // Acquire pairs with the release in `define`: with the life, this thread sees the result.
    if place.life.load(Ordering::Acquire) == 0 {
        // Another thread could not write the name after all.
        count_loss();
        return None;
    }
    Some(place.is_secret.load(Ordering::Relaxed) == 1)
}

/// Returns true if the number at the end of a string is part of a secret. The string was written into the log.
pub fn hides_number(number: u32) -> bool {
    PLACE
        .get(number as usize)
        .is_some_and(|place| place.hides_number.load(Ordering::Relaxed) == 1)
}

impl Place {
    /// Copies the string, unless a thread has done so. Every thread that has the number of a string can then write it into the log.
    #[inline]
    fn complete(&self, pieces: &[&[u8]]) {
        if self.length.load(Ordering::Relaxed) == 0 {
            self.copy(pieces);
        }
    }

    #[cold]
    fn copy(&self, pieces: &[&[u8]]) {
        let bytes = pieces.iter().copied().flatten();
        let mut length = 0;
        for (place, &byte) in self.text.iter().zip(bytes) {
            place.store(byte, Ordering::Relaxed);
            length += 1;
        }
        self.length.store(length + 1, Ordering::Release);
    }

    #[cold]
    fn define(&self, number: u32, now: u32) -> bool {
        let length = self.length.load(Ordering::Acquire) as usize;
        let Some(set) = life::definitions() else {
            return false;
        };
        let all = set.area.layout().definitions_bytes / SHARE;
        let is_value = self.is_value.load(Ordering::Relaxed) == 1;
        let room = if is_value { all / VALUE_SHARE as u64 } else { all };
        // A full table must stay cheap, so the size is checked before the text is redacted.
        if length == 0 || !has_room(now, definition_bytes(length - 1), room) {
            count_loss();
            return false;
        }
        // The bytes were stored before the length, which was loaded with acquire ordering.
        let text: [u8; MOST_BYTES] = std::array::from_fn(|at| self.text[at].load(Ordering::Relaxed));
        let text = &text[..length - 1];
        let redactor = configuration::redactor();
        let shown = redacted::label(&redactor, text, text.len() == MOST_BYTES);
        // A text that was first seen as a value may be a name, too.
        let is_secret = redacted::is_secret_name(&redactor, text);
        self.is_secret.store(u32::from(is_secret), Ordering::Relaxed);
        let shown = shown.as_bytes();
        let hides_number = text.ends_with(b"#") && !shown.ends_with(b"#");
        self.hides_number
            .store(u32::from(hides_number), Ordering::Relaxed);
        if !take_room(now, definition_bytes(shown.len()), room) {
            count_loss();
            return false;
        }
        // Release: a thread that sees the life also sees `is_secret`.
        if self.life.swap(now, Ordering::AcqRel) == now {
            // Another thread has written it meanwhile.
            return true;
        }
        if set
            .area
            .define(KIND_TEXT, Payload::text(number, shown).as_bytes())
        {
            return true;
        }
        self.life.store(0, Ordering::Relaxed);
        count_loss();
        false
    }
}

/// Bytes of strings in this process life, in the lower half. The upper half is the number of the process life.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Returns the size of the definition of a text of this length: a number and the text.
fn definition_bytes(length: usize) -> u64 {
    framed_bytes(size_of::<u32>() + length) as u64
}

/// Returns true if this process life has `bytes` of `room` left.
fn has_room(life: u32, bytes: u64, room: u64) -> bool {
    let taken = TAKEN.load(Ordering::Relaxed);
    let of_life = if taken >> 32 == u64::from(life) {
        taken & u64::from(u32::MAX)
    } else {
        0
    };
    of_life + bytes <= room
}

/// Reserves `bytes` of `room`, and returns false if this process life has less left.
fn take_room(life: u32, bytes: u64, room: u64) -> bool {
    let upper = u64::from(life) << 32;
    let take = |taken: u64| {
        let taken = if taken >> 32 == u64::from(life) {
            taken & u64::from(u32::MAX)
        } else {
            0
        };
        Some(taken + bytes)
            .filter(|&sum| sum <= room)
            .map(|sum| upper | sum)
    };
    TAKEN
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
}

/// Counts a mark whose text is not stored.
#[cold]
pub fn count_loss() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoDefinition, RecordKind::Mark, 1, now, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let one = number(&[b"forward"]);
        assert!(one.is_some());
        assert_eq!(number(&[b"forward"]), one);
        assert_ne!(number(&[b"back", b"ward"]), one);
    }

    #[test]
    fn values_leave_slots_for_names() {
        let values = (0..PLACES).filter_map(|value| find_value(format!("value {value}").as_bytes()));
        let values = values.count();
        assert!((PLACES / 3..=PLACES / VALUE_SHARE).contains(&values), "{values}");
        assert!(find_value(b"value 0").is_some(), "a stored value is found");
        assert_eq!(find_value(b"one more"), None);
        let names = (0..PLACES / 4).filter_map(|name| find(&[format!("name {name}").as_bytes()]));
        assert!(names.count() > PLACES / 5);
    }

    #[test]
    fn strings_leave_space_for_communicators_in_every_process() {
        assert!(take_room(7, 60, 100));
        assert!(!take_room(7, 60, 100));
        assert!(take_room(7, 40, 100));
        assert!(take_room(8, 100, 100), "a child begins anew");
    }
}
