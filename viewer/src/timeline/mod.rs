//! The timeline: hosts, their ranks, and the lanes of these, over one axis of time.
//!
//! In the order of the data: [`layout`] says which rows there are and where, [`gallery`] keeps the pictures of those that
//! are seen, [`axis`] has round moments and [`ruler`] draws them, [`minimap`] the whole run in one line, [`gutter`] what stands left of the rows,
//! [`instance`] one instance across all ranks, [`clock_error`] how far a host's clock may be off and the haze that says so,
//! [`names`] what stands on spans, [`tooltip`] what is said of the thing under the mouse, [`legend`] what colours mean,
//! [`strokes`] what several of them draw, and [`widget`] draws and is dragged. A frame costs what is seen: neither ranks nor spans outside of the window are touched.

pub mod axis;
pub mod clock_error;
pub mod gallery;
pub mod gutter;
pub mod instance;
pub mod layout;
pub mod legend;
pub mod minimap;
pub mod names;
pub mod ruler;
pub mod strokes;
pub mod tooltip;
pub mod widget;

pub use widget::{Outside, Timeline};
