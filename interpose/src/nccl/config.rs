//! `ncclConfig_t`. Only its name for display is read.

use std::ffi::c_char;

/// `magic` of every version.
const MAGIC: u32 = 0xCAFE_BEEF;
/// Offset of the name, since NCCL 2.27 (nccl.h, `ncclConfig_v22700`). A shorter configuration has no name.
const NAME_OFFSET: usize = 48;
/// Maximum length of a name, in bytes. Longer names are truncated.
pub const NAME_BYTES: usize = 64;

/// Returns the name of a communicator that is created with this configuration; empty if it has none.
///
/// # Safety
/// `config` must be null or point to an `ncclConfig_t` of any version, which contains its own size.
pub unsafe fn name(config: usize) -> ([u8; NAME_BYTES], usize) {
    let mut name = [0; NAME_BYTES];
    let mut length = 0;
    if config == 0 {
        return (name, length);
    }
    // SAFETY: `config` is not null. Every version starts with its size and the magic, and is as long as its size says.
    // The name is null or a NUL-terminated string of the program, valid during its call.
    unsafe {
        let base = config as *const u8;
        let size = base.cast::<usize>().read_unaligned();
        let magic = base.add(8).cast::<u32>().read_unaligned();
        if magic != MAGIC || size < NAME_OFFSET + size_of::<usize>() || size > 4096 {
            return (name, length);
        }
        let text = base.add(NAME_OFFSET).cast::<*const c_char>().read_unaligned();
        if text.is_null() {
            return (name, length);
        }
        while length < NAME_BYTES && *text.add(length) != 0 {
            name[length] = *text.add(length) as u8;
            length += 1;
        }
    }
    (name, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(size: usize, magic: u32, text: *const c_char) -> [u64; 16] {
        let mut words = [0u64; 16];
        words[0] = size as u64;
        words[1] = u64::from(magic);
        words[6] = text as u64;
        words
    }

    #[test]
    fn a_name_is_read_only_if_it_exists() {
        let text = c"tensor parallel".as_ptr();
        for (config, expected) in [
            (config(56, MAGIC, text), &b"tensor parallel"[..]),
            (config(48, MAGIC, text), b""),
            (config(56, 1, text), b""),
            (config(56, MAGIC, std::ptr::null()), b""),
        ] {
            // SAFETY: the array has the layout of the header and is longer than the size that it contains.
            let (name, length) = unsafe { name(config.as_ptr() as usize) };
            assert_eq!(&name[..length], expected);
        }
        // SAFETY: null is an allowed argument.
        assert_eq!(unsafe { name(0) }.1, 0);
    }
}
