//! Reads what every rank does at this moment from the rank logs of a run.
//!
//! Logs of this machine are read with their live areas, in place. Of each log, only the last records are read: those
//! since a watermark, and at least some hundreds of the job. Samples of counters go on while a rank waits, and do not
//! count. A brief look may read fewer ([`Reach`]).

use crate::ending::Ending;
use crate::facts_of_logs::{facts, log_state};
use crate::view::{
    BlockedThread, Call, Communicator, Completed, Context, LogState, Position, Rank, Step, View,
};
use rankscope_analysis::clocks::clock::{Clocks, Line};
use rankscope_analysis::identity::{GlobalCommunicator, Identities};
use rankscope_analysis::ingest::Ingested;
use rankscope_analysis::model::operation::{NO_COMMUNICATOR, NO_TIME, RankOperation};
use rankscope_analysis::model::sources::EVENTS;
use rankscope_analysis::rank::anchors::Anchors;
use rankscope_analysis::rank::{RankBatch, RankReader};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::reader::{InFlight, RankLog};
use rankscope_ranklog::record::{BlockedIn, FLAG_SEQUENCE_UNKNOWN, RecordKind};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Approximate maximum number of records of the job that are read of a log. They are the last ones.
const MAX_RECORDS: u64 = 20_000;
/// Minimum number of them, if a log has as many. A message in progress has a record from the time when it was posted, and the
/// order of calls shows over several rounds.
const LEAST_RECORDS: usize = 1000;

/// Worlds that ended at most this long before the last one belong to the same look, in nanoseconds.
const SAME_END_NS: i64 = 30_000_000_000;

/// Minimum number of last records that a brief look reads.
const BRIEF_RECORDS: u64 = 1000;

/// How many records of each log are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those since a watermark. They show that a job goes on. Of a rank that has recorded nothing lately, they may be
    /// samples of its counters alone.
    Brief,
    /// At least [`LEAST_RECORDS`] of the job, and at most about [`MAX_RECORDS`].
    Full,
}

/// Reads what every rank does.
pub fn view(ingested: Ingested, reach: Reach) -> View {
    let Ingested {
        mut logs, problems, ..
    } = ingested;
    let clocks = Clocks::align(&logs);
    let last_ticks: Vec<Option<u64>> = logs
        .iter_mut()
        .map(|log| begin_at_last_records(log, reach))
        .collect();
    let identities = Identities::learn(&logs, &clocks);
    let taken_unix_ns = unix_ns();
    let now_ns = taken_unix_ns.saturating_sub(clocks.axis.origin_unix_ns);
    let mut notes: Vec<String> = problems
        .into_iter()
        .map(|problem| match problem.file {
            Some(file) => format!("{file}: {}", problem.what),
            None => problem.what,
        })
        .collect();
    let lasts: Vec<i64> = logs
        .iter()
        .enumerate()
        .map(|(index, log)| last_sign_ns(log, last_ticks[index], &clocks.line(index)).min(now_ns))
        .collect();
    let chosen = current_worlds(&logs, &identities, &lasts);
    let mut ranks: Vec<Rank> = Vec::new();
    let mut failed: Vec<Vec<Call>> = Vec::new();
    // Position of each rank of the run among the ranks of the view.
    let mut place: Vec<Option<RankIndex>> = vec![None; identities.ranks.len()];
    for (index, identity) in identities.ranks.iter().enumerate() {
        if identity.world.is_some_and(|world| !chosen[world as usize]) {
            continue;
        }
        place[index] = Some(RankIndex::of(ranks.len()));
        let log = &logs[identity.log];
        let mut rank = empty_rank(log, &clocks.line(identity.log), lasts[identity.log]);
        rank.name.clone_from(&identity.name);
        rank.number = identity.number.map(|number| number.0);
        rank.world = identity.world;
        failed.push(read_operations(
            RankIndex::of(index),
            identity,
            log,
            &clocks,
            &mut rank,
        ));
        ranks.push(rank);
    }
    for &log in &identities.logs_without_rank {
        // Of an earlier attempt, they say nothing about the present.
        if log_state(&logs[log]) == LogState::Open {
            ranks.push(empty_rank(&logs[log], &clocks.line(log), lasts[log]));
        }
    }
    if ranks.iter().all(|rank| rank.process.is_gone()) {
        // The processes ended because of these calls. While one still runs, it may go on.
        for (rank, failed) in ranks.iter_mut().zip(failed) {
            rank.calls.extend(failed);
            rank.calls.sort_by_key(order_of_calls);
        }
    }
    let missing: Vec<u32> = identities
        .missing
        .iter()
        .filter(|missing| chosen[missing.world as usize])
        .map(|missing| missing.number)
        .collect();
    if !missing.is_empty() {
        notes.push(format!(
            "no log of {}: their processes did not load the recorder, or their logs are not here",
            crate::words::ranks(&missing)
        ));
    }
    let mut communicators: Vec<Communicator> = identities
        .communicators
        .iter()
        .map(|known| communicator(known, &place, &ranks))
        .collect();
    distinguish(&mut communicators, &identities.communicators);
    View {
        now_ns,
        taken_unix_ns,
        ranks,
        missing,
        communicators,
        notes,
    }
}

fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Limits a log to its last records. Returns the time of about the last record of the job, in ticks. A brief look does not
/// find it.
fn begin_at_last_records(log: &mut RankLog, reach: Reach) -> Option<u64> {
    if reach == Reach::Brief {
        // The headers of the frames have these numbers, so no record is unpacked for them.
        let (boundaries, all) = log.boundaries(BRIEF_RECORDS);
        if let Some(boundary) = boundaries.last().filter(|_| all.is_none()) {
            log.begin_at(boundary.ticks);
        }
        return None;
    }
    let tail = log.tail(LEAST_RECORDS);
    let boundary = tail
        .boundaries
        .iter()
        .rev()
        .find(|boundary| boundary.records <= MAX_RECORDS)
        .or(tail.boundaries.first());
    if let Some(boundary) = boundary {
        log.begin_at(boundary.ticks);
    }
    tail.boundaries.first().map(|last| last.ticks)
}

/// Returns the last sign of a process: a record, a call in progress, or a calibration. The recorder takes a sample every
/// second.
fn last_sign_ns(log: &RankLog, last_ticks: Option<u64>, line: &Line) -> i64 {
    let calibration = log.calibrations.last().map(|last| last.ticks);
    let call = log.in_flight.iter().map(|call| call.record.enter_ticks).max();
    let ticks = calibration.into_iter().chain(call).chain(last_ticks).max();
    ticks.map_or(0, |ticks| line.ns(ticks))
}

/// Chooses the worlds of the present: those with a process that runs. If there is none, those that ended last.
fn current_worlds(logs: &[RankLog], identities: &Identities, lasts: &[i64]) -> Vec<bool> {
    let of_world = |world: usize| {
        let ranks = identities.worlds[world].ranks.iter();
        ranks.map(|rank| identities.ranks[rank.index()].log)
    };
    let worlds = 0..identities.worlds.len();
    let runs: Vec<bool> = worlds
        .clone()
        .map(|world| of_world(world).any(|log| log_state(&logs[log]) == LogState::Open))
        .collect();
    if runs.contains(&true) {
        return runs;
    }
    let ends: Vec<i64> = worlds
        .map(|world| of_world(world).map(|log| lasts[log]).max().unwrap_or(i64::MIN))
        .collect();
    let last = ends.iter().copied().max().unwrap_or(i64::MIN);
    ends.iter()
        .map(|&end| end >= last.saturating_sub(SAME_END_NS))
        .collect()
}

