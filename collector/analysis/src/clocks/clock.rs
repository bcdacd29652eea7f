//! Converts counter ticks to nanoseconds on one axis, with a maximum error.
//!
//! All processes of a host share one conversion: the line through the calibrations of all of them. So the difference of
//! two timestamps depends only on the counter.
//!
//! Between hosts the wall clocks are the starting point: each host's line is moved by the median of REALTIME −
//! MONOTONIC_RAW. The job's own messages then correct it ([`crate::clocks`]), and the error bounds the result.

use crate::clocks::correction::Correction;
use crate::clocks::solution::ClockSolution;
use rankscope_formats::session::AxisMethod;
use rankscope_formats::session::{Axis, Figure};
use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::reader::RankLog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Status bit of `adjtimex`: the wall clock is not synchronised.
const STA_UNSYNC: u32 = 0x40;
/// Number of fraction bits of [`Line::ns_per_tick`].
const FRACTION_BITS: u32 = 40;

/// Timestamps are clamped to ± this, two years, in nanoseconds. A timestamp beyond it is damaged, and sums of times
/// must not overflow.
const FARTHEST_NS: i64 = 1 << 56;

/// Conversion of ticks to nanoseconds: `ns0 + (ticks − ticks0) · rate`. It uses integers, so that differences are exact
/// to the nanosecond. With several hosts a correction to the axis follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    ticks0: u64,
    ns0: i64,
    ns_per_tick: i128,
    correction: Option<Arc<Correction>>,
}

impl Line {
    /// Converts a timestamp to nanoseconds on the axis.
    #[inline]
    pub fn ns(&self, ticks: u64) -> i64 {
        let ns = self
            .uncut(ticks)
            .clamp(i128::from(-FARTHEST_NS), i128::from(FARTHEST_NS)) as i64;
        match &self.correction {
            None => ns,
            Some(correction) => correction.axis_ns(ns).clamp(-FARTHEST_NS, FARTHEST_NS),
        }
    }

    /// Converts a time to approximate ticks, ignoring the correction. Without a correction, [`Line::ns`] of the result
    /// is not later than `ns`.
    pub(crate) fn ticks(&self, ns: i64) -> u64 {
        let since = (i128::from(ns) - i128::from(self.ns0)) << FRACTION_BITS;
        let ticks = i128::from(self.ticks0) + since.div_euclid(self.ns_per_tick.max(1));
        u64::try_from(ticks.max(0)).unwrap_or(u64::MAX)
    }

    /// Converts a number of ticks to nanoseconds.
    pub fn duration_ns(&self, ticks: u64) -> i64 {
        let ns = (i128::from(ticks) * self.ns_per_tick) >> FRACTION_BITS;
        ns.clamp(0, i128::from(FARTHEST_NS)) as i64
    }

    #[inline]
    fn uncut(&self, ticks: u64) -> i128 {
        let delta = i128::from(ticks) - i128::from(self.ticks0);
        let ns = match (i64::try_from(delta), i64::try_from(self.ns_per_tick)) {
            // A single multiplication suffices: undamaged values are small.
            (Ok(delta), Ok(rate)) => i128::from(delta) * i128::from(rate),
            _ => delta * self.ns_per_tick,
        };
        i128::from(self.ns0) + (ns >> FRACTION_BITS)
    }

    /// Returns the time before the origin was subtracted: since boot, or since 1970.
    fn absolute(&self, ticks: u64) -> i64 {
        i64::try_from(self.uncut(ticks)).unwrap_or(0)
    }

    fn moved(&self, by: i64) -> Self {
        Self {
            ns0: self.ns0.saturating_add(by),
            ..self.clone()
        }
    }
}

/// Maximum errors of a distance between timestamps of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockError {
    /// Amount by which the true distance may be shorter, in ns; `i64::MAX` if unknown.
    pub less_ns: i64,
    /// Amount by which it may be longer, in ns; `i64::MAX` if unknown.
    pub more_ns: i64,
}

