//! Values of `session.json`, and all metrics of a run.

use super::cells::Cells;
use super::counted_steps::CountedSteps;
use super::step_parts;
use super::sums::Sums;
use crate::metrics::{
    BUSBW, BYTES, CAUSED_WAIT, COMMUNICATION, CONNECT_TIME, COPY_BYTES, COPY_TIME, EXPOSED_TRANSFER,
    EXPOSED_WAIT, HIDDEN_WAIT, KERNEL_TIME, LATENESS, LOST_SHARE, OPERATION_TRANSFER, OPERATION_WAIT,
    OPERATIONS, OVERLAP, OVERLAPPED, PAUSE, RECORDER_SHARE, STALL_CAUSE, STALL_TIME, STEP_TIME,
    STEP_TIME_PER, STREAM_IDLE, TIME_TO_FIRST_STEP, TRANSFER_TIME, WAIT_SHARE,
};
use rankscope_analysis::model::fingerprint::Fnv;
use rankscope_formats::comparison::{CommunicatorsOfRun, FindingOfRun, Measured, RunName, Value, WorldOfRun};
use rankscope_formats::session::{Figure, Scope, Session};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of counted steps of a run.
const MIN_STEPS: u64 = 5;
/// Maximum number of kernels with a separate metric: those with the longest total time.
pub const MAX_KERNELS: usize = 64;
/// Maximum number of ranks with a separate metric: those with the largest own delay or caused wait.
const MAX_RANKS: usize = 256;

/// Returns the identity of the run.
pub fn name(session: &Session, shown: &str) -> RunName {
    let mut hash = Fnv::default();
    hash.add(&session.axis.origin_unix_ns.to_le_bytes());
    let identities: BTreeSet<&str> = session
        .communicators
        .iter()
        .map(|known| known.identity.as_str())
        .collect();
    identities
        .iter()
        .for_each(|identity| hash.add(identity.as_bytes()));
    let time = |time: &Figure<i64>| time.value.unwrap_or(0);
    let processes: BTreeSet<(u32, i64, i64)> = session
        .ranks
        .iter()
        .map(|rank| (rank.pid, time(&rank.start_ns), time(&rank.end_ns)))
        .collect();
    for (pid, start_ns, end_ns) in processes {
        hash.add(&pid.to_le_bytes());
        hash.add(&start_ns.to_le_bytes());
        hash.add(&end_ns.to_le_bytes());
    }
    RunName {
        id: format!("{:016x}", hash.hash()),
        directory: shown.to_owned(),
        started_unix_ns: session.axis.origin_unix_ns,
        duration_ns: session.axis.end_ns.saturating_sub(session.axis.start_ns),
    }
}

/// Returns the kind of recording.
pub fn kind(session: &Session) -> String {
    if let Some(imported) = &session.imported {
        return imported.source.clone();
    }
    let has_kernels = session.activity.iter().any(|activity| activity.window_ns > 0);
    let has_nccl = session.communicators.iter().any(|known| known.library == "nccl");
    match (has_kernels, has_nccl) {
        (true, _) => "device",
        (false, true) => "nccl",
        (false, false) => "host",
    }
    .to_owned()
}

/// Returns the ranks and hosts.
pub fn world(session: &Session, world: u32) -> WorldOfRun {
    let main = session.worlds.get(world as usize);
    WorldOfRun {
        worlds: session.worlds.len() as u32,
        size: main.map_or(0, |main| main.size),
        ranks_seen: main.map_or(0, |main| main.ranks.len() as u32),
        hosts: session.hosts.iter().map(|host| host.name.clone()).collect(),
        crowded_hosts: session
            .findings
            .iter()
            .filter(|finding| finding.kind == "crowded-host")
            .count() as u32,
        records: session.totals.records,
        lost: session.totals.lost,
        failed: session.totals.failed,
    }
}

/// Returns why the run has no counted steps; `None` if it has enough.
pub fn why_no_steps(session: &Session, counted: &CountedSteps) -> Option<String> {
    if counted.train == 0 {
        let reason = session
            .steps
            .duration_ns
            .get()
            .err()
            .unwrap_or("no training step is complete on all ranks");
        return Some(format!("it has no training steps: {reason}"));
    }
    (counted.counted < MIN_STEPS).then(|| {
        format!(
            "of {} training steps only {} count after warm-up; at least {MIN_STEPS} are needed",
            counted.train, counted.counted
        )
    })
}

