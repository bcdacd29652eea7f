//! Joins device records with the calls that they belong to, in bounded memory.

use super::call_key::CallKey;
use super::call_work::CallWork;
use super::event_launches::{EventLaunches, EventTimes};
use super::launches::LaunchNumber;
use super::linked_kernels::{AwaitedKernels, Kernels, LinkedKernels};
use super::replays::{Replay, Replayed, Replays};
use crate::model::log_communicator::LogCommunicator;
use crate::rank::event::{DeviceReport, Enqueue};
use rustc_hash::FxHashMap;

/// Maximum number of device records of a communicator that may arrive before those of an earlier call. The library's
/// threads report the last channel of one call and the first of the next in any order.
const SLACK: u64 = 64;
/// Maximum number of calls with device records that no call has requested yet.
const MAX_JOINED: usize = 1 << 16;
/// Number of consecutive calls without a record after which no more records are expected for that communicator and
/// operation.
const MAX_MISSES: u32 = 16;

/// Whether device activity was recorded at the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was not recorded.
    No,
    /// It was recorded, and correlation IDs link it.
    Yes,
    /// It was recorded. Unlinked kernels are identified by their order on the stream.
    InOrder,
}

/// A call that waits for its device records.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    key: CallKey,
    /// Number of expected device records; 255 means at least 255.
    parts: u8,
    /// Key of the call under which events report its launch.
    launch: Option<CallKey>,
    /// Its kernels.
    kernels: Option<AwaitedKernels>,
    /// Number of earlier pending calls of its communicator.
    serial: u64,
    /// Number of records of its communicator after which the records of this call are no longer expected; 0 until a
    /// record of a later call arrives.
    until: u64,
}

impl Awaited {
    /// Returns the number of its communicator in the log.
    pub fn communicator(&self) -> LogCommunicator {
        self.key.communicator
    }

    /// Returns true if all expected reports are in `work`.
    fn has_parts(&self, work: Option<&CallWork>) -> bool {
        self.parts == 0 || work.is_some_and(|work| work.parts >= u32::from(self.parts))
    }
}

/// State of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its records may still arrive.
    Wait,
    /// Everything that will be known of it; `None` means nothing.
    Known(Option<CallWork>),
}

/// Start of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It may still arrive.
    Pending,
    /// All of the call is known, but not its start.
    Unknown,
    /// On its device's clock, in nanoseconds.
    ByDevice(u64),
    /// On the axis, in nanoseconds.
    OnAxis(i64),
}

/// Reports and calls of a communicator.
#[derive(Default)]
struct Communicator {
    /// Number of device records so far.
    reports: u64,
    /// Number of pending calls so far.
    awaited: u64,
    /// Serial of the latest call with a record, plus one.
    latest: u64,
}

/// The calls that the library counts as one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CallKind {
    communicator: LogCommunicator,
    operation: u8,
}

impl CallKind {
    fn of(key: &CallKey) -> Self {
        Self {
            communicator: key.communicator,
            operation: key.operation,
        }
    }
}

/// The devices of one rank.
#[derive(Default)]
pub struct Devices {
    /// Reports of calls.
    joined: FxHashMap<CallKey, CallWork>,
    communicators: FxHashMap<LogCommunicator, Communicator>,
    /// Serials of pending calls.
    serials: FxHashMap<CallKey, u64>,
    /// Number of consecutive calls without a record.
    misses: FxHashMap<CallKind, u32>,
    /// Captured calls.
    pub replays: Replays,
    launches: EventLaunches,
    /// Kernels of calls.
    pub kernels: LinkedKernels,
    /// Number of device records that belong to no known call.
    pub without_call: u64,
}

impl Devices {
    /// Adds a call of the launch `launch`. Returns what it must wait for before it is emitted, if anything.
    ///
    /// `recorded` shows whether activity was recorded, so that the end of its group may be linked. `returned_ns` is the
    /// return of the call.
    pub fn called(
        &mut self,
        call: &Enqueue,
        launch: Option<LaunchNumber>,
        recorded: Recorded,
        returned_ns: i64,
    ) -> Option<Awaited> {
        let mut parts = call.parts;
        let is_in_order = recorded == Recorded::InOrder;
        let may_be_linked = recorded != Recorded::No && call.group.is_some();
        let is_linked = call.is_linked || may_be_linked || is_in_order;
        if (parts == 0 && !call.is_timed && !is_linked) || !call.fields.has_sequence() {
            return None;
        }
        let key = CallKey::of(&call.fields);
        if call.fields.is_captured() {
            self.replays.captured(key, parts, launch);
            return None;
        }
        // The library does not report all operations, such as symmetric kernels and in-place operations of a rank with
        // itself.
        let misses = self.misses.get(&CallKind::of(&key));
        if misses.is_some_and(|&misses| misses >= MAX_MISSES) && !self.joined.contains_key(&key) {
            if !call.is_timed && !is_linked {
                return None;
            }
            parts = 0;
        }
        let launch = call.is_timed.then(|| self.launches.awaits(call, key));
        let kernels = is_linked.then(|| self.kernels.awaits(call, &key, is_in_order, returned_ns));
        let known = self.communicators.entry(key.communicator).or_default();
        let serial = known.awaited;
        known.awaited += 1;
        self.serials.insert(key, serial);
        if self.joined.contains_key(&key) {
            known.latest = known.latest.max(serial + 1);
        }
        Some(Awaited {
            key,
            parts,
            launch,
            kernels,
            serial,
            until: 0,
        })
    }