impl ClockError {
    /// Returns the error of a distance that may be shorter or longer by the same amount, in ± ns.
    pub fn same(ns: i64) -> Self {
        Self {
            less_ns: ns,
            more_ns: ns,
        }
    }

    /// Returns the larger of both errors, in ± ns.
    pub fn largest_ns(self) -> i64 {
        self.less_ns.max(self.more_ns)
    }

    /// Adds an error in both directions, in ± ns.
    #[must_use]
    pub fn widened(self, ns: i64) -> Self {
        Self {
            less_ns: self.less_ns.saturating_add(ns),
            more_ns: self.more_ns.saturating_add(ns),
        }
    }
}

/// One clock, shared by the processes of one kernel and time namespace.
#[derive(Clone, Debug)]
pub struct HostClock {
    /// Host name for display.
    pub name: String,
    /// Boot id, if known.
    pub boot_id: Option<String>,
    /// Inode of the time namespace, if known.
    pub time_namespace: Option<String>,
    /// Counter that most of its logs use.
    pub counter: Counter,
    /// Frequency of that counter, in ticks per second.
    pub ticks_per_second: Figure<f64>,
    /// Number of calibrations used.
    pub calibrations: u32,
    /// Maximum error of the conversion to MONOTONIC_RAW, in ± nanoseconds.
    pub error_ns: i64,
    /// Maximum error of its wall clock, in ± nanoseconds.
    pub realtime_error_ns: Figure<i64>,
    /// Maximum error of the distance between two timestamps of this host, in nanoseconds. It includes the rounding in
    /// the logs. If processes use several counters, it includes the error of their conversions.
    pub stamp_error_ns: i64,
    /// True if the kernel no longer trusts the counter.
    pub distrusted: bool,
    /// Indices of its logs.
    pub logs: Vec<usize>,
}

/// The axis of a session: the hosts, and one conversion per log.
pub struct Clocks {
    /// Hosts in the order of their first log.
    pub hosts: Vec<HostClock>,
    /// Index of each log's host.
    pub host_of: Vec<usize>,
    lines: Vec<Line>,
    /// Axis of the session summary. The merge sets start and end.
    pub axis: Axis,
    /// Problems of calibration.
    pub problems: Vec<String>,
    /// Clocks derived from communication; `None` if that pass was not run.
    learnt: Option<ClockSolution>,
}

impl Clocks {
    /// Returns the clocks derived from communication, if there are several hosts.
    pub fn learnt(&self) -> Option<&ClockSolution> {
        self.learnt.as_ref()
    }

    /// Returns the conversion of a log.
    pub fn line(&self, log: usize) -> Line {
        self.lines[log].clone()
    }

    /// Returns the maximum error of a distance from a timestamp of host `one` to one of host `other` at about this
    /// time.
    pub fn error_at(&self, one: usize, other: usize, axis_ns: i64) -> ClockError {
        if one == other {
            return ClockError::same(0);
        }
        match &self.learnt {
            Some(learnt) => {
                let (less, more) = learnt.network.error_at(one, other, axis_ns);
                ClockError {
                    less_ns: less.map_or(i64::MAX, i64::saturating_neg),
                    more_ns: more.unwrap_or(i64::MAX),
                }
            }
            None => ClockError::same(self.error_between(one, other)),
        }
    }

    /// Returns the largest error between the clocks of two hosts, in ± nanoseconds: 0 for the same host, `i64::MAX` if
    /// unknown. Jumps are excluded.
    pub fn error_between(&self, one: usize, other: usize) -> i64 {
        if one == other {
            return 0;
        }
        if let Some(learnt) = &self.learnt {
            return learnt.network.largest_error(one, other).unwrap_or(i64::MAX);
        }
        let error = |host: usize| self.hosts[host].realtime_error_ns.value;
        match (error(one), error(other)) {
            (Some(one), Some(other)) => one.saturating_add(other),
            _ => i64::MAX,
        }
    }

