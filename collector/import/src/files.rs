//! Resolution of user-given paths to trace files.

use crate::flight_recorder::rank_of;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Error in the given paths.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system returned an error.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A directory has no traces.
    #[error(
        "no trace (*.json, *.json.gz) in {0}; torch.profiler writes one with export_chrome_trace or tensorboard_trace_handler"
    )]
    Empty(PathBuf),
    /// A directory has no dumps.
    #[error(
        "no dump in {0}: the name of a dump ends with its rank, as in nccl_trace_rank_0; PyTorch writes dumps with \
         TORCH_FR_BUFFER_SIZE (formerly TORCH_NCCL_TRACE_BUFFER_SIZE) and TORCH_NCCL_DUMP_ON_TIMEOUT"
    )]
    NoDumps(PathBuf),
    /// A directory has no files of NCCL's Inspector.
    #[error(
        "no file of NCCL's Inspector (HOST-pidPID.log) in {0}; the plugin writes one per process, in \
         NCCL_INSPECTOR_DUMP_DIR"
    )]
    NoInspector(PathBuf),
}

/// Returns the trace files for the given paths: files unchanged, and all `.json` and `.json.gz` files of directories,
/// by name. A file that PyTorch is still writing (`.tmp`) is read only if it is given by name.
///
/// # Errors
///
/// If a path cannot be read, or a directory has no trace.
pub fn trace_files(named: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    files(named, is_trace_name, FileError::Empty)
}

/// Returns the dumps of the Flight Recorder for the given paths: files unchanged, and all files of directories whose
/// name ends with a rank, by name.
///
/// # Errors
///
/// If a path cannot be read, or a directory has no dump.
pub fn dump_files(named: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    files(named, |path| rank_of(path).is_some(), FileError::NoDumps)
}

/// Returns the files of NCCL's Inspector for the given paths: files unchanged, and all `HOST-pidPID.log` of directories,
/// by name.
///
/// # Errors
///
/// If a path cannot be read, or a directory has none.
pub fn inspector_files(named: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    files(named, is_inspector_name, FileError::NoInspector)
}

fn files(
    named: &[PathBuf],
    is_one: fn(&Path) -> bool,
    empty: fn(PathBuf) -> FileError,
) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for path in named {
        let error = |source| FileError::Io {
            path: path.clone(),
            source,
        };
        if !fs::metadata(path).map_err(error)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(error)? {
            let entry = entry.map_err(error)?.path();
            if entry.is_file() && is_one(&entry) {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            return Err(empty(path.clone()));
        }
        inside.sort();
        files.append(&mut inside);
    }
    // A file that is given twice counts once.
    let mut known = std::collections::BTreeSet::new();
    files.retain(|file| known.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    Ok(files)
}

fn is_trace_name(path: &Path) -> bool {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    name.ends_with(".json") || name.ends_with(".json.gz")
}

fn is_inspector_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.contains("-pid") && name.ends_with(".log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_means_its_traces_and_a_file_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.json", "a.pt.trace.json.gz", "c.json.tmp", "notes.txt"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        let found =
            trace_files(&[folder.path().to_path_buf(), folder.path().join("b.json")]).expect("traces");
        let names: Vec<_> = found.iter().map(|path| super::super::shown(path)).collect();
        assert_eq!(names, ["a.pt.trace.json.gz", "b.json"]);
        let tmp = folder.path().join("c.json.tmp");
        assert_eq!(trace_files(std::slice::from_ref(&tmp)).expect("a file"), [tmp]);
        let empty = tempfile::tempdir().expect("a folder");
        assert!(matches!(
            trace_files(&[empty.path().to_path_buf()]),
            Err(FileError::Empty(_))
        ));
        assert!(matches!(
            trace_files(&[empty.path().join("x")]),
            Err(FileError::Io { .. })
        ));
    }
}
