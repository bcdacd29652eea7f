//! Properties of a terminal: its width, and colours if enabled.

use std::env;
use std::io::{self, IsTerminal};

/// Layout of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLayout {
    /// Width in columns.
    pub width: usize,
    /// Whether to use colours.
    pub colours: bool,
}

/// Width of output that is not a terminal (a file, a pipe), in columns.
const WIDTH_OF_A_FILE: usize = 110;
const NARROWEST: usize = 60;
/// Widest text, in columns. Wider lines are hard to read.
const WIDEST: usize = 160;

impl TextLayout {
    /// Creates a layout without colours, with this width.
    pub fn plain(width: usize) -> Self {
        Self {
            width,
            colours: false,
        }
    }

    /// Returns the layout for standard output.
    pub fn of_stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// Returns the layout for standard error.
    pub fn of_stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        if !is_terminal {
            return Self::plain(WIDTH_OF_A_FILE);
        }
        let width = terminal_size::terminal_size().map_or(WIDTH_OF_A_FILE, |(width, _)| usize::from(width.0));
        let are_declined = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            width: width.clamp(NARROWEST, WIDEST),
            colours: !are_declined && !dumb,
        }
    }
}
