//! The real NCCL on a machine without a GPU (`tests/host-nccl`).
//!
//! NCCL's host code is real. Its device side and CUDA are stand-ins. They report the truth about each work item.

pub mod calls;
mod run;
mod works;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::artefacts::root;
use crate::job::Job;
use crate::nccl::series;
use crate::python::Python;

pub use run::{Launch, Run};

/// Returns true for a case that leaves a communicator or a process unusable, or does not end. It runs alone.
pub fn is_fatal(case: &str) -> bool {
    ["abort", "die", "hang"].contains(&case) || case.starts_with("stuck")
}

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

    /// Returns true if its communicators have names.
    pub fn has_names(&self) -> bool {
        series(&self.version) >= (2, 27)
    }

    /// Returns true if NCCL reports times and traffic of broadcasts.
    pub fn times_broadcasts(&self) -> bool {
        series(&self.version) < (2, 29)
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

    /// Makes ranks like [`HostNccl::job`] on several hosts, with this number of ranks each.
    pub fn job_on_hosts<'a>(
        &self,
        ranks: usize,
        per_host: usize,
        cases: impl IntoIterator<Item = &'a str>,
    ) -> Job {
        // The arguments are the program, the rank, and those of the program.
        let host = format!("host=$(($2 / {per_host}))");
        let script = format!("{host}; export NCCL_HOSTID=host$host HOST_NCCL_NODE=$host; exec \"$@\"");
        self.job(ranks, cases).under(&["sh", "-c", &script, "sh"])
    }
}

/// Makes NCCL use sockets and its proxy between all ranks.
pub fn over_sockets(job: Job) -> Job {
    job.env("NCCL_P2P_DISABLE", "1").env("NCCL_SHM_DISABLE", "1")
}
