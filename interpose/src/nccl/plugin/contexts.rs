//! Communicators to which the library gave a profiler. Each has one slot, and the library passes the slot's address
//! back in its calls.

use crate::core::communicators;
use crate::core::communicators::{Entry, Identity};
use crate::core::hash::Hash128;
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::IdentitySource;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of communicators with a profiler at one time. Further ones are recorded by hooks only.
const CONTEXTS: usize = 4096;
/// Maximum length of a name, in bytes. Longer names are truncated.
const NAME_BYTES: usize = 64;

/// A communicator as the plugin knows it. All fields start as zero.
pub struct Context {
    is_taken: AtomicU32,
    /// The library's number of the communicator, equal on all members; 0 if this version does not report it.
    identity: AtomicU64,
    rank: AtomicU32,
    size: AtomicU32,
    /// The program's handle, once a hook has seen this communicator; 0 before.
    handle: AtomicUsize,
    index_plus_one: AtomicU32,
    /// 1 once it is known that the communicator's calls bypass the hooks.
    bypasses: AtomicU32,
    /// Written by the thread that takes the slot, before its address is published.
    name: UnsafeCell<[u8; NAME_BYTES]>,
    name_bytes: AtomicU32,
}

// SAFETY: `name` is written only by the thread that took the slot, before the slot's address is published. It is read
// only afterwards.
unsafe impl Sync for Context {}

static CONTEXT: [Context; CONTEXTS] = [const {
    Context {
        is_taken: AtomicU32::new(0),
        identity: AtomicU64::new(0),
        rank: AtomicU32::new(0),
        size: AtomicU32::new(0),
        handle: AtomicUsize::new(0),
        index_plus_one: AtomicU32::new(0),
        bypasses: AtomicU32::new(0),
        name: UnsafeCell::new([0; NAME_BYTES]),
        name_bytes: AtomicU32::new(0),
    }
}; CONTEXTS];

/// Number of slots in use.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// Returns true if no communicator has a profiler.
pub fn none_is_open() -> bool {
    OPEN.load(Ordering::Acquire) == 0
}

/// Arguments that `init` received.
#[derive(Clone, Copy)]
pub struct InitArguments {
    /// Version of the interface.
    pub version: u32,
    /// The library's number of the communicator; 0 if this version does not report it.
    pub identity: u64,
    /// The program's name of the communicator, or null.
    pub name: *const c_char,
    /// Number of members; 0 if this version does not report it.
    pub size: u32,
    /// Rank of this process among them.
    pub rank: u32,
}

/// Takes a slot; `None` if all are in use.
///
/// # Safety
/// The name must be null or a C string.
pub unsafe fn open(arguments: &InitArguments) -> Option<&'static Context> {
    let context = CONTEXT.iter().find(|context| {
        context.is_taken.load(Ordering::Relaxed) == 0
            && context
                .is_taken
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    })?;
    OPEN.fetch_add(1, Ordering::AcqRel);
    context.identity.store(arguments.identity, Ordering::Relaxed);
    context.rank.store(arguments.rank, Ordering::Relaxed);
    context.size.store(arguments.size, Ordering::Relaxed);
    context.handle.store(0, Ordering::Relaxed);
    context.index_plus_one.store(0, Ordering::Relaxed);
    context.bypasses.store(0, Ordering::Relaxed);
    let mut bytes = 0;
    if !arguments.name.is_null() {
        // SAFETY: the name is not null, so the caller guarantees a C string. Only this thread uses the slot until its
        // address is published.
        unsafe {
            let name = CStr::from_ptr(arguments.name).to_bytes();
            bytes = name.len().min(NAME_BYTES);
            (&mut (*context.name.get()))[..bytes].copy_from_slice(&name[..bytes]);
        }
    }
    context.name_bytes.store(bytes as u32, Ordering::Relaxed);
    Some(context)
}

/// Returns the slot to which the library's pointer refers, if it is a slot in use.
pub fn known(context: *mut c_void) -> Option<&'static Context> {
    let offset = (context as usize).wrapping_sub(CONTEXT.as_ptr() as usize);
    if !offset.is_multiple_of(size_of::<Context>()) {
        return None;
    }
    CONTEXT
        .get(offset / size_of::<Context>())
        .filter(|context| context.is_taken.load(Ordering::Acquire) == 1)
}

