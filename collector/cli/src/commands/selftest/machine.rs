//! What this machine has for the selftest.

use anyhow::Result;
use rankscope_doctor::facts::libraries::{Kind, Libraries};
use rankscope_doctor::facts::python::Python;
use rankscope_doctor::surroundings::Surroundings;
use rankscope_workloads::cuda;
use schemars::JsonSchema;
use serde::Serialize;
use std::env;
use std::path::{Path, PathBuf};

/// Devices and libraries.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Machine {
    /// Number of GPUs that CUDA sees.
    pub gpus: u32,
    /// Model of the first one.
    pub gpu_model: Option<String>,
    /// NCCL.
    pub nccl: Option<FoundLibrary>,
    /// Gloo.
    pub gloo: Option<FoundLibrary>,
    /// CUPTI.
    pub cupti: Option<FoundLibrary>,
    /// Processors.
    pub processors: usize,
}

/// Library that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FoundLibrary {
    /// File.
    pub path: PathBuf,
    /// Version, if it is known.
    pub version: Option<String>,
}

impl Machine {
    /// Searches the machine, as `rankscope bench` and `rankscope doctor` do.
    pub fn find(nccl: Option<&Path>) -> Self {
        let system = Surroundings::system();
        let python = Python::find(&system, "python3");
        let libraries = Libraries::find(&system, python.as_ref(), None);
        let of = |kind: Kind| {
            libraries.callable(kind).map(|library| FoundLibrary {
                path: library.path.clone(),
                version: library.described_version(),
            })
        };
        let gpus = cuda::device_count();
        let model = || -> Result<String> { Ok(cuda::Device::open(0)?.context().name()?) };
        Self {
            gpus,
            gpu_model: (gpus > 0).then(|| model().ok()).flatten(),
            nccl: match nccl {
                Some(path) => Some(FoundLibrary {
                    path: path.to_path_buf(),
                    version: None,
                }),
                None => of(Kind::Nccl),
            },
            gloo: of(Kind::Gloo),
            // As the recorder takes it.
            cupti: match env::var_os("RANKSCOPE_CUPTI").filter(|named| !named.is_empty()) {
                Some(named) => Some(FoundLibrary {
                    path: named.into(),
                    version: None,
                }),
                None => of(Kind::Cupti),
            },
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Returns a line about each.
    pub fn text(&self) -> String {
        let library = |name: &str, found: &Option<FoundLibrary>| match found {
            Some(found) => format!(
                "{name} {} ({})",
                found.version.as_deref().unwrap_or("of unknown version"),
                found.path.display()
            ),
            None => format!("no {name} was found"),
        };
        let gpus = match (self.gpus, &self.gpu_model) {
            (0, _) => "no GPU here: the parts that need one do not run".to_owned(),
            (count, Some(model)) => format!("{count} × {model}"),
            (count, None) => format!("{count} GPUs"),
        };
        format!(
            "{gpus}\n{}\n{}\n{}\n",
            library("NCCL", &self.nccl),
            library("CUPTI", &self.cupti),
            library("Gloo", &self.gloo)
        )
    }
}
