//! Communication libraries that the command would load: their files, in the order of the loader's search, and their
//! versions.

use super::elf::Elf;
use super::linked;
use super::loader_cache;
use super::names::{self, Names};
use super::preload;
use super::python::Python;
use super::version::Version;
use crate::surroundings::Surroundings;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Part of the name of Gloo's all-reduce, as the library exports it.
const GLOO_SYMBOL: &str = "4gloo9allreduce";

/// Kind of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Kind {
    /// PyTorch.
    PyTorch,
    /// NVIDIA's NCCL.
    #[serde(rename = "NCCL")]
    Nccl,
    /// AMD's RCCL.
    #[serde(rename = "RCCL")]
    Rccl,
    /// Gloo.
    Gloo,
    /// CUDA's profiling interface.
    #[serde(rename = "CUPTI")]
    Cupti,
    /// NVIDIA's management library, a part of the driver.
    #[serde(rename = "NVML")]
    Nvml,
    /// An MPI library.
    #[serde(rename = "MPI")]
    Mpi,
    /// NVIDIA's NVSHMEM.
    #[serde(rename = "NVSHMEM")]
    Nvshmem,
    /// The compiled part of JAX.
    #[serde(rename = "jaxlib")]
    Jax,
    /// Horovod's binding of a framework.
    Horovod,
}

impl Kind {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PyTorch => "PyTorch",
            Self::Nccl => "NCCL",
            Self::Rccl => "RCCL",
            Self::Gloo => "Gloo",
            Self::Cupti => "CUPTI",
            Self::Nvml => "NVML",
            Self::Mpi => "MPI",
            Self::Nvshmem => "NVSHMEM",
            Self::Jax => "jaxlib",
            Self::Horovod => "Horovod",
        }
    }
}

/// Kinds that are files of their own, and the start of their names.
const FILES: [(Kind, &str); 7] = [
    (Kind::Nccl, "libnccl.so"),
    (Kind::Rccl, "librccl.so"),
    (Kind::Gloo, "libgloo.so"),
    (Kind::Cupti, "libcupti.so"),
    (Kind::Nvml, "libnvidia-ml.so"),
    (Kind::Mpi, "libmpi.so"),
    (Kind::Nvshmem, "libnvshmem_host.so"),
];
/// Start of the names of Python distributions that contain such files.
const DISTRIBUTIONS: [(Kind, &str); 3] = [
    (Kind::Nccl, "nvidia_nccl_cu"),
    (Kind::Cupti, "nvidia_cuda_cupti"),
    (Kind::Nvshmem, "nvidia_nvshmem_cu"),
];

/// Library that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Library {
    /// Kind of the library.
    pub kind: Kind,
    /// Path of the file.
    pub path: PathBuf,
    /// Version, if the file or its package names it.
    pub version: Option<String>,
    /// Where it was found, for example `LD_LIBRARY_PATH`.
    pub found_in: String,
    /// Whether it is a part of another file that does not export its functions, so that hooks cannot see its calls.
    pub is_hidden: bool,
}

impl Library {
    /// Returns the version. Gloo has none; then the place where it was found, such as `PyTorch 2.15.0`.
    pub fn described_version(&self) -> Option<String> {
        let place = || (self.kind == Kind::Gloo).then(|| self.found_in.clone());
        self.version.clone().or_else(place)
    }

    /// Returns the numbers of the version, if it is known.
    pub fn numbers(&self) -> Option<Version> {
        Version::parse(self.version.as_deref()?)
    }
}

/// Libraries, and the names of variables in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// All that were found. The first of each kind is the one that would be loaded.
    pub found: Vec<Library>,
    /// Names of variables in the libraries that would be loaded.
    pub variables: BTreeSet<String>,
    /// Whether PyTorch's part for GPUs was found, which reads the variables `TORCH_NCCL_*`.
    pub has_torch_for_gpus: bool,
}

/// Directory of libraries and its name for messages.
struct Place {
    directory: PathBuf,
    found_in: &'static str,
}

