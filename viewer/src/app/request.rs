//! Requests of a session to the window.

/// Request to the window that is not about one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Open another session.
    Open,
    /// Compare with another session.
    Compare,
    /// Write the window as a picture.
    Screenshot,
    /// Open the export dialog.
    Export,
    /// Switch between the dark and the light theme.
    ToggleTheme,
    /// Show all keys.
    Help,
    /// Open the command palette.
    Palette,
    /// Close the window.
    Quit,
}
