//! Tables of the HTML page, one function each.

use super::table::{Column, Table};
use crate::figures;
use crate::figures::{bytes, count, part, percent, plain, quoted, rank_time, rate, time, time_f};
use crate::prose::{Prose, prose};
use crate::source::{less, list, number, share, sum, times};
use crate::{hta_figures, rollup_rows, sentences, structure};
use Column::{Long, Number, Word};
use rankscope_analysis::model::labels;
use rankscope_analysis::selection::rollup::Rollup;
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::{HtaFigures, Scorecard, Session};

/// Row of cells, each converted to [`Prose`].
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(Prose::from($cell)),*] };
}

/// Operations by kind and size.
pub fn operations(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("operation"),
        Word("size"),
        Word("on"),
        Number("ranks"),
        Number("count"),
        Number("failed"),
        Number("bytes"),
        Number("Σ wait, exposed"),
        Number("Σ wait, hidden"),
        Number("transfer"),
        Number("transfer, p99"),
        Number("busbw"),
        Word("bound by"),
        Number("algbw"),
        Number("effective"),
        Number("duration"),
        Number("queued"),
    ]);
    for (at, class) in session.operations.iter().enumerate() {
        let of = |field: &str| format!("/operations/{at}/{field}");
        let text = |text: &str, field: &str| quoted(text, of(field));
        let requested = class.requested.iter().enumerate().map(|(at, requested)| {
            prose![
                if at == 0 { ", requested as " } else { ", " },
                text(&requested.operation, &format!("requested/{at}/operation")),
                ": ",
                count(requested.calls, of(&format!("requested/{at}/calls")))
            ]
        });
        let requested = Prose::join(requested, "");
        let reasons = &mut table.reasons;
        let row = row![
            prose![
                text(&class.library, "library"),
                " ",
                text(&class.operation, "operation"),
                if class.launches { " in groups" } else { "" },
                requested
            ],
            match sentences::size_class(class) {
                Some(sizes) => {
                    let limits = [of("size_from_bytes"), of("size_below_bytes")];
                    prose![figures::sizes(sizes, list(&limits))]
                }
                None => prose!["not known"],
            },
            prose![text(&class.role, "role"), ", ", text(class.scope.name(), "scope")],
            plain(class.members, of("members")),
            count(class.operations, of("operations")),
            (class.failed > 0).then(|| count(class.failed, of("failed"))),
            reasons.figure(&class.bytes, &of("bytes"), |&of, from| bytes(of, from)),
            sentences::class_wait(class, class.exposed_wait_rank_ns, of("exposed_wait_rank_ns")),
            sentences::class_wait(class, class.hidden_wait_rank_ns, of("hidden_wait_rank_ns")),
            reasons.figure(&class.transfer_ns, &of("transfer_ns"), |times, from| {
                time_f(times.p50, from + "/p50")
            }),
            reasons.figure(&class.transfer_ns, &of("transfer_ns"), |times, from| {
                time_f(times.p99, from + "/p99")
            }),
            reasons.figure(&class.bus_bytes_per_s, &of("bus_bytes_per_s"), |rates, from| {
                rate(rates.p50, from + "/p50")
            }),
            sentences::bound_by(class).unwrap_or(""),
            reasons.figure(
                &class.algorithm_bytes_per_s,
                &of("algorithm_bytes_per_s"),
                |rates, from| rate(rates.p50, from + "/p50")
            ),
            reasons.figure(
                &class.effective_bytes_per_s,
                &of("effective_bytes_per_s"),
                |rates, from| rate(rates.p50, from + "/p50")
            ),
            reasons.figure(&class.duration_ns, &of("duration_ns"), |times, from| {
                time_f(times.p50, from + "/p50")
            }),
            reasons.figure(&class.queue_ns, &of("queue_ns"), |times, from| {
                time_f(times.p50, from + "/p50")
            }),
        ];
        table.push(row);
    }
    table.finish()
}

