//! A session in formats that other tools open.

mod ordered;
pub mod perfetto;
