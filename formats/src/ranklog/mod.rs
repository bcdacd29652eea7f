//! The rank log: what one process recorded. Written by the recorder, specified in RANKLOG.md, read by [`reader`].

pub mod activity;
pub mod area;
pub mod clock;
pub mod codec;
pub mod collect;
pub mod cuda_calls;
pub mod definition;
pub mod lanes;
pub mod layout;
pub mod loss;
pub mod marks;
pub mod place;
pub mod process;
pub mod reader;
pub mod record;
pub mod recorder;
pub mod segment;
pub mod tail;
pub mod writer;
