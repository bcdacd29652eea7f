//! Objects of the C++ standard library that Rust makes for Gloo, as libstdc++ lays them out (Itanium C++ ABI).

use rankscope_gloo_abi::memory::StringLayout;
use std::ffi::c_void;
use std::ptr;

/// A string that C++ may read and copy, but not change or free.
#[derive(Debug)]
pub struct Text {
    object: Box<[usize; 4]>,
    /// Length, capacity and count of the old layout, then the characters and a null.
    _content: Vec<u64>,
}

impl Text {
    /// Makes a string.
    pub fn new(layout: StringLayout, text: &str) -> Self {
        const HEADER: usize = 3;
        let mut content = vec![0u64; HEADER + text.len() / 8 + 1];
        content[0] = text.len() as u64;
        content[1] = text.len() as u64;
        // A negative count forbids that a copy shares the characters.
        content[2] = u64::from(u32::MAX);
        let characters = content[HEADER..].as_mut_ptr().cast::<u8>();
        // SAFETY: the content has room for the text and a null.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), characters, text.len()) };
        let object = match layout {
            StringLayout::New => [characters as usize, text.len(), text.len(), 0],
            StringLayout::Old => [characters as usize, 0, 0, 0],
        };
        Self {
            object: Box::new(object),
            _content: content,
        }
    }

    /// Returns the address of the object.
    pub fn address(&self) -> *const c_void {
        self.object.as_ptr().cast()
    }

    /// Returns the words of the object, for a struct that contains the string. The struct must not outlive `self`.
    pub fn words(&self) -> [usize; 4] {
        *self.object
    }
}

/// `std::shared_ptr`: the object and its control block. Without a control block nothing is counted and nothing freed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedPointer {
    /// Address of the object.
    pub object: *mut c_void,
    /// Control block; null if Rust owns the object.
    pub control: *mut c_void,
}

impl SharedPointer {
    /// Returns a pointer to an object that Rust owns.
    pub fn borrowed(object: *mut c_void) -> Self {
        Self {
            object,
            control: ptr::null_mut(),
        }
    }

    /// Returns a null pointer, for a function to fill.
    pub fn null() -> Self {
        Self::borrowed(ptr::null_mut())
    }
}

/// `std::vector`: begin, end, end of the capacity.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Vector {
    /// First element.
    pub begin: *mut c_void,
    /// Behind the last element.
    pub end: *mut c_void,
    /// Behind the capacity.
    pub limit: *mut c_void,
}

/// `std::function`: the captured data, and the functions that manage and call it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Function {
    captured: [usize; 2],
    manage: Option<unsafe extern "C-unwind" fn(*mut [usize; 2], *const [usize; 2], u32) -> bool>,
    call: *const c_void,
}

impl Function {
    /// Returns a function without captured data. `call` must have the signature of `_Function_handler::_M_invoke`: the
    /// captured data, then a reference to each argument.
    pub fn plain(call: *const c_void) -> Self {
        Self {
            captured: [0; 2],
            manage: Some(manage),
            call,
        }
    }
}

/// Copies and destroys a function without captured data: nothing is to be done.
unsafe extern "C-unwind" fn manage(to: *mut [usize; 2], from: *const [usize; 2], operation: u32) -> bool {
    const CLONE: u32 = 2;
    if operation == CLONE {
        // SAFETY: libstdc++ passes two functions' data.
        unsafe { *to = *from };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_back_in_both_layouts() {
        for layout in [StringLayout::New, StringLayout::Old] {
            for text in [
                "",
                "short",
                "a text that is longer than the buffer of a small string",
            ] {
                let made = Text::new(layout, text);
                // SAFETY: the string lives.
                let read = unsafe { layout.bytes(made.address() as usize) };
                assert_eq!(read, text.as_bytes(), "{layout:?}");
            }
        }
    }
}
