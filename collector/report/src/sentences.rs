//! Sentences about a session, shared by the terminal and the HTML page.

use super::figures::{self, count, counted, percent, quoted, rule, time, time_f};
use super::prose::{Prose, prose};
use super::source::{among, less, max, min, number, share, sum};
use rankscope_analysis::model::labels;
use rankscope_formats::session::{
    Condition, DeviceActivity, Finding, LookAt, LossSummary, MissingRank, OperationClass, RankBreakdown,
    Score, Scorecard, Session,
};
use std::collections::BTreeMap;

/// Severity of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// As expected.
    Good,
    /// For information.
    Plain,
    /// Worth checking.
    Warning,
    /// Wrong, or costly.
    Bad,
}

/// Sentence with its severity.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Severity of the sentence.
    pub mood: Mood,
    /// The sentence.
    pub text: Prose,
    /// Advice on the problem.
    pub advice: Option<Prose>,
}

impl Line {
    /// Creates a line for information.
    pub fn plain(text: impl Into<Prose>) -> Self {
        Self::new(Mood::Plain, text)
    }

    fn new(mood: Mood, text: impl Into<Prose>) -> Self {
        Self {
            mood,
            text: text.into(),
            advice: None,
        }
    }

    fn with_advice(mut self, advice: impl Into<Prose>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Returns the number of ranks seen and expected. This is the first line of every output.
pub fn coverage(session: &Session) -> Line {
    const SEEN: &str = "/coverage/ranks_seen";
    const EXPECTED: &str = "/coverage/ranks_expected/value";
    let coverage = &session.coverage;
    let hosts = counted(session.hosts.len() as u64, "host", number("/hosts/*"));
    let seen = u64::from(coverage.ranks_seen);
    match coverage.ranks_expected.get() {
        Ok(&expected) if expected == coverage.ranks_seen => Line::new(
            Mood::Good,
            prose![
                count(seen, SEEN),
                " of ",
                counted(u64::from(expected), "rank", EXPECTED),
                " seen, on ",
                hosts
            ],
        ),
        Ok(&expected) => {
            let line = Line::new(
                Mood::Bad,
                prose![
                    "only ",
                    count(seen, SEEN),
                    " of ",
                    counted(u64::from(expected), "rank", EXPECTED),
                    " seen, on ",
                    hosts,
                    "; missing: ",
                    missing_ranks(session, &coverage.missing)
                ],
            );
            match &coverage.advice {
                Some(advice) => line.with_advice(quoted(advice, "/coverage/advice")),
                None => line,
            }
        }
        Err(reason) => Line::new(
            Mood::Warning,
            prose![
                counted(seen, "rank", SEEN),
                " seen, on ",
                hosts,
                "; the total number is not known: ",
                quoted(reason, "/coverage/ranks_expected/reason")
            ],
        ),
    }
}

/// Formats missing ranks as `ranks 4–7 and 9`, with the world if there are several.
fn missing_ranks(session: &Session, missing: &[MissingRank]) -> Prose {
    const MOST: usize = 8;
    // World, first and last number, and their positions in the list.
    let mut runs: Vec<(u32, [u32; 2], [usize; 2])> = Vec::new();
    for (at, rank) in missing.iter().enumerate() {
        match runs.last_mut() {
            Some((world, [_, last], [_, until])) if *world == rank.world && *last + 1 == rank.number => {
                (*last, *until) = (rank.number, at);
            }
            _ => runs.push((rank.world, [rank.number; 2], [at; 2])),
        }
    }
    let mut parts: Vec<Prose> = runs
        .iter()
        .take(MOST)
        .map(|&(world, [first, last], [from, until])| {
            let name = |rank: u32, at: usize| figures::plain(rank, format!("/coverage/missing/{at}/number"));
            let world = (session.worlds.len() > 1).then(|| {
                let world = figures::plain(world, format!("/coverage/missing/{from}/world"));
                prose!["world ", world, " "]
            });
            if first == last {
                prose![world, "rank ", name(first, from)]
            } else {
                prose![world, "ranks ", name(first, from), "–", name(last, until)]
            }
        })
        .collect();
    if runs.len() > MOST {
        parts.push("…".into());
    }
    Prose::join(parts, ", ")
}

/// Returns a note that the session is a part of a run, with what was left out.
fn part(session: &Session) -> Option<Line> {
    let part = session.part.as_ref()?;
    let left_out = &part.left_out;
    let mut text = prose![
        "only the last ",
        time(
            session.axis.end_ns - part.from_ns,
            less("/axis/end_ns", "/part/from_ns")
        ),
        " of the run; ",
        counted(left_out.instances, "instance", "/part/left_out/instances"),
        " that cross its start left out"
    ];
    if left_out.messages > 0 {
        text.push(prose![
            ", ",
            counted(left_out.messages, "message", "/part/left_out/messages"),
            " that only the whole run can match left unmatched"
        ]);
    }
    if left_out.replays > 0 {
        text.push(prose![
            ", ",
            counted(left_out.replays, "replay", "/part/left_out/replays"),
            " of graphs that only the whole run can number left unmatched"
        ]);
    }
    if part.numbers_steps_from_its_begin && session.steps.count > 0 {
        text.push(prose!["; step numbers start at its first step"]);
    }
    Some(Line::new(Mood::Warning, text))
}

/// Returns further notes on the ranks seen.
pub fn coverage_notes(session: &Session) -> Vec<Line> {
    let coverage = &session.coverage;
    let mut notes: Vec<Line> = part(session).into_iter().collect();
    for (ending, mood, what) in [
        ("torn", Mood::Warning, " ended without closing the log: "),
        ("running", Mood::Plain, " still being recorded: "),
    ] {
        let those: Vec<usize> = (0..session.ranks.len())
            .filter(|&at| session.ranks[at].ending == ending)
            .collect();
        if those.is_empty() {
            continue;
        }
        let ranks: Vec<Prose> = those
            .iter()
            .map(|&at| figures::rank(session, session.ranks[at].index).into())
            .collect();
        let from = number(among("/ranks", those.iter().copied(), "/ending"));
        notes.push(Line::new(
            mood,
            prose![
                counted(those.len() as u64, "rank", from),
                what,
                some_prose(ranks, 8)
            ],
        ));
    }
    if coverage.logs_without_rank > 0 {
        notes.push(Line::new(
            Mood::Plain,
            prose![
                counted(
                    u64::from(coverage.logs_without_rank),
                    "log",
                    "/coverage/logs_without_rank"
                ),
                " of processes that never communicated"
            ],
        ));
    }
    for (at, attempt) in session.attempts.iter().enumerate().skip(1) {
        let from = format!("/attempts/{at}");
        let lost = attempt.lost_before_ns.map(|ns| {
            prose![
                ", ",
                time(ns, format!("{from}/lost_before_ns")),
                " after the previous attempt"
            ]
        });
        notes.push(Line::new(
            Mood::Warning,
            prose![
                "the job was restarted (restart ",
                figures::plain(attempt.restart, format!("{from}/restart")),
                ")",
                lost
            ],
        ));
    }
    notes
}

/// Joins the first items of a list and the number of further ones.
pub fn some_of(items: &[impl AsRef<str>], most: usize) -> String {
    some_prose(items.iter().map(AsRef::as_ref), most).plain()
}

/// Like [`some_of`], with sources.
pub fn some_prose<I>(items: I, most: usize) -> Prose
where
    I: IntoIterator<Item: Into<Prose>, IntoIter: ExactSizeIterator>,
{
    let items = items.into_iter();
    let more = items.len().saturating_sub(most);
    let mut parts: Vec<Prose> = items.take(most).map(Into::into).collect();
    if more > 0 {
        parts.push(prose!["and ", figures::drawn(more.to_string()), " more"]);
    }
    Prose::join(parts, ", ")
}

/// Returns the lost records.
pub fn losses(session: &Session) -> Vec<Line> {
    const LOST: &str = "/totals/lost";
    let lost = session.totals.lost;
    if lost == 0 && session.losses.is_empty() {
        let torn = session.ranks.iter().filter(|rank| rank.ending == "torn").count();
        let line = if torn > 0 {
            Line::new(
                Mood::Bad,
                "ends of logs are missing; the number of lost records is not known",
            )
        } else if session.problems.total > 0 {
            Line::new(
                Mood::Plain,
                "no loss was counted, but the recordings have problems",
            )
        } else {
            Line::new(Mood::Good, "no records were lost")
        };
        return vec![line];
    }
    let all = session.totals.records + lost;
    let from = sum(&["/totals/records", LOST]);
    let of_all = (all > 0).then(|| {
        let of_all = percent(lost as f64 / all as f64, share(LOST, &from));
        prose![" (", of_all, ")"]
    });
    let mut lines = vec![Line::new(
        if lost == 0 { Mood::Plain } else { Mood::Bad },
        prose![
            count(lost, LOST),
            " of ",
            counted(all, "record", from),
            " lost",
            of_all
        ],
    )];
    for loss in losses_by_cause(&session.losses) {
        let at = loss.at[0];
        let plural = if loss.count == 1 { "" } else { "s" };
        lines.push(
            Line::new(
                Mood::Plain,
                prose![
                    count(
                        loss.count,
                        sum(&[among("/losses", loss.at.iter().copied(), "/count")])
                    ),
                    " ",
                    quoted(&loss.first.kind, format!("/losses/{at}/kind")),
                    format!(" record{plural}, cause "),
                    quoted(&loss.first.cause, format!("/losses/{at}/cause"))
                ],
            )
            .with_advice(quoted(&loss.first.advice, format!("/losses/{at}/advice"))),
        );
    }
    lines
}

/// Losses of one cause and kind.
struct CauseOfLoss<'a> {
    first: &'a LossSummary,
    count: u64,
    /// Positions in the list.
    at: Vec<usize>,
}

/// Groups losses by cause and kind, the largest first.
fn losses_by_cause(losses: &[LossSummary]) -> Vec<CauseOfLoss<'_>> {
    let mut sums: Vec<CauseOfLoss> = Vec::new();
    for (at, loss) in losses.iter().enumerate() {
        let is_same = |known: &CauseOfLoss| known.first.cause == loss.cause && known.first.kind == loss.kind;
        match sums.iter_mut().find(|known| is_same(known)) {
            Some(known) => {
                known.count += loss.count;
                known.at.push(at);
            }
            None => sums.push(CauseOfLoss {
                first: loss,
                count: loss.count,
                at: vec![at],
            }),
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.count));
    sums
}

