//! The configuration: environment variables, copied once on the thread of the first event.

use rankscope_ranklog::recorder::{FlightOptions, Options};
use rankscope_ranklog::secrets::Redactor;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Size of the buffer of a configuration variable, in bytes, with the final NUL. Longer values are ignored.
const VALUE_BYTES: usize = 4096;

/// Pointers to the copied values. The background thread must not read the environment while the program may change it,
/// so the thread of the first event copies it.
struct Configuration {
    values: [AtomicPtr<u8>; VARIABLES.len()],
}

/// All variables of the configuration. This table is their documentation. `nvtx` reads RANKSCOPE_NVTX_NEXT separately.
const VARIABLES: [(&CStr, &str); 21] = [
    (c"RANKSCOPE_DIR", "run directory; unset: the library does nothing"),
    (
        c"RANKSCOPE_LIVE_DIR",
        "directory for live areas instead of /dev/shm",
    ),
    (c"RANKSCOPE_LIVE_MIB", "size of the live area in MiB, default 8"),
    (
        c"RANKSCOPE_MAX_DISK_MIB",
        "stop recording when the log has this many MiB, default 4096",
    ),
    (
        c"RANKSCOPE_MIN_FREE_MIB",
        "stop recording below this much free space, default the larger of 1 GiB and 5 %",
    ),
    (
        c"RANKSCOPE_PARTIAL_MS",
        "write half-full chunks out after this many ms, default 10000",
    ),
    (
        c"RANKSCOPE_EXIT_WAIT_MS",
        "wait at most this long at exit for the log to be closed, default 250",
    ),
    (
        c"RANKSCOPE_NCCL_TRAFFIC",
        "1: record what NCCL's proxies move to and from each peer, NCCL 2.27 and later",
    ),
    (
        c"RANKSCOPE_NCCL_EVENTS",
        "launches per second and communicator to be timed by events on the program's streams, where NCCL tells no times",
    ),
    (
        c"RANKSCOPE_KERNELS",
        "work of devices to be recorded by CUPTI: off, communication or all, with @START+LENGTH in a window",
    ),
    (
        c"RANKSCOPE_CUPTI",
        "path of the libcupti to load where the program has loaded none",
    ),
    (
        c"RANKSCOPE_CUPTI_DUMP",
        "for developers: directory to save CUPTI's first records to, as it wrote them",
    ),
    (
        INJECTION,
        "read only: names another tool that the driver loads, to which CUPTI is left",
    ),
    (
        c"RANKSCOPE_COUNTERS",
        "seconds between samples of memory, processor time and network traffic, default 1; off: none",
    ),
    (c"LOCAL_RANK", LOCAL_RANK_OF),
    (c"OMPI_COMM_WORLD_LOCAL_RANK", LOCAL_RANK_OF),
    (c"MPI_LOCALRANKID", LOCAL_RANK_OF),
    (c"SLURM_LOCALID", LOCAL_RANK_OF),
    (
        c"RANKSCOPE_FLIGHT",
        "write no records while the process runs, and keep the last ones: a number of seconds, or area for all that fit",
    ),
    (
        c"RANKSCOPE_SECRET_NAMES",
        "additional names of secrets, separated by commas",
    ),
    (
        c"RANKSCOPE_SECRET_PREFIXES",
        "additional key prefixes, separated by commas",
    ),
];
const LOCAL_RANK_OF: &str =
    "read only: the local rank, as a launcher sets it. Local rank 0 samples the host's counters";
const DIR: usize = 0;
const LIVE_DIR: usize = 1;
const LIVE_MIB: usize = 2;
const MAX_DISK_MIB: usize = 3;
const MIN_FREE_MIB: usize = 4;
const PARTIAL_MS: usize = 5;
const EXIT_WAIT_MS: usize = 6;
const NCCL_TRAFFIC: usize = 7;
const NCCL_EVENTS: usize = 8;
const KERNELS: usize = 9;
const CUPTI: usize = 10;
const CUPTI_DUMP: usize = 11;
const OTHER_INJECTION: usize = 12;
const COUNTERS: usize = 13;
/// Variables of torchrun, Open MPI, MPICH and srun. The first one that is set counts.
const LOCAL_RANKS: std::ops::Range<usize> = 14..18;
const FLIGHT: usize = 18;
const SECRET_NAMES: usize = 19;
const SECRET_PREFIXES: usize = 20;

