//! An operation at a size, with its buffers.

use crate::data::DataType;
use rankscope_formats::bench::Placement;
use rankscope_ranklog::Operation;

/// Communication pattern that can be measured. Roots are rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Sum on all ranks.
    AllReduce,
    /// All contributions on all ranks.
    AllGather,
    /// A part of the sum on each rank.
    ReduceScatter,
    /// A part of each rank on each rank.
    AllToAll,
    /// The root's data on all ranks.
    Broadcast,
    /// Sum on the root.
    Reduce,
    /// All contributions on the root.
    Gather,
    /// A part of the root's data on each rank.
    Scatter,
    /// Each rank sends to the next one and receives from the previous one.
    SendReceive,
}

impl Pattern {
    /// All patterns, in the order of a sweep.
    pub const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::SendReceive,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SendReceive => "send-receive",
            _ => self.operation().name(),
        }
    }

    /// Returns the operation whose bus factor applies.
    pub const fn operation(self) -> Operation {
        match self {
            Self::AllReduce => Operation::AllReduce,
            Self::AllGather => Operation::AllGather,
            Self::ReduceScatter => Operation::ReduceScatter,
            Self::AllToAll => Operation::AllToAll,
            Self::Broadcast => Operation::Broadcast,
            Self::Reduce => Operation::Reduce,
            Self::Gather => Operation::Gather,
            Self::Scatter => Operation::Scatter,
            Self::SendReceive => Operation::Send,
        }
    }

    /// Returns true if the operation reduces.
    pub const fn is_reduction(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// Returns true if S is the count of one rank times the number of ranks (METRICS.md, section 2).
    const fn has_parts(self) -> bool {
        matches!(
            self,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Gather | Self::Scatter
        )
    }
}

/// One operation at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Pattern.
    pub pattern: Pattern,
    /// Type of the elements.
    pub data_type: DataType,
    /// Count c of elements.
    pub elements: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// Placement of the buffers.
    pub placement: Placement,
}

impl Case {
    /// Returns the case whose size S is at most `size_bytes`, but at least one element per part.
    pub fn of_size(
        pattern: Pattern,
        data_type: DataType,
        size_bytes: u64,
        ranks: u32,
        placement: Placement,
    ) -> Self {
        let parts = if pattern.has_parts() { u64::from(ranks) } else { 1 };
        Self {
            pattern,
            data_type,
            elements: (size_bytes / parts / data_type.bytes()).max(1),
            ranks,
            placement,
        }
    }

    /// Returns the size S, in bytes.
    pub fn size_bytes(&self) -> u64 {
        let parts = if self.pattern.has_parts() {
            u64::from(self.ranks)
        } else {
            1
        };
        self.elements * parts * self.data_type.bytes()
    }

    /// Returns the number of elements that a rank contributes.
    pub fn send_elements(&self, rank: u32) -> u64 {
        let all = self.elements * u64::from(self.ranks);
        match self.pattern {
            Pattern::AllToAll | Pattern::ReduceScatter => all,
            Pattern::Scatter if rank == 0 => all,
            Pattern::Scatter => 0,
            Pattern::Broadcast if rank != 0 => 0,
            _ => self.elements,
        }
    }

    /// Returns the number of elements that a rank gets.
    pub fn receive_elements(&self, rank: u32) -> u64 {
        let all = self.elements * u64::from(self.ranks);
        match self.pattern {
            Pattern::AllGather | Pattern::AllToAll => all,
            Pattern::Gather if rank == 0 => all,
            Pattern::Gather => 0,
            Pattern::Reduce if rank != 0 => 0,
            _ => self.elements,
        }
    }

    /// Returns the sizes of a rank's input and output, in bytes.
    pub fn buffer_bytes(&self, rank: u32) -> (u64, u64) {
        let bytes = self.data_type.bytes();
        (
            self.send_elements(rank) * bytes,
            self.receive_elements(rank) * bytes,
        )
    }

    /// Returns the rank that follows in the ring.
    pub fn next(&self, rank: u32) -> u32 {
        (rank + 1) % self.ranks
    }

    /// Returns the rank that precedes in the ring.
    pub fn previous(&self, rank: u32) -> u32 {
        (rank + self.ranks - 1) % self.ranks
    }

    /// Returns the offsets of input and output in a common buffer, in bytes, or `None` if the operation has no in-place
    /// form. As in nccl-tests.
    pub fn in_place_offsets(&self, rank: u32) -> Option<(u64, u64)> {
        let own = u64::from(rank) * self.elements * self.data_type.bytes();
        match self.pattern {
            Pattern::AllReduce | Pattern::Broadcast | Pattern::Reduce => Some((0, 0)),
            Pattern::AllGather => Some((own, 0)),
            Pattern::ReduceScatter => Some((0, own)),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) fn test_case(pattern: Pattern, ranks: u32, elements: u64) -> Case {
    Case {
        pattern,
        data_type: DataType::Float32,
        elements,
        ranks,
        placement: Placement::OutOfPlace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_nccl_tests() {
        let of = |pattern| Case::of_size(pattern, DataType::Float32, 1024, 4, Placement::OutOfPlace);
        // all_reduce_perf -b 1024: count 256. all_gather_perf: size 1024, of which each rank sends 64 elements.
        assert_eq!(
            (
                of(Pattern::AllReduce).elements,
                of(Pattern::AllReduce).size_bytes()
            ),
            (256, 1024)
        );
        assert_eq!(
            (
                of(Pattern::AllGather).elements,
                of(Pattern::AllGather).size_bytes()
            ),
            (64, 1024)
        );
        assert_eq!(of(Pattern::ReduceScatter).buffer_bytes(0), (1024, 256));
        assert_eq!(of(Pattern::AllGather).buffer_bytes(3), (256, 1024));
        // A size below one element per rank becomes the smallest possible one.
        let least = Case::of_size(Pattern::AllToAll, DataType::Float32, 8, 4, Placement::OutOfPlace);
        assert_eq!((least.elements, least.size_bytes()), (1, 16));
    }
}