/// Returns the duration of the run and its totals.
pub fn run(session: &Session) -> Line {
    let totals = &session.totals;
    let mut text = prose![
        time(
            session.axis.end_ns - session.axis.start_ns,
            less("/axis/end_ns", "/axis/start_ns")
        ),
        ", ",
        counted(totals.operations, "operation", "/totals/operations"),
        " in ",
        counted(totals.instances, "instance", "/totals/instances"),
        " (",
        figures::bytes(totals.bytes, "/totals/bytes"),
        " of payload)"
    ];
    let mut mood = Mood::Plain;
    if totals.failed > 0 {
        text.push(prose!["; ", count(totals.failed, "/totals/failed"), " failed"]);
        mood = Mood::Warning;
    }
    if totals.in_flight > 0 {
        text.push(prose![
            "; ",
            count(totals.in_flight, "/totals/in_flight"),
            if session.ranks.iter().any(|rank| rank.ending == "running") {
                " not finished yet"
            } else {
                " never finished"
            }
        ]);
        mood = Mood::Warning;
    }
    if totals.enqueued > 0 {
        text.push(prose![
            "; ",
            count(totals.enqueued, "/totals/enqueued"),
            " were enqueued on a stream, but their completion was not recorded"
        ]);
    }
    let shared: u64 = session.operations.iter().map(|class| class.shared).sum();
    if shared > 0 {
        text.push(prose![
            "; ",
            count(shared, sum(&["/operations/*/shared"])),
            " share their launch with others of their group, and are counted with it"
        ]);
    }
    if totals.captured > 0 {
        text.push(prose![
            "; ",
            counted(totals.captured, "more call", "/totals/captured"),
            " were captured into graphs",
            match session.devices.iter().map(|device| device.replays).sum() {
                0 => prose![", whose replays are not recorded"],
                replays => prose![
                    ", replayed as ",
                    counted(replays, "operation", sum(&["/devices/*/replays"]))
                ],
            }
        ]);
    }
    Line::new(mood, text)
}

