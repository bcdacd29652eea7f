//! How the C library's heap keeps memory that was freed.
//!
//! A merge frees what it allocates: what lives at one time is as large after 10⁸ operations as after 10⁷. But glibc
//! raises its threshold for memory of its own mapping to the size of each large block that is freed, up to 32 MiB, and
//! from then on lays such blocks between small ones, where freed pages stay resident: 353 MiB instead of 170 at 10⁸
//! operations (BENCHMARKS.md).

/// Blocks of this size and more get a mapping of their own, which is gone when they are freed.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: i32 = 64 << 10;
/// That much may stay free at the end of the heap.
#[cfg(target_env = "gnu")]
const KEPT_FREE_BYTES: i32 = 1 << 20;

/// Such mappings at most: the kernel allows a process 65,530 (`vm.max_map_count`), and files and threads need some.
#[cfg(target_env = "gnu")]
const MOST_MAPPED: i32 = 16 << 10;

/// Makes the process give freed memory back. For a program's first line: it holds for all threads and all that comes.
pub fn give_back_what_is_freed() {
    // SAFETY: sets three numbers. Refusal (a value out of range) changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
        libc::mallopt(libc::M_MMAP_MAX, MOST_MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    }
}
