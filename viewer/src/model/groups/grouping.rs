//! How ranks are grouped into rows.

use rankscope_formats::session::RoleGroup;
use serde::{Deserialize, Serialize};

/// Way in which ranks are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Grouping {
    /// Ranks on the same host.
    #[default]
    Host,
    /// Ranks of the same pipeline stage.
    Stage,
    /// Ranks at the same position in the replicas of the model.
    Peers,
    /// Members of the same communicator.
    Communicators(CommunicatorFamily),
    /// No groups: each rank by itself.
    Rank,
}

impl Grouping {
    /// Returns an explanation for display.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Host => "Ranks on the same host",
            Self::Stage => "Ranks of the same pipeline stage",
            Self::Peers => "Ranks at the same position in the replicas of the model",
            Self::Communicators(_) => "Members of the same communicator",
            Self::Rank => "No groups",
        }
    }
}

/// Communicators of the same role and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommunicatorFamily {
    /// Purpose of the communicators.
    pub role: String,
    /// Number of members of each communicator.
    pub size: u32,
    /// Distance between the world numbers of neighbouring members. `None` if it is not constant.
    pub stride: Option<u32>,
}

impl CommunicatorFamily {
    /// Returns the family of an entry of the session's structure.
    pub fn of(group: &RoleGroup) -> Self {
        Self {
            role: group.role.clone(),
            size: group.size,
            stride: group.stride,
        }
    }
}
