//! Functions of NCCL (nccl.h).

use crate::data::DataType;
use crate::library::Library;
use anyhow::{Result, bail};
use rankscope_ranklog::nccl_version;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UniqueId {
    /// Its bytes.
    pub bytes: [u8; 128],
}

/// `ncclSum`.
pub const SUM: i32 = 0;

/// `ncclResult_t` of a call that is still in progress.
const IN_PROGRESS: i32 = 7;

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal: $type:ty;)*) => {
        /// Functions of a loaded library.
        #[derive(Clone, Debug)]
        pub struct Functions {
            library: Library,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Functions {
            /// Loads the library.
            pub fn load(path: &Path) -> Result<Self> {
                let library = Library::load(path)?;
                // SAFETY: the types are those of nccl.h, which has not changed them since 2.4.
                unsafe {
                    Ok(Self { $($field: library.function($name)?,)* library })
                }
            }
        }
    };
}

type Reducing =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, i32, i32, *mut c_void, *mut c_void) -> i32;

functions! {
    /// `ncclGetVersion(int*)`.
    get_version = "ncclGetVersion": unsafe extern "C" fn(*mut i32) -> i32;
    /// `ncclGetUniqueId(ncclUniqueId*)`.
    get_unique_id = "ncclGetUniqueId": unsafe extern "C" fn(*mut UniqueId) -> i32;
    /// `ncclCommInitRank(comm*, ranks, id, rank)`.
    comm_init_rank = "ncclCommInitRank": unsafe extern "C" fn(*mut *mut c_void, i32, UniqueId, i32) -> i32;
    /// `ncclCommDestroy(comm)`.
    comm_destroy = "ncclCommDestroy": unsafe extern "C" fn(*mut c_void) -> i32;
    /// `ncclCommAbort(comm)`.
    comm_abort = "ncclCommAbort": unsafe extern "C" fn(*mut c_void) -> i32;
    /// `ncclCommGetAsyncError(comm, error*)`.
    comm_error = "ncclCommGetAsyncError": unsafe extern "C" fn(*mut c_void, *mut i32) -> i32;
    /// `ncclAllReduce(send, receive, count, type, reduction, comm, stream)`.
    all_reduce = "ncclAllReduce": Reducing;
    /// `ncclReduceScatter(send, receive, count per rank, type, reduction, comm, stream)`.
    reduce_scatter = "ncclReduceScatter": Reducing;
    /// `ncclReduce(send, receive, count, type, reduction, root, comm, stream)`.
    reduce = "ncclReduce": unsafe extern "C" fn(*const c_void, *mut c_void, usize, i32, i32, i32, *mut c_void, *mut c_void) -> i32;
    /// `ncclBroadcast(send, receive, count, type, root, comm, stream)`.
    broadcast = "ncclBroadcast": unsafe extern "C" fn(*const c_void, *mut c_void, usize, i32, i32, *mut c_void, *mut c_void) -> i32;
    /// `ncclAllGather(send, receive, count per rank, type, comm, stream)`.
    all_gather = "ncclAllGather": unsafe extern "C" fn(*const c_void, *mut c_void, usize, i32, *mut c_void, *mut c_void) -> i32;
    /// `ncclSend(send, count, type, peer, comm, stream)`.
    send = "ncclSend": unsafe extern "C" fn(*const c_void, usize, i32, i32, *mut c_void, *mut c_void) -> i32;
    /// `ncclRecv(receive, count, type, peer, comm, stream)`.
    receive = "ncclRecv": unsafe extern "C" fn(*mut c_void, usize, i32, i32, *mut c_void, *mut c_void) -> i32;
    /// `ncclGroupStart()`.
    group_start = "ncclGroupStart": unsafe extern "C" fn() -> i32;
    /// `ncclGroupEnd()`.
    group_end = "ncclGroupEnd": unsafe extern "C" fn() -> i32;
}

impl Functions {
    /// Returns an error that names the call, unless its result is success.
    pub fn check(&self, call: &str, result: i32) -> Result<()> {
        if result == 0 || result == IN_PROGRESS {
            return Ok(());
        }
        bail!("{call} failed: {} ({result})", self.error_text(result));
    }

    fn error_text(&self, result: i32) -> String {
        // SAFETY: the function has this type (nccl.h), and returns a constant C string for every number.
        let text = unsafe {
            self.library
                .function::<unsafe extern "C" fn(i32) -> *const c_char>("ncclGetErrorString")
                .map(|text| CStr::from_ptr(text(result)))
        };
        text.map_or_else(
            |_| "unknown error".to_owned(),
            |text| text.to_string_lossy().into_owned(),
        )
    }

    /// Returns the version, for example `2.27.5`.
    pub fn version(&self) -> Option<String> {
        let mut number = 0;
        // SAFETY: the argument is valid memory.
        if unsafe { (self.get_version)(&raw mut number) } != 0 {
            return None;
        }
        let [major, minor, patch] = nccl_version::parts(u32::try_from(number).ok()?);
        Some(format!("{major}.{minor}.{patch}"))
    }

    /// Returns the loaded file.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        self.library.file_of("ncclGetVersion")
    }
}

/// Returns the number of a type (`ncclDataType_t`).
pub const fn number(data_type: DataType) -> i32 {
    match data_type {
        DataType::Uint8 => 1,
        DataType::Int32 => 2,
        DataType::Int64 => 4,
        DataType::Float16 => 6,
        DataType::Float32 => 7,
        DataType::Float64 => 8,
        DataType::Bfloat16 => 9,
    }
}
