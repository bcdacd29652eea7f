//! The stages of a reader: each event goes to the stage that needs it, and held operations are released.

use super::activity::{self, Activities, DeliveryDelay};
use super::anchors::Anchors;
use super::batch::RankBatch;
use super::calls;
use super::carried::{Carried, CarryPoint};
use super::context::LogContext;
use super::device_calls::DeviceCalls;
use super::event::{Complete, Enqueue, GroupEnd, LogEvent, Mark, OperationFields, ProgramSpan, Stamp};
use super::evidence::{self, Nested};
use super::framework_tasks::{FrameworkTask, FrameworkTasks};
use super::gpu_counters::GpuCounters;
use super::held::{HeldFor, HeldOperations};
use super::host_marks::HostMarks;
use super::in_flight::LogEnd;
use super::listed_calls::ListedCalls;
use super::member_counts::MemberCounts;
use super::messages::Messages;
use super::program_spans::{ProgramSpans, SpanMark};
use super::proxies::Proxies;
use super::release::Release;
use super::sample_order::SampleOrder;
use super::spans;
use super::steps::{StepInputs, Steps};
use super::sums::{ConnectSums, CounterSum, InFlightSums, LogSums, RankSums};
use super::threads::HostThreads;
use super::works::Works;
use crate::clocks::clock::Line;
use crate::model::operation::{NO_COMMUNICATOR, NO_TIME, RankOperation};
use crate::model::part_window::PartWindow;
use crate::model::sources::CUPTI;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::{CounterRow, CounterSource, OperationState, SpanKind};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{BlockedIn, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The stages of one rank.
pub struct Stages<'a> {
    context: LogContext<'a>,
    threads: HostThreads,
    works: Works,
    member_counts: MemberCounts,
    messages: Messages,
    /// Calls that enqueue operations on devices.
    pub device_calls: DeviceCalls,
    /// Device activity, if it was recorded.
    pub activity: Option<Activities>,
    proxies: Proxies,
    nested: BTreeSet<Nested>,
    /// True if messages inside collectives are emitted.
    pub emits_evidence: bool,
    marks: HostMarks,
    program_spans: ProgramSpans,
    tasks: FrameworkTasks,
    counters: BTreeMap<u32, CounterSum>,
    sample_order: SampleOrder,
    /// Samples of the rank's GPUs.
    pub gpus: GpuCounters,
    held: HeldOperations,
    steps: Steps,
    /// Sums over the records so far.
    pub log_sums: LogSums,
    errors: BTreeMap<(CommunicatorId, u32), i64>,
    connects: ConnectSums,
    in_flight: InFlightSums,
}

impl<'a> Stages<'a> {
    /// Creates the stages of a log.
    pub fn new(context: LogContext<'a>, anchors: Anchors) -> Self {
        Self {
            context,
            threads: HostThreads::default(),
            works: Works::default(),
            member_counts: MemberCounts::default(),
            messages: Messages::default(),
            device_calls: DeviceCalls::default(),
            activity: None,
            proxies: Proxies::default(),
            nested: BTreeSet::new(),
            emits_evidence: false,
            marks: HostMarks::default(),
            program_spans: ProgramSpans::default(),
            tasks: FrameworkTasks::default(),
            counters: BTreeMap::new(),
            sample_order: SampleOrder::default(),
            gpus: GpuCounters::default(),
            held: HeldOperations::default(),
            steps: Steps::new(anchors),
            log_sums: LogSums::default(),
            errors: BTreeMap::new(),
            connects: ConnectSums::default(),
            in_flight: InFlightSums::default(),
        }
    }

    /// Adds the tasks that a framework ran in the process.
    pub fn set_tasks(&mut self, tasks: Vec<FrameworkTask>) {
        self.tasks = FrameworkTasks::new(tasks, self.context.log.pid);
    }

    /// Restricts the output to a part of the log.
    pub fn restrict(&mut self, window: PartWindow) {
        self.context.window = window;
        self.works.count_only(window);
        if !window.has_start() {
            return;
        }
        // A process that started later has no time before its start.
        let begins = self.context.log.calibrations.first();
        if begins.is_none_or(|begins| self.context.is_before(self.context.line.ns(begins.ticks))) {
            self.threads.breakdown.start(window.from_ns);
        }
    }

