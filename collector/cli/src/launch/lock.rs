//! Lock that allows one merge at a time per run directory, also across nodes that share it.

use super::record::ProcessName;
use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// File name of the lock.
pub const LOCK: &str = "merging.json";

/// Exclusive right to merge a directory, until dropped.
#[derive(Debug)]
pub struct MergeLock {
    path: PathBuf,
}

impl MergeLock {
    /// Takes the lock. Fails if another merge runs. The lock of a dead holder is taken over.
    pub fn take(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join(LOCK);
        for _ in 0..2 {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let own = serde_json::to_vec(&ProcessName::own())?;
                    let lock = Self { path };
                    file.write_all(&own)
                        .with_context(|| format!("cannot write {}", lock.path.display()))?;
                    return Ok(lock);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let holder: Option<ProcessName> = fs::read(&path)
                        .ok()
                        .and_then(|text| serde_json::from_slice(&text).ok());
                    match holder {
                        Some(holder) if holder.is_gone() => fs::remove_file(&path).with_context(|| {
                            format!("cannot remove the lock of a dead merge, {}", path.display())
                        })?,
                        holder => {
                            let who = holder.map_or_else(
                                || "another rankscope".to_owned(),
                                |holder| format!("process {} on {}", holder.pid, holder.host),
                            );
                            bail!(
                                "{} is being merged by {who}; if that process is dead, remove {}",
                                run_dir.display(),
                                path.display()
                            );
                        }
                    }
                }
                Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
            }
        }
        bail!("{} is being merged by another rankscope", run_dir.display())
    }

    /// Whether this process holds the lock.
    pub fn is_own(run_dir: &Path) -> bool {
        let holder = fs::read(run_dir.join(LOCK))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        holder == Some(ProcessName::own())
    }
}

impl Drop for MergeLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_merge_at_a_time_and_dead_processes_do_not_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let first = MergeLock::take(dir.path()).expect("nobody merges");
        let second = MergeLock::take(dir.path())
            .expect_err("the first merges")
            .to_string();
        assert!(second.contains("is being merged by process"), "{second}");
        assert!(MergeLock::is_own(dir.path()));
        drop(first);
        assert!(!MergeLock::is_own(dir.path()));
        let mut gone = ProcessName::own();
        gone.start_time = Some("1".to_owned());
        fs::write(
            dir.path().join(LOCK),
            serde_json::to_vec(&gone).expect("serialisable"),
        )
        .expect("written");
        MergeLock::take(dir.path()).expect("taken over");
    }
}
