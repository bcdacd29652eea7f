//! Names of kernels. CUPTI returns a pointer that stays valid, and the log gets each name once, as a text.

use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::communication_kernel::is_communication;
use rankscope_ranklog::definition::{KIND_TEXT, MAX_PAYLOAD_BYTES, Payload, framed_bytes};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};

/// First number of kernel names. Numbers of other texts are lower.
const FIRST: u32 = 1 << 16;
/// Kernel names may take one part in SHARE of the capacity for definitions. Communicators and other texts need the
/// rest.
const SHARE: u64 = 2;

/// Known name of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Number of the name's text; −1 if it has none.
    pub number: i32,
    /// True for a kernel of NCCL or RCCL.
    pub is_communication: bool,
}

/// Known names, by address.
#[derive(Default)]
pub struct Names {
    known: HashMap<usize, Name>,
    bytes: u64,
}

impl Names {
    /// Returns the name at this address.
    pub fn of(&mut self, set: &LaneSet, name: *const c_char) -> Name {
        if let Some(&known) = self.known.get(&(name as usize)) {
            return known;
        }
        let found = self.learn(set, name);
        self.known.insert(name as usize, found);
        found
    }

    fn learn(&mut self, set: &LaneSet, name: *const c_char) -> Name {
        if name.is_null() {
            return Name {
                number: -1,
                is_communication: false,
            };
        }
        // SAFETY: `name` is not null. It points to CUPTI's own copy, which is NUL-terminated and never freed.
        let text = unsafe { CStr::from_ptr(name) }.to_bytes();
        let is_communication = is_communication(text);
        let text = &text[..text.len().min(MAX_PAYLOAD_BYTES - size_of::<u32>())];
        let number = FIRST + self.known.len() as u32;
        let bytes = framed_bytes(size_of::<u32>() + text.len()) as u64;
        let has_space = self.bytes + bytes <= set.area.layout().definitions_bytes / SHARE;
        if has_space && set.area.define(KIND_TEXT, Payload::text(number, text).as_bytes()) {
            self.bytes += bytes;
            return Name {
                number: number as i32,
                is_communication,
            };
        }
        let now = ticks();
        set.area
            .count_loss(LossCause::NoDefinition, RecordKind::Activity, 1, now, now);
        Name {
            number: -1,
            is_communication,
        }
    }
}
