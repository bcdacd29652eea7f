//! Joins device records with the calls that they belong to, in bounded memory.

use super::activity::OfCall;
use super::call_key::CallKey;
use super::device_clock::{DeviceClock, is_usable};
use super::event::{DeviceReport, Enqueue};
use super::launches::LaunchNumber;
use crate::model::operation::RankOperation;
use rankscope_ranklog::activity::LinkedTo;
use rankscope_ranklog::record::{Algorithm, Protocol};
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Maximum number of device records of a communicator that may arrive before those of an earlier call. The library's
/// threads report the last channel of one call and the first of the next in any order.
const SLACK: u64 = 64;
/// Maximum number of calls with device records that no call has requested yet.
const MAX_JOINED: usize = 1 << 16;
/// Maximum number of captured calls that are distinguished.
const MAX_TEMPLATES: usize = 1 << 18;
/// Maximum number of groups whose streams are stored.
const MAX_GROUPS: u32 = 4096;
/// Number of consecutive calls without a record after which no more records are expected for that communicator and
/// operation.
const MAX_MISSES: u32 = 16;

/// Time after the last work of a call for which further launches are expected, in nanoseconds of complete device
/// activity. Work that follows on the same stream starts within microseconds.
const LAUNCH_SLACK_NS: i64 = 50_000_000;
/// Time for which a kernel is expected that only the order on its stream identifies, in nanoseconds. No record shows
/// that there is none.
const ORDER_PATIENCE_NS: i64 = 10_000_000_000;
/// Maximum number of calls or groups with stored kernels.
const MAX_LINKED: usize = 1 << 18;

/// Start and end of an operation on the axis.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    enter_ns: i64,
    leave_ns: i64,
    /// Maximum delay of both times, in nanoseconds.
    error_ns: u32,
}

/// Device work of a call, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Start and end on the device's clock, in nanoseconds; `None` if the library reports no times.
    pub times: Option<(u64, u64)>,
    /// Number of device records so far.
    pub parts: u32,
    /// Largest number of channels of any part.
    pub channels: u8,
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Protocol.
    pub protocol: Protocol,
    /// True if the channels of a part never reported their times.
    is_partial: bool,
    /// True if the times come from CUDA events around the whole launch.
    pub by_events: bool,
    /// Start and end of its kernels on the axis, in nanoseconds. They are more exact than the library's reports.
    kernels: Option<(i64, i64)>,
}

impl Work {
    fn add(&mut self, report: &DeviceReport) {
        let work = report.work;
        if is_usable(report.start_ns) {
            let (start, stop) = (report.start_ns, report.start_ns.saturating_add(work.duration_ns));
            let (first, last) = self.times.unwrap_or((start, stop));
            self.times = Some((first.min(start), last.max(stop)));
        } else if work.channels > 0 {
            self.is_partial = true;
        }
        // A copy of a rank to itself has no channels and no times. The times of the other parts apply.
        self.parts += 1;
        self.channels = self.channels.max(work.channels);
        if work.algorithm != Algorithm::Unknown {
            self.algorithm = work.algorithm;
        }
        if work.protocol != Protocol::Unknown {
            self.protocol = work.protocol;
        }
    }

    /// Sets the times of events around its launch. They are better than channels without times.
    fn set_times(&mut self, times: Option<(u64, u64)>) {
        if times.is_some() {
            (self.times, self.is_partial, self.by_events) = (times, false, true);
        }
    }

    /// Returns true if its times are those of its kernels.
    pub fn by_kernels(&self) -> bool {
        self.kernels.is_some()
    }

    /// Returns its times on the axis, if they are complete.
    pub fn times_by(&self, clock: Option<&DeviceClock>) -> Option<Times> {
        if let Some((enter_ns, leave_ns)) = self.kernels {
            return Some(Times {
                enter_ns,
                leave_ns,
                error_ns: 0,
            });
        }
        let (start, stop) = self.times.filter(|_| !self.is_partial)?;
        let clock = clock?;
        let enter_ns = clock.ns(start);
        // Without a lower bound, the times of two devices cannot be compared.
        let widest = clock.error_ns.map_or(i64::MAX, |(widest, _)| widest);
        Some(Times {
            enter_ns,
            leave_ns: clock.ns(stop).max(enter_ns),
            error_ns: u32::try_from(widest).unwrap_or(u32::MAX),
        })
    }

