//! The clock from which the library reads timestamps. It uses the processor's counter only while the kernel does
//! (`rankscope_ranklog::clock`).

use crate::check::{Check, Severity, Subject};
use crate::facts::machine::Machine;

/// Clock sources that the library reads as a counter.
const COUNTERS: [&str; 2] = ["tsc", "arch_sys_counter"];
/// Clock sources that only the kernel can read, so that a timestamp needs a system call.
const SLOW: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub fn check(machine: &Machine) -> Option<Check> {
    let source = machine.clock_source.as_deref()?;
    if COUNTERS.contains(&source) {
        return Some(Check::new(
            Subject::Machine,
            Severity::Ok,
            "clock",
            format!("clock source {source}: timestamps come from the processor's counter"),
        ));
    }
    let could = machine
        .clock_sources
        .iter()
        .find(|name| COUNTERS.contains(&name.as_str()));
    let advice = match could {
        Some(name) => format!("the kernel also has {name}: see /sys/devices/system/clocksource/clocksource0"),
        None => "the kernel offers no counter: see `dmesg | grep -i clocksource`".to_owned(),
    };
    let is_slow = SLOW.contains(&source);
    let severity = if is_slow { Severity::Warn } else { Severity::Note };
    let cost = if is_slow {
        "timestamps come from CLOCK_MONOTONIC_RAW. With this source that is a system call, so each recorded call costs more"
    } else {
        "timestamps come from CLOCK_MONOTONIC_RAW, which is slower than the processor's counter"
    };
    Some(
        Check::new(
            Subject::Machine,
            severity,
            if is_slow { "clock-slow" } else { "clock-no-counter" },
            format!("clock source {source}, not the processor's counter"),
        )
        .because(cost)
        .advise(advice),
    )
}