    /// Adds a device report. Returns the replay that it completes, if any.
    pub fn reported(&mut self, report: &DeviceReport) -> Option<Replay> {
        if !report.fields.has_sequence() {
            self.without_call += 1;
        } else if report.is_by_events {
            self.reported_by_events(report);
        } else if report.fields.is_captured() {
            match self.replays.reported(report) {
                Replayed::OfUnknownCall => self.without_call += 1,
                Replayed::Partly => {}
                Replayed::Whole(replay) => return Some(replay),
            }
        } else {
            self.reported_of_call(report);
        }
        None
    }

    /// Adds the times of a launch from CUDA events.
    fn reported_by_events(&mut self, report: &DeviceReport) {
        let key = CallKey::of(&report.fields);
        if self.launches.reported(&key, report) {
            self.count_report(&key);
        } else {
            self.without_call += 1;
        }
    }

    /// Adds a report of a call that was not captured.
    fn reported_of_call(&mut self, report: &DeviceReport) {
        let key = CallKey::of(&report.fields);
        self.count_report(&key);
        // The library reports this operation, although not every call.
        self.misses.remove(&CallKind::of(&key));
        if self.joined.len() >= MAX_JOINED {
            let (serials, mut dropped) = (&self.serials, 0);
            self.joined.retain(|key, work| {
                let is_awaited = serials.contains_key(key);
                dropped += if is_awaited { 0 } else { u64::from(work.parts) };
                is_awaited
            });
            self.without_call += dropped;
        }
        self.joined.entry(key).or_default().add(report);
    }

    /// Counts a report of a call of its communicator.
    fn count_report(&mut self, key: &CallKey) {
        let known = self.communicators.entry(key.communicator).or_default();
        known.reports += 1;
        if let Some(serial) = self.serials.get(key) {
            known.latest = known.latest.max(serial + 1);
        }
    }

    /// Returns true if the reports of a call are no longer expected, because enough later ones have arrived.
    fn has_passed(&self, awaited: &Awaited) -> bool {
        let known = self.communicators.get(&awaited.key.communicator);
        awaited.until > 0 && known.is_some_and(|known| known.reports > awaited.until)
    }

    fn kernels_of(&mut self, awaited: &Awaited, known_until: i64) -> Option<Kernels> {
        let kernels = awaited.kernels.as_ref()?;
        Some(self.kernels.of(kernels, known_until))
    }

    fn event_times_of(&self, awaited: &Awaited) -> Option<EventTimes> {
        Some(self.launches.times(awaited.launch.as_ref()?))
    }

    /// Returns the start of a call on the device, if all of it is known.
    pub fn start(&mut self, awaited: &Awaited, known_until: i64) -> Start {
        match self.kernels_of(awaited, known_until) {
            Some(Kernels::Wait) => return Start::Pending,
            Some(Kernels::Ran(kernels)) => return Start::OnAxis(kernels.start_ns),
            Some(Kernels::Nothing) | None => {}
        }
        let by_events = match self.event_times_of(awaited) {
            Some(EventTimes::Pending) => return Start::Pending,
            Some(EventTimes::Known(times)) => times,
            None => None,
        };
        let work = self.joined.get(&awaited.key);
        if !awaited.has_parts(work) && !self.has_passed(awaited) {
            return Start::Pending;
        }
        let times = by_events.or_else(|| work?.times);
        times.map_or(Start::Unknown, |times| Start::ByDevice(times.start_ns))
    }

