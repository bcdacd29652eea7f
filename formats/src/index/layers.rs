//! Spans that overlap, laid out in as many lanes as it takes.

use super::ViewError;
use super::{LaneKind, Span, ViewWriter};
use rustc_hash::FxHashMap;

/// Layers of a kind at most: what finds no place is shortened in the last one, which is counted.
const MOST_LAYERS: usize = 32;

/// The lanes of each kind. Spans come in the order of their begins.
#[derive(Default)]
pub struct Layers {
    lanes: FxHashMap<LaneKind, Vec<usize>>,
    /// Spans that found no place without being shortened.
    pub shortened: u64,
}

impl Layers {
    /// Appends a span to the first lane of its kind that is free.
    pub fn push(&mut self, writer: &mut ViewWriter, kind: LaneKind, span: Span) -> Result<(), ViewError> {
        let lanes = self.lanes.entry(kind).or_default();
        let free = lanes
            .iter()
            .copied()
            .find(|&lane| writer.end_ns(lane) <= span.start_ns);
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() < MOST_LAYERS => {
                let lane = writer.lane(kind, lanes.len() as u32);
                lanes.push(lane);
                lane
            }
            None => {
                self.shortened += 1;
                lanes[MOST_LAYERS - 1]
            }
        };
        writer.push(lane, span)
    }
}