/// Formats a part of a window in percent, or nothing if the window is empty. `part` and `window` are their sources.
pub fn share_of(ns: i64, window_ns: i64, part: &str, window: &str) -> Prose {
    if window_ns > 0 {
        percent(ns as f64 / window_ns as f64, share(part, window)).into()
    } else {
        "–".into()
    }
}

/// Whether the device breakdown of a rank is known. It shows more than the breakdown of its host.
pub fn has_device_breakdown(session: &Session, entry: &RankBreakdown) -> bool {
    let known = session.activity.iter().find(|known| known.rank == entry.rank);
    known.is_some_and(|known| known.window_ns > 0)
}

/// Returns the recorded device activity, and what limited its recording.
pub fn activity(session: &Session) -> Vec<Line> {
    const EARLIEST: &str = "/activity/*/shortest_launch_ns/value";
    let entries = &session.activity;
    if entries.is_empty() {
        return Vec::new();
    }
    let total = |of: fn(&DeviceActivity) -> u64| entries.iter().map(of).sum::<u64>();
    let kernels = total(|entry| entry.kernels + entry.communication_kernels);
    let others = total(|entry| entry.copies + entry.sets + entry.graphs);
    let mut lines = Vec::new();
    if kernels + others > 0 {
        let with_kernels: Vec<usize> = (0..entries.len())
            .filter(|&at| entries[at].kernels + entries[at].communication_kernels > 0)
            .collect();
        let mut text = prose![
            counted(
                kernels,
                "kernel",
                sum(&["/activity/*/kernels", "/activity/*/communication_kernels"])
            ),
            ", ",
            counted(
                others,
                "other work",
                sum(&["/activity/*/copies", "/activity/*/sets", "/activity/*/graphs"])
            ),
            ", on ",
            counted(
                with_kernels.len() as u64,
                "rank",
                number(among("/activity", with_kernels, "/rank"))
            )
        ];
        let earliest = entries.iter().filter_map(|entry| entry.shortest_launch_ns.value);
        if let Some(earliest) = earliest.clone().min() {
            text.push(prose![
                "; kernels start at least ",
                time(earliest, min(EARLIEST)),
                " after their launch"
            ]);
        }
        lines.push(Line::new(Mood::Plain, text));
        if earliest.clone().any(|ns| ns < 0) {
            lines.push(Line::new(
                Mood::Warning,
                "a kernel starts before its launch: device times are wrong by at least this much",
            ));
        }
    }
    let yielded = entries.iter().map(|entry| entry.yielded_ns).max().unwrap_or(0);
    if yielded > 0 {
        lines.push(Line::new(
            Mood::Warning,
            prose![
                "another profiler used CUPTI for up to ",
                time(yielded, max("/activity/*/yielded_ns")),
                ": device activity of that time was not recorded"
            ],
        ));
    }
    lines.extend(of_recorder(entries));
    lines.extend(undelivered(session));
    let mut reasons: Vec<(&str, usize)> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((entry.reason.as_deref()?, at)))
        .collect();
    reasons.sort_unstable();
    reasons.dedup_by_key(|(reason, _)| *reason);
    if !reasons.is_empty() {
        let reasons: Vec<Prose> = reasons
            .iter()
            .map(|(reason, at)| quoted(*reason, format!("/activity/{at}/reason")).into())
            .collect();
        lines.push(Line::new(
            Mood::Warning,
            prose![
                "device activity was not recorded, or only in part: ",
                some_prose(reasons, 3)
            ],
        ));
    }
    let by_order = total(|entry| entry.by_order);
    if by_order > 0 {
        lines.push(Line::new(
            Mood::Plain,
            prose![
                counted(by_order, "kernel", sum(&["/activity/*/by_order"])),
                format!(
                    " of NCCL {} assigned to a call by the order on {} stream: no record links them",
                    if by_order == 1 { "was" } else { "were" },
                    if by_order == 1 { "its" } else { "their" },
                )
            ],
        ));
    }
    let without = total(|entry| entry.without_call);
    if without > 0 {
        lines.push(Line::new(
            Mood::Plain,
            prose![
                counted(without, "kernel", sum(&["/activity/*/without_call"])),
                " of NCCL could not be assigned to a call"
            ],
        ));
    }
    lines
}

/// Smallest share of the recorded time from which the recorder's own time is reported, in percent.
const MIN_OF_RECORDER_PERCENT: i64 = 1;

/// Returns the recorder's own time if it is relevant.
fn of_recorder(entries: &[DeviceActivity]) -> Option<Line> {
    let told = entries.iter().enumerate().filter_map(|(at, entry)| {
        let ns = entry.recorder_ns.value?;
        let is_worth_it = entry.covered_ns > 0
            && ns.saturating_mul(100) >= entry.covered_ns.saturating_mul(MIN_OF_RECORDER_PERCENT);
        is_worth_it.then_some((at, ns, entry.covered_ns))
    });
    let (at, ns, covered_ns) = told
        .max_by(|one, other| (one.1 as f64 / one.2 as f64).total_cmp(&(other.1 as f64 / other.2 as f64)))?;
    Some(Line::new(
        Mood::Plain,
        prose![
            "the overhead of CUPTI, on any thread, took up to ",
            share_of(
                ns,
                covered_ns,
                &format!("/activity/{at}/recorder_ns/value"),
                &format!("/activity/{at}/covered_ns")
            ),
            " of the recorded time: spans of kind \"recorder\""
        ],
    ))
}

/// Returns the activity that CUPTI had not delivered when the process ended. Its amount is not known.
fn undelivered(session: &Session) -> Option<Line> {
    let missing = |entry: &DeviceActivity| {
        let rank = session.ranks.get(entry.rank as usize)?;
        let missing = rank.end_ns.value? - entry.delivered_until_ns?;
        (rank.ending != "closed" && missing > 0).then_some(missing)
    };
    let of: Vec<(usize, &DeviceActivity, i64)> = session
        .activity
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((at, entry, missing(entry)?)))
        .collect();
    let &(longest_at, longest_of, longest) = of.iter().max_by_key(|(.., missing)| missing)?;
    let names: Vec<Prose> = of
        .iter()
        .map(|(_, entry, _)| figures::rank(session, entry.rank).into())
        .collect();
    let total = |of_entry: fn(&DeviceActivity) -> u64, field: &str| {
        let count = of.iter().map(|(_, entry, _)| of_entry(entry)).sum();
        let from = sum(&[among("/activity", of.iter().map(|(at, ..)| *at), field)]);
        counted(count, "call", from)
    };
    Some(Line::new(
        Mood::Warning,
        prose![
            "device activity of the last moments was not delivered, up to ",
            time(
                longest,
                less(
                    format!("/ranks/{}/end_ns/value", longest_of.rank),
                    format!("/activity/{longest_at}/delivered_until_ns")
                )
            ),
            ": ",
            some_prose(names, 4),
            "; no activity is recorded for ",
            total(|entry| entry.launches_without_work, "/launches_without_work"),
            " of CUDA and for ",
            total(|entry| entry.calls_without_kernel, "/calls_without_kernel"),
            " of NCCL"
        ],
    ))
}

