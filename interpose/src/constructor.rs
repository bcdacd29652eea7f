//! What happens when the library is loaded: the variables by which NVTX and NCCL find us are set, where the run
//! directory is and the user has not set them. `rankscope run` has done it already; this is for jobs whose launcher only
//! forwards LD_PRELOAD and RANKSCOPE_DIR. Nothing is printed, opened or started.

use std::ffi::{CStr, c_char, c_int};

/// What NVTX and NCCL read before they are first used (nvtxDetail/nvtxInit.h; NCCL's src/plugin/profiler.cc).
const VARIABLES: [&CStr; 2] = [c"NVTX_INJECTION64_PATH", c"NCCL_PROFILER_PLUGIN"];
/// Longest name of a plugin that NCCL keeps (`MAX_STR_LEN` in src/plugin/plugin_open.cc); `snprintf` cuts longer ones.
const LONGEST: usize = 253;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// A variable, read from where it stands: a shell has its own `getenv`, which is not ready yet.
fn value(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a list of C strings that ends with null, and nobody changes it while libraries are initialised, which the
    // process's first thread does before all others.
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
    // SAFETY: dladdr fills the structure, whose name then lives as long as this library, for ever.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(at_load as *const libc::c_void, &raw mut info);
        (found != 0 && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// True if the library came with the process: its names are everybody's then. Whoever loads it later (NCCL as a plugin,
/// NVTX as an injection) may have other threads, which read the environment.
fn is_preloaded() -> bool {
    // SAFETY: looks up a name in what is loaded for all.
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
    // The C library's own: a shell has one of its own, which is not ready yet.
    // SAFETY: looks up a name behind ourselves, where the C library always is.
    let set = unsafe { libc::dlsym(libc::RTLD_NEXT, c"setenv".as_ptr()) };
    if set.is_null() {
        return;
    }
    // SAFETY: that is its signature.
    let set = unsafe { std::mem::transmute::<*mut libc::c_void, SetVariable>(set) };
    for name in VARIABLES {
        if value(name).is_none() {
            let is_nccls = name == c"NCCL_PROFILER_PLUGIN";
            let path = if is_nccls && path.count_bytes() > LONGEST {
                // Whoever is preloaded is found so as well.
                c"STATIC_PLUGIN"
            } else {
                path
            };
            // SAFETY: two C strings; preloaded libraries are initialised before there is another thread.
            unsafe { set(name.as_ptr(), path.as_ptr(), 0) };
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
