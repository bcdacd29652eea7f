//! The host's name. Gloo listens on the address of that name, unless a variable names an interface (PyTorch's
//! documentation, "Choosing the network interface to use"). Peers on other hosts cannot reach a loopback address.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::libraries::Kind;

pub fn check(facts: &Facts) -> Option<Check> {
    let line = facts.machine.loopback_name.as_deref()?;
    let has_gloo = facts.libraries.first(Kind::Gloo).is_some();
    if !has_gloo || facts.variables.get("GLOO_SOCKET_IFNAME").is_some() {
        return None;
    }
    Some(
        Check::new(
            Subject::Machine,
            Severity::Note,
            "host-name-loopback",
            "the host's name has a loopback address, which other hosts cannot reach",
        )
        .because(format!("/etc/hosts: {line}"))
        .advise("for Gloo on several hosts set GLOO_SOCKET_IFNAME, or give the name its real address"),
    )
}
