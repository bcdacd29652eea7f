//! The page's tables, one function each.

use super::table::{Column, Table};
use crate::kernel_name;
use crate::report::{beside_hta, rollup_rows, structure, units, words};
use crate::rollup::Rollup;
use Column::{Long, Number, Word};
use rankscope_formats::session::{HtaFigures, Scorecard, Session};

/// Rows at most in lists that grow with the job.
pub const MOST: usize = 500;

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
    for class in session.operations.iter().take(MOST) {
        let reasons = &mut table.reasons;
        let row = vec![
            format!("{} {}", class.library, words::operation(class)),
            words::size_class(class).unwrap_or_else(|| "not known".to_owned()),
            format!("{}, {}", class.role, class.scope),
            class.members.to_string(),
            units::count(class.operations),
            if class.failed > 0 {
                units::count(class.failed)
            } else {
                String::new()
            },
            reasons.figure(&class.bytes, |&bytes| units::bytes(bytes)),
            words::class_wait(class, class.exposed_wait_rank_ns),
            words::class_wait(class, class.hidden_wait_rank_ns),
            reasons.figure(&class.transfer_ns, |times| units::time_f(times.p50)),
            reasons.figure(&class.transfer_ns, |times| units::time_f(times.p99)),
            reasons.figure(&class.bus_bytes_per_s, |rates| units::rate(rates.p50)),
            words::bound_by(class).unwrap_or("").to_owned(),
            reasons.figure(&class.algorithm_bytes_per_s, |rates| units::rate(rates.p50)),
            reasons.figure(&class.effective_bytes_per_s, |rates| units::rate(rates.p50)),
            reasons.figure(&class.duration_ns, |times| units::time_f(times.p50)),
            reasons.figure(&class.queue_ns, |times| units::time_f(times.p50)),
        ];
        table.push(row);
    }
    table.finish()
}

