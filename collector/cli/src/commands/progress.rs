//! Progress on standard error. It appears only on a terminal, and only after one second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Shortest duration for which progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Resolution of the bar. It is finer than any terminal shows.
const STEPS: u64 = 1_000;

/// One line with the current stage and its progress.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    stage: RefCell<(Cow<'static, str>, bool)>,
}

impl Progress {
    /// Creates a hidden line.
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            since: Instant::now(),
            stage: RefCell::new((Cow::Borrowed(""), false)),
        }
    }

    /// Shows a stage, and its completed share if it is known.
    pub fn report(&self, stage: impl Into<Cow<'static, str>>, share: Option<f64>) {
        let stage = stage.into();
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
        let shown = (stage, share.is_some());
        if *self.stage.borrow() != shown {
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
            self.bar.set_message(shown.0.clone());
            self.stage.replace(shown);
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
