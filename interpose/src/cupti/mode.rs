//! The program's own step marks, for windows that are given in steps.

use super::wake;
pub use rankscope_ranklog::activity_request::{ActivityRequest, Mode, Window};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of the program's last step mark; [`NO_STEP`] before the first.
static STEP: AtomicU32 = AtomicU32::new(NO_STEP);
/// True if the requested window is given in steps.
static WANTS_STEPS: AtomicBool = AtomicBool::new(false);

const NO_STEP: u32 = u32::MAX;

/// Returns true if step marks are needed.
#[inline]
pub fn wants_steps() -> bool {
    WANTS_STEPS.load(Ordering::Relaxed)
}

/// Sets whether step marks are needed, from a new request.
pub fn announce(wanted: &ActivityRequest) {
    let by_steps = matches!(wanted.window, Window::Steps(..));
    WANTS_STEPS.store(by_steps, Ordering::Relaxed);
}

/// Stores the number of a step that has started.
pub fn step(number: u32) {
    STEP.store(number, Ordering::Relaxed);
    wake::wake();
}

/// Returns the number of the last step that has started.
pub fn last_step() -> Option<u32> {
    let step = STEP.load(Ordering::Relaxed);
    (step != NO_STEP).then_some(step)
}
