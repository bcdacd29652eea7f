//! A device's clock beside its host's (METRICS.md, section 4): what the device says of when a kernel worked, on the axis,
//! with an interval.
//!
//! Evidence is the run's own: the host was told of a moment no earlier than it was (the least delay bounds the offset
//! from above), and no kernel began before its call was entered (which bounds it from below). Drift is the slope of the
//! lower convex hull of the upper bounds (Duda 1987); what the two clocks wander beside it is followed at
//! [`WANDER_PPM`].

use crate::clock::Line;
use rankscope_formats::ranklog::reader::RankLog;
use rankscope_formats::ranklog::record::{
    DeviceWork, FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, FLAG_TRAFFIC, Record, RecordKind,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

use super::devices::CallKey;

/// Evidence is gathered by this much of the device's time, ns.
const BUCKET_NS: i64 = 1_000_000_000;
/// No two clocks drift faster than this (METRICS.md, section 4).
const MOST_DRIFT_PPM: f64 = 200.0;
/// How fast the drift itself may change what it comes to.
const WANDER_PPM: f64 = 2.0;
/// Calls whose device record is awaited at once while evidence is gathered.
const MOST_CALLS: usize = 1 << 16;

/// Bounds of the offset host − device in one bucket, at a moment of the device each.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    above: Option<(i64, i64)>,
    below: Option<(i64, i64)>,
}

/// One moment at which the offset is known.
#[derive(Clone, Copy, Debug)]
struct Knot {
    device_ns: i64,
    offset_ns: i64,
}

/// Device to axis.
#[derive(Clone, Debug)]
pub struct DeviceClock {
    knots: Vec<Knot>,
    drift: f64,
    /// How far the true offset may lie below what is used, at most and in the middle, ns; `None` without calls.
    pub error_ns: Option<(i64, i64)>,
    /// Moments at which the two bounds contradict each other.
    pub contradictions: u64,
}

impl DeviceClock {
    /// Learns the clock of the device that the communicators work on of which `is_ours` says so. `None` if nothing in the
    /// log tells of it.
    pub fn learn(log: &RankLog, line: Line, is_ours: impl Fn(u32) -> bool) -> Option<Self> {
        let mut evidence: BTreeMap<i64, Bounds> = BTreeMap::new();
        let mut calls: FxHashMap<CallKey, i64> = FxHashMap::default();
        let mut stream = log.records();
        let mut batch = Vec::new();
        while stream.next_batch(&mut batch) {
            for entry in &batch {
                let record = &entry.record;
                match RecordKind::from_u8(record.kind) {
                    Some(RecordKind::Enqueue) if record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN) == 0 => {
                        if calls.len() >= MOST_CALLS {
                            calls.clear();
                        }
                        calls.insert(CallKey::of(record), line.ns(record.enter_ticks));
                    }
                    Some(RecordKind::Device) if record.flags & FLAG_TRAFFIC == 0 && is_ours(record.communicator) => {
                        take(&mut evidence, record, line, &mut calls);
                    }
                    _ => {}
                }
            }
        }
        Self::fit(&evidence)
    }

    fn fit(evidence: &BTreeMap<i64, Bounds>) -> Option<Self> {
        let above: Vec<(i64, i64)> = evidence.values().filter_map(|bounds| bounds.above).collect();
        let &(origin, first) = above.first()?;
        let drift = slope(&above);
        // What is left beside the drift, in whole ns: offsets are as large as the time since 1970.
        let residual = |(at, offset): (i64, i64)| offset - first - (drift * (at - origin) as f64).round() as i64;
        let moments: Vec<i64> = above.iter().map(|&(at, _)| at).collect();
        let upper = envelope(&moments, above.iter().map(|&point| Some(residual(point))).collect(), i64::min);
        let below: Vec<Option<(i64, i64)>> = evidence
            .values()
            .filter(|bounds| bounds.above.is_some())
            .map(|bounds| bounds.below)
            .collect();
        let lower: Vec<Option<i64>> = below.iter().map(|point| point.map(|point| -residual(point))).collect();
        let lower = envelope(&moments, lower, i64::min);
        let knots = moments
            .iter()
            .zip(&upper)
            .filter_map(|(&at, offset)| {
                let offset_ns = first + (drift * (at - origin) as f64).round() as i64 + (*offset)?;
                Some(Knot {
                    device_ns: at,
                    offset_ns,
                })
            })
            .collect();
        let mut widths: Vec<i64> = upper
            .iter()
            .zip(&lower)
            .filter_map(|(upper, lower)| Some((*upper)? + (*lower)?))
            .collect();
        widths.sort_unstable();
        let contradictions = widths.iter().filter(|&&width| width < 0).count() as u64;
        let error_ns = widths
            .last()
            .map(|&widest| (widest.max(0), widths[widths.len() / 2].max(0)));
        Some(Self {
            knots,
            drift,
            error_ns,
            contradictions,
        })
    }

    /// How much faster the host's clock runs, ppm.
    pub fn drift_ppm(&self) -> f64 {
        self.drift * 1e6
    }

    /// A moment of the device on the axis, ns.
    pub fn ns(&self, device_ns: u64) -> i64 {
        let device_ns = i64::try_from(device_ns).unwrap_or(i64::MAX);
        let after = self.knots.partition_point(|knot| knot.device_ns <= device_ns);
        let offset = match (after.checked_sub(1).map(|at| self.knots[at]), self.knots.get(after)) {
            (Some(one), Some(other)) => {
                let share = (device_ns - one.device_ns) as f64 / (other.device_ns - one.device_ns) as f64;
                one.offset_ns + (share * (other.offset_ns - one.offset_ns) as f64).round() as i64
            }
            (Some(last), None) => self.beyond(last, device_ns),
            (None, Some(&first)) => self.beyond(first, device_ns),
            (None, None) => 0,
        };
        device_ns.saturating_add(offset)
    }

    fn beyond(&self, knot: Knot, device_ns: i64) -> i64 {
        let distance = device_ns.saturating_sub(knot.device_ns);
        knot.offset_ns + (self.drift * distance as f64).round() as i64
    }
}