    /// Applies the clocks derived from communication.
    pub fn correct(&mut self, learnt: ClockSolution) {
        for &host in &learnt.network.wrong_wall_clocks {
            self.problems.push(format!(
                "host {host} ({}): its wall clock claims to be correct within {} ns, but contradicts the host's \
                 communication with other hosts; it was not used",
                self.hosts[host].name,
                self.hosts[host].realtime_error_ns.value.unwrap_or(0)
            ));
        }
        if learnt.network.contradictions > 0 {
            self.problems.push(format!(
                "in {} time spans the clock bounds of several pairs of hosts contradict each other: times there may be \
                 wrong",
                learnt.network.contradictions
            ));
        }
        for (host, known) in self.hosts.iter().enumerate() {
            let correction = learnt.network.correction(host);
            if correction == Correction::default() {
                continue;
            }
            let correction = Arc::new(correction);
            for &log in &known.logs {
                self.lines[log].correction = Some(Arc::clone(&correction));
            }
        }
        if !learnt.pairs.is_empty() {
            self.axis.method = AxisMethod::Messages;
        }
        self.learnt = Some(learnt);
        self.state_errors();
    }

    /// Aligns all logs on one axis. Its zero is the earliest calibration.
    pub fn align(logs: &[RankLog]) -> Self {
        // Boot id, time namespace, and without a boot id the host name.
        type Key = (Option<String>, Option<String>, Option<String>);
        let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (index, log) in logs.iter().enumerate() {
            let property = |key: &str| log.properties.get(key).cloned();
            let boot_id = property("boot_id");
            // Without a boot id only the name distinguishes hosts.
            let name = if boot_id.is_none() { property("host") } else { None };
            groups
                .entry((boot_id, property("time_namespace"), name))
                .or_default()
                .push(index);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, members)| members[0]);
        let mut clocks = Self {
            hosts: Vec::new(),
            host_of: vec![0; logs.len()],
            lines: vec![
                Line {
                    ticks0: 0,
                    ns0: 0,
                    ns_per_tick: 1 << FRACTION_BITS,
                    correction: None,
                };
                logs.len()
            ],
            axis: Axis {
                origin_unix_ns: 0,
                start_ns: 0,
                end_ns: 0,
                error_between_hosts_ns: Figure::known(0),
                error_inside_host_ns: 0,
                method: if groups.len() > 1 {
                    AxisMethod::Realtime
                } else {
                    AxisMethod::OneHost
                },
                evidence: None,
            },
            problems: Vec::new(),
            learnt: None,
        };
        for ((boot_id, time_namespace, _), members) in groups {
            clocks.add_host(logs, boot_id, time_namespace, members);
        }
        clocks.place_origin(logs);
        clocks
    }

    fn add_host(
        &mut self,
        logs: &[RankLog],
        boot_id: Option<String>,
        time_namespace: Option<String>,
        members: Vec<usize>,
    ) {
        let host = self.hosts.len();
        // All conversions of a host lead to its MONOTONIC_RAW, even if its processes use different counters.
        let mut by_counter: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for &log in &members {
            by_counter.entry(logs[log].counter as u32).or_default().push(log);
        }
        let most = by_counter.values().map(Vec::len).max().unwrap_or(0);
        let mut known = Calibrated::default();
        let mut wall = WallClock::default();
        for of_counter in by_counter.values() {
            let counter = logs[of_counter[0]].counter;
            let entries = calibrations(logs, of_counter);
            let fit = fit_line(counter, &entries);
            if fit.rate_unknown {
                self.problems.push(format!(
                    "host {}: the logs contain {} calibration(s) of {}, too few to determine its frequency; its ticks \
                     were interpreted as nanoseconds",
                    logs[of_counter[0]].properties.get("host").map_or("unknown", String::as_str),
                    entries.len(),
                    counter.name()
                ));
            }
            for &log in of_counter {
                self.lines[log] = fit.line.clone();
                self.host_of[log] = host;
            }
            known.add(&fit, &entries, of_counter.len() == most);
            wall.add(&fit, &entries);
        }
        let wall_offset_ns = wall.offset_ns();
        for &log in &members {
            self.lines[log] = self.lines[log].moved(wall_offset_ns);
        }
        let first = &logs[members[0]];
        let name = first.properties.get("host").cloned();
        self.hosts.push(HostClock {
            name: name.unwrap_or_else(|| "unknown".to_owned()),
            boot_id,
            time_namespace,
            counter: by_counter
                .values()
                .find(|of_counter| of_counter.len() == most)
                .map_or(first.counter, |of_counter| logs[of_counter[0]].counter),
            ticks_per_second: known
                .ticks_per_second
                .map_or_else(|| Figure::unknown("no calibration"), Figure::known),
            calibrations: known.calibrations,
            error_ns: known.error_ns,
            realtime_error_ns: wall.error_ns(),
            // Processes that read the same counter share one line. Its error cancels in differences.
            stamp_error_ns: if by_counter.len() > 1 {
                known.stamp_error_ns.saturating_add(known.error_ns)
            } else {
                known.stamp_error_ns
            },
            distrusted: known.distrusted,
            logs: members,
        });
    }

    /// Returns the conversion of a host's MONOTONIC_RAW, in nanoseconds, to the axis; `None` if its logs have no calibration.
    pub fn line_of_raw(&self, logs: &[RankLog], host: usize) -> Option<Line> {
        let of_host = self.hosts.get(host)?.logs.iter();
        let (line, calibration) = of_host
            .filter_map(|&log| Some((self.lines.get(log)?, logs.get(log)?.calibrations.first()?)))
            .next()?;
        Some(Line {
            ticks0: calibration.monotonic_raw_ns.cast_unsigned(),
            ns0: line.absolute(calibration.ticks),
            ns_per_tick: 1 << FRACTION_BITS,
            correction: line.correction.clone(),
        })
    }

    fn place_origin(&mut self, logs: &[RankLog]) {
        let first = logs
            .iter()
            .enumerate()
            .filter_map(|(index, log)| Some(self.lines[index].absolute(log.calibrations.first()?.ticks)))
            .min();
        let origin = first.unwrap_or(0);
        for line in &mut self.lines {
            *line = line.moved(origin.saturating_neg());
        }
        self.axis.origin_unix_ns = origin;
        self.axis.error_inside_host_ns = self.hosts.iter().map(|host| host.error_ns).max().unwrap_or(0);
        self.state_errors();
    }

    /// Moves the zero of the axis to a time, in nanoseconds since 1970.
    pub fn move_origin(&mut self, unix_ns: i64) {
        let by = self.axis.origin_unix_ns.saturating_sub(unix_ns);
        for line in &mut self.lines {
            *line = line.moved(by);
        }
        self.axis.origin_unix_ns = unix_ns;
    }

    fn state_errors(&mut self) {
        let mut worst = 0;
        for one in 0..self.hosts.len() {
            for other in one + 1..self.hosts.len() {
                worst = worst.max(self.error_between(one, other));
            }
        }
        self.axis.error_between_hosts_ns = if worst == i64::MAX {
            Figure::unknown(if self.learnt.is_some() {
                "neither communication nor wall clocks bound the clock offset between some hosts"
            } else {
                "a host's wall clock is not synchronised, or its logs contain no calibration"
            })
        } else {
            Figure::known(worst)
        };
    }
}

