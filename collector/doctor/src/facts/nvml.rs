//! NVLink links from NVML. The library is loaded at run time, and only if the machine has GPUs of NVIDIA.
//!
//! This code has run with one GPU, and with a test double (`tests/nvml_double.c`).

use nvml_wrapper::{Device, Nvml};
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsStr;

/// Links per device (`NVML_NVLINK_MAX_LINKS`).
const MAX_LINKS: u32 = 18;
/// Maximum number of devices that are examined.
const MAX_DEVICES: u32 = 64;

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

/// Name of the library, as the driver installs it.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// Returns the links of each GPU, by PCI address; empty if the library is missing or does not work.
pub fn links(library: &str) -> Vec<(String, Vec<NvLink>)> {
    let Ok(nvml) = Nvml::builder().lib_path(OsStr::new(library)).init() else {
        return Vec::new();
    };
    let count = nvml.device_count().unwrap_or(0).min(MAX_DEVICES);
    (0..count)
        .filter_map(|index| links_of(&nvml.device_by_index(index).ok()?))
        .collect()
}

fn links_of(device: &Device<'_>) -> Option<(String, Vec<NvLink>)> {
    let address = device.pci_info().ok()?.bus_id;
    let links = (0..MAX_LINKS).filter_map(|number| {
        let link = device.link_wrapper_for(number);
        Some(NvLink {
            number,
            // A link that does not exist is refused.
            is_active: link.is_active().ok()?,
            version: link.version().ok(),
        })
    });
    Some((address, links.collect()))
}