/// Dimensions of a scorecard, with their figures.
pub fn scorecard(card: &Scorecard) -> String {
    let mut table = Table::new(&[
        Word("dimension"),
        Number("score"),
        Number("weight"),
        Number("numerator"),
        Number("denominator"),
        Long("description"),
    ]);
    for (at, score) in card.dimensions.iter().enumerate() {
        let from = format!("/scorecard/dimensions/{at}");
        let of = |field: &str| format!("{from}/{field}");
        let value = |&figure: &f64, from: String| match score.unit.as_str() {
            "bytes" => bytes(figure as u64, from),
            _ => time_f(figure, from),
        };
        let row = row![
            quoted(&score.name, of("name")),
            table.reasons.figure(&score.score, &of("score"), |&value, from| {
                figures::decimal(value, 1, from)
            }),
            sentences::score_weight(score, &from),
            table.reasons.figure(&score.numerator, &of("numerator"), value),
            table
                .reasons
                .figure(&score.denominator, &of("denominator"), value),
            score
                .score
                .value
                .is_some()
                .then(|| quoted(&score.basis, of("basis"))),
        ];
        table.push(row);
    }
    table.finish()
}

/// Figures of the breakdown chart.
pub fn breakdown(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("window"),
        Number("steps"),
        Number("host time"),
        Number("exposed transfer"),
        Number("exposed wait"),
        Number("other blocked"),
        Number("communication"),
        Number("queued"),
        Number("hidden wait"),
        Number("overlap"),
        Number("known waits"),
        Word("check"),
    ]);
    for (at, entry) in session.breakdown.iter().enumerate() {
        let of = |field: &str| format!("/breakdown/{at}/{field}");
        let reasons = &mut table.reasons;
        // An incomplete part must not be shown like a complete one.
        let timed = |ns: i64, from: String| -> Prose {
            if entry.leaves_out() {
                "–".into()
            } else {
                time(ns, from).into()
            }
        };
        let row = row![
            figures::rank(session, entry.rank),
            time(entry.window_ns, of("window_ns")),
            count(entry.steps, of("steps")),
            timed(entry.host_ns, of("host_ns")),
            timed(
                sentences::exposed_transfer_ns(entry),
                less(of("exposed_communication_ns"), of("exposed_wait_ns"))
            ),
            match labels::waits_unknown(session) {
                Some(reason) => reasons.dash(reason),
                None => timed(entry.exposed_wait_ns, of("exposed_wait_ns")),
            },
            time(entry.other_blocked_ns, of("other_blocked_ns")),
            timed(entry.communication_ns, of("communication_ns")),
            reasons.figure(&entry.queued_ns, &of("queued_ns"), |&ns, from| time(ns, from)),
            timed(entry.hidden_wait_ns, of("hidden_wait_ns")),
            reasons.figure(&entry.overlap, &of("overlap"), |ratio, from| {
                prose![
                    figures::share(ratio, &from),
                    " (",
                    time(ratio.numerator, format!("{from}/numerator")),
                    " of ",
                    time(ratio.denominator, format!("{from}/denominator")),
                    ")"
                ]
            }),
            reasons.figure(
                &entry.operations_with_wait_seen,
                &of("operations_with_wait_seen"),
                |ratio, from| prose![
                    count(ratio.numerator.unsigned_abs(), format!("{from}/numerator")),
                    " of ",
                    count(ratio.denominator.unsigned_abs(), format!("{from}/denominator"))
                ]
            ),
            if entry.adds_up {
                ""
            } else {
                "the parts do not add up to the window"
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// Waiting caused by each rank.
pub fn blame(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("caused waiting"),
        Number("exposed part"),
        Number("exposed, in steps"),
        Number("job time lost"),
        Number("exposed part"),
        Number("exposed, in steps"),
        Number("arrived last"),
    ]);
    for (at, entry) in session.blame.ranks.iter().enumerate() {
        let of = |field: &str| format!("/blame/ranks/{at}/{field}");
        let last_of = |launches: u64| {
            let (last, all) = (of("last_arrivals"), of("launches"));
            prose![
                count(entry.last_arrivals, &last),
                " of ",
                count(launches, &all),
                " (",
                percent(entry.last_arrivals as f64 / launches as f64, share(&last, &all)),
                ")"
            ]
        };
        if entry.launches == 0 {
            // The rank may have caused waiting: its operations lack a member or their completion times.
            let dash = table.reasons.dash("no operation of the rank has known waits");
            let mut row = row![figures::rank(session, entry.rank)];
            row.resize(7, dash);
            table.push(row);
            continue;
        }
        table.push(row![
            figures::rank(session, entry.rank),
            rank_time(entry.caused_rank_ns, of("caused_rank_ns")),
            rank_time(entry.caused_exposed_rank_ns, of("caused_exposed_rank_ns")),
            rank_time(
                entry.caused_exposed_in_steps_rank_ns,
                of("caused_exposed_in_steps_rank_ns")
            ),
            time(entry.job_lost_ns, of("job_lost_ns")),
            time(entry.job_lost_exposed_ns, of("job_lost_exposed_ns")),
            time(
                entry.job_lost_exposed_in_steps_ns,
                of("job_lost_exposed_in_steps_ns")
            ),
            last_of(entry.launches),
        ]);
    }
    table.finish()
}

/// Ranks and their logs.
pub fn ranks(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("host"),
        Number("process"),
        Number("operations"),
        Number("lost"),
        Number("log"),
        Word("ended"),
        Long("in progress at the end"),
    ]);
    for (at, rank) in session.ranks.iter().enumerate() {
        let of = |field: &str| format!("/ranks/{at}/{field}");
        let in_flight = rank.in_flight.iter().enumerate();
        let in_flight = in_flight.map(|(place, call)| quoted(call, format!("/ranks/{at}/in_flight/{place}")));
        table.push(row![
            quoted(&rank.name, of("name")),
            figures::host(session, rank.host),
            plain(rank.pid, of("pid")),
            count(rank.operations, of("operations")),
            count(rank.lost, of("lost")),
            bytes(rank.log_bytes, of("log_bytes")),
            match rank.ending {
                LogEnding::Closed => "closed",
                LogEnding::LiveArea => "killed or crashed; its last records were found",
                LogEnding::Torn => "killed or crashed; its last seconds are missing",
                LogEnding::Running => "still running",
                LogEnding::Unknown => rank.ending.name(),
            },
            sentences::some_prose(in_flight, 4),
        ]);
    }
    table.finish()
}

