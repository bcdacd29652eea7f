//! Finds the function that a caller would have reached without this library.
//!
//! `RTLD_NEXT` alone is not enough. Frameworks load their libraries locally, and one process can hold two copies of a
//! library with two layouts. So a function is looked up in the scope of the caller's own object, once per object and
//! table. The result is remembered for the address range of that object.

use super::real_call::RealCall;
use super::stub::Arguments;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Maximum number of rows in a table.
pub const MAX_ROWS: usize = 160;
/// Maximum number of objects per table whose functions are remembered. For further objects, every call looks its
/// function up.
const MAX_CALLERS: usize = 16;

/// Functions that one calling object reaches.
struct Caller {
    start: AtomicUsize,
    bytes: AtomicUsize,
    real: [AtomicUsize; MAX_ROWS],
}

/// The functions of one intercepted library, and the results of their lookups.
pub struct Table {
    symbols: &'static [&'static CStr],
    /// Registers the adapters. A hook can run before this library's constructor: those of linked libraries run first.
    register: fn(),
    claimed: AtomicU32,
    callers: [Caller; MAX_CALLERS],
}

impl Table {
    /// Creates a table of these symbols. Nothing is resolved yet.
    pub const fn new(symbols: &'static [&'static CStr], register: fn()) -> Self {
        assert!(symbols.len() <= MAX_ROWS);
        Self {
            symbols,
            register,
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

    /// Returns the call of the real function of `row` for the code at `caller`; `None` if there is none.
    ///
    /// The caller stores the arguments in memory before the lookup. The slow path gets their address, so the fast path
    /// does not spill registers.
    ///
    /// # Safety
    /// The row's symbol must have been called with these arguments, unchanged, by the code at `caller`, which waits for
    /// the result. The handler of the call must be written for this symbol.
    #[inline]
    pub unsafe fn call<'a, A: Arguments>(
        &self,
        row: usize,
        caller: usize,
        arguments: &'a A,
    ) -> Option<RealCall<'a, A>> {
        let claimed = self.claimed.load(Ordering::Acquire) as usize;
        for known in &self.callers[..claimed.min(MAX_CALLERS)] {
            // An entry that is still being filled has length 0, so no address is inside it.
            let bytes = known.bytes.load(Ordering::Acquire);
            if caller.wrapping_sub(known.start.load(Ordering::Relaxed)) < bytes {
                let real = NonZero::new(known.real[row].load(Ordering::Relaxed))?;
                // SAFETY: `real` is the function of the row's symbol that this caller would have reached. The rest is
                // what this function requires.
                return Some(unsafe { RealCall::new(real, arguments) });
            }
        }
        // SAFETY: this function has the same requirement.
        unsafe { self.first_call(row, caller, arguments) }
    }

    /// Does the work of [`Table::call`] for a caller that is not in the table.
    ///
    /// # Safety
    /// As for [`Table::call`].
    #[cold]
    #[inline(never)]
    unsafe fn first_call<'a, A: Arguments>(
        &self,
        row: usize,
        caller: usize,
        arguments: &'a A,
    ) -> Option<RealCall<'a, A>> {
        let real = NonZero::new(self.resolve(row, caller))?;
        // SAFETY: `real` is the function that this caller would have reached, as `resolve` found it. The rest is what
        // this function requires.
        Some(unsafe { RealCall::new(real, arguments) })
    }

    #[cold]
    fn resolve(&self, row: usize, caller: usize) -> usize {
        (self.register)();
        let Some(object) = Object::containing(caller) else {
            // The caller was generated at run time and belongs to no object. The first loaded definition is used.
            return find(self.symbols[row], None);
        };
        // Two threads that meet the same new object fill one entry each. Both entries are correct.
        let index = self.claimed.fetch_add(1, Ordering::AcqRel) as usize;
        let handle = object.handle();
        let mut real = 0;
        if let Some(entry) = self.callers.get(index) {
            for (position, (symbol, slot)) in self.symbols.iter().zip(&entry.real).enumerate() {
                let address = find(symbol, handle);
                slot.store(address, Ordering::Relaxed);
                if position == row {
                    real = address;
                }
            }
            entry.start.store(object.start, Ordering::Relaxed);
            // The length publishes the entry: a thread that reads it also reads the addresses.
            entry.bytes.store(object.end - object.start, Ordering::Release);
        } else {
            self.claimed.store(MAX_CALLERS as u32, Ordering::Release);
            real = find(self.symbols[row], handle);
        }
        real
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
    /// Returns the object whose segments contain this address.
    fn containing(address: usize) -> Option<Self> {
        let mut search = Search { address, found: None };
        // SAFETY: `match_object` gets the pointer to `search` back only during this call, while `search` lives. It
        // reads what the loader passes to it, and writes only to `search`.
        unsafe { libc::dl_iterate_phdr(Some(match_object), (&raw mut search).cast()) };
        search.found
    }

    /// Returns a handle whose scope is that of this object; `None` for the program itself. `resolve` never closes the
    /// handle, because the remembered addresses must stay valid.
    fn handle(&self) -> Option<*mut c_void> {
        // SAFETY: the name belongs to the loader and lives while the object is loaded. The object is loaded: its code
        // is a caller on this stack, or it contains a function that the caller is about to call.
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

unsafe extern "C" fn match_object(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid `info`, and `search` is the pointer that `containing` passed. Both are valid
    // during the callback, and only this thread uses `search`.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    let (mut start, mut end) = (usize::MAX, 0);
    for index in 0..info.dlpi_phnum as usize {
        // SAFETY: the loader guarantees that `dlpi_phdr` points to `dlpi_phnum` headers.
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

/// Returns a function of the object that contains the function `real`; 0 if there is none. Cold.
pub fn beside(real: usize, symbol: &CStr) -> usize {
    let Some(handle) = Object::containing(real).and_then(|object| object.handle()) else {
        return 0;
    };
    // SAFETY: dlsym gets a live handle and a NUL-terminated name. The handle is closed, but its object stays loaded: it
    // contains `real`, which the caller is about to call.
    let address = unsafe {
        let address = libc::dlsym(handle, symbol.as_ptr()) as usize;
        libc::dlclose(handle);
        address
    };
    if is_ours(address) { 0 } else { address }
}

/// Writes the name of the file that contains the function `real` to `room`, without folders and truncated to fit.
/// Returns the length written; 0 for the program itself. Cold.
pub fn file_name(real: usize, room: &mut [u8]) -> usize {
    let Some(object) = Object::containing(real).filter(|object| !object.name.is_null()) else {
        return 0;
    };
    // SAFETY: the name is not null and belongs to the loader. It lives while the object is loaded, as in `handle`.
    let name = unsafe { CStr::from_ptr(object.name) }.to_bytes();
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let bytes = name.len().min(room.len());
    room[..bytes].copy_from_slice(&name[..bytes]);
    bytes
}

/// Returns true if an address is inside this library.
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

/// Looks a symbol up: in the scope of `handle`, then after this library in the global order, then in all loaded
/// objects.
fn find(symbol: &CStr, handle: Option<*mut c_void>) -> usize {
    if let Some(handle) = handle {
        // SAFETY: dlsym gets a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) } as usize;
        if address != 0 && !is_ours(address) {
            return address;
        }
    }
    // SAFETY: dlsym gets a NUL-terminated name. RTLD_NEXT starts after this library's position in the global order.
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
    // SAFETY: the loader passes a valid `info`, and `state` is the pointer that `find_anywhere` passed. Both are valid
    // during the callback, and only this thread uses `state`.
    let (info, state) = unsafe { (&*info, &mut *state.cast::<Anywhere<'_>>()) };
    // SAFETY: the name is not null, and the loader's names are NUL-terminated.
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

/// Searches every loaded object in turn. The names are collected first, because dlopen must not be called inside the
/// iteration.
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
        // SAFETY: `gather` gets the pointer to `state` back only during this call, while `state` lives.
        unsafe { libc::dl_iterate_phdr(Some(gather), (&raw mut state).cast()) };
        for &name in &state.names[..state.count] {
            // SAFETY: another thread may unload an object between the iteration and this call. RTLD_NOLOAD then fails
            // on its name. The loader frees a name only after the object is gone from its list.
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