/// The dimensions of a scorecard, with the figures behind each.
pub fn scorecard(card: &Scorecard) -> String {
    let mut table = Table::new(&[
        Word("dimension"),
        Number("score"),
        Number("weight"),
        Number("numerator"),
        Number("denominator"),
        Long("what"),
    ]);
    for score in &card.dimensions {
        let value = |figure: f64| match score.unit.as_str() {
            "bytes" => units::bytes(figure as u64),
            _ => units::time_f(figure),
        };
        let row = vec![
            score.name.clone(),
            table.reasons.figure(&score.score, |value| format!("{value:.1}")),
            words::score_weight(score),
            table.reasons.figure(&score.numerator, |&figure| value(figure)),
            table.reasons.figure(&score.denominator, |&figure| value(figure)),
            if score.score.value.is_some() {
                score.basis.clone()
            } else {
                String::new()
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// The figures behind the breakdown's picture.
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
        Number("waits seen"),
        Word("check"),
    ]);
    for entry in session.breakdown.iter().take(MOST) {
        let reasons = &mut table.reasons;
        // A part of which pieces are missing is not told as if it were whole.
        let timed = |ns: i64| {
            if entry.leaves_out() {
                "–".to_owned()
            } else {
                units::time(ns)
            }
        };
        let row = vec![
            words::rank_name(session, entry.rank),
            units::time(entry.window_ns),
            units::count(entry.steps),
            timed(entry.host_ns),
            timed(words::exposed_transfer_ns(entry)),
            match words::waits_unknown(session) {
                Some(reason) => reasons.dash(reason),
                None => timed(entry.exposed_wait_ns),
            },
            units::time(entry.other_blocked_ns),
            timed(entry.communication_ns),
            reasons.figure(&entry.queued_ns, |&ns| units::time(ns)),
            timed(entry.hidden_wait_ns),
            reasons.figure(&entry.overlap, |ratio| {
                format!(
                    "{} ({} of {})",
                    units::percent(ratio.share()),
                    units::time(ratio.numerator),
                    units::time(ratio.denominator)
                )
            }),
            reasons.figure(&entry.operations_with_wait_seen, |ratio| {
                format!(
                    "{} of {}",
                    units::count(ratio.numerator as u64),
                    units::count(ratio.denominator as u64)
                )
            }),
            if entry.adds_up {
                String::new()
            } else {
                "the parts do not add up to the window".to_owned()
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// Who caused waiting.
pub fn blame(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("caused waiting"),
        Number("of it exposed"),
        Number("exposed, in steps"),
        Number("job time lost"),
        Number("of it exposed"),
        Number("exposed, in steps"),
        Number("arrived last"),
    ]);
    for entry in session.blame.ranks.iter().take(MOST) {
        table.push(vec![
            words::rank_name(session, entry.rank),
            units::rank_time(entry.caused_rank_ns),
            units::rank_time(entry.caused_exposed_rank_ns),
            units::rank_time(entry.caused_exposed_in_steps_rank_ns),
            units::time(entry.job_lost_ns),
            units::time(entry.job_lost_exposed_ns),
            units::time(entry.job_lost_exposed_in_steps_ns),
            match entry.launches {
                0 => String::new(),
                launches => format!(
                    "{} of {} ({})",
                    units::count(entry.last_arrivals),
                    units::count(launches),
                    units::percent(entry.last_arrivals as f64 / launches as f64)
                ),
            },
        ]);
    }
    table.finish()
}

/// Every rank and its log.
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
    for rank in session.ranks.iter().take(MOST) {
        table.push(vec![
            rank.name.clone(),
            session
                .hosts
                .get(rank.host as usize)
                .map_or_else(String::new, |host| host.name.clone()),
            rank.pid.to_string(),
            units::count(rank.operations),
            units::count(rank.lost),
            units::bytes(rank.log_bytes),
            match rank.ending.as_str() {
                "closed" => "closed".to_owned(),
                "live-area" => "killed or crashed; its last records were found".to_owned(),
                "torn" => "killed or crashed; its last seconds are missing".to_owned(),
                "running" => "still ran".to_owned(),
                other => other.to_owned(),
            },
            words::some_of(&rank.in_flight, 4),
        ]);
    }
    table.finish()
}

/// Hosts and how well their clocks are known.
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
    for host in session.hosts.iter().take(MOST) {
        let reasons = &mut table.reasons;
        let row = vec![
            host.name.clone(),
            host.ranks.len().to_string(),
            host.counter.clone(),
            reasons.figure(&host.ticks_per_second, |&ticks| format!("{ticks:.0}")),
            host.calibrations.to_string(),
            units::time(host.error_ns),
            reasons.figure(&host.realtime_error_ns, |&ns| units::time(ns)),
            if host.counter_distrusted {
                "the kernel stopped trusting the counter".to_owned()
            } else {
                String::new()
            },
        ];
        table.push(row);
    }
    table.finish()
}

/// Pairs of hosts and how well their clocks are tied; nothing with one host.
pub fn clock_pairs(session: &Session) -> String {
    let Some(evidence) = &session.axis.evidence else {
        return String::new();
    };
    let mut table = Table::new(&[
        Word("host"),
        Word("and host"),
        Number("error, ±"),
        Number("seen together"),
        Number("left out"),
        Number("stretches without a jump"),
        Word("assumed inside the interval"),
    ]);
    let name = |host: u32| {
        session
            .hosts
            .get(host as usize)
            .map_or_else(String::new, |host| host.name.clone())
    };
    for pair in evidence.pairs.iter().take(MOST) {
        let reasons = &mut table.reasons;
        let by_leaves = pair
            .segments
            .iter()
            .all(|segment| segment.assumed_from == "leaves-coincide");
        let row = vec![
            name(pair.one),
            name(pair.other),
            reasons.figure(&pair.error_ns, |&ns| units::time(ns)),
            units::count(pair.sightings),
            units::count(pair.left_out),
            pair.segments.len().to_string(),
            if by_leaves {
                "where operations that all leave together leave together"
            } else {
                "where wall clocks say, as far as bounds allow"
            }
            .to_owned(),
        ];
        table.push(row);
    }
    table.finish()
}

/// What libraries told of the work on devices.
pub fn devices(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("told by"),
        Number("operations with times"),
        Number("replays of graphs"),
        Number("calls known from it alone"),
        Number("calls known from hooks alone"),
        Number("device records without a call"),
        Number("clock drift"),
        Number("late on the axis, at most"),
        Number("in the middle"),
    ]);
    for device in session.devices.iter().take(MOST) {
        let reasons = &mut table.reasons;
        let row = vec![
            words::rank_name(session, device.rank),
            device.source.clone(),
            units::count(device.operations),
            units::count(device.replays),
            units::count(device.bypassed),
            units::count(device.hooks_only),
            units::count(device.without_call),
            reasons.figure(&device.drift_ppm, |ppm| format!("{ppm:.1} ppm")),
            reasons.figure(&device.widest_error_ns, |&ns| units::time(ns)),
            reasons.figure(&device.median_error_ns, |&ns| units::time(ns)),
        ];
        table.push(row);
    }
    table.finish()
}

