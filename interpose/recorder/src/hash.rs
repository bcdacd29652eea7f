//! A 128-bit hash that is equal on every machine and in every version, because identities are compared across ranks.

/// FNV-1a with 128 bits (Fowler, Noll, Vo: draft-eastlake-fnv), fed in pieces. It does not protect against adversaries:
/// the keys and addresses of a store come from the job itself.
#[derive(Clone, Copy)]
pub struct Hash128(u128);

impl Default for Hash128 {
    fn default() -> Self {
        Self::new()
    }
}

impl Hash128 {
    /// Returns the hash of the empty string.
    pub const fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds the length of the bytes and then the bytes, so that different splits into pieces give different hashes.
    pub const fn add(mut self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_le_bytes();
        self = self.fold(&length);
        self.fold(bytes)
    }

    const fn fold(mut self, bytes: &[u8]) -> Self {
        let mut at = 0;
        while at < bytes.len() {
            self.0 = (self.0 ^ bytes[at] as u128).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
            at += 1;
        }
        self
    }

    /// Returns the hash value.
    pub const fn finish(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // Test vectors of the draft: the empty string and "a".
        assert_eq!(
            u128::from_le_bytes(Hash128::new().finish()),
            0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        );
        assert_eq!(
            u128::from_le_bytes(Hash128::new().fold(b"a").finish()),
            0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964
        );
    }

    #[test]
    fn borders_between_pieces_change_the_hash() {
        assert_ne!(
            Hash128::new().add(b"ab").add(b"c").finish(),
            Hash128::new().add(b"a").add(b"bc").finish()
        );
    }
}
