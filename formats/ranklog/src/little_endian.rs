//! Little-endian numbers at an offset of a byte slice.

/// Reads four little-endian bytes; 0 beyond the end. Callers check the bounds that matter.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Reads eight little-endian bytes; 0 beyond the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
