//! Converts a device's clock to the axis (METRICS.md, section 4), with an interval for the error.
//!
//! The evidence comes from the run itself. The host receives each report of device work no earlier than the work
//! happened, which bounds the offset from above. No kernel starts before its call was entered, which bounds it from
//! below. With CUDA events, a reading of their clock between two host timestamps gives both bounds.
//!
//! The offset of two clocks with an even drift is a line. A line below all upper bounds is below their lower convex
//! hull (Duda 1987), so the hull is used as the largest possible offset. It is computed per window, because no drift
//! stays even for long.

use crate::clocks::clock::Line;
use crate::model::log_communicator::LogCommunicator;
use rankscope_ranklog::record::{Record, RecordKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::call_key::CallKey;
use super::device_interval::DeviceInterval;
use super::misreported::Misreported;
use super::overwritten::{Doubt, Overwritten, ReportOrder, Reported, has_ordered_end};
use crate::rank::context::LogContext;
use crate::rank::event::{DeviceReport, LogEvent, OperationFields};
use crate::rank::sums::ErrorWidth;

/// Initial width of an evidence bucket, in nanoseconds of the device's clock.
const FINEST_NS: i64 = 1 << 20;
/// Maximum number of buckets; on overflow their width doubles.
const MAX_BUCKETS: usize = 1 << 14;
/// Time for which the drift is assumed to be even, in nanoseconds.
const WINDOW_NS: i64 = 30_000_000_000;
/// Maximum drift between two clocks, in parts per million (METRICS.md, section 4).
const MAX_DRIFT_PPM: f64 = 200.0;
/// Tolerance for contradicting bounds, in nanoseconds: timestamps are rounded.
const TOLERANCE_NS: i64 = 1000;
/// Maximum number of devices of one process.
const MAX_DEVICES: usize = 256;
/// Maximum number of calls whose device record is pending while evidence is collected.
const MAX_CALLS: usize = 1 << 16;

/// Device timestamps from this value on, more than a hundred years after 1970, are damaged. Arithmetic on them would
/// overflow.
const LATEST_NS: u64 = 1 << 62;
/// Timestamps are clamped to ± this, in nanoseconds (see [`Line`]).
const FARTHEST_NS: i64 = 1 << 56;

/// Returns true for a plausible device timestamp.
pub fn is_usable(device_ns: u64) -> bool {
    (1..LATEST_NS).contains(&device_ns)
}

/// A bound of the offset host − device: device timestamp and offset, in nanoseconds.
type Bound = (i64, i64);

/// The tightest bounds in one bucket of time.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    above: Option<Bound>,
    below: Option<Bound>,
}

/// Bounds by time, as fine as memory permits.
struct Evidence {
    by_time: BTreeMap<i64, Bounds>,
    bucket_ns: i64,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            by_time: BTreeMap::new(),
            bucket_ns: FINEST_NS,
        }
    }
}

impl Evidence {
    fn at(&mut self, device_ns: i64) -> &mut Bounds {
        if self.by_time.len() >= MAX_BUCKETS {
            self.bucket_ns *= 2;
            let finer = std::mem::take(&mut self.by_time);
            for (at, bounds) in finer {
                let coarser = self.by_time.entry(at.div_euclid(2)).or_default();
                coarser.above = tighter(coarser.above, bounds.above, |new, old| new < old);
                coarser.below = tighter(coarser.below, bounds.below, |new, old| new > old);
            }
        }
        self.by_time
            .entry(device_ns.div_euclid(self.bucket_ns))
            .or_default()
    }

    fn above(&mut self, device_ns: i64, offset_ns: i64) {
        let bounds = self.at(device_ns);
        bounds.above = tighter(bounds.above, Some((device_ns, offset_ns)), |new, old| new < old);
    }

    fn below(&mut self, device_ns: i64, offset_ns: i64) {
        let bounds = self.at(device_ns);
        bounds.below = tighter(bounds.below, Some((device_ns, offset_ns)), |new, old| new > old);
    }

    /// Adds a reading of the clock between the two times of its record.
    fn add_reading(&mut self, device_ns: u64, record: &Record, line: &Line) {
        if is_usable(device_ns) {
            let at = device_ns as i64;
            self.above(at, line.ns(record.leave_ticks).saturating_sub(at));
            self.below(at, line.ns(record.enter_ticks).saturating_sub(at));
        }
    }

