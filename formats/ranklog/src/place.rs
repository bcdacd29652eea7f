//! Locations of the two files of a process: the segment file in the run directory, and the live area in memory or on a
//! local disk.

use super::area::Area;
use super::layout::LiveLayout;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File extension of segment files.
pub const SEGMENT_EXTENSION: &str = "rslog";
/// File extension of live areas.
pub const LIVE_EXTENSION: &str = "rslive";

/// Free space below which recording stops: a share of the file system, clamped to these bounds. A share alone would
/// refuse to record on a parallel file system of petabytes that has terabytes left.
const MIN_FREE_SHARE: u64 = 20;
const MIN_FREE_LEAST_BYTES: u64 = 1 << 30;
const MIN_FREE_MOST_BYTES: u64 = 64 << 30;

/// File systems on which a store into a mapped file never waits for a network or for copying a block: tmpfs, ext4 and
/// XFS. The magic numbers are from statfs(2).
const LOCAL_FILE_SYSTEMS: [i64; 3] = [0x0102_1994, 0xEF53, 0x5846_5342];

/// Creates the run directory (mode 0700) if it does not exist.
pub fn make_run_directory(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Returns the directory on tmpfs for the live areas of this user. Fails if another user could have created it.
pub fn shared_memory_directory() -> io::Result<PathBuf> {
    // SAFETY: getuid cannot fail.
    let uid = unsafe { libc::getuid() };
    let dir = PathBuf::from(format!("/dev/shm/rankscope-{uid}"));
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir)?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "not a private directory of this user",
        ));
    }
    Ok(dir)
}

/// Returns the space of the file system that contains `dir`: (bytes free for this user, total bytes, magic number).
pub fn space(dir: &Path) -> io::Result<(u64, u64, i64)> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    // SAFETY: statfs is plain data, and all zero is valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, and `stat` is a valid pointer to a local.
    if unsafe { libc::statfs(path.as_ptr(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let block = stat.f_bsize as u64;
    Ok((
        stat.f_bavail.saturating_mul(block),
        stat.f_blocks.saturating_mul(block),
        stat.f_type as i64,
    ))
}

/// Free space on the file system of a run directory, and the floor that recording leaves free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Space that is free for this user, in bytes.
    pub free_bytes: u64,
    /// Size of the file system, in bytes.
    pub total_bytes: u64,
    /// Recording stops if less than this is free, in bytes.
    pub floor_bytes: u64,
}

impl Room {
    /// Queries the file system of `dir`. `floor_bytes` overrides the default floor.
    pub fn of(dir: &Path, floor_bytes: Option<u64>) -> io::Result<Self> {
        let (free_bytes, total_bytes, _) = space(dir)?;
        Ok(Self {
            free_bytes,
            total_bytes,
            floor_bytes: floor_bytes.unwrap_or_else(|| {
                (total_bytes / MIN_FREE_SHARE).clamp(MIN_FREE_LEAST_BYTES, MIN_FREE_MOST_BYTES)
            }),
        })
    }

    /// Returns true if too little space is free to record.
    pub fn is_short(&self) -> bool {
        self.free_bytes < self.floor_bytes
    }
}

/// Live area that was created, with its file.
pub struct PlacedArea {
    /// Mapping of the area.
    pub area: Area,
    /// Path of the file; `None` for anonymous memory, which is lost if the process is killed.
    pub path: Option<PathBuf>,
}

/// Creates and maps a live area of at most `bytes` bytes, in the first location that has space for it.
pub fn place_area(bytes: u64, nonce: u64, wanted: Option<&Path>, run_dir: &Path) -> Option<PlacedArea> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    match wanted {
        Some(dir) => candidates.push(dir.to_path_buf()),
        None => {
            candidates.extend(shared_memory_directory().ok());
            candidates.push(run_dir.to_path_buf());
            candidates.push(PathBuf::from("/var/tmp"));
        }
    }
    let largest = largest_file();
    for dir in candidates {
        let Ok((free, _, magic)) = space(&dir) else {
            continue;
        };
        if !LOCAL_FILE_SYSTEMS.contains(&magic) {
            continue;
        }
        let Some(layout) = LiveLayout::for_bytes(bytes.min(free / 16).min(largest)) else {
            continue;
        };
        let path = dir.join(format!("{nonce:016x}.{LIVE_EXTENSION}"));
        if let Ok(area) = map_file(&path, layout) {
            return Some(PlacedArea {
                area,
                path: Some(path),
            });
        }
    }
    let layout = LiveLayout::for_bytes(bytes)?;
    let base = map(layout.total_bytes(), -1).ok()?;
    // SAFETY: an anonymous mapping of that size, zeroed and never unmapped.
    let area = unsafe { Area::from_raw(base, layout) };
    Some(PlacedArea { area, path: None })
}

/// Returns the maximum size of a file that this process may create (`ulimit -f`).
fn largest_file() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is valid for writing; on failure it stays infinite.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn map_file(path: &Path, layout: LiveLayout) -> io::Result<Area> {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    let mapped = (|| {
        // The blocks are allocated now, so that a full file system is an error here and not a SIGBUS in a training
        // step.
        // SAFETY: a plain call on an open descriptor.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, layout.total_bytes() as i64) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        map(layout.total_bytes(), file.as_raw_fd())
    })();
    match mapped {
        // SAFETY: a mapping of that size over zeroed blocks, never unmapped.
        Ok(base) => Ok(unsafe { Area::from_raw(base, layout) }),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

/// Maps `bytes` bytes of a file (shared) or of anonymous memory (`fd` is −1). The mapping is populated, and forked
/// children do not inherit it.
pub fn map(bytes: u64, fd: i32) -> io::Result<*mut u8> {
    let kind = if fd < 0 {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
    } else {
        libc::MAP_SHARED
    };
    // SAFETY: a new mapping at an address that the kernel chooses does not affect existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            kind | libc::MAP_POPULATE,
            fd,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A child must not write into its parent's log. Its first event finds the wiped word and starts a new log.
    // SAFETY: the range was mapped just now.
    unsafe { libc::madvise(address, bytes as usize, libc::MADV_DONTFORK) };
    Ok(address.cast())
}
