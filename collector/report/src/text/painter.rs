//! Colours of a terminal, or none.

/// Painter that adds colours if enabled.
#[derive(Clone, Copy, Debug)]
pub struct Painter(pub bool);

impl Painter {
    /// Paints a heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Paints secondary information.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Paints a good result.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Paints a warning.
    pub fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Paints a problem.
    pub fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
