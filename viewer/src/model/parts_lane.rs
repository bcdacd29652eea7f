//! The lane of a rank that shows where its time went.

use rankscope_formats::index::{LaneInfo, LaneKind};

/// Returns the lane of the breakdown: that of the devices, or else that of the host.
pub fn parts_lane(lanes: &[LaneInfo]) -> Option<usize> {
    lanes
        .iter()
        .position(|lane| matches!(lane.kind, LaneKind::Parts { device: true }))
        .or_else(|| {
            lanes
                .iter()
                .position(|lane| matches!(lane.kind, LaneKind::Parts { .. }) && lane.layer == 0)
        })
}
