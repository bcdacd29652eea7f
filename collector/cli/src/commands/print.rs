//! Output to standard output, as text or JSON.

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{self, Write};

/// Prints text.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    text(&json)
}
