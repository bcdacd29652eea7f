//! Picture of the timeline for the HTML page. The viewer draws it, and needs no display.

use super::progress::Progress;
use super::view::VIEWER;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Size of the picture, in pixels. The width is that of the page.
const SIZE: &str = "1280x560";

/// Draws the timeline of the session in `path` as PNG.
pub fn take(path: &Path) -> Result<Vec<u8>> {
    take_range(path, None)
}

/// Draws an interval of the timeline: start and end, in nanoseconds on the session's axis.
pub fn take_range(path: &Path, range_ns: Option<(i64, i64)>) -> Result<Vec<u8>> {
    let progress = Progress::new();
    progress.report("drawing the timeline", None);
    let folder = tempfile::tempdir().context("cannot create a temporary directory for the picture")?;
    let picture = folder.path().join("timeline.png");
    let program = VIEWER.path();
    let output = Command::new(&program)
        .arg(path)
        .arg("--screenshot")
        .arg(&picture)
        .args(["--size", SIZE, "--theme", "light", "--only-timeline"])
        .args(range_ns.map(|(from, to)| format!("--range={from}ns..{to}ns")))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}. {}", program.display(), VIEWER.where_from))?;
    if !output.status.success() {
        bail!(
            "the viewer could not draw the timeline: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    std::fs::read(&picture).with_context(|| format!("cannot read {}", picture.display()))
}