    /// Returns the device work of a call. `is_over`: no more records will be read. `is_let_go`: too many operations
    /// wait after it. All activity that started before `known_until` is known.
    pub fn answer(
        &mut self,
        awaited: &mut Awaited,
        known_until: i64,
        is_over: bool,
        is_let_go: bool,
    ) -> Answer {
        let key = awaited.key;
        let kernels = self.kernels_of(awaited, known_until);
        let by_events = self.event_times_of(awaited);
        let mut work = self.joined.get(&key).copied();
        let is_whole = awaited.has_parts(work.as_ref())
            && (awaited.parts < 255)
            && by_events != Some(EventTimes::Pending)
            && kernels != Some(Kernels::Wait);
        // Records of a later call have arrived. The records of this one arrive soon, or never.
        if awaited.until == 0
            && let Some(known) = self.communicators.get(&key.communicator)
            && known.latest > awaited.serial + 1
        {
            awaited.until = known.reports + SLACK;
        }
        let has_passed = self.has_passed(awaited);
        if !is_whole && !has_passed && !is_over && !is_let_go {
            return Answer::Wait;
        }
        self.forget(awaited);
        if let Some(EventTimes::Known(times)) = by_events {
            work.get_or_insert_default().set_times(times);
        }
        if let Some(Kernels::Ran(kernels)) = kernels {
            work.get_or_insert_default().set_kernels(kernels);
        }
        if awaited.parts > 0 && (work.is_none() && has_passed || is_let_go) {
            *self.misses.entry(CallKind::of(&key)).or_insert(0) += 1;
        }
        // If the last of many parts is missing, the operation was not complete when the log ended. If announced parts
        // were passed over, those that arrived are all.
        Answer::Known(work.filter(|_| is_whole || has_passed))
    }

    /// Releases everything that a call waits for.
    fn forget(&mut self, awaited: &Awaited) {
        self.joined.remove(&awaited.key);
        self.serials.remove(&awaited.key);
        if let Some(leader) = &awaited.launch {
            self.launches.forget(leader);
        }
        if let Some(kernels) = &awaited.kernels {
            self.kernels.forget(kernels);
        }
    }

