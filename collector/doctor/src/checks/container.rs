//! Kernel and container.

use crate::check::{Check, Severity, Subject};
use crate::facts::machine::Machine;

pub fn check(machine: &Machine) -> Vec<Check> {
    let mut out = Vec::new();
    if let Some(kernel) = &machine.kernel {
        out.push(Check::new(
            Subject::Machine,
            Severity::Ok,
            "kernel",
            format!("Linux {kernel}"),
        ));
    }
    if let Some(kind) = &machine.container {
        out.push(
            Check::new(
                Subject::Machine,
                Severity::Note,
                "container",
                format!("this is a container ({kind})"),
            )
            .because("the library and the run directory must be mounted into it, under the same paths in all ranks"),
        );
    }
    out
}
