//! Pictures of lanes: from an index to pixels, without a window.
//!
//! In the order of the data:
//! - [`columns`] computes the time of each class in every column of pixels.
//! - [`paint`] makes an image of them, and [`in_flight`] one of several lanes together.
//! - [`group`] makes an image of the mean of several ranks.
//! - [`counters`] makes images of counters.
//! - [`blur`] shows the uncertainty of a clock.
//! - [`wide_spans`] finds the spans that are wide enough for a name.
//! - [`painter`] does all this on background threads, the most important rows first.
//!
//! The cost of a picture depends on its number of pixels, not on the length of the run.

pub mod blur;
pub mod columns;
pub mod counters;
pub mod group;
pub mod in_flight;
pub mod paint;
pub mod painter;
pub mod wide_spans;

pub use columns::Columns;
pub use paint::{Picture, Style, paint};
pub use painter::{Painter, PictureKey, Ready, Subject};
pub use wide_spans::{Named, WIDEST_NAMES};