    /// Returns the number of device records whose calls were never read.
    pub fn left_over(&self) -> u64 {
        self.joined.values().map(|work| u64::from(work.parts)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::device_calls::device_interval::DeviceInterval;
    use rankscope_ranklog::Operation;
    use rankscope_ranklog::record::{
        self, Enqueued, FLAG_CAPTURED, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
    };

    fn call(sequence: u32, parts: u8, flags: u8) -> Enqueue {
        Enqueue::of(&Record {
            operation: Operation::AllReduce as u8,
            communicator: 0,
            sequence,
            flags,
            aux: Enqueued {
                parts,
                ..Enqueued::default()
            }
            .to_aux(),
            ..Record::new(RecordKind::Enqueue)
        })
    }

    fn device(sequence: u32, start: u64, duration_ns: u64, flags: u8) -> DeviceReport {
        DeviceReport::of(&Record {
            operation: Operation::AllReduce as u8,
            communicator: 0,
            sequence,
            flags,
            object: start,
            aux: record::DeviceWork {
                duration_ns,
                channels: 2,
                ..record::DeviceWork::default()
            }
            .to_aux(),
            ..Record::new(RecordKind::Device)
        })
    }

    fn on_device(start_ns: u64, end_ns: u64) -> Option<DeviceInterval> {
        Some(DeviceInterval { start_ns, end_ns })
    }

    #[test]
    fn a_call_waits_for_all_its_parts_and_no_longer() {
        let mut devices = Devices::default();
        let mut awaited = devices
            .called(&call(0, 2, 0), None, Recorded::No, 0)
            .expect("announced");
        assert_eq!(devices.answer(&mut awaited, 0, false, false), Answer::Wait);
        devices.reported(&device(0, 100, 10, 0));
        assert_eq!(devices.answer(&mut awaited, 0, false, false), Answer::Wait);
        devices.reported(&device(0, 90, 5, 0));
        let Answer::Known(Some(work)) = devices.answer(&mut awaited, 0, false, false) else {
            panic!("known");
        };
        assert_eq!(work.times, on_device(90, 110));
        // A call without a record is released when enough later records have arrived.
        let mut missing = devices
            .called(&call(1, 1, 0), None, Recorded::No, 0)
            .expect("announced");
        let mut n = 2;
        while devices.answer(&mut missing, 0, false, false) == Answer::Wait {
            let mut later = devices
                .called(&call(n, 1, 0), None, Recorded::No, 0)
                .expect("announced");
            devices.reported(&device(n, 200, 1, 0));
            assert!(matches!(
                devices.answer(&mut later, 0, false, false),
                Answer::Known(Some(_))
            ));
            n += 1;
        }
        assert!((SLACK..SLACK + 8).contains(&u64::from(n)), "{n}");
        assert_eq!(devices.left_over(), 0);
        let mut last = devices
            .called(&call(n, 1, 0), None, Recorded::No, 0)
            .expect("announced");
        assert_eq!(devices.answer(&mut last, 0, true, false), Answer::Known(None));
    }

    #[test]
    fn all_calls_of_a_launch_on_one_stream_have_its_times() {
        let mut devices = Devices::default();
        let timed = |sequence: u32, group: u32, stream: u64| Enqueue {
            stream,
            group: std::num::NonZeroU32::new(group),
            is_timed: true,
            ..call(sequence, 0, 0)
        };
        let mut calls: Vec<Awaited> = [(0, 1, 70), (1, 1, 71), (2, 1, 70), (3, 0, 70)]
            .iter()
            .map(|&(sequence, group, stream)| {
                devices
                    .called(&timed(sequence, group, stream), None, Recorded::No, 0)
                    .expect("timed")
            })
            .collect();
        let events = |sequence, start| device(sequence, start, 10, FLAG_EVENTS);
        devices.reported(&events(0, 100));
        // This launch has no times.
        devices.reported(&events(3, 0));
        let mut times = |call: usize| match devices.answer(&mut calls[call], 0, false, false) {
            Answer::Wait => None,
            Answer::Known(work) => Some(work.map(|work| (work.times, work.by_events))),
        };
        assert_eq!(times(0), Some(Some((on_device(100, 110), true))));
        assert_eq!(times(1), None, "another stream");
        assert_eq!(times(2), Some(Some((on_device(100, 110), true))));
        assert_eq!(times(3), Some(Some((None, false))));
        devices.reported(&events(1, 200));
        assert!(matches!(
            devices.answer(&mut calls[1], 0, false, false),
            Answer::Known(Some(work)) if work.times == on_device(200, 210)
        ));
        assert!(devices.launches.is_empty());
        devices.reported(&events(9, 300));
        assert_eq!(devices.without_call, 1);
    }

    #[test]
    fn calls_that_the_library_never_reports_are_soon_not_awaited() {
        let mut devices = Devices::default();
        let mut waited = 0;
        for n in 0..1000 {
            // No records arrive. The reader releases each call when too many operations wait after it.
            if let Some(mut awaited) = devices.called(&call(n, 1, 0), None, Recorded::No, 0) {
                waited += 1;
                assert_eq!(devices.answer(&mut awaited, 0, false, false), Answer::Wait);
                assert_eq!(devices.answer(&mut awaited, 0, false, true), Answer::Known(None));
            }
        }
        assert_eq!(waited, MAX_MISSES);
        assert!(devices.serials.is_empty());
        // It is awaited again after the library reports one.
        devices.reported(&device(2000, 1, 1, 0));
        assert!(devices.called(&call(2001, 1, 0), None, Recorded::No, 0).is_some());
    }

    #[test]
    fn a_copy_of_a_rank_to_itself_has_no_times_and_hides_none() {
        let mut devices = Devices::default();
        let mut awaited = devices
            .called(&call(0, 3, 0), None, Recorded::No, 0)
            .expect("announced");
        let to_itself = DeviceReport {
            work: record::DeviceWork::default(),
            ..device(0, 0, 0, 0)
        };
        for report in [to_itself, device(0, 100, 10, 0), to_itself] {
            devices.reported(&report);
        }
        let Answer::Known(Some(work)) = devices.answer(&mut awaited, 0, false, false) else {
            panic!("known");
        };
        assert_eq!((work.times, work.is_partial), (on_device(100, 110), false));
    }

    #[test]
    fn replays_are_counted_by_template() {
        let mut devices = Devices::default();
        assert!(
            devices
                .called(&call(7, 1, FLAG_CAPTURED), None, Recorded::No, 0)
                .is_none()
        );
        assert!(
            devices
                .called(&call(8, 2, FLAG_CAPTURED), None, Recorded::No, 0)
                .is_none()
        );
        let mut replays = Vec::new();
        for replay in 0..3u64 {
            for sequence in [7, 8, 8] {
                let report = device(sequence, 1000 + replay, 1, FLAG_CAPTURED);
                if let Some(replay) = devices.reported(&report) {
                    replays.push((sequence, replay.number, replay.work.parts));
                }
            }
        }
        assert_eq!(
            replays,
            [(7, 1, 1), (8, 1, 2), (7, 2, 1), (8, 2, 2), (7, 3, 1), (8, 3, 2)]
        );
    }

    #[test]
    fn device_reports_without_a_call_are_counted() {
        let mut devices = Devices::default();
        devices.reported(&device(0, 1, 1, FLAG_SEQUENCE_UNKNOWN));
        devices.reported(&device(3, 1, 1, 0));
        assert_eq!((devices.without_call, devices.left_over()), (1, 1));
    }
}
