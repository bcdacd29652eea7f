//! Position of a host, which must not be confused with that of a rank.

/// Position of a host in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIndex(pub u32);