/// Hosts and the accuracy of their clocks.
pub fn hosts(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("host"),
        Number("ranks"),
        Word("counter"),
        Number("ticks per second"),
        Number("calibrations"),
        Number("error inside the host, ±"),
        Number("error of its wall clock, ±"),
        Word("note"),
    ]);
    for (at, host) in session.hosts.iter().enumerate() {
        let of = |field: &str| format!("/hosts/{at}/{field}");
        let reasons = &mut table.reasons;
        let row = row![
            quoted(&host.name, of("name")),
            count(host.ranks.len() as u64, number(of("ranks/*"))),
            quoted(&host.counter, of("counter")),
            reasons.figure(&host.ticks_per_second, &of("ticks_per_second"), |&ticks, from| {
                figures::decimal(ticks, 0, from)
            }),
            plain(host.calibrations, of("calibrations")),
            time(host.error_ns, of("error_ns")),
            reasons.figure(&host.realtime_error_ns, &of("realtime_error_ns"), |&ns, from| {
                time(ns, from)
            }),
            if host.counter_distrusted {
                "the kernel stopped trusting the counter"
            } else {
                ""
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// Pairs of hosts and the accuracy of their clock offsets. Returns nothing with one host.
pub fn clock_pairs(session: &Session) -> String {
    let Some(evidence) = &session.axis.evidence else {
        return String::new();
    };
    let mut table = Table::new(&[
        Word("host"),
        Word("and host"),
        Number("error, ±"),
        Number("common instances"),
        Number("left out"),
        Number("segments without a jump"),
        Word("assumed inside the interval"),
    ]);
    for (at, pair) in evidence.pairs.iter().enumerate() {
        let of = |field: &str| format!("/axis/evidence/pairs/{at}/{field}");
        let reasons = &mut table.reasons;
        let by_leaves = pair
            .segments
            .iter()
            .all(|segment| segment.assumed_from == "leaves-coincide");
        let row = row![
            figures::host(session, pair.one),
            figures::host(session, pair.other),
            reasons.figure(&pair.error_ns, &of("error_ns"), |&ns, from| time(ns, from)),
            count(pair.sightings, of("sightings")),
            count(pair.left_out, of("left_out")),
            count(pair.segments.len() as u64, number(of("segments/*"))),
            if by_leaves {
                "where operations that end together on all members coincide"
            } else {
                "at the offset of the wall clocks, within the bounds"
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// Device times reported by libraries.
pub fn devices(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("source"),
        Number("operations with times"),
        Number("graph replays"),
        Number("calls known only from it"),
        Number("calls known only from hooks"),
        Number("device records without a call"),
        Number("clock drift"),
        Number("late on the axis, at most"),
        Number("in the middle"),
    ]);
    for (at, device) in session.devices.iter().enumerate() {
        let of = |field: &str| format!("/devices/{at}/{field}");
        let reasons = &mut table.reasons;
        let row = row![
            figures::rank(session, device.rank),
            quoted(&device.source, of("source")),
            count(device.operations, of("operations")),
            count(device.replays, of("replays")),
            count(device.bypassed, of("bypassed")),
            count(device.hooks_only, of("hooks_only")),
            count(device.without_call, of("without_call")),
            reasons.figure(&device.drift_ppm, &of("drift_ppm"), |&ppm, from| {
                prose![figures::decimal(ppm, 1, from), " ppm"]
            }),
            reasons.figure(&device.widest_error_ns, &of("widest_error_ns"), |&ns, from| {
                time(ns, from)
            }),
            reasons.figure(&device.median_error_ns, &of("median_error_ns"), |&ns, from| {
                time(ns, from)
            }),
        ];
        table.push(row);
    }
    table.finish()
}

/// Device activity recorded by CUPTI.
pub fn activity(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("kernels"),
        Number("communication kernels"),
        Number("copies and sets"),
        Number("lost"),
        Number("recorded for"),
        Number("compute"),
        Number("overlapped"),
        Number("transfer"),
        Number("waiting"),
        Number("memory"),
        Number("idle"),
        Number("overlap"),
        Number("stalls"),
        Number("stalled"),
        Number("other profiler"),
        Long("not recorded because"),
    ]);
    for (at, entry) in session.activity.iter().enumerate() {
        let of = |field: &str| format!("/activity/{at}/{field}");
        let window = of("window_ns");
        let share = |ns: i64, from: String| sentences::share_of(ns, entry.window_ns, &from, &window);
        let reasons = &mut table.reasons;
        let row = row![
            figures::rank(session, entry.rank),
            count(entry.kernels, of("kernels")),
            count(entry.communication_kernels, of("communication_kernels")),
            count(entry.copies + entry.sets, sum(&[of("copies"), of("sets")])),
            count(entry.lost, of("lost")),
            time(
                entry.covered_ns + entry.covered_communication_ns,
                sum(&[of("covered_ns"), of("covered_communication_ns")])
            ),
            share(entry.compute_only_ns, of("compute_only_ns")),
            share(entry.overlapped_ns, of("overlapped_ns")),
            share(
                entry.exposed_communication_ns - entry.exposed_wait_ns,
                less(of("exposed_communication_ns"), of("exposed_wait_ns"))
            ),
            match labels::waits_unknown(session) {
                Some(reason) => reasons.dash(reason),
                None => share(entry.exposed_wait_ns, of("exposed_wait_ns")),
            },
            share(entry.exposed_memory_ns, of("exposed_memory_ns")),
            share(entry.idle_ns, of("idle_ns")),
            reasons.figure(&entry.overlap, &of("overlap"), |ratio, from| {
                figures::share(ratio, &from)
            }),
            count(entry.device_stalls.count, of("device_stalls/count")),
            time(entry.device_stalls.ns, of("device_stalls/ns")),
            (entry.yielded_ns > 0).then(|| time(entry.yielded_ns, of("yielded_ns"))),
            entry.reason.as_ref().map(|reason| quoted(reason, of("reason"))),
        ];
        table.push(row);
    }
    table.finish()
}

/// Figures of Holistic Trace Analysis for an import, and its idle categories.
pub fn beside_hta(session: &Session, hta: &HtaFigures) -> String {
    let columns = hta_figures::COLUMNS.map(Number);
    let mut table = Table::new(&columns);
    for row in hta_figures::rows(session, hta).into_iter() {
        table.push(row);
    }
    let mut idle = Table::new(&[
        Number("rank"),
        Number("stream"),
        Word("idle category"),
        Number("idle time"),
        Number("ratio"),
    ]);
    for (at, row) in hta.idle.iter().enumerate() {
        let of = |field: &str| format!("/imported/hta/idle/{at}/{field}");
        idle.push(row![
            plain(row.rank, of("rank")),
            plain(row.stream, of("stream")),
            quoted(&row.idle_category, of("idle_category")),
            time(
                row.idle_time_us.saturating_mul(1000),
                times(of("idle_time"), "1000")
            ),
            match row.idle_time_ratio {
                Some(ratio) => figures::decimal(ratio, 2, of("idle_time_ratio")).into(),
                None => Prose::from("–"),
            },
        ]);
    }
    table.finish() + &idle.finish()
}

/// Stalls of at least 1 ms, in which devices did not compute.
pub fn stalls(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("cause"),
        Number("stalls"),
        Number("time"),
        Long("waited for"),
    ]);
    for (at, entry) in session.activity.iter().enumerate() {
        let from = format!("/activity/{at}/device_stalls");
        for (place, cause) in entry.device_stalls.by_cause.iter().enumerate() {
            let late = entry.device_stalls.by_late_rank.iter().enumerate();
            let late = late.map(|(place, sum)| {
                let ns = time(sum.ns, format!("{from}/by_late_rank/{place}/ns"));
                prose![figures::rank(session, sum.rank), " ", ns]
            });
            table.push(row![
                figures::rank(session, entry.rank),
                sentences::stall_cause(&cause.cause),
                count(cause.count, format!("{from}/by_cause/{place}/count")),
                time(cause.ns, format!("{from}/by_cause/{place}/ns")),
                // The value is for all causes together, so it appears once.
                (place == 0).then(|| Prose::join(late, ", ")),
            ]);
        }
    }
    table.finish()
}

/// Recurring stalls: places in a step at which devices repeatedly did not compute.
pub fn recurring_stalls(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("steps"),
        Number("each"),
        Word("cause"),
        Long("before"),
    ]);
    for (at, entry) in session.activity.iter().enumerate() {
        for (place_at, place) in entry.recurring_stalls.iter().enumerate() {
            let of = |field: &str| format!("/activity/{at}/recurring_stalls/{place_at}/{field}");
            table.push(row![
                figures::rank(session, entry.rank),
                prose![
                    count(place.steps, of("steps")),
                    " of ",
                    count(place.of_steps, of("of_steps"))
                ],
                time(
                    place.ns / i64::try_from(place.steps.max(1)).unwrap_or(1),
                    share(of("ns"), of("steps"))
                ),
                sentences::stall_cause(&place.cause),
                figures::kernel(&place.before, of("before")),
            ]);
        }
    }
    table.finish()
}

