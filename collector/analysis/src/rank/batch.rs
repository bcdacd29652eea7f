//! Output of a reader: what one call of it returns.

use super::event::Stamp;
use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::Parts;
use crate::model::interval::Interval;
use crate::model::operation::RankOperation;
use crate::model::part_window::PartWindow;
use crate::model::pause_kinds::COUNT;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::{
    CounterRow, NameRow, PauseRow, ProgramSpanRow, SpanKind, SpanRow, StallRow, WorkRow,
};
use std::borrow::Cow;

/// Result of one call of [`super::RankReader::advance`].
#[derive(Default)]
pub struct RankBatch {
    /// Complete operations, nearly in order of their leave. One may have waited until it was known what blocked it.
    pub operations: Vec<RankOperation>,
    /// Steps that ended.
    pub steps: Vec<StepCut>,
    /// Spans next to operations.
    pub spans: Vec<SpanRow>,
    /// Spans and events of the program.
    pub program_spans: Vec<ProgramSpanRow>,
    /// Samples of counters.
    pub counters: Vec<CounterRow>,
    /// Intervals in which the reducer of DistributedDataParallel waited. They help to find steps.
    pub reducer_waits: Vec<Interval>,
    /// Device work, nearly in order.
    pub works: Vec<WorkRow>,
    /// Stalls of the devices.
    pub stalls: Vec<StallRow>,
    /// Names of device work, reported once.
    pub names: Vec<NameRow>,
    /// Named times of the host whose step is known by now.
    pub pauses: Vec<PauseRow>,
    /// Messages inside collectives, if requested.
    pub evidence: Vec<EvidenceMessage>,
}

impl RankBatch {
    /// Removes everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.steps.clear();
        self.spans.clear();
        self.program_spans.clear();
        self.counters.clear();
        self.reducer_waits.clear();
        self.works.clear();
        self.stalls.clear();
        self.names.clear();
        self.pauses.clear();
        self.evidence.clear();
    }

    /// Adds a span of a thread.
    pub(super) fn span(&mut self, kind: SpanKind, stamp: &Stamp, object: u64, name: Option<String>) {
        self.spans.push(SpanRow {
            kind,
            thread_id: stamp.thread_id,
            start_ns: stamp.enter_ns,
            end_ns: stamp.leave_ns,
            object,
            name: name.map(Cow::Owned),
        });
    }

    /// Removes output that begins before or after the part that is reported. Spans that show whether activity was recorded are
    /// clipped instead.
    pub(super) fn leave_out_outside(&mut self, window: PartWindow) {
        self.spans.retain_mut(|span| {
            if matches!(span.kind, SpanKind::Covered | SpanKind::Yielded) {
                let inside = window.clip(Interval::new(span.start_ns, span.end_ns));
                (span.start_ns, span.end_ns) = (inside.start_ns, inside.end_ns);
                return !inside.is_empty();
            }
            window.contains(span.start_ns)
        });
        self.program_spans.retain(|span| window.contains(span.start_ns));
        self.counters.retain(|sample| window.contains(sample.at_ns));
        self.works.retain(|work| window.contains(work.start_ns));
        self.stalls.retain(|stall| window.contains(stall.start_ns));
        self.pauses.retain(|pause| window.contains(pause.start_ns));
    }
}

/// One end of a message inside a collective: evidence about clocks.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceMessage {
    /// Rank of this end.
    pub rank: RankIndex,
    /// Index of the communicator in the session.
    pub communicator: CommunicatorId,
    /// Member that sent it.
    pub sender: MemberIndex,
    /// Member that received it.
    pub receiver: MemberIndex,
    /// The collective: operation, and number of uses of its tag.
    pub object: u64,
    /// Tag of the collective.
    pub tag: u32,
    /// Slot of the message.
    pub slot: u64,
    /// Its number among the messages of the collective in this direction.
    pub number: u32,
    /// True for the sender's end.
    pub is_send: bool,
    /// Timestamp in nanoseconds. A message was sent no earlier, or received by then.
    pub at_ns: i64,
}

/// Duration and breakdown of a step on this rank.
#[derive(Clone, Copy, Debug)]
pub struct StepCut {
    /// Number of the step.
    pub step: StepIndex,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Parts of the rank's time.
    pub parts: Parts,
    /// Parts of its devices' time, if all of their activity was recorded.
    pub device: Option<DeviceParts>,
    /// Host time of its threads, in nanoseconds. It is known even if `parts` describes the devices.
    pub host_ns: i64,
    /// Named host time, in the order of [`crate::model::pause_kinds::KINDS`].
    pub named_ns: [i64; COUNT],
}

#[cfg(test)]
impl StepCut {
    /// Returns step `step` of a host-only rank in a run of steps of `window_ns`: first host time, then exposed
    /// communication.
    pub(crate) fn on_host(step: StepIndex, window_ns: i64, host_ns: i64) -> Self {
        let start_ns = i64::from(step.0) * window_ns;
        Self {
            step,
            start_ns,
            end_ns: start_ns + window_ns,
            parts: Parts {
                window_ns,
                host_ns,
                exposed_ns: window_ns - host_ns,
                communication_ns: window_ns - host_ns,
                ..Parts::default()
            },
            device: None,
            host_ns,
            named_ns: [0; COUNT],
        }
    }
}
