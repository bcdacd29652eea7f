//! Runs when the library is loaded: registers the adapters, and sets the variables by which NVTX and NCCL find it.
//!
//! A variable is set only if a run directory is given and the user has not set the variable. `rankscope run` does the
//! same earlier; this is for jobs whose launcher only forwards LD_PRELOAD and RANKSCOPE_DIR. Nothing is printed, opened
//! or started.

use std::ffi::{CStr, c_char, c_int};

/// Variables that NVTX and NCCL read at their first use (nvtxDetail/nvtxInit.h; NCCL's src/plugin/profiler.cc).
const VARIABLES: [&CStr; 2] = [c"NVTX_INJECTION64_PATH", c"NCCL_PROFILER_PLUGIN"];
/// Maximum length of a plugin's name in NCCL (`MAX_STR_LEN` in src/plugin/plugin_open.cc). `snprintf` truncates longer
/// names.
const LONGEST: usize = 253;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns the value of a variable. It reads `environ` directly, because a shell has its own `getenv`, which is not
/// ready yet.
fn value(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `environ` is an array of C strings that ends with null. Nothing changes it while libraries are
    // initialised: the process's first thread initialises them before any other thread exists.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry);
            if let Some(rest) = text.to_bytes_with_nul().strip_prefix(name.to_bytes())
                && let Some(value) = rest.strip_prefix(b"=")
            {
                return CStr::from_bytes_with_nul(value).ok();
            }
            entry = entry.add(1);
        }
    }
    None
}

fn own_path() -> Option<&'static CStr> {
    // SAFETY: `info` is a local that dladdr fills. The name in it belongs to the loader and lives as long as this
    // library, which is never unloaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(at_load as *const libc::c_void, &raw mut info);
        (found != 0 && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// Returns true if the library was loaded together with the process. In that case its symbols are in the global scope.
/// If NCCL loads it later as a plugin, or NVTX as an injection, other threads may already read the environment.
fn is_preloaded() -> bool {
    // SAFETY: dlsym gets a NUL-terminated name and only searches the global scope.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ncclProfiler_v6".as_ptr()) };
    std::ptr::eq(
        found.cast_const(),
        (&raw const crate::nccl::plugin::ncclProfiler_v6).cast(),
    )
}

extern "C" fn at_load() {
    type SetVariable = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
    crate::register_adapters();
    if value(c"RANKSCOPE_DIR").is_none_or(CStr::is_empty) {
        return;
    }
    if !is_preloaded() {
        return;
    }
    let Some(path) = own_path().filter(|path| path.to_bytes().starts_with(b"/")) else {
        return;
    };
    // Uses the C library's `setenv`, because a shell has its own, which is not ready yet.
    // SAFETY: dlsym gets a NUL-terminated name. It searches the objects after this library, and the C library is always
    // among them.
    let set = unsafe { libc::dlsym(libc::RTLD_NEXT, c"setenv".as_ptr()) };
    if set.is_null() {
        return;
    }
    // SAFETY: `set` is not null, and this type is the signature of `setenv`.
    let set = unsafe { std::mem::transmute::<*mut libc::c_void, SetVariable>(set) };
    for name in VARIABLES {
        if value(name).is_none() {
            let is_nccls = name == c"NCCL_PROFILER_PLUGIN";
            let path = if is_nccls && path.count_bytes() > LONGEST {
                // NCCL finds a preloaded plugin under this name as well.
                c"STATIC_PLUGIN"
            } else {
                path
            };
            // SAFETY: both arguments are C strings that live forever. Preloaded libraries are initialised before a
            // second thread exists, so no thread reads the environment now.
            unsafe { set(name.as_ptr(), path.as_ptr(), 0) };
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
