//! Live areas that lie around on this machine: of processes that record now, and of those that nobody collected.

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

/// A live area's file, and whose it is.
#[derive(Debug)]
pub struct LiveFile {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Process id as its own namespace saw it.
    pub pid: u32,
    /// True if that process lives.
    pub is_running: bool,
    /// Its command line, secrets redacted.
    pub command_line: Option<String>,
    /// Where its log is.
    pub run_directory: Option<PathBuf>,
    nonce: u64,
}

/// This user's live areas in the places where they are put; RANKSCOPE_LIVE_DIR names another, as for recording.
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
            // A process that was killed before it could say when it started is gone if its number is.
            is_running: process::start_time(&pid.to_string())
                .is_some_and(|found| start_time.is_none_or(|start| *start == found)),
            command_line: properties.remove("command_line"),
            run_directory: properties.remove("env.RANKSCOPE_DIR").map(PathBuf::from),
            nonce: u64_at(header::NONCE),
            path,
        })
    }

    /// What to do about it.
    pub fn advice(&self) -> String {
        match (&self.run_directory, self.log()) {
            _ if self.is_running => "nothing to do: it is recording".to_owned(),
            (Some(directory), Some(_)) => {
                format!(
                    "not collected yet: rankscope merge {}, or rankscope doctor --clean",
                    directory.display()
                )
            }
            _ => "its log is gone: rankscope doctor --clean removes it".to_owned(),
        }
    }

    /// Collects or removes it, if its process is gone; says what was done.
    pub fn clean(&self) -> String {
        if self.is_running {
            return self.advice();
        }
        match self.log().map(|log| (collect(&log), log)) {
            Some((Ok(Collected::Completed), log)) => return format!("collected into {}", log.display()),
            Some((Err(error), _)) => return format!("left where it is: {error}"),
            Some((Ok(Collected::StillRunning), _)) => return "left where it is: its process runs".to_owned(),
            // A closed log does not need it, and without a log there is nothing to bring it into.
            Some((Ok(Collected::Nothing | Collected::Missing), _)) | None => {}
        }
        match fs::remove_file(&self.path) {
            Ok(()) => "removed".to_owned(),
            Err(error) => format!("cannot be removed: {error}"),
        }
    }

    /// The log that it belongs to.
    fn log(&self) -> Option<PathBuf> {
        let ending = format!("-{:016x}", self.nonce);
        let directory: &Path = self.run_directory.as_deref()?;
        run_directory::logs(directory).ok()?.into_iter().find(|log| {
            log.file_stem()
                .is_some_and(|stem| stem.to_string_lossy().ends_with(&ending))
        })
    }
}
