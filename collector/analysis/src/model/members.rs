//! The calls of one instance, one slot per member.

use crate::model::operation::RankOperation;
use crate::model::packed_operation::Previous;

/// Calls in member order. In a message the sender comes first, then the receiver. A slot keeps its memory when it is
/// reset.
#[derive(Default)]
pub struct Members {
    /// Slots of all members. A slot that is not `present` holds a leftover of earlier use.
    calls: Vec<RankOperation>,
    present: Vec<bool>,
    /// Calls of an instance of many members, until all of them are needed. `calls` is empty until then.
    packed: Option<Box<PackedCalls>>,
}

/// Minimum number of members of an instance whose calls are packed while they wait.
const MIN_PACKED_MEMBERS: usize = 256;

/// Maximum size of a usual packed call, in bytes.
const MAX_USUAL_CALL_BYTES: usize = 256;

/// Calls in the order in which they arrived.
#[derive(Default)]
struct PackedCalls {
    previous: Previous,
    bytes: Vec<u8>,
}

impl Members {
    /// Wraps a single call.
    pub fn one(call: RankOperation) -> Self {
        Self {
            calls: vec![call],
            present: vec![true],
            packed: None,
        }
    }

    /// Empties all slots and prepares `size` of them.
    pub fn reset(&mut self, size: usize) {
        self.present.clear();
        self.present.resize(size, false);
        if size < MIN_PACKED_MEMBERS {
            self.calls.resize_with(size, RankOperation::nothing);
            self.packed = None;
            return;
        }
        self.calls = Vec::new();
        let packed = self.packed.get_or_insert_default();
        packed.previous = Previous::default();
        packed.bytes.clear();
    }

    /// Unpacks the calls into the slots of `all` if they are packed. Returns the value that now has the calls: `self` or `all`.
    pub fn unpacked<'m>(&'m mut self, all: &'m mut Self) -> &'m mut Self {
        let Some(packed) = &mut self.packed else {
            return self;
        };
        all.calls.resize_with(self.present.len(), RankOperation::nothing);
        all.present.clear();
        all.present.resize(self.present.len(), false);
        let (mut bytes, mut previous) = (packed.bytes.as_slice(), Previous::default());
        while let Some(call) = previous.unpack(&mut bytes) {
            let member = call.member.index();
            if let (Some(present), Some(place)) = (all.present.get_mut(member), all.calls.get_mut(member)) {
                *present = true;
                *place = call;
            }
        }
        all
    }

    /// Takes a call into its slot and leaves a meaningless value in `call`. Returns false and changes nothing if the
    /// slot is taken or does not exist. `member` must be that of the call if the calls are packed.
    pub fn put(&mut self, member: usize, call: &mut RankOperation) -> bool {
        if let (Some(packed), Some(present @ false)) = (&mut self.packed, self.present.get_mut(member)) {
            *present = true;
            if packed.bytes.capacity() - packed.bytes.len() < MAX_USUAL_CALL_BYTES {
                // Doubling would leave half of the memory unused.
                packed
                    .bytes
                    .reserve_exact(MAX_USUAL_CALL_BYTES.max(packed.bytes.len() / 8));
            }
            packed.previous.pack(call, &mut packed.bytes);
            return true;
        }
        match (self.present.get_mut(member), self.calls.get_mut(member)) {
            (Some(present @ false), Some(place)) => {
                *present = true;
                std::mem::swap(place, call);
                true
            }
            _ => false,
        }
    }

    /// Frees the heap memory that the calls own. Otherwise the number of retained allocations would be the largest
    /// number of slots ever open at once.
    pub fn forget_counts(&mut self) {
        for call in &mut self.calls {
            if !call.counts.is_empty() {
                call.counts = Box::default();
            }
            call.shared = None;
        }
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.present.len()
    }

    /// Returns true if the call of `member` is present.
    pub fn has(&self, member: usize) -> bool {
        self.present.get(member).copied().unwrap_or(false)
    }

    /// Iterates over the calls that are present.
    pub fn iter(&self) -> impl Iterator<Item = &RankOperation> + Clone {
        self.calls
            .iter()
            .zip(&self.present)
            .filter_map(|(call, present)| present.then_some(call))
    }

    /// Returns the calls of all members, or `None` if one is missing.
    pub fn all(&self) -> Option<&[RankOperation]> {
        self.present
            .iter()
            .all(|&present| present)
            .then_some(self.calls.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_many_members_are_packed_until_they_are_needed() {
        let (mut members, mut all) = (Members::default(), Members::default());
        for size in [300, 256] {
            members.reset(size);
            for member in (0..size as u32).rev().filter(|member| member % 7 != 3) {
                let mut call = RankOperation::sample(member, 10 * i64::from(member), 5_000);
                assert!(members.put(member as usize, &mut call));
                assert!(!members.put(member as usize, &mut RankOperation::sample(member, 0, 1)));
            }
            assert!(members.has(2) && !members.has(3));
            let all = members.unpacked(&mut all);
            assert_eq!((all.size(), all.has(2), all.has(3)), (size, true, false));
            assert!(
                all.iter()
                    .all(|call| call.enter_ns == 10 * i64::from(call.member.0))
            );
            assert_eq!(
                all.iter().count(),
                (0..size).filter(|member| member % 7 != 3).count()
            );
            assert!(all.all().is_none());
        }
        members.reset(2);
        assert!(members.put(1, &mut RankOperation::sample(1, 0, 1)));
        assert_eq!(members.unpacked(&mut all).iter().count(), 1);
    }

    #[test]
    fn a_slot_is_taken_once_and_free_again_when_emptied() {
        let mut members = Members::default();
        members.reset(3);
        assert!(members.all().is_none() && members.iter().next().is_none());
        assert!(members.put(2, &mut RankOperation::sample(2, 0, 1)));
        assert!(!members.put(2, &mut RankOperation::sample(2, 5, 6)));
        assert!(!members.put(3, &mut RankOperation::sample(3, 5, 6)));
        assert_eq!(members.iter().map(|call| call.leave_ns).collect::<Vec<_>>(), [1]);
        assert!(members.has(2) && !members.has(0));
        members.reset(2);
        assert_eq!((members.size(), members.iter().count()), (2, 0));
        for member in 0..2 {
            assert!(members.put(member as usize, &mut RankOperation::sample(member, 0, 1)));
        }
        assert_eq!(members.all().map(<[_]>::len), Some(2));
        assert_eq!(
            Members::one(RankOperation::sample(0, 0, 1)).all().map(<[_]>::len),
            Some(1)
        );
    }
}
