//! Distribution of overlapping spans to several lanes.

use super::ViewError;
use super::{LaneKind, Span, ViewWriter};
use rustc_hash::FxHashMap;

/// Maximum number of layers per kind. Spans that do not fit are shortened in the last layer and counted.
const MAX_LAYERS: usize = 32;

/// Lanes of each kind. Spans must be added in the order of their starts.
#[derive(Default)]
pub struct Layers {
    lanes: FxHashMap<LaneKind, Vec<usize>>,
    /// Number of spans that had to be shortened.
    pub shortened: u64,
}

impl Layers {
    /// Appends a span to the first free lane of its kind.
    pub fn push(&mut self, writer: &mut ViewWriter, kind: LaneKind, span: Span) -> Result<(), ViewError> {
        let lanes = self.lanes.entry(kind).or_default();
        let free = lanes
            .iter()
            .copied()
            .find(|&lane| writer.end_ns(lane) <= span.start_ns);
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() < MAX_LAYERS => {
                let lane = writer.lane(kind, lanes.len() as u32);
                lanes.push(lane);
                lane
            }
            None => {
                self.shortened += 1;
                lanes[MAX_LAYERS - 1]
            }
        };
        writer.push(lane, span)
    }
}
