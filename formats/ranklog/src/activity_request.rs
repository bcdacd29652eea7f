//! Requested recording of device work: `off`, `communication` or `all`, always or in a window.
//!
//! `all@30+10` records from second 30 on, for 10 seconds. `all@step100+20` starts at the program's mark "step 100" and
//! records 20 steps. The launcher, `rankscope ctl` and the recorder parse the same syntax.

use std::time::Duration;

/// Name of the file in a run directory that controls what a running job records.
pub const CONTROL_FILE: &str = "control";

/// Recorded device work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No device work. CUPTI is not used.
    Off,
    /// Work of communication only.
    Communication,
    /// All device work.
    All,
}

/// Time window of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The whole run.
    Always,
    /// Start after the request, and duration.
    Time(Duration, Duration),
    /// Number of the first step mark, and of the first one after the window.
    Steps(u32, u32),
}

/// A request: the recorded device work and its time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityRequest {
    /// Recorded device work inside the window.
    pub mode: Mode,
    /// Time window of the recording.
    pub window: Window,
}

impl ActivityRequest {
    /// Request that records no device work at any time.
    pub const NONE: Self = Self {
        mode: Mode::Off,
        window: Window::Always,
    };

    /// Parses the text of a user; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (mode, window) = match text.split_once('@') {
            Some((mode, window)) => (mode, Some(window)),
            None => (text, None),
        };
        let mode = match mode {
            "off" | "0" | "" => Mode::Off,
            "communication" => Mode::Communication,
            "all" | "1" => Mode::All,
            _ => return None,
        };
        let window = match window {
            None => Window::Always,
            Some(window) => {
                let (from, length) = window.split_once('+')?;
                if let Some(first) = from.strip_prefix("step") {
                    let first: u32 = first.parse().ok()?;
                    Window::Steps(first, first.checked_add(length.parse().ok()?)?)
                } else {
                    let seconds = |text: &str| {
                        let seconds: f64 = if text.is_empty() { 0.0 } else { text.parse().ok()? };
                        Duration::try_from_secs_f64(seconds).ok()
                    };
                    Window::Time(seconds(from)?, seconds(length)?)
                }
            }
        };
        Some(Self { mode, window })
    }

    /// Returns the mode at a given time. `since` is the time since the request, and `step` the number of the last step
    /// mark.
    pub fn now(&self, since: Duration, step: Option<u32>) -> Mode {
        let is_inside = match self.window {
            Window::Always => true,
            Window::Time(from, length) => since >= from && since < from.saturating_add(length),
            Window::Steps(first, end) => step.is_some_and(|step| (first..end).contains(&step)),
        };
        if is_inside { self.mode } else { Mode::Off }
    }

    /// Returns the time until the mode may next change by itself, at `since` after the request.
    pub fn changes_in(&self, since: Duration) -> Option<Duration> {
        match self.window {
            Window::Time(from, length) => [from, from.saturating_add(length)]
                .into_iter()
                .find(|&edge| edge > since)
                .map(|edge| edge - since),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_variable_are_understood_or_refused() {
        let parse = |text| ActivityRequest::parse(text);
        assert_eq!(parse("all").map(|it| it.mode), Some(Mode::All));
        assert_eq!(
            parse(" communication\n").map(|it| it.mode),
            Some(Mode::Communication)
        );
        assert_eq!(parse("off"), Some(ActivityRequest::NONE));
        let window = |text| parse(text).map(|it| it.window);
        let seconds = Duration::from_secs;
        assert_eq!(window("all@30+10"), Some(Window::Time(seconds(30), seconds(10))));
        assert_eq!(
            window("all@+2.5"),
            Some(Window::Time(seconds(0), Duration::from_millis(2500)))
        );
        assert_eq!(window("all@step100+20"), Some(Window::Steps(100, 120)));
        for text in [
            "some",
            "all@",
            "all@3",
            "all@x+1",
            "all@1+-1",
            "all@step9+x",
            "all@step9",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn windows_open_and_close() {
        let by_time = ActivityRequest::parse("all@2+3").expect("a window");
        let at = |ms| by_time.now(Duration::from_millis(ms), None);
        assert_eq!(
            (at(1999), at(2000), at(4999), at(5000)),
            (Mode::Off, Mode::All, Mode::All, Mode::Off)
        );
        assert_eq!(
            by_time.changes_in(Duration::from_secs(1)),
            Some(Duration::from_secs(1))
        );
        assert_eq!(
            by_time.changes_in(Duration::from_secs(2)),
            Some(Duration::from_secs(3))
        );
        assert_eq!(by_time.changes_in(Duration::from_secs(5)), None);
        let by_steps = ActivityRequest::parse("all@step3+2").expect("a window");
        let seen = [None, Some(2), Some(3), Some(4), Some(5)].map(|step| by_steps.now(Duration::ZERO, step));
        assert_eq!(seen, [Mode::Off, Mode::Off, Mode::All, Mode::All, Mode::Off]);
    }
}
