//! Recorded device work against the truth of the program.

use super::end::End;
use super::outcome::Found;
use anyhow::{Context, Result};
use rankscope_analysis::findings::shown;
use rankscope_formats::session::{NameRow, SESSION_DIRECTORY, Session, TableReader, WorkRow, rank_path};
use rankscope_workloads::selftest::kernel_text::SPIN;
use rankscope_workloads::selftest::truth::{DeviceTruth, KnownKernel};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest difference of a duration at p99, in nanoseconds. CUPTI's interval contains the start and the end of a kernel by
/// the hardware, the kernel's own stamps do not.
const DURATION_NS: f64 = 10_000.0;
/// Largest difference of a start at p99 after the offset between the two timers is removed, in nanoseconds.
const START_NS: f64 = 20_000.0;
/// A kernel may seem to start before its launch by at most this, in nanoseconds.
const BEFORE_LAUNCH_NS: i64 = 20_000;

/// Compares a recording with the truth.
pub fn check(
    truth: &DeviceTruth,
    session: &Session,
    directory: &Path,
    end: End,
    found: &mut Found,
) -> Result<()> {
    let activity = session
        .activity
        .first()
        .context("no device work was recorded: CUPTI was not used (rankscope doctor says why)")?;
    let recorded =
        activity.kernels + activity.copies + activity.sets + activity.communication_kernels + activity.graphs;
    let launched = truth.works();
    found.figure("works_launched", launched as f64);
    found.figure("works_recorded", recorded as f64);
    found.figure("works_lost", activity.lost as f64);
    found.seen.push(format!("CUPTI {}", activity.cupti));
    if let Some(reason) = &activity.reason {
        found.demand(truth.seen_by_other.is_some(), || {
            format!("not recorded to the end: {reason}")
        });
    }
    found.demand(activity.adds_up, || {
        "compute, communication and idle time do not add up".to_owned()
    });
    if let Some(counted) = truth.counted_on_device {
        found.demand(counted == truth.small, || {
            format!("the device counted {counted} of {} small kernels", truth.small)
        });
    }
    let is_early = truth.graphs.iter().any(|graph| graph.is_early);
    if truth.seen_by_other.is_none() && !is_early {
        counts(truth, session, recorded, end, found);
    }
    let session_directory = directory.join(SESSION_DIRECTORY);
    let works = TableReader::<WorkRow>::read_all(&rank_path::<WorkRow>(&session_directory, 0))
        .context("cannot read the recorded works")?;
    let names = TableReader::<NameRow>::read_all(&rank_path::<NameRow>(&session_directory, 0))
        .context("cannot read the names of the works")?;
    let named = |name: &str| names.iter().find(|row| row.name == name).map(|row| row.number);
    if let Some(graph) = truth.graphs.iter().find(|graph| graph.is_early) {
        // CUPTI may not know the nodes of a graph that was created before it started. The driver may run a copy as a
        // kernel of its own, so kernels are counted by their name.
        let name = named(&graph.kernel);
        let seen = works
            .iter()
            .filter(|work| name.is_some() && work.name == name)
            .count();
        let ran = graph.kernels * graph.replays;
        found.is_measurement = true;
        found.figure("early_graph_kernels_launched", ran as f64);
        found.figure("early_graph_kernels_recorded", seen as f64);
        found
            .seen
            .push(format!("{seen} of {ran} kernels of the graph recorded"));
        found.demand(recorded <= launched, || {
            format!("{recorded} works were recorded, and {launched} were launched")
        });
        return Ok(());
    }
    if end == End::Exit && truth.seen_by_other.is_none() {
        known(truth, &works, named(SPIN), session, found)?;
        graphs(truth, &works, &named, found);
    }
    if let Some(seen) = truth.seen_by_other {
        found.figure("other_profiler_kernels", seen.kernels as f64);
        found.demand(seen.kernels == seen.launched, || {
            format!(
                "the other profiler got {} of its {} kernels",
                seen.kernels, seen.launched
            )
        });
        found.demand(recorded <= launched, || {
            format!("{recorded} works were recorded, and {launched} were launched")
        });
        found.demand(activity.yielded_ns > 0 || recorded == launched, || {
            format!("{recorded} of {launched} works were recorded, and no pause is stated")
        });
        // A third of the kernels precedes the other profiler, and a third follows it.
        let others = truth.known.len() as u64 - seen.launched;
        found.demand(recorded >= others, || {
            format!("{recorded} works were recorded, but {others} kernels ran without the other profiler")
        });
        found.seen.push(format!(
            "another profiler got all of its {} kernels; rankscope recorded {recorded} of {launched} works and states a pause of {}",
            seen.kernels,
            shown(activity.yielded_ns)
        ));
    }
    Ok(())
}

