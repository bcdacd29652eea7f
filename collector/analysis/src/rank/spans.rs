//! Kinds and names of the spans next to operations.

use super::event::{GroupEnd, Memory};
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::SpanKind;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{BlockedIn, MemoryCall};

/// Returns the kind of span for a blocked thread.
pub fn blocked_kind(place: Option<BlockedIn>) -> SpanKind {
    match place {
        Some(BlockedIn::WorkWait) | None => SpanKind::WorkWait,
        Some(BlockedIn::SendWait) => SpanKind::SendWait,
        Some(BlockedIn::ReceiveWait) => SpanKind::ReceiveWait,
        Some(BlockedIn::ReducerFinalize) => SpanKind::ReducerFinalize,
        Some(BlockedIn::ProcessGroup) => SpanKind::ProcessGroup,
    }
}

/// Returns the kind of span for a thread that waits for one of its messages.
pub fn completing_kind(operation: Option<Operation>) -> SpanKind {
    if operation == Some(Operation::Send) {
        SpanKind::SendWait
    } else {
        SpanKind::ReceiveWait
    }
}

/// Describes the failed end of a group; `None` if it did not fail.
pub fn group_failure(end: &GroupEnd) -> Option<String> {
    end.has_failed
        .then(|| format!("the end of a group returned {}", end.code))
}

/// Describes a failure that the library reported after a call. The index is that of the communicator in the session.
pub fn failure(code: u32, communicator: Option<CommunicatorId>) -> String {
    match communicator {
        Some(index) => format!("error {code} on communicator {index}"),
        None => format!("error {code} on communicator unknown"),
    }
}

/// Describes a call that allocated, registered or released memory.
pub fn memory_call(memory: &Memory) -> String {
    let name = match memory.call {
        Some(MemoryCall::Allocate) => "allocate",
        Some(MemoryCall::Free) => "free",
        Some(MemoryCall::Register) => "register",
        Some(MemoryCall::Deregister) => "deregister",
        Some(MemoryCall::RegisterWindow) => "register window",
        Some(MemoryCall::DeregisterWindow) => "deregister window",
        Some(MemoryCall::Suspend) => "suspend",
        Some(MemoryCall::Resume) => "resume",
        None => "memory",
    };
    let mut text = name.to_owned();
    if memory.bytes > 0 {
        text += &format!(", {} bytes", memory.bytes);
    }
    if memory.has_failed {
        text += &format!(": returned {}", memory.code);
    }
    text
}
