//! GPUs, network adapters and InfiniBand ports, from sysfs.

use super::nvml::{self, NvLink};
use super::time_limit::within;
use crate::surroundings::Surroundings;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that NVML may take. It hangs if a GPU does not answer.
const NVML_LIMIT: Duration = Duration::from_secs(30);
const PCI: &str = "/sys/bus/pci/devices";
const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

/// Speed and width of a PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PcieLink {
    /// Transfers per second and lane now, in GT/s.
    pub speed_gts: f64,
    /// Lanes in use.
    pub width: u32,
    /// Highest speed of the device, in GT/s.
    pub device_speed_gts: f64,
    /// Lanes of the device.
    pub device_width: u32,
    /// Highest speed of the slot, in GT/s; absent if the kernel does not report it.
    pub slot_speed_gts: Option<f64>,
    /// Lanes of the slot; absent if the kernel does not report them.
    pub slot_width: Option<u32>,
}

impl PcieLink {
    /// Returns the speed that both device and slot are capable of, in GT/s.
    pub fn rated_speed_gts(&self) -> f64 {
        self.slot_speed_gts
            .map_or(self.device_speed_gts, |slot| slot.min(self.device_speed_gts))
    }

    /// Returns the lanes that both device and slot have.
    pub fn rated_width(&self) -> u32 {
        self.slot_width
            .map_or(self.device_width, |slot| slot.min(self.device_width))
    }
}

/// GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gpu {
    /// PCI address, such as `0000:17:00.0`.
    pub address: String,
    /// Maker: `NVIDIA` or `AMD`.
    pub maker: String,
    /// Model, if the driver reports it.
    pub model: Option<String>,
    /// NUMA node; absent if the machine has only one or does not report it.
    pub numa_node: Option<u32>,
    /// PCIe link; absent if the kernel does not report it.
    pub pcie: Option<PcieLink>,
    /// NVLink links, from NVML; empty without NVML.
    pub nvlinks: Vec<NvLink>,
}

/// Network interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// State of the link, as the kernel reports it: `up`, `down`, …
    pub state: String,
    /// Speed in Mbit/s; absent if the link is down or virtual.
    pub speed_mbits: Option<u64>,
    /// Whether it belongs to a device, so that it is not virtual.
    pub has_device: bool,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
}

/// Port of an RDMA adapter: InfiniBand or RoCE.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Port {
    /// Name of the adapter, such as `mlx5_0`.
    pub device: String,
    /// Number of the port.
    pub port: u32,
    /// State, such as `ACTIVE`.
    pub state: String,
    /// Rate in Gbit/s.
    pub rate_gbits: Option<f64>,
    /// Lanes, such as `4X`.
    pub lanes: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Model of the adapter, such as `MT4129`.
    pub model: Option<String>,
    /// PCI address of the adapter.
    pub address: Option<String>,
    /// NUMA node of the adapter.
    pub numa_node: Option<u32>,
    /// PCIe link of the adapter.
    pub pcie: Option<PcieLink>,
}

/// Devices of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Topology {
    /// GPUs, by PCI address.
    pub gpus: Vec<Gpu>,
    /// Network interfaces, by name.
    pub interfaces: Vec<Interface>,
    /// Ports of RDMA adapters, by name.
    pub ports: Vec<Port>,
    /// Whether the device files of RDMA adapters exist (`/dev/infiniband`).
    pub has_rdma_files: bool,
    /// Distances between NUMA nodes: a row per node, in the order of the numbers. 10 is the node itself.
    pub numa_distances: Vec<Vec<u32>>,
}

impl Topology {
    /// Reads sysfs and, on this machine, NVML.
    pub fn read(surroundings: &Surroundings) -> Self {
        let mut gpus: Vec<Gpu> = surroundings
            .list(PCI)
            .into_iter()
            .filter_map(|address| gpu(surroundings, &address))
            .collect();
        if surroundings.is_system() && gpus.iter().any(|gpu| gpu.maker == "NVIDIA") {
            for (address, links) in within(NVML_LIMIT, || nvml::links(nvml::LIBRARY)).unwrap_or_default() {
                if let Some(gpu) = gpus
                    .iter_mut()
                    .find(|gpu| is_same_address(&gpu.address, &address))
                {
                    gpu.nvlinks = links;
                }
            }
        }
        let nodes = "/sys/devices/system/node";
        let mut numbers: Vec<u32> = surroundings
            .list(nodes)
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Self {
            gpus,
            interfaces: interfaces(surroundings),
            ports: ports(surroundings),
            has_rdma_files: surroundings.exists("/dev/infiniband"),
            numa_distances: numbers
                .iter()
                .filter_map(|node| surroundings.read(format!("{nodes}/node{node}/distance")))
                .map(|line| {
                    line.split_whitespace()
                        .filter_map(|word| word.parse().ok())
                        .collect()
                })
                .collect(),
        }
    }
}

/// Whether two PCI addresses are equal. NVML writes the domain with eight digits, and letters in upper case.
fn is_same_address(one: &str, other: &str) -> bool {
    let key = |address: &str| {
        let (domain, rest) = address.split_once(':')?;
        Some((u32::from_str_radix(domain, 16).ok()?, rest.to_ascii_lowercase()))
    };
    key(one).is_some() && key(one) == key(other)
}

