//! Viewer of rankscope: shows which ranks wait for which, on one time axis.
//!
//! Modules in the order of the data:
//! - [`open`] finds or creates a session. [`follow`] creates it repeatedly while its run continues.
//! - [`model`] is the state of the view, without a window.
//! - [`picture`] turns lanes into pixels on background threads, in the colours of [`theme`].
//! - [`timeline`] shows the pictures.
//! - [`panels`] are next to the timeline.
//! - [`compare`] matches a second session with the first, by rank and step.
//! - [`search`] finds things and names commands.
//! - [`export`] writes pictures and traces.
//! - [`app`] is the window around it. [`app::workspace`] draws one session, and a second one below it.
//! - [`screenshot`] makes a picture without a window.
//! - [`cli`] is the command line.

pub mod app;
pub mod cli;
pub mod compare;
pub mod export;
pub mod follow;
pub mod model;
pub mod open;
pub mod panels;
pub mod picture;
pub mod screenshot;
pub mod search;
pub mod theme;
pub mod timeline;
