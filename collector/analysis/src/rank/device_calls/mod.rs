//! Joins the calls that enqueue operations on devices with what is known of their device work: reports of the library,
//! CUDA events, and kernels.
//!
//! `joins` joins a call with its [`CallWork`]: reports of the library, `event_launches`, `linked_kernels` and
//! `replays`. `launches` are calls that share a launch. `device_clock` converts the times of reports to the axis.
//! `misreported` and `overwritten` exclude times that NCCL reports for the wrong operation.

mod call_key;
mod call_work;
mod device_clock;
mod device_interval;
mod event_launches;
mod joins;
mod launches;
mod linked_kernels;
mod misreported;
mod overwritten;
mod replays;

pub use device_clock::{DeviceClock, DeviceClocks};

use super::activity::Activities;
use super::context::LogContext;
use super::event::{DeviceReport, Enqueue, GroupEnd, Stamp};
use super::sums::{DeviceClockSums, DeviceSums, OperationSums};
use crate::model::log_communicator::LogCommunicator;
use crate::model::operation::{Blocked, NO_TIME, RankOperation, SharedLaunch};
use crate::model::sources::{EVENTS, PLUGIN};
use call_work::CallWork;
use joins::{Answer, Awaited, Devices, Recorded, Start};
use launches::{Launch, LaunchNumber, Launches};
use misreported::Misreported;
use rankscope_formats::session::OperationState;
use rankscope_ranklog::record::FLAG_SEQUENCE_UNKNOWN;
use replays::CarriedTemplate;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Maximum number of operations that are searched for the calls of a launch.
const MAX_SEARCHED: usize = 1 << 12;

/// Number of a call whose device work is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AwaitedNumber(NonZeroU32);

impl AwaitedNumber {
    const FIRST: Self = Self(NonZeroU32::MIN);

    fn next(self) -> Self {
        Self(self.0.checked_add(1).unwrap_or(NonZeroU32::MIN))
    }
}

/// What joins a held call with its device work.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceJoin {
    /// Launch that it shares with other calls; `None` if it is a launch by itself.
    pub launch: Option<LaunchNumber>,
    /// Device work that it waits for.
    pub awaited: Option<AwaitedNumber>,
}

/// Captured calls of an earlier part of a log, and communicators whose times are wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CarriedReplays {
    templates: Vec<CarriedTemplate>,
    /// First sequence number, calls, and collectives of their launches.
    launches: Vec<(u32, u16, u16)>,
    misreported: Vec<LogCommunicator>,
}

/// How much is known when held operations are released.
#[derive(Clone, Copy)]
pub struct Known {
    /// True at the end of the log: nothing more will be known.
    pub is_over: bool,
    /// True if too many operations wait after this one, so that it is released incomplete.
    pub is_crowded: bool,
    /// Time before which all device activity is known, in nanoseconds.
    pub activity_until_ns: i64,
}

/// Result of the search for the device work of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Its device work may still arrive.
    Pending,
    /// No device times are known, and none will be.
    WithoutTimes,
    /// The operation has the times of its device work now.
    Timed,
}

/// The calls of one rank that enqueue operations on devices.
pub struct DeviceCalls {
    devices: Devices,
    clocks: DeviceClocks,
    misreported: Misreported,
    /// Communicators whose times were wrong in an earlier part of the log.
    misreported_before: Vec<LogCommunicator>,
    launches: Launches,
    /// Calls whose device work is awaited. They are held operations.
    awaited: FxHashMap<AwaitedNumber, Awaited>,
    next_number: AwaitedNumber,
    /// True if the library reports device times.
    has_plugin: bool,
    /// Sums so far.
    pub sums: DeviceSums,
}

impl Default for DeviceCalls {
    fn default() -> Self {
        Self {
            devices: Devices::default(),
            clocks: DeviceClocks::default(),
            misreported: Misreported::default(),
            misreported_before: Vec::new(),
            launches: Launches::default(),
            awaited: FxHashMap::default(),
            next_number: AwaitedNumber::FIRST,
            has_plugin: false,
            sums: DeviceSums::default(),
        }
    }
}

