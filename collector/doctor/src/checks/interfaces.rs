//! Network interfaces and adapters that variables name.
//!
//! The syntax is that of NCCL's documentation ("Environment Variables": NCCL_SOCKET_IFNAME, NCCL_IB_HCA): a list of
//! prefixes, `=` for exact names, `^` for a list of exclusions. Gloo and TensorPipe take exact names.

use crate::check::{Check, Severity, Subject};
use crate::facts::topology::Topology;
use crate::facts::variables::Variables;

/// List of names in the value of a variable.
struct Selection<'a> {
    is_exclusion: bool,
    is_exact: bool,
    names: Vec<&'a str>,
}

impl<'a> Selection<'a> {
    fn of_nccl(value: &'a str) -> Self {
        let (is_exclusion, rest) = value
            .strip_prefix('^')
            .map_or((false, value), |rest| (true, rest));
        let (is_exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
        Self {
            is_exclusion,
            is_exact,
            names: names(rest),
        }
    }

    fn exact(value: &'a str) -> Self {
        Self {
            is_exclusion: false,
            is_exact: true,
            names: names(value),
        }
    }

    fn matches(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| {
            if self.is_exact {
                name == *wanted
            } else {
                name.starts_with(wanted)
            }
        })
    }
}

fn names(list: &str) -> Vec<&str> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect()
}

pub fn check(variables: &Variables, topology: &Topology) -> Vec<Check> {
    let mut out = Vec::new();
    for (name, is_exact) in [
        ("NCCL_SOCKET_IFNAME", false),
        ("GLOO_SOCKET_IFNAME", true),
        ("TP_SOCKET_IFNAME", true),
    ] {
        let Some(value) = variables.get(name) else {
            continue;
        };
        let selection = if is_exact {
            Selection::exact(value)
        } else {
            Selection::of_nccl(value)
        };
        if !topology.interfaces.is_empty() && !selection.is_exclusion {
            out.extend(interface(name, value, &selection, topology));
        }
    }
    out.extend(adapter(variables, topology));
    out
}

fn interface(name: &str, value: &str, selection: &Selection<'_>, topology: &Topology) -> Option<Check> {
    let chosen: Vec<_> = topology
        .interfaces
        .iter()
        .filter(|interface| selection.matches(&interface.name))
        .collect();
    if chosen.is_empty() {
        let existing: Vec<&str> = topology.interfaces.iter().map(|one| one.name.as_str()).collect();
        return Some(
            Check::of_variable(
                "interface-missing",
                format!("{name}={value} names no interface of this machine"),
            )
            .because("the library fails when it starts")
            .advise(format!("interfaces: {}", existing.join(", "))),
        );
    }
    if chosen.iter().all(|interface| interface.state == "down") {
        return Some(
            Check::of_variable("interface-down", format!("{name}={value}: the interface is down"))
                .because("no peer can be reached through it"),
        );
    }
    chosen.iter().all(|interface| interface.name == "lo").then(|| {
        Check::new(
            Subject::Variables,
            Severity::Note,
            "interface-loopback",
            format!("{name}={value}: ranks on other hosts cannot be reached"),
        )
    })
}

fn adapter(variables: &Variables, topology: &Topology) -> Option<Check> {
    let value = variables.get("NCCL_IB_HCA")?;
    let mut selection = Selection::of_nccl(value);
    if selection.is_exclusion {
        return None;
    }
    // A name may have a port, as in `mlx5_0:1`.
    selection.names = selection
        .names
        .iter()
        .filter_map(|name| name.split(':').next())
        .collect();
    if topology.ports.iter().any(|port| selection.matches(&port.device)) {
        return None;
    }
    let mut existing: Vec<&str> = topology.ports.iter().map(|port| port.device.as_str()).collect();
    existing.dedup();
    let advice = if existing.is_empty() {
        "this machine has no RDMA adapter".to_owned()
    } else {
        format!("adapters: {}", existing.join(", "))
    };
    Some(
        Check::of_variable(
            "adapter-missing",
            format!("NCCL_IB_HCA={value} names no adapter of this machine"),
        )
        .because("NCCL uses sockets instead, or fails if NCCL_NET=IB")
        .advise(advice),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_exact_names_and_exclusions_differ() {
        assert!(Selection::of_nccl("eth").matches("eth0"));
        assert!(!Selection::of_nccl("=eth").matches("eth0"));
        assert!(Selection::of_nccl("=eth0,eth1").matches("eth1"));
        assert!(Selection::of_nccl("^docker,lo").is_exclusion);
        assert!(!Selection::exact("eth").matches("eth0"));
    }
}