/// Idle gaps of streams by cause.
pub fn idle(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("cause"),
        Number("gaps"),
        Number("time, all streams"),
    ]);
    for (at, entry) in session.activity.iter().enumerate() {
        let known = entry.idle_by_cause.iter().enumerate();
        for (place, idle) in known.filter(|(_, idle)| idle.count > 0) {
            let of = |field: &str| format!("/activity/{at}/idle_by_cause/{place}/{field}");
            table.push(row![
                figures::rank(session, entry.rank),
                quoted(&idle.cause, of("cause")),
                count(idle.count, of("count")),
                time(idle.ns, of("ns")),
            ]);
        }
    }
    table.finish()
}

/// Kernels with the longest total time.
pub fn kernels(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("runs"),
        Number("time"),
        Number("each"),
        Long("kernel"),
    ]);
    for (at, entry) in session.activity.iter().enumerate() {
        for (place, kernel) in entry.top.iter().enumerate() {
            let of = |field: &str| format!("/activity/{at}/top/{place}/{field}");
            table.push(row![
                figures::rank(session, entry.rank),
                count(kernel.count, of("count")),
                time(kernel.ns, of("ns")),
                time(
                    kernel.ns / i64::try_from(kernel.count.max(1)).unwrap_or(1),
                    share(of("ns"), of("count"))
                ),
                figures::kernel(&kernel.name, of("name")),
            ]);
        }
    }
    table.finish()
}

