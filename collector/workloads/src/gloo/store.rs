//! The store of a rendezvous, over the control channel between the ranks.
//!
//! Every member sets its own address and then reads those of the others. All members set equally many keys, so each set is
//! an exchange between all ranks.

use super::cxx::Vector;
use crate::library::Library;
use crate::star::Star;
use anyhow::{Result, bail};
use rankscope_gloo_abi::memory::{StringLayout, vector_bytes};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

/// Virtual table of Gloo's store with a prefix. Its layout is that of every store of this version.
const TABLE: &str = "_ZTVN4gloo10rendezvous11PrefixStoreE";
/// Start of the names of its functions.
const CLASS: &str = "_ZN4gloo10rendezvous11PrefixStore";
/// Words of a virtual table before its first function: offset to the top, type information.
const HEAD: usize = 2;
/// Maximum number of functions. A larger table is not plausible.
const MOST_FUNCTIONS: usize = 64;

/// Names of a function with the new and the old string.
const SET: [&str; 2] = [
    "3setERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
    "3setERKSsRKSt6vectorIcSaIcEE",
];
const GET: [&str; 2] = [
    "3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "3getERKSs",
];
const WAIT: [&str; 2] = [
    "4waitERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS8_EERKNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
    "4waitERKSt6vectorISsSaISsEERKNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
];
/// The wait without a timeout, which some versions export.
const WAIT_FOREVER: [&str; 2] = [
    "4waitERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS8_EE",
    "4waitERKSt6vectorISsSaISsEE",
];
const HAS_V2: [&str; 1] = ["14has_v2_supportEv"];
/// Functions that are never called, because `has_v2_support` is false.
const OF_V2: [&str; 8] = [
    "9multi_getERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS8_EE",
    "9multi_setERKSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS8_EERKS2_IS2_IcS7_ESaISD_EE",
    "6appendERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt6vectorIcS6_E",
    "3addERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl",
    "9multi_getERKSt6vectorISsSaISsEE",
    "9multi_setERKSt6vectorISsSaISsEERKS2_IS2_IcSaIcEESaIS6_EE",
    "6appendERKSsRKSt6vectorIcSaIcEE",
    "3addERKSsl",
];

/// Returns the string layout of this library.
pub fn string_layout(library: &Library) -> Result<StringLayout> {
    let has = |name: &str| library.own_symbol(&format!("{CLASS}{name}")).is_some();
    match (has(SET[0]), has(SET[1])) {
        (true, _) => Ok(StringLayout::New),
        (_, true) => Ok(StringLayout::Old),
        _ => bail!("{} does not export Gloo's stores", library.path().display()),
    }
}

/// A `gloo::rendezvous::Store`. C++ sees the first word only.
#[repr(C)]
pub struct Store<'a> {
    table: *const usize,
    _table: Vec<usize>,
    strings: StringLayout,
    allocate: unsafe extern "C" fn(usize) -> *mut c_void,
    star: Option<&'a mut Star>,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<'a> Store<'a> {
    /// Makes a store. Its table is that of Gloo's own store with our functions in it.
    pub fn new(library: &Library, strings: StringLayout, star: &'a mut Star) -> Result<Box<Self>> {
        let mut table = copied_table(library)?;
        let mut replace = |names: &[&str], function: usize| {
            let mut found = 0;
            for name in names.iter().map(|name| format!("{CLASS}{name}")) {
                // An entry may refer to a preloaded hook or to the function itself.
                let addresses = [library.symbol(&name), library.own_symbol(&name)];
                for entry in table.iter_mut().skip(HEAD) {
                    if addresses
                        .iter()
                        .flatten()
                        .any(|&address| address as usize == *entry)
                    {
                        *entry = function;
                        found += 1;
                    }
                }
            }
            found
        };
        let needed = [
            replace(&SET, set as *const () as usize),
            replace(&GET, get as *const () as usize),
            replace(&WAIT, wait as *const () as usize),
        ];
        replace(&WAIT_FOREVER, wait as *const () as usize);
        replace(&HAS_V2, has_v2_support as *const () as usize);
        replace(&OF_V2, unsupported as *const () as usize);
        if needed != [1; 3] {
            bail!(
                "the store of Gloo in {} has an unknown layout",
                library.path().display()
            );
        }
        // Nobody destroys it from C++.
        for destructor in table.iter_mut().skip(HEAD).take(2) {
            *destructor = unsupported as *const () as usize;
        }
        // SAFETY: `operator new(size_t)` of the C++ library, which Gloo depends on.
        let allocate = unsafe { library.function("_Znwm") }?;
        let mut store = Box::new(Self {
            table: ptr::null(),
            _table: table,
            strings,
            allocate,
            star: Some(star),
            values: BTreeMap::new(),
        });
        store.table = store._table[HEAD..].as_ptr();
        Ok(store)
    }

    /// Ends the rendezvous. Gloo may keep the store, so it is never freed. Later calls fail clearly.
    pub fn leave(mut self: Box<Self>) {
        self.star = None;
        Box::leak(self);
    }

    /// Returns the address of the C++ object.
    pub fn address(&mut self) -> *mut c_void {
        ptr::from_mut(self).cast()
    }
}