fn counts(truth: &DeviceTruth, session: &Session, recorded: u64, end: End, found: &mut Found) {
    let Some(activity) = session.activity.first() else {
        return;
    };
    let launched = truth.works();
    let accounted = recorded + activity.lost;
    if end == End::Exit {
        found.demand(accounted == launched, || {
            format!(
                "recorded {recorded} + lost {} is not {launched} launched works",
                activity.lost
            )
        });
        if activity.lost == 0 {
            for (kind, got, count) in [
                ("kernels", activity.kernels, truth.kernels),
                ("copies", activity.copies, truth.copies),
                ("sets", activity.sets, truth.sets),
            ] {
                found.demand(got == count, || format!("{got} of {count} {kind} were recorded"));
            }
            found.demand(activity.with_launch == recorded, || {
                format!(
                    "the launch of {} works is not known",
                    recorded - activity.with_launch
                )
            });
        }
        if accounted == launched {
            found.seen.push(format!(
                "{launched} kernels, copies and sets launched = {recorded} recorded + {} lost",
                activity.lost
            ));
        }
        return;
    }
    // Only works that CUPTI had not delivered are missing.
    let least = truth.launched_before_last_delivery;
    found.demand(accounted <= launched, || {
        format!("{accounted} works were recorded, and {launched} launched")
    });
    found.demand(accounted >= least, || {
        format!("{accounted} works were recorded, but CUPTI must have delivered {least}")
    });
    found.demand(least > 0, || "the program was too short".to_owned());
    found.seen.push(format!(
        "{recorded} of {launched} works recorded; CUPTI must have delivered {least}"
    ));
}

/// Compares each kernel's start and end with those that it stored itself.
fn known(
    truth: &DeviceTruth,
    works: &[WorkRow],
    name: Option<u32>,
    session: &Session,
    found: &mut Found,
) -> Result<()> {
    if truth.known.is_empty() {
        return Ok(());
    }
    let mut recorded: BTreeMap<Option<u32>, Vec<&WorkRow>> = BTreeMap::new();
    for work in works.iter().filter(|work| name.is_some() && work.name == name) {
        recorded.entry(work.stream).or_default().push(work);
    }
    let mut of_streams: Vec<Vec<&WorkRow>> = recorded.into_values().collect();
    of_streams.sort_by_key(|works| works.first().map_or(0, |work| work.start_ns));
    let count: usize = of_streams.iter().map(Vec::len).sum();
    found.demand(count == truth.known.len(), || {
        format!(
            "{count} of {} kernels with known times were recorded",
            truth.known.len()
        )
    });
    found.demand(of_streams.len() == 2, || {
        format!("the known kernels are on {} streams, not 2", of_streams.len())
    });
    if count != truth.known.len() || of_streams.len() != 2 {
        return Ok(());
    }
    let mut pairs: Vec<(&KnownKernel, &WorkRow)> = Vec::new();
    for (stream, works) in of_streams.iter().enumerate() {
        let launched = truth
            .known
            .iter()
            .filter(|known| usize::from(known.stream) == stream);
        pairs.extend(launched.zip(works.iter().copied()));
    }
    let mut durations: Vec<f64> = pairs
        .iter()
        .map(|(known, work)| {
            ((work.end_ns - work.start_ns) - (known.end_ns - known.start_ns) as i64).unsigned_abs() as f64
        })
        .collect();
    // The two timers differ by an offset and a rate. The line through all starts removes both.
    let origin = pairs[0].0.start_ns;
    let points: Vec<(f64, f64)> = pairs
        .iter()
        .map(|(known, work)| {
            (
                known.start_ns.wrapping_sub(origin) as i64 as f64,
                work.start_ns as f64,
            )
        })
        .collect();
    let (slope, at_zero) = line(&points);
    let mut starts: Vec<f64> = points
        .iter()
        .map(|(x, y)| (y - (at_zero + slope * x)).abs())
        .collect();
    let (duration, start) = (quantiles(&mut durations), quantiles(&mut starts));
    found.figure("duration_error_median_ns", duration.0);
    found.figure("duration_error_p99_ns", duration.1);
    found.figure("start_error_median_ns", start.0);
    found.figure("start_error_p99_ns", start.1);
    found.figure("timer_drift_ppm", (slope - 1.0) * 1e6);
    found.demand(duration.1 <= DURATION_NS, || {
        format!("durations are wrong by {} at p99", shown(duration.1 as i64))
    });
    found.demand(start.1 <= START_NS, || {
        format!("starts are wrong by {} at p99", shown(start.1 as i64))
    });
    found.seen.push(format!(
        "{count} kernels with known start and end: durations differ by {} (median; p99 {}), starts by {} (p99 {})",
        shown(duration.0 as i64),
        shown(duration.1 as i64),
        shown(start.0 as i64),
        shown(start.1 as i64)
    ));
    causality(truth, &pairs, session, found)
}