/// Traffic of proxies between ranks.
pub fn traffic(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("peer"),
        Number("communicator"),
        Number("sent"),
        Number("received"),
        Number("waited for the device"),
        Number("for the peer"),
        Number("for the network"),
    ]);
    for (at, entry) in session.traffic.iter().enumerate() {
        let of = |field: &str| format!("/traffic/{at}/{field}");
        table.push(row![
            figures::rank(session, entry.rank),
            match entry.peer_rank {
                Some(rank) => figures::rank(session, rank).into(),
                None => prose!["member ", plain(entry.peer, of("peer"))],
            },
            match entry.communicator {
                Some(index) => plain(index, of("communicator")).into(),
                None => Prose::from("–"),
            },
            bytes(entry.sent_bytes, of("sent_bytes")),
            bytes(entry.received_bytes, of("received_bytes")),
            time(entry.device_wait_ns, of("device_wait_ns")),
            time(entry.peer_wait_ns, of("peer_wait_ns")),
            time(entry.network_wait_ns, of("network_wait_ns")),
        ]);
    }
    table.finish()
}

/// Sums of ranks by device or host; `from` is their source.
pub fn rolled_up(rollup: &Rollup, from: &str) -> String {
    let [of, numbers @ ..] = rollup_rows::GROUP_COLUMNS;
    let columns: Vec<Column> = std::iter::once(Word(of)).chain(numbers.map(Number)).collect();
    let mut table = Table::new(&columns);
    for (at, group) in rollup.groups.iter().enumerate() {
        let row = rollup_rows::group_row(group, &format!("{from}/groups/{at}"), &mut table.reasons);
        table.push(row);
    }
    if let Some(total) = &rollup.total {
        let row = rollup_rows::group_row(total, &format!("{from}/total"), &mut table.reasons);
        table.push_last(row);
    }
    table.finish()
}

