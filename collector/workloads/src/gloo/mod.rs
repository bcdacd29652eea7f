//! Gloo, called as C++ programs call it, without its headers.
//!
//! | module | content |
//! |---|---|
//! | [`cxx`] | objects of the C++ standard library that Rust makes |
//! | [`options`] | option structs that Rust fills in |
//! | [`store`] | the store of a rendezvous, over the control channel |
//! | [`context`] | a connected context |
//! | [`backend`] | the operations |
//!
//! Layouts are those of `rankscope_gloo_abi`, which the hooks read. Names and calls were checked with Debian's libgloo 0.5 and
//! the Gloo in PyTorch 2.15.

pub mod backend;
pub mod context;
pub mod cxx;
pub mod options;
pub mod store;