    /// Goes on after an earlier part of the log.
    pub fn resume(&mut self, carried: &Carried) {
        self.context.is_resumed = true;
        let ordinals = &mut self.held.ordinals;
        carried.resume(
            &self.context,
            (&mut self.messages, &mut self.device_calls, ordinals),
        );
    }

    /// Returns the numbers that a part of the log from a point on needs; `None` if they are unknown.
    pub fn carry(&mut self, point: CarryPoint) -> Option<Carried> {
        // A reader of the part before this point forgets them, too.
        self.messages.forget_before(point.open_from_ticks);
        if self.context.lacks_earlier() || self.messages.counters_forgotten {
            return None;
        }
        let ordinals = &self.held.ordinals;
        let stages = (&self.messages, &self.device_calls, ordinals);
        Some(Carried::of(point.ticks, &self.context, stages))
    }

    /// Returns the conversion of ticks to the time axis.
    pub fn line(&self) -> &Line {
        &self.context.line
    }

    /// Returns the sums so far.
    pub fn sums(&self) -> RankSums {
        RankSums {
            log: self.log_sums.inside(self.context.window),
            operations: self.held.sums,
            devices: self.device_calls.sums,
            activity: self.activity.as_ref().map(Activities::sums),
            traffic: self.proxies.sums.clone(),
            nested: self.nested.clone(),
            errors: self.errors.clone(),
            connects: self.connects,
            reducer: self.marks.sums,
            pauses: self.marks.pauses.sums.clone(),
            steps: self.steps.sums,
            in_flight: self.in_flight.clone(),
            counters: self
                .counters
                .values()
                .chain(self.gpus.counters())
                .cloned()
                .collect(),
            gpus: self.gpus.gpus(),
            program_spans_not_stored: self.program_spans.not_stored,
            message_counters_forgotten: self.messages.counters_forgotten,
        }
    }

    /// Determines in separate passes the clocks of devices, and how late CUPTI delivered its records.
    pub fn learn(
        &mut self,
        emits_works: bool,
        known_delay: Option<&OnceLock<DeliveryDelay>>,
        out: &mut RankBatch,
    ) {
        self.device_calls.learn_clocks(&self.context);
        let LogContext { log, line, .. } = &self.context;
        if !log.properties.contains_key(CUPTI) {
            return;
        }
        let learn = || DeliveryDelay::learn(log, line);
        let delay = known_delay.map_or_else(learn, |known| *known.get_or_init(learn));
        let activity = Activities::new(log, line, delay, self.context.indices(), self.context.window);
        self.activity = Some(if emits_works {
            activity
        } else {
            activity.without_works()
        });
        if delay.works > 0 && emits_works {
            out.names = activity::names(log);
        }
    }