fn take(
    evidence: &mut BTreeMap<i64, Bounds>,
    record: &Record,
    line: Line,
    calls: &mut FxHashMap<CallKey, i64>,
) {
    let Ok(start) = i64::try_from(record.object) else {
        return;
    };
    if start == 0 {
        return;
    }
    let stop = start.saturating_add(DeviceWork::from_aux(record.aux).duration_ns as i64);
    for (at, told) in [
        (start, line.ns(record.enter_ticks)),
        (stop, line.ns(record.leave_ticks)),
    ] {
        let offset = told.saturating_sub(at);
        let bounds = bucket(evidence, at);
        if bounds.above.is_none_or(|(_, least)| offset < least) {
            bounds.above = Some((at, offset));
        }
    }
    if record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN) == 0
        && let Some(entered) = calls.remove(&CallKey::of(record))
    {
        let offset = entered.saturating_sub(start);
        let bounds = bucket(evidence, start);
        if bounds.below.is_none_or(|(_, most)| offset > most) {
            bounds.below = Some((start, offset));
        }
    }
}

fn bucket(evidence: &mut BTreeMap<i64, Bounds>, at: i64) -> &mut Bounds {
    evidence.entry(at.div_euclid(BUCKET_NS)).or_insert(Bounds {
        above: None,
        below: None,
    })
}

/// Slope of the edge of the lower convex hull that lies in the middle of the time: the line under all points that is
/// nearest to them.
fn slope(points: &[(i64, i64)]) -> f64 {
    let (Some(&(first, base)), Some(&(last, _))) = (points.first(), points.last()) else {
        return 0.0;
    };
    // Over less than two buckets the delays say more than the drift.
    if last - first < 2 * BUCKET_NS {
        return 0.0;
    }
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &(at, offset) in points {
        let point = ((at - first) as f64, (offset - base) as f64);
        while let [.., one, other] = hull[..]
            && (other.0 - one.0) * (point.1 - one.1) <= (other.1 - one.1) * (point.0 - one.0)
        {
            hull.pop();
        }
        hull.push(point);
    }
    let middle = (last - first) as f64 / 2.0;
    let edge = hull.windows(2).find(|edge| edge[1].0 >= middle);
    let drift = edge.map_or(0.0, |edge| (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0));
    drift.clamp(-MOST_DRIFT_PPM * 1e-6, MOST_DRIFT_PPM * 1e-6)
}