    /// Adds a report: the process learned of the start and the end later, and entered the call earlier.
    fn add_report(&mut self, report: &DeviceReport, record: &Record, line: &Line, call: Option<&Entered>) {
        if !is_usable(report.start_ns) {
            return;
        }
        let start = report.start_ns as i64;
        let stop = start + report.work.duration_ns as i64;
        for (at, reported) in [
            (start, line.ns(record.enter_ticks)),
            (stop, line.ns(record.leave_ticks)),
        ] {
            self.above(at, reported.saturating_sub(at));
        }
        if let Some(call) = call {
            self.below(start, call.at_ns.saturating_sub(start));
        }
    }
}

fn tighter(one: Option<Bound>, other: Option<Bound>, is_tighter: fn(i64, i64) -> bool) -> Option<Bound> {
    match (one, other) {
        (Some(one), Some(other)) if is_tighter(other.1, one.1) => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// Evidence of each device.
struct Devices<F> {
    evidence: BTreeMap<u32, Evidence>,
    /// Device number of a communicator; `None` if the communicator is unknown.
    device_of: F,
}

impl<F: Fn(LogCommunicator) -> Option<u32>> Devices<F> {
    /// Returns the evidence of the device on which a communicator works.
    fn evidence(&mut self, communicator: LogCommunicator) -> Option<&mut Evidence> {
        let device = (self.device_of)(communicator)?;
        let is_kept = self.evidence.len() < MAX_DEVICES || self.evidence.contains_key(&device);
        is_kept.then(|| self.evidence.entry(device).or_default())
    }
}

/// A call whose device report is pending.
#[derive(Clone, Copy)]
struct Entered {
    at_ns: i64,
    group: Option<NonZeroU32>,
    /// Number of calls on its communicator before it.
    position: u64,
}

impl Entered {
    /// Returns what a report of this call states about the order of the communicator's operations.
    fn ended(&self, report: &DeviceReport, calls: Enqueued) -> Option<Reported> {
        let fields = &report.fields;
        let interval = DeviceInterval::of(report)?;
        let is_comparable = !report.is_by_events && has_ordered_end(fields.known_operation());
        let later_calls = calls.count.saturating_sub(self.position + 1);
        is_comparable.then_some(Reported {
            sequence: fields.sequence,
            group: self.group,
            end_ns: interval.end_ns,
            doubt: Doubt::after(later_calls, calls.has_captured),
        })
    }
}

/// The calls on a communicator so far.
#[derive(Clone, Copy, Default)]
struct Enqueued {
    count: u64,
    /// Whether one was captured. Its replays are works without calls.
    has_captured: bool,
}

/// Calls whose device report is pending, and the number of all calls.
#[derive(Default)]
struct Calls {
    entered: FxHashMap<CallKey, Entered>,
    enqueued: FxHashMap<LogCommunicator, Enqueued>,
}

impl Calls {
    /// Returns true if a call and its report have the same key. Each replay of a captured call has a report.
    fn have_key(fields: &OperationFields) -> bool {
        !fields.is_captured() && fields.has_sequence()
    }

    fn entered(&mut self, fields: &OperationFields, at_ns: i64, group: Option<NonZeroU32>) {
        if self.enqueued.len() >= MAX_CALLS {
            self.enqueued.clear();
        }
        let enqueued = self.enqueued.entry(fields.communicator).or_default();
        let position = enqueued.count;
        enqueued.count += 1;
        enqueued.has_captured |= fields.is_captured();
        if !Self::have_key(fields) {
            return;
        }
        if self.entered.len() >= MAX_CALLS {
            self.entered.clear();
        }
        let call = Entered {
            at_ns,
            group,
            position,
        };
        self.entered.insert(CallKey::of(fields), call);
    }

    fn enqueued(&self, communicator: LogCommunicator) -> Enqueued {
        self.enqueued.get(&communicator).copied().unwrap_or_default()
    }

    fn reported(&mut self, fields: &OperationFields) -> Option<Entered> {
        if !Self::have_key(fields) {
            return None;
        }
        self.entered.remove(&CallKey::of(fields))
    }
}

/// Conversion of a device's clock to the axis.
#[derive(Clone, Debug)]
pub struct DeviceClock {
    knots: Vec<Bound>,
    drift: f64,
    /// Maximum distance of the true offset below the assumed one; `None` without calls.
    pub error: Option<ErrorWidth>,
    /// Number of windows in which the upper and lower bounds contradict each other.
    pub contradictions: u64,
}

/// The clocks of a process's devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceClocks {
    /// Clocks by device number.
    by_device: BTreeMap<u32, DeviceClock>,
}

impl DeviceClocks {
    /// Determines the clocks of the devices that the communicators of the log use. Also finds the communicators with
    /// times of other operations, which are no evidence.
    pub fn learn(context: &LogContext<'_>) -> (Self, Misreported) {
        let mut misreported = Misreported::default();
        let clocks = Self::read(context, &mut misreported);
        if misreported.has_no_copies() {
            return (clocks, misreported);
        }
        misreported.overwritten = Overwritten::default();
        // A log is only nearly ordered by time. A report may precede the call that makes its times unusable.
        let clocks = Self::read(context, &mut misreported);
        (clocks, misreported)
    }

    /// Reads the log. Adds calls to `misreported`, and leaves out the evidence of the communicators that it contains.
    fn read(context: &LogContext<'_>, misreported: &mut Misreported) -> Self {
        let line = &context.line;
        let mut devices = Devices {
            evidence: BTreeMap::new(),
            device_of: |communicator| context.known_device_of(communicator),
        };
        let mut calls = Calls::default();
        let mut order = ReportOrder::default();
        let mut stream = context.log.records();
        let mut batch = Vec::new();
        while stream.next_batch(&mut batch) {
            for entry in &batch {
                let record = &entry.record;
                // Most records of many logs are of activity, and say nothing about clocks.
                if record.kind == RecordKind::Activity as u8 {
                    continue;
                }
                match LogEvent::of(record) {
                    Some(LogEvent::Enqueue(call)) => {
                        misreported.called(&call, record.enter_ticks, context);
                        calls.entered(&call.fields, line.ns(record.enter_ticks), call.group);
                    }
                    Some(LogEvent::DeviceReport(report)) if !misreported.contains(&report) => {
                        let communicator = report.fields.communicator;
                        let entered = calls.reported(&report.fields);
                        let enqueued = calls.enqueued(communicator);
                        if let Some(reported) = entered.and_then(|call| call.ended(&report, enqueued)) {
                            order.reported(communicator, reported, &mut misreported.overwritten);
                        }
                        if let Some(evidence) = devices.evidence(communicator) {
                            evidence.add_report(&report, record, line, entered.as_ref());
                        }
                    }
                    Some(LogEvent::ClockReading {
                        communicator,
                        device_ns,
                    }) => {
                        if let Some(evidence) = devices.evidence(communicator) {
                            evidence.add_reading(device_ns, record, line);
                        }
                    }
                    _ => {}
                }
            }
        }
        let fit = |(device, evidence): (u32, Evidence)| Some((device, DeviceClock::fit(&evidence)?));
        Self {
            by_device: devices.evidence.into_iter().filter_map(fit).collect(),
        }
    }

    /// Returns the clock of a device.
    pub fn of(&self, device: u32) -> Option<&DeviceClock> {
        self.by_device.get(&device)
    }

    /// Iterates over all clocks.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceClock> {
        self.by_device.values()
    }
}