/// Returns a rank of which only the process is known.
fn empty_rank(log: &RankLog, line: &Line, last_sign_ns: i64) -> Rank {
    let property = |key: &str| log.properties.get(key).cloned();
    let number = property("env.RANK").and_then(|text| text.parse().ok());
    Rank {
        name: number.map_or_else(
            || format!("process {}", log.pid),
            |number: u32| format!("rank {number}"),
        ),
        number,
        world: None,
        host: property("host").unwrap_or_else(|| "unknown host".to_owned()),
        pid: log.pid,
        nonce: log.nonce,
        start_time: property("start_time"),
        launch: property("env.RANKSCOPE_LAUNCH"),
        live: log.live_path.clone(),
        log: log.path.display().to_string(),
        log_state: log_state(log),
        process: facts(log),
        ending: match log_state(log) {
            LogState::Open => None,
            LogState::Closed => Some(Ending::normal()),
            LogState::Broken => Some(Ending::unclosed()),
        },
        calls: Vec::new(),
        blocked: blocked_threads(log, line),
        recent: FxHashMap::default(),
        order: FxHashMap::default(),
        before: None,
        last_sign_ns,
        last_record_ns: i64::MIN,
        is_busy: None,
        worked_ns: None,
    }
}

/// Returns the threads of the program that are inside a call for communication. Worker threads of c10d run operations
/// for the program, and are not among them.
fn blocked_threads(log: &RankLog, line: &Line) -> Vec<BlockedThread> {
    let mut threads: BTreeMap<u32, BlockedThread> = BTreeMap::new();
    for call in &log.in_flight {
        let Some(what) = blocked_in(call) else { continue };
        let since_ns = line.ns(call.record.enter_ticks);
        let is_connecting =
            call.record.operation == Operation::Connect as u8 && call.record.kind == RecordKind::Call as u8;
        let thread = BlockedThread {
            thread_id: call.thread_id,
            since_ns,
            what: what.to_owned(),
            is_connecting,
        };
        // The outermost call of a thread is the one that the program made.
        let known = threads.entry(call.thread_id).or_insert_with(|| thread.clone());
        if since_ns < known.since_ns {
            let is_connecting = known.is_connecting || thread.is_connecting;
            *known = BlockedThread {
                is_connecting,
                ..thread
            };
        }
    }
    let mut threads: Vec<_> = threads.into_values().collect();
    threads.sort_by_key(|thread| thread.since_ns);
    threads
}

/// Names the call that a thread of the program is in; `None` for a worker of c10d and for marks.
fn blocked_in(call: &InFlight) -> Option<&'static str> {
    let record = &call.record;
    let operation = Operation::from_u8(record.operation);
    Some(match RecordKind::from_u8(record.kind)? {
        // A worker of c10d runs the call for a work object.
        RecordKind::Call if record.aux != 0 => return None,
        RecordKind::Call if operation == Some(Operation::Connect) => "the creation of a communicator",
        RecordKind::Call if operation == Some(Operation::Disconnect) => "the end of a communicator",
        RecordKind::Call => operation.map_or("a call", Operation::name),
        RecordKind::Enqueue => "the enqueuing of an operation",
        RecordKind::Group => "the end of a group of operations",
        RecordKind::Blocked => BlockedIn::from_u64(record.aux).map_or("a wait", BlockedIn::name),
        RecordKind::Complete if operation == Some(Operation::Send) => "the wait for a send",
        RecordKind::Complete => "the wait for a receive",
        _ => return None,
    })
}

fn order_of_calls(call: &Call) -> (i64, CommunicatorId, Position) {
    (call.since_ns, call.communicator, call.position)
}

