//! Shared parts of the launcher's tests: the program, a terminal and a process that records.
#![allow(dead_code, reason = "each test program uses its part")]

use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{Options, Recorder};
use rankscope_ranklog::{clock, place};
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// Returns the command `rankscope` with a harmless library in place of the preloaded one: the tests are about the
/// launcher.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankscope"));
    prepare(&mut command);
    command
}

/// Removes rankscope's variables of the tests' own environment.
pub fn prepare(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RANKSCOPE_") || name == "LD_PRELOAD" {
            command.env_remove(name);
        }
    }
    command
        .env("RANKSCOPE_LIBRARY", harmless_library())
        .env("RANKSCOPE_MIN_FREE_MIB", "0");
}

/// Returns a library that does nothing when it is loaded.
pub fn harmless_library() -> PathBuf {
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

/// Returns `rankscope run -o DIRECTORY/run`, with a private directory for live areas.
pub fn run(directory: &Path) -> Command {
    let mut command = program();
    command.env("RANKSCOPE_LIVE_DIR", directory);
    command.arg("run").arg("-o").arg(directory.join("run"));
    command
}

/// Returns a shell that runs a script in the same environment.
pub fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    prepare(&mut command);
    command.arg("-c").arg(script);
    command
}

/// Returns bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for the end of a process.
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

/// Waits until a condition holds.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A command with its own terminal.
pub struct Terminal {
    master: File,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Starts the command as the leader of a session with that terminal.
    pub fn start(mut command: Command) -> Self {
        let (master, slave) = open_terminal().expect("a terminal");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .env("TERM", "xterm");
        // SAFETY: the closure only makes async-signal-safe system calls.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                // A shell without job control ignores these signals in background processes, and a test run may be one.
                // At a real terminal they are not ignored.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
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

    /// Sends bytes as if a user had typed them.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).expect("typed");
    }

    /// Reads until the words appear, after all words that were expected before.
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
        // SAFETY: the pointer is to one valid entry, as the count says.
        if unsafe { libc::poll(&raw mut ready, 1, 100) } <= 0 {
            return true;
        }
        let mut buffer = [0; 4096];
        // The last reader of a terminal gets an error when its other end is closed.
        let got = self.master.read(&mut buffer).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..got]));
        got > 0
    }

    /// Returns all output and the exit status.
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
        // SAFETY: the pointer is to one valid entry, as the count says.
        unsafe { libc::poll(&raw mut ready, 1, 50) > 0 }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens both ends of a new terminal. They are close-on-exec from the start: tests run in parallel, and a job must not
/// inherit their descriptors.
fn open_terminal() -> io::Result<(File, File)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut name = [0; 64];
    // SAFETY: the descriptor was just opened and is used by nobody else, and the buffer is passed with its length.
    let master = unsafe {
        let master = libc::posix_openpt(flags);
        if master < 0
            || libc::grantpt(master) != 0
            || libc::unlockpt(master) != 0
            || libc::ptsname_r(master, name.as_mut_ptr(), name.len()) != 0
        {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(master)
    };
    // SAFETY: the call filled in the name, which is NUL-terminated.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned();
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(name)?;
    Ok((master, slave))
}

/// Returns a command line that runs an ignored test of this program.
pub fn ourselves(test: &str) -> String {
    let program = std::env::current_exe().expect("this test has a file");
    format!(
        "{} --quiet --nocapture --ignored --exact {test}",
        program.display()
    )
}

/// Writes the name of each signal, as a handler may, and exits with 7 after a line of input.
pub fn report_signals() {
    extern "C" fn report_signal(signal: i32) {
        let name: &[u8] = match signal {
            libc::SIGTERM => b"term\n",
            libc::SIGHUP => b"hup\n",
            libc::SIGINT => b"int\n",
            libc::SIGUSR1 => b"usr1\n",
            libc::SIGUSR2 => b"usr2\n",
            _ => b"another\n",
        };
        // SAFETY: write is async-signal-safe, and the bytes are valid.
        unsafe { libc::write(1, name.as_ptr().cast(), name.len()) };
    }
    for signal in [
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        // SAFETY: the handler only makes async-signal-safe calls.
        unsafe { libc::signal(signal, report_signal as *const () as libc::sighandler_t) };
    }
    println!("\nready");
    let mut line = String::new();
    // Interrupted reads are restarted automatically.
    let got = io::stdin().read_line(&mut line).expect("readable");
    println!("end");
    std::process::exit(if got > 0 { 7 } else { 8 });
}

/// Returns a command line that records like a preloaded process, `forever` or `briefly`.
pub fn recorder(how: &str) -> String {
    format!("RECORD={how} {} >/dev/null", ourselves("record_as_a_job_would"))
}

/// Records a few calls into RANKSCOPE_DIR. Then ends, or waits until it is killed.
pub fn record() {
    static RECORDER: Recorder = Recorder::new();
    let Some(directory) = std::env::var_os("RANKSCOPE_DIR").map(PathBuf::from) else {
        return;
    };
    let live_dir = std::env::var_os("RANKSCOPE_LIVE_DIR").map(PathBuf::from);
    let options = Options {
        live_dir,
        // The tests must not depend on the free space of this machine's disk.
        min_free_bytes: Some(0),
        ..Options::new(directory.clone())
    };
    thread::spawn(move || RECORDER.run(&options, |_| {}, |_| 0, || {}));
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

/// Counts the logs of a run that are complete, with all recorded calls.
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