/// Sum of times, and the sources of its terms.
type Sum = (i64, Vec<String>);

/// Returns the stalls of devices, by cause.
pub fn stalls(session: &Session) -> Vec<Prose> {
    const ALL: &str = "/activity/*/device_stalls";
    let mut lines = Vec::new();
    let all = || {
        session
            .activity
            .iter()
            .map(|entry| &entry.device_stalls)
            .enumerate()
    };
    let (number_of, ns) = all().fold((0, 0), |sum, (_, stalls)| {
        (sum.0 + stalls.count, sum.1 + stalls.ns)
    });
    let total = sum(&[format!("{ALL}/ns")]);
    if number_of > 0 {
        let mut causes: BTreeMap<&str, Sum> = BTreeMap::new();
        for (at, stalls) in all() {
            for (place, cause) in stalls.by_cause.iter().enumerate() {
                let sum = causes.entry(&cause.cause).or_default();
                sum.0 += cause.ns;
                sum.1
                    .push(format!("/activity/{at}/device_stalls/by_cause/{place}/ns"));
            }
        }
        let mut causes: Vec<(&str, Sum)> = causes.into_iter().collect();
        causes.sort_by_key(|(cause, (cause_ns, _))| (std::cmp::Reverse(*cause_ns), *cause));
        let causes = causes.iter().map(|(cause, (cause_ns, from))| {
            prose![
                share_of(*cause_ns, ns, &sum(from), &total),
                " ",
                stall_cause(cause)
            ]
        });
        lines.push(prose![
            counted(number_of, "stall", sum(&[format!("{ALL}/count")])),
            " of at least ",
            rule("1 ms"),
            " in which the devices did not compute, ",
            time(ns, total.clone()),
            " in total: ",
            Prose::join(causes, ", ")
        ]);
        let mut late: BTreeMap<u32, Sum> = BTreeMap::new();
        for (at, stalls) in all() {
            for (place, of) in stalls.by_late_rank.iter().enumerate() {
                let sum = late.entry(of.rank).or_default();
                sum.0 += of.ns;
                sum.1
                    .push(format!("/activity/{at}/device_stalls/by_late_rank/{place}/ns"));
            }
        }
        let mut late: Vec<(u32, Sum)> = late.into_iter().collect();
        late.sort_by_key(|(rank, (late_ns, _))| (std::cmp::Reverse(*late_ns), *rank));
        if !late.is_empty() {
            let late = late.iter().take(3).map(|(rank, (late_ns, from))| {
                prose![figures::rank(session, *rank), " ", time(*late_ns, sum(from))]
            });
            lines.push(prose!["ranks waited for in stalls: ", Prose::join(late, ", ")]);
        }
    }
    // The most expensive place over all ranks.
    let places = session.activity.iter().enumerate().flat_map(|(at, entry)| {
        let places = entry.recurring_stalls.iter().enumerate();
        places.map(move |(place_at, place)| {
            let from = format!("/activity/{at}/recurring_stalls/{place_at}");
            (entry.rank, place, from)
        })
    });
    if let Some((rank, place, from)) =
        places.max_by_key(|(rank, place, _)| (place.ns, std::cmp::Reverse(*rank)))
    {
        let steps = format!("{from}/steps");
        lines.push(prose![
            "in ",
            count(place.steps, &steps),
            " of ",
            count(place.of_steps, format!("{from}/of_steps")),
            " steps of ",
            figures::rank(session, rank),
            " ",
            time(
                place.ns / i64::try_from(place.steps.max(1)).unwrap_or(1),
                share(format!("{from}/ns"), &steps)
            ),
            " each without compute before ",
            figures::kernel(&place.before, format!("{from}/before")),
            ": ",
            stall_cause(&place.cause)
        ]);
    }
    lines
}

/// Returns the name of a stall cause.
pub fn stall_cause(cause: &str) -> &str {
    match cause {
        "late-peer" => "waiting for a late rank",
        "slow-transfer" => "transfers slower than usual",
        "communication" => "communication",
        "memory" => "copies",
        "host-late" => "nothing launched",
        "pipeline-bubble" => "pipeline bubble",
        "input" => "waiting for input",
        "checkpoint" => "checkpoints",
        "evaluation" => "evaluation",
        "garbage-collection" => "garbage collection",
        _ => "unknown",
    }
}

