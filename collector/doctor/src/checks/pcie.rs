//! PCIe links below the rating of device and slot.
//!
//! GPUs lower the speed of an idle link, so a low speed of a GPU is only a note. The width does not change with the load.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::{PcieLink, Topology};

pub fn check(topology: &Topology) -> Vec<Check> {
    let mut out = Vec::new();
    if topology.gpus.is_empty() {
        out.push(Check::new(
            Subject::Topology,
            Severity::Ok,
            "no-gpu",
            "no GPU was found",
        ));
    }
    for gpu in &topology.gpus {
        let name = match &gpu.model {
            Some(model) => format!("GPU {} ({model})", gpu.address),
            None => format!("GPU {}", gpu.address),
        };
        match &gpu.pcie {
            Some(link) => out.extend(examine(&name, link, true)),
            None => out.push(Check::new(Subject::Topology, Severity::Ok, "gpu", name)),
        }
    }
    let mut seen = Vec::new();
    for port in &topology.ports {
        if let (Some(link), false) = (&port.pcie, seen.contains(&&port.device)) {
            seen.push(&port.device);
            out.extend(examine(&format!("adapter {}", port.device), link, false));
        }
    }
    out
}

fn examine(name: &str, link: &PcieLink, is_gpu: bool) -> Vec<Check> {
    let mut out = Vec::new();
    if link.width < link.rated_width() {
        out.push(
            Check::new(
                Subject::Topology,
                Severity::Warn,
                "pcie-narrow",
                format!("{name}: PCIe uses {} of {} lanes", link.width, link.rated_width()),
            )
            .because("transfers to the host and to network adapters are slower in proportion")
            .advise("reseat the card, or check riser, retimer and BIOS settings"),
        );
    }
    if link.speed_gts < link.rated_speed_gts() {
        let severity = if is_gpu { Severity::Note } else { Severity::Warn };
        let check = Check::new(
            Subject::Topology,
            severity,
            "pcie-slow",
            format!(
                "{name}: PCIe runs at {} of {} GT/s",
                link.speed_gts,
                link.rated_speed_gts()
            ),
        );
        out.push(if is_gpu {
            check.because("idle GPUs lower the speed of the link: look again while the job runs")
        } else {
            check
                .because("transfers are slower in proportion")
                .advise("check slot, riser and BIOS settings")
        });
    }
    if link.rated_width() < link.device_width || link.rated_speed_gts() < link.device_speed_gts {
        out.push(Check::new(
            Subject::Topology,
            Severity::Note,
            "pcie-slot",
            format!(
                "{name}: the slot allows {} lanes of {} GT/s, and the device has {} of {}",
                link.rated_width(),
                link.rated_speed_gts(),
                link.device_width,
                link.device_speed_gts
            ),
        ));
    }
    if out.is_empty() {
        out.push(Check::new(
            Subject::Topology,
            Severity::Ok,
            "pcie",
            format!(
                "{name}: PCIe with {} lanes of {} GT/s",
                link.width, link.speed_gts
            ),
        ));
    }
    out
}
