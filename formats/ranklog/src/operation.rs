//! What was called: the libraries rankscope intercepts and the operations they share.

/// A layer of the communication stack. Totals count one layer only: a call that one layer makes into the next
/// is recorded with its parent and never added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Library {
    /// PyTorch's `c10d` process groups: where a program asks for communication.
    C10d = 1,
    /// Gloo, linked into PyTorch or used by itself.
    Gloo = 2,
    /// NVIDIA NCCL or AMD RCCL.
    Nccl = 3,
    /// Any MPI implementation.
    Mpi = 4,
}

impl Library {
    /// The library with this number in a rank log.
    pub fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::C10d,
            2 => Self::Gloo,
            3 => Self::Nccl,
            4 => Self::Mpi,
            _ => return None,
        })
    }

    /// The name used in tables, reports and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::C10d => "c10d",
            Self::Gloo => "gloo",
            Self::Nccl => "nccl",
            Self::Mpi => "mpi",
        }
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $pattern:ident;)*) => {
        /// A communication operation, named as the field names it whatever the library calls it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation { $($(#[$doc])* $variant = $number,)* }

        impl Operation {
            /// Every operation, in the order of their numbers.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant,)*];

            /// The operation with this number in a rank log.
            pub fn from_u8(value: u8) -> Option<Self> {
                match value { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The name used in tables, reports and traces.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Which members of an instance need which others (METRICS.md, section 3).
            pub fn pattern(self) -> Pattern {
                match self { $(Self::$variant => Pattern::$pattern,)* }
            }
        }
    };
}

operations! {
    /// Every member gets the reduction of all contributions.
    AllReduce = 1, "all-reduce", AllToAll;
    /// Every member gets all contributions.
    AllGather = 2, "all-gather", AllToAll;
    /// All-gather with a count per member.
    AllGatherV = 3, "all-gather-v", AllToAll;
    /// Every member gets one part of the reduction.
    ReduceScatter = 4, "reduce-scatter", AllToAll;
    /// Every member sends a part to every other.
    AllToAll = 5, "all-to-all", AllToAll;
    /// All-to-all with a count per pair.
    AllToAllV = 6, "all-to-all-v", AllToAll;
    /// Nobody leaves before all have entered.
    Barrier = 7, "barrier", AllToAll;
    /// The root's data goes to all.
    Broadcast = 8, "broadcast", FromRoot;
    /// The root's data is dealt out.
    Scatter = 9, "scatter", FromRoot;
    /// The root gets the reduction.
    Reduce = 10, "reduce", ToRoot;
    /// The root gets all contributions.
    Gather = 11, "gather", ToRoot;
    /// Gather with a count per member.
    GatherV = 12, "gather-v", ToRoot;
    /// One message out.
    Send = 13, "send", PointToPoint;
    /// One message in.
    Receive = 14, "receive", PointToPoint;
    /// Member i needs the members below it.
    Scan = 15, "scan", Scan;
    /// Reduce-scatter with a count per member.
    ReduceScatterV = 16, "reduce-scatter-v", AllToAll;
    /// Scatter with a count per member.
    ScatterV = 17, "scatter-v", FromRoot;
    /// Building a communicator: a blocking call that all members make.
    Connect = 18, "connect", AllToAll;
    /// Data is written into a window of a peer, which takes no part.
    Put = 19, "put", OneSided;
    /// A peer is told without data.
    Signal = 20, "signal", OneSided;
    /// The stream waits for signals of peers.
    WaitSignal = 21, "wait-signal", OneSided;
    /// Leaving a communicator: a call that waits for what is under way.
    Disconnect = 22, "disconnect", Unknown;
    /// An operation this version of rankscope has no name for.
    Unknown = 255, "unknown", Unknown;
}

/// Who needs whom in an instance: decides waiting, transfer and clock evidence (METRICS.md, sections 3 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every member needs every member.
    AllToAll,
    /// Every member needs the root.
    FromRoot,
    /// The root needs every member.
    ToRoot,
    /// A receiver needs its sender.
    PointToPoint,
    /// A member needs the members of lower rank.
    Scan,
    /// Called by one member alone: nobody's call belongs to it.
    OneSided,
    /// Unknown: gives no wait and no evidence.
    Unknown,
}

impl Operation {
    /// Bus-bandwidth factor for `members` members, after nccl-tests' doc/PERFORMANCE.md (METRICS.md, section 2);
    /// `None` where the bandwidth means nothing: one member, a barrier, an unknown operation.
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

    /// True for operations whose size is told per member; their records carry continuation records.
    pub fn is_variable(self) -> bool {
        matches!(
            self,
            Self::AllGatherV | Self::AllToAllV | Self::GatherV | Self::ReduceScatterV | Self::ScatterV
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_round_trip() {
        for &operation in Operation::ALL {
            assert_eq!(Operation::from_u8(operation as u8), Some(operation));
        }
        for number in 1..=4 {
            assert_eq!(
                Library::from_u8(number).map(|library| library as u8),
                Some(number)
            );
        }
        assert_eq!(Operation::from_u8(0), None);
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        assert_eq!(Operation::AllReduce.bus_factor(4), Some(1.5));
        assert_eq!(Operation::AllGather.bus_factor(4), Some(0.75));
        assert_eq!(Operation::Broadcast.bus_factor(4), Some(1.0));
        assert_eq!(Operation::AllReduce.bus_factor(1), None);
        assert_eq!(Operation::Barrier.bus_factor(4), None);
    }
}