    /// Copies the known values to the operation. Returns true if they include its completion.
    pub fn apply(&self, operation: &mut RankOperation, times: Option<Times>) -> bool {
        operation.channels = self.channels;
        operation.algorithm = self.algorithm;
        operation.protocol = self.protocol;
        let Some(times) = times else { return false };
        operation.called_ns = operation.enter_ns;
        operation.enter_ns = times.enter_ns;
        operation.leave_ns = times.leave_ns;
        operation.clock_error_ns = times.error_ns;
        true
    }
}

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
    /// Key of its kernels.
    linked: Option<LinkedTo>,
    /// Handle of the program's stream.
    stream: u64,
    /// Return of the call, in nanoseconds.
    returned_ns: i64,
    /// True if its kernel may be found by the order on its stream.
    is_in_order: bool,
    /// Number of earlier pending calls of its communicator.
    serial: u64,
    /// Number of records of its communicator after which the records of this call are no longer expected; 0 until a
    /// record of a later call arrives.
    until: u64,
}

impl Awaited {
    /// Returns the number of its communicator in the log.
    pub fn communicator(&self) -> u32 {
        self.key.communicator
    }
}

/// State of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its records may still arrive.
    Wait,
    /// Everything that will be known of it; `None` means nothing.
    Known(Option<Work>),
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

/// A launch that CUDA events measure.
#[derive(Clone, Copy, Default)]
struct Launch {
    /// Number of calls that wait for it.
    users: u32,
    /// Report, once received: start and end, or `None` if the launch has no times.
    reported: Option<Option<(u64, u64)>>,
}

/// Kernels of a call or a group.
#[derive(Default)]
struct Linked {
    /// Number of known launches.
    launches: u32,
    /// Stream, start and end of each kernel, in nanoseconds on the axis.
    kernels: Vec<(u32, i64, i64)>,
    /// True if some kernels were found by order. Then their number is unknown.
    is_in_order: bool,
    /// True if no more kernels will be found by order.
    is_given_up: bool,
    /// Number of calls of the group without an answer yet.
    users: u32,
    communicators: Vec<u32>,
}

/// Kernels of a call, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernels {
    /// They may still arrive.
    Wait,
    /// There are none, or they cannot be identified.
    Nothing,
    /// Start of the first and end of the last kernel, in nanoseconds.
    Ran(i64, i64),
}

#[derive(Default)]
struct Communicator {
    /// Number of device records so far.
    reports: u64,
    /// Number of pending calls so far.
    awaited: u64,
    /// Serial of the latest call with a record, plus one.
    latest: u64,
}

/// A captured call.
#[derive(Clone, Copy)]
struct Template {
    parts: u8,
    launch: Option<LaunchNumber>,
    replays: u32,
    /// Device work of the current replay.
    current: Work,
}

/// The calls of a group on one stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct OnStream {
    group: u32,
    stream: u64,
}

/// The calls that the library counts as one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CallKind {
    communicator: u32,
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

/// Device work of a replay of a captured call.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// Its device work.
    pub work: Work,
    /// Number of the replay, from 1.
    pub number: u32,
    /// The launch of its template.
    pub launch: Option<LaunchNumber>,
}

