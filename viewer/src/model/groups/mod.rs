//! Groups of ranks, which have rows of their own in the timeline.
//!
//! - A [`grouping`] is the user's choice. [`groupings`] lists those that a session offers.
//! - [`rank_groups`] divides the ranks of a session. It takes hosts and the structure of worlds from [`candidates`].
//! - [`members`] describes the ranks of a group in few words.
//! - [`group_id`] identifies a group.

mod candidates;
mod group_id;
mod grouping;
mod groupings;
mod members;
mod rank_groups;

pub use group_id::{GroupId, GroupIndex};
pub use grouping::{CommunicatorFamily, Grouping};
pub use groupings::{Groupings, OfferedGrouping};
pub use rank_groups::{RankGroup, RankGroups};
