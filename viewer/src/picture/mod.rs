//! Pictures of lanes: from an index to pixels, without a window.
//!
//! In the order of the data: [`columns`] is the time of each class in every column of pixels, [`paint`] makes an image of
//! them ([`in_flight`]: of several lanes together), [`blur`] what a clock leaves open, [`names`] says which spans are wide enough to be named, [`painter`] does all this on other threads for the rows
//! that are wanted most. The cost of a picture is that of its pixels, whatever the length of the run.

pub mod blur;
pub mod columns;
pub mod in_flight;
pub mod names;
pub mod paint;
pub mod painter;

pub use columns::Columns;
pub use names::{Named, WIDEST_NAMES};
pub use paint::{Picture, Style, paint};
pub use painter::{Key, Painter, Ready, Subject};
