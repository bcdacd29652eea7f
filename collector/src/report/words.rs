//! What a session says in sentences: the same ones on the terminal and on the page.

use super::units;
use crate::findings::condition;
use crate::kernel_name;
use rankscope_formats::session::{
    DeviceActivity, DeviceSource, Finding, LookAt, LossSummary, MissingRank, OperationClass, Rank,
    RankBreakdown, Score, Scorecard, Session,
};
use std::collections::BTreeMap;

/// How serious a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// As it should be.
    Good,
    /// For information.
    Plain,
    /// Worth a look.
    Warning,
    /// Wrong, or costly.
    Bad,
}

/// A sentence and how serious it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How serious.
    pub mood: Mood,
    /// The sentence.
    pub text: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Line {
    /// For information.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(Mood::Plain, text)
    }

    fn new(mood: Mood, text: impl Into<String>) -> Self {
        Self {
            mood,
            text: text.into(),
            advice: None,
        }
    }

    fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// A rank's name.
pub fn rank_name(session: &Session, rank: u32) -> String {
    session
        .ranks
        .get(rank as usize)
        .map_or_else(|| format!("log {rank}"), |rank: &Rank| rank.name.clone())
}

/// Ranks seen of those that exist: the first line of everything.
pub fn coverage(session: &Session) -> Line {
    let coverage = &session.coverage;
    let hosts = units::counted(session.hosts.len() as u64, "host");
    let seen = u64::from(coverage.ranks_seen);
    match coverage.ranks_expected.get() {
        Ok(&expected) if expected == coverage.ranks_seen => Line::new(
            Mood::Good,
            format!(
                "{} of {} seen, on {hosts}",
                units::count(seen),
                units::counted(u64::from(expected), "rank")
            ),
        ),
        Ok(&expected) => {
            let missing = missing_ranks(session, &coverage.missing);
            let line = Line::new(
                Mood::Bad,
                format!(
                    "only {} of {} seen, on {hosts}; missing: {missing}",
                    units::count(seen),
                    units::counted(u64::from(expected), "rank")
                ),
            );
            match &coverage.advice {
                Some(advice) => line.with_advice(advice.clone()),
                None => line,
            }
        }
        Err(reason) => Line::new(
            Mood::Warning,
            format!(
                "{} seen, on {hosts}; how many there are is not known: {reason}",
                units::counted(seen, "rank")
            ),
        ),
    }
}

