//! A scheduler and executors as processes of this machine.

use rankscope_analysis::MergeOptions;
use rankscope_analysis::merge::unit_runner::UnitRunner;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_rankscope-cluster");

/// A process that is killed at the end of the test.
pub struct Process {
    child: Child,
    /// Lines of its log.
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts the program and waits for the line with which it reports that it works. Returns the line, too.
    pub fn start(arguments: &[String]) -> (Self, String) {
        let mut child = Command::new(PROGRAM)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        // The rest must not block the process.
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = log.clone();
        std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.for_each(|line| kept.lock().expect("no panic").push(line));
        });
        (Self { child, lines: log }, line)
    }

    /// Kills the process without a chance to say so.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to stop, and returns true if it ends with success.
    pub fn stop(mut self) -> bool {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status();
        signalled.expect("kill").success() && self.child.wait().expect("an end").success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler with a token.
pub struct Cluster {
    pub folder: TempDir,
    /// Its address.
    pub address: String,
    /// Options with the token and certificates of clients and executors.
    pub access: Vec<String>,
    /// The scheduler, until a test takes it.
    pub scheduler: Option<Process>,
}

impl Cluster {
    /// Starts a scheduler. `tls` are the options with certificates.
    pub fn start(tls: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        fs::write(&token, "a token of enough characters\n").expect("a token");
        let mut access = vec!["--token-file".to_owned(), token.display().to_string()];
        access.extend_from_slice(tls);
        let mut arguments: Vec<String> = ["scheduler", "--listen", "127.0.0.1:0", "--executor-timeout", "10"]
            .map(str::to_owned)
            .to_vec();
        arguments.extend_from_slice(&access);
        let (scheduler, line) = Process::start(&arguments);
        let address = line.rsplit(' ').next().expect("an address");
        // Certificates have names, not numbers.
        let address = address.replace("127.0.0.1", "localhost");
        Self {
            folder,
            address,
            access,
            scheduler: Some(scheduler),
        }
    }

    /// Returns the number of lines in the scheduler's log that contain a text.
    pub fn scheduler_said(&self, text: &str) -> usize {
        let Some(scheduler) = &self.scheduler else {
            return 0;
        };
        let lines = scheduler.lines.lock().expect("no panic");
        lines.iter().filter(|line| line.contains(text)).count()
    }

    /// Starts an executor with one thread.
    pub fn executor(&self, more: &[&str]) -> (Process, String) {
        let mut arguments: Vec<String> = ["executor", &self.address, "--threads", "1"]
            .map(str::to_owned)
            .to_vec();
        arguments.extend_from_slice(&self.access);
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        Process::start(&arguments)
    }

    /// Returns a runner for merges.
    pub fn runner(&self) -> Submit {
        Submit {
            scheduler: self.address.clone(),
            access: self.access.clone(),
        }
    }
}

/// Runs units with the program, as `rankscope merge --cluster` does.
#[derive(Debug)]
pub struct Submit {
    pub scheduler: String,
    pub access: Vec<String>,
}

impl UnitRunner for Submit {
    fn run(&self, directory: &Path, units: Range<u32>, _: &mut dyn FnMut()) -> Result<(), String> {
        let mut child = Command::new(PROGRAM)
            .args(["submit", &self.scheduler])
            .arg(directory)
            .args([units.start.to_string(), units.end.to_string()])
            .args(&self.access)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut text = String::new();
        // The process ends with its standard input, which `wait` would close.
        let input = child.stdin.take();
        let errors = child.stderr.as_mut().expect("a pipe");
        errors.read_to_string(&mut text).expect("text");
        let status = child.wait().expect("an end");
        drop(input);
        if status.success() { Ok(()) } else { Err(text) }
    }
}

/// Returns the options of a merge.
pub fn options(run: &Path, output: &Path) -> MergeOptions {
    MergeOptions::new(vec![run.to_path_buf()], output.to_path_buf())
}
