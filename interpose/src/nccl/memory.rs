//! Memory for communication: it is allocated, registered, and released while a communicator is suspended.

use super::result;
use crate::core::communicators;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, MemoryCall, NO_COMMUNICATOR, Record, RecordKind};
use std::cell::Cell;

/// Positions of the arguments that are recorded.
struct Roles {
    call: MemoryCall,
    communicator: Option<usize>,
    bytes: Option<usize>,
    /// Position of the address or handle itself.
    object: Option<usize>,
}

/// Hook of a function with these roles. It records a `Memory` call when the real call returns.
fn record(roles: &Roles, call: RealCall<'_, Narrow>) -> Returned {
    let arguments = call.arguments();
    let enter_ticks = ticks();
    let thread = thread::state();
    if thread.nccl.depth.get() > 0 {
        return call.forward();
    }
    // The registration of a window also registers its buffer. The program made only one call.
    thread.nccl.depth.set(1);
    let inside = Inside(&thread.nccl.depth);
    let returned = call.forward();
    drop(inside);
    let outcome = returned.as_u32();
    let at = |position: Option<usize>| position.map_or(0, |position| arguments[position] as u64);
    let record = Record {
        flags: if result::is_fine(outcome) { 0 } else { FLAG_FAILED },
        enter_ticks,
        leave_ticks: ticks(),
        bytes: at(roles.bytes),
        object: at(roles.object),
        communicator: roles
            .communicator
            .and_then(|position| communicators::find(arguments[position]))
            .map_or(NO_COMMUNICATOR, communicators::Entry::index),
        tag: outcome,
        aux: roles.call as u64,
        ..Record::new(RecordKind::Memory)
    };
    life::commit(&thread.lane, &record);
    returned
}

/// Resets the nesting depth when the call returns, and also when an exception leaves it.
struct Inside<'a>(&'a Cell<u32>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

macro_rules! memory_calls {
    ($($(#[$doc:meta])* $name:ident = $call:ident, communicator $communicator:expr, bytes $bytes:expr, object $object:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(call: RealCall<'_, Narrow>) -> Returned {
            let roles = Roles {
                call: MemoryCall::$call,
                communicator: $communicator,
                bytes: $bytes,
                object: $object,
            };
            record(&roles, call)
        }
    )*};
}

memory_calls! {
    /// `ncclMemAlloc(where, bytes)`
    allocate = Allocate, communicator None, bytes Some(1), object None;
    /// `ncclMemFree(address)`
    free = Free, communicator None, bytes None, object Some(0);
    /// `ncclCommRegister(communicator, buffer, bytes, handle)`
    register = Register, communicator Some(0), bytes Some(2), object Some(1);
    /// `ncclCommDeregister(communicator, handle)`
    deregister = Deregister, communicator Some(0), bytes None, object Some(1);
    /// `ncclCommWindowRegister(communicator, buffer, bytes, window, flags)`
    register_window = RegisterWindow, communicator Some(0), bytes Some(2), object Some(1);
    /// `ncclCommWindowDeregister(communicator, window)`
    deregister_window = DeregisterWindow, communicator Some(0), bytes None, object Some(1);
    /// `ncclCommSuspend(communicator, flags)`
    suspend = Suspend, communicator Some(0), bytes None, object None;
    /// `ncclCommResume(communicator)`
    resume = Resume, communicator Some(0), bytes None, object None;
}
