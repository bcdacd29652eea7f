//! NCCL, called as programs that are linked to it call it, so that preloaded hooks see the calls.

pub mod backend;
pub mod functions;