/// Returns the distinct calibrations of these logs in order of time.
fn calibrations(logs: &[RankLog], of: &[usize]) -> Vec<Calibration> {
    let all = of.iter().flat_map(|&log| logs[log].calibrations.iter().copied());
    let mut entries: Vec<Calibration> = all.collect();
    entries.sort_by_key(|entry| entry.ticks);
    entries.dedup();
    entries
}

/// Conversions of a host to MONOTONIC_RAW, over all counters that its processes use.
#[derive(Default)]
struct Calibrated {
    calibrations: u32,
    /// Frequency of the counter that most logs use.
    ticks_per_second: Option<f64>,
    error_ns: i64,
    stamp_error_ns: i64,
    distrusted: bool,
}

impl Calibrated {
    fn add(&mut self, fit: &Fit, entries: &[Calibration], is_main: bool) {
        self.calibrations += entries.len() as u32;
        self.error_ns = self.error_ns.max(fit.error_ns);
        self.stamp_error_ns = self.stamp_error_ns.max(fit.stamp_error_ns);
        if is_main && !fit.rate_unknown && !entries.is_empty() {
            self.ticks_per_second = Some(fit.ticks_per_second);
        }
        self.distrusted |= entries.iter().any(|entry| entry.counter_trusted == 0);
    }
}

