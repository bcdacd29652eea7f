//! The text of an NVTX event, in any of its forms.

use super::ranges::REGISTERED;
use crate::core::{configuration, redacted, texts};
use std::ffi::c_char;

/// A copy of a text.
pub struct Message {
    bytes: [u8; texts::MOST_BYTES],
    length: usize,
}

/// Message of an event.
#[allow(
    clippy::large_enum_variant,
    reason = "lives on the stack during one call; a box would be an allocation"
)]
pub enum Said {
    /// The text is part of the event.
    Text(Message),
    /// The text was registered before; this is its number.
    Number(u32),
    /// The event has no message.
    Nothing,
}

impl Message {
    const fn empty() -> Self {
        Self {
            bytes: [0; texts::MOST_BYTES],
            length: 0,
        }
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Splits a text that ends with a number, such as "step 12", into the text before it and the number. Only a number
    /// whose digits can be restored exactly is split off.
    pub fn counted(&self) -> Option<(&[u8], u32)> {
        let text = self.as_bytes();
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (what, number) = text.split_at(text.len() - digits);
        // A truncated text may have lost digits.
        let is_whole = self.length < texts::MOST_BYTES;
        if what.is_empty() || number.is_empty() || !is_whole || (number[0] == b'0' && digits > 1) {
            return None;
        }
        // A key may end with digits, and is redacted as a whole.
        if redacted::ends_like_key(text, configuration::redactor) {
            return None;
        }
        let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
        (number != crate::thread::NO_NUMBER).then_some((what, number))
    }

    /// Copies a text of 8-bit characters.
    ///
    /// # Safety
    /// `text` must be null or NUL-terminated.
    pub unsafe fn narrow(text: *const c_char) -> Self {
        let mut message = Self::empty();
        if text.is_null() {
            return message;
        }
        while message.length < texts::MOST_BYTES {
            // SAFETY: `text` is not null, and no earlier character was the final NUL, so this one is still part of the
            // text.
            let byte = unsafe { *text.add(message.length) } as u8;
            if byte == 0 {
                break;
            }
            message.bytes[message.length] = byte;
            message.length += 1;
        }
        message
    }

    /// Copies a text of 32-bit characters as UTF-8.
    ///
    /// # Safety
    /// `text` must be null or an array of 32-bit characters that ends with 0.
    pub unsafe fn wide(text: *const u32) -> Self {
        let mut message = Self::empty();
        if text.is_null() {
            return message;
        }
        for position in 0.. {
            // SAFETY: `text` is not null, and no earlier character was the final 0, so this one is still part of the
            // text.
            let code = unsafe { text.add(position).read() };
            let mut encoded = [0; 4];
            let encoded = char::from_u32(code)
                .unwrap_or('\u{FFFD}')
                .encode_utf8(&mut encoded)
                .as_bytes();
            if code == 0 || message.length + encoded.len() > texts::MOST_BYTES {
                break;
            }
            message.bytes[message.length..message.length + encoded.len()].copy_from_slice(encoded);
            message.length += encoded.len();
        }
        message
    }
}

/// Offsets of the message in `nvtxEventAttributes_t`, and the minimum size of a structure that has a message
/// (nvToolsExt.h, `nvtxEventAttributes_v2`).
const KIND_OFFSET: usize = 32;
const VALUE_OFFSET: usize = 40;
const ATTRIBUTES_BYTES: u16 = 48;

/// Reads the message of an event.
///
/// # Safety
/// `attributes` must be null or an `nvtxEventAttributes_t`, which contains its own size.
pub unsafe fn of_attributes(attributes: *const u8) -> Said {
    if attributes.is_null() {
        return Said::Nothing;
    }
    // SAFETY: `attributes` is not null. The structure starts with its version and its size, and is as long as its size
    // says. The kind determines the type of the value.
    unsafe {
        if attributes.add(2).cast::<u16>().read_unaligned() < ATTRIBUTES_BYTES {
            return Said::Nothing;
        }
        let kind = attributes.add(KIND_OFFSET).cast::<i32>().read_unaligned();
        let value = attributes.add(VALUE_OFFSET).cast::<usize>().read_unaligned();
        match kind {
            1 => Said::Text(Message::narrow(value as *const c_char)),
            2 => Said::Text(Message::wide(value as *const u32)),
            3 => REGISTERED.get(value).map_or(Said::Nothing, Said::Number),
            _ => Said::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_number_at_the_end_is_separated() {
        let counted = |text: &CStr| {
            // SAFETY: the text is a C string.
            let message = unsafe { Message::narrow(text.as_ptr()) };
            message.counted().map(|(what, number)| (what.to_vec(), number))
        };
        assert_eq!(counted(c"step 12"), Some((b"step ".to_vec(), 12)));
        assert_eq!(counted(c"ProfilerStep#0"), Some((b"ProfilerStep#".to_vec(), 0)));
        // The digits of a key and of a secret number belong to it.
        assert_eq!(counted(c"use AKIAIOSFODNN7EXAMPL2"), None);
        assert_eq!(counted(c"api_token=1234567890"), None);
        for text in [
            c"forward",
            c"12",
            c"step 007",
            c"",
            c"at 4294967295",
            c"n 99999999999",
        ] {
            assert_eq!(counted(text), None, "{text:?}");
        }
    }
}