    /// Gives the event of a record to the stages that need it.
    pub fn take(&mut self, record: &Record, stamp: &Stamp, out: &mut RankBatch) {
        self.log_sums.records += u64::from(!self.context.is_outside(stamp.leave_ns));
        // The event is read where it was decoded: a copy of it costs more than the decoding.
        let decoded = LogEvent::of(record);
        let Some(event) = &decoded else {
            self.log_sums.unknown_records += 1;
            return;
        };
        if !event.is_overhead() {
            if !self.context.is_before(stamp.leave_ns) {
                self.log_sums.reached(stamp, self.context.window);
            }
            self.threads.breakdown.start(stamp.enter_ns);
            if let Some(activity) = &mut self.activity
                && !event.is_activity()
            {
                activity.reached(stamp.leave_ns);
            }
        }
        match *event {
            LogEvent::Call(ref call) => {
                let operation = self.operation(&call.fields, stamp, stamp.leave_ns);
                let (works, threads) = (&mut self.works, &mut self.threads);
                let held = &mut self.held;
                calls::called(operation, call.work, stamp, &self.context, works, threads, held);
            }
            LogEvent::Issue { work, operation } => {
                self.works.issued(work, stamp.enter_ns, stamp.lane, operation);
                self.threads.issued(stamp);
                self.held.sums.queues = true;
            }
            LogEvent::Execute { work } => self.works.executed(work, stamp.enter_ns),
            LogEvent::Blocked { work, place } => self.take_blocked(work, place, stamp, out),
            LogEvent::Post(ref post) => {
                if let Some(operation) = post.fields.known_operation() {
                    let thread_id = stamp.thread_id;
                    self.messages.posted(*post, operation, thread_id, &self.context);
                    self.threads.breakdown.trains(stamp.lane);
                }
            }
            LogEvent::Complete(ref complete) => self.take_complete(complete, stamp, out),
            LogEvent::MemberCounts(ref counts) => self.member_counts.add(stamp.lane, *counts),
            LogEvent::Enqueue(ref call) => self.take_enqueue(call, stamp),
            LogEvent::GroupEnd(ref end) => self.take_group_end(end, stamp, out),
            LogEvent::DeviceReport(ref report) => {
                let sums = &mut self.held.sums;
                let reported = self
                    .device_calls
                    .reported(report, stamp.thread_id, &self.context, sums);
                if let Some(replay) = reported {
                    self.held.hold(replay, HeldFor::nothing(stamp.lane));
                }
            }
            LogEvent::Activity(ref what) => {
                if let Some(activity) = &mut self.activity {
                    activity.take(what, stamp.enter_ns, stamp.leave_ns);
                }
            }
            LogEvent::Traffic(ref traffic) => self.proxies.moved(traffic, stamp, &self.context),
            LogEvent::NestedMessage(ref message) => {
                evidence::add_pair(&mut self.nested, message, &self.context);
                if self.emits_evidence {
                    let message = evidence::evidence(message, stamp, &self.context);
                    out.evidence.extend(message);
                }
            }
            LogEvent::Mark(ref mark) => {
                let breakdown = &mut self.threads.breakdown;
                self.marks.marked(mark, stamp, &self.context, breakdown, out);
            }
            LogEvent::ProgramSpan(ref span) => self.take_program_span(span, stamp, out),
            LogEvent::Counter { text, value, source } => self.take_sample(text, value, source, stamp),
            _ => self.take_span(event, stamp, out),
        }
    }

    fn take_program_span(&mut self, span: &ProgramSpan, stamp: &Stamp, out: &mut RankBatch) {
        let texts = &self.context.log.texts;
        let rows = &mut out.program_spans;
        match *span {
            ProgramSpan::Begin { mark, parent } => self.program_spans.begun(mark, parent, stamp, texts, rows),
            ProgramSpan::Thread(mark) => {
                self.program_spans.thread_span(mark, stamp, texts, rows);
                self.take_slice(mark, stamp, out);
            }
            ProgramSpan::Entered(mark) => {
                self.program_spans.entered(mark, stamp);
                self.take_slice(mark, stamp, out);
            }
            ProgramSpan::End(mark) => self.program_spans.ended(mark, stamp.leave_ns, rows),
            ProgramSpan::Event { mark, number } => {
                self.program_spans.event(mark, number, stamp, texts, rows);
                self.take_slice(mark, stamp, out);
            }
            ProgramSpan::Field(field) => self.program_spans.field(field, texts),
            ProgramSpan::EventField { field, number } => {
                self.program_spans.event_field(field, number, stamp.lane, texts);
            }
            ProgramSpan::Follows { mark, from } => self.program_spans.followed(mark, from),
        }
    }

    /// Handles the time that a thread was inside a span as a range of the program.
    fn take_slice(&mut self, slice: SpanMark, stamp: &Stamp, out: &mut RankBatch) {
        let mark = Mark {
            text: slice.text,
            span: slice.span,
            number: None,
        };
        let breakdown = &mut self.threads.breakdown;
        self.marks.marked(&mark, stamp, &self.context, breakdown, out);
    }

    fn take_sample(&mut self, text: u32, value: f64, source: CounterSource, stamp: &Stamp) {
        if self.context.is_outside(stamp.enter_ns) {
            return;
        }
        let Some(name) = self.context.log.texts.get(&text) else {
            return;
        };
        let sum = self
            .counters
            .entry(text)
            .or_insert_with(|| CounterSum::new(name.clone(), source));
        sum.add(stamp.enter_ns, value);
        let row = CounterRow {
            name: name.clone(),
            at_ns: stamp.enter_ns,
            value,
        };
        match source {
            CounterSource::System => self.sample_order.add_of_system(row, stamp.leave_ns),
            CounterSource::Program => self.sample_order.add(row),
        }
    }

    /// Emits samples of counters, those of GPUs until the time that was reached. With `is_end`, until the log's end.
    pub fn emit_counters(&mut self, is_end: bool, out: &mut RankBatch) {
        self.take_gpu_samples(is_end);
        self.sample_order.emit(is_end, &mut out.counters);
    }

