//! What a window adds to counters. Consecutive windows overlap, so that no operation falls between two of them.
//!
//! An instance or a step is counted in the first window whose watermark reaches its end. The watermark is the time up to which
//! the records of all ranks have been read.

use crate::top::document::{TopDocument, TopState};
use crate::window::Window;
use rankscope_formats::session::{InstanceRow, InstanceState, Session, StepSummary};
use std::collections::BTreeSet;

/// The watermark follows the slowest rank, but it is never more than this part of a window behind the reading: a rank that
/// hangs must not hide the others.
const MOST_BEHIND: i64 = 2;

/// Times up to which a job was counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// Watermark of the previous window, in nanoseconds since 1970.
    watermark_unix_ns: Option<i64>,
}

/// What a window adds.
#[derive(Debug)]
pub struct Added<'a> {
    /// Instances that no earlier window had.
    pub instances: Vec<&'a InstanceRow>,
    /// Steps that no earlier window had; an entry may stand for several steps.
    pub steps: Vec<&'a StepSummary>,
    /// Time between the previous watermark and the start of the window, in nanoseconds. What ended in it is not counted.
    pub gap_ns: i64,
}

impl Tally {
    /// Returns what a window adds. The document has the figures of the same window.
    pub fn add<'a>(&mut self, window: &'a Window, document: &TopDocument) -> Added<'a> {
        let session = &window.session;
        let on_axis = |unix_ns: i64| unix_ns.saturating_sub(session.axis.origin_unix_ns);
        let limit = on_axis(document.read_unix_ns).saturating_sub(document.window.requested_ns / MOST_BEHIND);
        let previous = self.watermark_unix_ns.map(on_axis);
        let watermark = read_until(session, document).map_or(limit, |until| until.max(limit));
        let watermark = previous.map_or(watermark, |previous| previous.max(watermark));
        self.watermark_unix_ns = Some(watermark.saturating_add(session.axis.origin_unix_ns));
        let is_new = |end_ns: i64| previous.is_none_or(|previous| end_ns > previous) && end_ns <= watermark;
        let gap_ns = match (&session.part, previous) {
            (Some(part), Some(previous)) => (part.from_ns - previous).max(0),
            _ => 0,
        };
        Added {
            instances: window
                .instances
                .iter()
                .filter(|row| has_ended(row.state) && is_new(row.end_ns))
                .collect(),
            steps: session
                .steps
                .list
                .iter()
                .filter(|step| is_new(step.end_ns))
                .collect(),
            gap_ns,
        }
    }
}

/// Whether the end of an instance is final. An incomplete instance may complete in a later window, with a later end.
fn has_ended(state: InstanceState) -> bool {
    matches!(
        state,
        InstanceState::Complete | InstanceState::Alone | InstanceState::OneSided | InstanceState::Enqueued
    )
}

/// Returns the time up to which the records of all ranks that still record were read, in nanoseconds on the axis.
fn read_until(session: &Session, document: &TopDocument) -> Option<i64> {
    let recording: BTreeSet<&str> = document
        .ranks
        .iter()
        .filter(|row| matches!(row.state, TopState::Running | TopState::Elsewhere))
        .map(|row| row.name.as_str())
        .collect();
    let newest = document.attempt.number.saturating_sub(1);
    let ranks = session.ranks.iter();
    ranks
        .filter(|rank| rank.attempt == newest && recording.contains(rank.name.as_str()))
        .filter_map(|rank| rank.end_ns.value)
        .min()
}
