//! Handles that the library keeps between two events: 64 bits that it never reads.
//!
//! A handle contains all the values and is not a pointer, so nothing can be freed too early. This matters because the
//! library names the call of a captured operation as long as its graph exists, long after that event was stopped.

use rankscope_ranklog::record::{FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, NO_COMMUNICATOR};

const KIND_SHIFT: u32 = 61;
const CALL: u64 = 1;
const TASK: u64 = 2;
const TRAFFIC: u64 = 3;
const STEP: u64 = 4;
const CHANNEL: u64 = 5;

const CAPTURED: u64 = 1 << 60;
const WITHOUT_NUMBER: u64 = 1 << 59;
const OPERATION_SHIFT: u32 = 51;
const INDEX_SHIFT: u32 = 32;
/// Maximum number of communicators of one process that a handle can name. Operations of later ones have no device
/// times.
const INDICES: u32 = (1 << 19) - 1;

/// The program's call that an event comes from. It identifies the call's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the communicator in the log, [`NO_COMMUNICATOR`] if unknown.
    pub communicator: u32,
    /// Ordinal in the call's record.
    pub sequence: u32,
    /// The operation that the program called.
    pub operation: u8,
    /// [`FLAG_CAPTURED`] and [`FLAG_SEQUENCE_UNKNOWN`] of its record.
    pub flags: u8,
}

impl Call {
    /// Encodes the call as a handle; never 0.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        let (index, known) = if self.communicator < INDICES {
            (self.communicator, true)
        } else {
            (INDICES, false)
        };
        let mut bits = CALL << KIND_SHIFT
            | (self.operation as u64) << OPERATION_SHIFT
            | (index as u64) << INDEX_SHIFT
            | self.sequence as u64;
        if self.flags & FLAG_CAPTURED != 0 {
            bits |= CAPTURED;
        }
        if self.flags & FLAG_SEQUENCE_UNKNOWN != 0 || !known {
            bits |= WITHOUT_NUMBER;
        }
        bits
    }

    /// Decodes a call; `None` if the handle is of another kind.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> KIND_SHIFT != CALL {
            return None;
        }
        let index = (bits >> INDEX_SHIFT) as u32 & INDICES;
        let mut flags = 0;
        if bits & CAPTURED != 0 {
            flags |= FLAG_CAPTURED;
        }
        if bits & WITHOUT_NUMBER != 0 {
            flags |= FLAG_SEQUENCE_UNKNOWN;
        }
        Some(Self {
            communicator: if index == INDICES { NO_COMMUNICATOR } else { index },
            sequence: bits as u32,
            operation: (bits >> OPERATION_SHIFT) as u8,
            flags,
        })
    }
}

/// A slot in one of the tables of work in flight, and the use of the slot that the handle belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Position in its table.
    pub position: u16,
    /// Number of earlier uses of the slot.
    pub turn: u32,
}

impl Slot {
    const fn to_bits(self, kind: u64) -> u64 {
        kind << KIND_SHIFT | (self.turn as u64) << 16 | self.position as u64
    }

    const fn from_bits(bits: u64, kind: u64) -> Option<Self> {
        if bits >> KIND_SHIFT != kind {
            return None;
        }
        Some(Self {
            position: bits as u16,
            turn: (bits >> 16) as u32,
        })
    }
}

/// Returns the handle of an operation on the device.
pub const fn of_task(slot: Slot) -> u64 {
    slot.to_bits(TASK)
}

/// Returns the operation's slot, if the handle is of this kind.
pub const fn task(bits: u64) -> Option<Slot> {
    Slot::from_bits(bits, TASK)
}

/// Returns the handle of a channel that processes an operation. It differs from the operation's handle, because they
/// end at different times.
pub const fn of_channel(slot: Slot) -> u64 {
    slot.to_bits(CHANNEL)
}

/// Returns the slot of the channel's operation, if the handle is of this kind.
pub const fn channel(bits: u64) -> Option<Slot> {
    Slot::from_bits(bits, CHANNEL)
}

/// Returns the handle of a proxy's work for one peer.
pub const fn of_traffic(slot: Slot) -> u64 {
    slot.to_bits(TRAFFIC)
}

/// Returns the work's slot, if the handle is of this kind.
pub const fn traffic(bits: u64) -> Option<Slot> {
    Slot::from_bits(bits, TRAFFIC)
}

/// Returns the handle of a step of a proxy's work.
pub const fn of_step(slot: Slot) -> u64 {
    slot.to_bits(STEP)
}

/// Returns the step's slot, if the handle is of this kind.
pub const fn step(bits: u64) -> Option<Slot> {
    Slot::from_bits(bits, STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_handles_are_read_back() {
        for (communicator, flags) in [(0, 0), (7, FLAG_CAPTURED), (INDICES - 1, FLAG_SEQUENCE_UNKNOWN)] {
            let call = Call {
                communicator,
                sequence: u32::MAX - 3,
                operation: 21,
                flags,
            };
            assert_eq!(Call::from_bits(call.to_bits()), Some(call));
            assert_eq!(task(call.to_bits()), None);
        }
        let unknown = Call {
            communicator: NO_COMMUNICATOR,
            sequence: 0,
            operation: 1,
            flags: 0,
        };
        let read = Call::from_bits(unknown.to_bits()).expect("a call");
        assert_eq!(
            (read.communicator, read.flags),
            (NO_COMMUNICATOR, FLAG_SEQUENCE_UNKNOWN)
        );
        let slot = Slot {
            position: 4095,
            turn: u32::MAX,
        };
        assert_eq!(task(of_task(slot)), Some(slot));
        assert_eq!(traffic(of_traffic(slot)), Some(slot));
        assert_eq!(step(of_step(slot)), Some(slot));
        assert_eq!(channel(of_channel(slot)), Some(slot));
        assert_eq!(task(of_channel(slot)), None);
        assert_eq!(Call::from_bits(of_task(slot)), None);
        assert_ne!(of_task(Slot { position: 0, turn: 0 }), 0);
    }
}