    fn take_gpu_samples(&mut self, is_end: bool) {
        let LogContext {
            log, line, window, ..
        } = &self.context;
        let calibrations = &log.calibrations;
        let (Some(first), Some(last)) = (calibrations.first(), calibrations.last()) else {
            return;
        };
        // Before its first and after its last calibration the process may not exist.
        let from_ns = line.ns(first.ticks).max(window.from_ns);
        let reached_ns = self.log_sums.span.map_or(i64::MIN, |span| span.end_ns);
        let until_ns = if is_end {
            reached_ns.max(line.ns(last.ticks))
        } else {
            reached_ns
        };
        let until_ns = until_ns.min(window.until_ns.saturating_sub(1));
        let rows = &mut self.sample_order;
        self.gpus.emit(from_ns, until_ns, |row| rows.add(row));
    }

    /// Handles an event that is only shown as a span.
    #[cold]
    fn take_span(&mut self, event: &LogEvent, stamp: &Stamp, out: &mut RankBatch) {
        match *event {
            LogEvent::Connect { object, has_failed } => {
                if !self.context.is_outside(stamp.enter_ns) {
                    self.connects.add(stamp.leave_ns - stamp.enter_ns, has_failed);
                }
                out.span(SpanKind::Connect, stamp, object, None);
            }
            LogEvent::Disconnect { object } => out.span(SpanKind::Disconnect, stamp, object, None),
            LogEvent::Memory(memory) => {
                let name = spans::memory_call(&memory);
                out.span(SpanKind::Memory, stamp, memory.object, Some(name));
            }
            LogEvent::Failure {
                communicator,
                object,
                code,
            } => {
                let index = self.context.communicator(communicator).index;
                if !self.context.is_outside(stamp.enter_ns) {
                    let first_ns = self.errors.entry((index, code)).or_insert(stamp.enter_ns);
                    *first_ns = stamp.enter_ns.min(*first_ns);
                }
                let name = spans::failure(code, (index != NO_COMMUNICATOR).then_some(index));
                out.span(SpanKind::Failure, stamp, object, Some(name));
            }
            // The first pass has evaluated clock readings. The other events say nothing.
            _ => {}
        }
    }

    /// Creates an operation with the counts per member that precede it.
    fn operation(&mut self, fields: &OperationFields, stamp: &Stamp, leave_ns: i64) -> RankOperation {
        let (thread_id, enter_ns) = (stamp.thread_id, stamp.enter_ns);
        let mut operation = self.context.operation(fields, thread_id, enter_ns, leave_ns);
        self.member_counts
            .take(&mut operation, stamp.lane, fields.communicator, &self.context);
        operation
    }

    fn take_blocked(&mut self, work: u64, place: Option<BlockedIn>, stamp: &Stamp, out: &mut RankBatch) {
        self.threads.blocked(stamp, work);
        self.works.waited(work, stamp.leave_ns);
        if place == Some(BlockedIn::ReducerFinalize) {
            self.marks.reducer_waited(stamp, &self.context);
            out.reducer_waits.push(stamp.interval());
        }
        out.span(spans::blocked_kind(place), stamp, work, None);
    }

    fn take_complete(&mut self, complete: &Complete, stamp: &Stamp, out: &mut RankBatch) {
        let breakdown = &mut self.threads.breakdown;
        breakdown.blocked(stamp.lane, stamp.enter_ns, stamp.leave_ns);
        if complete.operation.is_some() {
            let kind = spans::completing_kind(complete.operation);
            out.span(kind, stamp, complete.buffer, None);
        }
        if let Some(message) = self.messages.completed(complete, stamp, &self.context) {
            breakdown.communicated(message.enter_ns, stamp.leave_ns);
            self.held.sums.add(&message);
            self.held.sums.waited += u64::from(message.state == OperationState::Completed);
            self.held.hold(message, HeldFor::nothing(stamp.lane));
        }
    }

