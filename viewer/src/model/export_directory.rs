//! Where pictures and tables of a session are saved.

use rankscope_formats::files::is_remote;
use rankscope_formats::session::SESSION_DIRECTORY;
use std::path::Path;

/// Returns the directory for pictures and tables of a session.
///
/// It is the run directory, next to the session, so that another merge does not remove them. A session without a run directory contains
/// them. For a session in an object store, it is the working directory.
pub fn export_directory(session: &Path) -> &Path {
    match session.parent() {
        _ if is_remote(session) => Path::new(""),
        Some(run) if session.ends_with(SESSION_DIRECTORY) => run,
        _ => session,
    }
}
