//! From the session of a window to the figures of the screen. Each figure is one of the session, a sum of such figures,
//! or a rate over the length of the window.

use super::document::{
    TOP_VERSION, TopAttempt, TopClass, TopDocument, TopLink, TopRow, TopState, TopWarning, TopWindow,
};
use crate::window::Window;
use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::model::labels;
use rankscope_analysis::selection::rollup::{By, rollup};
use rankscope_formats::session::{
    AVAILABLE_MEMORY, CounterSource, CounterSummary, Figure, Finding, Group, LogEnding, OperationClass,
    Quantiles, RESIDENT_MEMORY, Rank, Ratio, Session, Sum,
};
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

/// Reason for a rate without a length of time.
const NO_TIME: &str = "the window has no records";
const NO_SAMPLE: &str = "no sample in the window";
const PROCESSORS: &str = "processors_";
const NETWORK: &str = "network_";
const RECEIVED: &str = "_received_bytes_per_s";
const SENT: &str = "_sent_bytes_per_s";
const UTILIZATION: &str = "_utilization_percent";

/// Computes the figures of a window. `last` is the requested length. `boot_id` is that of this machine, and shows which
/// processes it cannot see.
pub fn figures(window: &Window, last: Last, boot_id: Option<&str>) -> TopDocument {
    let session = &window.session;
    let attempt = newest_attempt(session);
    let ranks: Vec<&Rank> = session
        .ranks
        .iter()
        .filter(|rank| rank.attempt == attempt)
        .collect();
    let taken_ns = window
        .taken
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64);
    let length = length_ns(session, &ranks);
    let requested_ns = last.time_ns.unwrap_or(i64::MAX);
    let rows = Rows {
        session,
        boot_id,
        length_ns: length.value,
        counters: counters_by_rank(session),
        arrivals: arrivals_by_rank(session),
    };
    let of_ranks = rows.of_ranks(attempt);
    let total = Total::of(&of_ranks);
    TopDocument {
        version: TOP_VERSION,
        directories: session.directories.clone(),
        read_unix_ns: taken_ns,
        read_for_ns: window.cost.as_nanos() as i64,
        window: TopWindow {
            requested_ns,
            most_records: last.records.unwrap_or(u64::MAX),
            records: session.totals.records,
            is_shortened: is_shortened(session, &length, last),
            length_ns: length,
        },
        attempt: shown_attempt(session, attempt),
        ranks_seen: ranks.len() as u32,
        ranks_expected: expected(session, attempt),
        ranks_running: of_ranks.iter().map(|row| row.running).sum(),
        idle_for_ns: last_record_ns(&ranks).map_or_else(
            || Figure::unknown(NO_TIME),
            |end_ns| Figure::known((taken_ns - session.axis.origin_unix_ns - end_ns).max(0)),
        ),
        steps_per_s: steps_per_s(session),
        step_median_ns: session.steps.median_ns.clone(),
        operations_per_s: rows.per_s(session.totals.operations as f64),
        payload_bytes_per_s: payload(session, &rows),
        exposed_communication: total.exposed_communication,
        exposed_wait: total.exposed_wait,
        lost: session.totals.lost,
        hosts: rows.of_hosts(attempt, &of_ranks),
        ranks: of_ranks,
        bandwidth: session.operations.iter().map(|class| rows.class(class)).collect(),
        warnings: warnings(session),
    }
}

/// Returns the index of the newest attempt.
pub fn newest_attempt(session: &Session) -> u32 {
    (session.attempts.len() as u32).saturating_sub(1)
}

fn shown_attempt(session: &Session, attempt: u32) -> TopAttempt {
    let known = session.attempts.get(attempt as usize);
    TopAttempt {
        number: attempt + 1,
        restart: known.map_or(0, |known| known.restart),
        run_id: known.and_then(|known| known.run_id.clone()),
    }
}

