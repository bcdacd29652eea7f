//! The limit on open files.

/// Raises the limit on open files to the hard limit. Each rank needs a log and a live area.
pub fn allow_many_files() {
    // SAFETY: `rlimit` is plain data. Both calls get a valid pointer to this local and only read or write it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