/// What every bound says of every moment, if clocks wander by no more than [`WANDER_PPM`].
fn envelope(moments: &[i64], mut bounds: Vec<Option<i64>>, tighter: fn(i64, i64) -> i64) -> Vec<Option<i64>> {
    let slack = |one: i64, other: i64| ((other - one).abs() as f64 * WANDER_PPM * 1e-6) as i64;
    let mut spread = |order: &mut dyn Iterator<Item = usize>| {
        let mut before: Option<(i64, i64)> = None;
        for position in order {
            let at = moments[position];
            if let Some((then, bound)) = before {
                let bound = bound + slack(then, at);
                bounds[position] = Some(bounds[position].map_or(bound, |own| tighter(own, bound)));
            }
            before = bounds[position].map(|bound| (at, bound));
        }
    };
    spread(&mut (0..moments.len()));
    spread(&mut (0..moments.len()).rev());
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Evidence of a device that is `ahead` ns before the host and drifts, from calls every 10 ms: a call's kernel begins
    /// `wait` after it, and the host is told `delay` later.
    fn evidence(ahead: i64, ppm: f64, seconds: i64, noise: impl Fn(i64) -> (i64, i64)) -> BTreeMap<i64, Bounds> {
        let mut evidence = BTreeMap::new();
        for n in 0..seconds * 100 {
            let (wait, delay) = noise(n);
            let called = n * 10_000_000;
            let began = called + wait;
            let device = device_of(began, ahead, ppm);
            let bounds = bucket(&mut evidence, device);
            let above = began + delay - device;
            if bounds.above.is_none_or(|(_, least)| above < least) {
                bounds.above = Some((device, above));
            }
            let below = called - device;
            if bounds.below.is_none_or(|(_, most)| below > most) {
                bounds.below = Some((device, below));
            }
        }
        evidence
    }

    fn device_of(host: i64, ahead: i64, ppm: f64) -> i64 {
        host + ahead + (host as f64 * ppm * 1e-6) as i64
    }

    proptest! {
        #[test]
        fn the_axis_is_found_within_the_stated_error(
            ahead in -4_000_000_000_000_000_000i64..4_000_000_000_000_000_000, ppm in -150.0f64..150.0, seconds in 1i64..120,
            least_wait in 1_000i64..50_000, least_delay in 500i64..20_000, seed in 1i64..1000,
        ) {
            let noise = |n: i64| {
                let random = (n * 7919 * seed).rem_euclid(1009);
                (least_wait + random * 300, least_delay + (random * seed).rem_euclid(997) * 200)
            };
            let clock = DeviceClock::fit(&evidence(ahead, ppm, seconds, noise)).expect("evidence");
            prop_assert_eq!(clock.contradictions, 0);
            let (widest, _) = clock.error_ns.expect("calls");
            for n in (0..seconds * 100).step_by(7) {
                let host = n * 10_000_000 + 1234;
                let found = clock.ns(device_of(host, ahead, ppm) as u64 & i64::MAX as u64);
                if device_of(host, ahead, ppm) < 0 { continue; }
                // Never before the truth but for rounding and what is spread between two bounds, and no later than the
                // interval says.
                let slack = 4_000;
                prop_assert!(found >= host - slack, "{found} {host}");
                prop_assert!(found <= host + widest + slack, "{found} {host} {widest}");
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_is_told() {
        let mut all = evidence(0, 0.0, 10, |_| (5_000, 1_000));
        all.extend(
            evidence(1_000_000_000_000, 0.0, 10, |_| (5_000, 1_000))
                .into_iter()
                .map(|(at, mut bounds)| {
                    // The same device, set forward by a second in between.
                    for bound in [&mut bounds.above, &mut bounds.below] {
                        *bound = bound.map(|(at, offset)| (at, offset + 1_000_000_000));
                    }
                    (at, bounds)
                }),
        );
        assert!(DeviceClock::fit(&all).expect("evidence").contradictions > 0);
    }

    #[test]
    fn without_evidence_there_is_no_clock() {
        assert!(DeviceClock::fit(&BTreeMap::new()).is_none());
    }
}
