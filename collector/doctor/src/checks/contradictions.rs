//! Variables that contradict each other, or the devices of the machine.
//!
//! Source: NCCL's documentation, "Environment Variables". The rules hold for NCCL 2.18 to 2.32.

use crate::check::Check;
use crate::facts::topology::Topology;
use crate::facts::variables::Variables;

/// Variables that only the InfiniBand transport reads.
const ONLY_IB: [&str; 9] = [
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_PCI_RELAXED_ORDERING",
];

/// Checks that need no devices.
pub fn check(variables: &Variables) -> Vec<Check> {
    let mut out = Vec::new();
    out.extend(infiniband(variables));
    out.extend(network(variables));
    if variables.is_on("NCCL_P2P_DISABLE") && variables.get("NCCL_P2P_LEVEL").is_some() {
        out.push(
            Check::of_variable(
                "contradiction-p2p",
                "NCCL_P2P_DISABLE=1 and NCCL_P2P_LEVEL are both set",
            )
            .because("peer-to-peer transfers are off, so the level has no effect"),
        );
    }
    if variables.is_on("NCCL_P2P_DISABLE") && variables.is_on("NCCL_SHM_DISABLE") {
        out.push(
            Check::of_variable(
                "no-local-transport",
                "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 are both set",
            )
            .because("ranks of one host then communicate through the network, which is slower"),
        );
    }
    for (least, most) in [
        ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
        ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
    ] {
        if let (Some(low), Some(high)) = (variables.number(least), variables.number(most))
            && low > high
        {
            out.push(
                Check::of_variable(
                    "contradiction-channels",
                    format!("{least}={low} is more than {most}={high}"),
                )
                .because("only one of them can have an effect"),
            );
        }
    }
    out
}

fn infiniband(variables: &Variables) -> Option<Check> {
    if !variables.is_on("NCCL_IB_DISABLE") {
        return None;
    }
    let set: Vec<&str> = ONLY_IB
        .into_iter()
        .filter(|name| variables.get(name).is_some())
        .collect();
    (!set.is_empty()).then(|| {
        Check::of_variable(
            "contradiction-ib",
            format!("NCCL_IB_DISABLE=1 and {} are set", set.join(", ")),
        )
        .because("InfiniBand and RoCE are off, so their settings have no effect")
        .advise("unset NCCL_IB_DISABLE if the adapters are meant to be used")
    })
}

fn network(variables: &Variables) -> Option<Check> {
    let network = variables.get("NCCL_NET")?;
    let is = |name: &str| network.eq_ignore_ascii_case(name);
    if is("IB") && variables.is_on("NCCL_IB_DISABLE") {
        return Some(
            Check::of_variable(
                "contradiction-net",
                "NCCL_NET=IB and NCCL_IB_DISABLE=1 are both set",
            )
            .because("NCCL fails: it may only use InfiniBand, which is off"),
        );
    }
    (is("Socket") && variables.get("NCCL_IB_HCA").is_some()).then(|| {
        Check::of_variable(
            "contradiction-net",
            "NCCL_NET=Socket and NCCL_IB_HCA are both set",
        )
        .because("NCCL uses sockets, so the choice of adapters has no effect")
    })
}

/// Checks that compare variables with devices.
pub fn with_devices(variables: &Variables, topology: &Topology) -> Vec<Check> {
    let mut out = Vec::new();
    let active = topology.ports.iter().any(|port| port.state == "ACTIVE");
    // If NCCL_IB_DISABLE contradicts another variable, the contradiction is reported instead.
    let is_reported = infiniband(variables).is_some() || network(variables).is_some();
    if active && variables.is_on("NCCL_IB_DISABLE") && !is_reported {
        out.push(
            Check::of_variable(
                "ib-disabled",
                "NCCL_IB_DISABLE=1, and this machine has active RDMA adapters",
            )
            .because("NCCL uses sockets instead, which are slower")
            .advise("unset NCCL_IB_DISABLE"),
        );
    }
    if topology.gpus.len() > 1
        && variables.is_on("NCCL_P2P_DISABLE")
        && variables.get("NCCL_P2P_LEVEL").is_none()
        && !variables.is_on("NCCL_SHM_DISABLE")
    {
        out.push(
            Check::of_variable(
                "p2p-disabled",
                "NCCL_P2P_DISABLE=1: GPUs of this host do not use NVLink or PCIe directly",
            )
            .because("transfers go through the host's memory")
            .advise("unset NCCL_P2P_DISABLE unless it works around a fault"),
        );
    }
    out
}
