//! Progress on standard error: shown to people who wait longer than a second, never written into a file.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long something may take before it is worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// One line that says what is being done and how far it is.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    stage: Mutex<String>,
}

impl Progress {
    /// Nothing to see yet.
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            since: Instant::now(),
            stage: Mutex::new(String::new()),
        }
    }

    /// `done` of `total` (of whatever unit) of a stage.
    pub fn tell(&self, stage: &str, done: u64, total: u64) {
        if self.bar.is_hidden() {
            if self.since.elapsed() < PATIENCE || !io::stderr().is_terminal() {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) =
                ProgressStyle::with_template("rankscope: {msg} {bar:30} {percent:>3} % {elapsed}")
            {
                self.bar.set_style(style);
            }
        }
        if let Ok(mut known) = self.stage.lock()
            && *known != stage
        {
            stage.clone_into(&mut known);
            self.bar.set_message(known.clone());
        }
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
