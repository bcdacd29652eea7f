//! What the tests of the launcher are made of: the program, a terminal, a process that records.

use rankscope_formats::ranklog::reader::{Ending, RankLog};
use rankscope_formats::ranklog::record::{Record, RecordKind};
use rankscope_formats::ranklog::recorder::{Options, Recorder};
use rankscope_formats::ranklog::{clock, place};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// `rankscope`, with any library that does no harm in the place of ours: what is tested here is the launcher.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankscope"));
    prepare(&mut command);
    command
}

/// Takes away what the tests' own environment says about rankscope.
pub fn prepare(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RANKSCOPE_") || name == "LD_PRELOAD" {
            command.env_remove(name);
        }
    }
    command.env("RANKSCOPE_LIBRARY", harmless_library());
}

fn harmless_library() -> PathBuf {
    let places = [
        "/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/usr/lib",
    ];
    let library = places
        .iter()
        .map(|place| Path::new(place).join("libutil.so.1"))
        .find(|path| path.is_file());
    library.expect("glibc's libutil.so.1")
}

/// `rankscope run -o DIRECTORY/run`.
pub fn run(directory: &Path) -> Command {
    let mut command = program();
    command.arg("run").arg("-o").arg(directory.join("run"));
    command
}

/// A shell that runs a script, in the same environment.
pub fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    prepare(&mut command);
    command.arg("-c").arg(script);
    command
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a process's end.
pub fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if Instant::now() >= deadline {
            child.kill().expect("killed");
            panic!("not ended after {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A command in a terminal of its own.
pub struct Terminal {
    master: File,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Starts it as the leader of a session with that terminal.
    pub fn start(mut command: Command) -> Self {
        let (mut master, mut slave) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: two valid places for descriptors; the rest may be null.
        let opened =
            unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
        assert_eq!(opened, 0, "no terminal");
        // SAFETY: both descriptors were made just now and are nobody else's.
        let (master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        for file in [&master, &slave] {
            // SAFETY: an open descriptor.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .env("TERM", "xterm");
        // SAFETY: system calls only.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            })
        };
        let child = command.spawn().expect("started");
        Self {
            master,
            child,
            seen: String::new(),
        }
    }

    /// As if typed.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).expect("typed");
    }

    /// Reads until the words appear after those that were expected before.
    pub fn expect(&mut self, words: &str) {
        let deadline = Instant::now() + LIMIT;
        let from = self.seen.len();
        while !self.seen[from..].contains(words) {
            assert!(Instant::now() < deadline, "no '{words}' in:\n{}", self.seen);
            if !self.read_some() {
                assert!(
                    self.seen[from..].contains(words),
                    "no '{words}' in:\n{}",
                    self.seen
                );
            }
        }
    }

    fn read_some(&mut self) -> bool {
        let mut ready = libc::pollfd {
            fd: self.master.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&raw mut ready, 1, 100) } <= 0 {
            return true;
        }
        let mut buffer = [0; 4096];
        // The last reader of a terminal gets an error when its other side is gone.
        let got = self.master.read(&mut buffer).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..got]));
        got > 0
    }

    /// Everything it said, and how it ended.
    pub fn finish(mut self) -> (String, ExitStatus) {
        let deadline = Instant::now() + LIMIT;
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "not ended:\n{}", self.seen);
            self.read_some();
        }
        while self.read_some() && Instant::now() < deadline && self.has_more() {}
        (std::mem::take(&mut self.seen), self.child.wait().expect("reaped"))
    }

    fn has_more(&self) -> bool {
        let mut ready = libc::pollfd {
            fd: self.master.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut ready, 1, 50) > 0 }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command line that records as a preloaded process would, `forever` or `briefly`.
pub fn recorder(how: &str) -> String {
    let program = std::env::current_exe().expect("this test has a file");
    format!(
        "RECORD={how} {} --quiet --ignored --exact record_as_a_job_would >/dev/null",
        program.display()
    )
}

/// Records a few calls into RANKSCOPE_DIR; then ends, or waits to be killed.
pub fn record() {
    static RECORDER: Recorder = Recorder::new();
    let Some(directory) = std::env::var_os("RANKSCOPE_DIR").map(PathBuf::from) else {
        return;
    };
    let options = Options {
        live_dir: place::shared_memory_directory().ok(),
        ..Options::new(directory.clone())
    };
    thread::spawn(move || RECORDER.run(&options, |_| {}));
    RECORDER.wait_until_settled(Duration::from_secs(10));
    let lanes = RECORDER.lanes().expect("recording");
    let lane = lanes
        .acquire(1, *b"recorder\0\0\0\0\0\0\0\0", clock::ticks())
        .expect("a lane");
    for _ in 0..100 {
        let mut record = Record::from_words([0; 8]);
        record.kind = RecordKind::Call as u8;
        record.enter_ticks = clock::ticks();
        record.leave_ticks = clock::ticks();
        lane.commit(lanes, &record);
    }
    fs::write(directory.join("ready"), "").expect("written");
    if std::env::var_os("RECORD").is_some_and(|how| how == "forever") {
        thread::sleep(Duration::from_secs(60));
    }
    RECORDER.finish(Duration::from_secs(5));
}

/// Logs of a run that are whole, with all that was recorded.
pub fn closed_logs(run_dir: &Path) -> usize {
    let entries = fs::read_dir(run_dir).expect("a run directory");
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == place::SEGMENT_EXTENSION)
        })
        .map(|path| RankLog::open(&path).expect("a log"))
        .filter(|log| log.ending == Ending::Closed && log.all_records().0.len() == 100)
        .count()
}