/// Wall clock of a host, as its calibrations show it.
#[derive(Default)]
struct WallClock {
    /// REALTIME − MONOTONIC_RAW of each calibration, in ns.
    offsets_ns: Vec<i64>,
    /// Largest error that the kernel reports, in ± ns.
    error_ns: i64,
    is_unsynchronised: bool,
}

impl WallClock {
    fn add(&mut self, fit: &Fit, entries: &[Calibration]) {
        for entry in entries {
            self.offsets_ns
                .push(entry.realtime_ns.saturating_sub(entry.monotonic_raw_ns));
            let half = (f64::from(entry.half_width_ticks) + f64::from(entry.realtime_half_width_ticks))
                / fit.ticks_per_second
                * 1e9;
            let synchronised =
                entry.adjtimex_status & STA_UNSYNC == 0 && entry.realtime_maxerror_us != u32::MAX;
            self.is_unsynchronised |= !synchronised;
            if synchronised {
                let error_ns = half.ceil() as i64 + i64::from(entry.realtime_maxerror_us) * 1000;
                self.error_ns = self.error_ns.max(error_ns);
            }
        }
        self.offsets_ns.sort_unstable();
    }

    /// Returns the median offset from MONOTONIC_RAW, in ns.
    fn offset_ns(&self) -> i64 {
        let middle = self.offsets_ns.get(self.offsets_ns.len() / 2);
        middle.copied().unwrap_or(0)
    }

    /// Returns the maximum error, in ± ns. Slewing and steps of the wall clock during the run add to it.
    fn error_ns(&self) -> Figure<i64> {
        if self.is_unsynchronised {
            return Figure::unknown("the kernel reports that its wall clock is not synchronised");
        }
        let offset_ns = self.offset_ns();
        let distances = self.offsets_ns.iter().map(|offset| offset.abs_diff(offset_ns));
        match distances.max() {
            Some(spread_ns) => Figure::known(self.error_ns.saturating_add(spread_ns as i64)),
            None => Figure::unknown("its logs contain no calibration"),
        }
    }
}

struct Fit {
    line: Line,
    ticks_per_second: f64,
    error_ns: i64,
    /// Rounding error of timestamps, in nanoseconds. Logs round to the cost of one counter reading, which is less than
    /// a bracket of two.
    stamp_error_ns: i64,
    rate_unknown: bool,
}

