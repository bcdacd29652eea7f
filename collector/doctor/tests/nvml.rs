//! Tests the reading of NVLink links on a double of NVML.

use rankscope_doctor::facts::nvml;
use std::ffi::CString;
use std::path::Path;
use std::process::Command;

#[test]
fn links_are_read_from_a_double() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = directory.path().join("libnvidia-ml.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml_double.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .expect("a C compiler");
    assert!(built.success());
    let path = library.to_str().expect("a plain name");
    let name = CString::new(path).expect("no NUL");
    // SAFETY: the name is NUL-terminated. The double only stores numbers when it is loaded.
    let double = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!double.is_null());
    let found = nvml::links(path);
    let shown: Vec<(String, Vec<bool>)> = found
        .iter()
        .map(|(address, links)| (address.clone(), links.iter().map(|link| link.is_active).collect()))
        .collect();
    assert_eq!(
        shown,
        [
            ("00000000:17:00.0".to_owned(), vec![true; 4]),
            ("00000000:9B:00.0".to_owned(), vec![true, true, false, true]),
        ]
    );
    assert_eq!(found[0].1[3].version, Some(7));
    assert!(nvml::links("no-such-library.so").is_empty());
    // NVML is shut down as often as it is initialised.
    // SAFETY: the library is still loaded. The function has this type in the double.
    let opened = unsafe {
        let address = libc::dlsym(double, c"nvml_double_opened".as_ptr());
        assert!(!address.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> libc::c_int>(address)()
    };
    assert_eq!(opened, 0);
}
