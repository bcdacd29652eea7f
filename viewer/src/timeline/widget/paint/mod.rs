//! Paints one frame of the timeline, from the back to the front.
//!
//! - [`rows`] paints the backgrounds of the rows, step boundaries and losses.
//! - [`titles`] paints the titles to the left of the rows.
//! - [`members`] marks the hovered and the picked instance on all ranks.
//! - [`ranges`] paints the selected time range, notes, and the measured time range.

pub mod frame;
pub mod members;
pub mod ranges;
pub mod rows;
pub mod titles;
