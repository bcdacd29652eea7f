//! Objects of the C++ standard library: the few layouts that never changed (libstdc++, Itanium C++ ABI).

/// Reads one value.
///
/// # Safety
/// `address + offset` must be readable and aligned for `T`.
#[inline]
pub unsafe fn read<T: Copy>(address: usize, offset: usize) -> T {
    // SAFETY: the caller guarantees a readable and aligned address.
    unsafe { std::ptr::read((address + offset) as *const T) }
}

/// Returns the bytes of a `std::vector<char>` or `std::vector<unsigned char>`, which consists of begin, end and
/// capacity.
///
/// # Safety
/// `vector` must point to such an object. It must be alive and unchanged while the slice is used.
#[inline]
pub unsafe fn vector_bytes<'a>(vector: usize) -> &'a [u8] {
    // SAFETY: the caller guarantees a live vector. libstdc++ and libc++ agree on its first two words, the begin and the
    // end of its elements.
    unsafe {
        let (begin, end): (usize, usize) = (read(vector, 0), read(vector, 8));
        if begin == 0 || end <= begin {
            &[]
        } else {
            std::slice::from_raw_parts(begin as *const u8, end - begin)
        }
    }
}

/// Returns the elements of a `std::vector<size_t>`, or of a vector of pointers.
///
/// # Safety
/// As for [`vector_bytes`].
#[inline]
pub unsafe fn vector_words<'a>(vector: usize) -> &'a [u64] {
    // SAFETY: the caller guarantees a live vector. Its first two words are the begin and the end of its elements.
    unsafe {
        let (begin, end): (usize, usize) = (read(vector, 0), read(vector, 8));
        if begin == 0 || end <= begin {
            &[]
        } else {
            std::slice::from_raw_parts(begin as *const u64, (end - begin) / 8)
        }
    }
}

/// Layout of the `std::string` in a mangled name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringLayout {
    /// `std::__cxx11::basic_string`: pointer, length.
    New,
    /// The reference-counted string of `_GLIBCXX_USE_CXX11_ABI=0` (`Ss`): one pointer, the length 24 bytes before it.
    Old,
}

impl StringLayout {
    /// Returns the size of a string object in bytes, for iterating over a vector of them.
    #[inline]
    pub const fn object_bytes(self) -> usize {
        match self {
            Self::New => 32,
            Self::Old => 8,
        }
    }

    /// Returns the characters of the string at `string`.
    ///
    /// # Safety
    /// `string` must point to a live string of this layout.
    #[inline]
    pub unsafe fn bytes<'a>(self, string: usize) -> &'a [u8] {
        // SAFETY: the caller guarantees a live string of this layout, so its data pointer and its length are valid.
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