/// The devices of one rank.
#[derive(Default)]
pub struct Devices {
    joined: FxHashMap<CallKey, Work>,
    communicators: FxHashMap<u32, Communicator>,
    /// Serials of pending calls.
    serials: FxHashMap<CallKey, u64>,
    /// Number of consecutive calls without a record, by communicator and operation.
    misses: FxHashMap<CallKind, u32>,
    templates: FxHashMap<CallKey, Template>,
    launches: FxHashMap<CallKey, Launch>,
    /// Call under whose key the launch of a group is reported, by group and stream.
    leaders: FxHashMap<OnStream, CallKey>,
    linked: FxHashMap<LinkedTo, Linked>,
    /// CUPTI's stream by the program's handle, from the log or from calls outside of groups.
    streams: FxHashMap<u64, u32>,
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
            let template = Template {
                parts,
                launch,
                replays: 0,
                current: Work::default(),
            };
            if self.templates.len() < MAX_TEMPLATES {
                self.templates.insert(key, template);
            }
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
        let timed_by = call.is_timed.then(|| self.leader_of(call, key));
        let linked = is_linked.then(|| self.awaits_kernels(&key, call.group));
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
            launch: timed_by,
            linked,
            stream: call.stream,
            returned_ns,
            is_in_order,
            serial,
            until: 0,
        })
    }

    /// Returns the key of a call's kernels, and registers the call as their user.
    fn awaits_kernels(&mut self, key: &CallKey, group: Option<NonZeroU32>) -> LinkedTo {
        let to = match group {
            None => LinkedTo::Call {
                communicator: key.communicator,
                operation: key.operation,
                sequence: key.sequence,
                peer: key.peer,
            },
            Some(group) => LinkedTo::Group(group.get()),
        };
        let linked = self.linked.entry(to).or_default();
        linked.users += 1;
        if !linked.communicators.contains(&key.communicator) {
            linked.communicators.push(key.communicator);
        }
        to
    }

    /// Records a launch of a call.
    pub fn linked(&mut self, to: LinkedTo) {
        if self.linked.len() < MAX_LINKED || self.linked.contains_key(&to) {
            self.linked.entry(to).or_default().launches += 1;
        }
    }

    /// Records a launch that was found by the order on its stream.
    pub fn found_by_order(&mut self, to: LinkedTo) {
        self.linked(to);
        if let Some(linked) = self.linked.get_mut(&to) {
            linked.is_in_order = true;
        }
    }

    /// Records that no more kernels of a call will be found by order.
    pub fn given_up(&mut self, to: LinkedTo) {
        if let Some(linked) = self.linked.get_mut(&to) {
            linked.is_given_up = true;
        }
    }

    /// Binds the program's stream handle to a stream of CUPTI.
    pub fn named(&mut self, handle: u64, stream: u32) {
        self.streams.insert(handle, stream);
    }

    /// Adds device work of a call.
    pub fn ran(&mut self, work: &OfCall) {
        if self.linked.len() < MAX_LINKED || self.linked.contains_key(&work.to) {
            let linked = self.linked.entry(work.to).or_default();
            linked.kernels.push((work.stream, work.start_ns, work.end_ns));
        }
    }

    /// Returns the kernels of a pending call. All activity that started before `known_until` is known.
    fn kernels(&mut self, awaited: &Awaited, known_until: i64) -> Option<Kernels> {
        let to = awaited.linked?;
        let Some(linked) = self.linked.get(&to) else {
            return Some(Kernels::Nothing);
        };
        let patience_ns = if awaited.is_in_order && !linked.is_given_up {
            ORDER_PATIENCE_NS
        } else {
            0
        };
        let is_patient = known_until <= awaited.returned_ns.saturating_add(patience_ns);
        let Some(last) = linked.kernels.iter().map(|kernel| kernel.2).max() else {
            // Launches are reported before the work that they launch.
            let is_none = linked.launches == 0 && !is_patient;
            return Some(if is_none { Kernels::Nothing } else { Kernels::Wait });
        };
        let is_whole = !linked.is_in_order && linked.kernels.len() >= linked.launches as usize;
        if known_until < last || !is_whole && known_until < last + LAUNCH_SLACK_NS {
            return Some(Kernels::Wait);
        }
        let is_call = matches!(to, LinkedTo::Call { .. });
        if is_call && let [(stream, ..)] = linked.kernels[..] {
            self.streams.insert(awaited.stream, stream);
        }
        // If a group has several communicators, each has its own kernels. The stream distinguishes them, if it is
        // known.
        let own = if linked.communicators.len() < 2 {
            None
        } else if let Some(&stream) = self.streams.get(&awaited.stream) {
            Some(stream)
        } else {
            return Some(Kernels::Nothing);
        };
        let mut times: Option<(i64, i64)> = None;
        for &(stream, start, end) in &linked.kernels {
            if own.is_none_or(|own| own == stream) {
                let (first, last) = times.unwrap_or((start, end));
                times = Some((first.min(start), last.max(end)));
            }
        }
        Some(match times {
            Some((start, end)) => Kernels::Ran(start, end),
            // A kernel of another communicator of the group arrived first.
            None if linked.is_in_order && is_patient => Kernels::Wait,
            None => Kernels::Nothing,
        })
    }

    /// Releases the kernels of a pending call.
    fn forget_kernels(&mut self, to: LinkedTo) {
        if let Some(linked) = self.linked.get_mut(&to) {
            linked.users = linked.users.saturating_sub(1);
            if linked.users == 0 {
                self.linked.remove(&to);
            }
        }
    }

    /// Returns the key under which the launch of a call is reported: its own key, or in a group that of the first call
    /// on its stream.
    fn leader_of(&mut self, call: &Enqueue, key: CallKey) -> CallKey {
        let leader = match call.group.map(NonZeroU32::get) {
            None => key,
            Some(group) => {
                if self.leaders.len() >= MAX_GROUPS as usize {
                    let oldest = group.saturating_sub(MAX_GROUPS / 2);
                    self.leaders.retain(|known, _| known.group > oldest);
                }
                let stream = call.stream;
                *self.leaders.entry(OnStream { group, stream }).or_insert(key)
            }
        };
        self.launches.entry(leader).or_default().users += 1;
        leader
    }

    /// Adds the times of a launch from CUDA events.
    fn reported_by_events(&mut self, report: &DeviceReport) {
        let key = CallKey::of(&report.fields);
        let Some(launch) = self.launches.get_mut(&key) else {
            self.without_call += 1;
            return;
        };
        let start = report.start_ns;
        let stop = start.saturating_add(report.work.duration_ns);
        launch.reported = Some(is_usable(start).then_some((start, stop)));
        self.count_report(&key);
    }

    /// Counts a report of a call of its communicator.
    fn count_report(&mut self, key: &CallKey) {
        let known = self.communicators.entry(key.communicator).or_default();
        known.reports += 1;
        if let Some(serial) = self.serials.get(key) {
            known.latest = known.latest.max(serial + 1);
        }
    }

    /// Adds a device report. Returns the replay that it completes, if any.
    pub fn reported(&mut self, report: &DeviceReport) -> Option<Replay> {
        let fields = &report.fields;
        if !fields.has_sequence() {
            self.without_call += 1;
            None
        } else if report.is_by_events {
            self.reported_by_events(report);
            None
        } else if fields.is_captured() {
            self.replayed(report)
        } else {
            self.reported_of_call(report);
            None
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

    /// Adds a report of a replay of a captured call.
    fn replayed(&mut self, report: &DeviceReport) -> Option<Replay> {
        let key = CallKey::of(&report.fields);
        if self.templates.len() >= MAX_TEMPLATES && !self.templates.contains_key(&key) {
            self.without_call += 1;
            return None;
        }
        // The record of the captured call is missing. Nearly all calls have one part.
        let template = self.templates.entry(key).or_insert(Template {
            parts: 1,
            launch: None,
            replays: 0,
            current: Work::default(),
        });
        template.current.add(report);
        if template.current.parts < u32::from(template.parts) {
            return None;
        }
        template.replays += 1;
        Some(Replay {
            work: std::mem::take(&mut template.current),
            number: template.replays,
            launch: template.launch,
        })
    }

    /// Returns the start of a call on the device, if all of it is known.
    pub fn start(&mut self, awaited: &Awaited, known_until: i64) -> Start {
        match self.kernels(awaited, known_until) {
            Some(Kernels::Wait) => return Start::Pending,
            Some(Kernels::Ran(start, _)) => return Start::OnAxis(start),
            Some(Kernels::Nothing) | None => {}
        }
        let work = self.joined.get(&awaited.key);
        let has_parts = awaited.parts == 0 || work.is_some_and(|work| work.parts >= u32::from(awaited.parts));
        let by_events = match awaited.launch.and_then(|leader| self.launches.get(&leader)) {
            Some(launch) => match launch.reported {
                Some(times) => times,
                None => return Start::Pending,
            },
            None => None,
        };
        let has_passed = awaited.until > 0
            && self
                .communicators
                .get(&awaited.key.communicator)
                .is_some_and(|known| known.reports > awaited.until);
        if !has_parts && !has_passed {
            return Start::Pending;
        }
        let times = by_events.or_else(|| work?.times);
        times.map_or(Start::Unknown, |(start, _)| Start::ByDevice(start))
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
        let kernels = self.kernels(awaited, known_until);
        let work = self.joined.get(&key).copied();
        let launch = awaited.launch.map(|leader| {
            let launch = self.launches.get(&leader);
            launch.map_or(Some(None), |launch| launch.reported)
        });
        let has_parts = awaited.parts == 0
            || awaited.parts < 255 && work.is_some_and(|work| work.parts >= u32::from(awaited.parts));
        let is_whole = has_parts && launch != Some(None) && kernels != Some(Kernels::Wait);
        let mut has_passed = false;
        if let Some(known) = self.communicators.get(&key.communicator) {
            // Records of a later call have arrived. The records of this one arrive soon, or never.
            if awaited.until == 0 && known.latest > awaited.serial + 1 {
                awaited.until = known.reports + SLACK;
            }
            has_passed = awaited.until > 0 && known.reports > awaited.until;
        }
        if !is_whole && !has_passed && !is_over && !is_let_go {
            return Answer::Wait;
        }
        self.joined.remove(&key);
        self.serials.remove(&key);
        if let Some(leader) = awaited.launch
            && let Some(known) = self.launches.get_mut(&leader)
        {
            known.users = known.users.saturating_sub(1);
            if known.users == 0 {
                self.launches.remove(&leader);
            }
        }
        if let Some(to) = awaited.linked {
            self.forget_kernels(to);
        }
        let mut work = work;
        if let Some(Some(times)) = launch {
            work.get_or_insert_default().set_times(times);
        }
        if let Some(Kernels::Ran(start, end)) = kernels {
            work.get_or_insert_default().kernels = Some((start, end));
        }
        if awaited.parts > 0 && (work.is_none() && has_passed || is_let_go) {
            *self.misses.entry(CallKind::of(&key)).or_insert(0) += 1;
        }
        // If the last of many parts is missing, the operation was not complete when the log ended. If announced parts
        // were passed over, those that arrived are all.
        Answer::Known(work.filter(|_| is_whole || has_passed))
    }

    /// Returns the number of device records whose calls were never read.
    pub fn left_over(&self) -> u64 {
        self.joined.values().map(|work| u64::from(work.parts)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::Operation;
    use rankscope_ranklog::record::{
        DeviceWork, Enqueued, FLAG_CAPTURED, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
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
            aux: DeviceWork {
                duration_ns,
                channels: 2,
                ..DeviceWork::default()
            }
            .to_aux(),
            ..Record::new(RecordKind::Device)
        })
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
        assert_eq!(work.times, Some((90, 110)));
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
            group: NonZeroU32::new(group),
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
        assert_eq!(times(0), Some(Some((Some((100, 110)), true))));
        assert_eq!(times(1), None, "another stream");
        assert_eq!(times(2), Some(Some((Some((100, 110)), true))));
        assert_eq!(times(3), Some(Some((None, false))));
        devices.reported(&events(1, 200));
        assert!(matches!(
            devices.answer(&mut calls[1], 0, false, false),
            Answer::Known(Some(work)) if work.times == Some((200, 210))
        ));
        assert!(devices.launches.is_empty());
        devices.reported(&events(9, 300));
        assert_eq!(devices.without_call, 1);
    }

    #[test]
    fn what_the_library_never_tells_of_is_soon_not_waited_for() {
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
    fn what_a_rank_copies_to_itself_has_no_times_and_hides_none() {
        let mut devices = Devices::default();
        let mut awaited = devices
            .called(&call(0, 3, 0), None, Recorded::No, 0)
            .expect("announced");
        let to_itself = DeviceReport {
            work: DeviceWork::default(),
            ..device(0, 0, 0, 0)
        };
        for report in [to_itself, device(0, 100, 10, 0), to_itself] {
            devices.reported(&report);
        }
        let Answer::Known(Some(work)) = devices.answer(&mut awaited, 0, false, false) else {
            panic!("known");
        };
        assert_eq!((work.times, work.is_partial), (Some((100, 110)), false));
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
    fn what_belongs_to_no_call_is_counted() {
        let mut devices = Devices::default();
        devices.reported(&device(0, 1, 1, FLAG_SEQUENCE_UNKNOWN));
        devices.reported(&device(3, 1, 1, 0));
        assert_eq!((devices.without_call, devices.left_over()), (1, 1));
    }
}