impl DeviceClock {
    fn fit(evidence: &Evidence) -> Option<Self> {
        // A lower bound becomes an upper one by negation.
        let turned = |&(at, offset): &Bound| (at, -offset);
        let above = spread(evidence.by_time.values().filter_map(|bounds| bounds.above));
        let below = spread(
            evidence
                .by_time
                .values()
                .filter_map(|bounds| bounds.below.as_ref().map(turned)),
        );
        let origin = above.first()?.0;
        let mut knots: Vec<Bound> = Vec::new();
        let mut widths: Vec<i64> = Vec::new();
        let mut contradictions = 0;
        // Only windows with evidence are processed: a program may pause for hours.
        for window in
            above.chunk_by(|one, other| (one.0 - origin) / WINDOW_NS == (other.0 - origin) / WINDOW_NS)
        {
            let (Some(&(from, _)), Some(&(until, _))) = (window.first(), window.last()) else {
                continue;
            };
            // Half a window more on both sides: at its ends a hull always touches the outermost point.
            let around = from - WINDOW_NS / 2..until + WINDOW_NS / 2;
            let upper = lower_hull(within(&above, &around));
            let lower: Vec<Bound> = lower_hull(within(&below, &around)).iter().map(turned).collect();
            let mut contradicts = false;
            for &(at, _) in window {
                if let (Some(most), Some(least)) = (inside(&upper, at), inside(&lower, at)) {
                    contradicts |= most - least < -TOLERANCE_NS;
                    widths.push((most - least).max(0));
                }
            }
            contradictions += u64::from(contradicts);
            let ends = [from, until].map(|at| inside(&upper, at).map(|offset| (at, offset)));
            let [first, last] = ends;
            knots.extend(first);
            knots.extend(upper.iter().filter(|knot| knot.0 > from && knot.0 < until));
            knots.extend(last.filter(|_| until > from));
        }
        let (&first, &last) = (knots.first()?, knots.last()?);
        let drift = if last.0 > first.0 {
            (last.1 - first.1) as f64 / (last.0 - first.0) as f64
        } else {
            0.0
        };
        widths.sort_unstable();
        let error = widths.last().map(|&widest_ns| ErrorWidth {
            widest_ns,
            median_ns: widths[widths.len() / 2],
        });
        Some(Self {
            knots,
            drift: drift.clamp(-MAX_DRIFT_PPM * 1e-6, MAX_DRIFT_PPM * 1e-6),
            error,
            contradictions,
        })
    }

