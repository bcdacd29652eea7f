//! The calls of one instance, one slot per member.

use crate::model::operation::RankOperation;

/// Calls in member order. In a message the sender comes first, then the receiver. A slot keeps its memory when it is
/// reset.
#[derive(Default)]
pub struct Members {
    /// Slots of all members. A slot that is not `present` holds a leftover of earlier use.
    calls: Vec<RankOperation>,
    present: Vec<bool>,
}

impl Members {
    /// Wraps a single call.
    pub fn one(call: RankOperation) -> Self {
        Self {
            calls: vec![call],
            present: vec![true],
        }
    }

    /// Empties all slots and prepares `size` of them.
    pub fn reset(&mut self, size: usize) {
        self.calls.resize_with(size, RankOperation::nothing);
        self.present.clear();
        self.present.resize(size, false);
    }

    /// Swaps a call into its slot and leaves a meaningless value in `call`. Returns false and changes nothing if the
    /// slot is taken or does not exist.
    pub fn put(&mut self, member: usize, call: &mut RankOperation) -> bool {
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
