//! Network interfaces that are up, and distances between NUMA nodes.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::{Interface, Topology};
use crate::text::first_of;

/// Interfaces that are printed. A host of containers has hundreds.
const MAX_SHOWN: usize = 8;

fn named(interface: &Interface) -> String {
    let speed = match interface.speed_mbits {
        Some(speed) if speed >= 1000 => format!(" with {} Gbit/s", speed as f64 / 1000.0),
        Some(speed) => format!(" with {speed} Mbit/s"),
        None => String::new(),
    };
    let node = interface.numa_node.map(|node| format!(", NUMA node {node}"));
    format!("{}{speed}{}", interface.name, node.unwrap_or_default())
}

pub fn check(topology: &Topology) -> Vec<Check> {
    let mut out = Vec::new();
    let up: Vec<String> = topology
        .interfaces
        .iter()
        .filter(|interface| interface.state != "down" && interface.name != "lo")
        .map(named)
        .collect();
    if !up.is_empty() {
        out.push(Check::new(
            Subject::Topology,
            Severity::Ok,
            "interfaces",
            format!("network: {}", first_of(&up, MAX_SHOWN, "; ")),
        ));
    }
    let farthest = topology.numa_distances.iter().flatten().max();
    if let (Some(farthest), true) = (farthest, topology.numa_distances.len() > 1) {
        out.push(Check::new(
            Subject::Topology,
            Severity::Ok,
            "numa",
            format!(
                "{} NUMA nodes, the largest distance is {farthest} (10 is the node itself)",
                topology.numa_distances.len()
            ),
        ));
    }
    out
}
