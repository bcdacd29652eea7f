//! Ranks seen and expected, endings of their logs, and restarts.

use super::line::{Level, Line, some_prose};
use crate::figures::{self, count, counted, quoted, time};
use crate::prose::{Prose, prose};
use crate::source::{among, less, max, number, sum};
use rankscope_formats::session::{Attempt, LogEnding, MissingRank, Part, Session};

/// Returns the number of ranks seen and expected. This is the first line of every output.
pub fn coverage(session: &Session) -> Line {
    const SEEN: &str = "/coverage/ranks_seen";
    const EXPECTED: &str = "/coverage/ranks_expected/value";
    let coverage = &session.coverage;
    let hosts = counted(session.hosts.len() as u64, "host", number("/hosts/*"));
    let seen = u64::from(coverage.ranks_seen);
    match coverage.ranks_expected.get() {
        Ok(&expected) if expected == coverage.ranks_seen => Line::new(
            Level::Good,
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
                Level::Bad,
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
            Level::Warning,
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
    let mut text = match part.until_ns {
        Some(until_ns) => of_period(part, until_ns),
        None => prose![
            "only the last ",
            time(
                session.axis.end_ns - part.from_ns,
                less("/axis/end_ns", "/part/from_ns")
            ),
            " of the run; ",
            counted(left_out.instances, "instance", "/part/left_out/instances"),
            " that cross its start left out"
        ],
    };
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
    let is_whole_period = part.until_ns.is_some() && left_out.not_completed == 0;
    let level = if is_whole_period {
        Level::Plain
    } else {
        Level::Warning
    };
    Some(Line::new(level, text))
}

/// Returns what a session of a period has of the run.
fn of_period(part: &Part, until_ns: i64) -> Prose {
    let left_out = &part.left_out;
    let mut text = prose![
        "a period of the run, from ",
        time(part.from_ns, "/part/from_ns"),
        " to ",
        time(until_ns, "/part/until_ns"),
    ];
    let earlier = left_out.instances.saturating_sub(left_out.not_completed);
    if earlier > 0 {
        let from = less("/part/left_out/instances", "/part/left_out/not_completed");
        text.push(prose![
            "; ",
            counted(earlier, "instance", from),
            " that cross its start are in the period before"
        ]);
    }
    if left_out.not_completed > 0 {
        let from = "/part/left_out/not_completed";
        text.push(prose![
            "; ",
            counted(left_out.not_completed, "instance", from),
            " had not completed ten seconds after its end, and are in no period"
        ]);
    }
    text
}

/// Returns further notes on the ranks seen.
pub fn coverage_notes(session: &Session) -> Vec<Line> {
    let coverage = &session.coverage;
    let mut notes: Vec<Line> = part(session).into_iter().collect();
    for (ending, level, what) in [
        (
            LogEnding::Torn,
            Level::Warning,
            " ended without closing the log: ",
        ),
        (LogEnding::Running, Level::Plain, " still being recorded: "),
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
            level,
            prose![
                counted(those.len() as u64, "rank", from),
                what,
                some_prose(ranks, 8)
            ],
        ));
    }
    if coverage.logs_without_rank > 0 {
        notes.push(Line::new(
            Level::Plain,
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
    notes.extend(restarts(&session.attempts));
    notes
}

/// Returns a line per restart, or one line for many of them.
fn restarts(attempts: &[Attempt]) -> Vec<Line> {
    let restarts = attempts.len().saturating_sub(1);
    if restarts > Attempt::MAX_LISTED {
        let lost: Vec<i64> = attempts
            .iter()
            .filter_map(|attempt| attempt.lost_before_ns)
            .collect();
        let at = || among("/attempts", 1..attempts.len(), "/lost_before_ns");
        let text = prose![
            "the job was restarted ",
            counted(
                restarts as u64,
                "time",
                number(among("/attempts", 1..attempts.len(), "/restart"))
            ),
            lost.iter().max().map(|&longest| prose![
                "; ",
                time(lost.iter().sum(), sum(&[at()])),
                " passed between attempts, at most ",
                time(longest, max(at())),
                " at once"
            ])
        ];
        return vec![Line::new(Level::Warning, text)];
    }
    let line = |(at, attempt): (usize, &Attempt)| {
        let from = format!("/attempts/{at}");
        let lost = attempt.lost_before_ns.map(|ns| {
            prose![
                ", ",
                time(ns, format!("{from}/lost_before_ns")),
                " after the previous attempt"
            ]
        });
        let text = prose![
            "the job was restarted (restart ",
            figures::plain(attempt.restart, format!("{from}/restart")),
            ")",
            lost
        ];
        Line::new(Level::Warning, text)
    };
    attempts.iter().enumerate().skip(1).map(line).collect()
}
