//! Segment file: a header and checksummed frames. It is append-only. RANKLOG.md, section "Segment file", has the
//! layout.

use super::layout::{FORMAT_VERSION, SEGMENT_MAGIC};
use crate::numbered::numbered_enum;

/// Size of the file header, in bytes.
pub const FILE_HEADER_BYTES: usize = 32;
/// Size of the header of a frame, in bytes.
pub const FRAME_HEADER_BYTES: usize = 24;
/// First four bytes of a frame.
pub const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"RSFr");
/// Maximum size of a payload that a reader accepts, in bytes. Writers stay far below.
pub const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

numbered_enum! {
    /// Kind of a frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum FrameKind: u8, from_u8 {
        /// Definitions, starting at `position` in the definitions of the live area.
        Definitions = 1,
        /// Packed records (module `codec`).
        Records = 2,
        /// Clock calibrations, 64 bytes each.
        Calibrations = 3,
        /// Loss counts so far, 32 bytes each: count, first tick, last tick, cause and kind.
        Losses = 4,
        /// Calls in progress when the log was closed or collected: 8 bytes of lane and thread ID, and a 64-byte record
        /// each.
        InFlight = 5,
        /// The process ended and the log is complete. The live area is no longer needed.
        End = 6,
        /// Watermark of eight bytes, a tick: every record that was committed before it is in the frames above. It
        /// bounds the memory of a reader.
        Watermark = 7,
    }
}

/// Header of the file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Version of the layout.
    pub version: u32,
    /// Number of the [`super::clock::Counter`].
    pub counter: u32,
    /// Nonce that the segment file shares with the live area.
    pub nonce: u64,
    /// Process ID in the process's own namespace.
    pub pid: u32,
}

impl FileHeader {
    /// Returns the header in its file format.
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

    /// Decodes the header.
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

/// Reason why a file header was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The magic number does not match.
    #[error("not a rankscope rank log (the first eight bytes are not RSLOG001)")]
    NotARankLog,
    /// A later version of rankscope wrote the file.
    #[error("rank log format {0} is newer than this rankscope reads; update rankscope")]
    Newer(u32),
    /// The checksum does not match.
    #[error("the file header's checksum is wrong")]
    Damaged,
}

/// Value of `position` in an end frame that the process did not write itself. It was killed, and a collector completed
/// its log.
pub const END_COLLECTED: u32 = 1;
/// Value of `position` in the end frame of a copy of a log whose process still ran.
pub const END_COPIED: u32 = 2;

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

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Number of the kind. It may be unknown to this reader.
    pub kind: u8,
    /// Size of the payload after the header, in bytes.
    pub payload_bytes: u32,
    /// Depends on the kind. For definitions it is their position in the live area.
    pub position: u32,
    /// CRC-32 of the payload.
    pub payload_check: u32,
}

impl FrameHeader {
    /// Decodes a header; `None` if the bytes are not a header, are damaged, or contain impossible values.
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