/// Reads the last operations of a rank. Returns the calls that failed after the last completed operation of their communicator.
fn read_operations(
    index: RankIndex,
    identity: &rankscope_analysis::identity::RankIdentity,
    log: &RankLog,
    clocks: &Clocks,
    rank: &mut Rank,
) -> Vec<Call> {
    let line = clocks.line(identity.log);
    let mut reader =
        RankReader::new(index, log, line, &identity.communicators, Anchors::default()).without_works();
    let mut batch = RankBatch::default();
    let mut operations: Vec<RankOperation> = Vec::new();
    while reader.advance(&mut batch) {
        operations.append(&mut batch.operations);
    }
    if let Some(span) = reader.sums().log.span {
        rank.last_record_ns = span.end_ns;
        rank.last_sign_ns = rank.last_sign_ns.max(span.end_ns);
    }
    // The next calls of the program read the events, so the last operations have no completion yet.
    let has_late_completions = log.properties.contains_key(EVENTS);
    operations.sort_by_key(RankOperation::begin_ns);
    let mut on_device: BTreeMap<CommunicatorId, Vec<Call>> = BTreeMap::new();
    // Calls that failed after the last completed operation of their communicator.
    let mut failed: BTreeMap<CommunicatorId, Call> = BTreeMap::new();
    let mut previous: Option<Context> = None;
    for operation in &operations {
        let Some(position) = position(operation) else {
            continue;
        };
        let recent = rank.recent.entry(operation.communicator).or_default();
        if let Position::Numbered(number) = position {
            recent.called_up_to = recent.called_up_to.max(Some(number));
        }
        let step = Step {
            communicator: operation.communicator,
            operation: operation.operation as u8,
        };
        match operation.state {
            OperationState::Completed | OperationState::Failed => {
                let end_ns = if operation.leave_ns == NO_TIME {
                    operation.enter_ns
                } else {
                    operation.leave_ns
                };
                if operation.state == OperationState::Failed {
                    let first = failed.entry(operation.communicator);
                    first.or_insert_with(|| call(operation, position, false));
                } else {
                    failed.remove(&operation.communicator);
                }
                recent.add_completed(call(operation, position, false));
                recent.longest_ns = recent.longest_ns.max(end_ns - operation.begin_ns());
                if recent.last.is_none_or(|last| last.at_ns <= end_ns) {
                    recent.last = Some(Completed {
                        position,
                        operation: operation.operation,
                        at_ns: end_ns,
                    });
                }
                if operation.returned_ns != NO_TIME && operation.state == OperationState::Completed {
                    recent.completions_are_known = !has_late_completions;
                    // A stream runs its operations in order, so earlier ones have completed, too.
                    let begin_ns = operation.begin_ns();
                    if let Some(calls) = on_device.get_mut(&operation.communicator) {
                        for call in calls.extract_if(.., |call| call.since_ns <= begin_ns) {
                            recent.add_completed(call);
                        }
                    }
                }
                previous = Some(followed_by(&mut rank.order, previous, step));
            }
            OperationState::Enqueued => {
                on_device.entry(operation.communicator).or_default().push(Call {
                    after: previous,
                    ..call(operation, position, true)
                });
                // A pending operation is no earlier round.
                previous = Some((previous.map(|(_, last)| last), step));
            }
            OperationState::InFlight if waits(operation) => {
                rank.calls.push(call(operation, position, false));
            }
            OperationState::InFlight | OperationState::Queued | OperationState::Captured => {}
        }
    }
    rank.before = previous;
    for (communicator, mut calls) in on_device {
        let known = rank
            .recent
            .get(&communicator)
            .is_some_and(|recent| recent.completions_are_known);
        if known {
            rank.calls.append(&mut calls);
        } else if let Some(recent) = rank.recent.get_mut(&communicator) {
            // Whether they have completed is not known, so they are no waits.
            for call in calls {
                recent.add_completed(call);
            }
        }
    }
    rank.calls.sort_by_key(order_of_calls);
    failed.into_values().filter(Call::has_failed).collect()
}

/// Counts that an operation followed others, and returns the last two.
fn followed_by(
    order: &mut FxHashMap<(Context, Step), u32>,
    previous: Option<Context>,
    step: Step,
) -> Context {
    if let Some(previous) = previous {
        *order.entry((previous, step)).or_insert(0) += 1;
    }
    (previous.map(|(_, last)| last), step)
}

