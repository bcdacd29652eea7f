//! Ports of InfiniBand and RoCE adapters: state, rate, and their device files.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::{Port, Topology};

const ACTIVE: &str = "ACTIVE";

fn name(port: &Port) -> String {
    format!("{} port {}", port.device, port.port)
}

pub fn check(topology: &Topology) -> Vec<Check> {
    let ports = &topology.ports;
    if ports.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::new();
    if !topology.has_rdma_files {
        out.push(
            Check::new(
                Subject::Topology,
                Severity::Warn,
                "rdma-files-missing",
                "there are RDMA adapters, but no /dev/infiniband",
            )
            .because("NCCL cannot open the adapters and uses sockets")
            .advise("in a container: --device=/dev/infiniband, or the RDMA device plugin on Kubernetes"),
        );
    }
    let has_active = ports.iter().any(|port| port.state == ACTIVE);
    for port in ports {
        if port.state == ACTIVE {
            out.push(rate(port, ports));
            continue;
        }
        // An adapter often has a port without a cable. It is a fault if no port of the host is active, or if the same
        // port of an adapter of this model is.
        let equals_are_active = ports
            .iter()
            .any(|other| other.state == ACTIVE && other.model == port.model && other.port == port.port);
        let is_fault = !has_active || equals_are_active;
        let severity = if is_fault { Severity::Warn } else { Severity::Note };
        out.push(
            Check::new(
                Subject::Topology,
                severity,
                "rdma-port-down",
                format!("{} ({}) is {}", name(port), port.link_layer, port.state),
            )
            .because("NCCL uses only active ports")
            .advise("see `ibstat`: cable, switch port, or subnet manager"),
        );
    }
    out
}

/// Compares the rate with the fastest port of the same model.
fn rate(port: &Port, all: &[Port]) -> Check {
    let rate = port.rate_gbits.unwrap_or(0.0);
    let fastest = all
        .iter()
        .filter(|other| other.model == port.model && other.state == ACTIVE)
        .filter_map(|other| other.rate_gbits)
        .fold(rate, f64::max);
    let lanes = port.lanes.as_deref().unwrap_or_default();
    if rate < fastest {
        return Check::new(
            Subject::Topology,
            Severity::Warn,
            "rdma-port-slow",
            format!(
                "{} has {rate} Gbit/s, another of its model has {fastest}",
                name(port)
            ),
        )
        .because("a collective is as fast as its slowest port")
        .advise("check cable and switch port");
    }
    // Cables of InfiniBand and of current RoCE have at least two lanes. One lane is a bad contact.
    if lanes == "1X" && port.link_layer == "InfiniBand" {
        return Check::new(
            Subject::Topology,
            Severity::Warn,
            "rdma-port-narrow",
            format!("{} uses one lane, {rate} Gbit/s", name(port)),
        )
        .because("a port of InfiniBand normally has four lanes")
        .advise("check cable and switch port");
    }
    Check::new(
        Subject::Topology,
        Severity::Ok,
        "rdma-port",
        format!(
            "{} ({}) is active with {rate} Gbit/s",
            name(port),
            port.link_layer
        ),
    )
}
