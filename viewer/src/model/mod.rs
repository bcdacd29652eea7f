//! State of the view, without a window: the open session, the visible time range and the selection.
//!
//! Everything here is plain data with tests. Drawing code reads it, and changes it only through [`Action`]s.

mod action;
mod counter_scale;
mod export_directory;
mod groups;
mod host_index;
mod opened;
mod parts_lane;
mod shown_counters;
mod state;
mod units;
mod window;

pub use action::{Action, PanelTab};
pub use counter_scale::{CounterScale, CounterScales};
pub use export_directory::export_directory;
pub use groups::{
    CommunicatorFamily, GroupId, GroupIndex, Grouping, Groupings, OfferedGrouping, RankGroup, RankGroups,
};
pub use host_index::HostIndex;
pub use opened::{Opened, View};
pub use parts_lane::parts_lane;
pub use shown_counters::ShownCounters;
pub use state::{Hovered, PickedInstance, State, ViewState};
pub use units::{bytes_text, duration_text, moment_text, rate_text};
pub use window::Window;
