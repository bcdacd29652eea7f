//! The clock from which the library reads timestamps. It uses the processor's counter only while the kernel does
//! (`rankscope_ranklog::clock`).

use crate::check::{Check, Severity, Subject};
use crate::facts::machine::Machine;

/// Clock sources that the library reads as a counter.
const COUNTERS: [&str; 2] = ["tsc", "arch_sys_counter"];
/// Clock sources for which the kernel must be entered, which costs about a microsecond per reading.
const SLOW: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub fn check(machine: &Machine) -> Option<Check> {
    let source = machine.clock_source.as_deref()?;
    if COUNTERS.contains(&source) {
        return Some(Check::new(
            Subject::Machine,
            Severity::Ok,
            "clock",
            format!("clock source {source}: timestamps are the processor's counter"),
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
        "timestamps are CLOCK_MONOTONIC_RAW, which needs a system call here: a recorded call costs microseconds"
    } else {
        "timestamps are CLOCK_MONOTONIC_RAW, which is slower than the processor's counter"
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