fn expected(session: &Session, attempt: u32) -> Figure<u32> {
    if session.attempts.len() <= 1 {
        return session.coverage.ranks_expected.clone();
    }
    let sizes = session.worlds.iter().filter(|world| world.attempt == attempt);
    match sizes.map(|world| world.size).sum() {
        0 => Figure::unknown("no communicator numbers the ranks yet"),
        size => Figure::known(size),
    }
}

/// Returns the time of the job's last record, in nanoseconds on the axis. Samples of the system are no records of the
/// job.
fn last_record_ns(ranks: &[&Rank]) -> Option<i64> {
    ranks.iter().filter_map(|rank| rank.end_ns.value).max()
}

fn length_ns(session: &Session, ranks: &[&Rank]) -> Figure<i64> {
    let first = ranks.iter().filter_map(|rank| rank.start_ns.value).min();
    let from = session.part.as_ref().map(|part| part.from_ns).or(first);
    match from.zip(last_record_ns(ranks)) {
        Some((from, until)) if until > from => Figure::known(until - from),
        _ => Figure::unknown(NO_TIME),
    }
}

/// Returns whether the limit of records shortened the window. A window with fewer records than the limit begins where
/// the run or the attempt begins.
fn is_shortened(session: &Session, length: &Figure<i64>, last: Last) -> bool {
    let (Some(length), Some(requested), Some(most)) = (length.value, last.time_ns, last.records) else {
        return false;
    };
    // The number of records is approximate.
    session.part.is_some() && length < requested / 10 * 9 && session.totals.records > most / 2
}

fn steps_per_s(session: &Session) -> Figure<f64> {
    // Steps, first start and last end of each world.
    let mut worlds: BTreeMap<u32, (u64, i64, i64)> = BTreeMap::new();
    for entry in &session.steps.list {
        let known = worlds
            .entry(entry.world)
            .or_insert((0, entry.start_ns, entry.end_ns));
        *known = (
            known.0 + u64::from(entry.steps),
            known.1.min(entry.start_ns),
            known.2.max(entry.end_ns),
        );
    }
    let rates = worlds
        .into_values()
        .filter(|&(_, start_ns, end_ns)| end_ns > start_ns)
        .map(|(steps, start_ns, end_ns)| steps as f64 / ((end_ns - start_ns) as f64 / 1e9));
    let rates: Vec<f64> = rates.collect();
    if rates.is_empty() {
        let reason = session.steps.duration_ns.get().err();
        return Figure::unknown(reason.unwrap_or("no whole step in the window"));
    }
    Figure::known(rates.iter().sum())
}

fn payload(session: &Session, rows: &Rows<'_>) -> Figure<f64> {
    let unknown = session
        .operations
        .iter()
        .find_map(|class| class.bytes.get().err());
    match unknown {
        Some(reason) => Figure::unknown(reason),
        None => rows.per_s(session.totals.bytes as f64),
    }
}

fn warnings(session: &Session) -> Vec<TopWarning> {
    let findings = session.findings.iter();
    findings
        .map(|finding| TopWarning {
            kind: finding.kind.clone(),
            subject: subject(session, finding),
            severity: finding.severity,
            title: finding.title.clone(),
            evidence: finding.evidence.clone(),
            advice: finding.advice.clone(),
            cost_of_window: finding.cost_of_run.clone(),
        })
        .collect()
}

/// Returns what a finding is about. Larger sets of ranks vary from window to window, and identify nothing.
fn subject(session: &Session, finding: &Finding) -> Option<String> {
    let rank = |rank: &u32| Some(session.ranks.get(*rank as usize)?.name.clone());
    let host = |host: &u32| Some(format!("host {}", session.hosts.get(*host as usize)?.name));
    match (&finding.ranks[..], &finding.hosts[..]) {
        ([one], _) => rank(one),
        (_, [one]) => host(one),
        ([one, other], _) => Some(format!("{} and {}", rank(one)?, rank(other)?)),
        _ => None,
    }
}

