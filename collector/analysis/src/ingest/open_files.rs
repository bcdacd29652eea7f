//! Limit on open files: each rank has a log and a live area.

/// Each rank has a log and a live area: as many files as the system lets us have.
pub fn allow_many_files() {
    // SAFETY: rlimit is plain data; both calls only read and write it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
