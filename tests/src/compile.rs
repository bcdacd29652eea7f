//! Compiles the programs of `tests/programs/` when a test needs them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::artefacts::{root, target_directory};
use crate::python::Python;
use crate::skip;

/// Returns the folder of the programs.
pub fn programs() -> PathBuf {
    root().join("tests/programs")
}

/// Compiles a C++ program with Debian's Gloo. Skips and returns `None` if Gloo or a compiler is missing.
pub fn gloo(source: &str) -> Option<PathBuf> {
    if !has_gloo(source) {
        return None;
    }
    compile("c++", source, &["-std=c++17", "-lgloo", "-pthread"])
}

fn has_gloo(source: &str) -> bool {
    let found = Path::new("/usr/include/gloo/config.h").exists();
    if !found {
        skip(&format!("{source}: no Gloo headers (Debian: libgloo-dev)"));
    }
    found
}

/// Compiles a C++ program with Debian's Gloo, linked to a shared library that the same source makes with `LIBRARY`.
pub fn gloo_with_library(source: &str) -> Option<PathBuf> {
    if !has_gloo(source) {
        return None;
    }
    let input = programs().join(source);
    let name = input.file_stem()?.to_str()?;
    let library = format!("{name}-linked/lib{name}.so");
    let arguments = [
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-DLIBRARY",
        "-lgloo",
        "-pthread",
    ];
    let library = build("c++", &input, &library, &arguments)?;
    let library = library.to_str()?;
    let arguments = ["-std=c++17", library, "-lgloo", "-pthread"];
    build("c++", &input, &format!("{name}-linked/{name}"), &arguments)
}

