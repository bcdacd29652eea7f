//! Findings about transfers, messages and the matching of operations.

pub mod communicator_errors;
pub mod declared_limits;
pub mod exposed_communication;
pub mod failed_operations;
pub mod hang;
pub mod mismatches;
pub mod never_finished;
pub mod ras;
pub mod slow_link;
pub mod small_buckets;
pub mod small_messages;