/// Returns the sources of device times, and calls that only one source recorded.
pub fn devices(session: &Session) -> Vec<Line> {
    let devices = &session.devices;
    if devices.is_empty() {
        return Vec::new();
    }
    let mut sources: Vec<(&str, usize)> = devices
        .iter()
        .enumerate()
        .map(|(at, device)| (device.source.as_str(), at))
        .collect();
    sources.sort_unstable();
    sources.dedup_by_key(|(source, _)| *source);
    let sources = sources
        .iter()
        .map(|(source, at)| quoted(*source, format!("/devices/{at}/source")));
    let mut text = prose![
        Prose::join(sources, "; "),
        " on ",
        counted(devices.len() as u64, "rank", number("/devices/*/rank")),
        ": ",
        counted(
            devices.iter().map(|device| device.operations).sum(),
            "operation",
            sum(&["/devices/*/operations"])
        ),
        " with device times"
    ];
    let errors: Option<Vec<i64>> = devices
        .iter()
        .map(|device| device.widest_error_ns.value)
        .collect();
    let unknown = devices
        .iter()
        .enumerate()
        .find_map(|(at, device)| Some((at, device.widest_error_ns.reason.as_ref()?)));
    match (errors.and_then(|errors| errors.into_iter().max()), unknown) {
        (Some(widest), _) => text.push(prose![
            ", at most ",
            time(widest, max("/devices/*/widest_error_ns/value")),
            " late on the axis"
        ]),
        (None, Some((at, reason))) => text.push(prose![
            " (",
            quoted(reason, format!("/devices/{at}/widest_error_ns/reason")),
            ")"
        ]),
        (None, None) => {}
    }
    let mut lines = vec![Line::new(Mood::Plain, text)];
    let by_events: u64 = devices.iter().map(|device| device.timed_by_events).sum();
    if by_events > 0 {
        lines.push(Line::new(
            Mood::Plain,
            prose![
                count(by_events, sum(&["/devices/*/timed_by_events"])),
                " of them timed by events around the launch: they start early by the host's launch time"
            ],
        ));
    }
    let bypassed: u64 = devices.iter().map(|device| device.bypassed).sum();
    let hooks_only: u64 = devices.iter().map(|device| device.hooks_only).sum();
    if bypassed > 0 || hooks_only > 0 {
        lines.push(Line::new(
            Mood::Plain,
            prose![
                counted(bypassed, "call", sum(&["/devices/*/bypassed"])),
                format!(
                    " bypassed the hooks and {} known only from the plugin; ",
                    if bypassed == 1 { "is" } else { "are" }
                ),
                counted(hooks_only, "call", sum(&["/devices/*/hooks_only"])),
                " known only from the hooks"
            ],
        ));
    }
    let without_call: u64 = devices.iter().map(|device| device.without_call).sum();
    if without_call > 0 {
        lines.push(Line::new(
            Mood::Warning,
            prose![
                counted(without_call, "record", sum(&["/devices/*/without_call"])),
                " of device activity without a recorded call"
            ],
        ));
    }
    lines
}

/// Returns the number and duration of steps, and their source.
pub fn steps(session: &Session) -> Line {
    const DURATION: &str = "/steps/duration_ns/value";
    let steps = &session.steps;
    let duration = match steps.duration_ns.get() {
        Ok(duration) if steps.count > 0 => duration,
        Ok(_) => return Line::new(Mood::Plain, "no complete step was found"),
        Err(reason) => {
            let reason = quoted(reason, "/steps/duration_ns/reason");
            return Line::new(Mood::Plain, prose!["– (", reason, ")"]);
        }
    };
    let source = match steps.source.as_str() {
        "marks" => "as marked by the program".into(),
        "none" => "from an unknown source".into(),
        _ => {
            let explains = steps.confidence.get().ok().map(|&explained| {
                let explained = percent(explained, "/steps/confidence/value");
                prose![" (explains ", explained, " of the operations)"]
            });
            prose!["detected from a repeating pattern", explains]
        }
    };
    Line::new(
        Mood::Plain,
        prose![
            count(steps.count, "/steps/count"),
            " of ",
            time_f(duration.p50, format!("{DURATION}/p50")),
            " (median; ",
            rule("p90"),
            " ",
            time_f(duration.p90, format!("{DURATION}/p90")),
            ", longest ",
            time_f(duration.max, format!("{DURATION}/max")),
            "), ",
            source,
            (steps.other_kinds > 0).then(|| prose![
                "; ",
                counted(steps.other_kinds, "step", "/steps/other_kinds"),
                " of evaluation or checkpoints counted separately"
            ])
        ],
    )
}

/// Sum of one kind of named time over all ranks.
#[derive(Default)]
struct KindOfTime {
    count: u64,
    in_run_ns: i64,
    in_steps_ns: i64,
    elsewhere_ns: i64,
    /// Ranks' entries by the position of the kind among the parts of a rank. Ranks of one program name the same kinds,
    /// so a few ranges hold all of them.
    at: BTreeMap<usize, Vec<usize>>,
}

impl KindOfTime {
    fn sum_of(&self, field: &str) -> String {
        let each = self.at.iter().map(|(place, entries)| {
            among(
                "/named_times/ranks",
                entries.iter().copied(),
                &format!("/parts/{place}/{field}"),
            )
        });
        sum(&each.collect::<Vec<_>>())
    }
}