/// `ranks 4–7 and 9`, with the world where there are several.
fn missing_ranks(session: &Session, missing: &[MissingRank]) -> String {
    const MOST: usize = 8;
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for rank in missing {
        match runs.last_mut() {
            Some((world, _, last)) if *world == rank.world && *last + 1 == rank.number => *last = rank.number,
            _ => runs.push((rank.world, rank.number, rank.number)),
        }
    }
    let mut parts: Vec<String> = runs
        .iter()
        .take(MOST)
        .map(|&(world, first, last)| {
            let world = if session.worlds.len() > 1 {
                format!("world {world} ")
            } else {
                String::new()
            };
            if first == last {
                format!("{world}rank {first}")
            } else {
                format!("{world}ranks {first}–{last}")
            }
        })
        .collect();
    if runs.len() > MOST {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

/// What else is to be said about who was seen.
pub fn coverage_notes(session: &Session) -> Vec<Line> {
    let coverage = &session.coverage;
    let mut notes = Vec::new();
    if coverage.ranks_not_closed > 0 {
        let ranks: Vec<&str> = session
            .ranks
            .iter()
            .filter(|rank| !matches!(rank.ending.as_str(), "closed" | "live-area"))
            .map(|rank| rank.name.as_str())
            .collect();
        notes.push(Line::new(
            Mood::Warning,
            format!(
                "{} ended without closing the log: {}",
                units::counted(u64::from(coverage.ranks_not_closed), "rank"),
                some_of(&ranks, 8)
            ),
        ));
    }
    if coverage.logs_without_rank > 0 {
        notes.push(Line::new(
            Mood::Plain,
            format!(
                "{} of processes that never communicated",
                units::counted(u64::from(coverage.logs_without_rank), "log")
            ),
        ));
    }
    for attempt in session.attempts.iter().skip(1) {
        let lost = attempt.lost_before_ns.map_or_else(String::new, |ns| {
            format!(", {} after the one before", units::time(ns))
        });
        notes.push(Line::new(
            Mood::Warning,
            format!("the job was started again (restart {}){lost}", attempt.restart),
        ));
    }
    notes
}

/// The first of a list, and how many more there are.
pub fn some_of(items: &[impl AsRef<str>], most: usize) -> String {
    let mut shown: Vec<String> = items
        .iter()
        .take(most)
        .map(|item| item.as_ref().to_owned())
        .collect();
    if items.len() > most {
        shown.push(format!("and {} more", items.len() - most));
    }
    shown.join(", ")
}

/// What could not be recorded.
pub fn losses(session: &Session) -> Vec<Line> {
    let lost = session.totals.lost;
    if lost == 0 && session.losses.is_empty() {
        return vec![Line::new(Mood::Good, "nothing was lost")];
    }
    let all = session.totals.records + lost;
    let share = if all > 0 {
        format!(" ({})", units::percent(lost as f64 / all as f64))
    } else {
        String::new()
    };
    let mut lines = vec![Line::new(
        if lost == 0 { Mood::Plain } else { Mood::Bad },
        format!(
            "{} of {} lost{share}",
            units::count(lost),
            units::counted(all, "record")
        ),
    )];
    for (cause, kind, count, advice) in losses_by_cause(&session.losses) {
        lines.push(
            Line::new(
                Mood::Plain,
                format!(
                    "{}, cause {cause}",
                    units::counted(count, &format!("{kind} record"))
                ),
            )
            .with_advice(advice),
        );
    }
    lines
}

/// Cause, kind, count and advice, the most first.
fn losses_by_cause(losses: &[LossSummary]) -> Vec<(String, String, u64, String)> {
    let mut sums: Vec<(String, String, u64, String)> = Vec::new();
    for loss in losses {
        match sums
            .iter_mut()
            .find(|sum| sum.0 == loss.cause && sum.1 == loss.kind)
        {
            Some(sum) => sum.2 += loss.count,
            None => sums.push((
                loss.cause.clone(),
                loss.kind.clone(),
                loss.count,
                loss.advice.clone(),
            )),
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.2));
    sums
}

/// How long, how much.
pub fn run(session: &Session) -> Line {
    let totals = &session.totals;
    let mut text = format!(
        "{}, {} in {} ({} of payload)",
        units::time(session.axis.end_ns - session.axis.start_ns),
        units::counted(totals.operations, "operation"),
        units::counted(totals.instances, "instance"),
        units::bytes(totals.bytes)
    );
    let mut mood = Mood::Plain;
    if totals.failed > 0 {
        text.push_str(&format!("; {} failed", units::count(totals.failed)));
        mood = Mood::Warning;
    }
    if totals.in_flight > 0 {
        text.push_str(&format!("; {} never finished", units::count(totals.in_flight)));
        mood = Mood::Warning;
    }
    if totals.enqueued > 0 {
        text.push_str(&format!(
            "; of {} it is known only that they were put on a device's stream, not when they were done",
            units::count(totals.enqueued)
        ));
    }
    let shared: u64 = session.operations.iter().map(|class| class.shared).sum();
    if shared > 0 {
        text.push_str(&format!(
            "; {} ran together with others of their group, and count together with them",
            units::count(shared)
        ));
    }
    if totals.captured > 0 {
        text.push_str(&format!(
            "; {} were captured into graphs{}",
            units::counted(totals.captured, "more call"),
            match session.devices.iter().map(|device| device.replays).sum() {
                0 => ", whose replays are not recorded".to_owned(),
                replays => format!(", replayed as {}", units::counted(replays, "operation")),
            }
        ));
    }
    Line::new(mood, text)
}

/// A part of a window in percent; nothing where there is none.
pub fn share_of(ns: i64, window_ns: i64) -> String {
    if window_ns > 0 {
        units::percent(ns as f64 / window_ns as f64)
    } else {
        "–".to_owned()
    }
}

/// True where the devices' parts of a rank are known: they say more than those of its host.
pub fn is_told_by_devices(session: &Session, entry: &RankBreakdown) -> bool {
    let known = session.activity.iter().find(|known| known.rank == entry.rank);
    known.is_some_and(|known| known.window_ns > 0)
}

/// What was recorded of the devices' work, and what came in its way.
pub fn activity(session: &Session) -> Vec<Line> {
    let entries = &session.activity;
    if entries.is_empty() {
        return Vec::new();
    }
    let sum = |of: fn(&DeviceActivity) -> u64| entries.iter().map(of).sum::<u64>();
    let kernels = sum(|entry| entry.kernels + entry.communication_kernels);
    let others = sum(|entry| entry.copies + entry.sets + entry.graphs);
    let mut lines = Vec::new();
    if kernels + others > 0 {
        let mut text = format!(
            "{}, {}, on {}",
            units::counted(kernels, "kernel"),
            units::counted(others, "other work"),
            units::counted(
                entries
                    .iter()
                    .filter(|entry| entry.kernels + entry.communication_kernels > 0)
                    .count() as u64,
                "rank"
            ),
        );
        if let Some(earliest) = entries
            .iter()
            .filter_map(|entry| entry.shortest_launch_ns.value)
            .min()
        {
            text += &format!("; the earliest began {} after its launch", units::time(earliest));
        }
        lines.push(Line::new(Mood::Plain, text));
        if entries
            .iter()
            .filter_map(|entry| entry.shortest_launch_ns.value)
            .any(|ns| ns < 0)
        {
            lines.push(Line::new(
                Mood::Warning,
                "a kernel began before it was launched: the devices' times are off by at least that",
            ));
        }
    }
    let yielded = entries.iter().map(|entry| entry.yielded_ns).max().unwrap_or(0);
    if yielded > 0 {
        lines.push(Line::new(
            Mood::Warning,
            format!(
                "another profiler had CUPTI for up to {}: nothing of that time was recorded",
                units::time(yielded)
            ),
        ));
    }
    // What CUPTI had not handed out when the process ended is not known: not even how much it was.
    let undelivered = entries.iter().filter_map(|entry| {
        let rank = session.ranks.get(entry.rank as usize)?;
        let end = rank.end_ns.value?;
        let missing = end - entry.delivered_until_ns?;
        (rank.ending != "closed" && missing > 0).then_some((rank.name.as_str(), missing, entry))
    });
    let undelivered: Vec<(&str, i64, &DeviceActivity)> = undelivered.collect();
    if let Some(&(_, longest, _)) = undelivered.iter().max_by_key(|&&(_, missing, _)| missing) {
        let names: Vec<&str> = undelivered.iter().map(|&(name, ..)| name).collect();
        let sum =
            |of: fn(&DeviceActivity) -> u64| undelivered.iter().map(|&(.., entry)| of(entry)).sum::<u64>();
        lines.push(Line::new(
            Mood::Warning,
            format!(
                "what the devices did in the last moments was not delivered, up to {}: {}; nothing came of {} of CUDA \
                 that were recorded and of {} of NCCL",
                units::time(longest),
                some_of(&names, 4),
                units::counted(sum(|entry| entry.launches_without_work), "call"),
                units::counted(sum(|entry| entry.calls_without_kernel), "call"),
            ),
        ));
    }
    let mut reasons: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.reason.as_deref())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    if !reasons.is_empty() {
        let text = format!("not recorded, or not to the end: {}", some_of(&reasons, 3));
        lines.push(Line::new(Mood::Warning, text));
    }
    let by_order = sum(|entry| entry.by_order);
    if by_order > 0 {
        let text = format!(
            "{} of NCCL {} put to a call by the order on {} stream: nothing that was recorded links them",
            units::counted(by_order, "kernel"),
            if by_order == 1 { "was" } else { "were" },
            if by_order == 1 { "its" } else { "their" },
        );
        lines.push(Line::new(Mood::Plain, text));
    }
    let without = sum(|entry| entry.without_call);
    if without > 0 {
        let text = format!(
            "{} of NCCL could not be told which call they are of",
            units::counted(without, "kernel")
        );
        lines.push(Line::new(Mood::Plain, text));
    }
    lines
}

/// Stretches in which devices did not compute, and why.
pub fn stalls(session: &Session) -> Vec<String> {
    let mut lines = Vec::new();
    let all = session.activity.iter().map(|entry| &entry.device_stalls);
    let (count, ns) = all
        .clone()
        .fold((0, 0), |sum, stalls| (sum.0 + stalls.count, sum.1 + stalls.ns));
    if count > 0 {
        let mut causes: BTreeMap<&str, i64> = BTreeMap::new();
        for cause in all.clone().flat_map(|stalls| &stalls.by_cause) {
            *causes.entry(&cause.cause).or_default() += cause.ns;
        }
        let mut causes: Vec<(&str, i64)> = causes.into_iter().collect();
        causes.sort_by_key(|&(cause, cause_ns)| (std::cmp::Reverse(cause_ns), cause));
        let causes: Vec<String> = causes
            .iter()
            .map(|&(cause, cause_ns)| format!("{} {}", share_of(cause_ns, ns), stall_cause(cause)))
            .collect();
        lines.push(format!(
            "{} of at least 1 ms in which the devices did not compute, {} in all: {}",
            units::counted(count, "stall"),
            units::time(ns),
            causes.join(", ")
        ));
        let mut late: BTreeMap<u32, i64> = BTreeMap::new();
        for sum in all.flat_map(|stalls| &stalls.by_late_rank) {
            *late.entry(sum.rank).or_default() += sum.ns;
        }
        let mut late: Vec<(u32, i64)> = late.into_iter().collect();
        late.sort_by_key(|&(rank, late_ns)| (std::cmp::Reverse(late_ns), rank));
        let late: Vec<String> = late
            .iter()
            .take(3)
            .map(|&(rank, late_ns)| format!("{} {}", rank_name(session, rank), units::time(late_ns)))
            .collect();
        if !late.is_empty() {
            lines.push(format!("waited for in stalls: {}", late.join(", ")));
        }
    }
    // The place that costs most, over all ranks.
    let places = session.activity.iter().flat_map(|entry| {
        entry
            .recurring_stalls
            .iter()
            .map(move |place| (entry.rank, place))
    });
    if let Some((rank, place)) = places.max_by_key(|&(rank, place)| (place.ns, std::cmp::Reverse(rank))) {
        lines.push(format!(
            "in {} of {} steps of {} {} each without compute before {}: {}",
            units::count(place.steps),
            units::count(place.of_steps),
            rank_name(session, rank),
            units::time(place.ns / i64::try_from(place.steps.max(1)).unwrap_or(1)),
            kernel_name::short(&place.before),
            stall_cause(&place.cause)
        ));
    }
    lines
}

/// Why, for people.
pub fn stall_cause(cause: &str) -> &str {
    match cause {
        "late-peer" => "waiting for a late rank",
        "slow-transfer" => "transfers slower than usual",
        "communication" => "communication",
        "memory" => "copies",
        "host-late" => "nothing launched",
        "pipeline-bubble" => "the pipeline's bubble",
        "input" => "waiting for input",
        "checkpoint" => "checkpoints",
        "evaluation" => "evaluation",
        "garbage-collection" => "garbage collection",
        _ => "unknown",
    }
}

/// Who told what of the work on devices, and what only one source saw.
pub fn devices(session: &Session) -> Vec<Line> {
    let devices = &session.devices;
    if devices.is_empty() {
        return Vec::new();
    }
    let mut sources: Vec<&str> = devices.iter().map(|device| device.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let sum = |of: fn(&DeviceSource) -> u64| devices.iter().map(of).sum::<u64>();
    let mut text = format!(
        "{} on {}: {} with times of the device",
        sources.join("; "),
        units::counted(devices.len() as u64, "rank"),
        units::counted(sum(|device| device.operations), "operation"),
    );
    let errors: Option<Vec<i64>> = devices
        .iter()
        .map(|device| device.widest_error_ns.value)
        .collect();
    let unknown = devices
        .iter()
        .find_map(|device| device.widest_error_ns.reason.as_ref());
    match (errors.and_then(|errors| errors.into_iter().max()), unknown) {
        (Some(widest), _) => text += &format!(", at most {} late on the axis", units::time(widest)),
        (None, Some(reason)) => text += &format!(" ({reason})"),
        (None, None) => {}
    }
    let mut lines = vec![Line::new(Mood::Plain, text)];
    let by_events = sum(|device| device.timed_by_events);
    if by_events > 0 {
        let text = format!(
            "{} of them by events around the launch: they begin early by what the host took to launch",
            units::count(by_events)
        );
        lines.push(Line::new(Mood::Plain, text));
    }
    let (bypassed, hooks_only) = (sum(|device| device.bypassed), sum(|device| device.hooks_only));
    if bypassed > 0 || hooks_only > 0 {
        let text = format!(
            "{} bypassed the hooks and {} known from the plugin only; of {} the hooks alone know",
            units::counted(bypassed, "call"),
            if bypassed == 1 { "is" } else { "are" },
            units::counted(hooks_only, "call"),
        );
        lines.push(Line::new(Mood::Plain, text));
    }
    let without_call = sum(|device| device.without_call);
    if without_call > 0 {
        let text = format!(
            "{} of device work belong to no recorded call",
            units::counted(without_call, "record")
        );
        lines.push(Line::new(Mood::Warning, text));
    }
    lines
}

/// Steps and where they come from.
pub fn steps(session: &Session) -> Line {
    let steps = &session.steps;
    let duration = match steps.duration_ns.get() {
        Ok(duration) if steps.count > 0 => duration,
        Ok(_) => return Line::new(Mood::Plain, "no whole step was found"),
        Err(reason) => return Line::new(Mood::Plain, format!("– ({reason})")),
    };
    let source = match steps.source.as_str() {
        "marks" => "as the program marks them".to_owned(),
        "none" => "of no known source".to_owned(),
        _ => {
            let share = steps.confidence.get().map_or_else(
                |_| String::new(),
                |&share| format!(" (explains {} of the operations)", units::percent(share)),
            );
            format!("from the repeating pattern{share}")
        }
    };
    Line::new(
        Mood::Plain,
        format!(
            "{} of {} (median; p90 {}, longest {}), {source}",
            units::count(steps.count),
            units::time_f(duration.p50),
            units::time_f(duration.p90),
            units::time_f(duration.max)
        ) + &match steps.other_kinds {
            0 => String::new(),
            others => format!(
                "; {} of evaluation or checkpoints counted apart",
                units::counted(others, "step")
            ),
        },
    )
}

/// Named parts of the hosts' own time, of all ranks together; nothing where nothing was named.
pub fn named_times(session: &Session) -> Vec<Line> {
    let named = &session.named_times;
    // Of each kind: times, in the run, in steps, on other threads.
    let mut kinds: Vec<(&str, u64, [i64; 3])> = Vec::new();
    for part in named.ranks.iter().flat_map(|entry| &entry.parts) {
        let sums = [part.in_run_ns, part.in_steps_ns, part.elsewhere_ns];
        match kinds.iter_mut().find(|(kind, ..)| *kind == part.kind) {
            Some((_, count, known)) => {
                *count += part.count;
                known.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
            }
            None => kinds.push((&part.kind, part.count, sums)),
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let of_run = session.ranks.iter().map(|rank| {
        let span = rank.start_ns.value.zip(rank.end_ns.value);
        span.map_or(0, |(start, end)| end - start)
    });
    let of_run: i64 = of_run.sum();
    let in_steps = session.breakdown.iter().filter(|entry| entry.window == "steps");
    let of_steps: i64 = in_steps.map(|entry| entry.window_ns).sum();
    let each = kinds
        .iter()
        .map(|&(kind, count, [run_ns, steps_ns, elsewhere_ns])| {
            let mut text = format!("{} {} of the run", pause_kind(kind), share_of(run_ns, of_run));
            if of_steps > 0 {
                text.push_str(&format!(", {} of the steps", share_of(steps_ns, of_steps)));
            }
            if elsewhere_ns > 0 {
                text.push_str(&format!(", and {} on other threads", units::time(elsewhere_ns)));
            }
            format!("{text} ({})", units::counted(count, "time"))
        });
    let mut text = each.collect::<Vec<_>>().join("; ");
    let not_seen: Vec<&str> = named.not_seen.iter().map(|kind| pause_kind(&kind.kind)).collect();
    if !not_seen.is_empty() {
        text.push_str(&format!("; – not seen: {}", not_seen.join(", ")));
    }
    vec![Line::new(Mood::Plain, text)]
}

/// A kind of pause in words.
pub fn pause_kind(kind: &str) -> &str {
    match kind {
        "garbage-collection" => "garbage collection",
        "checkpoint" => "checkpoints",
        "optimizer" => "optimiser",
        "between-passes" => "between backward and forward",
        other => other,
    }
}

/// What the program counts, for each and by second.
pub fn counted(session: &Session) -> Vec<Line> {
    let each = session.steps.counted.iter().map(|counted| {
        let one = counted.what.strip_suffix('s').unwrap_or(&counted.what);
        let source = match counted.source.as_str() {
            "stated" => "as stated",
            _ => "as the program marks them",
        };
        Line::new(
            Mood::Plain,
            format!(
                "{} {} a second ({} a step, {source}): {} of step time and {} of exposed communication for each {one}",
                units::count(counted.per_second.round() as u64),
                counted.what,
                units::count(counted.per_step.round() as u64),
                units::time_f(counted.ns_each),
                units::time_f(counted.exposed_communication_ns_each),
            ),
        )
    });
    each.collect()
}

/// True for findings that name who is late.
pub fn is_about_lateness(finding: &Finding) -> bool {
    matches!(
        finding.kind.as_str(),
        "slow-host" | "late-rank" | "rotating-lateness"
    )
}

/// Findings after which no cost matters: the job did not end, or its results may be wrong.
const GRAVE: [&str; 5] = [
    "never-finished",
    "mismatched",
    "replay-counts",
    "failed-operations",
    "breakdown",
];

/// The first sentence: who or what, seconds, share, cause.
pub fn headline(session: &Session) -> Line {
    let grave = session
        .findings
        .iter()
        .find(|finding| finding.severity == "critical" && GRAVE.contains(&finding.kind.as_str()));
    if let Some(finding) = grave {
        return Line::new(Mood::Bad, format!("{}.", capitalised(&finding.title)));
    }
    // The findings are ranked by their cost.
    let costly = session.findings.iter().find(|finding| finding.own_cost_ns() > 0);
    if let Some(finding) = costly {
        let subject = finding.subject.as_deref().unwrap_or(&finding.kind);
        let cost = units::time(*finding.cost_ns.get().unwrap_or(&0));
        let share = match finding.cost_of_run.get() {
            Ok(ratio) => format!(", {} of its run", units::percent(ratio.share())),
            Err(_) => String::new(),
        };
        let cause = finding
            .cause
            .as_ref()
            .map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!("{} costs this job {cost}{share}{cause}.", capitalised(subject));
        return Line::new(mood(&finding.severity), text);
    }
    if let Some(first) = session.findings.iter().find(|finding| finding.severity != "note") {
        let text = format!("{}; what that costs is not known.", capitalised(&first.title));
        return Line::new(mood(&first.severity), text);
    }
    let line = verdict(session);
    if line.mood == Mood::Good {
        Line::new(Mood::Good, "No finding costs this job time.")
    } else {
        Line::new(
            line.mood,
            format!(
                "No finding costs this job time; {}.",
                line.text.trim_end_matches('.')
            ),
        )
    }
}

/// With a capital, unless the sentence begins with the name of a function: `cudaStreamSynchronize`.
fn capitalised(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or(text);
    if first.chars().skip(1).any(char::is_uppercase) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Why nothing tells who waited, if so: a wait is known from the records of all members.
pub fn waits_unknown(session: &Session) -> Option<&'static str> {
    (session.totals.operations > 0 && session.totals.instances == 0).then_some(
        "no operation has the records of all its members, so that waiting is not known and stands under transfer",
    )
}

/// Who is late, or that nobody is, or why that cannot be told.
pub fn verdict(session: &Session) -> Line {
    if let Some(finding) = session.findings.iter().find(|finding| is_about_lateness(finding)) {
        return finding_line(finding);
    }
    if session.ranks.len() < 2 {
        return Line::new(Mood::Plain, "with one rank there is nobody to wait for");
    }
    let matching = &session.matching;
    if matching.complete == matching.shared_without_figures {
        let reason = if session.totals.enqueued > 0 {
            Some("when operations were done was not recorded")
        } else if matching.complete > 0 {
            Some("their launches have no figures")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Line::new(Mood::Plain, format!("who is late cannot be told: {reason}"));
        }
    }
    match (session.steps.duration_ns.get(), session.waits.reason.as_deref()) {
        (Err(reason), _) | (_, Some(reason)) => {
            Line::new(Mood::Plain, format!("who is late cannot be told: {reason}"))
        }
        (Ok(_), None) => Line::new(Mood::Good, "nobody is late"),
    }
}

/// A finding as a sentence.
pub fn finding_line(finding: &Finding) -> Line {
    let line = Line::new(mood(&finding.severity), finding.title.clone());
    match &finding.advice {
        Some(advice) => line.with_advice(advice.clone()),
        None => line,
    }
}

fn mood(severity: &str) -> Mood {
    match severity {
        "critical" => Mood::Bad,
        "warning" => Mood::Warning,
        _ => Mood::Plain,
    }
}

/// What a finding cost, where it is known.
pub fn cost(finding: &Finding) -> Option<String> {
    let mut text = format!("cost: {} of the job", units::time(*finding.cost_ns.get().ok()?));
    if let Ok(share) = finding.cost_of_run.get() {
        text.push_str(&format!(", {} of the run", units::percent(share.share())));
    }
    if let Ok(share) = finding.cost_of_step.get() {
        text.push_str(&format!(", {} of a step", units::percent(share.share())));
    }
    if finding.shared_ns > 0 {
        text.push_str(&format!(
            "; up to {} of it may be the same seconds as in {}",
            units::time(finding.shared_ns),
            finding.shared_with.join(", ")
        ));
    }
    Some(text)
}

/// Why a finding probably is, and what it cost, a sentence each.
pub fn cause_and_cost(finding: &Finding) -> Vec<String> {
    let cause = finding.cause.iter().map(|cause| format!("likely cause: {cause}"));
    cause.chain(cost(finding)).collect()
}

/// What stands behind a finding, a sentence each: how its cost was computed, which conditions held, where to look.
pub fn behind(finding: &Finding) -> Vec<String> {
    let basis = finding.cost_basis.iter();
    let mut lines: Vec<String> = basis.map(|basis| format!("counted as cost: {basis}")).collect();
    if !finding.path.is_empty() {
        let conditions: Vec<String> = finding.path.iter().map(condition).collect();
        lines.push(format!("decided by: {}", conditions.join("; ")));
    }
    if !finding.look_at.is_empty() {
        let moments: Vec<String> = finding.look_at.iter().map(moment).collect();
        lines.push(format!("look at: {}", moments.join("; ")));
    }
    lines
}

/// `step 7 at 1.20 s: rank 2 is 20 ms late`.
fn moment(moment: &LookAt) -> String {
    let step = moment
        .step
        .map_or_else(String::new, |step| format!("step {} ", units::count(step)));
    let instance = moment
        .instance
        .map_or_else(String::new, |number| format!(" (instance {number})"));
    format!(
        "{step}at {}: {}{instance}",
        units::time(moment.start_ns),
        moment.what
    )
}

/// The total of a scorecard, or why there is none.
pub fn score_total(card: &Scorecard) -> Line {
    match card.total.get() {
        Ok(total) => {
            let grade = card.grade.as_deref().unwrap_or("");
            let capped = match (&card.capped_by, card.uncapped.get()) {
                (Some(kind), Ok(uncapped)) => {
                    format!("; without its costliest finding ({kind}) {uncapped:.0}")
                }
                _ => String::new(),
            };
            let mood = match grade {
                "excellent" => Mood::Good,
                "good" => Mood::Plain,
                _ => Mood::Warning,
            };
            Line::new(mood, format!("{total:.0} of 100, {grade}{capped}"))
        }
        Err(reason) => Line::new(Mood::Plain, format!("– ({reason})")),
    }
}

/// Weight of a dimension: METRICS.md's, and what it became where others are unknown.
pub fn score_weight(score: &Score) -> String {
    match score.applied_percent.get() {
        Ok(&applied) if (applied - f64::from(score.weight_percent)).abs() > 0.05 => {
            format!("{} % → {applied:.1} %", score.weight_percent)
        }
        _ => format!("{} %", score.weight_percent),
    }
}

/// Waiting in the instances of a row; – where none of them has times.
pub fn class_wait(class: &OperationClass, wait_rank_ns: i64) -> String {
    if class.instances == 0 && class.members > 1 {
        return "–".to_owned();
    }
    let bound = if class.wait_is_upper_bound { "≤ " } else { "" };
    format!("{bound}{}", units::time(wait_rank_ns))
}

/// What was called: groups of one operation that run as one launch are a row of their own.
pub fn operation(class: &OperationClass) -> String {
    if class.launches {
        format!("{} in groups", class.operation)
    } else {
        class.operation.clone()
    }
}

/// Size class of a row: `64–128 KiB`.
pub fn size_class(class: &OperationClass) -> Option<String> {
    let (from, below) = (class.size_from_bytes?, class.size_below_bytes?);
    if below <= from + 1 {
        return Some(round(from));
    }
    let (from, below) = (round(from), round(below));
    match (from.rsplit_once(' '), below.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => Some(format!("{number}–{below}")),
        _ => Some(format!("{from}–{below}")),
    }
}

/// Class limits are powers of two: no digits behind the point where there are none.
fn round(bytes: u64) -> String {
    let mut shown = units::binary_bytes(bytes);
    for zeros in [".00 ", ".0 "] {
        shown = shown.replace(zeros, " ");
    }
    shown
}

/// What most launches of a row are bound by.
pub fn bound_by(class: &OperationClass) -> Option<&'static str> {
    let classes = &class.classes;
    let counts = [
        (classes.transfer_bound, "transfer"),
        (classes.skew_bound, "waiting"),
        (classes.mixed, "both"),
        (classes.inconclusive, "inconclusive"),
    ];
    let (count, name) = counts.into_iter().max_by_key(|&(count, _)| count)?;
    (count > 0).then_some(name)
}

/// Mean over all ranks of a part of the breakdown's windows.
pub fn mean_share(session: &Session, part: impl Fn(&RankBreakdown) -> i64) -> Option<f64> {
    let window: i64 = session.breakdown.iter().map(|entry| entry.window_ns).sum();
    let parts: i64 = session.breakdown.iter().map(part).sum();
    (window > 0).then(|| parts as f64 / window as f64)
}

/// Exposed transfer: exposed communication that is not waiting for peers.
pub fn exposed_transfer_ns(entry: &RankBreakdown) -> i64 {
    entry.exposed_communication_ns - entry.exposed_wait_ns
}

/// How well calls were matched; nothing if all of them were.
pub fn matching(session: &Session) -> Vec<Line> {
    let matching = &session.matching;
    let mut lines = Vec::new();
    let mut say = |count: u64, mood: Mood, thing: &str, what: &str| {
        if count > 0 {
            lines.push(Line::new(
                mood,
                format!("{} {what}", units::counted(count, thing)),
            ));
        }
    };
    say(
        matching.mismatched,
        Mood::Bad,
        "instance",
        "with members that disagree in operation, type, root or size",
    );
    say(
        matching.incomplete,
        Mood::Warning,
        "instance",
        "without the record of some member",
    );
    say(
        matching.unmatched_messages,
        Mood::Warning,
        "message",
        "sent or received by one side only",
    );
    say(
        matching.without_key,
        Mood::Warning,
        "operation",
        "that could not be matched at all",
    );
    say(
        matching.shared_without_figures,
        Mood::Warning,
        "instance",
        "in launches without figures: members grouped differently, or a part never came",
    );
    say(
        matching.causality_violations,
        Mood::Bad,
        "instance",
        "left before a needed member entered: wrong clocks",
    );
    for reason in &matching.incomplete_reasons {
        lines.push(Line::new(
            Mood::Plain,
            format!("incomplete: {} × {}", units::count(reason.count), reason.reason),
        ));
    }
    lines
}

/// How well the clocks of several hosts are known, in sentences; nothing with one host.
pub fn clocks(session: &Session) -> Vec<String> {
    if session.hosts.len() < 2 {
        return Vec::new();
    }
    let mut out = Vec::new();
    let by = match session.axis.method.as_str() {
        "messages" => "by what the job's own operations prove",
        _ => "by their wall clocks alone",
    };
    out.push(match session.axis.error_between_hosts_ns.get() {
        Ok(&error) => format!("hosts agree within ± {} at worst, {by}", units::time(error)),
        Err(reason) => format!("– how far the hosts' clocks are apart is not known: {reason}"),
    });
    let Some(evidence) = &session.axis.evidence else {
        return out;
    };
    if evidence.pairs_unbounded > 0 {
        let named: Vec<String> = evidence
            .pairs
            .iter()
            .filter_map(|pair| {
                let name = |host: u32| {
                    session
                        .hosts
                        .get(host as usize)
                        .map_or("?", |host| host.name.as_str())
                };
                let reason = pair.error_ns.reason.as_deref()?;
                Some(format!("{} and {}: {reason}", name(pair.one), name(pair.other)))
            })
            .take(3)
            .collect();
        out.push(format!(
            "{} of {} pairs of hosts are not tied to each other, the first: {}",
            units::count(evidence.pairs_unbounded),
            units::count(evidence.pairs_total),
            named.join("; ")
        ));
    }
    if evidence.held_out_instances > 0 {
        out.push(format!(
            "of {} between hosts that the axis was not fitted to, somebody left too early in {} by the wall clocks and in {} on \
             the axis",
            units::counted(evidence.held_out_instances, "instance"),
            units::count(evidence.violations_before),
            units::count(evidence.violations_after)
        ));
    }
    if evidence.mismatched_instances > 0 {
        out.push(format!(
            "{} that no clocks could explain: calls that do not belong together, listed and left out of all figures",
            units::counted(evidence.mismatched_instances, "instance")
        ));
    }
    let jumps = evidence
        .pairs
        .iter()
        .map(|pair| pair.segments.len().saturating_sub(1))
        .max()
        .unwrap_or(0);
    if jumps > 0 {
        out.push(format!(
            "a clock jumped {}: a host slept, or was moved",
            if jumps == 1 {
                "once".to_owned()
            } else {
                format!("{jumps} times")
            }
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::capitalised;

    #[test]
    fn sentences_begin_with_a_capital_and_functions_keep_their_names() {
        assert_eq!(capitalised("rank 3 is late"), "Rank 3 is late");
        assert_eq!(
            capitalised("cudaStreamSynchronize costs time"),
            "cudaStreamSynchronize costs time"
        );
        assert_eq!(capitalised(""), "");
    }
}
