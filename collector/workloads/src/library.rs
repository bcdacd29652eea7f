//! Loads a library so that a preloaded `librankscope.so` sees the calls.

use anyhow::{Result, bail};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Library in the global scope of this process. It is never unloaded.
#[derive(Clone, Debug)]
pub struct Library {
    handle: *mut c_void,
    /// Path by which it was loaded.
    path: PathBuf,
}

impl Library {
    /// Loads a library, by its path or by a name that the loader searches.
    pub fn load(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // In the global scope its functions are found behind those of preloaded libraries, as in a program that is
        // linked to it.
        // SAFETY: initialisers of the library run. It is one that training jobs load, too.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            bail!("cannot load {}: {}", path.display(), last_error());
        }
        Ok(Self {
            handle,
            path: path.to_owned(),
        })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address of a symbol, as a program that is linked to the library gets it: a preloaded hook first.
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        lookup(libc::RTLD_DEFAULT, name)
    }

    /// Returns the address of a symbol in this library or its dependencies.
    pub fn own_symbol(&self, name: &str) -> Option<*mut c_void> {
        lookup(self.handle, name)
    }

    /// Returns a function.
    ///
    /// # Safety
    /// `F` must be the type of a function pointer with the signature of this function.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        const { assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>()) };
        let Some(address) = self.symbol(name) else {
            bail!("{} has no function {name}", self.path.display());
        };
        // SAFETY: the caller guarantees that `F` is the type of this function. It has the size of an address.
        Ok(unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// Returns the file that contains a symbol of this library. It may be a dependency.
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let address = self.own_symbol(name)?;
        let mut info = mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `info` is written if the call succeeds. The name in it is a C string that lives as long as the library.
        unsafe {
            if libc::dladdr(address, info.as_mut_ptr()) == 0 {
                return None;
            }
            let file = CStr::from_ptr(info.assume_init().dli_fname);
            Some(PathBuf::from(OsStr::from_bytes(file.to_bytes())))
        }
    }
}

fn lookup(handle: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: the handle is that of a loaded library or RTLD_DEFAULT.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that is valid until the next call of this thread.
    unsafe {
        let error = libc::dlerror();
        if error.is_null() {
            "unknown reason".to_owned()
        } else {
            CStr::from_ptr(error).to_string_lossy().into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named() {
        let error = Library::load(Path::new("libnothing-of-this-name.so.7")).expect_err("missing");
        assert!(
            error.to_string().contains("libnothing-of-this-name.so.7"),
            "{error}"
        );
    }
}