/// Compiles the test double of NCCL (`tests/doubles/nccl/`) and returns the directory of its `libnccl.so.2`.
pub fn nccl_double() -> Option<PathBuf> {
    let driver = root().join("tests/doubles/nccl/cuda.cc");
    let arguments = ["-std=c++17", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"];
    build("c++", &driver, "doubles/nccl/libcuda.so.1", &arguments)?;
    nccl_library("libnccl.so.2", &[])?.parent().map(Path::to_owned)
}

/// Compiles the double's library under this name.
fn nccl_library(name: &str, more: &[&str]) -> Option<PathBuf> {
    let sources = root().join("tests/doubles/nccl");
    let profiler = sources.join("profiler.cc");
    let soname = format!("-Wl,-soname,{name}");
    let mut arguments = vec![
        profiler.to_str()?,
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-pthread",
        &soname,
    ];
    arguments.extend(["-Wl,-rpath,$ORIGIN", "-ldl"]);
    arguments.extend(more);
    build(
        "c++",
        &sources.join("nccl.cc"),
        &format!("doubles/nccl/{name}"),
        &arguments,
    )
}

/// Compiles a C++ program with the double of RCCL: NCCL's double with a few additional functions and with HIP as its
/// driver.
pub fn rccl(source: &str) -> Option<PathBuf> {
    let driver = root().join("tests/doubles/nccl/hip.cc");
    let arguments = ["-std=c++17", "-fPIC", "-shared", "-Wl,-soname,libamdhip64.so.6"];
    build("c++", &driver, "doubles/nccl/libamdhip64.so.6", &arguments)?;
    nccl_library("librccl.so.1", &["-DRCCL"])?;
    let linked = on_nccl("librccl.so.1")?;
    let mut arguments = vec!["-std=c++17", "-pthread"];
    arguments.extend(linked.iter().map(String::as_str));
    compile("c++", source, &arguments)
}

/// Versions of CUPTI that the double replaces, each with the name of its library.
pub const CUPTI_VERSIONS: [(u32, &str); 7] = [
    (18, "libcupti.so.11.8"),
    (24, "libcupti.so.12"),
    (28, "libcupti.so.12"),
    (130_001, "libcupti.so.13"),
    (130_101, "libcupti.so.13"),
    (130_201, "libcupti.so.13"),
    (130_500, "libcupti.so.13"),
];

/// Compiles one version of the test double of CUPTI (`tests/doubles/cupti/`). Returns its directory and its name.
pub fn cupti_double(version: u32) -> Option<(PathBuf, &'static str)> {
    let (_, name) = CUPTI_VERSIONS.into_iter().find(|&(known, _)| known == version)?;
    let source = root().join("tests/doubles/cupti/cupti.cc");
    let (soname, number) = (
        format!("-Wl,-soname,{name}"),
        format!("-DCUPTI_DOUBLE_VERSION={version}"),
    );
    let arguments = [
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-pthread",
        &number,
        &soname,
        // The library runs a thread, so it must not be unloaded.
        "-Wl,-z,nodelete",
        "-ldl",
    ];
    let library = build(
        "c++",
        &source,
        &format!("doubles/cupti/{version}/{name}"),
        &arguments,
    )?;
    Some((library.parent()?.to_owned(), name))
}

/// Compiles a C++ program with the doubles of NCCL and of the driver that itself loads further libraries.
pub fn nccl_loading(source: &str) -> Option<PathBuf> {
    nccl_with(source, &["-ldl"])
}

/// Compiles a C++ program with the double of NCCL.
pub fn nccl(source: &str) -> Option<PathBuf> {
    nccl_with(source, &[])
}

fn nccl_with(source: &str, more: &[&str]) -> Option<PathBuf> {
    let linked = on_nccl("libnccl.so.2")?;
    let mut arguments = vec!["-std=c++17", "-pthread"];
    arguments.extend(linked.iter().map(String::as_str));
    arguments.extend(more);
    compile("c++", source, &arguments)
}

/// Returns the linker arguments for the double of NCCL, or for a copy of it with this name.
fn on_nccl(library: &str) -> Option<[String; 3]> {
    let directory = nccl_double()?;
    let directory = directory
        .to_str()
        .expect("built in a directory with a plain name");
    Some([
        format!("-L{directory}"),
        format!("-l:{library}"),
        format!("-Wl,-rpath,{directory}"),
    ])
}

/// Compiles a library that is linked to the double of NCCL, or to a copy with a different name. A program that does not
/// use NCCL itself loads it.
pub fn nccl_user(copy: Option<&str>) -> Option<PathBuf> {
    let name = match copy {
        None => "libnccl.so.2".to_owned(),
        Some(copy) => {
            let name = format!("libnccl-{copy}.so.2");
            nccl_library(&name, &[])?;
            name
        }
    };
    let linked = on_nccl(&name)?;
    let mut arguments = vec!["-std=c++17", "-fPIC", "-shared"];
    arguments.extend(linked.iter().map(String::as_str));
    let output = format!("nccl_user{}.so", copy.unwrap_or(""));
    build("c++", &programs().join("nccl_user.cc"), &output, &arguments)
}

/// Compiles a C++ program with the double of NCCL and the real header of NVTX from the PyTorch wheel.
pub fn nvtx(source: &str) -> Option<PathBuf> {
    let python = Python::wheel()?;
    let environment = python.path.parent()?.parent()?;
    let folders = |directory: &Path| -> Vec<PathBuf> {
        let entries = directory.read_dir().into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    };
    let include = folders(&environment.join("lib"))
        .iter()
        .flat_map(|python| folders(&python.join("site-packages/nvidia")))
        .map(|package| package.join("include"))
        .find(|include| include.join("nvtx3/nvToolsExt.h").is_file());
    let Some(include) = include else {
        skip(&format!("{source}: the PyTorch wheel brings no NVTX header"));
        return None;
    };
    nccl_with(source, &["-isystem", include.to_str()?, "-ldl"])
}

/// Compiles a shared object of `tests/doubles/`, by the name of its C source.
pub fn shared(source: &str) -> Option<PathBuf> {
    let input = root().join("tests/doubles").join(source);
    let stem = input.file_stem().expect("a source has a name").to_str()?;
    build("cc", &input, &format!("doubles/{stem}.so"), &["-fPIC", "-shared"])
}

/// Compiles a plain C++ program, with further arguments for the compiler.
pub fn cc(source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let mut all = vec!["-std=c++17", "-pthread"];
    all.extend(arguments);
    compile("c++", source, &all)
}

/// Compiles a plain C program, with further arguments for the compiler.
pub fn c(source: &str, arguments: &[&str]) -> Option<PathBuf> {
    compile("cc", source, arguments)
}

/// Compiles a Rust program with the double of NCCL.
pub fn nccl_rust(source: &str) -> Option<PathBuf> {
    let linked = on_nccl("libnccl.so.2")?;
    let input = programs().join(source);
    let stem = input.file_stem().expect("a source has a name").to_str()?;
    let mut arguments = vec!["--edition".to_owned(), "2024".to_owned()];
    for argument in linked {
        arguments.extend(["-C".to_owned(), format!("link-arg={argument}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    build("rustc", &input, stem, &arguments)
}

fn compile(compiler: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let input = programs().join(source);
    let stem = input.file_stem().expect("a source has a name").to_str()?;
    build(compiler, &input, stem, arguments)
}

/// Lets a compiler run only when nothing else needs its processor. Meanwhile the job of another test may run, and its
/// recorder has the same priority.
fn run_when_idle(command: &mut Command) {
    // SAFETY: between fork and exec only this system call is made, on a local. If it fails, the priority stays.
    unsafe {
        command.pre_exec(|| {
            let parameters = libc::sched_param { sched_priority: 0 };
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
            Ok(())
        })
    };
}

/// Compiles `input` into `output` in the directory of test programs, unless the output exists and is newer than all
/// sources.
fn build(compiler: &str, input: &Path, output: &str, arguments: &[&str]) -> Option<PathBuf> {
    // If two tests need the same program, the second one finds it compiled.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());

    let output = target_directory().join("test-programs").join(output);
    let directory = output.parent().expect("inside the directory of test programs");
    std::fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    if is_current(&output) {
        return Some(output);
    }
    let source = input.display();
    // Compile under a different name and rename: another process may be running the old program.
    let fresh = output.with_extension(format!("{}.fresh", std::process::id()));
    let optimised: &[&str] = if compiler == "rustc" {
        &["-O", "-g"]
    } else {
        &["-O1", "-g"]
    };
    let mut command = Command::new(compiler);
    command
        .args(optimised)
        .arg("-o")
        .arg(&fresh)
        .arg(input)
        .args(arguments);
    run_when_idle(&mut command);
    let result = command.output();
    let result = match result {
        Ok(result) => result,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(&format!("{source}: no {compiler} on this machine"));
            return None;
        }
        Err(error) => panic!("{compiler}: {error}"),
    };
    assert!(
        result.status.success(),
        "{source} does not compile:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::rename(&fresh, &output).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
    Some(output)
}

/// Returns whether the output is newer than every source, headers included.
fn is_current(output: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(made) = modified(output) else {
        return false;
    };
    let doubles = root().join("tests/doubles");
    let header = root().join("layer/include");
    let sources = [
        programs(),
        header,
        doubles.join("nccl"),
        doubles.join("cupti"),
        doubles,
    ];
    sources.iter().all(|directory| {
        directory.read_dir().is_ok_and(|entries| {
            entries
                .flatten()
                .all(|entry| modified(&entry.path()).is_some_and(|time| time <= made))
        })
    })
}
