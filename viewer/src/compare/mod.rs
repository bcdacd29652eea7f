//! Comparison with a second session: stacked rank by rank, coupled in time, aligned by step, with differences in
//! colour.
//!
//! The open session is A, the other one is B. In the order of the data:
//! - [`opening`] reads B from a path.
//! - [`counterparts`] maps the ranks of A to those of B.
//! - [`steps`] joins their steps by number. [`reading`] does this on a background thread.
//! - [`align`] computes which part of B appears below a part of A. [`reference`](mod@reference) chooses the rank whose
//!   steps decide.
//! - [`difference`] computes how much longer B's steps are in every column of pixels, [`colour`] the colours.
//! - [`compared`] keeps the state of a frame, and [`rows`] draws it.
//! - [`picking`] follows one instance of B over all ranks.
//! - [`tooltip`] describes one place.
//! - [`bar`] shows what is compared and how it is aligned.
//! - [`table`] shows both sessions in numbers.
//!
//! This module defines no number of its own. All numbers are those of METRICS.md, once for A and once for B.

pub mod align;
pub mod bar;
pub mod colour;
pub mod compared;
pub mod counterparts;
pub mod difference;
pub mod opening;
pub mod picking;
pub mod reading;
pub mod reference;
pub mod rows;
pub mod steps;
pub mod table;
pub mod tooltip;

pub use compared::{Compared, Pointed};
pub use counterparts::Counterparts;
pub use opening::Comparing;

#[cfg(test)]
mod tests;
