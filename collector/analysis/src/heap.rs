//! Settings of the C library's heap that return freed memory to the system.
//!
//! A merge frees what it allocates: its live memory is the same for 10⁸ operations as for 10⁷. But glibc adapts the
//! size above which an allocation gets a separate mapping. It raises this threshold to the size of each large block
//! that is freed, up to 32 MiB. Such blocks then are allocated between small ones, where freed pages stay resident: 353
//! MiB instead of 170 at 10⁸ operations (BENCHMARKS.md).

/// Minimum size of a block with a separate mapping, in bytes. Such a mapping is removed when the block is freed.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: i32 = 64 << 10;
/// Maximum free memory at the end of the heap, in bytes.
#[cfg(target_env = "gnu")]
const KEPT_FREE_BYTES: i32 = 1 << 20;

/// Maximum number of such mappings. The kernel allows 65,530 per process (`vm.max_map_count`), and files and threads
/// need some.
#[cfg(target_env = "gnu")]
const MAX_MAPPED: i32 = 16 << 10;

/// Makes the process return freed memory to the system. Call it first in `main`: it applies to all threads and to all
/// later allocations.
pub fn give_back_what_is_freed() {
    // SAFETY: `mallopt` only sets three numbers. An invalid value is refused and changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
        libc::mallopt(libc::M_MMAP_MAX, MAX_MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    }
}
