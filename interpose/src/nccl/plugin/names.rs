//! The library's names of functions, types, algorithms and protocols, and its numbers for them in version 1.
//!
//! Source: `ncclFuncToString`, `ncclDatatypeToString`, `ncclAlgoToString`, `ncclProtoToString` (src/collectives.cc of
//! NCCL 2.30.7) and, for version 1, `ncclFunc_t` of NCCL 2.23.

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Algorithm, Protocol};
use std::ffi::{CStr, c_char};

/// Looks a name up in a table.
///
/// # Safety
/// `text` must be null or a C string.
unsafe fn found<T: Copy>(text: *const c_char, table: &[(&CStr, T)]) -> Option<T> {
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` is not null, so the caller guarantees a C string.
    let text = unsafe { CStr::from_ptr(text) };
    table
        .iter()
        .find(|(word, _)| *word == text)
        .map(|&(_, meaning)| meaning)
}

const OPERATIONS: [(&CStr, Operation); 13] = [
    (c"AllReduce", Operation::AllReduce),
    (c"AllGather", Operation::AllGather),
    (c"ReduceScatter", Operation::ReduceScatter),
    (c"Send", Operation::Send),
    (c"Recv", Operation::Receive),
    (c"Broadcast", Operation::Broadcast),
    (c"Reduce", Operation::Reduce),
    (c"AlltoAll", Operation::AllToAll),
    (c"Gather", Operation::Gather),
    (c"Scatter", Operation::Scatter),
    (c"PutSignal", Operation::Put),
    (c"Signal", Operation::Signal),
    (c"WaitSignal", Operation::WaitSignal),
];

const ELEMENT_BYTES: [(&CStr, u8); 12] = [
    (c"ncclFloat32", 4),
    (c"ncclBfloat16", 2),
    (c"ncclFloat16", 2),
    (c"ncclInt8", 1),
    (c"ncclUint8", 1),
    (c"ncclInt32", 4),
    (c"ncclUint32", 4),
    (c"ncclInt64", 8),
    (c"ncclUint64", 8),
    (c"ncclFloat64", 8),
    (c"ncclFloat8e4m3", 1),
    (c"ncclFloat8e5m2", 1),
];

const ALGORITHMS: [(&CStr, Algorithm); 7] = [
    (c"RING", Algorithm::Ring),
    (c"TREE", Algorithm::Tree),
    (c"NVLS", Algorithm::Nvls),
    (c"NVLS_TREE", Algorithm::NvlsTree),
    (c"COLLNET_DIRECT", Algorithm::CollnetDirect),
    (c"COLLNET_CHAIN", Algorithm::CollnetChain),
    (c"PAT", Algorithm::Pat),
];

const PROTOCOLS: [(&CStr, Protocol); 3] = [
    (c"LL", Protocol::Ll),
    (c"LL128", Protocol::Ll128),
    (c"SIMPLE", Protocol::Simple),
];

/// Returns the operation of a function's name.
///
/// # Safety
/// `text` must be null or a C string.
pub unsafe fn operation(text: *const c_char) -> Option<Operation> {
    // SAFETY: the caller guarantees null or a C string.
    unsafe { found(text, &OPERATIONS) }
}

/// Returns the bytes of an element; 0 for a type that has no name here.
///
/// # Safety
/// `text` must be null or a C string.
pub unsafe fn element_bytes(text: *const c_char) -> u8 {
    // SAFETY: the caller guarantees null or a C string.
    unsafe { found(text, &ELEMENT_BYTES) }.unwrap_or(0)
}

/// Returns the algorithm of a name.
///
/// # Safety
/// `text` must be null or a C string.
pub unsafe fn algorithm(text: *const c_char) -> Algorithm {
    // SAFETY: the caller guarantees null or a C string.
    unsafe { found(text, &ALGORITHMS) }.unwrap_or(Algorithm::Unknown)
}

/// Returns the protocol of a name.
///
/// # Safety
/// `text` must be null or a C string.
pub unsafe fn protocol(text: *const c_char) -> Protocol {
    // SAFETY: the caller guarantees null or a C string.
    unsafe { found(text, &PROTOCOLS) }.unwrap_or(Protocol::Unknown)
}

/// Returns the operation of an `ncclFunc_t`, which version 1 passes.
pub fn operation_by_number(number: u8) -> Option<Operation> {
    Some(match number {
        0 => Operation::Broadcast,
        1 => Operation::Reduce,
        2 => Operation::AllGather,
        3 => Operation::ReduceScatter,
        4 => Operation::AllReduce,
        6 => Operation::Send,
        7 => Operation::Receive,
        _ => return None,
    })
}

/// Returns the algorithm of an `NCCL_ALGO_*`, which version 1 passes.
pub fn algorithm_by_number(number: u8) -> Algorithm {
    match number {
        0 => Algorithm::Tree,
        1 => Algorithm::Ring,
        2 => Algorithm::CollnetDirect,
        3 => Algorithm::CollnetChain,
        4 => Algorithm::Nvls,
        5 => Algorithm::NvlsTree,
        6 => Algorithm::Pat,
        _ => Algorithm::Unknown,
    }
}

/// Returns the protocol of an `NCCL_PROTO_*`, which version 1 passes.
pub fn protocol_by_number(number: u8) -> Protocol {
    match number {
        0 => Protocol::Ll,
        1 => Protocol::Ll128,
        2 => Protocol::Simple,
        _ => Protocol::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_later_versions_and_missing_words_are_unknown() {
        // SAFETY: the arguments are static C strings or null.
        unsafe {
            assert_eq!(operation(c"Recv".as_ptr()), Some(Operation::Receive));
            assert_eq!(operation(c"AllGatherV".as_ptr()), None);
            assert_eq!(operation(std::ptr::null()), None);
            assert_eq!(algorithm(c"NVLS_TREE".as_ptr()), Algorithm::NvlsTree);
            assert_eq!(protocol(c"LL256".as_ptr()), Protocol::Unknown);
            assert_eq!(element_bytes(c"ncclBfloat16".as_ptr()), 2);
            assert_eq!(element_bytes(c"Unknown".as_ptr()), 0);
        }
    }
}
