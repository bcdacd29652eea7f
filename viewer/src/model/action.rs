//! Actions of the user, by mouse, key, palette or panel: the only way to change the view.

use super::{GroupIndex, Grouping, PickedInstance, Window};
use rankscope_formats::ids::RankIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change of the view.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Show this time range.
    Show(Window),
    /// Show the whole run.
    ShowAll,
    /// Return to the previous time range.
    Back,
    /// Go forward to the time range after this one.
    Forward,
    /// Limit the panels to this time range. `None`: the whole run.
    Select(Option<Window>),
    /// Pick one instance, and show it on all ranks.
    Pick(Option<PickedInstance>),
    /// Mark these instances on the timeline.
    Mark(Arc<BTreeSet<u64>>),
    /// Make this the rank that keys and panels refer to.
    Rank(Option<RankIndex>),
    /// Show a tab of the drawer.
    Tab(PanelTab),
    /// Open or close the drawer.
    ToggleDrawer,
    /// Open or close the list of findings.
    ToggleFindings,
    /// Show all lanes of a rank, or only its parts.
    ToggleRank(RankIndex),
    /// Switch between low and high rows.
    ToggleDense,
    /// Show the next choice of counters: of the program, all, none.
    NextCounters,
    /// Show the lanes of all ranks. If all are shown, show none.
    ToggleAllRanks,
    /// Show or hide the ranks of a group.
    ToggleGroup(GroupIndex),
    /// Hide the ranks of these groups, and show those of all others.
    CloseGroups(BTreeSet<GroupIndex>),
    /// Group the ranks in this way.
    GroupBy(Grouping),
    /// Pin a rank to the top, or unpin it.
    TogglePin(RankIndex),
    /// Hide a rank.
    Hide(RankIndex),
    /// Show hidden ranks again.
    ShowHidden,
    /// Show the ranks in this order.
    Order(Vec<RankIndex>),
    /// Highlight the spans that match this expression.
    Filter(String),
}

impl Action {
    /// Returns true if the action may change the set of rows or their order.
    pub fn changes_rows(&self) -> bool {
        matches!(
            self,
            Self::ToggleRank(_)
                | Self::ToggleDense
                | Self::NextCounters
                | Self::ToggleAllRanks
                | Self::ToggleGroup(_)
                | Self::CloseGroups(_)
                | Self::GroupBy(_)
                | Self::TogglePin(_)
                | Self::Hide(_)
                | Self::ShowHidden
                | Self::Order(_)
                // If a rank has many counters, those that match have rows.
                | Self::Filter(_)
        )
    }
}

/// Tab of the drawer below the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PanelTab {
    /// Breakdown of the time of each rank.
    #[default]
    Time,
    /// Operations by kind and size.
    Operations,
    /// Intervals without compute.
    Stalls,
    /// Which ranks are late, and which wait.
    Lateness,
    /// Heat maps: rank × step and rank × rank.
    HeatMaps,
    /// Counters.
    Counters,
}

impl PanelTab {
    /// All tabs in display order.
    pub const ALL: [Self; 6] = [
        Self::Time,
        Self::Operations,
        Self::Stalls,
        Self::Lateness,
        Self::HeatMaps,
        Self::Counters,
    ];

    /// Returns the displayed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "Time",
            Self::Operations => "Operations",
            Self::Stalls => "Stalls",
            Self::Lateness => "Lateness",
            Self::HeatMaps => "Heat maps",
            Self::Counters => "Counters",
        }
    }
}
