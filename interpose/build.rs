//! Links the library so that it is never unloaded.
//!
//! NCCL closes its profiler plugin together with its last communicator. Another tool may also close its handle to this
//! library. Unloading would remove code that our thread, our hooks and pointers held by other libraries still use.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