/// Returns a copy of the virtual table of Gloo's store with a prefix.
fn copied_table(library: &Library) -> Result<Vec<usize>> {
    let Some(table) = library.own_symbol(TABLE) else {
        bail!("{} does not export Gloo's stores", library.path().display());
    };
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let mut symbol: *const libc::Elf64_Sym = ptr::null();
    // SAFETY: with RTLD_DL_SYMENT the third argument is a pointer to a pointer to an ELF symbol (dladdr(3)).
    let found = unsafe { dladdr1(table, info.as_mut_ptr(), (&raw mut symbol).cast(), RTLD_DL_SYMENT) };
    if found == 0 || symbol.is_null() {
        bail!("the size of a table in {} is unknown", library.path().display());
    }
    // SAFETY: the loader keeps the symbols of a loaded library.
    let words = unsafe { (*symbol).st_size } as usize / size_of::<usize>();
    if !(HEAD + 1..=HEAD + MOST_FUNCTIONS).contains(&words) {
        bail!("a table in {} has {words} words", library.path().display());
    }
    // SAFETY: the symbol covers this many words.
    Ok(unsafe { std::slice::from_raw_parts(table.cast::<usize>(), words) }.to_vec())
}

/// `RTLD_DL_SYMENT` of dlfcn.h.
const RTLD_DL_SYMENT: i32 = 1;

unsafe extern "C" {
    /// dladdr1(3) of glibc.
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: i32) -> i32;
}

/// Ends the process: an error cannot be returned through C++.
fn fail(message: &str) -> ! {
    eprintln!("rankscope: {message}");
    std::process::exit(2)
}

/// `void set(const std::string& key, const std::vector<char>& data)`.
unsafe extern "C-unwind" fn set(store: *mut Store<'_>, key: *const c_void, data: *const Vector) {
    // SAFETY: Gloo passes this store, a string and a vector, which are alive during the call.
    unsafe {
        let store = &mut *store;
        let key = store.strings.bytes(key as usize);
        let mut message = (key.len() as u32).to_le_bytes().to_vec();
        message.extend(key);
        message.extend(vector_bytes(data as usize));
        let Some(star) = store.star.as_deref_mut() else {
            fail("Gloo sets a key after its rendezvous, which rankscope does not support");
        };
        match star.exchange(&message) {
            Ok(all) => {
                for one in all {
                    if let Some((length, rest)) = one.split_first_chunk::<4>()
                        && let Some((key, value)) =
                            rest.split_at_checked(u32::from_le_bytes(*length) as usize)
                    {
                        store.values.insert(key.to_vec(), value.to_vec());
                    }
                }
            }
            Err(error) => fail(&format!("the ranks could not connect: {error}")),
        }
    }
}

/// `std::vector<char> get(const std::string& key)`, with the place of the result as the first argument.
unsafe extern "C-unwind" fn get(
    result: *mut Vector,
    store: *mut Store<'_>,
    key: *const c_void,
) -> *mut Vector {
    // SAFETY: Gloo passes this store, a string that is alive during the call, and memory for the result.
    unsafe {
        let store = &mut *store;
        let key = store.strings.bytes(key as usize);
        let Some(value) = store.values.get(key) else {
            let key = String::from_utf8_lossy(key);
            fail(&format!("Gloo reads the key {key}, which no rank has set"));
        };
        // C++ frees it with `operator delete`.
        let begin = (store.allocate)(value.len().max(1)).cast::<u8>();
        ptr::copy_nonoverlapping(value.as_ptr(), begin, value.len());
        let end = begin.add(value.len()).cast();
        result.write(Vector {
            begin: begin.cast(),
            end,
            limit: end,
        });
    }
    result
}

/// `void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout)`. Every key that is set is
/// already here.
unsafe extern "C-unwind" fn wait(_: *mut Store<'_>, _: *const c_void, _: *const c_void) {}

/// `bool has_v2_support()`.
unsafe extern "C-unwind" fn has_v2_support(_: *mut Store<'_>) -> bool {
    false
}

/// All functions that are not needed.
unsafe extern "C-unwind" fn unsupported() {
    fail("this version of Gloo calls a function of its store that rankscope does not have");
}
