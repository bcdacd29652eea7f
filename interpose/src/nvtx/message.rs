//! The text of an NVTX event, wherever it stands.

use super::ranges::REGISTERED;
use crate::core::texts;
use std::ffi::c_char;

/// A text as bytes that are ours.
pub struct Message {
    bytes: [u8; texts::MOST_BYTES],
    length: usize,
}

/// What an event is called.
#[allow(
    clippy::large_enum_variant,
    reason = "lives on the stack during one call; a box would be an allocation"
)]
pub enum Said {
    /// By a text that stands with it.
    Text(Message),
    /// By one that was registered before: its number.
    Number(u32),
    /// By nothing.
    Nothing,
}

impl Message {
    const fn empty() -> Self {
        Self {
            bytes: [0; texts::MOST_BYTES],
            length: 0,
        }
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What is counted and its number, if the text ends in one: "step 12". Only a number that can be put together again.
    pub fn counted(&self) -> Option<(&[u8], u32)> {
        let text = self.as_bytes();
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (what, number) = text.split_at(text.len() - digits);
        // A text that was cut may have lost digits.
        let is_whole = self.length < texts::MOST_BYTES;
        if what.is_empty() || number.is_empty() || !is_whole || (number[0] == b'0' && digits > 1) {
            return None;
        }
        let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
        (number != crate::core::thread::NO_NUMBER).then_some((what, number))
    }

    /// # Safety
    /// `text` must be null or end in a zero.
    pub unsafe fn narrow(text: *const c_char) -> Self {
        let mut message = Self::empty();
        if text.is_null() {
            return message;
        }
        while message.length < texts::MOST_BYTES {
            // SAFETY: not behind the zero.
            let byte = unsafe { *text.add(message.length) } as u8;
            if byte == 0 {
                break;
            }
            message.bytes[message.length] = byte;
            message.length += 1;
        }
        message
    }

    /// # Safety
    /// `text` must be null or 32-bit characters that end in a zero.
    pub unsafe fn wide(text: *const u32) -> Self {
        let mut message = Self::empty();
        if text.is_null() {
            return message;
        }
        for position in 0.. {
            // SAFETY: not behind the zero.
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

/// Where the message stands in `nvtxEventAttributes_t`, and how long one is that has it (nvToolsExt.h,
/// `nvtxEventAttributes_v2`).
const KIND_OFFSET: usize = 32;
const VALUE_OFFSET: usize = 40;
const ATTRIBUTES_BYTES: u16 = 48;

/// # Safety
/// `attributes` must be null or an `nvtxEventAttributes_t`, which says its own size.
pub unsafe fn of_attributes(attributes: *const u8) -> Said {
    if attributes.is_null() {
        return Said::Nothing;
    }
    // SAFETY: the structure begins with its version and its size, and is as long as it says.
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
    fn a_number_at_the_end_is_told_apart() {
        let counted = |text: &CStr| {
            // SAFETY: a C string.
            let message = unsafe { Message::narrow(text.as_ptr()) };
            message.counted().map(|(what, number)| (what.to_vec(), number))
        };
        assert_eq!(counted(c"step 12"), Some((b"step ".to_vec(), 12)));
        assert_eq!(counted(c"ProfilerStep#0"), Some((b"ProfilerStep#".to_vec(), 0)));
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
