//! A thread in which a C++ exception ends the process with its message.
//!
//! Rust cannot catch a C++ exception. A Rust thread would abort without naming it. In a thread of the C library nothing
//! catches it either, so `std::terminate` prints its type and its text.

use anyhow::{Result, bail};
use std::ffi::c_void;
use std::{mem, ptr};

/// Runs a function in such a thread, and returns its result.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    struct Shared<F, T> {
        work: Option<F>,
        result: Option<T>,
    }
    extern "C-unwind" fn start<F: FnOnce() -> T, T>(shared: *mut c_void) -> *mut c_void {
        // SAFETY: `run` passes its own value, which lives until this thread has ended.
        let shared = unsafe { &mut *shared.cast::<Shared<F, T>>() };
        if let Some(work) = shared.work.take() {
            shared.result = Some(work());
        }
        ptr::null_mut()
    }
    fn typed<F: FnOnce() -> T, T>(_: &Shared<F, T>) -> extern "C-unwind" fn(*mut c_void) -> *mut c_void {
        start::<F, T>
    }
    let mut shared = Shared {
        work: Some(work),
        result: None,
    };
    let entry = typed(&shared);
    let mut thread = mem::MaybeUninit::uninit();
    // SAFETY: both types are pointers to a function with the same arguments. They differ in unwinding only, which the C
    // library does not depend on. The argument outlives the thread, because this function waits for it.
    unsafe {
        type Entry = extern "C" fn(*mut c_void) -> *mut c_void;
        let entry: Entry = mem::transmute::<extern "C-unwind" fn(*mut c_void) -> *mut c_void, Entry>(entry);
        let error = libc::pthread_create(thread.as_mut_ptr(), ptr::null(), entry, (&raw mut shared).cast());
        if error != 0 {
            bail!(
                "cannot start a thread: {}",
                std::io::Error::from_raw_os_error(error)
            );
        }
        libc::pthread_join(thread.assume_init(), ptr::null_mut());
    }
    match shared.result {
        Some(result) => Ok(result),
        None => bail!("the thread ended without a result"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_result_comes_back() {
        let text = String::from("here");
        assert_eq!(super::run(|| text.len()).expect("run"), 4);
    }
}
