//! Numbers of functions in CUPTI's two lists, by version.

use crate::bindings as cupti;

/// Exclusive upper bounds of the numbers that a version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionBounds {
    /// Bound for functions of the driver.
    pub driver: u32,
    /// Bound for functions of the runtime library.
    pub runtime: u32,
}

/// `CUPTI_API_VERSION`, `CUPTI_DRIVER_TRACE_CBID_SIZE` and `CUPTI_RUNTIME_TRACE_CBID_SIZE` in the headers of the
/// versions that can select functions (12.6, 12.8, 12.9, 13.0, 13.2, 13.5).
const BOUNDS: [(u32, FunctionBounds); 6] = [
    (
        24,
        FunctionBounds {
            driver: 763,
            runtime: 480,
        },
    ),
    (
        26,
        FunctionBounds {
            driver: 782,
            runtime: 487,
        },
    ),
    (
        28,
        FunctionBounds {
            driver: 784,
            runtime: 487,
        },
    ),
    (
        130_000,
        FunctionBounds {
            driver: 807,
            runtime: 523,
        },
    ),
    (
        130_201,
        FunctionBounds {
            driver: 846,
            runtime: 559,
        },
    ),
    (
        130_500,
        FunctionBounds {
            driver: 877,
            runtime: 567,
        },
    ),
];

/// Returns the bounds of the newest listed version that is not newer than this one; `None` for a version that cannot
/// select functions. A version between two listed ones may know a few more functions.
pub fn function_bounds(version: u32) -> Option<FunctionBounds> {
    let listed = BOUNDS.iter().rev().find(|(listed, _)| *listed <= version);
    listed.map(|(_, bounds)| *bounds)
}

// The last row is that of the bindings.
const _: () = {
    let (_, newest) = BOUNDS[BOUNDS.len() - 1];
    assert!(newest.driver == cupti::CUpti_driver_api_trace_cbid_enum::CUPTI_DRIVER_TRACE_CBID_SIZE.0);
    assert!(newest.runtime == cupti::CUpti_runtime_api_trace_cbid_enum::CUPTI_RUNTIME_TRACE_CBID_SIZE.0);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_between_two_listed_ones_has_the_bounds_of_the_older() {
        assert_eq!(function_bounds(23), None);
        assert_eq!(function_bounds(24), function_bounds(25));
        assert_eq!(function_bounds(130_001), Some(BOUNDS[3].1));
        assert_eq!(function_bounds(130_301), Some(BOUNDS[4].1));
        assert_eq!(function_bounds(u32::MAX), Some(BOUNDS[5].1));
    }
}
