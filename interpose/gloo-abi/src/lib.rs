//! Layouts of Gloo's C++ objects. Hooks read them, and `rankscope bench` fills them in. Nothing here links to Gloo.
//!
//! | module | content |
//! |---|---|
//! | [`memory`] | objects of the C++ standard library: strings and vectors |
//! | [`offsets`] | fields of Gloo's option structs |

pub mod memory;
pub mod offsets;
