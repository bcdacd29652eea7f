//! Finds the function that a caller would have reached without us.
//!
//! `RTLD_NEXT` alone is not enough: frameworks load their libraries locally, and one process can hold two copies of a
//! library, with two layouts. So the answer is looked up in the scope of the caller's own object, once per object and
//! table, and remembered by the address range of that object.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Rows in a table at most.
pub const MAX_ROWS: usize = 160;
/// Objects that call one library's functions at most; further ones are looked up on every call.
const MAX_CALLERS: usize = 16;

/// What one calling object reaches.
struct Caller {
    start: AtomicUsize,
    bytes: AtomicUsize,
    real: [AtomicUsize; MAX_ROWS],
}

/// The functions of one intercepted library and what is known about them.
pub struct Table {
    symbols: &'static [&'static CStr],
    claimed: AtomicU32,
    callers: [Caller; MAX_CALLERS],
}

impl Table {
    /// A table of these symbols, nothing resolved.
    pub const fn new(symbols: &'static [&'static CStr]) -> Self {
        assert!(symbols.len() <= MAX_ROWS);
        Self {
            symbols,
            claimed: AtomicU32::new(0),
            callers: [const {
                Caller {
                    start: AtomicUsize::new(0),
                    bytes: AtomicUsize::new(0),
                    real: [const { AtomicUsize::new(0) }; MAX_ROWS],
                }
            }; MAX_CALLERS],
        }
    }

    /// The real function of `row` for the code at `caller`; 0 if there is none.
    #[inline]
    pub fn real(&self, row: usize, caller: usize) -> usize {
        let claimed = self.claimed.load(Ordering::Acquire) as usize;
        for known in &self.callers[..claimed.min(MAX_CALLERS)] {
            // An entry that is still being filled has no length yet, and nothing lies in it.
            let bytes = known.bytes.load(Ordering::Acquire);
            if caller.wrapping_sub(known.start.load(Ordering::Relaxed)) < bytes {
                return known.real[row].load(Ordering::Relaxed);
            }
        }
        self.resolve(row, caller)
    }

    #[cold]
    fn resolve(&self, row: usize, caller: usize) -> usize {
        let Some(object) = Object::containing(caller) else {
            // Code that was generated at run time: whatever is loaded first.
            return find(self.symbols[row], None);
        };
        // Two threads that meet the same new object fill an entry each; both are right.
        let index = self.claimed.fetch_add(1, Ordering::AcqRel) as usize;
        let handle = object.handle();
        let mut wanted = 0;
        if let Some(entry) = self.callers.get(index) {
            for (position, (symbol, slot)) in self.symbols.iter().zip(&entry.real).enumerate() {
                let address = find(symbol, handle);
                slot.store(address, Ordering::Relaxed);
                if position == row {
                    wanted = address;
                }
            }
            entry.start.store(object.start, Ordering::Relaxed);
            // Published by its length: whoever sees that sees the addresses.
            entry.bytes.store(object.end - object.start, Ordering::Release);
        } else {
            self.claimed.store(MAX_CALLERS as u32, Ordering::Release);
            wanted = find(self.symbols[row], handle);
        }
        wanted
    }
}

/// A loaded object: its address range and its name.
#[derive(Clone, Copy)]
struct Object {
    start: usize,
    end: usize,
    name: *const c_char,
}

impl Object {
    /// The object whose segments hold this address.
    fn containing(address: usize) -> Option<Self> {
        let mut search = Search { address, found: None };
        // SAFETY: the callback gets our pointer back while `search` lives, and only reads what the loader hands it.
        unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) };
        search.found
    }

    /// A handle whose scope is this object's own; `None` for the program itself. The handle is kept for ever: the
    /// addresses remembered must not go stale under us.
    fn handle(&self) -> Option<*mut c_void> {
        // SAFETY: the name belongs to the loader and lives while the object is loaded, which its caller being on our
        // stack guarantees.
        unsafe {
            if self.name.is_null() || *self.name == 0 {
                return None;
            }
            let handle = libc::dlopen(self.name, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            (!handle.is_null()).then_some(handle)
        }
    }
}

struct Search {
    address: usize,
    found: Option<Object>,
}

unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: both pointers are valid for the duration of the callback (see `containing`).
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    let (mut start, mut end) = (usize::MAX, 0);
    for index in 0..info.dlpi_phnum as usize {
        // SAFETY: the loader says there are `dlpi_phnum` headers.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        if header.p_type == libc::PT_LOAD {
            let from = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            start = start.min(from);
            end = end.max(from.wrapping_add(header.p_memsz as usize));
        }
    }
    if (start..end).contains(&search.address) {
        search.found = Some(Object {
            start,
            end,
            name: info.dlpi_name,
        });
        return 1;
    }
    0
}

