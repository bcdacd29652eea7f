//! Tests the table of CUPTI's functions against real libraries.
//!
//! The libraries are loaded and their symbols are read. None of their functions is called: there is no driver here, and
//! version 13.2 would end the process.

use rankscope_cupti_sys::table::Table;
use rankscope_tests::artefacts::root;
use rankscope_tests::skip;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions that are newer than 11.8, with the first tested version that has them.
const LATER: [(&str, (u32, u32)); 4] = [
    ("cuptiActivityEnableDriverApi", (12, 9)),
    ("cuptiActivityEnableRuntimeApi", (12, 9)),
    ("cuptiSubscribe_v2", (13, 0)),
    ("cuptiIsTracingSessionRunning", (13, 5)),
];

fn libraries() -> Vec<PathBuf> {
    let script = root().join("tests/setup/cupti.sh");
    let output = Command::new(&script)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} failed", script.display());
    let found: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(PathBuf::from)
        .collect();
    if found.is_empty() {
        skip("no real CUPTI library");
    }
    found
}

/// Parses `13.0.85` in the directory's name as (13, 0).
fn version(library: &Path) -> (u32, u32) {
    let name = library.parent().and_then(Path::file_name).expect("a directory");
    let name = name.to_str().expect("a plain name");
    let mut numbers = name.split('.').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("major"), numbers.next().expect("minor"))
}

#[test]
fn every_version_has_the_functions_that_it_should() {
    for library in libraries() {
        let version = version(&library);
        let name = CString::new(library.to_str().expect("a plain name")).expect("no zero byte");
        // SAFETY: CUPTI's constructors do nothing without a driver (checked for these versions), and the handle is a
        // live handle of the library.
        let missing = unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{}", library.display());
            Table::of(handle).missing()
        };
        let expected: Vec<&str> = LATER
            .iter()
            .filter(|(_, since)| version < *since)
            .map(|(name, _)| *name)
            .collect();
        let mut missing = missing;
        missing.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(missing, expected, "CUPTI {version:?}");
    }
}

/// Every intercepted function exists from the version in the table on: intercepting a name that no library has would be
/// pointless.
#[test]
fn every_function_that_is_intercepted_is_a_real_one() {
    use rankscope::cupti::others;
    for library in libraries() {
        let version = version(&library);
        let name = CString::new(library.to_str().expect("a plain name")).expect("no zero byte");
        for (symbol, since) in others::SYMBOLS.iter().zip(others::SEEN) {
            let (major, minor) = since.split_once('.').expect("a version");
            let since: (u32, u32) = (major.parse().expect("major"), minor.parse().expect("minor"));
            // SAFETY: the library's constructors do nothing, as above, and the symbol ends with a zero byte.
            let found = unsafe {
                let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
                !libc::dlsym(handle, symbol.as_ptr()).is_null()
            };
            assert_eq!(found, version >= since, "{symbol:?} in {version:?}");
        }
    }
}