impl Libraries {
    /// Searches the libraries that a program would load: a Python program, a native one, or any if there is neither.
    pub fn find(surroundings: &Surroundings, python: Option<&Python>, native: Option<&Path>) -> Self {
        let mut out = Self::default();
        let packages = python
            .map(|python| python.packages.as_slice())
            .unwrap_or_default();
        let torch = packages
            .iter()
            .map(|directory| directory.join("torch"))
            .find(|torch| surroundings.exists(torch.join("version.py")));
        if let Some(torch) = &torch {
            out.add_torch(surroundings, torch);
        }
        for place in places(surroundings, packages, torch.as_deref(), native) {
            out.add_files(surroundings, &place, packages);
        }
        let cached = cached(surroundings);
        for path in cached.values() {
            out.add_file(surroundings, path, "the loader's cache", packages);
        }
        if let Some(native) = native {
            out.keep_linked(surroundings, native, &cached);
            out.add_static(surroundings, native, "the program");
        }
        for directory in packages {
            out.add_jax(surroundings, &directory.join("jaxlib"));
            out.add_horovod(surroundings, &directory.join("horovod"));
        }
        out.found.sort_by_key(|library| library.kind);
        out
    }

    /// Returns the first library of a kind whose functions can be found.
    pub fn callable(&self, kind: Kind) -> Option<&Library> {
        let mut all = self.found.iter();
        all.find(|library| library.kind == kind && !library.is_hidden)
    }

    /// Returns the library of a kind that would be loaded.
    pub fn first(&self, kind: Kind) -> Option<&Library> {
        self.found.iter().find(|library| library.kind == kind)
    }

    /// Keeps the libraries that a native program is linked with, and parts of CUDA that others load for it.
    fn keep_linked(
        &mut self,
        surroundings: &Surroundings,
        native: &Path,
        cached: &BTreeMap<String, PathBuf>,
    ) {
        let usual: Vec<PathBuf> = places(surroundings, &[], None, Some(native))
            .into_iter()
            .map(|place| place.directory)
            .collect();
        let linked = linked::names(surroundings, native, &usual, cached);
        let kinds: BTreeSet<Kind> = linked.iter().filter_map(|name| kind_of(name)).collect();
        self.found.retain(|library| {
            kinds.contains(&library.kind)
                || matches!(library.kind, Kind::Cupti | Kind::Nvml)
                || library.found_in == "LD_PRELOAD"
        });
    }

    fn add_torch(&mut self, surroundings: &Surroundings, torch: &Path) {
        let version = surroundings
            .read(torch.join("version.py"))
            .and_then(|text| version_in(&text));
        let library = torch.join("lib/libtorch_cpu.so");
        self.found.push(Library {
            kind: Kind::PyTorch,
            path: torch.to_path_buf(),
            version: version.clone(),
            found_in: "Python packages".to_owned(),
            is_hidden: false,
        });
        for name in ["libtorch_cuda.so", "libtorch_hip.so"] {
            let path = torch.join("lib").join(name);
            self.has_torch_for_gpus |= surroundings.exists(&path);
            self.add_static(surroundings, &path, "PyTorch");
        }
        let Some((elf, names)) = read(surroundings, &library) else {
            return;
        };
        self.variables.extend(names.variables);
        if names.has_gloo {
            self.found.push(Library {
                kind: Kind::Gloo,
                is_hidden: !exports_gloo(surroundings, &library, &elf),
                path: library,
                version: None,
                found_in: format!("PyTorch {}", version.unwrap_or_default())
                    .trim_end()
                    .to_owned(),
            });
        }
    }

    /// Adds NCCL if it is a part of this file, and the variables that the file reads.
    fn add_static(&mut self, surroundings: &Surroundings, path: &Path, found_in: &str) {
        let Some((elf, names)) = read(surroundings, path) else {
            return;
        };
        self.variables.extend(names.variables);
        let needs_nccl = elf
            .needed
            .iter()
            .any(|name| name.contains("nccl") || name.contains("rccl"));
        if let (Some(version), false) = (names.nccl_version, needs_nccl) {
            self.found.push(Library {
                kind: Kind::Nccl,
                path: path.to_path_buf(),
                version: Some(version),
                found_in: found_in.to_owned(),
                is_hidden: true,
            });
        }
    }

    fn add_jax(&mut self, surroundings: &Surroundings, directory: &Path) {
        let parts = ["libjax_common.so", "xla_extension.so", "_jax.so"].map(|name| directory.join(name));
        self.add_package(surroundings, Kind::Jax, directory, "version.py", &parts);
    }

    fn add_horovod(&mut self, surroundings: &Surroundings, directory: &Path) {
        // The name of the binding contains the version of Python.
        let is_binding = |name: &String| name.starts_with("mpi_lib") && name.ends_with(".so");
        let parts: Vec<PathBuf> = ["torch", "tensorflow", "mxnet"]
            .iter()
            .flat_map(|framework| {
                let directory = directory.join(framework);
                let names = surroundings.list(&directory);
                let bindings = names.into_iter().filter(is_binding);
                bindings.map(move |name| directory.join(name)).collect::<Vec<_>>()
            })
            .collect();
        self.add_package(surroundings, Kind::Horovod, directory, "__init__.py", &parts);
    }

