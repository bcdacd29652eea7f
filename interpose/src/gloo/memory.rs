//! Reads C++ objects of the intercepted library: the few layouts of the C++ standard library that never changed.

/// Reads one word.
///
/// # Safety
/// `address + offset` must be readable and aligned for `T`.
#[inline]
pub unsafe fn read<T: Copy>(address: usize, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::read((address + offset) as *const T) }
}

/// The bytes of a `std::vector<char>` or `std::vector<unsigned char>`: begin, end, capacity.
///
/// # Safety
/// `vector` must point to such an object that lives and is not changed while the slice is used.
pub unsafe fn vector_bytes<'a>(vector: usize) -> &'a [u8] {
    // SAFETY: the caller's promise; libstdc++ and libc++ agree on the first two words.
    unsafe {
        let (begin, end): (usize, usize) = (read(vector, 0), read(vector, 8));
        if begin == 0 || end <= begin {
            &[]
        } else {
            std::slice::from_raw_parts(begin as *const u8, end - begin)
        }
    }
}

/// The elements of a `std::vector<size_t>` (or of pointers).
///
/// # Safety
/// As for [`vector_bytes`].
#[inline]
pub unsafe fn vector_words<'a>(vector: usize) -> &'a [u64] {
    // SAFETY: the caller's promise.
    unsafe {
        let (begin, end): (usize, usize) = (read(vector, 0), read(vector, 8));
        if begin == 0 || end <= begin {
            &[]
        } else {
            std::slice::from_raw_parts(begin as *const u64, (end - begin) / 8)
        }
    }
}

/// Which `std::string` a mangled name speaks of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StringLayout {
    /// `std::__cxx11::basic_string`: pointer, length.
    New,
    /// The reference-counted string of `_GLIBCXX_USE_CXX11_ABI=0` (`Ss`): one pointer, the length 24 bytes before it.
    Old,
}

impl StringLayout {
    /// Bytes of a string object, for walking a vector of them.
    pub const fn object_bytes(self) -> usize {
        match self {
            Self::New => 32,
            Self::Old => 8,
        }
    }

    /// The characters of the string at `string`.
    ///
    /// # Safety
    /// `string` must point to a live string of this layout.
    pub unsafe fn bytes<'a>(self, string: usize) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe {
            let data: usize = read(string, 0);
            let length: usize = match self {
                Self::New => read(string, 8),
                Self::Old => read(data - 24, 0),
            };
            std::slice::from_raw_parts(data as *const u8, length)
        }
    }
}