/// What devices did, as CUPTI tells.
pub fn activity(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("kernels"),
        Number("of communication"),
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
    for entry in session.activity.iter().take(MOST) {
        let part = |ns: i64| words::share_of(ns, entry.window_ns);
        let reasons = &mut table.reasons;
        let row = vec![
            words::rank_name(session, entry.rank),
            units::count(entry.kernels),
            units::count(entry.communication_kernels),
            units::count(entry.copies + entry.sets),
            units::count(entry.lost),
            units::time(entry.covered_ns + entry.covered_communication_ns),
            part(entry.compute_only_ns),
            part(entry.overlapped_ns),
            part(entry.exposed_communication_ns - entry.exposed_wait_ns),
            match words::waits_unknown(session) {
                Some(reason) => reasons.dash(reason),
                None => part(entry.exposed_wait_ns),
            },
            part(entry.exposed_memory_ns),
            part(entry.idle_ns),
            reasons.figure(&entry.overlap, |ratio| units::percent(ratio.share())),
            units::count(entry.device_stalls.count),
            units::time(entry.device_stalls.ns),
            if entry.yielded_ns > 0 {
                units::time(entry.yielded_ns)
            } else {
                String::new()
            },
            entry.reason.clone().unwrap_or_default(),
        ];
        table.push(row);
    }
    table.finish()
}

/// What Holistic Trace Analysis says of an import, and why streams did nothing in its words.
pub fn beside_hta(session: &Session, figures: &HtaFigures) -> String {
    let columns = beside_hta::COLUMNS.map(Number);
    let mut table = Table::new(&columns);
    for row in beside_hta::rows(session, figures).into_iter().take(MOST) {
        table.push(row);
    }
    let mut idle = Table::new(&[
        Number("rank"),
        Number("stream"),
        Word("idle category"),
        Number("idle time"),
        Number("ratio"),
    ]);
    for row in figures.idle.iter().take(MOST) {
        idle.push(vec![
            row.rank.to_string(),
            row.stream.to_string(),
            row.idle_category.clone(),
            units::time(row.idle_time_us.saturating_mul(1000)),
            row.idle_time_ratio
                .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    table.finish() + &idle.finish()
}

/// Stretches of at least 1 ms in which devices did not compute.
pub fn stalls(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("cause"),
        Number("stalls"),
        Number("time"),
        Long("waited for"),
    ]);
    for entry in session.activity.iter().take(MOST) {
        let late: Vec<String> = entry
            .device_stalls
            .by_late_rank
            .iter()
            .map(|sum| format!("{} {}", words::rank_name(session, sum.rank), units::time(sum.ns)))
            .collect();
        for cause in &entry.device_stalls.by_cause {
            table.push(vec![
                words::rank_name(session, entry.rank),
                words::stall_cause(&cause.cause).to_owned(),
                units::count(cause.count),
                units::time(cause.ns),
                // Of all causes together: said once.
                if cause.cause == entry.device_stalls.by_cause[0].cause {
                    late.join(", ")
                } else {
                    String::new()
                },
            ]);
        }
    }
    table.finish()
}

/// Places in a step at which devices did not compute, again and again.
pub fn recurring_stalls(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("steps"),
        Number("each"),
        Word("cause"),
        Long("before"),
    ]);
    for entry in session.activity.iter().take(MOST) {
        for place in &entry.recurring_stalls {
            table.push(vec![
                words::rank_name(session, entry.rank),
                format!(
                    "{} of {}",
                    units::count(place.steps),
                    units::count(place.of_steps)
                ),
                units::time(place.ns / i64::try_from(place.steps.max(1)).unwrap_or(1)),
                words::stall_cause(&place.cause).to_owned(),
                kernel_name::short(&place.before),
            ]);
        }
    }
    table.finish()
}

