//! Calls in progress at the end of the log. They become operations that never ended, because their peers wait for them.

use super::batch::RankBatch;
use super::context::LogContext;
use super::event::{Call, DeviceReport, LogEvent, OperationFields, Stamp};
use super::held::{HeldFor, HeldOperations};
use super::listed_calls::ListedCalls;
use super::messages::Messages;
use super::spans::{blocked_kind, completing_kind};
use super::sums::InFlightSums;
use super::threads::HostThreads;
use super::works::Works;
use crate::model::interval::Interval;
use crate::model::operation::{Blocked, NO_TIME, RankOperation};
use rankscope_formats::session::{OperationState, SpanKind};
use rankscope_ranklog::Operation;
use rankscope_ranklog::reader::{Ending, InFlight};
use rankscope_ranklog::record::{BlockedIn, FLAG_FAILED};

/// The stages that calls in progress belong to.
pub struct LogEnd<'r, 'a> {
    /// Last timestamp of the log, in nanoseconds.
    pub end_ns: i64,
    /// The log.
    pub context: &'r LogContext<'a>,
    /// Work objects of c10d.
    pub works: &'r mut Works,
    /// Threads of the host.
    pub threads: &'r mut HostThreads,
    /// Messages that were posted.
    pub messages: &'r mut Messages,
    /// Held operations.
    pub held: &'r mut HeldOperations,
    /// Output.
    pub out: &'r mut RankBatch,
}

impl LogEnd<'_, '_> {
    /// Adds the calls in progress of all threads.
    pub fn take_all(&mut self, listed: &ListedCalls, sums: &mut InFlightSums) {
        let context = self.context;
        for call in context.log.calls_in_progress() {
            if listed.has_completed(call) {
                continue;
            }
            let Some(event) = LogEvent::of(&call.record) else {
                continue;
            };
            if let LogEvent::DeviceReport(report) = &event {
                self.take_on_stream(report, call, sums);
                continue;
            }
            let enter_ns = context.line.ns(call.record.enter_ticks);
            self.take(&event, call, enter_ns);
            // A call that started before the part is only reported if the process still runs, because then it is stuck
            // in the part too.
            let runs = context.log.ending == Ending::Running || context.log.was_copied;
            let is_reported = !context.is_before(enter_ns) || runs;
            if let Some(what) = describe(&event).filter(|_| is_reported) {
                sums.add(format!("{what}, on thread {}", call.thread_id), enter_ns);
            }
        }
    }

    fn take(&mut self, event: &LogEvent, call: &InFlight, enter_ns: i64) {
        match event {
            LogEvent::Call(library_call) => self.take_call(library_call, call, enter_ns),
            // The call never returned, so the operation is not on its stream yet.
            LogEvent::Enqueue(enqueue) => {
                let mut operation = self.operation(&enqueue.fields, call, enter_ns);
                operation.direct = true;
                self.hold(operation, call.lane);
            }
            LogEvent::Blocked { work, place } => {
                self.threads.breakdown.blocked(call.lane, enter_ns, self.end_ns);
                self.threads
                    .lanes
                    .blocked(call.lane, Interval::new(enter_ns, self.end_ns), *work);
                self.span(blocked_kind(*place), call, enter_ns);
            }
            LogEvent::Complete(complete) => {
                self.threads.breakdown.blocked(call.lane, enter_ns, self.end_ns);
                self.span(completing_kind(complete.operation), call, enter_ns);
                let stamp = self.stamp(call, enter_ns);
                if let Some(mut message) = self.messages.completed(complete, &stamp, self.context) {
                    message.state = OperationState::InFlight;
                    message.flags &= !FLAG_FAILED;
                    message.leave_ns = NO_TIME;
                    // Never empty: it shows that the program waits for the message now.
                    message.blocked = Blocked::one(enter_ns, stamp.leave_ns.max(enter_ns + 1));
                    self.hold(message, call.lane);
                }
            }
            _ => {}
        }
    }

