//! Tests the tables of intercepted functions against the installed libraries.
//!
//! No function that communicates is missing from the tables, and every row exists in a library. `librankscope.so`
//! exports exactly the tables.

use rankscope::{gloo, nccl, torch};
use rankscope_tests::artefacts;
use rankscope_tests::nccl::{Nccl, series};
use rankscope_tests::python::Python;
use rankscope_tests::skip;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A library to which the tables refer.
struct Tested {
    /// Name of the library in the rows' `seen`. `None` if it is of a different version.
    name: Option<&'static str>,
    /// Whether rows of Gloo's tables may be exported here.
    gloo: bool,
    c10d: bool,
    path: PathBuf,
}

fn output(program: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (binutils): {error}"));
    assert!(
        output.status.success(),
        "{program} {}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the functions that a library exports, by their mangled names.
fn exports(path: &Path) -> BTreeSet<String> {
    output("nm", &["-D", "--defined-only"], path)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next()?;
            let symbol = words.next()?.split('@').next()?;
            matches!(kind, "T" | "W").then(|| symbol.to_owned())
        })
        .collect()
}

fn demangled(symbols: &[&String]) -> Vec<String> {
    use std::io::Write;
    let mut filter = Command::new("c++filt")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("c++filt (binutils)");
    let mut input = filter.stdin.take().expect("a pipe");
    let text = symbols
        .iter()
        .map(|symbol| format!("{symbol}\n"))
        .collect::<String>();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = filter.wait_with_output().expect("c++filt");
    writer.join().expect("a thread").expect("c++filt reads");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Returns the path at which the loader finds a library for programs.
fn system_library(name: &str) -> Option<PathBuf> {
    let reported = Command::new("ldconfig").arg("-p").output().ok()?;
    String::from_utf8_lossy(&reported.stdout)
        .lines()
        .find(|line| line.trim_start().starts_with(&format!("{name} ")))
        .and_then(|line| line.split("=> ").nth(1))
        .map(|path| PathBuf::from(path.trim()))
}

fn torch_library(python: &Python) -> (String, PathBuf) {
    let script = "import torch, os; print(torch.__version__); print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";
    let output = Command::new(&python.path)
        .args(["-c", script])
        .current_dir("/")
        .output()
        .expect("a Python");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let version = lines.next().expect("a version").to_owned();
    let directory = PathBuf::from(lines.next().expect("a directory"));
    (version, directory.join("libtorch_cpu.so"))
}

fn tested() -> Vec<Tested> {
    let mut out = Vec::new();
    match system_library("libgloo.so.0") {
        Some(path) => out.push(Tested {
            name: Some("libgloo 0.5"),
            gloo: true,
            c10d: false,
            path,
        }),
        None => skip("libgloo.so.0 (Debian: libgloo-dev)"),
    }
    for (python, embedded) in [(Python::wheel(), true), (Python::debian(), false)] {
        let Some(python) = python else { continue };
        let (version, path) = torch_library(&python);
        let name = ["1.13", "2.4", "2.15"]
            .into_iter()
            .find(|name| version.starts_with(&format!("{name}.")));
        if name.is_none() {
            eprintln!("note: PyTorch {version} is none of the versions that rows name");
        }
        out.push(Tested {
            name,
            gloo: embedded,
            c10d: true,
            path,
        });
    }
    // An older wheel that a developer has unpacked: it is too large to fetch for a few names.
    if let Some(path) = std::env::var_os("RANKSCOPE_TORCH_2_4") {
        out.push(Tested {
            name: Some("2.4"),
            gloo: true,
            c10d: true,
            path: Path::new(&path).join("lib/libtorch_cpu.so"),
        });
    }
    out
}

/// Returns the tables: symbols and where each was found.
fn rows() -> Vec<(&'static str, &'static str, bool)> {
    let table = |symbols: &'static [&'static std::ffi::CStr], seen: &'static [&'static str], gloo: bool| {
        symbols
            .iter()
            .zip(seen)
            .map(move |(symbol, seen)| (symbol.to_str().expect("ASCII"), *seen, gloo))
    };
    table(gloo::SYMBOLS, gloo::SEEN, true)
        .chain(table(torch::SYMBOLS, torch::SEEN, false))
        .collect()
}

fn is_excluded(name: &str, excluded: &[(&str, &str)]) -> bool {
    excluded.iter().any(|(prefix, _)| name.starts_with(prefix))
}