    /// Returns how much faster the host's clock runs, in parts per million.
    pub fn drift_ppm(&self) -> f64 {
        self.drift * 1e6
    }

    /// Converts a device timestamp to the axis, in nanoseconds.
    pub fn ns(&self, device_ns: u64) -> i64 {
        let device_ns = i64::try_from(device_ns).unwrap_or(i64::MAX);
        let offset = match (self.knots.first(), self.knots.last()) {
            (Some(&first), _) if device_ns < first.0 => self.beyond(first, device_ns),
            (_, Some(&last)) if device_ns > last.0 => self.beyond(last, device_ns),
            _ => inside(&self.knots, device_ns).unwrap_or(0),
        };
        device_ns.saturating_add(offset).clamp(-FARTHEST_NS, FARTHEST_NS)
    }

    fn beyond(&self, knot: Bound, device_ns: i64) -> i64 {
        let distance = device_ns.saturating_sub(knot.0);
        knot.1
            .saturating_add((self.drift * distance as f64).round() as i64)
    }
}

/// Interpolates linearly between points, in whole nanoseconds. Returns `None` outside of them.
fn inside(points: &[Bound], at: i64) -> Option<i64> {
    let after = points.partition_point(|point| point.0 <= at);
    let before = *points.get(after.checked_sub(1)?)?;
    match points.get(after) {
        Some(next) => {
            let share = (at - before.0) as f64 / (next.0 - before.0) as f64;
            Some(before.1 + (share * (next.1 - before.1) as f64).round() as i64)
        }
        // Only the last point itself is inside.
        None => (before.0 == at).then_some(before.1),
    }
}

/// Tightens each upper bound by the others, because no clock drifts faster than [`MAX_DRIFT_PPM`].
fn spread(bounds: impl Iterator<Item = Bound>) -> Vec<Bound> {
    let mut bounds: Vec<Bound> = bounds.collect();
    let count = bounds.len();
    let mut carry = |order: &mut dyn Iterator<Item = usize>| {
        let mut before: Option<Bound> = None;
        for position in order {
            let (at, own) = bounds[position];
            if let Some((then, bound)) = before {
                let carried = bound + ((at - then).abs() as f64 * MAX_DRIFT_PPM * 1e-6) as i64;
                bounds[position].1 = own.min(carried);
            }
            before = Some(bounds[position]);
        }
    };
    carry(&mut (0..count));
    carry(&mut (0..count).rev());
    bounds
}

/// Returns the bounds inside a range of time.
fn within<'a>(bounds: &'a [Bound], range: &std::ops::Range<i64>) -> &'a [Bound] {
    let from = bounds.partition_point(|bound| bound.0 < range.start);
    let until = bounds.partition_point(|bound| bound.0 < range.end);
    &bounds[from..until.max(from)]
}

