//! Files in the run directory that describe each `rankscope run`: the process that records, its start, and how the job
//! ended.
//!
//! Several nodes may record into one shared directory. Each writes only its own file. The launch that ends last, and so
//! finds no other that records, merges.

use super::ending::Ending;
use anyhow::{Context, Result};
use rankscope_formats::whole_file;
use rankscope_ranklog::process;
use rankscope_ranklog::secrets::Redactor;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Name of the directory of these files in a run directory.
pub const FOLDER: &str = "launches";

/// Identity of a process, which also distinguishes it from a later process with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    /// Name of the host.
    pub host: String,
    /// Boot id of the host.
    pub boot_id: Option<String>,
    /// Inode of the process-id namespace of `pid`.
    pub pid_namespace: Option<u64>,
    /// Process id.
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    pub start_time: Option<String>,
}

impl ProcessName {
    /// Returns the identity of this process.
    pub fn own() -> Self {
        Self {
            host: process::host_name(),
            boot_id: process::boot_id(),
            pid_namespace: own_pid_namespace(),
            pid: std::process::id(),
            start_time: process::start_time("self"),
        }
    }

    /// Whether the process is known to be dead. A process that cannot be observed from here counts as alive.
    pub fn is_gone(&self) -> bool {
        if self.boot_id.is_none() || self.boot_id != process::boot_id() {
            return false;
        }
        if self.pid_namespace.is_none() || self.pid_namespace != own_pid_namespace() {
            return false;
        }
        process::start_time(&self.pid.to_string()) != self.start_time
    }
}

fn own_pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|meta| meta.ino())
}

/// Description of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Name of the launch; the job's processes have it in RANKSCOPE_LAUNCH.
    pub launch: String,
    /// Process of the launcher.
    pub launcher: ProcessName,
    /// Command line, with secrets redacted.
    pub command_line: String,
    /// Start time, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// End time of the job, in nanoseconds since 1970; none while it runs.
    pub ended_unix_ns: Option<u64>,
    /// How the job ended; none while it runs.
    pub ending: Option<Ending>,
}

impl LaunchRecord {
    /// Creates the record of a launch that starts now.
    pub fn new(arguments: &[String]) -> Self {
        let launcher = ProcessName::own();
        let started_unix_ns = now_unix_ns();
        let host: String = launcher
            .host
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .take(64)
            .collect();
        Self {
            launch: format!("{host}-{}-{:08x}", launcher.pid, (started_unix_ns >> 10) as u32),
            launcher,
            command_line: Redactor::of_environment().command_line(arguments),
            started_unix_ns,
            ended_unix_ns: None,
            ending: None,
        }
    }

    /// Records the end of the job.
    pub fn end(&mut self, ending: Ending) {
        self.ended_unix_ns = Some(now_unix_ns());
        self.ending = Some(ending);
    }

    /// Writes the record into the run directory, atomically.
    pub fn write(&self, run_dir: &Path) -> Result<()> {
        let folder = run_dir.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = self.path(run_dir);
        let text = serde_json::to_vec_pretty(self)?;
        whole_file::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the record, because the job never started.
    pub fn remove(&self, run_dir: &Path) {
        let _ = fs::remove_file(self.path(run_dir));
        // `remove_dir` fails if there are other records, as intended.
        let _ = fs::remove_dir(run_dir.join(FOLDER));
    }

    fn path(&self, run_dir: &Path) -> PathBuf {
        run_dir.join(FOLDER).join(format!("{}.json", self.launch))
    }

    /// Whether this launch still records, as far as known on this host.
    pub fn is_recording(&self) -> bool {
        self.ending.is_none() && !self.launcher.is_gone()
    }
}

/// Reads all launches of a run directory. Unreadable files are skipped.
pub fn read_all(run_dir: &Path) -> Vec<LaunchRecord> {
    let Ok(entries) = fs::read_dir(run_dir.join(FOLDER)) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
        .collect()
}

/// Returns other launches that still record into the directory.
pub fn others_recording(run_dir: &Path, own: &str) -> Vec<LaunchRecord> {
    read_all(run_dir)
        .into_iter()
        .filter(|other| other.launch != own && other.is_recording())
        .collect()
}

fn now_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_counts_as_recording_until_it_ends_or_its_process_is_gone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut launch = LaunchRecord::new(&["train".to_owned(), "--token=x".to_owned()]);
        assert!(!launch.command_line.contains("=x"));
        launch.write(dir.path()).expect("written");
        assert_eq!(read_all(dir.path()), vec![launch.clone()]);
        assert_eq!(others_recording(dir.path(), "another").len(), 1);
        assert!(others_recording(dir.path(), &launch.launch).is_empty());

        let mut killed = launch.clone();
        killed.launcher.start_time = Some("1".to_owned());
        assert!(
            !killed.is_recording(),
            "the number belongs to another process by now"
        );
        killed.launcher.boot_id = Some("another machine".to_owned());
        assert!(killed.is_recording(), "nobody here can know");

        launch.end(Ending::Signal(15));
        launch.write(dir.path()).expect("written");
        assert!(others_recording(dir.path(), "another").is_empty());
    }
}