    /// Adds a Python package whose compiled `parts` may contain Gloo.
    fn add_package(
        &mut self,
        surroundings: &Surroundings,
        kind: Kind,
        directory: &Path,
        version_file: &str,
        parts: &[PathBuf],
    ) {
        let Some(text) = surroundings.read(directory.join(version_file)) else {
            return;
        };
        let hides = parts.iter().any(|path| {
            read(surroundings, path)
                .is_some_and(|(elf, names)| names.has_gloo && !exports_gloo(surroundings, path, &elf))
        });
        self.found.push(Library {
            kind,
            path: directory.to_path_buf(),
            version: version_in(&text),
            found_in: "Python packages".to_owned(),
            is_hidden: hides,
        });
    }

    fn add_files(&mut self, surroundings: &Surroundings, place: &Place, packages: &[PathBuf]) {
        for name in surroundings.list(&place.directory) {
            if kind_of(&name).is_some() {
                self.add_file(
                    surroundings,
                    &place.directory.join(name),
                    place.found_in,
                    packages,
                );
            }
        }
    }

    fn add_file(&mut self, surroundings: &Surroundings, path: &Path, found_in: &str, packages: &[PathBuf]) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(kind) = name.as_deref().and_then(kind_of) else {
            return;
        };
        let real = surroundings.resolved(path);
        let is_known = self.found.iter().any(|library| library.path == real);
        if is_known || !surroundings.place(&real).is_file() {
            return;
        }
        let is_first = self.first(kind).is_none();
        let names = match kind {
            Kind::Nccl | Kind::Rccl | Kind::Gloo => read(surroundings, &real).map(|(_, names)| names),
            _ => None,
        }
        .unwrap_or_default();
        if is_first {
            self.variables.extend(names.variables);
        }
        let version = names
            .nccl_version
            .or_else(|| distribution(surroundings, kind, &real, packages))
            .or_else(|| version_of_file(&real));
        self.found.push(Library {
            kind,
            path: real,
            version,
            found_in: found_in.to_owned(),
            is_hidden: false,
        });
    }
}

/// Reads a file's facts and the names in it.
fn read(surroundings: &Surroundings, path: &Path) -> Option<(Elf, Names)> {
    let elf = Elf::read(surroundings.open(path)?)?;
    let names = Names::read(surroundings.open(path)?, &elf.constants);
    Some((elf, names))
}

fn exports_gloo(surroundings: &Surroundings, path: &Path, elf: &Elf) -> bool {
    match (surroundings.open(path), elf.symbol_names) {
        (Some(file), Some(range)) => names::contains(file, range, GLOO_SYMBOL),
        _ => false,
    }
}