/// Why streams of devices did nothing.
pub fn idle(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("cause"),
        Number("gaps"),
        Number("time, all streams"),
    ]);
    for entry in session.activity.iter().take(MOST) {
        for idle in entry.idle_by_cause.iter().filter(|idle| idle.count > 0) {
            table.push(vec![
                words::rank_name(session, entry.rank),
                idle.cause.clone(),
                units::count(idle.count),
                units::time(idle.ns),
            ]);
        }
    }
    table.finish()
}

/// The kernels that took most time.
pub fn kernels(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Number("runs"),
        Number("time"),
        Number("each"),
        Long("kernel"),
    ]);
    for entry in session.activity.iter().take(MOST) {
        for kernel in &entry.top {
            table.push(vec![
                words::rank_name(session, entry.rank),
                units::count(kernel.count),
                units::time(kernel.ns),
                units::time(kernel.ns / i64::try_from(kernel.count.max(1)).unwrap_or(1)),
                kernel_name::short(&kernel.name),
            ]);
        }
    }
    table.finish()
}

/// What proxies moved between ranks.
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
    for entry in session.traffic.iter().take(MOST) {
        table.push(vec![
            words::rank_name(session, entry.rank),
            entry.peer_rank.map_or_else(
                || format!("member {}", entry.peer),
                |rank| words::rank_name(session, rank),
            ),
            entry
                .communicator
                .map_or_else(|| "–".to_owned(), |index| index.to_string()),
            units::bytes(entry.sent_bytes),
            units::bytes(entry.received_bytes),
            units::time(entry.device_wait_ns),
            units::time(entry.peer_wait_ns),
            units::time(entry.network_wait_ns),
        ]);
    }
    table.finish()
}

/// Ranks together by device or host.
pub fn rolled_up(rollup: &Rollup) -> String {
    let [of, numbers @ ..] = rollup_rows::GROUP_COLUMNS;
    let columns: Vec<Column> = std::iter::once(Word(of)).chain(numbers.map(Number)).collect();
    let mut table = Table::new(&columns);
    for group in rollup.groups.iter().take(MOST).chain(&rollup.total) {
        let row = rollup_rows::group_row(group, &mut table.reasons);
        table.push(row);
    }
    table.finish()
}

/// Operations by the role of their communicators.
pub fn roles(rollup: &Rollup) -> String {
    let [role, numbers @ ..] = rollup_rows::ROLE_COLUMNS;
    let columns: Vec<Column> = std::iter::once(Word(role)).chain(numbers.map(Number)).collect();
    let mut table = Table::new(&columns);
    for role in rollup.roles.iter().take(MOST) {
        let row = rollup_rows::role_row(role, &mut table.reasons);
        table.push(row);
    }
    table.finish()
}

