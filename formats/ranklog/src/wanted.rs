//! What of the devices' work a user wants recorded, and when: `off`, `communication` or `all`, always or in a window
//! (`all@30+10`: from second 30 on, for 10 seconds; `all@step100+20`: from the program's own mark "step 100" on, for 20 of
//! them). The launcher, `rankscope ctl` and the recorder read the same words.

use std::time::Duration;

/// File in a run directory by which a running job is told what to record.
pub const CONTROL_FILE: &str = "control";

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing, and CUPTI is left alone.
    Off,
    /// The work of communication.
    Communication,
    /// All work.
    All,
}

/// When.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Always.
    Always,
    /// From so long after this was asked for on, for so long.
    Time(Duration, Duration),
    /// From the mark with this number on, before the one with that.
    Steps(u32, u32),
}

/// What and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What.
    pub mode: Mode,
    /// When.
    pub window: Window,
}

impl Wanted {
    /// Nothing, ever.
    pub const NONE: Self = Self {
        mode: Mode::Off,
        window: Window::Always,
    };

    /// What a user wrote; `None` if it means nothing.
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

    /// What is wanted so long after it was asked for, with that mark of a step as the last one.
    pub fn now(&self, since: Duration, step: Option<u32>) -> Mode {
        let is_inside = match self.window {
            Window::Always => true,
            Window::Time(from, length) => since >= from && since < from.saturating_add(length),
            Window::Steps(first, end) => step.is_some_and(|step| (first..end).contains(&step)),
        };
        if is_inside { self.mode } else { Mode::Off }
    }

    /// How long from then on until that may change by itself.
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
    fn what_users_write_is_understood_or_refused() {
        let wanted = |text| Wanted::parse(text);
        assert_eq!(wanted("all").map(|it| it.mode), Some(Mode::All));
        assert_eq!(
            wanted(" communication\n").map(|it| it.mode),
            Some(Mode::Communication)
        );
        assert_eq!(wanted("off"), Some(Wanted::NONE));
        let window = |text| wanted(text).map(|it| it.window);
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
            assert_eq!(wanted(text), None, "{text}");
        }
    }

    #[test]
    fn windows_open_and_close() {
        let by_time = Wanted::parse("all@2+3").expect("a window");
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
        let by_steps = Wanted::parse("all@step3+2").expect("a window");
        let seen = [None, Some(2), Some(3), Some(4), Some(5)].map(|step| by_steps.now(Duration::ZERO, step));
        assert_eq!(seen, [Mode::Off, Mode::Off, Mode::All, Mode::All, Mode::Off]);
    }
}