impl CarriedReplays {
    /// Counts a report that was stored late: it belongs to the earlier part of the log.
    pub fn reported_late(&mut self, report: &DeviceReport) {
        let is_of_replay =
            report.fields.has_sequence() && !report.is_by_events && report.fields.is_captured();
        if is_of_replay {
            replays::reported_late(&mut self.templates, report);
        }
    }
}

impl DeviceCalls {
    /// Returns what a later part of the log needs, from `ticks` on.
    pub fn carried(&self, ticks: u64) -> CarriedReplays {
        let mut places: BTreeMap<LaunchNumber, u32> = BTreeMap::new();
        let mut launches = Vec::new();
        let templates = self.devices.replays.carried(|number| {
            *places.entry(number).or_insert_with(|| {
                let launch = self.launches.of(number).unwrap_or_default();
                launches.push((launch.first, launch.operations, launch.collectives));
                launches.len() as u32 - 1
            })
        });
        CarriedReplays {
            templates,
            launches,
            misreported: self.misreported.communicators_before(ticks),
        }
    }

    /// Goes on after an earlier part of the log.
    pub fn resume(&mut self, carried: &CarriedReplays) {
        let launches = carried.launches.iter();
        let numbers: Vec<_> = launches.map(|&launch| self.launches.of_earlier(launch)).collect();
        self.devices.replays.resume(&carried.templates, &numbers);
        self.misreported_before.clone_from(&carried.misreported);
    }

    /// Determines the clocks of devices in a separate pass. A clock must be known before the first use of its times.
    pub fn learn_clocks(&mut self, context: &LogContext<'_>) {
        let properties = &context.log.properties;
        if ![PLUGIN, EVENTS]
            .iter()
            .any(|&source| properties.contains_key(source))
        {
            return;
        }
        (self.clocks, self.misreported) = DeviceClocks::learn(context);
        self.misreported.have_been(&self.misreported_before);
        self.sums.not_compared = self.misreported.overwritten.not_compared;
        self.has_plugin = self.has_times() && properties.contains_key(PLUGIN);
        let sums = self.clocks.iter().map(|clock| DeviceClockSums {
            drift_ppm: clock.drift_ppm(),
            error: clock.error,
            contradictions: clock.contradictions,
        });
        self.sums.clock = sums.reduce(DeviceClockSums::and);
    }

    /// Returns true if operations have device times.
    pub fn has_times(&self) -> bool {
        self.clocks.iter().next().is_some()
    }

    fn clock_of(&self, communicator: LogCommunicator, context: &LogContext<'_>) -> Option<&DeviceClock> {
        self.clocks.of(context.known_device_of(communicator)?)
    }

    /// Adds a call that enqueues an operation.
    pub fn called(
        &mut self,
        call: &Enqueue,
        stamp: &Stamp,
        context: &LogContext<'_>,
        activity: Option<&mut Activities>,
    ) -> DeviceJoin {
        self.sums.bypassed += u64::from(call.is_bypass);
        let launch = self.launches.called(call);
        let recorded = match activity {
            None => Recorded::No,
            Some(activity) => self.recorded(call, stamp, context, activity),
        };
        // Nothing of a failed call reaches the device.
        let has_failed = call.fields.has_failed();
        let mut awaited = None;
        if !has_failed && let Some(what) = self.devices.called(call, launch, recorded, stamp.leave_ns) {
            let number = self.next_number;
            self.next_number = number.next();
            self.awaited.insert(number, what);
            awaited = Some(number);
        } else if !has_failed && self.has_plugin && !call.fields.is_captured() {
            self.sums.hooks_only += 1;
        }
        DeviceJoin { launch, awaited }
    }

