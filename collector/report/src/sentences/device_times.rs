//! Sources of device times.

use super::line::{Level, Line};
use crate::figures::{count, counted, quoted, time};
use crate::prose::{Prose, prose};
use crate::source::{max, number, sum};
use rankscope_formats::session::{DeviceSource, Session};

/// Returns the sources of device times, and calls that only one source recorded.
pub fn devices(session: &Session) -> Vec<Line> {
    let devices = &session.devices;
    if devices.is_empty() {
        return Vec::new();
    }
    let lines = [
        Some(sources(devices)),
        timed_by_events(devices),
        one_source(devices),
        without_call(devices),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns the sources, the number of operations that they timed, and the error of their times.
fn sources(devices: &[DeviceSource]) -> Line {
    let mut sources: Vec<(&str, usize)> = devices
        .iter()
        .enumerate()
        .map(|(at, device)| (device.source.as_str(), at))
        .collect();
    sources.sort_unstable();
    sources.dedup_by_key(|(source, _)| *source);
    let sources = sources
        .iter()
        .map(|(source, at)| quoted(*source, format!("/devices/{at}/source")));
    let mut text = prose![
        Prose::join(sources, "; "),
        " on ",
        counted(devices.len() as u64, "rank", number("/devices/*/rank")),
        ": ",
        counted(
            devices.iter().map(|device| device.operations).sum(),
            "operation",
            sum(&["/devices/*/operations"])
        ),
        " with device times"
    ];
    let errors: Option<Vec<i64>> = devices
        .iter()
        .map(|device| device.widest_error_ns.value)
        .collect();
    let unknown = devices
        .iter()
        .enumerate()
        .find_map(|(at, device)| Some((at, device.widest_error_ns.reason.as_ref()?)));
    match (errors.and_then(|errors| errors.into_iter().max()), unknown) {
        (Some(widest), _) => text.push(prose![
            ", at most ",
            time(widest, max("/devices/*/widest_error_ns/value")),
            " late on the axis"
        ]),
        (None, Some((at, reason))) => text.push(prose![
            " (",
            quoted(reason, format!("/devices/{at}/widest_error_ns/reason")),
            ")"
        ]),
        (None, None) => {}
    }
    Line::new(Level::Plain, text)
}

fn timed_by_events(devices: &[DeviceSource]) -> Option<Line> {
    let by_events: u64 = devices.iter().map(|device| device.timed_by_events).sum();
    (by_events > 0).then(|| {
        Line::new(
            Level::Plain,
            prose![
                count(by_events, sum(&["/devices/*/timed_by_events"])),
                " of them timed by events around the launch: they start early by the host's launch time"
            ],
        )
    })
}

/// Returns the number of calls that only the plugin or only the hooks recorded.
fn one_source(devices: &[DeviceSource]) -> Option<Line> {
    let bypassed: u64 = devices.iter().map(|device| device.bypassed).sum();
    let hooks_only: u64 = devices.iter().map(|device| device.hooks_only).sum();
    (bypassed > 0 || hooks_only > 0).then(|| {
        Line::new(
            Level::Plain,
            prose![
                counted(bypassed, "call", sum(&["/devices/*/bypassed"])),
                format!(
                    " bypassed the hooks and {} known only from the plugin; ",
                    if bypassed == 1 { "is" } else { "are" }
                ),
                counted(hooks_only, "call", sum(&["/devices/*/hooks_only"])),
                " known only from the hooks"
            ],
        )
    })
}

fn without_call(devices: &[DeviceSource]) -> Option<Line> {
    let without_call: u64 = devices.iter().map(|device| device.without_call).sum();
    (without_call > 0).then(|| {
        Line::new(
            Level::Warning,
            prose![
                counted(without_call, "record", sum(&["/devices/*/without_call"])),
                " of device activity without a recorded call"
            ],
        )
    })
}
