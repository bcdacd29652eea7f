//! Position of a host, which must not be confused with that of a rank.

use serde::{Deserialize, Serialize};

/// Position of a host in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostIndex(pub u32);