    /// Determines how the kernels of a call are found in the recorded activity.
    fn recorded(
        &mut self,
        call: &Enqueue,
        stamp: &Stamp,
        context: &LogContext<'_>,
        activity: &mut Activities,
    ) -> Recorded {
        let is_null_stream_of_several = context.has_several_devices && call.stream == 0;
        // Each device has its own null stream. And in a part of a run the number of launches already on a stream is
        // unknown, so the order would be shifted.
        if is_null_stream_of_several || context.log.is_cut() {
            return Recorded::Yes;
        }
        if let Some(stream) = activity.communication.order.stream_of(call.stream) {
            self.devices.kernels.named(call.stream, stream);
        }
        let members = context.members(call.fields.communicator);
        if activity.communication.order.called(call, members, stamp.enter_ns) {
            Recorded::InOrder
        } else {
            Recorded::Yes
        }
    }

    /// Closes the launches of a group that ended.
    pub fn group_ended(&mut self, end: &GroupEnd) {
        self.launches.ended(end.group);
    }

    /// Adds a report of the library. It belongs to a held call, or to a replay of a captured call, which is returned as
    /// a separate operation.
    pub fn reported(
        &mut self,
        report: &DeviceReport,
        thread_id: u32,
        context: &LogContext<'_>,
        operations: &mut OperationSums,
    ) -> Option<RankOperation> {
        let is_overwritten = self.misreported.is_overwritten(report);
        let replay = if is_overwritten || self.misreported.contains(report) {
            if is_overwritten {
                self.sums.overwritten += 1;
            } else {
                self.sums.misreported += 1;
            }
            let without_times = DeviceReport {
                start_ns: 0,
                ..*report
            };
            self.devices.reported(&without_times)?
        } else {
            self.devices.reported(report)?
        };
        let reported_ns = context.line.ns(report.reported_ticks);
        let mut operation = context.operation(&report.fields, thread_id, reported_ns, NO_TIME);
        operation.tag = replay.number;
        if context.lacks_earlier() {
            // The number of earlier ones is unknown.
            operation.flags |= FLAG_SEQUENCE_UNKNOWN;
        }
        operation.direct = true;
        operation.state = OperationState::Enqueued;
        operations.add(&operation);
        self.sums.replays += 1;
        let clock = self.clock_of(report.fields.communicator, context);
        let times = replay.work.times_by(clock);
        if replay.work.apply(&mut operation, times) {
            self.timed(&mut operation, &replay.work);
            operations.ran_on_device();
        }
        // No call belongs to a replay.
        operation.called_ns = NO_TIME;
        if let Some(launch) = replay.launch.and_then(|launch| self.launches.of(launch)) {
            share(&mut operation, &launch);
        }
        Some(operation)
    }

    /// Adds the kernels of calls that device activity has released.
    pub fn add_kernels(&mut self, activity: &mut Activities) {
        let (found, kernels) = (&mut activity.communication, &mut self.devices.kernels);
        for to in found.linked.drain(..) {
            kernels.launched(to);
        }
        for to in found.linked_by_order.drain(..) {
            kernels.found_by_order(to);
        }
        for to in found.order.given_up.drain(..) {
            kernels.given_up(to);
        }
        for work in found.of_calls.drain(..) {
            kernels.ran(&work);
        }
    }