/// Returns the communicators of the world, grouped by their common properties.
pub fn communicators(session: &Session, world: u32) -> Vec<CommunicatorsOfRun> {
    let mut alike: BTreeMap<(&str, &str, Scope, u32), u32> = BTreeMap::new();
    let known = session.communicators.iter();
    for known in known.filter(|known| known.world.is_none_or(|of| of == world)) {
        *alike
            .entry((&known.library, &known.role, known.scope, known.size))
            .or_default() += 1;
    }
    alike
        .into_iter()
        .map(|((library, role, scope, size), count)| CommunicatorsOfRun {
            library: library.to_owned(),
            role: role.to_owned(),
            scope,
            size,
            count,
        })
        .collect()
}

/// Returns the findings of the report.
pub fn findings(session: &Session) -> Vec<FindingOfRun> {
    let findings = session.findings.iter();
    findings
        .map(|finding| FindingOfRun {
            kind: finding.kind.clone(),
            subject: finding.subject.clone(),
            title: finding.title.clone(),
            severity: finding.severity,
            cost_of_step: finding
                .cost_of_step
                .value
                .map(rankscope_formats::session::Ratio::share),
        })
        .collect()
}

/// Metrics of a run in the order of their table.
struct Metrics<'a> {
    out: Vec<Measured>,
    counted: &'a CountedSteps,
    sums: &'a Sums,
    ranks: usize,
    no_steps: Option<&'a str>,
}

impl Metrics<'_> {
    fn push(&mut self, metric: &str, subject: Option<&str>, value: Figure<Value>) {
        self.out.push(Measured {
            metric: metric.to_owned(),
            // Sums without a subject have an empty subject.
            subject: subject.filter(|subject| !subject.is_empty()).map(str::to_owned),
            value,
            quantiles: None,
        });
    }

    /// Without steps no metric of steps has a value.
    fn of_steps(&self, value: Option<Value>, reason: &str) -> Figure<Value> {
        match (self.no_steps, value) {
            (Some(reason), _) => Figure::unknown(reason),
            (None, Some(value)) => Figure::known(value),
            (None, None) => Figure::unknown(reason),
        }
    }

    fn series(&mut self, metric: &str, unknown: Option<&str>) {
        let value = self.sums.series.value(metric, self.counted, self.ranks);
        let value = match unknown {
            Some(reason) => Figure::unknown(self.no_steps.unwrap_or(reason)),
            None => self.of_steps(value, "no step has this value"),
        };
        self.push(metric, None, value);
        if let Some(last) = self.out.last_mut().filter(|last| last.value.value.is_some()) {
            last.quantiles = self.sums.series.quantiles(metric, self.counted, self.ranks);
        }
    }

    fn cells(&self, metric: &'static str) -> impl Iterator<Item = (&str, &Cells)> {
        let of_metric = self.sums.cells.range((metric, String::new())..);
        of_metric
            .take_while(move |((name, _), _)| *name == metric)
            .map(|((_, subject), cells)| (subject.as_str(), cells))
    }

    /// Adds each subject of a metric, as its own quotient.
    fn quotients(&mut self, metric: &'static str) {
        let found: Vec<_> = self
            .cells(metric)
            .map(|(subject, cells)| (subject.to_owned(), cells.value()))
            .collect();
        for (subject, value) in found {
            let value = self.of_steps(value, "it did not occur in a counted step");
            self.push(metric, Some(&subject), value);
        }
    }

    /// Adds each subject of a metric, divided by counted steps (of all ranks together, or of each rank).
    fn by_step(&mut self, metric: &'static str, by_rank: bool, most: usize) {
        let counts = if by_rank {
            &self.sums.rank_steps
        } else {
            &self.sums.steps
        };
        let mut found: Vec<_> = self
            .cells(metric)
            .map(|(subject, cells)| (subject.to_owned(), cells))
            .collect();
        if found.len() > most {
            found.sort_by(|one, other| other.1.total().total_cmp(&one.1.total()));
            found.truncate(most);
            found.sort_by(|one, other| one.0.cmp(&other.0));
        }
        let found: Vec<_> = found
            .into_iter()
            .map(|(subject, cells)| (subject, cells.over(counts).value()))
            .collect();
        for (subject, value) in found {
            let value = self.of_steps(value, "there is no counted step");
            self.push(metric, Some(&subject), value);
        }
    }
}

