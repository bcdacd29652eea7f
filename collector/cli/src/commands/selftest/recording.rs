//! Runs a program of a part, recorded, and merges it.

use crate::commands::merge;
use crate::launch::record::LaunchRecord;
use crate::launch::{environment, live, run_directory};
use anyhow::{Context, Result, bail};
use rankscope_formats::session::Session;
use rankscope_ranklog::place;
use std::env;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// File with the output of the program.
const OUTPUT: &str = "output.txt";
/// Time in which killed processes end.
const UNTIL_DEAD: Duration = Duration::from_millis(200);
/// Interval at which the program is checked.
const INTERVAL: Duration = Duration::from_millis(10);

/// Process group of the running program, and its run directory.
static RUNNING: Mutex<Option<(i32, PathBuf)>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the running program, if any, and takes its live areas. For an interrupt: the selftest ends afterwards.
pub fn abandon() {
    if let Some((group, directory)) = lock(&RUNNING).take() {
        kill(group);
        // Its memory is collected only after its end.
        thread::sleep(UNTIL_DEAD);
        let _ = live::collect_all(&directory, &[]);
    }
}

fn kill(group: i32) {
    // SAFETY: kill accesses no memory. The program leads this group.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// A program of a part.
pub struct Run {
    command: Command,
    directory: PathBuf,
    is_recorded: bool,
    launch: LaunchRecord,
}

impl Run {
    /// Prepares this program with these arguments. With a library, it is recorded into the directory.
    pub fn new(arguments: &[&str], directory: &Path, library: Option<&Path>) -> Result<Self> {
        place::make_run_directory(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let mut command = Command::new(env::current_exe()?);
        command
            .args(arguments)
            .stdin(Stdio::null())
            // A time limit ends the program with all that it started.
            .process_group(0);
        // The user's settings for recordings, and another tool's injection, are not under test. A full disk is not, either.
        for (name, _) in env::vars_os() {
            let is_ours = name.to_string_lossy().starts_with("RANKSCOPE_");
            if is_ours || name == "CUDA_INJECTION64_PATH" {
                command.env_remove(&name);
            }
        }
        command.env("RANKSCOPE_MIN_FREE_MIB", "0");
        // SAFETY: the closure makes one system call.
        unsafe {
            command.pre_exec(|| {
                // No program outlives the selftest.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let launch = LaunchRecord::new(&["rankscope".to_owned(), "selftest".to_owned()]);
        if let Some(library) = library {
            environment::load(&mut command, library);
            environment::record_into(&mut command, directory, &launch.launch);
        }
        Ok(Self {
            command,
            directory: directory.to_path_buf(),
            is_recorded: library.is_some(),
            launch,
        })
    }

    /// Sets a variable of the program.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts the program.
    pub fn start(mut self) -> Result<Started> {
        let output = File::create(self.directory.join(OUTPUT))?;
        self.command.stdout(output.try_clone()?).stderr(output);
        if self.is_recorded {
            self.launch.write(&self.directory)?;
        }
        let child = self
            .command
            .spawn()
            .context("cannot start the program of this part")?;
        *lock(&RUNNING) = Some((child.id().cast_signed(), self.directory.clone()));
        Ok(Started {
            child,
            directory: self.directory,
            is_recorded: self.is_recorded,
            launch: self.launch,
        })
    }

    /// Runs the program to its end.
    pub fn finish(self, limit: Duration) -> Result<Finished> {
        self.start()?.wait(limit)
    }
}

/// A running program.
pub struct Started {
    child: Child,
    directory: PathBuf,
    is_recorded: bool,
    launch: LaunchRecord,
}

impl Started {
    /// Kills the process and its whole group.
    pub fn kill_all(&self) {
        kill(self.child.id().cast_signed());
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Waits for the end, and merges the recording.
    pub fn wait(mut self, limit: Duration) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("the program did not end within {} s", limit.as_secs());
            }
            thread::sleep(INTERVAL);
        };
        let mut session = None;
        if self.is_recorded {
            self.launch
                .end(crate::launch::ending::Ending::from_wait_status(status.into_raw()));
            self.launch.write(&self.directory)?;
            live::collect_all(&self.directory, &[])?;
            if !run_directory::logs(&self.directory)?.is_empty() {
                let directories = [self.directory.clone()];
                session = Some(merge::merge_without_trace(&directories, &self.directory)?.session);
            }
        }
        Ok(Finished {
            status,
            session,
            directory: self.directory.clone(),
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill_all();
            let _ = self.child.wait();
            let _ = live::collect_all(&self.directory, &[]);
        }
        lock(&RUNNING).take();
    }
}

/// A program that has ended.
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Merged session; `None` if nothing was recorded.
    pub session: Option<Session>,
    /// Run directory.
    pub directory: PathBuf,
}

impl Finished {
    /// Returns the session, or an error if the program failed or nothing was recorded.
    pub fn expect_session(&self) -> Result<&Session> {
        self.expect_success()?;
        self.session.as_ref().context("nothing was recorded")
    }

    /// Returns an error with the last line of the output, unless the program succeeded.
    pub fn expect_success(&self) -> Result<()> {
        if self.status.success() {
            return Ok(());
        }
        bail!("the program failed ({}): {}", self.status, self.last_line());
    }

    /// Returns the whole output.
    pub fn output(&self) -> String {
        fs::read(self.directory.join(OUTPUT)).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    fn last_line(&self) -> String {
        let output = self.output();
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or("it printed nothing").trim().to_owned()
    }
}
