//! The loader's cache of libraries, `/etc/ld.so.cache`, in glibc's format (elf/cache.c, `dl-cache.h`).

/// Start of the format that glibc has written since 2.2. Older parts may come before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Size of the header, in bytes: magic, number of entries, size of the strings, and reserved words.
const HEADER_BYTES: usize = 48;
/// Size of an entry, in bytes: flags, offsets of name and path, and hardware capabilities.
const ENTRY_BYTES: usize = 24;
/// Maximum number of entries that are read.
const MAX_ENTRIES: usize = 65_536;
/// Flags of a library for this processor: x86-64 or aarch64, both for glibc.
const OUR_FLAGS: u32 = if cfg!(target_arch = "aarch64") {
    0x0a03
} else {
    0x0303
};

/// Library in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Name by which programs request it.
    pub name: String,
    /// Path of its file.
    pub path: String,
}

/// Returns the libraries for this processor, in the order of the cache. Entries that are out of bounds are left out.
pub fn parse(bytes: &[u8]) -> Vec<Cached> {
    let Some(start) = memchr::memmem::find(bytes, MAGIC) else {
        return Vec::new();
    };
    // Offsets count from the start of this format's part.
    let part = &bytes[start..];
    let u32_at = |at: usize| -> Option<u32> {
        let bytes = part.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let text_at = |at: u32| -> Option<String> {
        let rest = part.get(usize::try_from(at).ok()?..)?;
        let end = memchr::memchr(0, rest.get(..4096).unwrap_or(rest))?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let count = u32_at(MAGIC.len()).unwrap_or(0) as usize;
    (0..count.min(MAX_ENTRIES))
        .map_while(|index| {
            let at = HEADER_BYTES + index * ENTRY_BYTES;
            Some((u32_at(at)?, u32_at(at + 4)?, u32_at(at + 8)?))
        })
        .filter(|(flags, _, _)| *flags == OUR_FLAGS)
        .filter_map(|(_, name, path)| {
            Some(Cached {
                name: text_at(name)?,
                path: text_at(path)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((entries.len() as u32).to_le_bytes());
        out.resize(HEADER_BYTES, 0);
        let mut strings = Vec::new();
        let base = HEADER_BYTES + entries.len() * ENTRY_BYTES;
        for (flags, name, path) in entries {
            out.extend(flags.to_le_bytes());
            for text in [name, path] {
                out.extend(((base + strings.len()) as u32).to_le_bytes());
                strings.extend_from_slice(text.as_bytes());
                strings.push(0);
            }
            out.extend([0; 12]);
        }
        out.extend(strings);
        out
    }

    #[test]
    fn libraries_of_this_processor_are_found() {
        let bytes = cache(&[
            (OUR_FLAGS, "libnccl.so.2", "/opt/libnccl.so.2"),
            (3, "libnccl.so.2", "/opt/32/libnccl.so.2"),
        ]);
        let found = parse(&bytes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "/opt/libnccl.so.2");
        assert!(parse(&bytes[..60]).is_empty());
    }

    #[test]
    fn the_cache_of_this_machine_has_the_c_library() {
        let Ok(bytes) = std::fs::read("/etc/ld.so.cache") else {
            return;
        };
        assert!(parse(&bytes).iter().any(|cached| cached.name == "libc.so.6"));
    }
}