/// Returns true for a call in progress that a thread waits in. A message that was only posted is waited for later, or
/// never.
fn waits(operation: &RankOperation) -> bool {
    !operation.is_message() || operation.blocked.pieces().next().is_some()
}

fn call(operation: &RankOperation, position: Position, is_on_device: bool) -> Call {
    Call {
        communicator: operation.communicator,
        position,
        operation: operation.operation,
        bytes: operation.known_bytes(),
        element_bytes: operation.element_bytes,
        flags: operation.flags,
        peer: operation.peer,
        since_ns: operation.begin_ns(),
        is_on_device,
        after: None,
    }
}

/// Returns the position of an operation; `None` if it has none that members share.
fn position(operation: &RankOperation) -> Option<Position> {
    if operation.communicator == NO_COMMUNICATOR || operation.is_one_sided() {
        return None;
    }
    if operation.is_message() {
        let peer = MemberIndex(u32::try_from(operation.peer).ok()?);
        let (sender, receiver) = match operation.operation {
            Operation::Send => (operation.member, peer),
            _ => (peer, operation.member),
        };
        let tag = match operation.library {
            Library::Nccl => operation.sequence,
            _ => operation.tag,
        };
        return Some(Position::Message {
            sender,
            receiver,
            tag,
        });
    }
    if operation.library == Library::Nccl {
        let is_known = operation.flags & FLAG_SEQUENCE_UNKNOWN == 0;
        return is_known.then_some(Position::Numbered(operation.sequence));
    }
    Some(if operation.direct {
        Position::Used {
            operation: operation.operation as u8,
            tag: operation.tag,
            sequence: operation.sequence,
        }
    } else {
        Position::Numbered(operation.tag)
    })
}

/// Returns a communicator with its members among the ranks of the view.
fn communicator(known: &GlobalCommunicator, place: &[Option<RankIndex>], ranks: &[Rank]) -> Communicator {
    // The log of a process that was stopped early, or is on another host, may lack the communicator. In the world, members
    // have the numbers of their environment.
    let by_number = |member: usize| {
        let is_it = |rank: &Rank| {
            rank.number.is_some_and(|number| number as usize == member)
                && (rank.world.is_none() || rank.world == known.world)
        };
        let found = ranks.iter().position(is_it).filter(|_| known.role == "world");
        found.map(RankIndex::of)
    };
    let members: Vec<Option<RankIndex>> = known
        .members
        .iter()
        .enumerate()
        .map(|(number, member)| {
            let seen = member.and_then(|rank| place.get(rank.index()).copied().flatten());
            seen.or_else(|| by_number(number))
        })
        .collect();
    let numbers: Vec<u32> = members
        .iter()
        .filter_map(|member| ranks.get(member.as_ref()?.index())?.number)
        .collect();
    let is_named = known.library == Library::Nccl && !known.name.is_empty();
    let name = match known.role {
        "world" => "world".to_owned(),
        _ if numbers.is_empty() => known.name.clone(),
        _ if is_named => format!("{} ({})", known.name, crate::words::ranks(&numbers)),
        // c10d numbers its groups, and nobody knows the numbers.
        _ => format!("the group of {}", crate::words::ranks(&numbers)),
    };
    Communicator {
        name,
        library: known.library,
        members,
    }
}

/// Adds the store's name to communicators that would have the same name.
fn distinguish(communicators: &mut [Communicator], known: &[GlobalCommunicator]) {
    let mut times: FxHashMap<String, u32> = FxHashMap::default();
    for communicator in communicators.iter() {
        *times.entry(communicator.name.clone()).or_insert(0) += 1;
    }
    for (communicator, known) in communicators.iter_mut().zip(known) {
        if times.get(&communicator.name).is_some_and(|&times| times > 1) && !known.name.is_empty() {
            communicator.name = format!("{} ({})", communicator.name, known.name);
        }
    }
}