/// Returns whether a function of Gloo moves data, waits, or creates communicators, by its demangled name.
fn communicates_in_gloo(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("gloo::") else {
        return false;
    };
    let Some((path, arguments)) = rest.split_once('(') else {
        return false;
    };
    // A free function with options: a collective.
    let of_options = !path.contains("::")
        && arguments
            .strip_prefix("gloo::")
            .is_some_and(|argument| argument.contains("Options"));
    let method = path.rsplit("::").next().unwrap_or(path);
    let moves = [
        "send",
        "recv",
        "waitSend",
        "waitRecv",
        "connectFullMesh",
        "makeContext",
        "createUnboundBuffer",
        "run",
    ];
    // In PyTorch 2.15 sockets, pairs and contexts of a transport have such methods, for the unbound buffer above them.
    of_options || path.contains("::") && moves.contains(&method)
}

fn communicates_in_c10d(name: &str) -> bool {
    let member = name
        .strip_prefix("c10d::ProcessGroupGloo::")
        .is_some_and(|rest| !rest.split('(').next().unwrap_or(rest).contains("::"));
    let waits = name.starts_with("c10d::") && name.contains("Work::wait(");
    member || waits
}

#[test]
fn every_function_that_communicates_is_a_row_or_an_exclusion() {
    let rows: BTreeSet<&str> = rows().iter().map(|row| row.0).collect();
    for library in tested() {
        let symbols = exports(&library.path);
        let names: Vec<&String> = symbols
            .iter()
            .filter(|symbol| symbol.contains("4gloo") || symbol.contains("4c10d"))
            .collect();
        let mut missing = Vec::new();
        let mut covered = 0;
        for (symbol, name) in names.iter().zip(demangled(&names)) {
            let is_expected = communicates_in_gloo(&name) && !is_excluded(&name, gloo::EXCLUDED)
                || communicates_in_c10d(&name) && !is_excluded(&name, torch::EXCLUDED);
            if rows.contains(symbol.as_str()) {
                covered += 1;
            } else if is_expected {
                missing.push(format!("{name}\n    {symbol}"));
            }
        }
        assert!(
            missing.is_empty(),
            "{} exports functions that are neither rows nor exclusions:\n{}",
            library.path.display(),
            missing.join("\n")
        );
        assert!(
            covered > 5,
            "only {covered} rows are in {}",
            library.path.display()
        );
    }
}

/// Checks that `seen` is exact, in both directions.
#[test]
fn rows_name_exactly_the_libraries_that_export_them() {
    for library in tested() {
        let Some(name) = library.name else { continue };
        let symbols = exports(&library.path);
        for (symbol, seen, of_gloo) in rows() {
            if of_gloo && !library.gloo || !of_gloo && !library.c10d {
                continue;
            }
            let claimed = seen == "everywhere" || seen.split(", ").any(|one| one == name);
            assert_eq!(
                symbols.contains(symbol),
                claimed,
                "{symbol} was seen {seen:?}; {} exports it (left), the row says so (right)",
                library.path.display()
            );
        }
    }
}

/// Returns the rows of NCCL's table, with the version in which each appeared.
fn nccl_rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    nccl::SYMBOLS
        .iter()
        .zip(nccl::SEEN)
        .map(|(symbol, since)| (symbol.to_str().expect("ASCII"), *since))
}

/// Value of `seen` for functions that only RCCL has.
const RCCL: &str = "rccl";

/// Public functions of RCCL in ROCm 6.2 (rccl.h), and those of later versions that its tests call.
const RCCL_FUNCTIONS: &str = "MemAlloc MemFree GetVersion GetUniqueId CommInitRankConfig CommInitRank CommInitAll CommFinalize \
    CommDestroy CommAbort CommSplit GetErrorString GetLastError CommGetAsyncError CommCount CommCuDevice CommUserRank \
    CommRegister CommDeregister RedOpCreatePreMulSum RedOpDestroy Reduce Bcast Broadcast AllReduce ReduceScatter AllGather \
    Send Recv Gather Scatter AllToAll AllToAllv GroupStart GroupEnd AllReduceWithBias";

#[test]
fn every_function_of_rccl_is_a_row_or_an_exclusion() {
    let rows: BTreeSet<&str> = nccl_rows().map(|row| row.0).collect();
    for name in RCCL_FUNCTIONS.split_whitespace() {
        let is_row = rows.contains(format!("nccl{name}").as_str());
        assert!(is_row || is_excluded(name, nccl::EXCLUDED), "{name}");
    }
    for (symbol, _) in nccl_rows().filter(|row| row.1 == RCCL) {
        assert!(
            RCCL_FUNCTIONS
                .split_whitespace()
                .any(|name| symbol == format!("nccl{name}")),
            "{symbol}"
        );
    }
}

