//! Status files of NCCL's RAS subsystem in run directories. They are evidence for findings, and contain no operations.

use rankscope_formats::ras::{self, RasStatus};
use rankscope_formats::session::ProblemSummary;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Name of such a file in a run directory, without its extension (`json` or `txt`).
pub const NAME: &str = "nccl-ras";
/// Extensions of the names.
pub const EXTENSIONS: [&str; 2] = ["json", "txt"];
/// Maximum size of a file, in bytes. A status of ten thousand ranks with a hundred communicators is smaller.
const MAX_BYTES: u64 = 1 << 28;

/// Returns true if this is the name of a status file.
pub fn is_status(path: &Path) -> bool {
    let is_name = |extension: &str| path.file_name() == Path::new(NAME).with_extension(extension).file_name();
    EXTENSIONS.into_iter().any(is_name)
}

/// Reads the status files of run directories. Files that cannot be read are problems.
pub fn of_directories(directories: &[PathBuf], problems: &mut Vec<ProblemSummary>) -> Vec<RasStatus> {
    let mut found = Vec::new();
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        for extension in EXTENSIONS {
            let path = directory.join(NAME).with_extension(extension);
            if !path.exists() {
                continue;
            }
            match bytes_of(&path).map(|bytes| ras::read(&bytes)) {
                Ok(status) => {
                    problems.extend(status.problems.iter().map(|problem| {
                        ProblemSummary::of_file(&path, Some(problem.offset), problem.what.clone())
                    }));
                    found.push(status);
                }
                Err(error) => {
                    let what = format!("the status of NCCL RAS could not be read: {error}");
                    problems.push(ProblemSummary::of_file(&path, None, what));
                }
            }
        }
    }
    found
}

/// Returns the bytes of a status file.
///
/// # Errors
///
/// If the file cannot be read, or is larger than [`MAX_BYTES`].
pub fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!(
            "a status of NCCL RAS has at most {MAX_BYTES} bytes, and this file has more"
        )));
    }
    Ok(bytes)
}

/// Removes the status files of a run directory.
///
/// # Errors
///
/// If a file exists and cannot be removed.
pub fn remove(directory: &Path) -> std::io::Result<()> {
    for extension in EXTENSIONS {
        let path = directory.join(NAME).with_extension(extension);
        if path.exists() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
