//! NVLink links that are down. The facts come from NVML, and no machine with NVLink has run this check.

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
            .map(|version| format!(", version {version} as NVML numbers them"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;
    use crate::facts::nvml::NvLink;
    use crate::facts::topology::Gpu;

    fn gpu(address: &str, states: &[bool]) -> Gpu {
        let links = (0..).zip(states).map(|(number, is_active)| NvLink {
            number,
            is_active: *is_active,
            version: Some(7),
        });
        Gpu {
            address: address.to_owned(),
            maker: "NVIDIA".to_owned(),
            model: None,
            numa_node: None,
            pcie: None,
            nvlinks: links.collect(),
        }
    }

    fn severities(gpus: Vec<Gpu>) -> Vec<Severity> {
        let topology = Topology {
            gpus,
            ..Topology::default()
        };
        check(&topology).into_iter().map(|check| check.severity).collect()
    }

    #[test]
    fn a_gpu_with_fewer_links_is_named() {
        let whole = || gpu("0000:17:00.0", &[true, true, false]);
        assert_eq!(severities(vec![whole(), whole()]), [Severity::Ok]);
        let short = gpu("0000:9b:00.0", &[true, false, false]);
        assert_eq!(severities(vec![whole(), short]), [Severity::Warn]);
        assert!(severities(vec![gpu("0000:17:00.0", &[])]).is_empty());
    }
}
