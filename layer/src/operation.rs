//! Operations of a program's communicator.

/// Operation of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every member gets the reduction of all contributions. Bytes: the contribution.
    AllReduce,
    /// Every member gets all contributions. Bytes: the contribution of one member.
    AllGather,
    /// Every member gets one part of the reduction. Bytes: the part.
    ReduceScatter,
    /// Every member sends a part to every other member. Bytes: one part.
    AllToAll,
    /// No member leaves before all have entered. Bytes: 0.
    Barrier,
    /// All members get the root's data. Bytes: the data.
    Broadcast,
    /// Each member gets one part of the root's data. Bytes: the part.
    Scatter,
    /// The root gets the reduction. Bytes: the contribution.
    Reduce,
    /// The root gets all contributions. Bytes: the contribution.
    Gather,
    /// A message is sent to a peer. Bytes: the message.
    Send,
    /// A message is received from a peer. Bytes: the message.
    Receive,
    /// Each member gets the reduction of the contributions up to its own. Bytes: the contribution.
    Scan,
}

impl Operation {
    const ALL: [Self; 12] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Barrier,
        Self::Broadcast,
        Self::Scatter,
        Self::Reduce,
        Self::Gather,
        Self::Send,
        Self::Receive,
        Self::Scan,
    ];

    /// Returns the operation with a name, such as `all-reduce`, `all_reduce` or `allreduce`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let recorded = rankscope_ranklog::Operation::named(name)? as u8;
        Self::ALL
            .into_iter()
            .find(|operation| operation.number() == recorded)
    }

    pub(crate) fn number(self) -> u8 {
        use rankscope_ranklog::Operation as Recorded;
        let recorded = match self {
            Self::AllReduce => Recorded::AllReduce,
            Self::AllGather => Recorded::AllGather,
            Self::ReduceScatter => Recorded::ReduceScatter,
            Self::AllToAll => Recorded::AllToAll,
            Self::Barrier => Recorded::Barrier,
            Self::Broadcast => Recorded::Broadcast,
            Self::Scatter => Recorded::Scatter,
            Self::Reduce => Recorded::Reduce,
            Self::Gather => Recorded::Gather,
            Self::Send => Recorded::Send,
            Self::Receive => Recorded::Receive,
            Self::Scan => Recorded::Scan,
        };
        recorded as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_in_their_usual_forms() {
        for operation in Operation::ALL {
            let recorded = rankscope_ranklog::Operation::from_u8(operation.number()).expect("an operation");
            assert_eq!(Operation::named(recorded.name()), Some(operation));
        }
        assert_eq!(Operation::named("AllReduce"), Some(Operation::AllReduce));
        assert_eq!(Operation::named("all_reduce"), Some(Operation::AllReduce));
        assert_eq!(Operation::named("recv"), Some(Operation::Receive));
        assert_eq!(Operation::named("matmul"), None);
        assert_eq!(Operation::named(""), None);
    }
}