#[test]
fn every_function_of_every_nccl_is_a_row_or_an_exclusion() {
    let rows: BTreeSet<&str> = nccl_rows().map(|row| row.0).collect();
    for library in Nccl::all() {
        let symbols = exports(&library.directory.join("libnccl.so.2"));
        let public: Vec<&str> = symbols
            .iter()
            .map(String::as_str)
            .filter(|symbol| symbol.starts_with("nccl"))
            .collect();
        assert!(public.len() > 20, "{}: {public:?}", library.version);
        let missing: Vec<&&str> = public
            .iter()
            .filter(|symbol| {
                !rows.contains(**symbol) && !is_excluded(&symbol["nccl".len()..], nccl::EXCLUDED)
            })
            .collect();
        assert!(
            missing.is_empty(),
            "NCCL {} exports functions that are neither rows nor exclusions: {missing:?}",
            library.version
        );
        // `since` is exact, in both directions.
        for (symbol, since) in nccl_rows() {
            assert_eq!(
                symbols.contains(symbol),
                since != RCCL && library.series() >= series(since),
                "{symbol} is there since {since}; NCCL {} exports it (left), the row says so (right)",
                library.version
            );
        }
    }
}

#[test]
fn no_row_is_listed_twice_and_every_exclusion_has_a_reason() {
    let rows = rows();
    let distinct: BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(distinct.len(), rows.len());
    for (prefix, reason) in gloo::EXCLUDED.iter().chain(torch::EXCLUDED).chain(nccl::EXCLUDED) {
        assert!(reason.len() > 3, "{prefix}: {reason}");
    }
    let distinct: BTreeSet<&str> = nccl_rows().map(|row| row.0).collect();
    assert_eq!(distinct.len(), nccl_rows().count());
}

/// Versions of NCCL's profiler interface that rankscope implements.
const PLUGINS: std::ops::RangeInclusive<u32> = 1..=6;

#[test]
fn every_nccl_with_profiler_plugins_requests_a_supported_version() {
    for nccl in Nccl::all() {
        // The name is a separate string in the library, terminated by a zero byte.
        let library = nccl.directory.join("libnccl.so.2");
        let found = Command::new("grep")
            .args(["-aoE", "ncclProfiler_v[0-9]+"])
            .arg(&library)
            .output()
            .expect("grep");
        // Status 1: the library requests none.
        assert!(
            matches!(found.status.code(), Some(0 | 1)),
            "{}",
            library.display()
        );
        let found = String::from_utf8_lossy(&found.stdout);
        let requested: BTreeSet<u32> = found
            .lines()
            .filter_map(|line| line.strip_prefix("ncclProfiler_v")?.parse().ok())
            .collect();
        let (has_any, speaks) = (
            !requested.is_empty(),
            requested.iter().any(|version| PLUGINS.contains(version)),
        );
        assert_eq!(
            has_any,
            nccl.series() >= (2, 23),
            "{} asks for {requested:?}",
            nccl.version
        );
        assert_eq!(speaks, has_any, "{} asks for {requested:?}", nccl.version);
    }
}

#[test]
fn the_library_exports_its_rows_and_nothing_else() {
    let mut expected: BTreeSet<String> = rows().iter().map(|row| row.0.to_owned()).collect();
    expected.extend(nccl_rows().map(|row| row.0.to_owned()));
    let of_cupti = rankscope::cupti::others::SYMBOLS;
    expected.extend(
        of_cupti
            .iter()
            .map(|symbol| symbol.to_string_lossy().into_owned()),
    );
    expected.extend(
        [
            "rankscope_api",
            "rankscope_pause",
            "rankscope_resume",
            "rankscope_version",
            "InitializeInjectionNvtx2",
        ]
        .map(str::to_owned),
    );
    expected.extend(PLUGINS.map(|version: u32| format!("ncclProfiler_v{version}")));
    let path = artefacts::library();
    let everything: BTreeSet<String> = output("nm", &["-D", "--defined-only"], &path)
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|symbol| symbol.split('@').next().unwrap_or(symbol).to_owned())
        .collect();
    assert_eq!(everything, expected);
}

#[test]
fn the_library_needs_nothing_but_the_c_library_and_its_unwinder() {
    let dynamic = output("readelf", &["-d", "-W"], &artefacts::library());
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    for library in &needed {
        let allowed = [
            "libc.so.",
            "libgcc_s.so.",
            "ld-linux-",
            "libm.so.",
            "libdl.so.",
            "libpthread.so.",
        ];
        assert!(
            allowed.iter().any(|prefix| library.starts_with(prefix)),
            "{library}"
        );
    }
    // A statically linked unwinder is a second one in the process: the first Gloo exception would crash the job.
    assert!(
        needed.iter().any(|library| library.starts_with("libgcc_s.so.")),
        "{needed:?}"
    );
    assert!(
        !dynamic.contains("(RPATH)") && !dynamic.contains("(RUNPATH)"),
        "{dynamic}"
    );
}
