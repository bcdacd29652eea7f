//! Findings about hosts, memory, versions and environment variables.

pub mod crowded_host;
pub mod different_versions;
pub mod growing_memory;
pub mod nccl_variables;
pub mod unread_variables;