/// Named parts of the hosts' own time, and what nothing names.
pub fn named_times(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("rank"),
        Word("part"),
        Number("times"),
        Number("in steps"),
        Number("of the steps"),
        Number("in the run"),
        Number("on other threads"),
    ]);
    let named = &session.named_times;
    for entry in named.ranks.iter().take(MOST) {
        for part in &entry.parts {
            table.push(vec![
                words::rank_name(session, entry.rank),
                words::pause_kind(&part.kind).to_owned(),
                units::count(part.count),
                units::time(part.in_steps_ns),
                words::share_of(part.in_steps_ns, entry.steps_ns),
                units::time(part.in_run_ns),
                units::time(part.elsewhere_ns),
            ]);
        }
    }
    for kind in &named.not_seen {
        let dash = table.reasons.dash(&kind.reason);
        let mut row = vec!["all ranks".to_owned(), words::pause_kind(&kind.kind).to_owned()];
        row.extend(std::iter::repeat_n(dash, 5));
        table.push(row);
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
    let rows = structure::group_rows(session).into_iter().take(MOST);
    rows.for_each(|row| table.push(row));
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
    let rows = structure::stage_rows(session, &mut table.reasons);
    rows.into_iter().take(MOST).for_each(|row| table.push(row));
    table.finish()
}

/// Ranks of the same position.
pub fn peers(session: &Session) -> String {
    let [position, known_by, peers] = structure::PEER_COLUMNS;
    let mut table = Table::new(&[Number(position), Word(known_by), Long(peers)]);
    let rows = structure::peer_rows(session).into_iter().take(MOST);
    rows.for_each(|row| table.push(row));
    table.finish()
}

/// Communicators.
pub fn communicators(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("library"),
        Word("identity"),
        Word("known by"),
        Number("size"),
        Long("members"),
        Word("role"),
        Word("scope"),
        Number("made at"),
        Number("operations"),
        Long("name"),
    ]);
    for communicator in session.communicators.iter().take(MOST) {
        let members: Vec<String> = communicator
            .members
            .iter()
            .map(|member| {
                member.map_or_else(|| "not seen".to_owned(), |rank| words::rank_name(session, rank))
            })
            .collect();
        table.push(vec![
            communicator.library.clone(),
            communicator.identity.chars().take(12).collect(),
            communicator.identity_source.clone(),
            communicator.size.to_string(),
            words::some_of(&members, 16),
            communicator.role.clone(),
            communicator.scope.clone(),
            units::time(communicator.created_ns),
            units::count(communicator.operations),
            communicator.name.clone(),
        ]);
    }
    table.finish()
}

/// What could not be recorded.
pub fn losses(session: &Session) -> String {
    let mut table = Table::new(&[
        Word("where"),
        Word("cause"),
        Word("records"),
        Number("lost"),
        Number("from"),
        Number("to"),
        Long("what to do"),
    ]);
    for loss in session.losses.iter().take(MOST) {
        table.push(vec![
            loss.rank
                .map_or_else(|| loss.source.clone(), |rank| words::rank_name(session, rank)),
            loss.cause.clone(),
            loss.kind.clone(),
            units::count(loss.count),
            units::time(loss.first_ns),
            units::time(loss.last_ns),
            loss.advice.clone(),
        ]);
    }
    table.finish()
}

/// What did not match.
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
        Long("what is wrong"),
    ]);
    for entry in &session.matching.listed {
        let seen: Vec<String> = entry
            .ranks
            .iter()
            .map(|rank| words::rank_name(session, *rank))
            .collect();
        let missing: Vec<String> = entry.missing_members.iter().map(u32::to_string).collect();
        let communicator = session.communicators.get(entry.communicator as usize);
        table.push(vec![
            entry.kind.clone(),
            entry.operation.clone(),
            communicator.map_or_else(String::new, |known| known.identity.chars().take(12).collect()),
            entry.tag.to_string(),
            entry.sequence.to_string(),
            units::time(entry.start_ns),
            words::some_of(&seen, 8),
            words::some_of(&missing, 8),
            entry.reason.clone(),
        ]);
    }
    table.finish()
}

/// What was not as it should be.
pub fn problems(session: &Session) -> String {
    let mut table = Table::new(&[Word("rank"), Long("file"), Number("at byte"), Long("what")]);
    for problem in &session.problems.listed {
        table.push(vec![
            problem
                .rank
                .map_or_else(String::new, |rank| words::rank_name(session, rank)),
            problem.file.clone().unwrap_or_default(),
            problem.offset_bytes.map_or_else(String::new, units::count),
            problem.what.clone(),
        ]);
    }
    table.finish()
}