    /// Handles a call that enqueued an operation on a stream. The time of the call itself does not count as
    /// communication.
    fn take_enqueue(&mut self, call: &Enqueue, stamp: &Stamp) {
        let mut operation = self.operation(&call.fields, stamp, NO_TIME);
        operation.returned_ns = stamp.leave_ns;
        operation.direct = true;
        if operation.state == OperationState::Completed {
            operation.state = if call.fields.is_captured() {
                OperationState::Captured
            } else {
                OperationState::Enqueued
            };
        }
        self.held.sums.add(&operation);
        let activity = self.activity.as_mut();
        let device = self.device_calls.called(call, stamp, &self.context, activity);
        self.threads.issued(stamp);
        let reasons = HeldFor {
            group: call.group,
            device,
            ..HeldFor::nothing(stamp.lane)
        };
        self.held.hold(operation, reasons);
    }

    fn take_group_end(&mut self, end: &GroupEnd, stamp: &Stamp, out: &mut RankBatch) {
        self.held.groups.ended(end);
        let began_ns = self.context.line.ns(end.began_ticks);
        if self.context.is_before(began_ns) {
            self.held.groups.began_before(end.group);
        } else if self.context.is_outside(began_ns) {
            self.held.groups.began_after(end.group);
        }
        self.device_calls.group_ended(end);
        if let Some(activity) = &mut self.activity {
            activity.communication.order.group_ended(end, stamp.enter_ns);
        }
        out.span(SpanKind::Group, stamp, end.object, None);
        if let Some(name) = spans::group_failure(end) {
            out.span(SpanKind::Failure, stamp, end.object, Some(name));
        }
    }

    /// Adds calls in progress at the end of the log, and messages that never completed.
    pub fn take_in_flight(&mut self, listed: &ListedCalls, out: &mut RankBatch) {
        let mut end = LogEnd {
            end_ns: self.log_sums.span.map_or(0, |span| span.end_ns),
            context: &self.context,
            works: &mut self.works,
            threads: &mut self.threads,
            messages: &mut self.messages,
            held: &mut self.held,
            out,
        };
        end.take_all(listed, &mut self.in_flight);
        for message in self.messages.finish(&self.context) {
            self.held.sums.add(&message);
            self.held.hold(message, HeldFor::nothing(0));
        }
    }

    /// Emits everything that is complete; at the end of the log, all of it.
    pub fn release(&mut self, is_over: bool, out: &mut RankBatch) {
        let reached_ns = self.log_sums.span.map_or(i64::MIN, |span| span.end_ns);
        self.tasks.emit(if is_over { i64::MAX } else { reached_ns }, out);
        if let Some(activity) = &mut self.activity {
            activity.release(is_over);
            self.device_calls.add_kernels(activity);
            activity.emit(&mut out.works, &mut out.stalls);
        }
        let release = Release {
            is_over,
            held: &mut self.held,
            lanes: &mut self.threads.lanes,
            device_calls: &mut self.device_calls,
            steps: &mut self.steps,
            inputs: StepInputs {
                context: &self.context,
                breakdown: &mut self.threads.breakdown,
                pauses: &mut self.marks.pauses,
                activity: self.activity.as_mut(),
                out,
            },
        };
        release.run();
        if let Some(activity) = &mut self.activity {
            // Spans of device activity arrive late.
            for span in out.spans.drain(..) {
                activity.span(span);
            }
            activity.release_spans(&mut out.spans);
        }
    }

    /// Completes the sums.
    pub fn finish(&mut self, out: &mut RankBatch) {
        for work in self.works.finish() {
            if !self.context.ends_early && !self.context.is_before(work.issue_ns) {
                let name = Operation::from_u8(work.operation).map_or("work", Operation::name);
                let what = format!("{name} queued, not started");
                self.in_flight.add(what, work.issue_ns);
            }
        }
        self.held.sums.waited += self.works.waited;
        let end_ns = self.log_sums.span.map_or(0, |span| span.end_ns);
        self.program_spans.finish(end_ns, &mut out.program_spans);
        let mut inputs = StepInputs {
            context: &self.context,
            breakdown: &mut self.threads.breakdown,
            pauses: &mut self.marks.pauses,
            activity: self.activity.as_mut(),
            out,
        };
        let last_ns = self.log_sums.span.map(|span| span.end_ns);
        self.steps.finish(last_ns, &mut inputs);
        self.device_calls.finish();
    }

    /// Removes output that is outside the part that is reported.
    pub fn leave_out_outside(&self, out: &mut RankBatch) {
        if self.context.window != PartWindow::WHOLE {
            out.leave_out_outside(self.context.window);
        }
    }
}
