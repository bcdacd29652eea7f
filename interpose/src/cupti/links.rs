//! Numbers that identify NCCL calls while they launch: 64 bits that CUPTI returns with the correlation ID of each
//! launch.

use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::LinkedTo;
use rankscope_ranklog::record::{FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, NO_PEER, Record};

/// Position of the kind, in the two highest bits. 0 is not a number.
const KIND_SHIFT: u32 = 62;
const GROUP: u64 = 1;
const CALL: u64 = 2;
const MESSAGE: u64 = 3;

const OPERATION_SHIFT: u32 = 54;
/// Maximum number of communicators in the number of a call. The communicator is above the 32 bits of the ordinal.
const CALL_COMMUNICATORS: u32 = 1 << 22;
/// Parts of the number of a message: whether it is received, its communicator, its peer and its ordinal.
const RECEIVE: u64 = 1 << 61;
const MESSAGE_COMMUNICATORS: u32 = 1 << 13;
const MESSAGE_COMMUNICATOR_SHIFT: u32 = 48;
const PEERS: i32 = 1 << 20;
const PEER_SHIFT: u32 = 28;
const MESSAGE_SEQUENCES: u32 = 1 << PEER_SHIFT;

/// Returns the number of a group.
pub fn of_group(number: u32) -> u64 {
    GROUP << KIND_SHIFT | u64::from(number)
}

/// Returns the number of this record's call. Returns `None` if the call runs nothing now, or if its values do not fit.
pub fn of_call(record: &Record) -> Option<u64> {
    if record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN) != 0 {
        return None;
    }
    let is_receive = record.operation == Operation::Receive as u8;
    if is_receive || record.operation == Operation::Send as u8 {
        let fits = record.communicator < MESSAGE_COMMUNICATORS
            && (0..PEERS).contains(&record.peer)
            && record.sequence < MESSAGE_SEQUENCES;
        return fits.then_some(
            MESSAGE << KIND_SHIFT
                | if is_receive { RECEIVE } else { 0 }
                | u64::from(record.communicator) << MESSAGE_COMMUNICATOR_SHIFT
                | (record.peer as u64) << PEER_SHIFT
                | u64::from(record.sequence),
        );
    }
    (record.communicator < CALL_COMMUNICATORS).then_some(
        CALL << KIND_SHIFT
            | u64::from(record.operation) << OPERATION_SHIFT
            | u64::from(record.communicator) << 32
            | u64::from(record.sequence),
    )
}

/// Decodes a number.
pub fn meaning(number: u64) -> Option<LinkedTo> {
    match number >> KIND_SHIFT {
        GROUP => Some(LinkedTo::Group(number as u32)),
        CALL => Some(LinkedTo::Call {
            communicator: (number >> 32) as u32 & (CALL_COMMUNICATORS - 1),
            operation: (number >> OPERATION_SHIFT) as u8,
            sequence: number as u32,
            peer: NO_PEER,
        }),
        MESSAGE => Some(LinkedTo::Call {
            communicator: (number >> MESSAGE_COMMUNICATOR_SHIFT) as u32 & (MESSAGE_COMMUNICATORS - 1),
            operation: if number & RECEIVE == 0 {
                Operation::Send
            } else {
                Operation::Receive
            } as u8,
            sequence: number as u32 & (MESSAGE_SEQUENCES - 1),
            peer: (number >> PEER_SHIFT) as i32 & (PEERS - 1),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::record::RecordKind;

    #[test]
    fn every_call_that_fits_is_decoded() {
        for operation in [
            Operation::AllReduce,
            Operation::Send,
            Operation::Receive,
            Operation::Disconnect,
        ] {
            for (communicator, sequence, peer) in [(0, 0, 0), (8191, (1 << 28) - 1, (1 << 20) - 1), (7, 9, 3)]
            {
                let record = Record {
                    operation: operation as u8,
                    communicator,
                    sequence,
                    peer,
                    ..Record::new(RecordKind::Enqueue)
                };
                let number = of_call(&record).expect("it fits");
                let is_message = matches!(operation, Operation::Send | Operation::Receive);
                let linked = LinkedTo::Call {
                    communicator,
                    operation: operation as u8,
                    sequence,
                    peer: if is_message { peer } else { NO_PEER },
                };
                assert_eq!(meaning(number), Some(linked));
            }
        }
        assert_eq!(meaning(of_group(u32::MAX)), Some(LinkedTo::Group(u32::MAX)));
        assert_eq!(meaning(0), None);
    }

    #[test]
    fn calls_that_do_not_fit_or_run_nothing_have_no_link() {
        let send = Record {
            operation: Operation::Send as u8,
            communicator: 1,
            ..Record::new(RecordKind::Enqueue)
        };
        assert_eq!(of_call(&send), None, "no peer");
        assert_eq!(
            of_call(&Record {
                peer: 1 << 20,
                ..send
            }),
            None
        );
        let captured = Record {
            flags: FLAG_CAPTURED,
            operation: Operation::AllReduce as u8,
            communicator: 1,
            ..send
        };
        assert_eq!(of_call(&captured), None);
        assert_eq!(
            of_call(&Record {
                flags: 0,
                communicator: u32::MAX,
                ..captured
            }),
            None
        );
    }
}