/// Demands that no kernel starts before its launch: an error of the host's axis would show here.
fn causality(
    truth: &DeviceTruth,
    pairs: &[(&KnownKernel, &WorkRow)],
    session: &Session,
    found: &mut Found,
) -> Result<()> {
    let created_ns = session
        .communicators
        .iter()
        .map(|communicator| communicator.created_ns);
    let created_ns = created_ns
        .max()
        .context("the recording lacks the program's communicator")?;
    // The difference of the session's axis and the program's clock, or a little less: the communicator was recorded before
    // the call returned.
    let offset = created_ns - truth.connect_ns.1;
    let waits = pairs
        .iter()
        .map(|(known, work)| work.start_ns - (known.launch_ns + offset));
    let Some(shortest) = waits.min() else {
        return Ok(());
    };
    found.figure("shortest_launch_to_start_ns", shortest as f64);
    found.demand(shortest >= -BEFORE_LAUNCH_NS, || {
        format!("a kernel starts {} before its launch", shown(-shortest))
    });
    found.seen.push(format!(
        "shortest time from a launch to its kernel: {}",
        shown(shortest)
    ));
    Ok(())
}

fn graphs(truth: &DeviceTruth, works: &[WorkRow], named: &impl Fn(&str) -> Option<u32>, found: &mut Found) {
    for graph in &truth.graphs {
        let number = named(&graph.kernel);
        let rows: Vec<&WorkRow> = works
            .iter()
            .filter(|work| number.is_some() && work.name == number)
            .collect();
        let expected = graph.kernels * graph.replays;
        let launches = rows
            .iter()
            .map(|row| row.correlation)
            .collect::<BTreeSet<_>>()
            .len() as u64;
        found.demand(rows.len() as u64 == expected, || {
            format!("{} of {expected} kernels of a graph", rows.len())
        });
        found.demand(launches == graph.replays, || {
            format!("{launches} of {} replays of a graph", graph.replays)
        });
        let nodes = rows
            .iter()
            .filter_map(|row| row.graph_node)
            .collect::<BTreeSet<_>>()
            .len() as u64;
        found.demand(nodes == graph.kernels, || {
            format!("{nodes} of {} nodes of a graph are known", graph.kernels)
        });
        if rows.len() as u64 == expected {
            found
                .seen
                .push(format!("{} replays of a graph: every kernel", graph.replays));
        }
    }
}

/// Returns slope and intercept of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = if variance > 0.0 {
        covariance / variance
    } else {
        1.0
    };
    (slope, y - slope * x)
}

/// Returns the median and p99.
fn quantiles(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_removes_offset_and_rate() {
        let points: Vec<_> = (0..10)
            .map(|x| (f64::from(x), 5.0 + 1.5 * f64::from(x)))
            .collect();
        let (slope, at_zero) = line(&points);
        assert!((slope - 1.5).abs() < 1e-12 && (at_zero - 5.0).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 3.0)]).0, 1.0);
    }

    #[test]
    fn quantiles_are_values() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(quantiles(&mut values), (50.0, 99.0));
        assert_eq!(quantiles(&mut [7.0]), (7.0, 7.0));
    }
}
