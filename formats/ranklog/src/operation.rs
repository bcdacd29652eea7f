//! Recorded calls: the libraries that rankscope intercepts, and the operations that they share.

use crate::numbered::numbered_enum;

numbered_enum! {
    /// Layer of the communication stack. Totals count one layer only. A call from one layer into the next is recorded
    /// with its parent and never added to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Library: u8, from_u8 {
        /// PyTorch's `c10d` process groups, through which a program requests communication.
        C10d = 1 => "c10d",
        /// Gloo, linked into PyTorch or used separately.
        Gloo = 2 => "gloo",
        /// NVIDIA NCCL or AMD RCCL.
        Nccl = 3 => "nccl",
        /// Any MPI implementation.
        Mpi = 4 => "mpi",
        /// The program itself: it reports operations that it performs by its own means.
        Program = 5 => "program",
    }
}

numbered_enum! {
    /// Communication operation, under the common name of the field, whatever the library calls it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Operation: u8, from_u8 {
        /// Every member gets the reduction of all contributions.
        AllReduce = 1 => "all-reduce",
        /// Every member gets all contributions.
        AllGather = 2 => "all-gather",
        /// All-gather with a count per member.
        AllGatherV = 3 => "all-gather-v",
        /// Every member gets one part of the reduction.
        ReduceScatter = 4 => "reduce-scatter",
        /// Every member sends a part to every other member.
        AllToAll = 5 => "all-to-all",
        /// All-to-all with a count per pair.
        AllToAllV = 6 => "all-to-all-v",
        /// No member leaves before all have entered.
        Barrier = 7 => "barrier",
        /// All members get the root's data.
        Broadcast = 8 => "broadcast",
        /// Each member gets one part of the root's data.
        Scatter = 9 => "scatter",
        /// The root gets the reduction.
        Reduce = 10 => "reduce",
        /// The root gets all contributions.
        Gather = 11 => "gather",
        /// Gather with a count per member.
        GatherV = 12 => "gather-v",
        /// A message is sent.
        Send = 13 => "send",
        /// A message is received.
        Receive = 14 => "receive",
        /// Each member gets the reduction of the contributions up to its own.
        Scan = 15 => "scan",
        /// Reduce-scatter with a count per member.
        ReduceScatterV = 16 => "reduce-scatter-v",
        /// Scatter with a count per member.
        ScatterV = 17 => "scatter-v",
        /// A communicator is built: a blocking call of all members.
        Connect = 18 => "connect",
        /// Data is written into a window of a peer, which takes no part.
        Put = 19 => "put",
        /// A peer is signalled without data.
        Signal = 20 => "signal",
        /// The stream waits for signals of peers.
        WaitSignal = 21 => "wait-signal",
        /// A communicator is destroyed: a call that waits for outstanding operations.
        Disconnect = 22 => "disconnect",
        /// An operation that this version of rankscope does not know.
        Unknown = 255 => "unknown",
    }
}

/// Dependencies between the members of an instance. They determine waiting, transfer and clock evidence (METRICS.md,
/// sections 3 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every member depends on every member.
    AllToAll,
    /// Every member depends on the root.
    FromRoot,
    /// The root depends on every member.
    ToRoot,
    /// A receiver depends on its sender.
    PointToPoint,
    /// A member depends on the members with a lower number.
    Scan,
    /// One member calls alone; no call of another member belongs to it.
    OneSided,
    /// Unknown dependencies: no wait and no evidence.
    Unknown,
}

impl Operation {
    /// Returns which members of an instance depend on which others (METRICS.md, section 3).
    pub fn pattern(self) -> Pattern {
        match self {
            Self::AllReduce
            | Self::AllGather
            | Self::AllGatherV
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::AllToAllV
            | Self::Barrier
            | Self::ReduceScatterV
            | Self::Connect => Pattern::AllToAll,
            Self::Broadcast | Self::Scatter | Self::ScatterV => Pattern::FromRoot,
            Self::Reduce | Self::Gather | Self::GatherV => Pattern::ToRoot,
            Self::Send | Self::Receive => Pattern::PointToPoint,
            Self::Scan => Pattern::Scan,
            Self::Put | Self::Signal | Self::WaitSignal => Pattern::OneSided,
            Self::Disconnect | Self::Unknown => Pattern::Unknown,
        }
    }