/// Fits the line from ticks to MONOTONIC_RAW. The slope is the median over pairs of sharp calibrations far apart, and
/// the offset is the median of the residuals. A median is robust: a calibration taken on a busy machine must not bend
/// the axis.
fn fit_line(counter: Counter, entries: &[Calibration]) -> Fit {
    let identity = |ticks0, ns0| Line {
        ticks0,
        ns0,
        ns_per_tick: 1 << FRACTION_BITS,
        correction: None,
    };
    let Some(first) = entries.first() else {
        return Fit {
            line: identity(0, 0),
            ticks_per_second: 1e9,
            error_ns: 0,
            stamp_error_ns: 1,
            rate_unknown: counter != Counter::MonotonicRaw,
        };
    };
    let sharpest = entries
        .iter()
        .map(|entry| entry.half_width_ticks)
        .min()
        .unwrap_or(0);
    let limit = sharpest.saturating_mul(4).max(64);
    let sharp: Vec<&Calibration> = entries
        .iter()
        .filter(|entry| entry.half_width_ticks <= limit)
        .collect();
    let (ticks0, raw0) = sharp
        .first()
        .map_or((first.ticks, first.monotonic_raw_ns), |entry| {
            (entry.ticks, entry.monotonic_raw_ns)
        });
    let rate = if counter == Counter::MonotonicRaw {
        Some(1.0)
    } else {
        median_slope(&sharp)
    };
    let ns_per_tick = rate.unwrap_or(1.0);
    let scaled = (ns_per_tick * (1u64 << FRACTION_BITS) as f64).round() as i128;
    let line = Line {
        ticks0,
        ns0: raw0,
        ns_per_tick: scaled,
        correction: None,
    };
    let mut residuals: Vec<i64> = sharp
        .iter()
        .map(|entry| entry.monotonic_raw_ns.saturating_sub(line.absolute(entry.ticks)))
        .collect();
    residuals.sort_unstable();
    let shift = residuals.get(residuals.len() / 2).copied().unwrap_or(0);
    let off = residuals
        .iter()
        .map(|residual| residual.abs_diff(shift))
        .max()
        .unwrap_or(0) as i64;
    let half = (f64::from(sharpest) * ns_per_tick).ceil() as i64;
    Fit {
        line: line.moved(shift),
        ticks_per_second: 1e9 / ns_per_tick,
        error_ns: off.saturating_add(half),
        stamp_error_ns: half.saturating_mul(2).saturating_add(1),
        rate_unknown: rate.is_none(),
    }
}

/// Returns the median slope over pairs that are half the list apart (after Siegel and Theil, at linear cost). Returns
/// `None` if no pair is far enough apart.
fn median_slope(sharp: &[&Calibration]) -> Option<f64> {
    let half = sharp.len() / 2;
    if half == 0 {
        return None;
    }
    let mut slopes: Vec<f64> = (0..sharp.len() - half)
        .filter_map(|start| {
            let (one, other) = (sharp[start], sharp[start + half]);
            let ticks = other.ticks.checked_sub(one.ticks)?;
            let ns = other.monotonic_raw_ns.checked_sub(one.monotonic_raw_ns)?;
            // A base shorter than a hundred brackets would measure the noise of the bracket, not the rate of the
            // counter.
            let noise = u64::from(one.half_width_ticks) + u64::from(other.half_width_ticks);
            (ticks > 100 * noise.max(1) && ns > 0).then(|| ns as f64 / ticks as f64)
        })
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ticks: u64, raw: i64) -> Calibration {
        Calibration {
            ticks,
            monotonic_raw_ns: raw,
            realtime_ns: raw + 1_000_000,
            half_width_ticks: 30,
            counter_trusted: 1,
            ..Calibration::default()
        }
    }

    #[test]
    fn one_bad_calibration_does_not_bend_the_line() {
        let mut entries: Vec<Calibration> = (0..20u64)
            .map(|n| {
                entry(
                    1_000_000_007 + n * 2_500_000_000,
                    5_000_000 + n as i64 * 1_000_000_000,
                )
            })
            .collect();
        entries[7].monotonic_raw_ns += 80_000;
        let fit = fit_line(Counter::TimeStampCounter, &entries);
        assert!(
            (fit.ticks_per_second - 2.5e9).abs() < 10.0,
            "{}",
            fit.ticks_per_second
        );
        let last = entries[19];
        assert!(fit.line.ns(last.ticks).abs_diff(last.monotonic_raw_ns) <= 1);
        assert!(fit.error_ns >= 80_000, "the error is stated: {}", fit.error_ns);
    }

    #[test]
    fn an_uncalibrated_counter_of_ticks_is_a_problem_and_one_of_nanoseconds_is_not() {
        assert!(fit_line(Counter::TimeStampCounter, &[entry(5, 5)]).rate_unknown);
        let fit = fit_line(Counter::MonotonicRaw, &[entry(5, 5)]);
        assert!(!fit.rate_unknown);
        assert_eq!(fit.line.ns(1005), 1005);
        assert_eq!(fit.line.ns(u64::MAX), FARTHEST_NS);
    }
}
