//! The real NCCL on a machine without a GPU (`tests/host-nccl`).
//!
//! NCCL's host code is real. Its device side and CUDA are stand-ins. They report the truth about each work item.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::artefacts::root;
use crate::job::Job;
use crate::nccl::series;
use crate::python::Python;

/// Cases that leave a communicator or a process unusable. They run alone.
pub const FATAL: [&str; 3] = ["abort", "die", "hang"];

/// A version of NCCL that was built for this machine.
#[derive(Debug, Clone)]
pub struct HostNccl {
    /// Version, such as `2.28.9`.
    pub version: String,
    /// Directory of the libraries, and of the program `host_nccl_all`.
    pub directory: PathBuf,
}

impl HostNccl {
    /// Returns the versions that are built, oldest first. `make host-nccl` builds them where NCCL's sources are
    /// available. Their absence is no skip: the sources are not part of the project.
    pub fn all() -> &'static [HostNccl] {
        static FOUND: OnceLock<Vec<HostNccl>> = OnceLock::new();
        FOUND.get_or_init(|| {
            let directories = Self::printed_by("tests/setup/host_nccl.sh");
            directories.iter().map(|path| Self::at(path)).collect()
        })
    }

    /// Returns a Python whose PyTorch for CUDA runs on the newest version. The script reports why there is none.
    pub fn torch() -> Option<Python> {
        let path = Self::printed_by("tests/setup/host_nccl_torch.sh").pop()?;
        Some(Python { name: "wheel", path })
    }

    /// Returns the paths that a script prints, which builds nothing.
    fn printed_by(script: &str) -> Vec<PathBuf> {
        let script = root().join(script);
        let output = Command::new(&script)
            .env("HOST_NCCL_BUILD", "0")
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{} failed", script.display());
        let paths = String::from_utf8_lossy(&output.stdout);
        paths.lines().map(PathBuf::from).collect()
    }

    /// Returns the versions whose plugin interface reports device times.
    pub fn with_device_times() -> impl Iterator<Item = &'static HostNccl> {
        Self::all().iter().filter(|nccl| nccl.plugin_version() >= 4)
    }

    /// Returns the version in a directory of the cache: `VERSION-HASH`.
    fn at(directory: &Path) -> Self {
        let name = directory.file_name().map(|name| name.to_string_lossy());
        let version = name.as_deref().and_then(|name| name.split('-').next());
        Self {
            version: version.expect("a version").to_owned(),
            directory: directory.to_owned(),
        }
    }

    /// Returns the newest version of the profiler's interface that this version knows and rankscope implements, or 0.
    pub fn plugin_version(&self) -> u32 {
        match series(&self.version) {
            (2, 30..) => 6,
            (2, 28..) => 5,
            (2, 27) => 4,
            _ => 0,
        }
    }

    /// Returns true if rankscope requests no more kernel times after a captured call (ADR 0009).
    pub fn times_end_with_a_graph(&self) -> bool {
        series(&self.version) >= (2, 29)
    }

    /// Returns the names of all cases of the program.
    pub fn cases(&self) -> Vec<String> {
        let listed = Command::new(self.program())
            .env("LD_LIBRARY_PATH", &self.directory)
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    fn program(&self) -> PathBuf {
        self.directory.join("host_nccl_all")
    }

    /// Makes ranks that run these cases.
    pub fn job<'a>(&self, ranks: usize, cases: impl IntoIterator<Item = &'a str>) -> Job {
        let job = Job::program(&self.program(), ranks).env("LD_LIBRARY_PATH", &self.directory);
        cases.into_iter().fold(job, Job::arg)
    }
}

/// One item of work of a channel, as the device side executed it.
#[derive(Debug, Clone)]
pub struct Work {
    /// Process that launched it.
    pub pid: u32,
    /// Number of its kernel in the process.
    pub launch: u64,
    /// Start in `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub start_ns: i64,
    /// Start by the device's timer, in nanoseconds.
    pub timer_start: i64,
    /// End by the device's timer, in nanoseconds.
    pub timer_end: i64,
}

/// Reads what the device side reported into the directory of HOST_NCCL_TRUTH, in the order of time.
pub fn works(directory: &Path) -> Vec<Work> {
    let files = directory.read_dir().expect("the directory of the truth");
    let mut works = Vec::new();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a readable file");
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if line["kind"] == "work" {
                works.push(Work::of(&line));
            }
        }
    }
    works.sort_by_key(|work| work.start_ns);
    works
}

impl Work {
    fn of(line: &Value) -> Self {
        let number = |name: &str| line[name].as_i64().unwrap_or_else(|| panic!("no {name}: {line}"));
        Self {
            pid: number("process") as u32,
            launch: number("launch") as u64,
            start_ns: number("start_ns"),
            timer_start: number("timer_start"),
            timer_end: number("timer_end"),
        }
    }
}
