//! Marks of the program, and the named host time that they show.

use super::batch::RankBatch;
use super::context::LogContext;
use super::event::{Mark, Stamp};
use super::named_pauses::{Pauses, row};
use super::sums::ReducerSums;
use crate::intervals::overlap::Breakdown;
use crate::model::interval::Interval;
use crate::model::pause_kinds::position;
use rankscope_formats::session::{PauseKind, SpanKind};
use rankscope_ranklog::marks::{FORWARD_BEGINS, UNUSED_SEARCH};

/// The marks of one rank.
#[derive(Default)]
pub struct HostMarks {
    /// Named host time.
    pub pauses: Pauses,
    /// End of the reducer's last wait, if the next forward pass has not started yet, in nanoseconds.
    backward_end_ns: Option<i64>,
    /// Sums so far.
    pub sums: ReducerSums,
}

impl HostMarks {
    /// Records that the reducer of DistributedDataParallel waited for its gradients, which ends a backward pass.
    pub fn reducer_waited(&mut self, stamp: &Stamp, context: &LogContext<'_>) {
        self.sums.waits += u64::from(!context.is_outside(stamp.enter_ns));
        self.backward_end_ns = Some(stamp.leave_ns);
    }

    /// Adds a mark. It may name host time, or contain a count.
    pub fn marked(
        &mut self,
        mark: &Mark,
        stamp: &Stamp,
        context: &LogContext<'_>,
        breakdown: &mut Breakdown,
        out: &mut RankBatch,
    ) {
        let Some(text) = context.log.texts.get(&mark.text) else {
            out.span(SpanKind::Mark, stamp, mark.span, None);
            return;
        };
        if text == UNUSED_SEARCH && !context.is_outside(stamp.enter_ns) {
            self.sums.unused_searches += 1;
            self.sums.unused_searches_ns += stamp.leave_ns - stamp.enter_ns;
        }
        if text == FORWARD_BEGINS {
            self.forward_began(stamp, context, breakdown, out);
        } else {
            self.named(mark, text, stamp, context, breakdown, out);
        }
        out.span(SpanKind::Mark, stamp, mark.span, Some(name(mark, text)));
    }

    /// Ends the time between two passes. It is unknown where the pass before the first one ended.
    fn forward_began(
        &mut self,
        stamp: &Stamp,
        context: &LogContext<'_>,
        breakdown: &mut Breakdown,
        out: &mut RankBatch,
    ) {
        let enter_ns = stamp.enter_ns;
        let ended = self.backward_end_ns.take().filter(|&from| from < enter_ns);
        if let Some(from) = ended.filter(|&from| !context.is_outside(from)) {
            let kind = PauseKind::BetweenPasses;
            breakdown.named(position(kind), from, enter_ns);
            let row = row(kind, Interval::new(from, enter_ns), stamp.thread_id, true, None);
            self.pauses.take(row, &mut out.pauses);
        }
    }

    /// Adds the host time that a mark names, and its count.
    fn named(
        &mut self,
        mark: &Mark,
        text: &str,
        stamp: &Stamp,
        context: &LogContext<'_>,
        breakdown: &mut Breakdown,
        out: &mut RankBatch,
    ) {
        let interval = stamp.interval();
        let Interval { start_ns, end_ns } = interval;
        let said = self.pauses.said(mark.text, text);
        if context.is_outside(start_ns) {
            return;
        }
        if let (Some(what), Some(number)) = (said.counts, mark.number) {
            self.pauses.count(start_ns, what, u64::from(number));
        }
        let Some(kind) = said.kind.filter(|_| !interval.is_empty()) else {
            return;
        };
        // The main thread has the id of the process.
        let pauses_training = stamp.thread_id == context.log.pid || breakdown.is_training(stamp.lane);
        if pauses_training {
            breakdown.named(position(kind), start_ns, end_ns);
        }
        let row = row(
            kind,
            interval,
            stamp.thread_id,
            pauses_training,
            Some(name(mark, text)),
        );
        self.pauses.take(row, &mut out.pauses);
    }
}

/// Returns the name of a mark. A trailing number is stored separately from its text.
fn name(mark: &Mark, text: &str) -> String {
    match (text.strip_suffix('#'), mark.number) {
        (Some(what), Some(number)) => format!("{what}{number}"),
        _ => text.to_owned(),
    }
}
