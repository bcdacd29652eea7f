//! Gloo contexts: an entry when one is constructed, an identity when it is connected or created from another one.
//!
//! Option structs contain the pointer that `gloo::Context`'s own constructor sees. In PyTorch 2.15 that base class has
//! no virtual table, and is located eight bytes into `gloo::rendezvous::Context`.

use crate::core::communicators;
use crate::core::communicators::Identity;
use crate::core::hash::Hash128;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::{Narrow, Object};
use crate::thread;
use rankscope_gloo_abi::memory::read;
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::IdentitySource;

/// Hook of `gloo::Context::Context(int rank, int size, int base)`. It adds an entry for the context.
pub fn constructed(call: RealCall<'_, Narrow>) -> Returned {
    let arguments = call.arguments();
    let result = call.forward();
    let (rank, size) = (arguments[1] as i32, arguments[2] as i32);
    communicators::created(
        arguments[0],
        u32::try_from(rank).unwrap_or(0),
        u32::try_from(size).unwrap_or(0),
    );
    let thread = thread::state();
    if thread.gloo.forking.get() > 0 {
        thread.gloo.forked_context.set(arguments[0]);
    }
    result
}

/// Hook of `gloo::Context::~Context()`. It removes the entry first: after the real destructor, another context may have
/// the same address.
pub fn destroyed(call: RealCall<'_, Narrow>) -> Returned {
    communicators::removed(call.arguments()[0]);
    call.forward()
}

/// Hook of `gloo::rendezvous::ContextFactory::makeContext(device)`, which creates a context from another one without a
/// store. It defines the new context. All members call it in the same order, so the identity consists of the parent's
/// and an ordinal.
pub fn created_from_another(call: RealCall<'_, Object>) -> Returned {
    if !life::is_on() {
        return call.forward();
    }
    let thread = thread::state();
    thread.gloo.forked_context.set(0);
    thread.gloo.forking.set(thread.gloo.forking.get() + 1);
    let unforking = Unforking(thread);
    let [_, factory, ..] = call.arguments().0;
    let result = call.forward();
    drop(unforking);
    let child = thread.gloo.forked_context.get();
    // SAFETY: the factory is `this`. It is alive during the call, and its first member is a shared_ptr to the parent.
    let parent = communicators::find(unsafe { read(factory, 0) });
    if let Some(parent) = parent
        && let Some(identity) = parent.identity()
        && child != 0
    {
        let ordinal = parent.next_child();
        communicators::define(
            child,
            &Identity {
                value: Hash128::new()
                    .add(b"gloo fork")
                    .add(&identity)
                    .add(&ordinal.to_le_bytes())
                    .finish(),
                source: IdentitySource::KeyAndBlob,
                library: Library::Gloo,
                parent: parent.index(),
                name: b"made from another context",
            },
        );
    }
    life::wait_for_start();
    result
}

struct Unforking(&'static thread::ThreadState);

impl Drop for Unforking {
    fn drop(&mut self) {
        self.0
            .gloo
            .forking
            .set(self.0.gloo.forking.get().saturating_sub(1));
    }
}
