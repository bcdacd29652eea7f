//! rankscope's viewer: who waits for whom, on one time axis.
//!
//! In the order of the data: [`model`] is what is looked at, without a window; [`picture`] turns lanes into pixels on other
//! threads, in the colours of [`theme`].

pub mod model;
pub mod picture;
pub mod screenshot;
pub mod theme;
