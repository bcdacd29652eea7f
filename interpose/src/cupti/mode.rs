//! The program's own marks of steps, where a window of steps is asked for.

use super::wake;
pub use rankscope_ranklog::wanted::{Mode, Wanted, Window};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of the program's last mark of a step; [`NO_STEP`] before the first.
static STEP: AtomicU32 = AtomicU32::new(NO_STEP);
/// True if that is asked for.
static WANTS_STEPS: AtomicBool = AtomicBool::new(false);

const NO_STEP: u32 = u32::MAX;

/// True if marks of steps are asked for.
#[inline]
pub fn wants_steps() -> bool {
    WANTS_STEPS.load(Ordering::Relaxed)
}

/// From now on marks are asked for, or not.
pub fn announce(wanted: &Wanted) {
    let by_steps = matches!(wanted.window, Window::Steps(..));
    WANTS_STEPS.store(by_steps, Ordering::Relaxed);
}

/// A step with this number has begun.
pub fn step(number: u32) {
    STEP.store(number, Ordering::Relaxed);
    wake::wake();
}

/// The number of the last one.
pub fn last_step() -> Option<u32> {
    let step = STEP.load(Ordering::Relaxed);
    (step != NO_STEP).then_some(step)
}
