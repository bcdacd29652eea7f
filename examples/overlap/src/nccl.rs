//! A communicator of one rank.
//!
//! The program is not linked to NCCL. It resolves the name of NCCL's function by the dynamic linker, as a linked
//! program does. The result is the preloaded library, if there is one, and otherwise NCCL. (An address from the library
//! itself would bypass the recorder.)

use std::ffi::{CStr, CString, c_int, c_void};

/// `ncclUniqueId`, which is passed by value.
#[repr(C)]
struct UniqueId([u8; 128]);

type GetUniqueId = unsafe extern "C" fn(*mut UniqueId) -> c_int;
type InitRank = unsafe extern "C" fn(*mut *mut c_void, c_int, UniqueId, c_int) -> c_int;

fn find(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        Err(format!("{} is not there", name.to_string_lossy()))
    } else {
        Ok(found)
    }
}

/// Creates the communicator on the device of the current context, and keeps it until the process ends.
///
/// # Errors
/// If there is no such library, or it refuses.
pub fn join_alone(library: &str) -> Result<(), String> {
    let path = CString::new(library).map_err(|error| format!("{library}: {error}"))?;
    // SAFETY: the path ends with a zero byte. The library that the user names stays loaded, with global symbols.
    if unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null() {
        return Err(format!("{library} cannot be loaded"));
    }
    // SAFETY: NCCL's functions of these names have these signatures in every version.
    let (get_unique_id, init_rank) = unsafe {
        (
            std::mem::transmute::<*mut c_void, GetUniqueId>(find(c"ncclGetUniqueId")?),
            std::mem::transmute::<*mut c_void, InitRank>(find(c"ncclCommInitRank")?),
        )
    };
    let mut id = UniqueId([0; 128]);
    let mut communicator = std::ptr::null_mut();
    // SAFETY: the pointers are to locals, and a device is current.
    let results = unsafe {
        [
            get_unique_id(&raw mut id),
            init_rank(&raw mut communicator, 1, id, 0),
        ]
    };
    if results == [0, 0] {
        Ok(())
    } else {
        Err(format!("NCCL refuses: {results:?}"))
    }
}
