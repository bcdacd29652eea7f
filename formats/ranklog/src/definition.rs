//! Definitions: data that records refer to by number. They are written once and never evicted. RANKLOG.md, section
//! "Definitions", has the layout.
//!
//! A definition is framed by one commit word, `payload_bytes:24 | kind:8 | check:32`, and padded to eight bytes. The
//! writer stores the word last. A half-written definition therefore has a zero word, or its check fails.

use crate::numbered::numbered_enum;
use crate::operation::Library;

/// Size of the commit word before each definition, in bytes.
pub const DEFINITION_HEAD_BYTES: usize = 8;
/// Maximum size of a payload, in bytes. Longer strings are cut and end in `…`.
pub const MAX_PAYLOAD_BYTES: usize = 4096;

numbered_enum! {
    /// Source of a communicator's identity, which determines how reliable it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum IdentitySource: u8, from_u8 {
        /// Full store key and the address blob of rank 0: unique, and the same on all members.
        KeyAndBlob = 1,
        /// Only part of the rendezvous was recorded. The identity may coincide with that of another communicator.
        Partial = 2,
        /// The rendezvous was not recorded. Members can only be matched by order of creation.
        Ordinal = 3,
        /// The library's own unique ID (NCCL's 128 bytes, MPI's ordinal per parent).
        UniqueId = 4,
        /// One member: the identity is that of the process.
        SelfOnly = 5,
    }
}

/// Communicator as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Number by which records of this log refer to it.
    pub index: u32,
    /// Library of the communicator.
    pub library: Library,
    /// Source of `identity`.
    pub identity_source: IdentitySource,
    /// Number of this process in the communicator.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
    /// Identity: the same on every member, and different for every other communicator.
    pub identity: [u8; 16],
    /// Time of creation, in ticks.
    pub created_ticks: u64,
    /// Index of the parent communicator; `u32::MAX` if none.
    pub parent: u32,
    /// Store key or name under which it was created, for display.
    pub name: String,
}

/// Stream of a device, by CUPTI's IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Number by which records of this log refer to it.
    pub index: u32,
    /// Ordinal of the device in this process.
    pub device: u32,
    /// CUPTI's ID of the context in this process.
    pub context: u32,
    /// CUPTI's ID of the stream in its context.
    pub number: u32,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Property of the process, such as `host`, `boot_id`, `command_line` or `env.RANK`: see RANKLOG.md.
    Property {
        /// Dotted name.
        key: String,
        /// Text. Secrets are redacted before they reach this value.
        value: String,
    },
    /// Communicator.
    Communicator(Communicator),
    /// String that records refer to.
    Text {
        /// Number by which records of this log refer to it.
        index: u32,
        /// The string.
        value: String,
    },
    /// Destruction of a communicator.
    CommunicatorEnd {
        /// Number of the communicator.
        index: u32,
        /// Time of the destruction, in ticks.
        ticks: u64,
    },
    /// Second identity of a communicator. Some members know it only by this one.
    CommunicatorAlias {
        /// Number of the communicator.
        index: u32,
        /// The other identity.
        identity: [u8; 16],
    },
    /// Device stream on which the work of activity records ran.
    Stream(Stream),
    /// Definition of a kind that this reader does not know, kept unchanged.
    Other {
        /// Number of the kind.
        kind: u8,
        /// Bytes of the payload.
        payload: Vec<u8>,
    },
}

/// Kind number of a property.
pub const KIND_PROPERTY: u8 = 1;
/// Kind number of a communicator.
pub const KIND_COMMUNICATOR: u8 = 2;
/// Kind number of a string.
pub const KIND_TEXT: u8 = 3;
/// Kind number of a communicator's end.
pub const KIND_COMMUNICATOR_END: u8 = 4;
/// Kind number of a communicator's second identity.
pub const KIND_COMMUNICATOR_ALIAS: u8 = 5;
/// Kind number of a stream.
pub const KIND_STREAM: u8 = 6;

/// Payload of a definition, built without allocation because hooks use it.
#[derive(Clone, Copy)]
pub struct Payload {
    bytes: [u8; MAX_PAYLOAD_BYTES],
    len: usize,
}

impl Payload {
    /// Creates an empty payload.
    pub const fn new() -> Self {
        Self {
            bytes: [0; MAX_PAYLOAD_BYTES],
            len: 0,
        }
    }

