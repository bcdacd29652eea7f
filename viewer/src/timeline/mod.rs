//! The timeline: groups of ranks, the ranks, and the lanes of these, on one time axis.
//!
//! - [`layout`] determines the rows and their places.
//! - [`gallery`] caches the pictures of the visible rows.
//! - [`axis`] chooses round times, and [`ruler`] draws them.
//! - [`minimap`] shows the whole run in one line.
//! - [`gutter`] has the titles of the rows. Above them, [`grouping_choice`] chooses the groups of ranks.
//! - [`instance_members`] finds one instance on all ranks.
//! - [`clock_error`] computes the uncertainty between hosts, and the blur that shows it.
//! - [`names`] labels spans. [`tooltip`], [`counter_tooltip`] and [`group_tooltip`] describe what is under the mouse, and
//!   [`legend`] explains the colours.
//! - [`compared`] draws a second session below the first.
//! - [`strokes`] has shared drawing functions.
//! - [`widget`] draws everything and handles the mouse.
//!
//! The cost of a frame depends on what is visible. Ranks and spans outside the window are not read.

pub mod axis;
pub mod clock_error;
pub mod compared;
pub mod counter_tooltip;
pub mod gallery;
pub mod group_tooltip;
pub mod grouping_choice;
pub mod gutter;
pub mod instance_members;
pub mod layout;
pub mod legend;
pub mod minimap;
pub mod names;
pub mod ruler;
pub mod strokes;
pub mod tooltip;
pub mod widget;

pub use widget::{Outside, Timeline};
