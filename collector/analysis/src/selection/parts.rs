//! Where each rank's time went in the window, from differences of the index's sums.

use super::parallel::stop_if;
use super::request::{SelectError, SelectionRequest};
use crate::model::labels;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{Lane, LaneKind, ViewFile, part};
use rankscope_formats::session::{Figure, Parts, RankParts, Session};
use std::sync::Arc;

const HOST: &str = "host";
const DEVICE: &str = "device";

/// Returns the parts of the ranks' time: for each rank those of the host, then those of its devices, if any.
pub fn parts(
    session: &Session,
    view: &dyn Fn(RankIndex) -> Option<Arc<ViewFile>>,
    request: &SelectionRequest<'_>,
) -> Result<Vec<RankParts>, SelectError> {
    let mut out = Vec::new();
    let waits_unknown = labels::waits_unknown(session);
    for rank in request.ranks_of(session) {
        stop_if(request.cancelled)?;
        let mut push = |level: &str, parts| {
            let level = level.to_owned();
            out.push(RankParts {
                rank: rank.0,
                level,
                parts,
            });
        };
        let Some(view) = view(rank) else {
            push(
                HOST,
                Figure::unknown("the viewer's index of this rank cannot be read"),
            );
            continue;
        };
        // Layer 0 of a host contains the thread that was blocked most, which represents the rank.
        let lane_of = |of_device| {
            view.lanes_of(|kind| kind == LaneKind::Parts { device: of_device })
                .map(|(_, lane)| lane)
                .find(|lane| lane.info.layer == 0)
        };
        let (host, device) = (lane_of(false), lane_of(true));
        if let Some(lane) = &host {
            let untimed = session.operations_without_times(rank.0);
            push(
                HOST,
                if untimed > 0 {
                    Figure::unknown(format!(
                        "{untimed} operations were put on a device's stream, and their completion times were not \
                         recorded"
                    ))
                } else {
                    of_lane(lane, false, request.window, waits_unknown)
                },
            );
        }
        if let Some(lane) = &device {
            push(DEVICE, of_lane(lane, true, request.window, waits_unknown));
        }
        if host.is_none() && device.is_none() {
            push(HOST, Figure::unknown("the rank's time was not recorded"));
        }
    }
    Ok(out)
}

fn of_lane(
    lane: &Lane<'_>,
    of_device: bool,
    (from_ns, to_ns): (i64, i64),
    waits_unknown: Option<&str>,
) -> Figure<Parts> {
    let from_ns = from_ns.max(lane.info.start_ns);
    let to_ns = to_ns.min(lane.info.end_ns);
    if from_ns >= to_ns {
        return Figure::unknown("nothing of this rank was recorded in the window");
    }
    let sums = lane.sums_in(from_ns, to_ns);
    let of = |class: u8| sums.0.get(usize::from(class)).map_or(0, |&ns| ns as i64);
    let only = |known: bool, class: u8, reason: &str| {
        if known {
            Figure::known(of(class))
        } else {
            Figure::unknown(reason)
        }
    };
    // Outside of the times with device records, the device's activity is unknown.
    let window_ns = to_ns - from_ns - of(part::NOT_RECORDED);
    // Unexpected classes also count. They would be a bug, which must not be hidden.
    let sum: u64 = sums.0.iter().take(usize::from(part::NOT_RECORDED)).sum();
    Figure::known(Parts {
        from_ns,
        to_ns,
        window_ns,
        own_ns: of(part::OWN),
        overlapped_ns: of(part::OVERLAPPED),
        exposed_transfer_ns: of(part::EXPOSED_TRANSFER),
        exposed_wait_ns: match waits_unknown {
            None => Figure::known(of(part::EXPOSED_WAIT)),
            Some(reason) => Figure::unknown(reason),
        },
        exposed_memory_ns: only(
            of_device,
            part::EXPOSED_MEMORY,
            "only devices have memory operations",
        ),
        idle_ns: only(of_device, part::IDLE, "only devices can be idle"),
        other_blocked_ns: only(!of_device, part::OTHER_BLOCKED, "only threads can be blocked"),
        adds_up: sum == window_ns.unsigned_abs(),
    })
}
