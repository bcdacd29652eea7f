//! Run directory of a recording.

use super::record;
use anyhow::{Context, Result, bail};
use rankscope_formats::files::is_remote;
use rankscope_ranklog::place::{self, SEGMENT_EXTENSION};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Run directory, created or found.
#[derive(Debug)]
pub struct RunDirectory {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether this process created the directory under a default name. Then it is removed if nothing was recorded.
    pub is_ours: bool,
    /// Number of logs that existed before.
    pub earlier_logs: usize,
}

impl RunDirectory {
    /// Prepares the named directory, else that of RANKSCOPE_DIR, else a new one below the working directory.
    pub fn prepare(named: Option<&Path>) -> Result<Self> {
        let (path, is_named) = choose(named)?;
        let existed = path.exists();
        let earlier_logs = if existed { check_existing(&path)? } else { 0 };
        place::make_run_directory(&path).with_context(|| {
            format!(
                "cannot create the run directory {}; name another with -o",
                path.display()
            )
        })?;
        Ok(Self {
            path,
            is_ours: !existed && !is_named,
            earlier_logs,
        })
    }

    /// Removes the directory if this process created it and it is empty.
    pub fn remove_if_empty(&self) {
        if self.is_ours {
            // `remove_dir` fails if the directory has content, as intended.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Returns the absolute path of the named directory, else of RANKSCOPE_DIR, else of a new one below the working
/// directory. Does not create it.
pub fn requested(named: Option<&Path>) -> Result<PathBuf> {
    Ok(choose(named)?.0)
}

/// Returns the directory, and whether it was named by the user.
fn choose(named: Option<&Path>) -> Result<(PathBuf, bool)> {
    let inherited = env::var_os("RANKSCOPE_DIR")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let (path, is_named) = match named.map(Path::to_path_buf).or(inherited) {
        Some(path) => (path, true),
        None => (PathBuf::from(default_name()), false),
    };
    if is_remote(&path) {
        bail!(
            "record into a directory of this machine, and copy it to {} afterwards",
            path.display()
        );
    }
    let path = std::path::absolute(&path)
        .with_context(|| format!("cannot resolve the relative path {}", path.display()))?;
    Ok((path, is_named))
}

/// Returns the number of logs. Fails if the directory is in use for something else.
fn check_existing(path: &Path) -> Result<usize> {
    let entries =
        fs::read_dir(path).with_context(|| format!("cannot read the run directory {}", path.display()))?;
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let logs = names.iter().filter(|name| is_log(Path::new(name))).count();
    let is_a_run = logs > 0 || names.iter().any(|name| name == OsStr::new(record::FOLDER));
    if !names.is_empty() && !is_a_run {
        bail!(
            "{} is neither empty nor a run directory; name another with -o",
            path.display()
        );
    }
    Ok(logs)
}

/// Whether this is the name of a rank log.
pub fn is_log(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == SEGMENT_EXTENSION)
}

/// Returns the rank logs in a run directory, by name.
pub fn logs(run_dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(run_dir)
        .with_context(|| format!("cannot read the run directory {}", run_dir.display()))?;
    let mut logs: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_log(path))
        .collect();
    logs.sort();
    Ok(logs)
}

/// Returns a name such as `rankscope-20260131-235959-1a2b`, in local time. The last part lets two runs start in one
/// second.
fn default_name() -> String {
    format!("rankscope-{}", time_name())
}

/// Returns the local time and a random number as a part of a file name: `20260131-235959-1a2b`.
pub fn time_name() -> String {
    // SAFETY: time without a pointer only returns; localtime_r fills in valid memory; all zero is a valid value.
    let time = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut time);
        time
    };
    let mut random = [0u8; 2];
    // SAFETY: the buffer is valid for its length.
    if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } != 2 {
        random = (std::process::id() as u16).to_le_bytes();
    }
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}-{:02x}{:02x}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec,
        random[0],
        random[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_new_directory_is_private_and_absolute() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::prepare(Some(&dir.path().join("a/b"))).expect("made");
        assert!(run.path.is_absolute() && !run.is_ours);
        let mode = fs::metadata(&run.path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_a_run_is_extended() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("thesis.tex"), "").expect("written");
        let refused = RunDirectory::prepare(Some(dir.path()))
            .expect_err("not ours")
            .to_string();
        assert!(refused.contains("neither empty nor a run directory"), "{refused}");
        fs::write(dir.path().join(format!("host-1-2.{SEGMENT_EXTENSION}")), "").expect("written");
        assert_eq!(
            RunDirectory::prepare(Some(dir.path()))
                .expect("a run")
                .earlier_logs,
            1
        );
    }

    #[test]
    fn default_names_contain_the_time() {
        let name = default_name();
        assert_eq!(name.len(), "rankscope-20260131-235959-1a2b".len());
        assert!(name.starts_with("rankscope-20"));
    }
}
