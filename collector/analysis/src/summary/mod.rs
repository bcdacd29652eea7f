//! Builds `session.json` from the results of a merge.

pub mod axis;
pub mod counters;
pub mod devices;
pub mod gpus;
pub mod job_structure;
pub mod named_pauses;
pub mod scorecard;
pub mod surroundings;

use crate::findings::{self, Facts};
use crate::ingest::imported;
use crate::intervals::overlap;
use crate::measures::merge_result::MergeResult;
use crate::measures::step_board::StepBoard;
use crate::measures::step_board::matrix::ColumnCell;
use crate::model::declared::DeclaredLimits;
use crate::model::interval::Interval;
use crate::model::sources::{EVENTS, KERNEL_TIMES_ENDED, PLUGIN};
use crate::rank::{ActivitySums, ErrorWidth};
use crate::summary::scorecard::scorecard;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    Attempt, CommunicatorSummary, Connect, Coverage, DeviceSource, Figure, Host, LossSummary, Part,
    PartLeftOut, PeerTraffic, PendingOnDevice, ProblemSummary, Problems, Rank, RankBreakdown, Ratio,
    ReasonCount, SESSION_VERSION, Session, Steps, Tool, WaitMatrix, World,
};
use rankscope_formats::session::{LogEnding, Window};
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::recorder::COPIED_PROPERTY;
use std::time::{SystemTime, UNIX_EPOCH};

/// Interface version of NCCL 2.27, the first that reports the traffic of proxies.
const FIRST_WITH_TRAFFIC: &str = "4";

/// Minimum share of completed operations with a recorded wait, in percent. Below it the overlap is unknown.
const WAITS_SEEN_PERCENT: u64 = 99;

/// Builds the summary, without its tables. `problems.listed` contains all problems, because their table is written from
/// it.
pub fn session(parts: &MergeResult<'_>) -> Session {
    let mut problems = parts.problems.clone();
    problems.extend(late_problems(parts));
    let mut totals = parts.measures.totals.clone();
    totals.records = parts.sums.iter().map(|sums| sums.log.records).sum();
    let losses = losses(parts);
    totals.lost = losses.iter().map(|loss| loss.count).sum();
    let spans = parts.sums.iter().filter_map(|sums| sums.log.span);
    let span = spans.reduce(Interval::spanning).unwrap_or_default();
    let mut axis = parts.clocks.axis.clone();
    (axis.start_ns, axis.end_ns) = (span.start_ns, span.end_ns);
    axis.evidence = parts.clocks.learnt().map(|learnt| {
        crate::summary::axis::evidence(parts.clocks, learnt, parts.measures.clock_check.result)
    });
    let breakdown = breakdown(parts);
    let mut session = Session {
        version: SESSION_VERSION,
        tool: this_program(),
        written_unix_ns: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
        directories: parts
            .directories
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        imported: imported::of_logs(parts.logs),
        part: part(parts),
        axis,
        coverage: coverage(parts),
        attempts: attempts(parts),
        worlds: worlds(parts),
        hosts: hosts(parts),
        surroundings: surroundings::surroundings(parts),
        ranks: ranks(parts, &losses),
        communicators: communicators(parts),
        structure: job_structure::structure(parts),
        totals,
        operations: parts.measures.classes.table(),
        connect: connect(parts),
        steps: steps(parts, &breakdown),
        named_times: named_pauses::named_times(parts),
        counters: counters::counters(parts),
        gpus: gpus::gpus(parts),
        breakdown,
        activity: devices::activity(parts),
        devices: devices(parts),
        traffic: traffic(parts),
        waits: matrix(parts),
        blame: parts.measures.blame.summary(),
        findings: Vec::new(),
        scorecard: None,
        small_launches: parts.measures.classes.small_launches(),
        matching: parts.measures.matches.matching.clone(),
        losses,
        problems: Problems {
            total: problems.len() as u64,
            listed: problems,
        },
        tables: Vec::new(),
    };
    // The first period of a run begins with the run.
    let start_ns = session.axis.start_ns;
    if let Some(part) = session.part.as_mut().filter(|part| part.from_ns == i64::MIN) {
        part.from_ns = start_ns;
    }
    let facts = Facts {
        session: &session,
        parts,
    };
    session.findings = findings::all(&facts);
    session.scorecard = Some(scorecard(&session, &DeclaredLimits::default()));
    session
}

