//! `ncclDataType_t`.

/// Bytes per element by the number of the type (nccl.h, `ncclInt8` to `ncclFloat8e5m2`).
const BYTES: [u8; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

/// Returns the bytes of one element; 0 for a type of a later version.
#[inline]
pub fn element_bytes(data_type: u32) -> u8 {
    BYTES.get(data_type as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_equal_those_of_the_header() {
        // ncclFloat16, ncclFloat32, ncclBfloat16, ncclFloat8e4m3, and the first number after the last type.
        assert_eq!([6, 7, 9, 10, 12].map(element_bytes), [2, 4, 2, 1, 0]);
        assert_eq!(element_bytes(u32::MAX), 0);
    }
}
