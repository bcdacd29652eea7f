//! What a terminal can show: its width, and colours if it wants them.

use std::env;
use std::io::{self, IsTerminal};

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Whether to use colours.
    pub colours: bool,
}

/// Columns of what is not a terminal: a file, a pipe.
const WIDTH_OF_A_FILE: usize = 110;
const NARROWEST: usize = 60;
/// Wider lines are hard to read.
const WIDEST: usize = 160;

impl Look {
    /// Without colours, as wide as this.
    pub fn plain(width: usize) -> Self {
        Self {
            width,
            colours: false,
        }
    }

    /// As standard output wants it.
    pub fn of_stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// As standard error wants it.
    pub fn of_stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        if !is_terminal {
            return Self::plain(WIDTH_OF_A_FILE);
        }
        let width = terminal_size::terminal_size().map_or(WIDTH_OF_A_FILE, |(width, _)| usize::from(width.0));
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            width: width.clamp(NARROWEST, WIDEST),
            colours: !unwanted && !dumb,
        }
    }
}
