//! Libraries in the processes of a job that communicate where no preload sees it. They are the reason if nothing is
//! recorded.
//!
//! Which libraries a process loads is known only while it runs. So a thread looks at the processes of the job until one
//! of them records.

use super::run_directory;
use rankscope_hang::process::descendants;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time to the first look. It doubles after each look.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Parts of the paths of libraries, and the reason why their communication is not recorded.
const UNRECORDED: [(&str, &str); 4] = [
    (
        "/jaxlib/",
        "loaded jaxlib, whose Gloo is linked statically and hidden, so no preload sees its collectives on CPUs",
    ),
    (
        "/horovod/",
        "loaded Horovod, whose Gloo is linked statically and hidden, so no preload sees its collectives on CPUs",
    ),
    (
        "/libmpi.so",
        "loaded MPI, whose calls are not recorded, only those of NCCL and Gloo",
    ),
    (
        "/libccl.so",
        "loaded oneCCL, whose calls are not recorded, only those of NCCL and Gloo",
    ),
];

/// A search that runs beside the job.
pub struct Search {
    stop: Sender<()>,
    thread: JoinHandle<BTreeSet<&'static str>>,
}

impl Search {
    /// Starts to look at a process and its descendants. `None` if no thread can be started.
    pub fn start(pid: i32, directory: &Path, earlier_logs: usize) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let directory: PathBuf = directory.to_owned();
        let look = move || {
            let mut found = BTreeSet::new();
            let mut pause = FIRST_PAUSE;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = (pause * 2).min(LONGEST_PAUSE);
                if run_directory::logs(&directory).is_ok_and(|logs| logs.len() > earlier_logs) {
                    break;
                }
                let pid = pid.to_string();
                found.extend(
                    descendants(&pid)
                        .into_iter()
                        .chain([pid])
                        .flat_map(|pid| reasons(&pid)),
                );
            }
            found
        };
        let thread = thread::Builder::new()
            .name("libraries".to_owned())
            .spawn(look)
            .ok()?;
        Some(Self { stop, thread })
    }

    /// Ends the search. Returns the reasons that were found.
    pub fn finish(self) -> Vec<&'static str> {
        drop(self.stop);
        self.thread.join().unwrap_or_default().into_iter().collect()
    }
}

/// Returns the reasons of one process, which may have ended.
fn reasons(pid: &str) -> Vec<&'static str> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let is_loaded = |part: &str| {
        maps.lines()
            .any(|line| line.contains(part) && line.contains(".so"))
    };
    UNRECORDED
        .into_iter()
        .filter(|(part, _)| is_loaded(part))
        .map(|(_, reason)| reason)
        .collect()
}
