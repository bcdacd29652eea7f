//! rankscope's viewer: who waits for whom, on one time axis.
//!
//! In the order of the data: [`open`] finds or makes a session, [`follow`] makes it again while its run goes on; [`model`] is what is looked at, without a window;
//! [`picture`] turns lanes into pixels on other threads, in the colours of [`theme`]; [`timeline`] hangs the pictures up,
//! [`panels`] stand beside it, [`compare`] puts another session below, rank by rank, [`search`] finds things and names
//! commands, [`export`] writes pictures and traces; [`workspace`] is all that is drawn of one session, [`app`] the window around it, [`screenshot`] a picture of that without one, and [`cli`] the command line.

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
pub mod workspace;