const INJECTION: &CStr = c"CUDA_INJECTION64_PATH";

static CONFIGURATION: Configuration = Configuration {
    values: [const { AtomicPtr::new(std::ptr::null_mut()) }; VARIABLES.len()],
};

/// Storage of the copies. A static needs no allocation at the first event, and so no allocation that a fork could catch
/// half-way.
static COPIES: [CopiedValue; VARIABLES.len()] = [const { CopiedValue::new() }; VARIABLES.len()];

struct CopiedValue(std::cell::UnsafeCell<[u8; VALUE_BYTES]>);

// SAFETY: each copy is written once, by the thread that moved SWITCH (in `life`) from UNDECIDED to DECIDING. That
// thread then publishes the pointer to it with release ordering. Afterwards the copy is only read.
unsafe impl Sync for CopiedValue {}

impl CopiedValue {
    const fn new() -> Self {
        Self(std::cell::UnsafeCell::new([0; VALUE_BYTES]))
    }
}

/// Records into this directory if the environment names none. It must be called before the recorder starts.
pub fn set_directory(directory: &Path) {
    let bytes = directory.as_os_str().as_bytes();
    if let Ok(text) = CString::new(bytes) {
        DEFAULT_DIR.store(text.into_raw().cast(), Ordering::Release);
    }
}

/// Run directory if the environment names none.
static DEFAULT_DIR: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Copies the configuration. Returns false if there is no run directory; the library then stays inert.
pub fn copy() -> bool {
    for ((slot, copy), (name, _)) in CONFIGURATION.values.iter().zip(&COPIES).zip(VARIABLES) {
        // SAFETY: getenv returns null or a NUL-terminated string. This read races with setenv in the same way as any
        // other getenv of the program's libraries. The target is zeroed and has VALUE_BYTES bytes. The value is
        // shorter, so a final NUL follows it.
        unsafe {
            let value = libc::getenv(name.as_ptr());
            if value.is_null() {
                continue;
            }
            let bytes = CStr::from_ptr(value).to_bytes();
            if bytes.len() >= VALUE_BYTES {
                continue;
            }
            let target = copy.0.get().cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            slot.store(target, Ordering::Release);
        }
    }
    if CONFIGURATION.bytes(DIR).is_none_or(|dir| dir.is_empty()) {
        CONFIGURATION.values[DIR].store(DEFAULT_DIR.load(Ordering::Acquire), Ordering::Release);
    }
    CONFIGURATION.bytes(DIR).is_some_and(|dir| !dir.is_empty())
}

impl Configuration {
    fn bytes(&self, index: usize) -> Option<&'static [u8]> {
        let value = self.values[index].load(Ordering::Acquire);
        // SAFETY: the pointer is null or points to a NUL-terminated copy in a static, which never changes again.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value.cast()) }.to_bytes())
    }

    fn path(&self, index: usize) -> Option<PathBuf> {
        let path = PathBuf::from(OsStr::from_bytes(self.bytes(index)?));
        if path.is_absolute() {
            Some(path)
        } else {
            Some(std::env::current_dir().ok()?.join(path))
        }
    }

    fn number(&self, index: usize) -> Option<u64> {
        std::str::from_utf8(self.bytes(index)?).ok()?.trim().parse().ok()
    }
}

