//! Choice of the library.

use super::options::{BackendName, Bench};
use anyhow::{Result, bail};
use rankscope_doctor::facts::libraries::{Kind, Libraries};
use rankscope_doctor::facts::python::Python;
use rankscope_doctor::surroundings::Surroundings;
use rankscope_formats::bench::BenchLibrary;
use rankscope_workloads::cuda;
use std::path::Path;

/// Returns the library to measure.
pub fn choose(bench: &Bench) -> Result<BenchLibrary> {
    let devices = cuda::device_count();
    let backend = match bench.backend {
        BackendName::Auto if is_nccl(bench.library.as_deref()) => BackendName::Nccl,
        BackendName::Auto if bench.library.is_some() => BackendName::Gloo,
        BackendName::Auto if devices > 0 => BackendName::Nccl,
        BackendName::Auto => BackendName::Gloo,
        named => named,
    };
    if backend == BackendName::Nccl && devices == 0 {
        let reason = cuda::why_no_device();
        bail!("NCCL needs a GPU, and there is none here: {reason}; measure Gloo: --backend gloo");
    }
    if let Some(path) = &bench.library {
        // A plain name is searched by the loader.
        if path.components().count() > 1 && !path.is_file() {
            bail!("{} is not a file", path.display());
        }
        return Ok(BenchLibrary {
            name: backend.name().to_owned(),
            version: bench.library_version.clone(),
            path: path.clone(),
        });
    }
    let surroundings = Surroundings::system();
    let python = Python::find(&surroundings, "python3");
    let libraries = Libraries::find(&surroundings, python.as_ref(), None);
    let kind = match backend {
        BackendName::Nccl => Kind::Nccl,
        _ => Kind::Gloo,
    };
    match libraries.callable(kind) {
        Some(library) => Ok(BenchLibrary {
            name: backend.name().to_owned(),
            version: library.described_version(),
            path: library.path.clone(),
        }),
        None if backend == BackendName::Nccl => {
            bail!(
                "NCCL was not found (libnccl.so.2): name its file with --library, or install the package nvidia-nccl"
            )
        }
        None => bail!(
            "no library here exports Gloo: run in the environment of PyTorch, install libgloo, or name the file with \
             --library"
        ),
    }
}

/// Whether a file is NCCL, by its name.
fn is_nccl(path: Option<&Path>) -> bool {
    path.and_then(Path::file_name)
        .map(|name| name.to_string_lossy())
        .is_some_and(|name| name.contains("nccl"))
}
