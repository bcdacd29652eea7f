//! The 64-bit FNV-1a hash. It does not depend on the version or the machine, so names of files and runs can contain it.
//!
//! The constants are those of its authors (Fowler, Noll and Vo).

/// An incremental hash.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds bytes to the hash.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Returns the hash of all bytes so far.
    pub fn hash(self) -> u64 {
        self.0
    }
}

/// Returns the hash of `bytes`.
pub fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.add(bytes);
    hash.hash()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        let mut parts = Fnv::default();
        parts.add(b"foo");
        parts.add(b"bar");
        assert_eq!(parts.hash(), fnv(b"foobar"));
    }
}