/// Returns the name and the version of this program.
pub fn this_program() -> Tool {
    Tool {
        name: "rankscope".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Describes the merged part, if only a part of the run was merged.
fn part(parts: &MergeResult<'_>) -> Option<Part> {
    let (window, left_out) = (parts.part?, parts.measures.left_out.as_ref()?);
    Some(Part {
        from_ns: window.from_ns,
        until_ns: window.has_end().then_some(window.until_ns),
        numbers_steps_from_its_begin: true,
        left_out: PartLeftOut {
            instances: left_out.instances,
            not_completed: left_out.not_completed,
            operations: left_out.operations,
            steps: parts.measures.steps.boards.iter().map(StepBoard::left_out).sum(),
            messages: left_out.messages,
            replays: left_out.replays,
            reasons: left_out
                .reasons
                .iter()
                .map(|(reason, &count)| ReasonCount {
                    reason: (*reason).to_owned(),
                    count,
                })
                .collect(),
        },
    })
}

/// Returns problems that are known only after all records were read.
fn late_problems(parts: &MergeResult<'_>) -> Vec<ProblemSummary> {
    let mut out = Vec::new();
    for (rank, sums) in parts.sums.iter().enumerate() {
        let mut add = |what: String| {
            out.push(ProblemSummary {
                rank: Some(rank as u32),
                file: None,
                offset_bytes: None,
                what,
            });
        };
        if sums.operations.let_go > 0 {
            add(format!(
                "it is unknown when {} operations blocked the program (a thread was silent for too long): their \
                 exposed wait may be too small",
                sums.operations.let_go
            ));
        }
        if let Some(clock) = sums.devices.clock.filter(|clock| clock.contradictions > 0) {
            add(format!(
                "the device's clock contradicts its host's in {} spans of 30 s: device times may be wrong there",
                clock.contradictions
            ));
        }
        let known = parts.identities.ranks.get(rank);
        let log = known.and_then(|known| parts.logs.get(known.log));
        if let Some(reason) = log.and_then(|log| log.properties.get(KERNEL_TIMES_ENDED)) {
            add(format!(
                "kernel times were no longer requested from NCCL after {reason}: this version could report wrong times, or \
                 hang at the end of a communicator; record them with --kernels=communication"
            ));
        }
        let plugin = log.and_then(|log| log.properties.get(PLUGIN));
        if !sums.traffic.is_empty() && plugin.is_some_and(|version| version == FIRST_WITH_TRAFFIC) {
            add(
                "the traffic of messages in groups may be too low: NCCL 2.27 reports only one of the messages that a proxy \
                 moves together; use NCCL 2.28"
                    .to_owned(),
            );
        }
        if sums.devices.misreported > 0 {
            add(format!(
                "{} kernel times of NCCL were left out: after a copy of a rank to itself (all-to-all, message to its own \
                 rank), NCCL's profiler reports times of earlier operations; record them with --kernels=communication",
                sums.devices.misreported
            ));
        }
        if sums.devices.overwritten > 0 {
            add(format!(
                "{} kernel times of NCCL were left out: its proxy thread was at least 64 works late, and then NCCL's \
                 profiler reports times of later operations; record them with --kernels=communication",
                sums.devices.overwritten
            ));
        }
        if sums.devices.overwritten > 0 && sums.devices.not_compared > 0 {
            add(format!(
                "{} more kernel times of NCCL were not compared with all later ones, and may be those of later operations",
                sums.devices.not_compared
            ));
        }
        if sums.log.unknown_records > 0 {
            add(format!(
                "{} records of kinds that this version does not know were left out",
                sums.log.unknown_records
            ));
        }
        if sums.program_spans_not_stored > 0 {
            add(format!(
                "{} spans and values of the program were left out: too many spans were open, or had too many values",
                sums.program_spans_not_stored
            ));
        }
        if sums.message_counters_forgotten {
            add("too many different messages to track: their order may be wrong late in the run".to_owned());
        }
        if !sums.steps.adds_up {
            add(
                "the parts of a step do not add up to its window: please report this bug in rankscope"
                    .to_owned(),
            );
        }
    }
    let counters = counters::left_out(parts);
    if counters > 0 {
        out.push(ProblemSummary {
            rank: None,
            file: None,
            offset_bytes: None,
            what: format!("{counters} counters are only in the table counters: there are too many names"),
        });
    }
    for (index, host) in parts.clocks.hosts.iter().enumerate() {
        if host.distrusted {
            out.push(ProblemSummary {
                rank: None,
                file: None,
                offset_bytes: None,
                what: format!(
                    "host {index} ({}): its kernel stopped trusting the counter during the run",
                    host.name
                ),
            });
        }
    }
    out
}

fn coverage(parts: &MergeResult<'_>) -> Coverage {
    let identities = parts.identities;
    let ranks_seen = identities
        .ranks
        .iter()
        .map(|rank| 1 + rank.also.len() as u32)
        .sum();
    let missing = identities.missing.clone();
    let advice = (!missing.is_empty()).then(|| {
        let several = parts.clocks.hosts.len() > 1;
        let files = "if ranks ran on other hosts, merge their run directories too (rankscope merge DIR DIR …)";
        let forward = "pass LD_PRELOAD and RANKSCOPE_DIR to every rank: mpirun -x LD_PRELOAD -x RANKSCOPE_DIR, srun \
                       --export=ALL, deepspeed .deepspeed_env, Ray runtime_env env_vars, Kubernetes env";
        if parts.logs.iter().any(|log| log.properties.contains_key(imported::SOURCE)) {
            "import the files of the other ranks together with these".to_owned()
        } else if several { format!("{files}; else {forward}") } else { format!("{forward}; {files}") }
    });
    Coverage {
        ranks_seen,
        ranks_expected: if identities.worlds.is_empty() {
            Figure::unknown("no communicator was recorded, so the number of ranks is unknown")
        } else {
            Figure::known(identities.worlds.iter().map(|world| world.size).sum())
        },
        missing,
        advice,
        logs_without_rank: identities.logs_without_rank.len() as u32,
        ranks_not_closed: identities
            .ranks
            .iter()
            .filter(|rank| matches!(parts.logs[rank.log].ending, Ending::Torn | Ending::Running))
            .count() as u32,
    }
}

/// Returns the time from the first to the last record of these ranks.
fn span(parts: &MergeResult<'_>, ranks: impl Iterator<Item = RankIndex>) -> Option<Interval> {
    ranks
        .filter_map(|rank| parts.sums.get(rank.index())?.log.span)
        .reduce(Interval::spanning)
}

fn attempts(parts: &MergeResult<'_>) -> Vec<Attempt> {
    let mut ended: Option<i64> = None;
    parts
        .identities
        .attempts
        .iter()
        .enumerate()
        .map(|(index, attempt)| {
            let worlds: Vec<u32> = (0..parts.identities.worlds.len() as u32)
                .filter(|&world| parts.identities.worlds[world as usize].attempt == index as u32)
                .collect();
            let ranks = worlds
                .iter()
                .flat_map(|&world| parts.identities.worlds[world as usize].ranks.iter().copied());
            let Interval { start_ns, end_ns } = span(parts, ranks).unwrap_or_default();
            let lost_before_ns = ended.map(|ended| (start_ns - ended).max(0));
            ended = Some(ended.map_or(end_ns, |before| before.max(end_ns)));
            Attempt {
                run_id: attempt.run_id.clone(),
                restart: attempt.restart,
                start_ns,
                end_ns,
                lost_before_ns,
                worlds,
            }
        })
        .collect()
}

fn worlds(parts: &MergeResult<'_>) -> Vec<World> {
    parts
        .identities
        .worlds
        .iter()
        .map(|world| World {
            attempt: world.attempt,
            size: world.size,
            ranks: world.ranks.iter().map(|rank| rank.0).collect(),
            communicator: world.communicator.map(|id| id.0),
            source: world.source.to_owned(),
        })
        .collect()
}

fn hosts(parts: &MergeResult<'_>) -> Vec<Host> {
    parts
        .clocks
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| Host {
            name: host.name.clone(),
            boot_id: host.boot_id.clone(),
            time_namespace: host.time_namespace.clone(),
            counter: host.counter.name().to_owned(),
            ticks_per_second: host.ticks_per_second.clone(),
            calibrations: host.calibrations,
            error_ns: host.error_ns,
            realtime_error_ns: host.realtime_error_ns.clone(),
            counter_distrusted: host.distrusted,
            ranks: (0..parts.identities.ranks.len() as u32)
                .filter(|&rank| parts.clocks.host_of[parts.identities.ranks[rank as usize].log] == index)
                .collect(),
        })
        .collect()
}

/// Returns the time on the axis at which the log of a running process was read, by the wall clock of that host; `None` if the
/// process has ended.
fn observed_ns(parts: &MergeResult<'_>, log: &RankLog) -> Option<i64> {
    let unix_ns = if log.ending == Ending::Running {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
    } else {
        let copied = log.properties.get(COPIED_PROPERTY).filter(|_| log.was_copied);
        copied?.parse().ok()?
    };
    Some(unix_ns.saturating_sub(parts.clocks.axis.origin_unix_ns))
}

fn ranks(parts: &MergeResult<'_>, losses: &[LossSummary]) -> Vec<Rank> {
    parts
        .identities
        .ranks
        .iter()
        .enumerate()
        .map(|(index, rank)| {
            let log = &parts.logs[rank.log];
            let sums = &parts.sums[index];
            let time = |pick: fn(Interval) -> i64| {
                sums.log
                    .span
                    .map_or_else(|| Figure::unknown("no record"), |span| Figure::known(pick(span)))
            };
            Rank {
                index: index as u32,
                world: rank.world,
                attempt: rank.attempt,
                number: rank.number.map_or_else(
                    || Figure::unknown("neither communicators nor the environment contain it"),
                    |number| Figure::known(number.0),
                ),
                name: rank.name.clone(),
                host: parts.clocks.host_of[rank.log] as u32,
                pid: log.pid,
                log: log.path.display().to_string(),
                log_bytes: log.segment_bytes,
                ending: match log.ending {
                    Ending::Closed if log.was_copied => LogEnding::Running,
                    Ending::Closed if !log.was_collected => LogEnding::Closed,
                    Ending::Closed | Ending::LiveArea => LogEnding::LiveArea,
                    Ending::Torn => LogEnding::Torn,
                    Ending::Running => LogEnding::Running,
                },
                environment_rank: rank.environment_rank.map(|number| number.0),
                environment_agrees: rank
                    .environment_rank
                    .zip(rank.number)
                    .map(|(stated, number)| stated == number),
                command_line: log.properties.get("command_line").cloned(),
                process_role: rank.process_role.clone(),
                start_ns: time(|span| span.start_ns),
                end_ns: time(|span| span.end_ns),
                records: sums.log.records,
                operations: sums.operations.operations,
                lost: losses
                    .iter()
                    .filter(|loss| loss.rank == Some(index as u32))
                    .map(|loss| loss.count)
                    .sum(),
                in_flight: sums.in_flight.calls.clone(),
                in_flight_for_ns: sums.in_flight.since_ns.map(|since| {
                    let end = || sums.log.span.map_or(since, |span| span.end_ns);
                    (observed_ns(parts, log).unwrap_or_else(end) - since).max(0)
                }),
                pending_on_device: pending_on_device(parts, index),
            }
        })
        .collect()
}

/// Returns the oldest operation of a rank that had not completed on its device.
fn pending_on_device(parts: &MergeResult<'_>, index: usize) -> Option<PendingOnDevice> {
    let pending = parts.measures.pending.oldest(RankIndex(index as u32))?;
    let rank = &parts.identities.ranks[index];
    let log = &parts.logs[rank.log];
    // The next calls of the program read the events, so the last operations have no completion. After the end of the
    // kernel times, no operation has one.
    let has_events = parts.sums[index].devices.by_events > 0;
    if has_events || log.properties.contains_key(KERNEL_TIMES_ENDED) {
        return None;
    }
    let last_ns = parts.sums[index].log.span?.end_ns;
    // A calibration is taken every second, as long as the process lives.
    let last_calibration = || {
        log.calibrations
            .last()
            .map_or(last_ns, |last| parts.clocks.line(rank.log).ns(last.ticks))
    };
    let alive_until_ns = observed_ns(parts, log).unwrap_or_else(last_calibration);
    Some(PendingOnDevice {
        operation: pending.operation.name().to_owned(),
        communicator: pending.communicator.0,
        sequence: pending.sequence,
        later: pending.later,
        for_ns: (alive_until_ns - pending.requested_ns).max(0),
        silent_for_ns: (alive_until_ns - last_ns).max(0),
    })
}

fn communicators(parts: &MergeResult<'_>) -> Vec<CommunicatorSummary> {
    parts
        .identities
        .communicators
        .iter()
        .enumerate()
        .map(|(index, communicator)| CommunicatorSummary {
            index: index as u32,
            library: communicator.library.name().to_owned(),
            identity: communicator
                .identity
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            identity_source: match communicator.source {
                IdentitySource::KeyAndBlob => "key-and-blob",
                IdentitySource::Partial => "partial",
                IdentitySource::Ordinal => "ordinal",
                IdentitySource::UniqueId => "unique-id",
                IdentitySource::SelfOnly => "self-only",
            }
            .to_owned(),
            size: communicator.size,
            members: communicator
                .members
                .iter()
                .map(|rank| rank.map(|rank| rank.0))
                .collect(),
            name: communicator.name.clone(),
            role: communicator.role.to_owned(),
            role_source: communicator.role_source.to_owned(),
            scope: communicator.scope,
            world: communicator.world,
            created_ns: communicator.created_ns,
            operations: parts
                .measures
                .classes
                .per_communicator
                .get(index)
                .copied()
                .unwrap_or(0),
        })
        .collect()
}

fn connect(parts: &MergeResult<'_>) -> Connect {
    Connect {
        calls: parts.sums.iter().map(|sums| sums.connects.calls).sum(),
        failed: parts.sums.iter().map(|sums| sums.connects.failed).sum(),
        duration_rank_ns: parts.sums.iter().map(|sums| sums.connects.total_ns).sum(),
        longest_ns: parts
            .sums
            .iter()
            .map(|sums| sums.connects.longest_ns)
            .max()
            .unwrap_or(0),
    }
}

fn steps(parts: &MergeResult<'_>, breakdown: &[RankBreakdown]) -> Steps {
    // The worlds of a job usually behave alike. A single figure describes the world with the most steps.
    let boards = &parts.measures.steps.boards;
    let main = (0..boards.len()).max_by_key(|&world| (boards[world].count, std::cmp::Reverse(world)));
    let Some((plan, board)) = main.map(|world| (&parts.plans[world], &boards[world])) else {
        return Steps {
            source: "none".to_owned(),
            pattern: None,
            confidence: Figure::unknown("no rank was recorded"),
            explained_operations: Figure::unknown("no rank was recorded"),
            count: 0,
            other_kinds: 0,
            counted: Vec::new(),
            duration_ns: Figure::unknown("no rank was recorded"),
            median_ns: Figure::unknown("no rank was recorded"),
            steps_per_entry: 1,
            list: Vec::new(),
        };
    };
    let reason = plan
        .reason
        .clone()
        .unwrap_or_else(|| "no step is whole on all ranks".to_owned());
    let quantiles = board.duration.quantiles();
    Steps {
        source: plan.source.to_owned(),
        pattern: plan.pattern.clone(),
        confidence: plan
            .confidence()
            .map_or_else(|| Figure::unknown(&reason), Figure::known),
        explained_operations: Ratio::figure(plan.explained as i64, plan.total as i64, &reason),
        count: boards.iter().map(|board| board.count).sum(),
        other_kinds: boards.iter().map(|board| board.other_kinds).sum(),
        counted: named_pauses::counted(parts, breakdown),
        duration_ns: quantiles.map_or_else(|| Figure::unknown(&reason), Figure::known),
        median_ns: quantiles.map_or_else(
            || Figure::unknown(&reason),
            |quantiles| Figure::known(quantiles.p50.round() as i64),
        ),
        steps_per_entry: board.matrix.steps_per_column,
        list: boards
            .iter()
            .zip(&parts.identities.worlds)
            .flat_map(|(board, world)| board.list(&world.ranks))
            .collect(),
    }
}

/// Returns the parts of a rank with recorded device work. Everything except exposed communication is its own time.
fn of_devices(activity: &ActivitySums) -> overlap::Parts {
    let device = if activity.parts.steps > 0 {
        activity.parts.in_steps
    } else {
        activity.parts.run
    };
    overlap::Parts {
        window_ns: device.window_ns,
        host_ns: device.window_ns - device.exposed_communication_ns,
        exposed_ns: device.exposed_communication_ns,
        other_blocked_ns: 0,
        communication_ns: device.communication_ns(),
        queued_ns: 0,
    }
}

fn breakdown(parts: &MergeResult<'_>) -> Vec<RankBreakdown> {
    parts
        .sums
        .iter()
        .enumerate()
        .map(|(rank, sums)| {
            // With complete device records, the parts are those of the devices.
            let by_activity = sums.activity.as_ref().filter(|activity| {
                activity.parts.steps > 0 || sums.steps.steps == 0 && activity.parts.run.window_ns > 0
            });
            let in_steps = sums.steps.steps > 0;
            let window = match by_activity {
                Some(activity) => of_devices(activity),
                None if in_steps => sums.steps.in_steps,
                None => sums.steps.run,
            };
            let waited = parts.measures.steps.waited(RankIndex::of(rank), in_steps);
            let enough = sums.operations.completed > 0 && sums.operations.waited * 100 >= sums.operations.completed * WAITS_SEEN_PERCENT;
            let overlap = if let Some(activity) = by_activity {
                devices::overlap(activity)
            } else if sums.operations.enqueued > 0 {
                Figure::unknown(format!(
                    "{} operations were put on a device's stream, and their completion times were not recorded",
                    sums.operations.enqueued
                ))
            } else if sums.devices.on_device > 0 {
                Figure::unknown(format!(
                    "{} operations ran on a device whose other kernels were not recorded",
                    sums.devices.on_device
                ))
            } else if sums.operations.completed == 0 {
                Figure::unknown("no operation completed")
            } else if enough {
                Ratio::figure(
                    window.communication_ns - window.exposed_ns,
                    window.communication_ns,
                    "no communication in the window",
                )
            } else {
                Figure::unknown(format!(
                    "only {} of {} completed operations have a recorded wait: the program waits in a way that is not \
                     recorded",
                    sums.operations.waited, sums.operations.completed
                ))
            };
            RankBreakdown {
                rank: rank as u32,
                window: if in_steps { Window::Steps } else { Window::Run },
                window_ns: window.window_ns,
                steps: by_activity.map_or(sums.steps.steps, |activity| activity.parts.steps),
                host_ns: window.host_ns,
                exposed_communication_ns: window.exposed_ns,
                other_blocked_ns: window.other_blocked_ns,
                communication_ns: window.communication_ns,
                exposed_wait_ns: waited.exposed_ns.min(window.exposed_ns),
                hidden_wait_ns: waited.hidden_ns,
                queued_ns: if sums.operations.queues {
                    Figure::known(window.queued_ns)
                } else {
                    Figure::unknown("the program calls the library directly, without a queue")
                },
                overlap,
                operations_without_times: if by_activity.is_some() { 0 } else { sums.operations.enqueued },
                operations_on_device: if by_activity.is_some() { 0 } else { sums.devices.on_device },
                operations_with_wait_seen: Ratio::figure(
                    sums.operations.waited as i64,
                    sums.operations.completed as i64,
                    "no operation completed",
                ),
                training_threads: sums.steps.training_threads,
                adds_up: sums.steps.adds_up && window.adds_up(),
            }
        })
        .collect()
}

fn devices(parts: &MergeResult<'_>) -> Vec<DeviceSource> {
    let source_of = |rank: usize| {
        let log = parts.identities.ranks.get(rank)?.log;
        let properties = &parts.logs.get(log)?.properties;
        let plugin = properties
            .get(PLUGIN)
            .map(|version| format!("NCCL profiler plugin, version {version}"));
        let events = properties
            .contains_key(EVENTS)
            .then(|| "events around launches".to_owned());
        let sources: Vec<String> = plugin.into_iter().chain(events).collect();
        (!sources.is_empty()).then(|| sources.join(", "))
    };
    let entries = parts.sums.iter().enumerate().filter_map(|(rank, sums)| {
        let source = source_of(rank)?;
        let no_times = "the library reported no device times";
        let no_bounds = "no call bounds the device's clock";
        let clock = sums.devices.clock;
        let error = |which: fn(ErrorWidth) -> i64| match clock {
            None => Figure::unknown(no_times),
            Some(clock) => clock
                .error
                .map_or_else(|| Figure::unknown(no_bounds), |error| Figure::known(which(error))),
        };
        Some(DeviceSource {
            rank: rank as u32,
            source,
            operations: sums.devices.on_device,
            timed_by_events: sums.devices.by_events,
            replays: sums.devices.replays,
            bypassed: sums.devices.bypassed,
            hooks_only: sums.devices.hooks_only,
            without_call: sums.devices.without_call,
            drift_ppm: clock.map_or_else(
                || Figure::unknown(no_times),
                |clock| Figure::known(clock.drift_ppm),
            ),
            widest_error_ns: error(|error| error.widest_ns),
            median_error_ns: error(|error| error.median_ns),
            contradictions: clock.map_or(0, |clock| clock.contradictions),
        })
    });
    entries.collect()
}

fn traffic(parts: &MergeResult<'_>) -> Vec<PeerTraffic> {
    let mut out = Vec::new();
    for (rank, sums) in parts.sums.iter().enumerate() {
        for (&(communicator, peer), [sent, received]) in &sums.traffic {
            let members = parts
                .identities
                .communicators
                .get(communicator.index())
                .map(|known| &known.members);
            let waited = |at: usize| sent.waited_ns[at].saturating_add(received.waited_ns[at]);
            out.push(PeerTraffic {
                rank: rank as u32,
                communicator: members.is_some().then_some(communicator.0),
                peer: peer.0,
                peer_rank: members.and_then(|members| (*members.get(peer.index())?).map(|rank| rank.0)),
                sent_bytes: sent.bytes,
                received_bytes: received.bytes,
                works: sent.works + received.works,
                device_wait_ns: waited(0),
                peer_wait_ns: waited(1),
                network_wait_ns: waited(2),
            });
        }
    }
    out
}

fn matrix(parts: &MergeResult<'_>) -> WaitMatrix {
    let boards = &parts.measures.steps.boards;
    let Some(longest) = boards
        .iter()
        .max_by_key(|board| board.matrix.columns.len())
        .filter(|board| board.count > 0)
    else {
        let reason = parts.plans.iter().find_map(|plan| plan.reason.clone());
        return WaitMatrix {
            reason: Some(reason.unwrap_or_else(|| "no step is whole on all ranks".to_owned())),
            steps_per_column: 1,
            ..WaitMatrix::default()
        };
    };
    let measures = parts.measures;
    let matching = &measures.matches.matching;
    if matching.complete == matching.shared_without_figures
        && (measures.totals.enqueued > 0 || matching.complete > 0)
    {
        // Zeros would mean that no rank waited.
        return WaitMatrix {
            reason: Some("completion times were not recorded".to_owned()),
            steps_per_column: 1,
            ..WaitMatrix::default()
        };
    }
    // If worlds had columns of different widths, each keeps its width. Their first steps are those of the longest.
    let columns = longest.matrix.columns.len();
    let mut matrix = WaitMatrix {
        steps: longest
            .matrix
            .columns
            .iter()
            .map(|column| u64::from(column.step.0))
            .collect(),
        steps_per_column: longest.matrix.steps_per_column,
        ..WaitMatrix::default()
    };
    for (world, board) in parts.identities.worlds.iter().zip(boards) {
        for (row, &rank) in world.ranks.iter().enumerate() {
            let cells = || {
                (0..columns).map(|column| {
                    board
                        .matrix
                        .columns
                        .get(column)
                        .and_then(|column| column.cells.get(row))
                        .filter(|cell| cell.steps > 0)
                })
            };
            let values = |value: fn(&ColumnCell) -> Option<i64>| cells().map(|cell| value(cell?)).collect();
            matrix.ranks.push(rank.0);
            matrix
                .exposed_wait_ns
                .push(values(|cell| Some(cell.exposed_ns / i64::from(cell.steps))));
            matrix
                .exposed_communication_ns
                .push(values(|cell| Some(cell.communication_ns / i64::from(cell.steps))));
            matrix
                .duration_ns
                .push(values(|cell| Some(cell.duration_ns / i64::from(cell.steps))));
            matrix.own_delay_ns.push(values(|cell| {
                (cell.delays > 0).then(|| cell.delay_ns / i64::from(cell.delays))
            }));
        }
    }
    matrix
}

fn losses(parts: &MergeResult<'_>) -> Vec<LossSummary> {
    let mut out = Vec::new();
    for (index, log) in parts.logs.iter().enumerate() {
        let line = parts.clocks.line(index);
        let rank = parts
            .identities
            .ranks
            .iter()
            .position(|rank| rank.log == index)
            .map(|rank| rank as u32);
        out.extend(
            log.losses
                .iter()
                .filter(|loss| loss.count > 0)
                .map(|loss| LossSummary {
                    rank,
                    source: log.path.display().to_string(),
                    cause: loss.cause.name().to_owned(),
                    kind: loss.kind.name().to_owned(),
                    count: loss.count,
                    first_ns: line.ns(loss.first_ticks),
                    last_ns: line.ns(loss.last_ticks),
                    advice: loss.cause.advice().to_owned(),
                }),
        );
    }
    // The recorder counts over the whole run. A period has the losses that may be in it.
    if let Some(period) = parts.part.filter(|part| part.has_end()) {
        out.retain(|loss| loss.first_ns < period.until_ns && loss.last_ns >= period.from_ns);
    }
    out
}
