//! Live areas on this machine: of processes that record now, and of dead processes that were not collected.

use super::run_directory;
use rankscope_ranklog::collect::{Collected, collect};
use rankscope_ranklog::definition::{self, Definition, Scanned};
use rankscope_ranklog::layout::{LIVE_MAGIC, header};
use rankscope_ranklog::place::LIVE_EXTENSION;
use rankscope_ranklog::process;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// File of a live area, and its process.
#[derive(Debug)]
pub struct LiveFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// Process id in the namespace of the process.
    pub pid: u32,
    /// Whether the process is alive.
    pub is_running: bool,
    /// Command line of the process, with secrets redacted.
    pub command_line: Option<String>,
    /// Run directory of the process's log.
    pub run_directory: Option<PathBuf>,
    nonce: u64,
}

/// Returns the live areas of this user in their usual directories. RANKSCOPE_LIVE_DIR names another directory, as for
/// recording.
pub fn find() -> Vec<LiveFile> {
    // SAFETY: getuid cannot fail.
    let uid = unsafe { libc::getuid() };
    let places = match env::var_os("RANKSCOPE_LIVE_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => vec![PathBuf::from(dir)],
        None => vec![
            PathBuf::from(format!("/dev/shm/rankscope-{uid}")),
            PathBuf::from("/var/tmp"),
        ],
    };
    let mut files: Vec<PathBuf> = places
        .iter()
        .filter_map(|place| fs::read_dir(place).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == LIVE_EXTENSION)
        })
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == uid))
        .collect();
    files.sort();
    files
        .into_iter()
        .filter_map(|path| LiveFile::read(path).ok())
        .collect()
}

impl LiveFile {
    fn read(path: PathBuf) -> io::Result<Self> {
        const DEFINITIONS_LIMIT: u64 = 1 << 20;
        let file = File::open(&path)?;
        let mut head = [0u8; header::START_TICKS + 8];
        file.read_exact_at(&mut head, 0)?;
        let u64_at = |at: usize| {
            head.get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let mut properties = BTreeMap::new();
        if u64_at(header::MAGIC) == LIVE_MAGIC {
            let mut bytes = vec![0u8; u64_at(header::DEFINITIONS_USED).min(DEFINITIONS_LIMIT) as usize];
            file.read_exact_at(&mut bytes, u64_at(header::DEFINITIONS_OFFSET))?;
            definition::scan(&bytes, |_, found| {
                if let Scanned::Definition(Definition::Property { key, value }) = found {
                    properties.insert(key, value);
                }
            });
        }
        let pid = u64_at(header::PID) as u32;
        let start_time = properties.get("start_time");
        Ok(Self {
            bytes: file.metadata()?.len(),
            pid,
            // A process that was killed before it recorded its start time is dead if no process has its id.
            is_running: match start_time {
                Some(start) => process::is_running(pid, start),
                None => process::start_time(&pid.to_string()).is_some(),
            },
            command_line: properties.remove("command_line"),
            run_directory: properties.remove("env.RANKSCOPE_DIR").map(PathBuf::from),
            nonce: u64_at(header::NONCE),
            path,
        })
    }

    /// Returns advice on the live area.
    pub fn advice(&self) -> String {
        match (&self.run_directory, self.log()) {
            _ if self.is_running => "no action needed: it is recording".to_owned(),
            (Some(directory), Some(_)) => {
                format!(
                    "not collected yet: rankscope merge {}, or rankscope doctor --clean",
                    directory.display()
                )
            }
            _ => "its log no longer exists: rankscope doctor --clean removes it".to_owned(),
        }
    }

    /// Collects or removes the live area if its process is dead. Returns a description of the action.
    pub fn clean(&self) -> String {
        if self.is_running {
            return self.advice();
        }
        match self.log().map(|log| (collect(&log), log)) {
            Some((Ok(Collected::Completed), log)) => return format!("collected into {}", log.display()),
            Some((Err(error), _)) => return format!("kept: {error}"),
            Some((Ok(Collected::StillRunning), _)) => return "kept: its process runs".to_owned(),
            // A closed log does not need the live area. Without a log there is no place to collect it into.
            Some((Ok(Collected::Nothing | Collected::Missing), _)) | None => {}
        }
        match fs::remove_file(&self.path) {
            Ok(()) => "removed".to_owned(),
            Err(error) => format!("cannot remove it: {error}"),
        }
    }

    /// Returns the log of the live area.
    fn log(&self) -> Option<PathBuf> {
        let ending = format!("-{:016x}", self.nonce);
        let directory: &Path = self.run_directory.as_deref()?;
        run_directory::logs(directory).ok()?.into_iter().find(|log| {
            log.file_stem()
                .is_some_and(|stem| stem.to_string_lossy().ends_with(&ending))
        })
    }
}
