//! Duration of the run and its totals.

use super::line::{Level, Line};
use crate::figures::{self, count, counted, time};
use crate::prose::prose;
use crate::source::{less, sum};
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::Session;

/// Returns the duration of the run and its totals.
pub fn run(session: &Session) -> Line {
    let totals = &session.totals;
    let mut text = prose![
        time(
            session.axis.end_ns - session.axis.start_ns,
            less("/axis/end_ns", "/axis/start_ns")
        ),
        ", ",
        counted(totals.operations, "operation", "/totals/operations"),
        " in ",
        counted(totals.instances, "instance", "/totals/instances"),
        " (",
        figures::bytes(totals.bytes, "/totals/bytes"),
        " of payload)"
    ];
    let mut level = Level::Plain;
    if totals.failed > 0 {
        text.push(prose!["; ", count(totals.failed, "/totals/failed"), " failed"]);
        level = Level::Warning;
    }
    if totals.in_flight > 0 {
        text.push(prose![
            "; ",
            count(totals.in_flight, "/totals/in_flight"),
            if session.ranks.iter().any(|rank| rank.ending == LogEnding::Running) {
                " not finished yet"
            } else {
                " never finished"
            }
        ]);
        level = Level::Warning;
    }
    if totals.enqueued > 0 {
        text.push(prose![
            "; ",
            count(totals.enqueued, "/totals/enqueued"),
            " were enqueued on a stream, but their completion was not recorded"
        ]);
    }
    let shared: u64 = session.operations.iter().map(|class| class.shared).sum();
    if shared > 0 {
        text.push(prose![
            "; ",
            count(shared, sum(&["/operations/*/shared"])),
            " share their launch with others of their group, and are counted with it"
        ]);
    }
    if totals.captured > 0 {
        text.push(prose![
            "; ",
            counted(totals.captured, "more call", "/totals/captured"),
            " were captured into graphs",
            match session.devices.iter().map(|device| device.replays).sum() {
                0 => prose![", whose replays are not recorded"],
                replays => prose![
                    ", replayed as ",
                    counted(replays, "operation", sum(&["/devices/*/replays"]))
                ],
            }
        ]);
    }
    Line::new(level, text)
}