fn gpu(surroundings: &Surroundings, address: &str) -> Option<Gpu> {
    let device = Path::new(PCI).join(address);
    // Base class 03 is a display controller; 12 is a processing accelerator.
    let class = surroundings.read(device.join("class"))?;
    if !class.starts_with("0x03") && !class.starts_with("0x12") {
        return None;
    }
    let maker = match surroundings.read(device.join("vendor"))?.as_str() {
        NVIDIA => "NVIDIA",
        AMD => "AMD",
        _ => return None,
    };
    let information = surroundings.read(format!("/proc/driver/nvidia/gpus/{address}/information"));
    let model = information
        .as_deref()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Model:")))
        .map(|model| model.trim().to_owned());
    Some(Gpu {
        address: address.to_owned(),
        maker: maker.to_owned(),
        model,
        numa_node: numa_node(surroundings, &device),
        pcie: pcie(surroundings, &device),
        nvlinks: Vec::new(),
    })
}

fn numa_node(surroundings: &Surroundings, device: &Path) -> Option<u32> {
    // The kernel writes -1 if it does not know.
    surroundings.read(device.join("numa_node"))?.parse().ok()
}

/// Reads the link of a PCI device, and what its slot is capable of: that is the link of the bridge above it.
fn pcie(surroundings: &Surroundings, device: &Path) -> Option<PcieLink> {
    let real = surroundings.resolved(device);
    let speed = |place: &Path, name: &str| surroundings.read(place.join(name)).and_then(|text| gts(&text));
    let width = |place: &Path, name: &str| {
        let width: u32 = surroundings.read(place.join(name))?.parse().ok()?;
        // 0 is no link, and 255 is unknown.
        (1..=32).contains(&width).then_some(width)
    };
    let slot: PathBuf = real.parent().map(Path::to_path_buf).unwrap_or_default();
    Some(PcieLink {
        speed_gts: speed(&real, "current_link_speed")?,
        width: width(&real, "current_link_width")?,
        device_speed_gts: speed(&real, "max_link_speed")?,
        device_width: width(&real, "max_link_width")?,
        slot_speed_gts: speed(&slot, "max_link_speed"),
        slot_width: width(&slot, "max_link_width"),
    })
}

/// Returns the number in `16.0 GT/s PCIe`.
fn gts(text: &str) -> Option<f64> {
    let (number, _) = text.split_once(" GT/s")?;
    number.parse().ok().filter(|speed: &f64| speed.is_finite())
}

fn interfaces(surroundings: &Surroundings) -> Vec<Interface> {
    let folder = Path::new("/sys/class/net");
    let mut names = surroundings.list(folder);
    if names.is_empty() {
        // Some containers hide the interfaces in sysfs. After two lines of headings, each line begins with a name.
        let table = surroundings.read("/proc/net/dev").unwrap_or_default();
        let lines = table.lines().skip(2).filter_map(|line| line.split_once(':'));
        names = lines.map(|(name, _)| name.trim().to_owned()).collect();
    }
    let interfaces = names.into_iter().map(|name| {
        let place = folder.join(&name);
        let state = surroundings
            .read(place.join("operstate"))
            .unwrap_or_else(|| "unknown".to_owned());
        let speed: Option<i64> = surroundings
            .read(place.join("speed"))
            .and_then(|text| text.parse().ok());
        Interface {
            state,
            speed_mbits: speed.and_then(|speed| u64::try_from(speed).ok()),
            has_device: surroundings.exists(place.join("device")),
            numa_node: numa_node(surroundings, &place.join("device")),
            name,
        }
    });
    interfaces.collect()
}

fn ports(surroundings: &Surroundings) -> Vec<Port> {
    let folder = Path::new("/sys/class/infiniband");
    let mut out = Vec::new();
    for device in surroundings.list(folder) {
        let place = folder.join(&device);
        let pci = place.join("device");
        let address = surroundings
            .exists(&pci)
            .then(|| surroundings.resolved(&pci))
            .and_then(|real| real.file_name().map(|name| name.to_string_lossy().into_owned()))
            .filter(|name| name.contains(':'));
        for port in surroundings.list(place.join("ports")) {
            let Ok(number) = port.parse() else { continue };
            let place = place.join("ports").join(&port);
            let state = surroundings.read(place.join("state")).unwrap_or_default();
            let rate = surroundings.read(place.join("rate")).unwrap_or_default();
            out.push(Port {
                device: device.clone(),
                port: number,
                state: state
                    .split_once(": ")
                    .map_or(state.as_str(), |(_, name)| name)
                    .to_owned(),
                rate_gbits: rate
                    .split_whitespace()
                    .next()
                    .and_then(|number| number.parse().ok()),
                lanes: rate
                    .split_once('(')
                    .and_then(|(_, inside)| inside.split([' ', ')']).next())
                    .filter(|lanes| lanes.ends_with('X'))
                    .map(str::to_owned),
                link_layer: surroundings
                    .read(place.join("link_layer"))
                    .unwrap_or_else(|| "InfiniBand".to_owned()),
                model: surroundings.read(folder.join(&device).join("hca_type")),
                address: address.clone(),
                numa_node: numa_node(surroundings, &pci),
                pcie: pcie(surroundings, &pci),
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nvml_and_of_the_kernel_are_equal() {
        assert!(is_same_address("0000:17:00.0", "00000000:17:00.0"));
        assert!(is_same_address("0000:ca:00.0", "00000000:CA:00.0"));
        assert!(!is_same_address("0000:17:00.0", "00000001:17:00.0"));
        assert!(!is_same_address("", ""));
    }

    #[test]
    fn speeds_have_a_unit() {
        assert_eq!(gts("16.0 GT/s PCIe"), Some(16.0));
        assert_eq!(gts("8 GT/s"), Some(8.0));
        assert_eq!(gts("Unknown"), None);
    }
}
