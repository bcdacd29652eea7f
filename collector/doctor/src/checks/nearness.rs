//! GPUs without a network adapter on their own socket. Transfers then cross the link between sockets.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::Topology;

pub fn check(topology: &Topology) -> Vec<Check> {
    let mut nodes: Vec<u32> = topology.ports.iter().filter_map(|port| port.numa_node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    // The kernel does not report where the adapters are.
    if nodes.is_empty() {
        return Vec::new();
    }
    topology
        .gpus
        .iter()
        .filter_map(|gpu| {
            let node = gpu.numa_node.filter(|node| !nodes.contains(node))?;
            let list: Vec<String> = nodes.iter().map(u32::to_string).collect();
            Some(
                Check::new(
                    Subject::Topology,
                    Severity::Warn,
                    "gpu-far-from-adapter",
                    format!("GPU {} is on NUMA node {node}, which has no RDMA adapter", gpu.address),
                )
                .because(format!(
                    "adapters are on node {}: the GPU's traffic crosses the link between sockets, and NCCL may not use \
                     GPUDirect RDMA",
                    list.join(", ")
                ))
                .advise("move an adapter to that socket, or use fewer of its GPUs"),
            )
        })
        .collect()
}