/// Returns the options of the recorder; `None` without a run directory.
pub fn recorder_options() -> Option<Options> {
    let mut options = Options::new(CONFIGURATION.path(DIR)?);
    options.live_dir = CONFIGURATION.path(LIVE_DIR);
    if let Some(mib) = CONFIGURATION.number(LIVE_MIB) {
        options.live_bytes = mib.clamp(1, 4096) << 20;
    }
    if let Some(mib) = CONFIGURATION.number(MAX_DISK_MIB) {
        options.max_disk_bytes = mib << 20;
    }
    options.min_free_bytes = CONFIGURATION.number(MIN_FREE_MIB).map(|mib| mib << 20);
    if let Some(ms) = CONFIGURATION.number(PARTIAL_MS) {
        options.partial_flush = Duration::from_millis(ms);
    }
    options.flight = flight();
    Some(options)
}

/// Returns the options of flight mode, if the user requested it.
fn flight() -> Option<FlightOptions> {
    let seconds = CONFIGURATION.number(FLIGHT);
    match CONFIGURATION.bytes(FLIGHT)?.trim_ascii() {
        b"area" => Some(FlightOptions { keep: None }),
        _ => seconds
            .filter(|&seconds| seconds > 0)
            .map(|seconds| FlightOptions {
                keep: Some(Duration::from_secs(seconds)),
            }),
    }
}

/// Returns true if the user requested the traffic of NCCL's proxies.
pub fn wants_traffic() -> bool {
    CONFIGURATION.number(NCCL_TRAFFIC) == Some(1)
}

/// Returns how many launches per second and communicator events shall time; 0 for none.
pub fn wanted_events() -> u32 {
    let wanted = CONFIGURATION.number(NCCL_EVENTS).unwrap_or(0);
    u32::try_from(wanted).unwrap_or(u32::MAX)
}

/// Returns false if the user forbids events, even where no other source of times exists.
pub fn allows_events() -> bool {
    CONFIGURATION.number(NCCL_EVENTS) != Some(0)
}

/// Returns the interval between samples of the system's counters; `None` if there shall be none.
pub fn counter_interval() -> Option<Duration> {
    match CONFIGURATION.number(COUNTERS) {
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds.min(3600))),
        None if CONFIGURATION
            .bytes(COUNTERS)
            .is_some_and(|value| value.trim_ascii() == b"off") =>
        {
            None
        }
        None => Some(Duration::from_secs(1)),
    }
}

/// Returns the number of this rank on its host, if the launcher has set it.
pub fn local_rank() -> Option<u64> {
    LOCAL_RANKS
        .into_iter()
        .find_map(|index| CONFIGURATION.number(index))
}

/// Returns the path of the CUPTI library to load if the program has loaded none.
pub fn cupti_path() -> Option<&'static CStr> {
    let value = CONFIGURATION.values[CUPTI].load(Ordering::Acquire);
    // SAFETY: the pointer is null or points to a NUL-terminated copy in a static, which never changes again.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value.cast()) })
}

/// Returns the directory for saved CUPTI records.
pub fn cupti_dump() -> Option<PathBuf> {
    CONFIGURATION.path(CUPTI_DUMP)
}

/// Returns true if the driver loads another tool. That tool then owns CUPTI.
pub fn has_other_injection() -> bool {
    CONFIGURATION
        .bytes(OTHER_INJECTION)
        .is_some_and(|path| !path.is_empty())
}

/// Returns how long a regular exit may wait for the log to be closed.
pub fn exit_wait() -> Duration {
    Duration::from_millis(CONFIGURATION.number(EXIT_WAIT_MS).unwrap_or(250))
}

/// Returns the redactor for the program's texts, with the user's names and key prefixes.
pub fn redactor() -> Redactor {
    let value = |index| {
        CONFIGURATION
            .bytes(index)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
    };
    Redactor::of(
        value(SECRET_NAMES).unwrap_or_default(),
        value(SECRET_PREFIXES).unwrap_or_default(),
    )
}

/// Returns the device activity to record, as the user wrote it (`RANKSCOPE_KERNELS`); `None` if unset or not UTF-8.
pub fn kernels() -> Option<&'static str> {
    std::str::from_utf8(CONFIGURATION.bytes(KERNELS)?).ok()
}