    /// Returns the operation with a name in any common spelling: `all-reduce`, `all_reduce`, `AllReduce`, `recv`. It does not
    /// allocate.
    pub fn named(name: &str) -> Option<Self> {
        fn letters(text: &str) -> impl Iterator<Item = u8> {
            let letters = text.bytes().filter(|letter| !matches!(letter, b'-' | b'_'));
            letters.map(|letter| letter.to_ascii_lowercase())
        }
        let is = |short: &str| letters(short).eq(letters(name));
        let mut all = Self::ALL.iter().copied();
        all.find(|operation| is(operation.name()))
            .or_else(|| is("recv").then_some(Self::Receive))
    }

    /// Returns the bus-bandwidth factor for `members` members, after nccl-tests' doc/PERFORMANCE.md (METRICS.md,
    /// section 2). `None` if there is no bandwidth: with one member, for a barrier, and for an unknown operation.
    pub fn bus_factor(self, members: u32) -> Option<f64> {
        if members < 2 {
            return None;
        }
        let n = f64::from(members);
        Some(match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Gather | Self::Scatter => {
                (n - 1.0) / n
            }
            Self::AllToAllV
            | Self::AllGatherV
            | Self::GatherV
            | Self::ScatterV
            | Self::ReduceScatterV
            | Self::Broadcast
            | Self::Reduce
            | Self::Send
            | Self::Receive
            | Self::Scan => 1.0,
            Self::Barrier
            | Self::Connect
            | Self::Disconnect
            | Self::Put
            | Self::Signal
            | Self::WaitSignal
            | Self::Unknown => return None,
        })
    }

    /// Returns true if NCCL copies data of a member to itself for this call. NCCL implements all-to-all, gather and scatter by
    /// messages, also to the member itself. `peer`: peer or root of the call. `member`: the caller's own number, or `None`
    /// if it is unknown, and then any peer may be the caller.
    #[inline]
    pub fn copies_to_itself(self, peer: i32, member: Option<u32>) -> bool {
        match self {
            Self::AllToAll | Self::AllToAllV => true,
            Self::Send | Self::Receive | Self::Gather | Self::Scatter => {
                member.is_none_or(|member| u32::try_from(peer) == Ok(member))
            }
            _ => false,
        }
    }

    /// Returns true for operations with a size per member. Their records have continuation records.
    pub fn is_variable(self) -> bool {
        matches!(
            self,
            Self::AllGatherV | Self::AllToAllV | Self::GatherV | Self::ReduceScatterV | Self::ScatterV
        )
    }

    /// Returns the operation with one size for all members, for an operation with a size per member.
    pub fn without_sizes_per_member(self) -> Self {
        match self {
            Self::AllGatherV => Self::AllGather,
            Self::AllToAllV => Self::AllToAll,
            Self::GatherV => Self::Gather,
            Self::ReduceScatterV => Self::ReduceScatter,
            Self::ScatterV => Self::Scatter,
            other => other,
        }
    }

    /// Returns the requested operation if it differs from `self`, which the library ran. A size per member makes no
    /// difference. A request of [`Operation::Unknown`] is not known, and gives `None`.
    pub fn requested_as(self, requested: Self) -> Option<Self> {
        let is_other = self != requested
            && requested != Self::Unknown
            && self.without_sizes_per_member() != requested.without_sizes_per_member();
        is_other.then_some(requested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_per_member_makes_no_other_operation() {
        for operation in Operation::ALL.iter().copied() {
            let same = operation.without_sizes_per_member();
            assert_eq!(operation.is_variable(), same != operation);
            assert_eq!(
                format!("{}-v", same.name()) == operation.name(),
                same != operation
            );
            assert_eq!(operation.requested_as(same), None);
            assert_eq!(operation.requested_as(Operation::Unknown), None);
        }
        assert_eq!(
            Operation::AllReduce.requested_as(Operation::ReduceScatter),
            Some(Operation::ReduceScatter)
        );
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        assert_eq!(Operation::AllReduce.bus_factor(4), Some(1.5));
        assert_eq!(Operation::AllGather.bus_factor(4), Some(0.75));
        assert_eq!(Operation::Broadcast.bus_factor(4), Some(1.0));
        assert_eq!(Operation::AllReduce.bus_factor(1), None);
        assert_eq!(Operation::Barrier.bus_factor(4), None);
    }

    #[test]
    fn only_messages_to_the_caller_are_copies() {
        assert!(Operation::AllToAll.copies_to_itself(-1, Some(0)));
        assert!(
            Operation::Send.copies_to_itself(2, Some(2)) && !Operation::Send.copies_to_itself(1, Some(2))
        );
        assert!(
            Operation::Gather.copies_to_itself(0, Some(0)) && !Operation::Gather.copies_to_itself(0, Some(1))
        );
        assert!(
            Operation::Receive.copies_to_itself(1, None) && !Operation::AllReduce.copies_to_itself(1, None)
        );
    }
}
