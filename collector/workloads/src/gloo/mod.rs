//! Gloo, called as C++ programs call it, without its headers.
//!
//! | module | content |
//! |---|---|
//! | [`cxx`] | objects of the C++ standard library, as libstdc++ lays them out |
//! | [`options`] | layouts of the option structs |
//! | [`store`] | the store of a rendezvous, over the control channel |
//! | [`context`] | a connected context |
//! | [`backend`] | the operations |
//!
//! Layouts and names were checked with Debian's libgloo 0.5 and the Gloo in PyTorch 2.15. Gloo's sources
//! (github.com/facebookincubator/gloo) have the structs.

pub mod backend;
pub mod context;
pub mod cxx;
pub mod options;
pub mod store;
