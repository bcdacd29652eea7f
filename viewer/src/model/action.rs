//! What a person can ask for, by mouse, key, palette or panel: one way to change what is looked at.

use super::{PickedInstance, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change of what is looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Show this part of time.
    Show(Window),
    /// Show all of it.
    ShowAll,
    /// Show what was shown before.
    Back,
    /// And after that.
    Forward,
    /// Let panels tell of this part of time; `None`: of all.
    Select(Option<Window>),
    /// Show one instance across all ranks.
    Pick(Option<PickedInstance>),
    /// Mark these instances on the timeline.
    Mark(Arc<BTreeSet<u64>>),
    /// Keys and panels refer to this rank.
    Rank(Option<u32>),
    /// Show a tab of the drawer.
    Tab(PanelTab),
    /// Open or close the drawer.
    ToggleDrawer,
    /// Open or close the list of findings.
    ToggleFindings,
    /// Show a rank's lanes, or only its parts.
    ToggleRank(u32),
    /// Low rows, or high ones.
    ToggleDense,
    /// Show the lanes of all ranks; of none where all are shown.
    ToggleAllRanks,
    /// Show a host's ranks, or not.
    ToggleHost(u32),
    /// Keep a rank on top, or not.
    TogglePin(u32),
    /// Do not show a rank.
    Hide(u32),
    /// Show hidden ranks again.
    ShowHidden,
    /// Show ranks in this order.
    Order(Vec<u32>),
    /// Show spans in colour that are like this.
    Filter(String),
}

impl Action {
    /// True if which rows there are, or their order, may be others afterwards.
    pub fn changes_rows(&self) -> bool {
        matches!(
            self,
            Self::ToggleRank(_)
                | Self::ToggleDense
                | Self::ToggleAllRanks
                | Self::ToggleHost(_)
                | Self::TogglePin(_)
                | Self::Hide(_)
                | Self::ShowHidden
                | Self::Order(_)
        )
    }
}

/// What the drawer below the timeline shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PanelTab {
    /// Where the time of each rank went.
    #[default]
    Time,
    /// Operations by kind and size.
    Operations,
    /// Stretches without compute.
    Stalls,
    /// Who is late, who waits.
    Lateness,
    /// Rank × step and rank × rank.
    HeatMaps,
}

impl PanelTab {
    /// In the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Time,
        Self::Operations,
        Self::Stalls,
        Self::Lateness,
        Self::HeatMaps,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "Time",
            Self::Operations => "Operations",
            Self::Stalls => "Stalls",
            Self::Lateness => "Lateness",
            Self::HeatMaps => "Heat maps",
        }
    }
}
