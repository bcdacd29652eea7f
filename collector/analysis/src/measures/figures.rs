//! Figures of one measured instance, and what they describe.

use crate::measures::bandwidth::{Bandwidth, bandwidth, of_launch};
use crate::measures::launches::Launch;
use crate::measures::waited::Waited;
use crate::measures::waiting::{ClockErrors, InstanceWait, MemberWait, waits, waits_of};
use crate::model::operation::RankOperation;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::WaitClass;

/// Number and communicator of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceId {
    /// Number of the instance in the session.
    pub number: u64,
    /// Index of its communicator.
    pub communicator: CommunicatorId,
}

/// What was measured.
#[derive(Clone, Copy)]
pub enum Subject<'l> {
    /// An operation that ran alone.
    Operation,
    /// A message of a group. The group runs as one launch, so the message has no transfer and no bandwidth of its own.
    GroupedMessage,
    /// A launch of several operations.
    Launch(&'l Launch),
}

/// Transfers that are compared with each other, among those of the same operation and communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferClass {
    /// Single operations of the same size.
    Operation,
    /// Launches with this payload.
    Launch {
        /// Payload of one member over all operations of the launch.
        bytes: Option<u64>,
    },
}

impl Subject<'_> {
    /// Returns the class of the transfer, if it has one. A launch with operations of several kinds has none.
    pub fn transfer_class(self) -> Option<TransferClass> {
        match self {
            Self::Operation => Some(TransferClass::Operation),
            Self::GroupedMessage => None,
            Self::Launch(launch) => {
                let (_, bytes) = launch.payload()?;
                Some(TransferClass::Launch { bytes })
            }
        }
    }

    /// Returns true if other instances have a part in the same wait. Only the newly counted wait then belongs to this
    /// one.
    pub fn shares_wait(self) -> bool {
        match self {
            Self::Operation => false,
            Self::GroupedMessage => true,
            Self::Launch(launch) => launch.has_messages(),
        }
    }

    /// Computes the waits of all members. Replaces `out` with one entry per member.
    pub fn waits(
        self,
        members: &[RankOperation],
        errors: ClockErrors<'_>,
        out: &mut Vec<MemberWait>,
    ) -> InstanceWait {
        match self {
            Self::Launch(launch) => waits_of(members, &launch.kinds, errors, out),
            _ => waits(members, errors, out),
        }
    }

    /// Computes the bandwidth, which a single message of a group lacks.
    pub fn bandwidth(self, members: &[RankOperation], wait: &InstanceWait) -> Bandwidth {
        match self {
            Self::Operation => bandwidth(members, wait),
            Self::GroupedMessage => Bandwidth::default(),
            Self::Launch(launch) => {
                let (size_bytes, bus_bytes) = launch.carried();
                of_launch(members, size_bytes, bus_bytes, wait)
            }
        }
    }
}

/// Figures of one instance.
pub struct Figures<'l> {
    /// The instance.
    pub instance: InstanceId,
    /// What was measured.
    pub subject: Subject<'l>,
    /// Transfer time and class.
    pub wait: InstanceWait,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
    /// Wait of all members.
    pub waited: Waited,
}

impl Figures<'_> {
    /// Returns the class by wait share, which a single message of a group lacks.
    pub fn wait_class(&self) -> WaitClass {
        match self.subject {
            Subject::GroupedMessage => WaitClass::None,
            _ => self.wait.class,
        }
    }
}
