//! Matches a second session with the first, by rank and step. This module has no drawing code.
//!
//! The open session is A, the other one is B. In the order of the data:
//! - [`counterparts`] maps the ranks of A to those of B.
//! - [`steps`] joins their steps by number. [`reading`] does this on a background thread.
//! - [`align`] computes which part of B appears below a part of A. [`reference`](mod@reference) chooses the rank whose
//!   steps decide.
//! - [`difference`] computes how much longer B's steps are in every column of pixels.
//!
//! This module defines no number of its own. All numbers are those of METRICS.md, once for A and once for B.

pub mod align;
pub mod counterparts;
pub mod difference;
pub mod reading;
pub mod reference;
pub mod steps;

pub use counterparts::Counterparts;
