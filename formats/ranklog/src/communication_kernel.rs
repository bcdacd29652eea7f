//! Classification of kernels of communication libraries by their names (METRICS.md, section 5).
//!
//! The recorder, which may keep only these kernels, and the merge, which classifies recorded kernels, use the same
//! rule.

/// Prefixes of kernel names of NCCL, old and new, and of RCCL.
const BEGINNINGS: [&[u8]; 4] = [b"ncclKernel_", b"ncclDevKernel_", b"ncclSymk", b"rccl"];

/// Returns the name from its first identifier on. In mangled names a length precedes it.
pub fn unmangled_beginning(name: &[u8]) -> &[u8] {
    let behind = name.strip_prefix(b"_Z").unwrap_or(name);
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &behind[digits..]
}

/// Returns true for kernels of NCCL and RCCL, mangled or not.
pub fn is_communication(name: &[u8]) -> bool {
    let plain = unmangled_beginning(name);
    BEGINNINGS.iter().any(|beginning| plain.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_communication_are_recognised_by_their_names() {
        for name in [
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "_Z38ncclSymkDevKernel_AllGather_LL19ncclSymkDevWorkArgs",
            "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
            "rcclKernel",
        ] {
            assert!(is_communication(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "_Z",
            "_Z3foov",
            "_ZN2at6nccl3addE",
            "my_nccl_kernel",
            "ampere_sgemm_128x64",
        ] {
            assert!(!is_communication(name.as_bytes()), "{name}");
        }
    }
}
