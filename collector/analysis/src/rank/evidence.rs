//! Messages inside collectives: evidence about the clocks of hosts. They are never counted as operations.

use super::batch::EvidenceMessage;
use super::context::LogContext;
use super::event::{NestedMessage, Stamp};
use crate::model::operation::NO_COMMUNICATOR;
use rankscope_formats::ids::{CommunicatorId, MemberIndex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of different [`Nested`] entries per rank.
const MAX_NESTED: usize = 1 << 16;

/// Messages inside one kind of collective of a communicator, between one rank and one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Nested {
    /// Index of the communicator in the session.
    pub communicator: CommunicatorId,
    /// Number of the collective's operation.
    pub operation: u8,
    /// Member number of this rank.
    pub member: MemberIndex,
    /// Member number of the peer.
    pub peer: MemberIndex,
    /// True if the peer sent.
    pub is_receive: bool,
}

/// Adds the two ends of a message to the pairs between which messages were recorded.
pub fn add_pair(pairs: &mut BTreeSet<Nested>, message: &NestedMessage, context: &LogContext<'_>) {
    let communicator = context.communicator(message.communicator);
    let Ok(peer) = u32::try_from(message.peer).map(MemberIndex) else {
        return;
    };
    if communicator.index != NO_COMMUNICATOR && pairs.len() < MAX_NESTED {
        pairs.insert(Nested {
            communicator: communicator.index,
            operation: (message.collective >> 32) as u8,
            member: communicator.member,
            peer,
            is_receive: message.is_receive,
        });
    }
}

/// Returns a message as evidence about clocks, if both of its ends are known.
pub fn evidence(message: &NestedMessage, stamp: &Stamp, context: &LogContext<'_>) -> Option<EvidenceMessage> {
    let communicator = context.communicator(message.communicator);
    let peer = u32::try_from(message.peer).map(MemberIndex).ok()?;
    if communicator.index == NO_COMMUNICATOR || message.has_failed {
        return None;
    }
    let member = communicator.member;
    let (sender, receiver) = if message.is_send {
        (member, peer)
    } else {
        (peer, member)
    };
    Some(EvidenceMessage {
        rank: context.rank,
        communicator: communicator.index,
        sender,
        receiver,
        object: message.collective,
        tag: message.tag,
        slot: message.slot,
        number: message.number,
        is_send: message.is_send,
        // For the first message of a receiver only the leave bounds the arrival. Otherwise the enter does.
        at_ns: if message.is_send || message.number > 0 {
            stamp.enter_ns
        } else {
            stamp.leave_ns
        },
    })
}