    /// Returns the bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends the bytes; what does not fit is cut.
    pub fn push(&mut self, bytes: &[u8]) {
        let take = bytes.len().min(MAX_PAYLOAD_BYTES - self.len);
        self.bytes[self.len..self.len + take].copy_from_slice(&bytes[..take]);
        self.len += take;
    }

    /// Creates the payload of a property.
    pub fn property(key: &str, value: &[u8]) -> Self {
        let mut payload = Self::new();
        let key = &key.as_bytes()[..key.len().min(255)];
        payload.push(&[key.len() as u8]);
        payload.push(key);
        if payload.len + value.len() > MAX_PAYLOAD_BYTES {
            // A cut is made visible by an ellipsis. It is never in the middle of a character.
            let mut end = MAX_PAYLOAD_BYTES - payload.len - "…".len();
            while end > 0 && value[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            payload.push(&value[..end]);
            payload.push("…".as_bytes());
        } else {
            payload.push(value);
        }
        payload
    }

    /// Creates the payload of a communicator.
    #[allow(
        clippy::too_many_arguments,
        reason = "one argument per field of the layout; a struct would need a String"
    )]
    pub fn communicator(
        index: u32,
        library: Library,
        identity_source: IdentitySource,
        rank: u32,
        size: u32,
        identity: [u8; 16],
        created_ticks: u64,
        parent: u32,
        name: &[u8],
    ) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(&[library as u8, identity_source as u8, 0, 0]);
        payload.push(&rank.to_le_bytes());
        payload.push(&size.to_le_bytes());
        payload.push(&identity);
        payload.push(&created_ticks.to_le_bytes());
        payload.push(&parent.to_le_bytes());
        payload.push(name);
        payload
    }

    /// Creates the payload of a string.
    pub fn text(index: u32, value: &[u8]) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(value);
        payload
    }

    /// Creates the payload of a communicator's end.
    pub fn communicator_end(index: u32, ticks: u64) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(&ticks.to_le_bytes());
        payload
    }
}

