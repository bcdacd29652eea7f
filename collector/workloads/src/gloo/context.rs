//! A connected Gloo context.

use super::cxx::{SharedPointer, Text};
use super::store::{self, Store};
use crate::library::Library;
use crate::star::Star;
use crate::world::World;
use anyhow::{Result, bail};
use rankscope_gloo_abi::memory::StringLayout;
use std::env;
use std::ffi::{CStr, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

const CREATE_DEVICE: &str = "_ZN4gloo9transport3tcp12CreateDeviceERKNS1_4attrE";
const CONTEXT: &str = "_ZN4gloo10rendezvous7ContextC1Eiii";
const DESTROY: &str = "_ZN4gloo10rendezvous7ContextD1Ev";
const CONNECT_REFERENCE: &str =
    "_ZN4gloo10rendezvous7Context15connectFullMeshERNS0_5StoreERSt10shared_ptrINS_9transport6DeviceEE";
const CONNECT_SHARED: &str =
    "_ZN4gloo10rendezvous7Context15connectFullMeshESt10shared_ptrINS0_5StoreEERS2_INS_9transport6DeviceEE";
const PREFIX_STORE: &str =
    "_ZN4gloo10rendezvous11PrefixStoreC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
const PREFIX_STORE_OLD: &str = "_ZN4gloo10rendezvous11PrefixStoreC1ERKSs";
const BY_REFERENCE: &str = "RNS0_5StoreE";
const BY_SHARED_POINTER: &str = "St10shared_ptrINS0_5StoreEE";
/// The default of Gloo: the number of members of a group in some algorithms.
const BASE: i32 = 2;
/// Room for an object of Gloo, in words. The largest has 40.
const WORDS: usize = 256;
/// Room for the attributes of a device, in words.
const ATTRIBUTE_WORDS: usize = 64;

/// A context.
#[derive(Debug)]
pub struct Context {
    object: Box<[u64; WORDS]>,
    /// Offset of `gloo::Context` in the object, in words.
    base: usize,
    destroy: unsafe extern "C-unwind" fn(*mut c_void),
    /// Objects that the context refers to.
    _device: Box<SharedPointer>,
}

impl Context {
    /// Connects all ranks.
    pub fn connect(library: &Library, world: &World, star: &mut Star) -> Result<Self> {
        let strings = store::string_layout(library)?;
        let mut device = Box::new(device(library, strings, star)?);
        let mut ours = Store::new(library, strings, star)?;
        // Hooks see the functions of Gloo's own store only, so it wraps ours. Its prefix is that of nobody else.
        let prefix = Text::new(strings, "rankscope-bench");
        let mut prefixed = Box::new([0u64; WORDS]);
        let prefixed_address: *mut c_void = prefixed.as_mut_ptr().cast();
        let start = match strings {
            StringLayout::New => PREFIX_STORE,
            StringLayout::Old => PREFIX_STORE_OLD,
        };
        let named = |end: &str| format!("{start}{end}");
        let mut shared = SharedPointer::borrowed(ours.address());
        type Make = unsafe extern "C-unwind" fn(*mut c_void, *const c_void, *mut c_void);
        // SAFETY: the constructor's arguments are the object, a string, and a store: a reference to it, or a shared pointer
        // that is passed by address because it has a destructor. All outlive the calls below.
        unsafe {
            if library.own_symbol(&named(BY_SHARED_POINTER)).is_some() {
                let make: Make = library.function(&named(BY_SHARED_POINTER))?;
                make(prefixed_address, prefix.address(), (&raw mut shared).cast());
            } else {
                let make: Make = library.function(&named(BY_REFERENCE))?;
                make(prefixed_address, prefix.address(), ours.address());
            }
        }
        // If only the derived class has a virtual table, its pointer precedes the base class.
        let has = |table: &str| library.own_symbol(table).is_some();
        let base = usize::from(has("_ZTVN4gloo10rendezvous7ContextE") && !has("_ZTVN4gloo7ContextE"));
        let mut object = Box::new([0u64; WORDS]);
        let address: *mut c_void = object.as_mut_ptr().cast();
        let mut store = SharedPointer::borrowed(prefixed_address);
        // SAFETY: the functions have these signatures. The object has room for a context. The store and the device outlive
        // the calls, and the device is kept for the life of the context.
        let destroy = unsafe {
            let make: unsafe extern "C-unwind" fn(*mut c_void, i32, i32, i32) = library.function(CONTEXT)?;
            let destroy = library.function(DESTROY)?;
            make(address, world.rank as i32, world.size as i32, BASE);
            type Connect = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut SharedPointer);
            if library.own_symbol(CONNECT_SHARED).is_some() {
                let connect: Connect = library.function(CONNECT_SHARED)?;
                connect(address, (&raw mut store).cast(), &raw mut *device);
            } else {
                let connect: Connect = library.function(CONNECT_REFERENCE)?;
                connect(address, prefixed_address, &raw mut *device);
            }
            destroy
        };
        // Gloo may keep both stores.
        ours.leave();
        Box::leak(prefixed);
        Ok(Self {
            object,
            base,
            destroy,
            _device: device,
        })
    }

    /// Returns the address of `gloo::Context`, which options contain.
    pub fn address(&mut self) -> *mut c_void {
        self.object[self.base..].as_mut_ptr().cast()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the object was constructed and connected, and nothing uses it any more.
        unsafe { (self.destroy)(self.object.as_mut_ptr().cast()) };
    }
}

