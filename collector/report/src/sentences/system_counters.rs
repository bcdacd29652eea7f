//! Counters of the system: memory, processor time, network and clocks of GPUs.

use super::line::{Level, Line};
use crate::figures::{decimal, mean, quoted, rank};
use crate::prose::{Prose, prose};
use crate::source::{among, number, share, sum};
use rankscope_formats::session::{
    AVAILABLE_MEMORY, CounterSource, CounterSummary, RESIDENT_MEMORY, Session, counter_unit,
};

/// Beginning of the names of processor time per class of threads. The classes of a rank add up to its process.
const PROCESSORS: &str = "processors_";
/// Beginning of the names of network traffic.
const NETWORK: &str = "network_";

/// A summary, and its position in the list of the session.
type Entry<'a> = (usize, &'a CounterSummary);

/// Returns the memory, processor time, network traffic and GPU clocks of the job; nothing if they were not sampled.
pub fn system_counters(session: &Session) -> Vec<Line> {
    let parts: Vec<Prose> = [
        memory(session),
        processors(session),
        available(session),
        network(session),
        gpu_clocks(session),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return Vec::new();
    }
    vec![Line::new(Level::Plain, Prose::join(parts, "; "))]
}

fn entries<'a>(session: &'a Session, is: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = Entry<'a>> {
    let counters = session.counters.iter().enumerate();
    counters.filter(move |(_, counter)| counter.source == CounterSource::System && is(&counter.name))
}

fn memory(session: &Session) -> Option<Prose> {
    let all = entries(session, |name| name == RESIDENT_MEMORY);
    let (at, largest, bytes) = all
        .filter_map(|(at, counter)| Some((at, counter, counter.max?)))
        .max_by(|one, other| one.2.total_cmp(&other.2))?;
    Some(prose![
        "resident memory up to ",
        mean(bytes, "bytes", format!("/counters/{at}/max")),
        " (",
        rank(session, largest.rank),
        ")"
    ])
}

fn processors(session: &Session) -> Option<Prose> {
    let all: Vec<Entry<'_>> = entries(session, |name| name.starts_with(PROCESSORS))
        .filter(|(_, counter)| counter.mean.is_some())
        .collect();
    let first = &all.first()?.1.name;
    // Each rank has all classes, so any of them counts the ranks.
    let of_first = all.iter().filter(|(_, counter)| counter.name == *first);
    let ranks = of_first.clone().count();
    let busy: f64 = all.iter().filter_map(|(_, counter)| counter.mean).sum();
    let means = sum(&[among("/counters", all.iter().map(|entry| entry.0), "/mean")]);
    let ranks_from = number(among("/counters", of_first.map(|entry| entry.0), "/mean"));
    Some(prose![
        decimal(busy / ranks as f64, 2, share(means, ranks_from)),
        " processors busy per rank"
    ])
}

fn available(session: &Session) -> Option<Prose> {
    let all = entries(session, |name| name == AVAILABLE_MEMORY);
    let (at, bytes) = all
        .filter_map(|(at, counter)| Some((at, counter.min?)))
        .min_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(prose![
        "at least ",
        mean(bytes, "bytes", format!("/counters/{at}/min")),
        " of memory available"
    ])
}

fn network(session: &Session) -> Option<Prose> {
    let all = entries(session, |name| name.starts_with(NETWORK));
    let (at, busiest, per_s) = all
        .filter_map(|(at, counter)| Some((at, counter, counter.mean?)))
        .max_by(|one, other| one.2.total_cmp(&other.2))?;
    Some(prose![
        quoted(&*busiest.name, format!("/counters/{at}/name")),
        " ",
        mean(per_s, counter_unit(&busiest.name), format!("/counters/{at}/mean"))
    ])
}

fn gpu_clocks(session: &Session) -> Option<Prose> {
    let clocks = session.gpus.iter().enumerate().filter_map(|(at, gpu)| {
        let clock = gpu.rank.and(gpu.busy_sm_clock_mhz.value)?;
        Some((at, clock))
    });
    let clock = |(at, clock): (usize, f64)| decimal(clock, 0, format!("/gpus/{at}/busy_sm_clock_mhz/value"));
    let lowest = clocks.clone().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let highest = clocks.max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(prose![
        "busy GPUs at ",
        clock(lowest),
        " to ",
        clock(highest),
        " MHz on average"
    ])
}
