//! The segment file: a header and checksummed frames, only ever appended to. Layout in RANKLOG.md, "Segment file".

use super::layout::{FORMAT_VERSION, SEGMENT_MAGIC};

/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 32;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 24;
/// First four bytes of a frame.
pub const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"RSFr");
/// Largest payload a reader accepts; a writer stays far below.
pub const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A run of definitions, beginning at `position` of the live area's definitions.
    Definitions = 1,
    /// Packed records (module `codec`).
    Records = 2,
    /// Calibrations of the clock, 64 bytes each.
    Calibrations = 3,
    /// All losses so far, 32 bytes each: count, first tick, last tick, cause, kind.
    Losses = 4,
    /// Calls in progress when the log was closed or collected: 8 bytes lane and thread id, 64 bytes record each.
    InFlight = 5,
    /// The process ended and nothing is missing: no live area is needed any more.
    End = 6,
    /// Eight bytes, a tick: every record committed before it stands in the frames above. Bounds a reader's memory.
    Watermark = 7,
}

impl FrameKind {
    /// The kind with this number.
    pub fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Definitions,
            2 => Self::Records,
            3 => Self::Calibrations,
            4 => Self::Losses,
            5 => Self::InFlight,
            6 => Self::End,
            7 => Self::Watermark,
            _ => return None,
        })
    }
}

/// The file header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Layout version.
    pub version: u32,
    /// Number from [`super::clock::Counter`].
    pub counter: u32,
    /// Nonce shared with the live area.
    pub nonce: u64,
    /// Process id as its own namespace sees it.
    pub pid: u32,
}

impl FileHeader {
    /// The header as it stands in the file.
    pub fn to_bytes(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut out = [0u8; FILE_HEADER_BYTES];
        out[0..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.counter.to_le_bytes());
        out[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        out[24..28].copy_from_slice(&self.pid.to_le_bytes());
        let check = crc32fast::hash(&out[..28]);
        out[28..32].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// The header in these bytes.
    pub fn from_bytes(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<Self, HeaderFault> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u64_at(0) != SEGMENT_MAGIC {
            return Err(HeaderFault::NotARankLog);
        }
        if u32_at(8) > FORMAT_VERSION {
            return Err(HeaderFault::Newer(u32_at(8)));
        }
        if crc32fast::hash(&bytes[..28]) != u32_at(28) {
            return Err(HeaderFault::Damaged);
        }
        Ok(Self {
            version: u32_at(8),
            counter: u32_at(12),
            nonce: u64_at(16),
            pid: u32_at(24),
        })
    }
}

/// Why a file header was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The magic is another.
    #[error("not a rankscope rank log (the first eight bytes are not RSLOG001)")]
    NotARankLog,
    /// Made by a later rankscope.
    #[error("rank log format {0} is newer than this rankscope reads; update rankscope")]
    Newer(u32),
    /// The checksum is wrong.
    #[error("the file header's checksum is wrong")]
    Damaged,
}

/// Position of an end that the process did not write itself: it was killed, and somebody else completed its log.
pub const END_COLLECTED: u32 = 1;

/// Appends a frame to `out`.
pub fn put_frame(kind: FrameKind, position: u32, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let check = crc32fast::hash(&out[start..start + 20]);
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(payload);
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Number of the kind; may be one this reader does not know.
    pub kind: u8,
    /// Bytes of the payload behind the header.
    pub payload_bytes: u32,
    /// Meaning depends on the kind; for definitions their position in the live area.
    pub position: u32,
    /// CRC-32 of the payload.
    pub payload_check: u32,
}

impl FrameHeader {
    /// The header in these bytes; `None` if they are none, damaged, or say something impossible.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.get(..FRAME_HEADER_BYTES)?.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(0) != FRAME_MAGIC || crc32fast::hash(&bytes[..20]) != u32_at(20) {
            return None;
        }
        let header = Self {
            kind: bytes[4],
            payload_bytes: u32_at(8),
            position: u32_at(12),
            payload_check: u32_at(16),
        };
        (header.payload_bytes <= MAX_PAYLOAD_BYTES).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_refuse_damage() {
        let header = FileHeader {
            version: FORMAT_VERSION,
            counter: 1,
            nonce: 7,
            pid: 9,
        };
        let mut bytes = header.to_bytes();
        assert_eq!(FileHeader::from_bytes(&bytes), Ok(header));
        bytes[20] ^= 1;
        assert_eq!(FileHeader::from_bytes(&bytes), Err(HeaderFault::Damaged));
        bytes[0] = b'X';
        assert_eq!(FileHeader::from_bytes(&bytes), Err(HeaderFault::NotARankLog));
        let newer = FileHeader {
            version: FORMAT_VERSION + 1,
            ..header
        };
        assert_eq!(
            FileHeader::from_bytes(&newer.to_bytes()),
            Err(HeaderFault::Newer(FORMAT_VERSION + 1))
        );

        let mut out = Vec::new();
        put_frame(FrameKind::Losses, 5, b"payload", &mut out);
        let frame = FrameHeader::from_bytes(&out).expect("a frame");
        assert_eq!((frame.kind, frame.payload_bytes, frame.position), (4, 7, 5));
        assert_eq!(frame.payload_check, crc32fast::hash(b"payload"));
        out[9] ^= 1;
        assert_eq!(FrameHeader::from_bytes(&out), None);
    }
}
