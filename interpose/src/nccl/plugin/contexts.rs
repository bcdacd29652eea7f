//! What is known of a communicator to which the library gave a profiler: one place per communicator, whose address is
//! what the library hands back.

use crate::core::communicators;
use crate::core::communicators::{Entry, Identity};
use crate::core::hash::Hash128;
use rankscope_ranklog::Library;
use rankscope_ranklog::definition::IdentitySource;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Communicators with a profiler at a time. What comes beyond them has hooks only.
const CONTEXTS: usize = 4096;
/// Longest name kept.
const NAME_BYTES: usize = 64;

/// A communicator as the plugin sees it. All of it starts as zero.
pub struct Context {
    is_taken: AtomicU32,
    /// The same on all members; 0 where this version does not tell.
    identity: AtomicU64,
    rank: AtomicU32,
    size: AtomicU32,
    /// The program's handle, once a hook met this communicator; 0 before.
    handle: AtomicUsize,
    index_plus_one: AtomicU32,
    /// 1 once it is known that nothing of it goes through hooks.
    bypasses: AtomicU32,
    /// Written by whoever takes the place, before it is handed out.
    name: UnsafeCell<[u8; NAME_BYTES]>,
    name_bytes: AtomicU32,
}

// SAFETY: `name` is written only between taking the place and handing out its address, and read only afterwards.
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

/// How many are taken.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// True if no communicator has a profiler.
pub fn none_is_open() -> bool {
    OPEN.load(Ordering::Acquire) == 0
}

/// What `init` was told.
#[derive(Clone, Copy)]
pub struct Told {
    /// Version of the interface.
    pub version: u32,
    /// The library's number for the communicator, 0 if this version does not tell.
    pub identity: u64,
    /// The program's name for it, or null.
    pub name: *const c_char,
    /// Members, 0 if this version does not tell.
    pub size: u32,
    /// Ours among them.
    pub rank: u32,
}

/// Takes a place; `None` if all are taken.
///
/// # Safety
/// The name must be null or a C string.
pub unsafe fn open(told: &Told) -> Option<&'static Context> {
    let context = CONTEXT.iter().find(|context| {
        context.is_taken.load(Ordering::Relaxed) == 0
            && context
                .is_taken
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    })?;
    OPEN.fetch_add(1, Ordering::AcqRel);
    context.identity.store(told.identity, Ordering::Relaxed);
    context.rank.store(told.rank, Ordering::Relaxed);
    context.size.store(told.size, Ordering::Relaxed);
    context.handle.store(0, Ordering::Relaxed);
    context.index_plus_one.store(0, Ordering::Relaxed);
    context.bypasses.store(0, Ordering::Relaxed);
    let mut bytes = 0;
    if !told.name.is_null() {
        // SAFETY: the caller's promise; the place is this thread's until its address is handed out.
        unsafe {
            let name = CStr::from_ptr(told.name).to_bytes();
            bytes = name.len().min(NAME_BYTES);
            (&mut (*context.name.get()))[..bytes].copy_from_slice(&name[..bytes]);
        }
    }
    context.name_bytes.store(bytes as u32, Ordering::Relaxed);
    Some(context)
}

/// The place that the library hands back, if it is one of ours.
pub fn known(context: *mut c_void) -> Option<&'static Context> {
    let offset = (context as usize).wrapping_sub(CONTEXT.as_ptr() as usize);
    if !offset.is_multiple_of(size_of::<Context>()) {
        return None;
    }
    CONTEXT
        .get(offset / size_of::<Context>())
        .filter(|context| context.is_taken.load(Ordering::Acquire) == 1)
}

/// True if hooks met this handle as one of ours.
pub fn is_met(handle: usize) -> bool {
    CONTEXT.iter().any(|context| {
        context.is_taken.load(Ordering::Acquire) == 1 && context.handle.load(Ordering::Relaxed) == handle
    })
}

impl Context {
    /// What the library is to hand back.
    pub fn address(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// A hook met this communicator, whose number in the log is `index`.
    #[inline]
    pub fn belongs_to(&self, handle: usize, index: u32) {
        if handle != 0 && self.handle.load(Ordering::Relaxed) != handle {
            self.handle.store(handle, Ordering::Relaxed);
            self.index_plus_one
                .store(index.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Its number in the log, by which its operations are told; `None` if it had none. Also when hooks have forgotten it.
    pub fn index(&'static self) -> Option<u32> {
        match self.index_plus_one.load(Ordering::Relaxed) {
            0 => self.bypassed_so_far().map(Entry::index),
            index_plus_one => Some(index_plus_one - 1),
        }
    }

    /// Our rank in it.
    pub fn rank(&self) -> u32 {
        self.rank.load(Ordering::Relaxed)
    }

    /// True if hooks' entry can be of this communicator, as far as this version tells.
    pub fn can_be(&self, entry: &Entry) -> bool {
        let size = self.size.load(Ordering::Relaxed);
        size == 0 || (size == entry.size() && self.rank() == entry.rank())
    }

    /// Nothing of it goes through hooks, as far as its first operation told.
    pub fn set_bypasses(&self) {
        self.bypasses.store(1, Ordering::Relaxed);
    }

    /// See [`Context::set_bypasses`].
    pub fn bypasses(&self) -> bool {
        self.bypasses.load(Ordering::Relaxed) == 1
    }

    /// What hooks know of it, if they met it.
    pub fn hooked(&self) -> Option<&'static Entry> {
        match self.handle.load(Ordering::Relaxed) {
            0 => None,
            handle => communicators::find(handle),
        }
    }

    /// The entry that [`Context::bypassed`] made, if it did.
    pub fn bypassed_so_far(&'static self) -> Option<&'static Entry> {
        communicators::find(self.address() as usize)
    }

    /// An entry for a communicator that is used behind the hooks' back; `None` where this version of the interface does
    /// not tell who is in it.
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
        communicators::made(address, self.rank.load(Ordering::Relaxed), size);
        // SAFETY: the name was written before the address of this place was handed out.
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

    /// The communicator is gone.
    pub fn close(&'static self) {
        communicators::gone(self.address() as usize);
        self.is_taken.store(0, Ordering::Release);
        OPEN.fetch_sub(1, Ordering::AcqRel);
    }
}