/// Creates a TCP device at the address of the interface GLOO_SOCKET_IFNAME, else at the address by which the other ranks
/// reach this host.
///
/// The interface itself is not passed on. With PyTorch 2.15's Gloo, a device that is created by an interface here fails.
fn device(library: &Library, strings: StringLayout, star: &Star) -> Result<SharedPointer> {
    let interface = env::var("GLOO_SOCKET_IFNAME").unwrap_or_default();
    let address = if interface.is_empty() {
        star.own_address()
    } else {
        let Some(address) = address_of(&interface) else {
            bail!("GLOO_SOCKET_IFNAME is {interface}, and this host has no such interface with an address");
        };
        address
    };
    let (host, interface) = (Text::new(strings, &address.to_string()), Text::new(strings, ""));
    // `struct attr { std::string hostname; std::string iface; int ai_family; … }`; zero is AF_UNSPEC.
    let mut attributes = [0usize; ATTRIBUTE_WORDS];
    let words = strings.object_bytes() / size_of::<usize>();
    attributes[..words].copy_from_slice(&host.words()[..words]);
    attributes[words..2 * words].copy_from_slice(&interface.words()[..words]);
    let mut device = SharedPointer::null();
    // SAFETY: the hidden first argument is the place of the result. The attributes are larger than the struct.
    unsafe {
        let create: unsafe extern "C-unwind" fn(*mut SharedPointer, *const usize) -> *mut SharedPointer =
            library.function(CREATE_DEVICE)?;
        create(&raw mut device, attributes.as_ptr());
    }
    if device.object.is_null() {
        bail!("Gloo has created no device");
    }
    Ok(device)
}

/// Returns the first address of an interface, IPv4 if there is one.
fn address_of(interface: &str) -> Option<IpAddr> {
    let mut list = ptr::null_mut();
    // SAFETY: the argument is valid memory. On success it is a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found: Option<IpAddr> = None;
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the entry is part of the list. Its name is a C string, and its address is null or has the size of its
        // family.
        unsafe {
            let entry = &*next;
            next = entry.ifa_next;
            if entry.ifa_addr.is_null() || CStr::from_ptr(entry.ifa_name).to_bytes() != interface.as_bytes() {
                continue;
            }
            match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET if !found.is_some_and(|known| known.is_ipv4()) => {
                    let address = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    found = Some(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr)).into());
                }
                libc::AF_INET6 if found.is_none() => {
                    let address = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    found = Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
    }
    // SAFETY: the list came from getifaddrs, and no entry is used any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_its_own_address() {
        assert_eq!(address_of("lo"), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(address_of("nosuchinterface"), None);
    }
}