/// Returns all metrics of the run. Metrics with subjects have those of the run.
pub fn metrics(
    session: &Session,
    world: u32,
    counted: &CountedSteps,
    sums: &Sums,
    is_device: bool,
    no_steps: Option<&str>,
) -> Vec<Measured> {
    let members = session
        .worlds
        .get(world as usize)
        .map_or(&[][..], |world| &world.ranks);
    let untimed = untimed(session, members, is_device);
    let mut all = Metrics {
        out: Vec::new(),
        counted,
        sums,
        ranks: members.len().max(1),
        no_steps,
    };
    all.series(STEP_TIME, None);
    for counts in &session.steps.counted {
        let step = sums.series.value(STEP_TIME, counted, all.ranks);
        let each = step
            .map(|step| step.scaled(1.0 / counts.per_step))
            .filter(|_| counts.per_step > 0.0);
        let value = all.of_steps(each, "the program counts none");
        all.push(STEP_TIME_PER, Some(&counts.what), value);
    }
    for metric in step_parts::metrics(is_device) {
        let unknown = untimed
            .as_deref()
            .filter(|_| [EXPOSED_WAIT, EXPOSED_TRANSFER].contains(metric));
        all.series(metric, unknown);
    }
    all.series(COMMUNICATION, untimed.as_deref());
    all.series(HIDDEN_WAIT, untimed.as_deref());
    let overlap = overlap(session, members, &all, is_device);
    all.push(OVERLAP, None, overlap);
    all.quotients(WAIT_SHARE);
    all.by_step(OPERATIONS, true, 1);
    all.by_step(BYTES, true, 1);
    all.quotients(TRANSFER_TIME);
    all.quotients(BUSBW);
    all.by_step(OPERATION_WAIT, false, usize::MAX);
    all.by_step(OPERATION_TRANSFER, false, usize::MAX);
    all.by_step(KERNEL_TIME, true, MAX_KERNELS);
    all.by_step(COPY_TIME, true, 1);
    all.by_step(COPY_BYTES, true, 1);
    all.by_step(STREAM_IDLE, true, usize::MAX);
    all.by_step(STALL_TIME, true, 1);
    all.by_step(STALL_CAUSE, true, usize::MAX);
    all.by_step(PAUSE, true, usize::MAX);
    of_ranks(session, members, &mut all);
    start_up(session, members, counted, &mut all);
    let records = session.totals.records.saturating_add(session.totals.lost);
    all.push(
        LOST_SHARE,
        None,
        Figure::known(Value::once(session.totals.lost as f64 / records.max(1) as f64)),
    );
    all.push(RECORDER_SHARE, None, recorder_share(session));
    all.out
}

/// Returns why waiting and transfer are unknown; `None` if they are known.
fn untimed(session: &Session, members: &[u32], is_device: bool) -> Option<String> {
    if is_device {
        return None;
    }
    let of_members = session
        .breakdown
        .iter()
        .filter(|entry| members.contains(&entry.rank));
    let operations: u64 = of_members
        .map(|entry| {
            entry
                .operations_without_times
                .saturating_add(entry.operations_on_device)
        })
        .sum();
    (operations > 0).then(|| {
        format!(
            "{operations} operations ran on devices without a record of their other activity; record with --kernels"
        )
    })
}

fn overlap(session: &Session, members: &[u32], all: &Metrics<'_>, is_device: bool) -> Figure<Value> {
    // The report's reason for "–" also applies here.
    let of_members = session
        .breakdown
        .iter()
        .filter(|entry| members.contains(&entry.rank));
    for entry in of_members {
        if let Err(reason) = entry.overlap.get() {
            return Figure::unknown(reason);
        }
    }
    let mut cells = Cells::default();
    let series = |metric| all.sums.series.counted(metric, all.counted);
    if is_device {
        for metric in [OVERLAPPED, EXPOSED_WAIT, EXPOSED_TRANSFER] {
            let share = if metric == OVERLAPPED { 1.0 } else { 0.0 };
            series(metric)
                .into_iter()
                .flatten()
                .for_each(|(place, ns)| cells.add(place, share * ns, ns));
        }
    } else {
        series(COMMUNICATION)
            .into_iter()
            .flatten()
            .for_each(|(place, ns)| cells.add(place, ns, ns));
        for metric in [EXPOSED_WAIT, EXPOSED_TRANSFER] {
            series(metric)
                .into_iter()
                .flatten()
                .for_each(|(place, ns)| cells.add(place, -ns, 0.0));
        }
    }
    all.of_steps(cells.value(), "no communication in counted steps")
}

