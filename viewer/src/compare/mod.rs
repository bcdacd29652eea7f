//! Another session beside the one that is open: stacked rank by rank, coupled in time, aligned by step, differences coloured.
//!
//! What is open is A, what it is compared with is B. In the order of the data: [`opening`] gets B from a path,
//! [`counterparts`] says which of its ranks belongs to which, [`steps`] joins their steps by number, which [`reading`] does
//! behind the window; [`align`] says which part of B stands beside a part of A, and [`reference`](mod@reference) by whose
//! steps; [`difference`] is how much longer B's steps are in every column of pixels, in the colours of [`colour`];
//! [`compared`] keeps all that of one frame, [`rows`] draws it, [`picking`] follows one of its instances over all ranks, [`tooltip`] tells of one place, [`bar`] what is compared and
//! by what it is aligned, and [`table`] the two sessions in numbers. No number has a definition of its own here: all are
//! those of METRICS.md, once of A and once of B.

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
