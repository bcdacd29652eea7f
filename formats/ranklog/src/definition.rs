//! Definitions: what records refer to by number. Written once, never evicted. Layout in RANKLOG.md, "Definitions".
//!
//! A definition is framed by one commit word, `payload_bytes:24 | kind:8 | check:32`, padded to eight bytes. The
//! writer stores the word last, so a half-written definition is one whose word is zero or whose check fails.

use crate::operation::Library;

/// Bytes of the word before each definition.
pub const DEFINITION_HEAD_BYTES: usize = 8;
/// Longest payload; longer strings are cut and end in `…`.
pub const MAX_PAYLOAD_BYTES: usize = 4096;

/// How sure a communicator's identity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IdentitySource {
    /// Full store key and rank 0's address blob: unique and the same on all members.
    KeyAndBlob = 1,
    /// Only part of the rendezvous was seen; the identity may coincide with another communicator's.
    Partial = 2,
    /// Nothing was seen: members can only be told by order of creation.
    Ordinal = 3,
    /// A library's own unique id (NCCL's 128 bytes, MPI's ordinal per parent).
    UniqueId = 4,
    /// One member: identity is the process's own.
    SelfOnly = 5,
}

impl IdentitySource {
    /// The source with this number in a rank log.
    pub fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::KeyAndBlob,
            2 => Self::Partial,
            3 => Self::Ordinal,
            4 => Self::UniqueId,
            5 => Self::SelfOnly,
            _ => return None,
        })
    }
}

/// A communicator as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Number by which records of this log name it.
    pub index: u32,
    /// Whose communicator it is.
    pub library: Library,
    /// How `identity` was learnt.
    pub identity_source: IdentitySource,
    /// This process's number in it.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
    /// The same on every member, different for every other communicator.
    pub identity: [u8; 16],
    /// When it was made, in ticks.
    pub created_ticks: u64,
    /// Index of the parent communicator, `u32::MAX` if none.
    pub parent: u32,
    /// The store key or the name it was made under, for people.
    pub name: String,
}

/// A stream of a device, by the numbers of CUPTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Number by which records of this log name it.
    pub index: u32,
    /// Ordinal of the device in this process.
    pub device: u32,
    /// Number of the context in this process.
    pub context: u32,
    /// Number of the stream in its context.
    pub number: u32,
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A property of the process: `host`, `boot_id`, `command_line`, `env.RANK`, …: see RANKLOG.md.
    Property {
        /// Dotted name.
        key: String,
        /// Text; secrets are redacted before they come here.
        value: String,
    },
    /// A communicator.
    Communicator(Communicator),
    /// A string that records refer to.
    Text {
        /// Number by which records of this log name it.
        index: u32,
        /// The string.
        value: String,
    },
    /// A communicator was destroyed.
    CommunicatorEnd {
        /// Which.
        index: u32,
        /// When, in ticks.
        ticks: u64,
    },
    /// A communicator has a second identity: some members know it by this one only.
    CommunicatorAlias {
        /// Which.
        index: u32,
        /// The other identity.
        identity: [u8; 16],
    },
    /// A stream of a device, on which works of activity records ran.
    Stream(Stream),
    /// A kind that this reader does not know, kept whole.
    Other {
        /// Its number.
        kind: u8,
        /// Its bytes.
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

/// A payload built without allocation, for hooks.
#[derive(Clone, Copy)]
pub struct Payload {
    bytes: [u8; MAX_PAYLOAD_BYTES],
    len: usize,
}

impl Payload {
    /// An empty payload.
    pub const fn new() -> Self {
        Self {
            bytes: [0; MAX_PAYLOAD_BYTES],
            len: 0,
        }
    }

    /// The bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends as many bytes as fit.
    pub fn push(&mut self, bytes: &[u8]) {
        let take = bytes.len().min(MAX_PAYLOAD_BYTES - self.len);
        self.bytes[self.len..self.len + take].copy_from_slice(&bytes[..take]);
        self.len += take;
    }

    /// The payload of a property.
    pub fn property(key: &str, value: &[u8]) -> Self {
        let mut payload = Self::new();
        let key = &key.as_bytes()[..key.len().min(255)];
        payload.push(&[key.len() as u8]);
        payload.push(key);
        if payload.len + value.len() > MAX_PAYLOAD_BYTES {
            // A cut is visible: an ellipsis in place of what is missing, never in the middle of a character.
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

    /// The payload of a communicator.
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

    /// The payload of a string.
    pub fn text(index: u32, value: &[u8]) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(value);
        payload
    }

    /// The payload of a communicator's end.
    pub fn communicator_end(index: u32, ticks: u64) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(&ticks.to_le_bytes());
        payload
    }
}

impl Payload {
    /// The payload of a communicator's second identity.
    pub fn communicator_alias(index: u32, identity: [u8; 16]) -> Self {
        let mut payload = Self::new();
        payload.push(&index.to_le_bytes());
        payload.push(&identity);
        payload
    }

    /// The payload of a stream.
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

/// The commit word of a definition.
pub fn commit_word(kind: u8, payload: &[u8]) -> u64 {
    let check = crc32fast::hash(payload) | 1;
    (payload.len() as u64 & 0xFF_FFFF) | u64::from(kind) << 24 | u64::from(check) << 32
}

/// Bytes that a definition with a payload of this length takes, its word and padding included.
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

/// What [`scan`] found at one place.
pub enum Scanned {
    /// A whole definition.
    Definition(Definition),
    /// A definition that was being written when the process died, or damage: its offset.
    Broken(usize),
}

/// Walks a run of definitions. An unfinished one has a zero word and an unknown length, so the walk goes on at the
/// next eight bytes whose word checks out: later definitions of other threads are not lost with it.
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