/// Operations by the role of their communicators; `from` is the source of the sums.
pub fn roles(rollup: &Rollup, from: &str) -> String {
    let [role, numbers @ ..] = rollup_rows::ROLE_COLUMNS;
    let columns: Vec<Column> = std::iter::once(Word(role)).chain(numbers.map(Number)).collect();
    let mut table = Table::new(&columns);
    for (at, role) in rollup.roles.iter().enumerate() {
        let row = rollup_rows::role_row(role, &format!("{from}/roles/{at}"), &mut table.reasons);
        table.push(row);
    }
    table.finish()
}

/// Named parts of host time, and the unnamed rest.
pub fn named_times(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("part"),
        Number("times"),
        Number("in steps"),
        Number("share of the steps"),
        Number("in the run"),
        Number("on other threads"),
    ]);
    let named = &session.named_times;
    for (at, entry) in named.ranks.iter().enumerate() {
        let steps = format!("/named_times/ranks/{at}/steps_ns");
        for (place, part) in entry.parts.iter().enumerate() {
            let of = |field: &str| format!("/named_times/ranks/{at}/parts/{place}/{field}");
            table.push(row![
                figures::rank(session, entry.rank),
                sentences::pause_kind(&part.kind),
                count(part.count, of("count")),
                time(part.in_steps_ns, of("in_steps_ns")),
                sentences::share_of(part.in_steps_ns, entry.steps_ns, &of("in_steps_ns"), &steps),
                time(part.in_run_ns, of("in_run_ns")),
                time(part.elsewhere_ns, of("elsewhere_ns")),
            ]);
        }
    }
    for (at, kind) in named.not_seen.iter().enumerate() {
        let reason = quoted(&kind.reason, format!("/named_times/not_seen/{at}/reason"));
        let dash = table.reasons.dash(reason);
        let mut row = row!["all ranks", sentences::pause_kind(&kind.kind)];
        row.resize(7, dash);
        table.push_last(row);
    }
    table.finish()
}

/// Groups of communicators by role.
pub fn groups(session: &Session) -> String {
    let [role, known_by, groups, size, distance, scope, world] = structure::GROUP_COLUMNS;
    let mut table = Table::new(&[
        Word(role),
        Word(known_by),
        Number(groups),
        Number(size),
        Number(distance),
        Word(scope),
        Number(world),
    ]);
    for row in structure::group_rows(session) {
        table.push(row);
    }
    table.finish()
}

/// Stages of pipelines.
pub fn stages(session: &Session) -> String {
    let [stage, ranks, step, own, bubble, ideal, rest] = structure::STAGE_COLUMNS;
    let mut table = Table::new(&[
        Word(stage),
        Long(ranks),
        Number(step),
        Number(own),
        Number(bubble),
        Number(ideal),
        Number(rest),
    ]);
    for row in structure::stage_rows(session, &mut table.reasons) {
        table.push(row);
    }
    table.finish()
}