    /// Determines the start of the launch of a message that shares it with other calls. Returns false while it may
    /// still change. `following` are the joins of the held operations from this one on.
    pub fn knows_launch(
        &mut self,
        operation: &RankOperation,
        join: DeviceJoin,
        following: impl Iterator<Item = DeviceJoin>,
        known: Known,
        context: &LogContext<'_>,
    ) -> bool {
        let Some(number) = join.launch.filter(|_| join.awaited.is_some()) else {
            return true;
        };
        if !operation.is_message() {
            return true;
        }
        let Some(launch) = self.launches.of(number) else {
            return true;
        };
        if launch.operations < 2 || launch.began_ns.is_some() {
            return true;
        }
        let mut began_ns: Option<i64> = None;
        let calls = following
            .take(MAX_SEARCHED)
            .filter(|other| other.launch == Some(number))
            .take(launch.held as usize);
        for awaited in calls.filter_map(|call| call.awaited) {
            let Some(awaited) = self.awaited.get(&awaited) else {
                continue;
            };
            let start_ns = match self.devices.start(awaited, known.activity_until_ns) {
                Start::Pending if !known.is_over && !known.is_crowded => return false,
                Start::Pending | Start::Unknown => continue,
                Start::OnAxis(start_ns) => Some(start_ns),
                Start::ByDevice(start) => self
                    .clock_of(awaited.communicator(), context)
                    .map(|clock| clock.ns(start)),
            };
            began_ns = began_ns.into_iter().chain(start_ns).min();
        }
        if let Some(began_ns) = began_ns {
            self.launches.began(number, began_ns);
        }
        true
    }

    /// Adds the device work of an operation, if it waits for some.
    pub fn complete(
        &mut self,
        operation: &mut RankOperation,
        join: DeviceJoin,
        known: Known,
        context: &LogContext<'_>,
    ) -> Completion {
        let Some(number) = join.awaited else {
            return Completion::WithoutTimes;
        };
        let Some(awaited) = self.awaited.get_mut(&number) else {
            return Completion::WithoutTimes;
        };
        let is_on_its_way = operation.state == OperationState::Enqueued;
        let answer = self.devices.answer(
            awaited,
            known.activity_until_ns,
            known.is_over || !is_on_its_way,
            known.is_crowded && is_on_its_way,
        );
        let communicator = awaited.communicator();
        let work = match answer {
            Answer::Wait => return Completion::Pending,
            Answer::Known(work) => work,
        };
        self.awaited.remove(&number);
        if !is_on_its_way {
            return Completion::WithoutTimes;
        }
        let Some(work) = work else {
            self.sums.hooks_only += u64::from(!known.is_over && self.has_plugin);
            return Completion::WithoutTimes;
        };
        let times = work.times_by(self.clocks.of(context.device_of(communicator)));
        if !work.apply(operation, times) {
            return Completion::WithoutTimes;
        }
        self.timed(operation, &work);
        Completion::Timed
    }

    /// Completes an operation that has the times of its device work.
    fn timed(&mut self, operation: &mut RankOperation, work: &CallWork) {
        operation.state = OperationState::Completed;
        // The operation blocks during its whole kernel.
        operation.blocked = Blocked::one(operation.enter_ns, operation.leave_ns);
        self.sums.on_device += 1;
        self.sums.by_events += u64::from(work.by_events && !work.by_kernels());
        self.sums.by_kernels += u64::from(work.by_kernels());
    }

    /// Adds the shared launch to an operation that is released.
    pub fn share_launch(&mut self, operation: &mut RankOperation, join: DeviceJoin) {
        let Some(number) = join.launch else {
            return;
        };
        if let Some(launch) = self.launches.of(number) {
            share(operation, &launch);
        }
        self.launches.released(number);
    }

    /// Counts the reports whose calls were never read.
    pub fn finish(&mut self) {
        self.sums.without_call = self.devices.without_call + self.devices.left_over();
    }
}

/// Adds the shared launch to an operation. A message starts with its launch.
fn share(operation: &mut RankOperation, launch: &Launch) {
    if launch.operations < 2 {
        return;
    }
    let mut shared = SharedLaunch {
        first: launch.first,
        operations: launch.operations,
        collectives: launch.collectives,
        is_first: launch.is_untouched,
        enter_ns: NO_TIME,
    };
    if operation.is_message()
        && operation.state == OperationState::Completed
        && let Some(began_ns) = launch.began_ns.filter(|&began_ns| began_ns < operation.enter_ns)
    {
        shared.enter_ns = began_ns;
        operation.blocked = Blocked::one(began_ns, operation.leave_ns);
    }
    operation.shared = Some(Box::new(shared));
}
