//! Export of a session to formats of other tools.

mod device_tracks;
mod in_flight;
mod instances;
mod operation_args;
mod options;
mod ordered;
mod program_tracks;
mod rank;
mod rank_tracks;
mod trace_axis;

pub mod perfetto;