/// Ranks at the same position.
pub fn peers(session: &Session) -> String {
    let [position, known_by, peers] = structure::PEER_COLUMNS;
    let mut table = Table::new(&[Number(position), Word(known_by), Long(peers)]);
    for row in structure::peer_rows(session) {
        table.push(row);
    }
    table.finish()
}

/// Communicators.
pub fn communicators(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("library"),
        Word("identity"),
        Word("source"),
        Number("size"),
        Long("members"),
        Word("role"),
        Word("scope"),
        Number("made at"),
        Number("operations"),
        Long("name"),
    ]);
    for (at, communicator) in session.communicators.iter().enumerate() {
        let of = |field: &str| format!("/communicators/{at}/{field}");
        let members = communicator.members.iter().map(|member| match member {
            Some(rank) => Prose::from(figures::rank(session, *rank)),
            None => "not seen".into(),
        });
        table.push(row![
            quoted(&communicator.library, of("library")),
            identity(&communicator.identity, of("identity")),
            quoted(&communicator.identity_source, of("identity_source")),
            plain(communicator.size, of("size")),
            sentences::some_prose(members, 16),
            quoted(&communicator.role, of("role")),
            quoted(communicator.scope, of("scope")),
            time(communicator.created_ns, of("created_ns")),
            count(communicator.operations, of("operations")),
            quoted(&communicator.name, of("name")),
        ]);
    }
    table.finish()
}

/// Returns the start of a communicator's identity, which is enough to distinguish it from others.
fn identity(identity: &str, from: String) -> figures::Shown {
    part(identity.chars().take(12).collect::<String>(), from)
}

/// Lost records.
pub fn losses(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("where"),
        Word("cause"),
        Word("records"),
        Number("lost"),
        Number("from"),
        Number("to"),
        Long("advice"),
    ]);
    for (at, loss) in session.losses.iter().enumerate() {
        let of = |field: &str| format!("/losses/{at}/{field}");
        table.push(row![
            match loss.rank {
                Some(rank) => figures::rank(session, rank),
                None => quoted(&loss.source, of("source")),
            },
            quoted(&loss.cause, of("cause")),
            quoted(&loss.kind, of("kind")),
            count(loss.count, of("count")),
            time(loss.first_ns, of("first_ns")),
            time(loss.last_ns, of("last_ns")),
            quoted(&loss.advice, of("advice")),
        ]);
    }
    table.finish()
}

/// Unmatched operations.
pub fn unmatched(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("kind"),
        Word("operation"),
        Word("communicator"),
        Number("tag"),
        Number("n-th"),
        Number("at"),
        Long("seen"),
        Long("missing members"),
        Long("problem"),
    ]);
    for (at, entry) in session.matching.listed.iter().enumerate() {
        let of = |field: &str| format!("/matching/listed/{at}/{field}");
        let missing = entry.missing_members.iter().enumerate();
        let missing = missing
            .map(|(place, &member)| plain(member, format!("/matching/listed/{at}/missing_members/{place}")));
        let seen = entry.ranks.iter().map(|&rank| figures::rank(session, rank));
        let communicator = entry.communicator as usize;
        table.push(row![
            quoted(&entry.kind, of("kind")),
            quoted(&entry.operation, of("operation")),
            session.communicators.get(communicator).map(|known| {
                identity(&known.identity, format!("/communicators/{communicator}/identity"))
            }),
            plain(entry.tag, of("tag")),
            plain(entry.sequence, of("sequence")),
            time(entry.start_ns, of("start_ns")),
            sentences::some_prose(seen, 8),
            sentences::some_prose(missing, 8),
            quoted(&entry.reason, of("reason")),
        ]);
    }
    table.finish()
}

/// Problems of the recordings.
pub fn problems(session: &Session) -> String {
    let mut table = Table::new(&[Word("rank"), Long("file"), Number("at byte"), Long("problem")]);
    for (at, problem) in session.problems.listed.iter().enumerate() {
        let of = |field: &str| format!("/problems/listed/{at}/{field}");
        table.push(row![
            problem.rank.map(|rank| figures::rank(session, rank)),
            problem.file.as_ref().map(|file| quoted(file, of("file"))),
            problem
                .offset_bytes
                .map(|offset| count(offset, of("offset_bytes"))),
            quoted(&problem.what, of("what")),
        ]);
    }
    table.finish()
}