fn counters_by_rank(session: &Session) -> Vec<Vec<&CounterSummary>> {
    let mut out = vec![Vec::new(); session.ranks.len()];
    let of_system = |counter: &&CounterSummary| counter.source == CounterSource::System;
    for counter in session.counters.iter().filter(of_system) {
        if let Some(rank) = out.get_mut(counter.rank as usize) {
            rank.push(counter);
        }
    }
    out
}

/// Returns the launches in which each rank arrived last, and all of its launches.
fn arrivals_by_rank(session: &Session) -> Vec<(u64, u64)> {
    let mut out = vec![(0, 0); session.ranks.len()];
    for blame in &session.blame.ranks {
        if let Some(rank) = out.get_mut(blame.rank as usize) {
            *rank = (blame.last_arrivals, blame.launches);
        }
    }
    out
}

/// Data of the rows.
struct Rows<'a> {
    session: &'a Session,
    boot_id: Option<&'a str>,
    length_ns: Option<i64>,
    counters: Vec<Vec<&'a CounterSummary>>,
    arrivals: Vec<(u64, u64)>,
}

impl Rows<'_> {
    fn per_s(&self, sum: f64) -> Figure<f64> {
        match self.length_ns {
            Some(ns) => Figure::known(sum / (ns as f64 / 1e9)),
            None => Figure::unknown(NO_TIME),
        }
    }

    fn of_ranks(&self, attempt: u32) -> Vec<TopRow> {
        let groups = rollup(self.session, &[], By::Rank).groups;
        let ranks = groups.iter().zip(&self.session.ranks);
        let mut rows: Vec<TopRow> = ranks
            .filter(|(_, rank)| rank.attempt == attempt)
            .map(|(group, rank)| self.of_rank(group, rank))
            .collect();
        rows.sort_by_key(|row| row.rank_numbers.first().copied().unwrap_or(u32::MAX));
        rows
    }

    fn of_rank(&self, group: &Group, rank: &Rank) -> TopRow {
        let host = self.session.hosts.get(rank.host as usize);
        let state = match rank.ending {
            LogEnding::Running => TopState::Running,
            LogEnding::Closed => TopState::Ended,
            _ if self.boot_id.is_some()
                && host.is_some_and(|host| host.boot_id.as_deref() != self.boot_id) =>
            {
                TopState::Elsewhere
            }
            _ => TopState::Killed,
        };
        TopRow {
            name: rank.name.clone(),
            host: host.map(|host| host.name.clone()),
            rank_numbers: rank.number.value.into_iter().collect(),
            pid: Some(rank.pid),
            state,
            running: u32::from(state == TopState::Running),
            in_call: rank.in_flight.first().cloned(),
            in_call_for_ns: rank.in_flight_for_ns,
            ..self.sums(group)
        }
    }

    fn of_hosts(&self, attempt: u32, of_ranks: &[TopRow]) -> Vec<TopRow> {
        let groups = rollup(self.session, &[], By::Host).groups;
        let is_shown = |rank: &&u32| {
            let known = self.session.ranks.get(**rank as usize);
            known.is_some_and(|known| known.attempt == attempt)
        };
        let mut by_host: BTreeMap<&str, Vec<&TopRow>> = BTreeMap::new();
        for row in of_ranks {
            by_host
                .entry(row.host.as_deref().unwrap_or_default())
                .or_default()
                .push(row);
        }
        groups
            .into_iter()
            .filter_map(|mut group| {
                // Ranks of earlier attempts have no records in the window.
                group.ranks = group.ranks.iter().filter(is_shown).copied().collect();
                let first = self.session.ranks.get(*group.ranks.first()? as usize)?;
                let host = self.session.hosts.get(first.host as usize)?;
                let members = by_host.get(host.name.as_str())?;
                let longest = members.iter().max_by_key(|row| row.in_call_for_ns);
                let mut rank_numbers: Vec<u32> = members
                    .iter()
                    .flat_map(|row| row.rank_numbers.iter().copied())
                    .collect();
                rank_numbers.sort_unstable();
                Some(TopRow {
                    name: host.name.clone(),
                    rank_numbers,
                    state: members.iter().map(|row| row.state).min()?,
                    running: members.iter().map(|row| row.running).sum(),
                    in_call: longest.and_then(|row| Some(format!("{}: {}", row.name, row.in_call.as_ref()?))),
                    in_call_for_ns: longest.and_then(|row| row.in_call_for_ns),
                    ..self.sums(&group)
                })
            })
            .collect()
    }

    /// Returns the sums over the ranks of a group.
    fn sums(&self, group: &Group) -> TopRow {
        let share = |sum: &Sum| match sum.0.get() {
            Ok(&part) => Ratio::figure(part, group.window_rank_ns, NO_TIME),
            Err(reason) => Figure::unknown(reason),
        };
        let arrivals = group
            .ranks
            .iter()
            .filter_map(|&rank| self.arrivals.get(rank as usize));
        let (last, launches) = arrivals.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        TopRow {
            name: group.name.clone(),
            host: None,
            rank_numbers: Vec::new(),
            pid: None,
            state: TopState::Running,
            ranks: group.ranks.len() as u32,
            running: 0,
            operations: group.operations,
            operations_per_s: self.per_s(group.operations as f64),
            exposed_communication: share(&group.exposed_communication_rank_ns),
            exposed_wait: share(&group.exposed_wait_rank_ns),
            caused_exposed_rank_ns: group.caused_exposed_rank_ns,
            last_arrivals: Ratio::figure(
                last as i64,
                launches as i64,
                "no launch with the records of several ranks",
            ),
            resident_memory_bytes: self.sum_of(&group.ranks, |counters| {
                named(counters, RESIDENT_MEMORY).and_then(|counter| counter.last)
            }),
            processors: self.sum_of(&group.ranks, processors),
            available_memory_bytes: self
                .first_of(&group.ranks, |counters| named(counters, AVAILABLE_MEMORY)?.last),
            busiest_link: self.first_of(&group.ranks, busiest_link),
            gpu_utilization_percent: self.mean_utilization(&group.ranks),
            in_call: None,
            in_call_for_ns: None,
            lost: group.lost,
        }
    }

    fn counters_of(&self, rank: u32) -> &[&CounterSummary] {
        self.counters.get(rank as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the sum of a counter over ranks. It is unknown if one of them has no sample.
    fn sum_of(&self, ranks: &[u32], value: impl Fn(&[&CounterSummary]) -> Option<f64>) -> Figure<f64> {
        let known: Vec<f64> = ranks
            .iter()
            .filter_map(|&rank| value(self.counters_of(rank)))
            .collect();
        let missing = ranks.len() - known.len();
        if missing == 0 && !known.is_empty() {
            Figure::known(known.iter().sum())
        } else if known.is_empty() {
            Figure::unknown(NO_SAMPLE)
        } else {
            Figure::unknown(format!("{missing} of {} ranks have {NO_SAMPLE}", ranks.len()))
        }
    }

    /// Returns a value of the host, from the first rank that has it.
    fn first_of<T>(&self, ranks: &[u32], value: impl Fn(&[&CounterSummary]) -> Option<T>) -> Figure<T> {
        let found = ranks.iter().find_map(|&rank| value(self.counters_of(rank)));
        found.map_or_else(|| Figure::unknown(NO_SAMPLE), Figure::known)
    }

    fn mean_utilization(&self, ranks: &[u32]) -> Figure<f64> {
        let gpus = ranks.iter().flat_map(|&rank| self.counters_of(rank));
        let means: Vec<f64> = gpus
            .filter(|counter| counter.name.starts_with("gpu") && counter.name.ends_with(UTILIZATION))
            .filter_map(|counter| counter.mean)
            .collect();
        match means.len() {
            0 => Figure::unknown("no GPU was sampled in the window"),
            gpus => Figure::known(means.iter().sum::<f64>() / gpus as f64),
        }
    }

    fn class(&self, class: &OperationClass) -> TopClass {
        let sizes = class.size_from_bytes.zip(class.size_below_bytes);
        let median = |figure: &Figure<Quantiles>| match figure.get() {
            Ok(quantiles) => Figure::known(quantiles.p50),
            Err(reason) => Figure::unknown(reason),
        };
        TopClass {
            operation: if class.launches {
                format!("{} in groups", class.operation)
            } else {
                class.operation.clone()
            },
            size: sizes.map(|(from, below)| labels::sizes(from, below)),
            size_from_bytes: class.size_from_bytes,
            size_below_bytes: class.size_below_bytes,
            role: class.role.clone(),
            members: class.members,
            operations_per_s: self.per_s(class.operations as f64),
            transfer_p50_ns: median(&class.transfer_ns),
            bus_bytes_per_s: median(&class.bus_bytes_per_s),
            effective_bytes_per_s: median(&class.effective_bytes_per_s),
            exposed_wait_rank_ns: class.exposed_wait_rank_ns,
        }
    }
}

fn named<'a>(counters: &[&'a CounterSummary], name: &str) -> Option<&'a CounterSummary> {
    counters.iter().copied().find(|counter| counter.name == name)
}

