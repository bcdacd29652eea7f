//! A session in formats that other tools open.

mod device_tracks;
mod ordered;
pub mod perfetto;