/// Returns the lower convex hull of points in order of time.
fn lower_hull(points: &[Bound]) -> Vec<Bound> {
    let mut hull: Vec<Bound> = Vec::new();
    for &point in points {
        // Products of nanoseconds need more than 64 bits.
        let turns = |one: Bound, other: Bound| {
            let wide = |value: i64| i128::from(value);
            (wide(other.0) - wide(one.0)) * (wide(point.1) - wide(one.1))
                <= (wide(other.1) - wide(one.1)) * (wide(point.0) - wide(one.0))
        };
        while let [.., one, other] = hull[..]
            && turns(one, other)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns evidence of a device that is `ahead` ns before the host and drifts, from calls every 10 ms. Each kernel
    /// starts `wait` after its call, and the host receives the report `delay` later.
    fn evidence(
        ahead: i64,
        drift: impl Fn(i64) -> i64,
        calls: i64,
        noise: impl Fn(i64) -> (i64, i64),
    ) -> Evidence {
        let mut evidence = Evidence::default();
        for n in 0..calls {
            let (wait, delay) = noise(n);
            let called = n * 10_000_000;
            let began = called + wait;
            let device = began + ahead + drift(began);
            evidence.above(device, began + delay - device);
            evidence.below(device, called - device);
        }
        evidence
    }

    fn noise(seed: i64, least_wait: i64, least_delay: i64) -> impl Fn(i64) -> (i64, i64) {
        move |n| {
            let random = (n * 7919 * seed).rem_euclid(1009);
            (
                least_wait + random * 300,
                least_delay + (random * seed).rem_euclid(997) * 200,
            )
        }
    }

    proptest! {
        /// With an even drift the true time is inside the reported interval, in short and long runs.
        #[test]
        fn the_device_clock_is_found_within_the_stated_error(
            ahead in 0i64..4_000_000_000_000_000_000, ppm in -150.0f64..150.0, calls in 3i64..9000,
            least_wait in 1_000i64..50_000, least_delay in 500i64..20_000, seed in 1i64..1000,
        ) {
            let drift = |host: i64| (host as f64 * ppm * 1e-6) as i64;
            let clock = DeviceClock::fit(&evidence(ahead, drift, calls, noise(seed, least_wait, least_delay))).expect("evidence");
            prop_assert_eq!(clock.contradictions, 0);
            let widest = clock.error.expect("calls").widest_ns;
            let (first, last) = (clock.knots[0].0, clock.knots[clock.knots.len() - 1].0);
            for n in (0..calls).step_by(7) {
                let host = n * 10_000_000 + 1234;
                let device = host + ahead + drift(host);
                if device < first || device > last { continue; }
                let found = clock.ns(device as u64);
                // Timestamps are rounded to whole nanoseconds on both sides.
                prop_assert!(found >= host - 3, "{} {}", found, host);
                prop_assert!(found <= host + widest + 3, "{} {} {}", found, host, widest);
            }
        }
    }

    #[test]
    fn a_drift_that_changes_is_followed() {
        // The drift changes by one ppm within ten minutes, as with a warming crystal.
        let drift = |host: i64| {
            (20e-6 * host as f64 + 40_000.0 * (host as f64 / 600e9 * std::f64::consts::TAU).sin()) as i64
        };
        let clock = DeviceClock::fit(&evidence(7, drift, 60_000, noise(3, 5_000, 2_000))).expect("evidence");
        for n in (10..59_990).step_by(11) {
            let host = n * 10_000_000;
            let found = clock.ns((host + 7 + drift(host)) as u64);
            assert!(
                (-1_000..12_000).contains(&(found - host)),
                "{} after {host}",
                found - host
            );
        }
        assert!((clock.drift_ppm() + 20.0).abs() < 0.5, "{}", clock.drift_ppm());
    }

    #[test]
    fn the_clock_is_known_during_a_pause_of_minutes() {
        let ahead = 1_700_000_000_000_000_000;
        let drift = |host: i64| (host as f64 * 30e-6) as i64;
        let mut all = Evidence::default();
        let noise = noise(5, 3_000, 1_000);
        for n in (0..300).chain(40_000..40_300) {
            let (wait, delay) = noise(n);
            let began = n * 10_000_000 + wait;
            let device = began + ahead + drift(began);
            all.above(device, began + delay - device);
            all.below(device, n * 10_000_000 - device);
        }
        let clock = DeviceClock::fit(&all).expect("evidence");
        assert_eq!(clock.contradictions, 0);
        for host in (0..403).map(|second| second * 1_000_000_000 + 55_555) {
            let off = clock.ns((host + ahead + drift(host)) as u64) - host;
            assert!((-20_000..200_000).contains(&off), "{off} at {host}");
        }
    }

    #[test]
    fn absurd_times_are_left_out() {
        for object in [0, 1 << 62, u64::MAX] {
            assert!(!is_usable(object));
        }
        let mut all = Evidence::default();
        for (at, offset) in [
            (1, (1 << 56) - 1),
            ((1 << 62) - 1, -(1 << 62) - (1 << 56)),
            (5, -(1 << 56) - 5),
        ] {
            all.above(at, offset);
            all.below(at, offset);
        }
        let clock = DeviceClock::fit(&all).expect("evidence");
        for object in [0, 1, 7, 1 << 61, u64::MAX] {
            assert!(clock.ns(object).abs() <= FARTHEST_NS);
        }
    }

    #[test]
    fn a_clock_that_jumps_is_reported() {
        let jump = |host: i64| if host < 5_000_000_000 { 0 } else { -1_000_000_000 };
        let clock = DeviceClock::fit(&evidence(0, jump, 1000, |_| (5_000, 1_000))).expect("evidence");
        assert!(clock.contradictions > 0);
    }

    #[test]
    fn without_evidence_there_is_no_clock() {
        assert!(DeviceClock::fit(&Evidence::default()).is_none());
    }
}
