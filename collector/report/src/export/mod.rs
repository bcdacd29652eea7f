//! Export of a session to formats of other tools.

mod device_tracks;
mod ordered;
pub mod perfetto;