/// Returns the named parts of host time over all ranks, or nothing without names.
pub fn named_times(session: &Session) -> Vec<Line> {
    let named = &session.named_times;
    let mut kinds: Vec<(&str, KindOfTime)> = Vec::new();
    for (entry_at, entry) in named.ranks.iter().enumerate() {
        for (place, part) in entry.parts.iter().enumerate() {
            let known = kinds.iter().position(|(kind, _)| *kind == part.kind);
            let known = known.unwrap_or_else(|| {
                kinds.push((&part.kind, KindOfTime::default()));
                kinds.len() - 1
            });
            let (_, of) = &mut kinds[known];
            of.count += part.count;
            of.in_run_ns += part.in_run_ns;
            of.in_steps_ns += part.in_steps_ns;
            of.elsewhere_ns += part.elsewhere_ns;
            of.at.entry(place).or_default().push(entry_at);
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let (of_run, run) = all_runs(session);
    let in_steps = |(_, entry): &(usize, &RankBreakdown)| entry.window == "steps";
    let in_steps = session.breakdown.iter().enumerate().filter(in_steps);
    let of_steps: i64 = in_steps.clone().map(|(_, entry)| entry.window_ns).sum();
    let steps = sum(&[among("/breakdown", in_steps.map(|(at, _)| at), "/window_ns")]);
    let each = kinds.iter().map(|(kind, of)| {
        let mut text = prose![
            pause_kind(kind),
            " ",
            share_of(of.in_run_ns, of_run, &of.sum_of("in_run_ns"), &run),
            " of the run"
        ];
        if of_steps > 0 {
            let part = share_of(of.in_steps_ns, of_steps, &of.sum_of("in_steps_ns"), &steps);
            text.push(prose![", ", part, " of the steps"]);
        }
        if of.elsewhere_ns > 0 {
            let elsewhere = time(of.elsewhere_ns, of.sum_of("elsewhere_ns"));
            text.push(prose![", and ", elsewhere, " on other threads"]);
        }
        prose![text, " (", counted(of.count, "time", of.sum_of("count")), ")"]
    });
    let mut text = Prose::join(each, "; ");
    let not_seen: Vec<&str> = named.not_seen.iter().map(|kind| pause_kind(&kind.kind)).collect();
    if !not_seen.is_empty() {
        text.push(format!("; – not seen: {}", not_seen.join(", ")));
    }
    vec![Line::new(Mood::Plain, text)]
}

/// Returns the sum over all ranks of the time from first to last record, with its source.
fn all_runs(session: &Session) -> (i64, String) {
    let (spans, known): (Vec<i64>, Vec<usize>) = session
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(at, rank)| Some((rank.end_ns.value? - rank.start_ns.value?, at)))
        .unzip();
    let of_all = |field: &str| sum(&[among("/ranks", known.iter().copied(), field)]);
    (
        spans.iter().sum(),
        less(of_all("/end_ns/value"), of_all("/start_ns/value")),
    )
}

/// Returns the name of a kind of pause.
pub fn pause_kind(kind: &str) -> &str {
    match kind {
        "garbage-collection" => "garbage collection",
        "checkpoint" => "checkpoints",
        "optimizer" => "optimiser",
        "between-passes" => "between backward and forward",
        other => other,
    }
}

/// Returns the rate of things that the program counts, such as tokens, and the time per thing.
pub fn throughput(session: &Session) -> Vec<Line> {
    let each = session.steps.counted.iter().enumerate().map(|(at, things)| {
        let of = |field: &str| format!("/steps/counted/{at}/{field}");
        let one = things.what.strip_suffix('s').unwrap_or(&things.what);
        let source = match things.source.as_str() {
            "stated" => "as declared",
            _ => "as marked by the program",
        };
        let whole = |number: f64, field: &str| count(number.round() as u64, of(field));
        let exposed = "exposed_communication_ns_each";
        Line::new(
            Mood::Plain,
            prose![
                whole(things.per_second, "per_second"),
                " ",
                quoted(&things.what, of("what")),
                " per second (",
                whole(things.per_step, "per_step"),
                format!(" per step, {source}): "),
                time_f(things.ns_each, of("ns_each")),
                " of step time and ",
                time_f(things.exposed_communication_ns_each, of(exposed)),
                " of exposed communication per ",
                figures::part(one, of("what"))
            ],
        )
    });
    each.collect()
}

/// Whether a finding names late ranks.
pub fn is_about_lateness(finding: &Finding) -> bool {
    matches!(
        finding.kind.as_str(),
        "slow-host" | "late-rank" | "rotating-lateness"
    )
}

/// Findings that matter more than any cost: the job did not end, or its results may be wrong.
const GRAVE: [&str; 5] = [
    "never-finished",
    "mismatched",
    "replay-counts",
    "failed-operations",
    "breakdown",
];

/// Returns the first sentence: subject, seconds, share and cause of the costliest finding.
pub fn headline(session: &Session) -> Line {
    let totals = &session.totals;
    let has_kernels = session.activity.iter().any(|entry| entry.kernels > 0);
    let is_grave = |finding: &Finding| GRAVE.contains(&finding.kind.as_str());
    let is_empty = totals.operations == 0 && totals.in_flight == 0 && !has_kernels;
    if is_empty && !session.findings.iter().any(is_grave) {
        return Line::new(
            Mood::Warning,
            "No analysis is possible: the recordings have no operations.",
        );
    }
    let findings = || session.findings.iter().enumerate();
    let title = |at: usize, finding: &Finding| {
        Prose::from(quoted(&finding.title, format!("/findings/{at}/title"))).capitalised()
    };
    let grave = findings()
        .find(|(_, finding)| finding.severity == "critical" && GRAVE.contains(&finding.kind.as_str()));
    if let Some((at, finding)) = grave {
        return Line::new(Mood::Bad, prose![title(at, finding), "."]);
    }
    // The findings are ranked by their cost.
    if let Some((at, finding)) = findings().find(|(_, finding)| finding.own_cost_ns() > 0) {
        let from = format!("/findings/{at}");
        let subject: Prose = match &finding.subject {
            Some(subject) => quoted(subject, format!("{from}/subject")).into(),
            None => quoted(&finding.kind, format!("{from}/kind")).into(),
        };
        let of_run = finding.cost_of_run.get().ok().map(|ratio| {
            let of_run = figures::share(ratio, &format!("{from}/cost_of_run/value"));
            prose![", ", of_run, " of the run"]
        });
        let cause = finding
            .cause
            .as_ref()
            .map(|cause| prose![": ", quoted(cause, format!("{from}/cause"))]);
        let cost = time(
            *finding.cost_ns.get().unwrap_or(&0),
            format!("{from}/cost_ns/value"),
        );
        let text = prose![
            subject.capitalised(),
            " costs this job ",
            cost,
            of_run,
            cause,
            "."
        ];
        return Line::new(mood(&finding.severity), text);
    }
    if let Some((at, first)) = findings().find(|(_, finding)| finding.severity != "note") {
        let text = prose![title(at, first), "; its cost is not known."];
        return Line::new(mood(&first.severity), text);
    }
    let line = verdict(session);
    if line.mood == Mood::Good {
        Line::new(Mood::Good, "No finding costs this job time.")
    } else {
        Line::new(
            line.mood,
            prose!["No finding costs this job time; ", line.text, "."],
        )
    }
}

/// Returns which rank is late, that none is, or why this is not known.
pub fn verdict(session: &Session) -> Line {
    let mut findings = session.findings.iter().enumerate();
    if let Some((at, finding)) = findings.find(|(_, finding)| is_about_lateness(finding)) {
        return finding_line(at, finding);
    }
    if session.ranks.len() < 2 {
        return Line::new(Mood::Plain, "a single rank has no peers to wait for");
    }
    let matching = &session.matching;
    if matching.complete == matching.shared_without_figures {
        let reason = if session.totals.enqueued > 0 {
            Some("the completion of operations was not recorded")
        } else if matching.complete > 0 {
            Some("their launches have no figures")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Line::new(Mood::Plain, format!("late ranks cannot be determined: {reason}"));
        }
    }
    let unknown = match (&session.steps.duration_ns.get(), session.waits.reason.as_deref()) {
        (Err(reason), _) => quoted(*reason, "/steps/duration_ns/reason"),
        (_, Some(reason)) => quoted(reason, "/waits/reason"),
        (Ok(_), None) => return Line::new(Mood::Good, "no rank is late"),
    };
    Line::new(Mood::Plain, prose!["late ranks cannot be determined: ", unknown])
}

/// Formats a finding as a sentence; `at` is its position in the list.
pub fn finding_line(at: usize, finding: &Finding) -> Line {
    let from = format!("/findings/{at}");
    let line = Line::new(
        mood(&finding.severity),
        quoted(&finding.title, format!("{from}/title")),
    );
    match &finding.advice {
        Some(advice) => line.with_advice(quoted(advice, format!("{from}/advice"))),
        None => line,
    }
}

/// Returns the severity of a sentence for the severity of a finding.
pub fn mood(severity: &str) -> Mood {
    match severity {
        "critical" => Mood::Bad,
        "warning" => Mood::Warning,
        _ => Mood::Plain,
    }
}

/// Returns the cost of a finding if it is known.
pub fn cost(at: usize, finding: &Finding) -> Option<Prose> {
    let from = format!("/findings/{at}");
    let cost = time(*finding.cost_ns.get().ok()?, format!("{from}/cost_ns/value"));
    let mut text = prose!["cost: ", cost, " of job time"];
    if let Ok(ratio) = finding.cost_of_run.get() {
        let of_run = figures::share(ratio, &format!("{from}/cost_of_run/value"));
        text.push(prose![", ", of_run, " of the run"]);
    }
    if let Ok(ratio) = finding.cost_of_step.get() {
        let of_step = figures::share(ratio, &format!("{from}/cost_of_step/value"));
        text.push(prose![", ", of_step, " of a step"]);
    }
    if finding.shared_ns > 0 {
        let others = finding.shared_with.iter().enumerate();
        text.push(prose![
            "; up to ",
            time(finding.shared_ns, format!("{from}/shared_ns")),
            " of it may overlap with the cost of ",
            Prose::join(
                others.map(|(place, kind)| quoted(kind, format!("{from}/shared_with/{place}"))),
                ", "
            )
        ]);
    }
    Some(text)
}

/// Returns the evidence, the likely cause, and the cost of a finding, as sentences.
pub fn evidence(at: usize, finding: &Finding) -> Vec<Prose> {
    let from = format!("/findings/{at}");
    let evidence = finding.evidence.iter().enumerate();
    let evidence =
        evidence.map(|(place, text)| Prose::from(quoted(text, format!("{from}/evidence/{place}"))));
    let cause = finding
        .cause
        .iter()
        .map(|cause| prose!["likely cause: ", quoted(cause, format!("{from}/cause"))]);
    evidence.chain(cause).chain(cost(at, finding)).collect()
}

/// Returns the details of a finding, as sentences: its cost basis, the conditions that held, and examples.
pub fn behind(at: usize, finding: &Finding) -> Vec<Prose> {
    let from = format!("/findings/{at}");
    let basis = finding.cost_basis.iter();
    let mut lines: Vec<Prose> = basis
        .map(|basis| prose!["cost basis: ", quoted(basis, format!("{from}/cost_basis"))])
        .collect();
    if !finding.path.is_empty() {
        let conditions = finding.path.iter().enumerate();
        let conditions = conditions.map(|(place, of)| condition(of, &format!("{from}/path/{place}")));
        lines.push(prose!["conditions: ", Prose::join(conditions, "; ")]);
    }
    if !finding.look_at.is_empty() {
        let moments = finding.look_at.iter().enumerate();
        let moments = moments.map(|(place, of)| moment(of, &format!("{from}/look_at/{place}")));
        lines.push(prose!["examples: ", Prose::join(moments, "; ")]);
    }
    lines
}

/// `late steps 98.0 % ≥ 50.0 %`.
pub fn condition(condition: &Condition, from: &str) -> Prose {
    let is = match condition.is.as_str() {
        ">=" => "≥",
        "<=" => "≤",
        other => other,
    };
    prose![
        quoted(&condition.what, format!("{from}/what")),
        " ",
        figures::in_unit(condition.value, &condition.unit, format!("{from}/value")),
        format!(" {is} "),
        figures::in_unit(condition.limit, &condition.unit, format!("{from}/limit"))
    ]
}

/// `step 7 at 1.20 s: rank 2 is 20 ms late`.
pub fn moment(moment: &LookAt, from: &str) -> Prose {
    prose![
        moment
            .step
            .map(|step| prose!["step ", count(step, format!("{from}/step")), " "]),
        "at ",
        time(moment.start_ns, format!("{from}/start_ns")),
        ": ",
        quoted(&moment.what, format!("{from}/what")),
        moment.instance.map(|number| prose![
            " (instance ",
            figures::plain(number, format!("{from}/instance")),
            ")"
        ])
    ]
}

/// Returns the total of a scorecard, or why there is none.
pub fn score_total(card: &Scorecard) -> Line {
    match card.total.get() {
        Ok(&total) => {
            let grade = card.grade.as_deref().unwrap_or("");
            let capped = match (&card.capped_by, card.uncapped.get()) {
                (Some(kind), Ok(&uncapped)) => Some(prose![
                    "; without its costliest finding (",
                    quoted(kind, "/scorecard/capped_by"),
                    ") ",
                    figures::decimal(uncapped, 0, "/scorecard/uncapped/value")
                ]),
                _ => None,
            };
            let mood = match grade {
                "excellent" => Mood::Good,
                "good" => Mood::Plain,
                _ => Mood::Warning,
            };
            Line::new(
                mood,
                prose![
                    figures::decimal(total, 0, "/scorecard/total/value"),
                    " of ",
                    rule("100"),
                    format!(", {grade}"),
                    capped
                ],
            )
        }
        Err(reason) => Line::new(
            Mood::Plain,
            prose!["– (", quoted(reason, "/scorecard/total/reason"), ")"],
        ),
    }
}

/// Formats the weight of a dimension in METRICS.md, and its effective weight if other dimensions are unknown.
pub fn score_weight(score: &Score, from: &str) -> Prose {
    let weight = figures::percent_as_is(
        f64::from(score.weight_percent),
        0,
        format!("{from}/weight_percent"),
    );
    match score.applied_percent.get() {
        Ok(&applied) if (applied - f64::from(score.weight_percent)).abs() > 0.05 => {
            let applied = figures::percent_as_is(applied, 1, format!("{from}/applied_percent/value"));
            prose![weight, " → ", applied]
        }
        _ => weight.into(),
    }
}

/// Formats the waiting in the instances of a row, or a dash if none of them has times.
pub fn class_wait(class: &OperationClass, wait_rank_ns: i64, from: impl Into<String>) -> Prose {
    if class.instances == 0 && class.members > 1 {
        return "–".into();
    }
    let bound = if class.wait_is_upper_bound { "≤ " } else { "" };
    prose![bound, time(wait_rank_ns, from)]
}

/// Returns the operation of a row. Groups of one operation that run as one launch have a separate row.
pub fn operation(class: &OperationClass) -> String {
    if class.launches {
        format!("{} in groups", class.operation)
    } else {
        class.operation.clone()
    }
}

/// Returns the size class of a row: `64–128 KiB`.
pub fn size_class(class: &OperationClass) -> Option<String> {
    Some(labels::sizes(class.size_from_bytes?, class.size_below_bytes?))
}

/// Returns the class of most launches of a row.
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

/// Returns the mean share of a part of the breakdown's windows over all ranks.
pub fn mean_share(session: &Session, part: impl Fn(&RankBreakdown) -> i64) -> Option<f64> {
    let window: i64 = session.breakdown.iter().map(|entry| entry.window_ns).sum();
    let parts: i64 = session.breakdown.iter().map(part).sum();
    (window > 0).then(|| parts as f64 / window as f64)
}

/// Returns the exposed transfer: exposed communication without waiting for peers.
pub fn exposed_transfer_ns(entry: &RankBreakdown) -> i64 {
    entry.exposed_communication_ns - entry.exposed_wait_ns
}

/// Returns the problems of matching, or nothing if all calls matched.
pub fn matching(session: &Session) -> Vec<Line> {
    let matching = &session.matching;
    let mut lines = Vec::new();
    // A run that still records has records that are not written yet.
    let goes_on = session.ranks.iter().any(|rank| rank.ending == "running");
    let (unfinished, yet) = if goes_on {
        (Mood::Plain, " yet")
    } else {
        (Mood::Warning, "")
    };
    let mut say = |number: u64, field: &str, mood: Mood, thing: &str, what: &str| {
        if number > 0 {
            let number = counted(number, thing, format!("/matching/{field}"));
            lines.push(Line::new(mood, prose![number, " ", what]));
        }
    };
    say(
        matching.mismatched,
        "mismatched",
        Mood::Bad,
        "instance",
        "with members that disagree in operation, type, root or size",
    );
    say(
        matching.incomplete,
        "incomplete",
        unfinished,
        "instance",
        &format!("without the record of a member{yet}"),
    );
    say(
        matching.unmatched_messages,
        "unmatched_messages",
        unfinished,
        "message",
        &format!("with only a send or only a receive{yet}"),
    );
    say(
        matching.without_key,
        "without_key",
        Mood::Warning,
        "operation",
        "that could not be matched",
    );
    say(
        matching.shared_without_figures,
        "shared_without_figures",
        Mood::Warning,
        "instance",
        "in launches without figures: members grouped their calls differently, or a part is missing",
    );
    say(
        matching.causality_violations,
        "causality_violations",
        Mood::Bad,
        "instance",
        "in which a member left before a needed member entered: clocks are wrong",
    );
    for (at, reason) in matching.incomplete_reasons.iter().enumerate() {
        let from = format!("/matching/incomplete_reasons/{at}");
        lines.push(Line::new(
            Mood::Plain,
            prose![
                "incomplete: ",
                count(reason.count, format!("{from}/count")),
                " × ",
                quoted(&reason.reason, format!("{from}/reason"))
            ],
        ));
    }
    lines
}

/// Returns how well the clocks of several hosts are known, or nothing with one host.
pub fn clocks(session: &Session) -> Vec<Prose> {
    const BETWEEN: &str = "/axis/error_between_hosts_ns";
    const EVIDENCE: &str = "/axis/evidence";
    if session.hosts.len() < 2 {
        return Vec::new();
    }
    let mut out = Vec::new();
    let by = match session.axis.method.as_str() {
        "messages" => "from the job's own operations",
        _ => "from wall clocks only",
    };
    out.push(match session.axis.error_between_hosts_ns.get() {
        Ok(&error) => prose![
            "hosts agree within ± ",
            time(error, format!("{BETWEEN}/value")),
            format!(" at worst, {by}")
        ],
        Err(reason) => prose![
            "– the offset between the hosts' clocks is not known: ",
            quoted(reason, format!("{BETWEEN}/reason"))
        ],
    });
    let Some(evidence) = &session.axis.evidence else {
        return out;
    };
    let of = |number: u64, field: &str| count(number, format!("{EVIDENCE}/{field}"));
    if evidence.pairs_unbounded > 0 {
        let named = evidence
            .pairs
            .iter()
            .enumerate()
            .filter_map(|(at, pair)| {
                let reason = pair.error_ns.reason.as_deref()?;
                Some(prose![
                    figures::host(session, pair.one),
                    " and ",
                    figures::host(session, pair.other),
                    ": ",
                    quoted(reason, format!("{EVIDENCE}/pairs/{at}/error_ns/reason"))
                ])
            })
            .take(3);
        out.push(prose![
            of(evidence.pairs_unbounded, "pairs_unbounded"),
            " of ",
            of(evidence.pairs_total, "pairs_total"),
            " pairs of hosts have no bounded clock offset, for example: ",
            Prose::join(named, "; ")
        ]);
    }
    if evidence.held_out_instances > 0 {
        out.push(prose![
            "of ",
            counted(
                evidence.held_out_instances,
                "instance",
                format!("{EVIDENCE}/held_out_instances")
            ),
            " between hosts that were not used to fit the axis, a member left too early in ",
            of(evidence.violations_before, "violations_before"),
            " by the wall clocks and in ",
            of(evidence.violations_after, "violations_after"),
            " on the axis"
        ]);
    }
    if evidence.mismatched_instances > 0 {
        out.push(prose![
            counted(
                evidence.mismatched_instances,
                "instance",
                format!("{EVIDENCE}/mismatched_instances")
            ),
            " that no clock offset can explain: mismatched calls, which are listed and excluded from all figures"
        ]);
    }
    let most = evidence
        .pairs
        .iter()
        .enumerate()
        .max_by_key(|(_, pair)| pair.segments.len());
    if let Some((at, pair)) = most.filter(|(_, pair)| pair.segments.len() > 1) {
        let jumps = pair.segments.len() - 1;
        let segments = number(format!("{EVIDENCE}/pairs/{at}/segments/*"));
        out.push(prose![
            "a clock jumped ",
            if jumps == 1 {
                "once".into()
            } else {
                prose![count(jumps as u64, less(segments, "1")), " times"]
            },
            ": a host was suspended or migrated"
        ]);
    }
    out
}
