//! The calls of one instance, one place per member.

use crate::model::operation::RankOperation;

/// Calls in member order; of a message the sender, then the receiver. A place keeps its memory when it is emptied.
#[derive(Default)]
pub struct Members {
    /// Where nobody has come, what stood there before.
    calls: Vec<RankOperation>,
    present: Vec<bool>,
}

impl Members {
    /// One call that stands alone.
    pub fn one(call: RankOperation) -> Self {
        Self {
            calls: vec![call],
            present: vec![true],
        }
    }

    /// Empties it, for this many members.
    pub fn reset(&mut self, size: usize) {
        self.calls.resize_with(size, RankOperation::nothing);
        self.present.clear();
        self.present.resize(size, false);
    }

    /// Puts a call in its place, in exchange for something of no meaning; false, and nothing done, if the place is
    /// taken or there is none.
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

    /// Lets go of what calls hold beside themselves: emptied places are as many as were ever open at once.
    pub fn forget_counts(&mut self) {
        for call in &mut self.calls {
            if !call.counts.is_empty() {
                call.counts = Box::default();
            }
            call.shared = None;
        }
    }

    /// Members needed.
    pub fn size(&self) -> usize {
        self.present.len()
    }

    /// True if this member's call is there.
    pub fn has(&self, member: usize) -> bool {
        self.present.get(member).copied().unwrap_or(false)
    }

    /// The calls that are there.
    pub fn iter(&self) -> impl Iterator<Item = &RankOperation> + Clone {
        self.calls
            .iter()
            .zip(&self.present)
            .filter_map(|(call, present)| present.then_some(call))
    }

    /// Every member's call; `None` if one is missing.
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
    fn a_place_is_taken_once_and_forgotten_when_emptied() {
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
