//! Protobuf wire format, written directly into a reusable buffer.
//!
//! prost computes the length of every nested message before it writes it, and needs owned strings. Nearly all packets
//! are slices and counters, for which this costs more than the encoding itself. Here a message is opened with space for
//! its length, and closed later.

/// Appends a base-128 varint.
#[inline]
pub(super) fn varint(buffer: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        buffer.push(value as u8);
        return;
    }
    let mut bytes = [0u8; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    buffer.extend_from_slice(&bytes[..=length]);
}

#[inline]
fn tag(buffer: &mut Vec<u8>, field: u32, wire_type: u32) {
    varint(buffer, u64::from(field << 3 | wire_type));
}

/// Appends a field of type uint32, uint64, int64, bool or enum.
#[inline]
pub(super) fn int_field(buffer: &mut Vec<u8>, field: u32, value: u64) {
    tag(buffer, field, 0);
    varint(buffer, value);
}

/// Appends a field of type fixed64 or double.
#[inline]
pub(super) fn fixed64_field(buffer: &mut Vec<u8>, field: u32, value: u64) {
    tag(buffer, field, 1);
    buffer.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field of type string or bytes, or an encoded message.
#[inline]
pub(super) fn bytes_field(buffer: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(buffer, field, 2);
    varint(buffer, value.len() as u64);
    buffer.extend_from_slice(value);
}

/// Open message: the start of its content, and the number of bytes reserved for its length.
#[must_use]
pub(super) struct Open {
    content: usize,
    room: usize,
}

/// Opens a nested message and reserves `room` bytes for its length. 1 byte suffices for up to 127 bytes of content, 2
/// bytes for up to 16,383. A wrong guess only costs a move of the content.
#[inline]
pub(super) fn open(buffer: &mut Vec<u8>, field: u32, room: usize) -> Open {
    tag(buffer, field, 2);
    buffer.resize(buffer.len() + room, 0);
    Open {
        content: buffer.len(),
        room,
    }
}

/// Closes the innermost open message.
#[inline]
pub(super) fn close(buffer: &mut Vec<u8>, message: Open) {
    let Open { content, room } = message;
    let length = buffer.len() - content;
    if room == 1 && length < 0x80 {
        buffer[content - 1] = length as u8;
    } else if room == 2 && (0x80..0x4000).contains(&length) {
        buffer[content - 2] = length as u8 | 0x80;
        buffer[content - 1] = (length >> 7) as u8;
    } else {
        close_elsewhere(buffer, content, room, length);
    }
}

/// Closes a message whose length does not need exactly the reserved number of bytes.
#[cold]
fn close_elsewhere(buffer: &mut Vec<u8>, content: usize, room: usize, length: usize) {
    let mut encoded = Vec::with_capacity(10);
    varint(&mut encoded, length as u64);
    buffer.splice(content - room..content, encoded);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_equal_those_of_prost(value: u64) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            varint(&mut ours, value);
            prost::encoding::encode_varint(value, &mut theirs);
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn every_length_fits_for_any_reserved_size() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
            for reserved in 1..=3 {
                let mut buffer = vec![7u8];
                let message = open(&mut buffer, 1, reserved);
                buffer.resize(buffer.len() + length, 9);
                close(&mut buffer, message);
                let mut expected = vec![7u8];
                bytes_field(&mut expected, 1, &vec![9u8; length]);
                assert_eq!(buffer, expected, "length {length}, room {reserved}");
            }
        }
    }
}