/// Returns true if a hook has seen this handle for a communicator with a profiler.
pub fn is_met(handle: usize) -> bool {
    CONTEXT.iter().any(|context| {
        context.is_taken.load(Ordering::Acquire) == 1 && context.handle.load(Ordering::Relaxed) == handle
    })
}

impl Context {
    /// Returns the pointer that the library shall pass back.
    pub fn address(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Stores that a hook has seen this communicator, whose number in the log is `index`.
    #[inline]
    pub fn belongs_to(&self, handle: usize, index: u32) {
        if handle != 0 && self.handle.load(Ordering::Relaxed) != handle {
            self.handle.store(handle, Ordering::Relaxed);
            self.index_plus_one
                .store(index.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns the number in the log by which records name this communicator; `None` if it had none. It stays known
    /// after the hooks have removed the communicator.
    pub fn index(&'static self) -> Option<u32> {
        match self.index_plus_one.load(Ordering::Relaxed) {
            0 => self.bypassed_so_far().map(Entry::index),
            index_plus_one => Some(index_plus_one - 1),
        }
    }

    /// Returns the rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank.load(Ordering::Relaxed)
    }

    /// Returns true if the hooks' entry can be this communicator, as far as this version reports.
    pub fn can_be(&self, entry: &Entry) -> bool {
        let size = self.size.load(Ordering::Relaxed);
        size == 0 || (size == entry.size() && self.rank() == entry.rank())
    }

    /// Stores that the communicator's calls bypass the hooks, as far as its first operation shows.
    pub fn set_bypasses(&self) {
        self.bypasses.store(1, Ordering::Relaxed);
    }

    /// Returns true after [`Context::set_bypasses`].
    pub fn bypasses(&self) -> bool {
        self.bypasses.load(Ordering::Relaxed) == 1
    }

    /// Returns the hooks' entry, if a hook has seen this communicator.
    pub fn hooked(&self) -> Option<&'static Entry> {
        match self.handle.load(Ordering::Relaxed) {
            0 => None,
            handle => communicators::find(handle),
        }
    }

    /// Returns the entry that [`Context::bypassed`] created, if there is one.
    pub fn bypassed_so_far(&'static self) -> Option<&'static Entry> {
        communicators::find(self.address() as usize)
    }

    /// Returns an entry for a communicator whose calls bypass the hooks, and creates it if needed. Returns `None` if
    /// this version of the interface does not report the members.
    pub fn bypassed(&'static self) -> Option<&'static Entry> {
        let address = self.address() as usize;
        let found = self.bypassed_so_far();
        let size = self.size.load(Ordering::Relaxed);
        if found.is_some() || size == 0 {
            return found;
        }
        self.define(address, size);
        communicators::find(address)
    }

    #[cold]
    fn define(&self, address: usize, size: u32) {
        let identity = self.identity.load(Ordering::Relaxed);
        communicators::created(address, self.rank.load(Ordering::Relaxed), size);
        // SAFETY: the name was written before the slot's address was published, and it does not change while the slot
        // is in use.
        let name = unsafe { &(&*self.name.get())[..self.name_bytes.load(Ordering::Relaxed) as usize] };
        let identity = Identity {
            value: Hash128::new()
                .add(b"nccl plugin")
                .add(&identity.to_le_bytes())
                .add(&size.to_le_bytes())
                .finish(),
            source: if size == 1 {
                IdentitySource::SelfOnly
            } else {
                IdentitySource::UniqueId
            },
            library: Library::Nccl,
            parent: u32::MAX,
            name,
        };
        communicators::define(address, &identity);
    }

    /// Releases the slot of a communicator that has ended.
    pub fn close(&'static self) {
        communicators::removed(self.address() as usize);
        // Until the next owner of the slot has stored its values, no handle belongs to it.
        self.handle.store(0, Ordering::Relaxed);
        self.is_taken.store(0, Ordering::Release);
        OPEN.fetch_sub(1, Ordering::AcqRel);
    }
}
