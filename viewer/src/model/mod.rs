//! What is looked at, without a window: the session that is open, the part of time that is shown, what is selected. Everything
//! here is plain data with tests; drawing reads it, and changes it by [`Action`]s only.

mod action;
mod opened;
mod state;
mod units;
mod window;

pub use action::{Action, PanelTab};
pub use opened::{Opened, View};
pub use state::{Hovered, PickedInstance, State, ViewState};
pub use units::{bytes_text, duration_text, moment_text, rate_text};
pub use window::Window;
