//! NVLink links that are down. The facts come from NVML, and no GPU has run this check.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::Topology;

pub fn check(topology: &Topology) -> Vec<Check> {
    let active = |links: &[crate::facts::nvml::NvLink]| links.iter().filter(|link| link.is_active).count();
    // GPUs of a host have equally many links. Links that are down on every GPU have no peer.
    let most = topology
        .gpus
        .iter()
        .map(|gpu| active(&gpu.nvlinks))
        .max()
        .unwrap_or(0);
    let mut out = Vec::new();
    for gpu in topology.gpus.iter().filter(|gpu| active(&gpu.nvlinks) < most) {
        out.push(
            Check::new(
                Subject::Topology,
                Severity::Warn,
                "nvlink-down",
                format!(
                    "GPU {} has {} NVLink links up, others have {most}",
                    gpu.address,
                    active(&gpu.nvlinks)
                ),
            )
            .advise("see `nvidia-smi nvlink --status`"),
        );
    }
    if most > 0 && out.is_empty() {
        let version = topology
            .gpus
            .iter()
            .flat_map(|gpu| &gpu.nvlinks)
            .filter_map(|link| link.version)
            .max();
        let version = version
            .map(|version| format!(", NVML's version {version}"))
            .unwrap_or_default();
        out.push(Check::new(
            Subject::Topology,
            Severity::Ok,
            "nvlink",
            format!("{most} NVLink links per GPU are up{version}"),
        ));
    }
    out
}
