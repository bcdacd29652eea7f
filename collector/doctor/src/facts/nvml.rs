//! NVLink links from NVML. The library is loaded at run time, and only if the machine has GPUs of NVIDIA.
//!
//! This code has run only with a test double (`tests/nvml_double.c`), never with a GPU. Signatures and numbers are those of
//! nvml.h in CUDA 12.

use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Links per device (`NVML_NVLINK_MAX_LINKS`).
const MAX_LINKS: c_uint = 18;
/// Maximum number of devices that are examined.
const MAX_DEVICES: c_uint = 64;
const SUCCESS: c_int = 0;

/// NVLink link of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NvLink {
    /// Number of the link.
    pub number: u32,
    /// Whether the link is up.
    pub is_active: bool,
    /// Version, as NVML numbers it; absent if NVML does not know it.
    pub version: Option<u32>,
}

/// `nvmlPciInfo_t`, with unused bytes for fields that a later version may add.
#[repr(C)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_sub_system_id: c_uint,
    bus_id: [c_char; 32],
    unused: [u8; 256],
}

type Device = *mut c_void;
type Plain = unsafe extern "C" fn() -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_uint) -> c_int;
type GetHandle = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type GetPciInfo = unsafe extern "C" fn(Device, *mut PciInfo) -> c_int;
type GetLink = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;

/// Functions of the loaded library.
struct Nvml {
    shut_down: Plain,
    count: GetCount,
    handle: GetHandle,
    pci_info: GetPciInfo,
    link_state: GetLink,
    link_version: GetLink,
}

/// Name of the library, as the driver installs it.
pub const LIBRARY: &CStr = c"libnvidia-ml.so.1";

/// Returns the links of each GPU, by PCI address; empty if the library is missing or does not work.
pub fn links(library: &CStr) -> Vec<(String, Vec<NvLink>)> {
    let Some(nvml) = Nvml::load(library) else {
        return Vec::new();
    };
    let mut count = 0;
    // SAFETY: the functions belong to the loaded NVML, which is initialised. All results are written to locals of the
    // declared types.
    let found = unsafe {
        let outcome = (nvml.count)(&raw mut count);
        let count = if outcome == SUCCESS {
            count.min(MAX_DEVICES)
        } else {
            0
        };
        (0..count).filter_map(|index| nvml.device(index)).collect()
    };
    // SAFETY: this ends the use that `load` began.
    unsafe { (nvml.shut_down)() };
    found
}

impl Nvml {
    fn load(library: &CStr) -> Option<Self> {
        // SAFETY: the names are NUL-terminated. The library is the driver's own, or a double of it, and stays loaded.
        // Each function has the type of nvml.h, and is only used if it exists.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                return None;
            }
            let find = |name: &CStr| {
                let address = libc::dlsym(library, name.as_ptr());
                (!address.is_null()).then_some(address)
            };
            let initialise = std::mem::transmute::<*mut c_void, Plain>(find(c"nvmlInit_v2")?);
            let nvml = Self {
                shut_down: std::mem::transmute::<*mut c_void, Plain>(find(c"nvmlShutdown")?),
                count: std::mem::transmute::<*mut c_void, GetCount>(find(c"nvmlDeviceGetCount_v2")?),
                handle: std::mem::transmute::<*mut c_void, GetHandle>(find(
                    c"nvmlDeviceGetHandleByIndex_v2",
                )?),
                pci_info: std::mem::transmute::<*mut c_void, GetPciInfo>(find(c"nvmlDeviceGetPciInfo_v3")?),
                link_state: std::mem::transmute::<*mut c_void, GetLink>(find(c"nvmlDeviceGetNvLinkState")?),
                link_version: std::mem::transmute::<*mut c_void, GetLink>(find(
                    c"nvmlDeviceGetNvLinkVersion",
                )?),
            };
            (initialise() == SUCCESS).then_some(nvml)
        }
    }

    /// Reads one device.
    ///
    /// # Safety
    ///
    /// NVML must be initialised.
    unsafe fn device(&self, index: c_uint) -> Option<(String, Vec<NvLink>)> {
        let mut device = std::ptr::null_mut();
        // SAFETY: all zero is a valid value of plain numbers.
        let mut information: PciInfo = unsafe { std::mem::zeroed() };
        // SAFETY: NVML is initialised. Both results are locals, and the second is at least as large as NVML's type.
        let outcome = unsafe {
            match (self.handle)(index, &raw mut device) {
                SUCCESS => (self.pci_info)(device, &raw mut information),
                refused => refused,
            }
        };
        if outcome != SUCCESS {
            return None;
        }
        let address: Vec<u8> = information
            .bus_id
            .iter()
            .map(|letter| letter.cast_unsigned())
            .take_while(|byte| *byte != 0)
            .collect();
        let links = (0..MAX_LINKS)
            .filter_map(|number| {
                let (mut state, mut version) = (0, 0);
                // SAFETY: as above. A link that does not exist is refused.
                let (has_state, has_version) = unsafe {
                    (
                        (self.link_state)(device, number, &raw mut state) == SUCCESS,
                        (self.link_version)(device, number, &raw mut version) == SUCCESS,
                    )
                };
                has_state.then_some(NvLink {
                    number,
                    is_active: state == 1,
                    version: has_version.then_some(version),
                })
            })
            .collect();
        Some((String::from_utf8_lossy(&address).into_owned(), links))
    }
}
