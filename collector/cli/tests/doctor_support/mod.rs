//! Prepared machines for the tests of `rankscope doctor`. They are made by hand; see README.md.

pub mod elf;
pub mod machine;
