//! Screen of a running job, without a terminal: from a window to figures, rows and text.
//!
//! | module | content |
//! |---|---|
//! | [`document`] | the figures as types; also the output for scripts |
//! | [`figures`] | from the session of a window to the figures |
//! | [`reading`] | reads windows that do not reach across a restart, with a bounded number of records |
//! | [`columns`], [`filter`], [`view`] | what is shown of them: columns, rows, order, and the keys that change it |
//! | [`draw`] | the screen, in any size |

pub mod columns;
pub mod document;
pub mod draw;
pub mod figures;
pub mod filter;
pub mod reading;
pub mod view;