/// Adds lateness and caused wait by rank.
fn of_ranks(session: &Session, members: &[u32], all: &mut Metrics<'_>) {
    let lateness: Vec<(String, Option<Value>)> = all
        .cells(LATENESS)
        .map(|(subject, cells)| (subject.to_owned(), cells.value()))
        .collect();
    let steps = |rank: u32| {
        let entry = session.breakdown.iter().find(|entry| entry.rank == rank);
        entry.map_or(0, |entry| entry.steps)
    };
    let mut caused: Vec<(String, f64)> = Vec::new();
    for blame in session
        .blame
        .ranks
        .iter()
        .filter(|blame| members.contains(&blame.rank))
    {
        let steps = steps(blame.rank);
        if steps > 0 {
            let number = session
                .ranks
                .get(blame.rank as usize)
                .and_then(|rank| rank.number.value);
            let subject = format!("rank {}", number.unwrap_or(blame.rank));
            caused.push((
                subject,
                blame.caused_exposed_in_steps_rank_ns as f64 / steps as f64,
            ));
        }
    }
    // With very many ranks only notable ones are kept. Both sides keep them by the same rule.
    let mut telling: Vec<(f64, &str)> = lateness
        .iter()
        .map(|(subject, value)| (value.map_or(0.0, |value| value.all.mean.abs()), subject.as_str()))
        .chain(caused.iter().map(|(subject, ns)| (*ns, subject.as_str())))
        .collect();
    telling.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (_, subject) in telling {
        if kept.len() < MAX_RANKS {
            kept.insert(subject.to_owned());
        }
    }
    for (subject, value) in &lateness {
        if kept.contains(subject) {
            let value = all.of_steps(*value, "its own delay is unknown");
            all.push(LATENESS, Some(subject), value);
        }
    }
    caused.sort_by(|one, other| one.0.cmp(&other.0));
    for (subject, ns) in caused {
        if kept.contains(&subject) {
            let value = all.of_steps(Some(Value::once(ns)), "");
            all.push(CAUSED_WAIT, Some(&subject), value);
        }
    }
}

fn start_up(session: &Session, members: &[u32], counted: &CountedSteps, all: &mut Metrics<'_>) {
    let ranks = session.ranks.len().max(1) as f64;
    let connect = if session.connect.calls > 0 {
        Figure::known(Value::once(session.connect.duration_rank_ns as f64 / ranks))
    } else {
        Figure::unknown("no communicator was built during the recording")
    };
    all.push(CONNECT_TIME, None, connect);
    let begin = members
        .iter()
        .filter_map(|&rank| session.ranks.get(rank as usize)?.start_ns.value)
        .min();
    let first = match (counted.first_start_ns, begin) {
        (Some(first), Some(begin)) if first >= begin => {
            Figure::known(Value::once(first.saturating_sub(begin) as f64))
        }
        _ => Figure::unknown("there are no steps"),
    };
    all.push(TIME_TO_FIRST_STEP, None, first);
}

fn recorder_share(session: &Session) -> Figure<Value> {
    let mut cells = (0_i64, 0_i64);
    for activity in session.activity.iter().filter(|activity| activity.covered_ns > 0) {
        match activity.recorder_ns.get() {
            Ok(ns) => {
                cells = (
                    cells.0.saturating_add(*ns),
                    cells.1.saturating_add(activity.covered_ns),
                )
            }
            Err(reason) => return Figure::unknown(reason),
        }
    }
    if cells.1 == 0 {
        return Figure::unknown("no device activity was recorded");
    }
    Figure::known(Value::once(cells.0 as f64 / cells.1 as f64))
}
