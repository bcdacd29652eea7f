//! Comparison in the window: the second session is opened, aligned, and followed over all ranks.
//!
//! - [`opening`] reads B from a path.
//! - [`comparison_bar`] shows what is compared and how it is aligned.
//! - [`picking`] follows one instance of B over all ranks.

pub mod comparison_bar;
pub mod opening;
pub mod picking;

pub use opening::Comparing;

#[cfg(test)]
mod tests;