    /// Adds an operation that was on its stream and had not ended. Only imports have these.
    fn take_on_stream(&mut self, report: &DeviceReport, call: &InFlight, sums: &mut InFlightSums) {
        let called_ns = self.context.line.ns(call.record.enter_ticks);
        let mut operation = self.operation(&report.fields, call, called_ns);
        // The field names the caller.
        operation.tag = 0;
        operation.direct = true;
        self.hold(operation, call.lane);
        let log = self.context.log;
        let name = report.fields.known_operation().map_or("unknown", Operation::name);
        let communicator = log.communicators.get(&report.fields.communicator.0);
        let of = communicator.map_or_else(String::new, |known| format!(" of {}", known.name));
        let number = if report.fields.is_message() || !report.fields.has_sequence() {
            String::new()
        } else {
            format!(" {}", report.fields.sequence)
        };
        let progress = if call.record.leave_ticks == 0 {
            "not seen to run"
        } else {
            "running"
        };
        let caller = log.texts.get(&report.fields.tag);
        let caller = caller.map_or_else(String::new, |caller| format!(", called in {caller}"));
        sums.add_undated(format!("{name}{number}{of}, {progress}{caller}"));
    }

    fn take_call(&mut self, library_call: &Call, call: &InFlight, enter_ns: i64) {
        let mut operation = self.operation(&library_call.fields, call, enter_ns);
        self.threads.breakdown.communicated(enter_ns, self.end_ns);
        match library_call.work {
            Some(work) => {
                if let Some(work) = self.works.called(work.get(), enter_ns) {
                    operation.issue_ns = work.issue_ns;
                    operation.requested = work.requested();
                }
            }
            None => {
                operation.direct = true;
                self.threads.breakdown.blocked(call.lane, enter_ns, self.end_ns);
                self.threads.breakdown.trains(call.lane);
            }
        }
        self.hold(operation, call.lane);
    }

    fn operation(&self, fields: &OperationFields, call: &InFlight, enter_ns: i64) -> RankOperation {
        let mut operation = self.context.operation(fields, call.thread_id, enter_ns, NO_TIME);
        operation.state = OperationState::InFlight;
        operation.flags &= !FLAG_FAILED;
        operation
    }

    fn hold(&mut self, operation: RankOperation, lane: u32) {
        self.held.sums.add(&operation);
        self.held.hold(operation, HeldFor::nothing(lane));
    }

    /// Adds the span of a thread that was blocked when its log ended.
    fn span(&mut self, kind: SpanKind, call: &InFlight, enter_ns: i64) {
        let stamp = self.stamp(call, enter_ns);
        self.out.span(kind, &stamp, 0, None);
    }

    fn stamp(&self, call: &InFlight, enter_ns: i64) -> Stamp {
        Stamp {
            thread_id: call.thread_id,
            lane: call.lane,
            enter_ns,
            leave_ns: self.end_ns.max(enter_ns),
        }
    }
}

/// Describes a call in progress; `None` if it is none that a job can hang in.
fn describe(event: &LogEvent) -> Option<String> {
    let name = |operation: Option<Operation>| operation.map_or("unknown", Operation::name);
    Some(match event {
        LogEvent::Call(call) => {
            let name = name(call.fields.known_operation());
            format!("{name}, tag {}", call.fields.tag)
        }
        LogEvent::Connect { .. } => "building a communicator".to_owned(),
        LogEvent::Disconnect { .. } => "leaving a communicator".to_owned(),
        LogEvent::Enqueue(call) => {
            let name = name(call.fields.known_operation());
            format!("{name}, being enqueued on its stream")
        }
        LogEvent::GroupEnd(end) => format!("ending a group of {} calls", end.operations),
        LogEvent::Blocked { place, .. } => {
            format!("blocked in {}", place.map_or("unknown", BlockedIn::name))
        }
        LogEvent::Complete(complete) => format!("waiting for a {}", name(complete.operation)),
        _ => return None,
    })
}
