//! Numbers and texts as differences from others, in few bytes. This is no file format: only the process that wrote the bytes reads
//! them.

use super::encoding::put_varint;

/// Appends a number that is often small, positive or negative.
pub fn put_signed(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Takes a number that [`put_signed`] appended from the start of `from`. `None`: the bytes end too early, or are damaged.
pub fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let value = take_unsigned(from)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Appends a number that is often small.
pub fn put_unsigned(value: u64, out: &mut Vec<u8>) {
    put_varint(value, out);
}

/// Takes a number that [`put_unsigned`] appended from the start of `from`. `None`: the bytes end too early, or are damaged.
#[inline]
pub fn take_unsigned(from: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Appends a word that differs from `before`. Returns false and appends nothing if it does not.
#[inline]
pub(super) fn pack_word(word: i64, before: i64, out: &mut Vec<u8>) -> bool {
    if word == before {
        return false;
    }
    put_signed(word.wrapping_sub(before), out);
    true
}

/// As [`pack_word`], for words that may be missing. Zero means a missing one, because the difference of two words
/// that differ is not zero.
#[inline]
pub(super) fn pack_option(word: Option<i64>, before: Option<i64>, out: &mut Vec<u8>) -> bool {
    match (word, before) {
        (Some(word), Some(before)) => pack_word(word, before, out),
        (Some(word), None) => {
            put_signed(word, out);
            true
        }
        (None, Some(_)) => {
            out.push(0);
            true
        }
        (None, None) => false,
    }
}

/// Takes a word that [`pack_word`] appended.
#[inline]
pub(super) fn take_word(before: i64, from: &mut &[u8]) -> Option<i64> {
    Some(before.wrapping_add(take_signed(from)?))
}

/// Takes a word that [`pack_option`] appended. The outer `None` is damage.
#[inline]
pub(super) fn take_option(before: Option<i64>, from: &mut &[u8]) -> Option<Option<i64>> {
    let difference = take_signed(from)?;
    Some(match before {
        None => Some(difference),
        Some(_) if difference == 0 => None,
        Some(before) => Some(before.wrapping_add(difference)),
    })
}

/// Appends a text that differs from `before`. Returns false and appends nothing if it does not.
pub(super) fn pack_text(text: Option<&str>, before: Option<&str>, out: &mut Vec<u8>) -> bool {
    if text == before {
        return false;
    }
    put_unsigned(text.map_or(0, |text| text.len() as u64 + 1), out);
    out.extend_from_slice(text.unwrap_or_default().as_bytes());
    true
}

/// Takes a text that [`pack_text`] appended. The outer `None` is damage.
pub(super) fn take_text(from: &mut &[u8]) -> Option<Option<String>> {
    let Some(length) = take_unsigned(from)?.checked_sub(1) else {
        return Some(None);
    };
    let (text, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok().map(Some)
}
