//! Processes with a time limit, alone or several at once, with and without the preload.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::artefacts;

/// Returns the default directory of live areas. On a machine without it, returns the usual temporary directory.
pub fn memory() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        Path::new("/tmp")
    }
}

/// Remains of a process that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Complete standard output.
    pub stdout: Vec<u8>,
    /// Complete standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Returns the exit status as a shell gives it: 128 + signal if the process was killed.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Returns standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns standard error as text.
    pub fn complaints(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Preloads the library into a command and all its children. Without a directory it must do nothing.
///
/// Variables about rankscope in the environment of the tests are always removed.
pub fn preload(command: &mut Command, directory: Option<&Path>) {
    clean(command);
    let mut preloaded = OsString::from(artefacts::library());
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        preloaded.push(":");
        preloaded.push(others);
    }
    command.env("LD_PRELOAD", preloaded);
    if let Some(directory) = directory {
        command.env("RANKSCOPE_DIR", directory);
    }
}

/// Removes rankscope's variables of the tests' environment, and the limit on free disk space.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RANKSCOPE_") {
            command.env_remove(name);
        }
    }
    command.env("RANKSCOPE_MIN_FREE_MIB", "0");
}

/// A process in its own process group, which is killed when the value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    shown: String,
    reaped: bool,
}

impl Process {
    /// Starts the process. Its output is read from now on, and its input is empty.
    pub fn start(mut command: Command) -> Process {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // A test run in the background of a shell inherits that Ctrl-C is ignored. The tests send it.
        // SAFETY: between fork and exec only signal is called, which is allowed there.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let shown = format!("{command:?}");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let stdout = child.stdout.take().map(drain);
        let stderr = child.stderr.take().map(drain);
        Process {
            child,
            stdout,
            stderr,
            shown,
            reaped: false,
        }
    }

    /// Returns the process id, which is also the group's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: i32) {
        self.send(self.child.id() as i32, signal);
    }

    /// Sends a signal to the process and its children.
    pub fn signal_group(&self, signal: i32) {
        self.send(-(self.child.id() as i32), signal);
    }

    fn send(&self, target: i32, signal: i32) {
        if !self.reaped {
            // SAFETY: kill accesses no memory. The process is not reaped, so the id still belongs to it.
            unsafe { libc::kill(target, signal) };
        }
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// If it takes longer than the limit. The whole group is then killed, and the message has its output.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(pause),
                Ok(None) => {
                    self.signal_group(libc::SIGKILL);
                    let ended = self.collect(None);
                    panic!(
                        "not finished after {limit:?}: {}\n--- stdout\n{}\n--- stderr\n{}",
                        self.shown,
                        ended.text(),
                        ended.complaints()
                    );
                }
                Err(error) => panic!("{}: {error}", self.shown),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        self.collect(Some(status))
    }

    fn collect(&mut self, status: Option<ExitStatus>) -> Ended {
        let status = match status {
            Some(status) => status,
            None => self
                .child
                .wait()
                .unwrap_or_else(|error| panic!("{}: {error}", self.shown)),
        };
        self.reaped = true;
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader
                .map(|reader| reader.join().unwrap_or_default())
                .unwrap_or_default()
        };
        Ended {
            status,
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal_group(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Runs one command to its end.
pub fn run(command: Command, limit: Duration) -> Ended {
    Process::start(command).wait(limit)
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output that was read before an error is still useful.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}