impl Payload {
    /// Creates the payload of a communicator's second identity.
    pub fn communicator_alias(index: u32, identity: [u8; 16]) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(&identity);
        payload
    }

    /// Creates the payload of a stream.
    pub fn stream(stream: Stream) -> Self {
        let mut payload = Self::new();
        for number in [stream.index, stream.device, stream.context, stream.number] {
            payload.push(&number.to_le_bytes());
        }
        payload
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the commit word of a definition.
pub fn commit_word(kind: u8, payload: &[u8]) -> u64 {
    let check = crc32fast::hash(payload) | 1;
    (payload.len() as u64 & 0xFF_FFFF) | u64::from(kind) << 24 | u64::from(check) << 32
}

/// Returns the size of a definition with a payload of this size, in bytes, with its commit word and padding.
pub const fn framed_bytes(payload_bytes: usize) -> usize {
    DEFINITION_HEAD_BYTES + payload_bytes.div_ceil(8) * 8
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn text_from(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Decodes one payload; `None` if it is too short for its kind.
pub fn decode(kind: u8, payload: &[u8]) -> Option<Definition> {
    Some(match kind {
        KIND_PROPERTY => {
            let key_bytes = usize::from(*payload.first()?);
            Definition::Property {
                key: text_from(payload.get(1..1 + key_bytes)?),
                value: text_from(payload.get(1 + key_bytes..)?),
            }
        }
        KIND_COMMUNICATOR => Definition::Communicator(Communicator {
            index: u32_at(payload, 0)?,
            library: Library::from_u8(*payload.get(4)?)?,
            identity_source: IdentitySource::from_u8(*payload.get(5)?)?,
            rank: u32_at(payload, 8)?,
            size: u32_at(payload, 12)?,
            identity: payload.get(16..32)?.try_into().ok()?,
            created_ticks: u64_at(payload, 32)?,
            parent: u32_at(payload, 40)?,
            name: text_from(payload.get(44..)?),
        }),
        KIND_TEXT => Definition::Text {
            index: u32_at(payload, 0)?,
            value: text_from(payload.get(4..)?),
        },
        KIND_COMMUNICATOR_END => Definition::CommunicatorEnd {
            index: u32_at(payload, 0)?,
            ticks: u64_at(payload, 4)?,
        },
        KIND_COMMUNICATOR_ALIAS => Definition::CommunicatorAlias {
            index: u32_at(payload, 0)?,
            identity: payload.get(4..20)?.try_into().ok()?,
        },
        KIND_STREAM => Definition::Stream(Stream {
            index: u32_at(payload, 0)?,
            device: u32_at(payload, 4)?,
            context: u32_at(payload, 8)?,
            number: u32_at(payload, 12)?,
        }),
        _ => Definition::Other {
            kind,
            payload: payload.to_vec(),
        },
    })
}

/// Item that [`scan`] found.
pub enum Scanned {
    /// Complete definition.
    Definition(Definition),
    /// Definition that was being written when the process died, or damage, with its offset.
    Broken(usize),
}

/// Visits all definitions in `bytes`. An unfinished definition has a zero word and an unknown length. The scan
/// therefore continues at the next multiple of eight bytes with a valid word, so that later definitions of other
/// threads are not lost.
pub fn scan(bytes: &[u8], mut visit: impl FnMut(usize, Scanned)) {
    let mut at = 0;
    let mut broken = None;
    while let Some(word) = u64_at(bytes, at) {
        let payload_bytes = (word & 0xFF_FFFF) as usize;
        let start = at + DEFINITION_HEAD_BYTES;
        let payload = bytes.get(start..start + payload_bytes);
        let kind = (word >> 24) as u8;
        match payload {
            Some(payload) if word != 0 && commit_word(kind, payload) == word => {
                if let Some(offset) = broken.take() {
                    visit(offset, Scanned::Broken(offset));
                }
                match decode(kind, payload) {
                    Some(definition) => visit(at, Scanned::Definition(definition)),
                    None => visit(at, Scanned::Broken(at)),
                }
                at += framed_bytes(payload_bytes);
            }
            _ => {
                broken.get_or_insert(at);
                at += 8;
            }
        }
    }
    if let Some(offset) = broken {
        visit(offset, Scanned::Broken(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(kind: u8, payload: &Payload) -> Vec<u8> {
        let mut out = commit_word(kind, payload.as_bytes()).to_le_bytes().to_vec();
        out.extend_from_slice(payload.as_bytes());
        out.resize(framed_bytes(payload.as_bytes().len()), 0);
        out
    }

    fn collect(bytes: &[u8]) -> (Vec<Definition>, Vec<usize>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        scan(bytes, |_, found| match found {
            Scanned::Definition(definition) => good.push(definition),
            Scanned::Broken(offset) => bad.push(offset),
        });
        (good, bad)
    }

    #[test]
    fn a_half_written_definition_does_not_hide_the_next() {
        let mut bytes = framed(KIND_TEXT, &Payload::text(1, b"one"));
        let hole = bytes.len();
        bytes.resize(hole + 48, 0);
        bytes.extend(framed(KIND_TEXT, &Payload::text(2, b"two")));
        let (good, bad) = collect(&bytes);
        assert_eq!(good.len(), 2);
        assert_eq!(bad, vec![hole]);
    }

    #[test]
    fn a_long_value_is_cut_visibly() {
        let value = "ä".repeat(MAX_PAYLOAD_BYTES);
        let payload = Payload::property("env.LONG", value.as_bytes());
        let Some(Definition::Property { value, .. }) = decode(KIND_PROPERTY, payload.as_bytes()) else {
            panic!("a property");
        };
        assert!(value.ends_with("ä…"));
    }

    proptest! {
        #[test]
        fn any_communicator_round_trips(index: u32, rank: u32, size: u32, identity: [u8; 16], ticks: u64, name in "[a-z/0-9é]{0,40}") {
            let payload = Payload::communicator(index, Library::Gloo, IdentitySource::KeyAndBlob, rank, size, identity, ticks, u32::MAX, name.as_bytes());
            let (good, bad) = collect(&framed(KIND_COMMUNICATOR, &payload));
            prop_assert!(bad.is_empty());
            prop_assert_eq!(good, vec![Definition::Communicator(Communicator {
                index, library: Library::Gloo, identity_source: IdentitySource::KeyAndBlob, rank, size, identity,
                created_ticks: ticks, parent: u32::MAX, name,
            })]);
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            collect(&bytes);
        }
    }
}