/// A function of the object that holds the function `real`; 0 if there is none. Cold.
pub fn beside(real: usize, symbol: &CStr) -> usize {
    let Some(handle) = Object::containing(real).and_then(|object| object.handle()) else {
        return 0;
    };
    // SAFETY: a live handle and a NUL-terminated name. The handle is given back: its object holds `real`, which the
    // caller is about to call, and so stays loaded.
    let address = unsafe {
        let address = libc::dlsym(handle, symbol.as_ptr()) as usize;
        libc::dlclose(handle);
        address
    };
    if is_ours(address) { 0 } else { address }
}

/// Name of the file that holds the function `real`, without its folders: as much of it as there is room for. Gives its
/// length; 0 for the program itself. Cold.
pub fn file_name(real: usize, room: &mut [u8]) -> usize {
    let Some(object) = Object::containing(real).filter(|object| !object.name.is_null()) else {
        return 0;
    };
    // SAFETY: the name belongs to the loader and lives while the object is loaded, as in `handle`.
    let name = unsafe { CStr::from_ptr(object.name) }.to_bytes();
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let bytes = name.len().min(room.len());
    room[..bytes].copy_from_slice(&name[..bytes]);
    bytes
}

/// True if an address lies in this library.
fn is_ours(address: usize) -> bool {
    static RANGE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    if RANGE[1].load(Ordering::Acquire) == 0
        && let Some(own) = Object::containing(is_ours as fn(usize) -> bool as usize)
    {
        RANGE[0].store(own.start, Ordering::Relaxed);
        RANGE[1].store(own.end, Ordering::Release);
    }
    (RANGE[0].load(Ordering::Relaxed)..RANGE[1].load(Ordering::Relaxed)).contains(&address)
}

/// Looks a symbol up: in the scope of `handle`, then behind us in the global order, then in anything loaded.
fn find(symbol: &CStr, handle: Option<*mut c_void>) -> usize {
    if let Some(handle) = handle {
        // SAFETY: a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) } as usize;
        if address != 0 && !is_ours(address) {
            return address;
        }
    }
    // SAFETY: as above; RTLD_NEXT is taken from this library's place in the order.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, symbol.as_ptr()) } as usize;
    if address != 0 && !is_ours(address) {
        return address;
    }
    find_anywhere(symbol)
}

struct Anywhere<'a> {
    symbol: &'a CStr,
    names: [*const c_char; 64],
    count: usize,
    skip: usize,
    seen: usize,
}

unsafe extern "C" fn gather(info: *mut libc::dl_phdr_info, _: usize, state: *mut c_void) -> c_int {
    // SAFETY: both pointers are valid for the duration of the callback (see `find_anywhere`).
    let (info, state) = unsafe { (&*info, &mut *state.cast::<Anywhere<'_>>()) };
    // SAFETY: the loader's names are NUL-terminated.
    if info.dlpi_name.is_null() || unsafe { *info.dlpi_name } == 0 {
        return 0;
    }
    state.seen += 1;
    if state.seen > state.skip && state.count < state.names.len() {
        state.names[state.count] = info.dlpi_name;
        state.count += 1;
    }
    0
}

/// Asks every loaded object in turn. The names are gathered first: dlopen must not be called inside the iteration.
fn find_anywhere(symbol: &CStr) -> usize {
    let mut state = Anywhere {
        symbol,
        names: [std::ptr::null(); 64],
        count: 0,
        skip: 0,
        seen: 0,
    };
    loop {
        state.count = 0;
        state.seen = 0;
        // SAFETY: the callback gets our pointer back while `state` lives.
        unsafe { libc::dl_iterate_phdr(Some(gather), (&raw mut state).cast()) };
        for &name in &state.names[..state.count] {
            // SAFETY: an object could be unloaded between the iteration and here; RTLD_NOLOAD then fails on the name,
            // which the loader frees only after the object is gone from its list.
            unsafe {
                let handle = libc::dlopen(name, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                if handle.is_null() {
                    continue;
                }
                let address = libc::dlsym(handle, state.symbol.as_ptr()) as usize;
                if address != 0 && !is_ours(address) {
                    return address;
                }
                libc::dlclose(handle);
            }
        }
        state.skip += state.count;
        if state.count < state.names.len() {
            return 0;
        }
    }
}