/// Returns the busy processors of a rank: the sum over the classes of its threads.
fn processors(counters: &[&CounterSummary]) -> Option<f64> {
    let of_classes = counters
        .iter()
        .filter(|counter| counter.name.starts_with(PROCESSORS));
    let means: Vec<f64> = of_classes.filter_map(|counter| counter.mean).collect();
    (!means.is_empty()).then(|| means.iter().sum())
}

/// Returns the interface with the most traffic.
fn busiest_link(counters: &[&CounterSummary]) -> Option<TopLink> {
    let mut links: BTreeMap<&str, TopLink> = BTreeMap::new();
    for counter in counters {
        let Some(rest) = counter.name.strip_prefix(NETWORK) else {
            continue;
        };
        let (name, received, sent) = match (rest.strip_suffix(RECEIVED), rest.strip_suffix(SENT)) {
            (Some(name), _) => (name, counter.mean.unwrap_or(0.0), 0.0),
            (_, Some(name)) => (name, 0.0, counter.mean.unwrap_or(0.0)),
            _ => continue,
        };
        let link = links.entry(name).or_insert_with(|| TopLink {
            name: name.to_owned(),
            received_bytes_per_s: 0.0,
            sent_bytes_per_s: 0.0,
        });
        link.received_bytes_per_s += received;
        link.sent_bytes_per_s += sent;
    }
    let traffic = |link: &TopLink| link.received_bytes_per_s + link.sent_bytes_per_s;
    links
        .into_values()
        .max_by(|one, other| traffic(one).total_cmp(&traffic(other)))
}

/// Shares of the time of all ranks.
struct Total {
    exposed_communication: Figure<Ratio>,
    exposed_wait: Figure<Ratio>,
}

impl Total {
    fn of(ranks: &[TopRow]) -> Self {
        Self {
            exposed_communication: sum_of_shares(ranks, |row| &row.exposed_communication),
            exposed_wait: sum_of_shares(ranks, |row| &row.exposed_wait),
        }
    }
}

/// Returns the share over all ranks. A rank without records in the window has no time, and counts nothing.
fn sum_of_shares(ranks: &[TopRow], share: impl Fn(&TopRow) -> &Figure<Ratio>) -> Figure<Ratio> {
    let (mut numerator, mut denominator) = (0, 0);
    for figure in ranks.iter().map(share) {
        match figure.get() {
            Ok(ratio) => {
                numerator += ratio.numerator;
                denominator += ratio.denominator;
            }
            Err(NO_TIME) => {}
            Err(reason) => return Figure::unknown(reason),
        }
    }
    Ratio::figure(numerator, denominator, NO_TIME)
}
