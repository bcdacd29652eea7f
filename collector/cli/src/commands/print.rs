//! Output to standard output, as text or JSON.

use anyhow::{Context, Result};
use rankscope_analysis::model::causes;
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

/// Prints a message of rankscope to standard error. The exit status must be returned even if standard error is closed.
pub fn message(what: &str) {
    let _ = writeln!(io::stderr().lock(), "rankscope: {what}");
}

/// Prints an error and its causes to standard error, one per line.
pub fn error(error: &anyhow::Error) {
    message(&causes::texts(error.chain()).join("\n  because: "));
}

/// Returns an error and its causes as one line, for a message.
pub fn error_line(error: &anyhow::Error) -> String {
    causes::texts(error.chain()).join(": ")
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    text(&json)
}

/// Whether the reader closed the pipe, as `| head` does. This is not a failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