/// Returns the kind of a file by its name, such as `libnccl.so.2`.
fn kind_of(name: &str) -> Option<Kind> {
    FILES
        .iter()
        .find(|(_, stem)| {
            name.strip_prefix(stem)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .map(|(kind, _)| *kind)
}

/// Returns the directories that a program searches, in order.
fn places(
    surroundings: &Surroundings,
    packages: &[PathBuf],
    torch: Option<&Path>,
    native: Option<&Path>,
) -> Vec<Place> {
    let named = |list: Option<&str>, found_in: &'static str| -> Vec<Place> {
        list.into_iter()
            .flat_map(|list| list.split([':', ';']))
            .filter(|part| !part.is_empty())
            .map(|part| Place {
                directory: PathBuf::from(part),
                found_in,
            })
            .collect()
    };
    let by_variable = || named(surroundings.variable("LD_LIBRARY_PATH"), "LD_LIBRARY_PATH");
    let mut out = Vec::new();
    // A preloaded library comes first: its own file counts, not its directory.
    out.extend(
        preload::entries(surroundings)
            .iter()
            .map(|entry| Path::new(&entry.name))
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| kind_of(&name.to_string_lossy()).is_some())
            })
            .filter_map(Path::parent)
            .map(|directory| Place {
                directory: directory.to_path_buf(),
                found_in: "LD_PRELOAD",
            }),
    );
    let mut of_packages: Vec<Place> = torch
        .map(|torch| torch.join("lib"))
        .into_iter()
        .chain(
            packages
                .iter()
                .flat_map(|directory| wheels(surroundings, directory)),
        )
        .map(|directory| Place {
            directory,
            found_in: "Python packages",
        })
        .collect();
    // A RUNPATH is searched after LD_LIBRARY_PATH, and an RPATH before it (ld.so(8)).
    let torch_elf = torch.and_then(|torch| Elf::read(surroundings.open(torch.join("lib/libtorch_cuda.so"))?));
    let variable_is_first = torch_elf.is_some_and(|elf| !elf.runpath.is_empty());
    let native_elf = native.and_then(|path| Elf::read(surroundings.open(path)?));
    let search = |list: Vec<String>| -> Vec<Place> {
        list.iter()
            .map(|part| Place {
                directory: linked::expanded(part, native.unwrap_or(Path::new("/"))),
                found_in: "the program's search path",
            })
            .collect()
    };
    let native_elf = native_elf.unwrap_or_default();
    out.extend(search(native_elf.rpath));
    if variable_is_first {
        out.extend(by_variable());
        out.append(&mut of_packages);
    } else {
        out.append(&mut of_packages);
        out.extend(by_variable());
    }
    out.extend(search(native_elf.runpath));
    let processor = std::env::consts::ARCH;
    let usual = [
        format!("/lib/{processor}-linux-gnu"),
        format!("/usr/lib/{processor}-linux-gnu"),
        "/lib64".to_owned(),
        "/usr/lib64".to_owned(),
    ];
    out.extend(usual.into_iter().map(|directory| Place {
        directory: PathBuf::from(directory),
        found_in: "the system",
    }));
    out
}

/// Returns the directories of libraries of NVIDIA's wheels.
fn wheels(surroundings: &Surroundings, packages: &Path) -> Vec<PathBuf> {
    let folder = packages.join("nvidia");
    let names = surroundings.list(&folder);
    names.iter().map(|name| folder.join(name).join("lib")).collect()
}

/// Returns the paths in the loader's cache, by name. The first entry of a name counts.
fn cached(surroundings: &Surroundings) -> BTreeMap<String, PathBuf> {
    let bytes = surroundings.read_bytes("/etc/ld.so.cache").unwrap_or_default();
    let mut out = BTreeMap::new();
    for cached in loader_cache::parse(&bytes) {
        out.entry(cached.name)
            .or_insert_with(|| PathBuf::from(cached.path));
    }
    out
}

/// Returns the version of the Python distribution that contains the file.
fn distribution(
    surroundings: &Surroundings,
    kind: Kind,
    path: &Path,
    packages: &[PathBuf],
) -> Option<String> {
    let (_, stem) = DISTRIBUTIONS.iter().find(|(of, _)| *of == kind)?;
    let directory = packages
        .iter()
        .find(|directory| path.starts_with(surroundings.resolved(directory)))?;
    surroundings.list(directory).iter().find_map(|name| {
        let rest = name.strip_suffix(".dist-info")?.strip_prefix(stem)?;
        Some(rest.split_once('-')?.1.to_owned())
    })
}

/// Returns the version in a name such as `libcupti.so.2024.1.0`. One number is the version of the interface, not of the
/// library.
fn version_of_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    version.contains('.').then(|| version.to_owned())
}

/// Returns the version in the text of a `version.py`: the first string that is assigned to a name with `version`.
fn version_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.split(':').next()?.trim();
        if !["__version__", "_version"].contains(&name) {
            return None;
        }
        let value = value.trim().trim_matches(['\'', '"']);
        value
            .starts_with(|first: char| first.is_ascii_digit())
            .then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_no_libraries() {
        assert_eq!(kind_of("libnccl.so.2"), Some(Kind::Nccl));
        assert_eq!(kind_of("libnccl.so"), Some(Kind::Nccl));
        assert_eq!(kind_of("libnccl-net.so"), None);
        assert_eq!(kind_of("libnccl.software"), None);
        assert_eq!(kind_of("libmpi_cxx.so.40"), None);
    }

    #[test]
    fn versions_come_from_names_and_modules() {
        assert_eq!(
            version_in("from x import y\n__version__ = '2.7.1+cu126'\n").as_deref(),
            Some("2.7.1+cu126")
        );
        assert_eq!(version_in("debug = False"), None);
        let of = |name: &str| version_of_file(Path::new(name));
        assert_eq!(of("/a/libcupti.so.2024.1.0").as_deref(), Some("2024.1.0"));
        assert_eq!(of("/a/libcupti.so.12"), None);
    }
}
