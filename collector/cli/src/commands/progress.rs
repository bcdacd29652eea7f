//! Progress on standard error: shown to people who wait longer than a second, never written into a file.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How long something may take before it is worth a word.
const PATIENCE: Duration = Duration::from_secs(1);
/// Finer than a terminal shows.
const STEPS: u64 = 1_000;

/// One line that says what is being done and how far it is.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    stage: Cell<(&'static str, bool)>,
}

impl Progress {
    /// Nothing to see yet.
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            since: Instant::now(),
            stage: Cell::new(("", false)),
        }
    }

    /// A stage, and the share of it that is done, where that can be told.
    pub fn tell(&self, stage: &'static str, share: Option<f64>) {
        if self.bar.is_hidden() {
            if self.since.elapsed() < PATIENCE || !io::stderr().is_terminal() {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        let template = match share {
            Some(_) => "rankscope: {msg} {bar:30} {percent:>3} %  {elapsed}",
            None => "rankscope: {msg} {spinner}  {elapsed}",
        };
        if self.stage.replace((stage, share.is_some())) != (stage, share.is_some()) {
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
            self.bar.set_message(stage);
        }
        self.bar.set_length(STEPS);
        self.bar
            .set_position((share.unwrap_or(0.0).clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
