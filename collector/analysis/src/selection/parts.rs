//! Where each rank's time went in the window: differences of the sums that the index has.

use super::parallel::stop_if;
use super::{SelectError, Wanted};
use crate::model::labels;
use rankscope_formats::index::{Lane, LaneKind, ViewFile, part};
use rankscope_formats::session::{Figure, Parts, RankParts, Session};
use std::sync::Arc;

const HOST: &str = "host";
const DEVICE: &str = "device";

/// The parts of the ranks' time: of each rank its host's, then its devices' if there are any.
pub fn parts(
    session: &Session,
    view: &dyn Fn(u32) -> Option<Arc<ViewFile>>,
    wanted: &Wanted<'_>,
) -> Result<Vec<RankParts>, SelectError> {
    let mut out = Vec::new();
    let waits_unknown = labels::waits_unknown(session);
    for rank in wanted.ranks_of(session) {
        stop_if(wanted.cancelled)?;
        let mut push = |level: &str, parts| {
            let level = level.to_owned();
            out.push(RankParts { rank, level, parts });
        };
        let Some(view) = view(rank) else {
            push(
                HOST,
                Figure::unknown("the viewer's index of this rank cannot be read"),
            );
            continue;
        };
        // Of a host the lane of layer 0 is that of the thread that was blocked most, which is the rank's.
        let lane_of = |of_device| {
            view.lanes_of(|kind| kind == LaneKind::Parts { device: of_device })
                .map(|(_, lane)| lane)
                .find(|lane| lane.info.layer == 0)
        };
        let (host, device) = (lane_of(false), lane_of(true));
        if let Some(lane) = &host {
            let untimed = session.operations_without_times(rank);
            push(
                HOST,
                if untimed > 0 {
                    Figure::unknown(format!(
                        "{untimed} operations were put on a device's stream, and when they were done was not recorded"
                    ))
                } else {
                    of_lane(lane, false, wanted.window, waits_unknown)
                },
            );
        }
        if let Some(lane) = &device {
            push(DEVICE, of_lane(lane, true, wanted.window, waits_unknown));
        }
        if host.is_none() && device.is_none() {
            push(
                HOST,
                Figure::unknown("nothing was recorded of where its time went"),
            );
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
        return Figure::unknown("nothing of it was recorded in this window");
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
    // Between times in which devices were recorded nothing is known of them.
    let window_ns = to_ns - from_ns - of(part::NOT_RECORDED);
    // Also what has no business here counts: it would be a bug, and is not to be hidden.
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
        exposed_memory_ns: only(of_device, part::EXPOSED_MEMORY, "memory work is told of devices"),
        idle_ns: only(of_device, part::IDLE, "only a device is idle"),
        other_blocked_ns: only(!of_device, part::OTHER_BLOCKED, "only a thread is blocked"),
        adds_up: sum == window_ns.unsigned_abs(),
    })
}
