//! Mapping of PyTorch's names for operations and element types.

use rankscope_ranklog::{Library, Operation};

/// Returns the library before the colon of a range's name: `nccl:all_reduce`.
pub fn library(backend: &str) -> Option<Library> {
    match backend {
        "nccl" | "rccl" => Some(Library::Nccl),
        "gloo" => Some(Library::Gloo),
        _ => None,
    }
}

/// Returns the operation of a process group's name: `_all_gather_base`, `reduce_scatter_tensor_coalesced`,
/// `allreduce_`.
pub fn operation(word: &str) -> Option<Operation> {
    let plain: String = word.chars().filter(|&letter| letter != '_').collect();
    const BEGINNINGS: [(&str, Operation); 13] = [
        ("sparseallreduce", Operation::AllReduce),
        ("allreduce", Operation::AllReduce),
        ("broadcast", Operation::Broadcast),
        ("reducescatter", Operation::ReduceScatter),
        ("reduce", Operation::Reduce),
        ("allgather", Operation::AllGather),
        ("alltoall", Operation::AllToAll),
        ("barrier", Operation::Barrier),
        ("gather", Operation::Gather),
        ("scatter", Operation::Scatter),
        ("send", Operation::Send),
        ("recv", Operation::Receive),
        ("monitoredbarrier", Operation::Barrier),
    ];
    BEGINNINGS
        .iter()
        .find(|(beginning, _)| plain.starts_with(beginning))
        .map(|&(_, operation)| operation)
}

/// Returns the size of an element in bytes, from PyTorch's name of its type: `Float`, `float`, `c10::Half`.
pub fn element_bytes(name: &str) -> Option<u8> {
    let plain = name.strip_prefix("c10::").unwrap_or(name).to_ascii_lowercase();
    Some(match plain.as_str() {
        "complexdouble" | "complex<double>" => 16,
        "double" | "long" | "long int" | "unsigned long" | "uint64" | "complexfloat" | "complex<float>" => 8,
        "float" | "int" | "uint32" | "unsigned int" | "complexhalf" => 4,
        "half" | "bfloat16" | "short" | "short int" | "uint16" => 2,
        "byte" | "char" | "bool" | "signed char" | "unsigned char" | "qint8" | "quint8" => 1,
        other if other.starts_with("float8") => 1,
        _ => return None,
    })
}

/// Returns the peer in `send 0->3` or `recv 3<-0`, in the numbering of the process group.
pub fn peer(words: &str) -> Option<i32> {
    let (_, numbers) = words.split_once(' ')?;
    numbers.rsplit(['>', '-']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_process_groups_are_understood() {
        for (word, known) in [
            ("all_reduce", Operation::AllReduce),
            ("allreduce_coalesced", Operation::AllReduce),
            ("_all_gather_base", Operation::AllGather),
            ("all_gather_into_tensor_coalesced", Operation::AllGather),
            ("_reduce_scatter_base", Operation::ReduceScatter),
            ("_reduce_oop", Operation::Reduce),
            ("all_to_all", Operation::AllToAll),
            ("all_to_allv", Operation::AllToAll),
            ("send 0->1", Operation::Send),
            ("recv 1<-0", Operation::Receive),
        ] {
            assert_eq!(operation(word), Some(known), "{word}");
        }
        assert_eq!(operation("coalesced"), None);
        assert_eq!(operation("wait"), None);
        assert_eq!(
            (peer("send 0->12"), peer("recv 0<-3"), peer("send")),
            (Some(12), Some(3), None)
        );
        assert_eq!(element_bytes("c10::BFloat16"), Some(2));
        assert_eq!(element_bytes("signed char"), Some(1));
        assert_eq!(element_bytes("Float8_e4m3fn"), Some(1));
        assert_eq!(element_bytes("thing"), None);
    }
}
