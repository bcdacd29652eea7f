//! NCCL's version number (NCCL_VERSION of nccl.h).

/// Returns the parts of a version number: 22809 is 2.28.9. Up to 2.8, 2804 is 2.8.4.
pub const fn parts(number: u32) -> [u32; 3] {
    let (major, rest) = if number < 10_000 {
        (number / 1_000, number % 1_000)
    } else {
        (number / 10_000, number % 10_000)
    };
    [major, rest / 100, rest % 100]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_numbers_are_read() {
        assert_eq!(parts(22_809), [2, 28, 9]);
        assert_eq!(parts(20_905), [2, 9, 5]);
        assert_eq!(parts(2_804), [2, 8, 4]);
    }
}
