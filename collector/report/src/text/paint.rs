//! Colours of a terminal, or none.

/// A brush that paints or does not.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What is there for completeness.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Good.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Worth a look.
    pub fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Bad.
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
