//! Communication that rankscope itself runs, on the libraries of this machine, without Python.
//!
//! | module | content |
//! |---|---|
//! | [`world`] | the place of this process among the ranks, from its launcher |
//! | [`star`] | a control channel between the ranks, over TCP |
//! | [`locals`] | ranks on this host, started and ended together |
//! | [`data`] | element types, inputs and expected results |
//! | [`case`] | an operation at a size: buffers, counts |
//! | [`library`] | loading of a library so that preloaded hooks see its calls |
//! | [`backend`] | what a library must provide |
//! | [`gloo`], [`cuda`], [`nccl`] | the libraries |
//! | [`thread`] | a thread in which a C++ exception ends the process with its message |
//! | [`sweep`] | `rankscope bench` |
//! | [`selftest`] | programs of `rankscope selftest` |

pub mod backend;
pub mod case;
pub mod cuda;
pub mod data;
pub mod gloo;
pub mod library;
pub mod locals;
pub mod nccl;
pub mod selftest;
pub mod star;
pub mod sweep;
pub mod thread;
pub mod world;
