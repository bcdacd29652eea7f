//! Finds steps from the program's marks, or from the repeating sequence of operations (METRICS.md, section 7).
//!
//! One rank of each world, the reference, is read first. Its sequence consists of (communicator, operation, type)
//! without sizes, and of waits of DistributedDataParallel's reducer. The operation that ends a cycle is an *anchor*.
//! Its key is the same on all ranks, so all ranks are cut at the same instances and number their steps alike.

use crate::model::operation::RankOperation;
use crate::rank::anchors::{AnchorList, Anchors, Key};
use crate::rank::{RankBatch, RankReader};
use crate::steps::marks::Marks;
use rankscope_formats::session::{OperationState, StepKind};
use rankscope_ranklog::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Minimum share of the operations that the pattern must explain.
pub const MIN_CONFIDENCE: f64 = 0.9;
/// The same for patterns that must leave almost nothing unexplained.
const WHOLE: f64 = 0.995;
/// Maximum number of events in which the pattern is searched.
const WINDOW: usize = 1 << 14;
/// Maximum length of a pattern.
const LONGEST: usize = 1 << 12;
/// Number of events that are sorted by issue time. Worker threads may run them in another order.
const REORDER: usize = 256;
/// Minimum number of cycles.
const MIN_CYCLES: u64 = 3;
/// Minimum share of all reduced bytes of an operation that every step must have: gradients, not metrics.
const MIN_REDUCED_SHARE: f64 = 0.01;
/// Maximum number of examined periods.
const MAX_PERIODS: usize = 256;
/// Operations between two steps are not training up to this share of the bytes that a step reduces, in percent.
const MAX_REDUCED_PERCENT: u64 = 10;
/// Symbol of a wait in DDP's reducer.
const REDUCER: u32 = 0;

/// The steps of a world, as found on its reference rank.
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Source of the steps: `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: &'static str,
    /// Description of the cycle.
    pub pattern: Option<String>,
    /// Number of operations in cycles.
    pub explained: u64,
    /// Number of operations between the first and the last cycle.
    pub total: u64,
    /// Operations that end cycles; empty if there are no steps.
    pub anchors: Arc<AnchorList>,
    /// Median time between anchors on the reference rank, in ns.
    pub median_ns: Option<i64>,
    /// Reason why there are no steps.
    pub reason: Option<String>,
    /// The reference rank.
    pub reference: Option<u32>,
    /// Anchors by rank, for ranks that take no part in `anchors`. They end the same steps.
    pub others: BTreeMap<u32, Arc<AnchorList>>,
}

impl StepPlan {
    /// Returns the operations that end the cycles of a rank.
    pub fn anchors_of(&self, rank: u32) -> Anchors {
        Anchors::new(self.others.get(&rank).unwrap_or(&self.anchors).clone())
    }

    fn none(reason: impl Into<String>) -> Self {
        Self {
            source: "none",
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Returns the share of the operations that the pattern explains.
    pub fn confidence(&self) -> Option<f64> {
        (self.total > 0).then(|| self.explained as f64 / self.total as f64)
    }
}

#[derive(Clone, Copy)]
struct Event {
    start: i64,
    end: i64,
    symbol: u32,
    sized: u32,
    /// Number of members of its communicator.
    width: u32,
    /// Bytes that the operation reduces. Gradients are reduced; gathered parameters are not.
    reduced_bytes: u64,
    /// True if the operation distributes data to ranks, as before and during the forward pass. A step begins with such
    /// operations and ends with others.
    opens: bool,
    key: Option<Key>,
    /// True if a device ran it and no host call is known.
    is_replay: bool,
}

/// Numbers the symbols of events in order of first use.
struct Symbols {
    plain: FxHashMap<(u32, Operation, u8, i32), u32>,
    sized: FxHashMap<(u32, u64), u32>,
    names: Vec<String>,
    sized_names: Vec<String>,
    widths: Vec<u32>,
    /// 1 for a send, −1 for a receive, `None` for other operations.
    directions: Vec<Option<i64>>,
    /// Orders events by the time of the host call, also for operations with device times.
    by_host: bool,
}

impl Symbols {
    fn new() -> Self {
        Self {
            plain: FxHashMap::default(),
            sized: FxHashMap::default(),
            names: vec!["reducer wait".to_owned()],
            sized_names: vec!["reducer wait".to_owned()],
            widths: vec![0],
            directions: vec![None],
            by_host: false,
        }
    }

    fn event(&mut self, operation: &RankOperation, width: impl Fn(u32) -> u32) -> Event {
        let peer = if operation.is_message() {
            operation.peer
        } else {
            -1
        };
        let key = (
            operation.communicator,
            operation.operation,
            operation.element_bytes,
            peer,
        );
        let symbol = *self.plain.entry(key).or_insert_with(|| {
            self.names.push(format!(
                "{} of {}-byte elements on communicator {}",
                operation.operation.name(),
                operation.element_bytes,
                operation.communicator
            ));
            self.directions.push(match operation.operation {
                Operation::Send => Some(1),
                Operation::Receive => Some(-1),
                _ => None,
            });
            // Only two ranks have the message, so it is a poor boundary for the steps of the others.
            let is_message = operation.is_message();
            self.widths.push(if is_message {
                0
            } else {
                width(operation.communicator)
            });
            self.names.len() as u32 - 1
        });
        let names = &self.names;
        let sized_names = &mut self.sized_names;
        let sized = *self.sized.entry((symbol, operation.bytes)).or_insert_with(|| {
            sized_names.push(format!("{}, {} bytes", names[symbol as usize], operation.bytes));
            sized_names.len() as u32 - 1
        });
        let start = if self.by_host && operation.called_ns != crate::model::operation::NO_TIME {
            operation.called_ns
        } else {
            operation.arrival_ns()
        };
        Event {
            start,
            end: operation.leave_ns.max(start),
            symbol,
            sized,
            width: self.widths[symbol as usize],
            reduced_bytes: if is_reduction(operation.operation) {
                // An unknown size counts as at least one byte.
                operation.bytes.max(1)
            } else {
                0
            },
            opens: opens(operation.operation),
            key: Some(Key::of(operation)),
            is_replay: operation.library == Library::Nccl
                && operation.called_ns == crate::model::operation::NO_TIME
                && operation.returned_ns == crate::model::operation::NO_TIME,
        }
    }
}

/// Events in the order in which the program issued them.
struct Sequence<'a, 'b> {
    reader: &'b mut RankReader<'a>,
    batch: RankBatch,
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    waiting: FxHashMap<u64, Event>,
    next: u64,
    incoming: VecDeque<Event>,
    ended: bool,
}

/// Returns true if the operation reduces data of ranks.
fn is_reduction(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter | Operation::ReduceScatterV
    )
}

/// Returns true if the operation distributes data: parameters, inputs, activations.
fn opens(operation: Operation) -> bool {
    matches!(
        operation.pattern(),
        Pattern::FromRoot | Pattern::PointToPoint | Pattern::OneSided
    ) || matches!(
        operation,
        Operation::AllGather | Operation::AllGatherV | Operation::AllToAll | Operation::AllToAllV
    )
}

/// Returns true unless the operation was in progress at the end of its log. An operation that was only enqueued is over
/// for the host. If other operations have device times, host times do not fit into their order.
fn is_over(operation: &RankOperation, has_device_times: bool) -> bool {
    operation.leave_ns != crate::model::operation::NO_TIME
        || (operation.state == OperationState::Enqueued && !has_device_times)
}

impl<'a, 'b> Sequence<'a, 'b> {
    fn new(reader: &'b mut RankReader<'a>) -> Self {
        Self {
            reader,
            batch: RankBatch::default(),
            heap: BinaryHeap::new(),
            waiting: FxHashMap::default(),
            next: 0,
            incoming: VecDeque::new(),
            ended: false,
        }
    }

    fn next(&mut self, symbols: &mut Symbols, width: &impl Fn(u32) -> u32) -> Option<Event> {
        while self.heap.len() < REORDER {
            if let Some(event) = self.incoming.pop_front() {
                self.heap.push(Reverse((event.start, self.next)));
                self.waiting.insert(self.next, event);
                self.next += 1;
            } else if self.ended || !self.reader.advance(&mut self.batch) {
                self.ended = true;
                break;
            } else {
                // Two nearly sorted lists. The heap has only capacity for events that are close to each other.
                let has_device_times = self.reader.has_device_times();
                let mut events: Vec<Event> = self
                    .batch
                    .operations
                    .iter()
                    .filter(|operation| operation.has_key() && is_over(operation, has_device_times))
                    .map(|operation| symbols.event(operation, width))
                    .collect();
                events.extend(self.batch.reducer_waits.iter().map(|&(start, end)| Event {
                    start,
                    end,
                    symbol: REDUCER,
                    sized: REDUCER,
                    width: 0,
                    reduced_bytes: 0,
                    opens: false,
                    key: None,
                    is_replay: false,
                }));
                events.sort_by_key(|event| event.start);
                self.incoming.extend(events);
            }
        }
        let Reverse((_, number)) = self.heap.pop()?;
        self.waiting.remove(&number)
    }
}

/// Finds the steps of a world in its reference rank's log. `width` returns the size of a communicator.
pub fn plan(reader: &mut RankReader<'_>, width: impl Fn(u32) -> u32) -> StepPlan {
    let mut symbols = Symbols::new();
    let mut sequence = Sequence::new(reader);
    let mut window = Vec::with_capacity(WINDOW);
    while window.len() < WINDOW
        && let Some(event) = sequence.next(&mut symbols, &width)
    {
        window.push(event);
    }
    if window.is_empty() {
        return StepPlan::none("no operation was recorded");
    }
    let seen = |symbol: fn(&Event) -> u32| -> Vec<Seen> {
        let seen = window.iter().map(|event| Seen {
            symbol: symbol(event),
            reduced_bytes: event.reduced_bytes,
            is_mark: event.symbol == REDUCER,
        });
        seen.collect()
    };
    let mut source = "pattern";
    let mut cycle = find_cycle(&seen(|event| event.symbol));
    // A single repeated operation does not show where a step ends. Its sizes may.
    if cycle.as_ref().is_some_and(|cycle| cycle.len() == 1) {
        if let Some(with_sizes) = find_cycle(&seen(|event| event.sized)).filter(|cycle| cycle.len() > 1) {
            cycle = Some(with_sizes);
            source = "pattern-with-sizes";
        } else if let Some(longer) = find_cycle_of(2, &seen(|event| event.symbol)) {
            // A broadcast before thirty reductions explains hardly more operations, but a step begins with it.
            cycle = Some(longer);
        }
    }
    // A micro-batch of a pipeline explains everything but the start and the end of each step. A cycle of messages alone
    // must therefore leave almost nothing unexplained.
    let is_message = |sought: u32| {
        symbols
            .directions
            .get(sought as usize)
            .copied()
            .flatten()
            .is_some()
    };
    if source == "pattern"
        && cycle
            .as_ref()
            .is_some_and(|cycle| cycle.iter().all(|&of| is_message(of)))
        && let Some(longer) = find_whole_cycle(&seen(|event| event.symbol))
    {
        cycle = Some(longer);
    }
    let with_sizes = source == "pattern-with-sizes";
    let symbol = |event: &Event| if with_sizes { event.sized } else { event.symbol };
    let Some(cycle) = cycle else {
        return StepPlan::none("no repeating sequence of operations was found");
    };
    let direction_of = |sought: u32| {
        let event = window.iter().find(|event| symbol(event) == sought)?;
        symbols.directions[event.symbol as usize]
    };
    let directions: Option<Vec<i64>> = cycle.iter().map(|&of| direction_of(of)).collect();
    let cycle = rotate(cycle, directions.as_deref(), &window, symbol);
    let plain_of = |position: usize, window: &[Event]| {
        window
            .iter()
            .find(|event| symbol(event) == cycle[position])
            .map_or(REDUCER, |event| event.symbol)
    };
    let Some(anchor) = (0..cycle.len())
        .filter(|&position| cycle[position] != REDUCER)
        .max_by_key(|&position| (symbols.widths[plain_of(position, &window) as usize], position))
    else {
        return StepPlan::none("no repeating sequence of operations was found");
    };
    let mut matcher = Matcher::new(&cycle, anchor);
    let mut times = Vec::new();
    let mut last = None;
    let mut anchors = AnchorList::default();
    let mut feed = |event: &Event| {
        let Some(found) = matcher.feed(symbol(event), event) else {
            return;
        };
        if let Some((key, end)) = found.between {
            // Evaluation, or another kind that is not training. The next step begins after it.
            anchors.push_other(key, StepKind::Evaluate);
            last = Some(end);
        }
        if let Some((key, end)) = found.anchor {
            if let Some(last) = last.replace(end)
                && times.len() < WINDOW
            {
                times.push(end - last);
            }
            anchors.push(key);
        }
    };
    window.iter().for_each(&mut feed);
    while let Some(event) = sequence.next(&mut symbols, &width) {
        feed(&event);
    }
    times.sort_unstable();
    let names = if with_sizes {
        &symbols.sized_names
    } else {
        &symbols.names
    };
    let mut plan = StepPlan {
        source,
        pattern: Some(describe(&cycle, names)),
        explained: matcher.explained,
        total: matcher.total,
        anchors: Arc::new(anchors),
        median_ns: times.get(times.len() / 2).copied(),
        reason: None,
        reference: None,
        others: BTreeMap::new(),
    };
    let confidence = plan.confidence().unwrap_or(0.0);
    if matcher.cycles < MIN_CYCLES {
        plan.reason = Some(format!(
            "the sequence of operations repeats only {} times",
            matcher.cycles
        ));
    } else if confidence < MIN_CONFIDENCE {
        plan.reason = Some(format!(
            "the repeating sequence explains only {} of {} operations",
            plan.explained, plan.total
        ));
    }
    if plan.reason.is_some() {
        plan.source = "none";
        plan.anchors = Arc::default();
        plan.median_ns = None;
    }
    plan
}

/// Finds the steps that the program marks, by reading the reference rank's log again. Returns `None` if the marks
/// divide the log poorly. The pattern may then do better.
pub fn plan_by_marks(
    reader: &mut RankReader<'_>,
    marks: &Marks,
    width: impl Fn(u32) -> u32,
) -> Option<StepPlan> {
    let mut symbols = Symbols {
        by_host: true,
        ..Symbols::new()
    };
    let mut sequence = Sequence::new(reader);
    let mut anchors = AnchorList::default();
    let mut inside = 0;
    let mut boundaries = marks.boundaries.iter().copied().peekable();
    // The last operation of the step that involves the most ranks.
    let mut last: Option<(u32, Key, i64)> = None;
    let mut times = Vec::new();
    let mut last_end = None;
    let mut cut = |last: &mut Option<(u32, Key, i64)>, anchors: &mut AnchorList| {
        let found = last.take();
        if let Some((_, key, end)) = found {
            anchors.push(key);
            if let Some(before) = last_end.replace(end)
                && times.len() < WINDOW
            {
                times.push(end - before);
            }
        }
        found.is_some()
    };
    let mut divided = 0;
    while let Some(event) = sequence.next(&mut symbols, &width) {
        // Only operations of all members of a communicator qualify: the two ends of a message have different keys. The
        // issue time of a replay is unknown.
        let is_shared = |key: &Key| {
            let pattern = key.operation.pattern();
            !matches!(pattern, Pattern::PointToPoint | Pattern::OneSided) && !event.is_replay
        };
        let Some(key) = event.key.filter(is_shared) else {
            continue;
        };
        while boundaries.next_if(|&boundary| boundary <= event.start).is_some() {
            divided += usize::from(cut(&mut last, &mut anchors));
        }
        // Operations before the first mark and after the last one are in no step. They do not count against the marks.
        inside += u64::from(boundaries.peek().is_some() && marks.boundaries[0] <= event.start);
        let members = symbols.widths[event.symbol as usize];
        if last.is_none_or(|(widest, ..)| members >= widest) {
            last = Some((members, key, event.end));
        }
    }
    for _ in boundaries {
        divided += usize::from(cut(&mut last, &mut anchors));
    }
    // Before the first mark there may be no operation. Between two marks there must be one.
    if (divided as f64) < MIN_CONFIDENCE * (marks.boundaries.len() - 1) as f64 {
        return None;
    }
    times.sort_unstable();
    Some(StepPlan {
        source: "marks",
        pattern: Some(marks.what.clone()),
        explained: inside,
        total: inside,
        anchors: Arc::new(anchors),
        median_ns: times.get(times.len() / 2).copied(),
        reason: None,
        reference: None,
        others: BTreeMap::new(),
    })
}

/// Event as the search for a cycle sees it.
#[derive(Clone, Copy)]
struct Seen {
    symbol: u32,
    reduced_bytes: u64,
    /// True for a wait of the reducer. Each step has one.
    is_mark: bool,
}

/// Finds the shortest sequence whose repetition explains the events. It explains nine tenths of the operations, of the
/// reducer's waits, and of each operation that reduces a notable part of all reduced bytes. A longer sequence would be
/// several steps with an evaluation every fifty steps between them. A shorter sequence without reductions would be a
/// part of a step, such as a layer or a micro-step of gradient accumulation.
fn find_cycle(events: &[Seen]) -> Option<Vec<u32>> {
    find_cycle_of(1, events)
}

/// The same with a minimum number of different symbols.
fn find_cycle_of(different: usize, events: &[Seen]) -> Option<Vec<u32>> {
    let (explains, nearest) = search_cycle(different, MIN_CONFIDENCE, events);
    explains.or(nearest.filter(|_| different < 2))
}

/// Finds the shortest sequence that leaves almost nothing unexplained.
fn find_whole_cycle(events: &[Seen]) -> Option<Vec<u32>> {
    search_cycle(1, WHOLE, events).0
}

/// Finds the shortest sequence that explains at least the share `least` of the events, and the sequence whose
/// repetition differs least from them.
fn search_cycle(different: usize, least: f64, events: &[Seen]) -> (Option<Vec<u32>>, Option<Vec<u32>>) {
    // Warm-up is at the front: initial broadcasts, and buckets that are rebuilt after the first step.
    let events = &events[events.len() / 4..];
    let symbols: Vec<u32> = events.iter().map(|event| event.symbol).collect();
    let needed = Needed::of(events);
    let longest = (symbols.len() / 2).min(LONGEST);
    let mut examined = 0;
    // The period that differs least, if no sequence explains enough.
    let mut nearest: Option<(f64, usize)> = None;
    for period in 1..=longest {
        let pairs = symbols.len() - period;
        let most = (0.3 * pairs as f64) as usize;
        let mut differing = 0;
        for (one, other) in symbols.iter().zip(&symbols[period..]) {
            differing += usize::from(one != other);
            if differing > most {
                break;
            }
        }
        if differing > most {
            continue;
        }
        let rate = differing as f64 / pairs as f64;
        if nearest.is_none_or(|(least, _)| rate < least) {
            nearest = Some((rate, period));
        }
        let has_enough = |cycle: &Vec<u32>| different < 2 || cycle.iter().any(|&symbol| symbol != cycle[0]);
        if examined < MAX_PERIODS
            && let Some(cycle) = clean_cycle(&symbols, period).filter(has_enough)
        {
            examined += 1;
            if needed.are_explained(events, &cycle, least) {
                return (Some(cycle), None);
            }
        }
    }
    (
        None,
        nearest.and_then(|(_, period)| clean_cycle(&symbols, period)),
    )
}

/// Returns a cycle that occurs twice in a row.
fn clean_cycle(symbols: &[u32], period: usize) -> Option<Vec<u32>> {
    (0..symbols.len().checked_sub(2 * period)? + 1)
        .find(|&at| symbols[at..at + period] == symbols[at + period..at + 2 * period])
        .map(|at| symbols[at..at + period].to_vec())
}

/// Number of occurrences of each symbol that a cycle must explain.
struct Needed {
    all: u64,
    each: FxHashMap<u32, u64>,
}

impl Needed {
    fn of(events: &[Seen]) -> Self {
        let mut seen: FxHashMap<u32, (u64, u64, bool)> = FxHashMap::default();
        for event in events {
            let of = seen.entry(event.symbol).or_default();
            of.0 += 1;
            of.1 = of.1.saturating_add(event.reduced_bytes);
            of.2 |= event.is_mark;
        }
        let reduced = events
            .iter()
            .fold(0u64, |sum, event| sum.saturating_add(event.reduced_bytes));
        let least = (reduced as f64 * MIN_REDUCED_SHARE) as u64;
        seen.retain(|_, &mut (count, bytes, is_mark)| {
            count >= MIN_CYCLES && (is_mark || (bytes > 0 && bytes >= least))
        });
        Self {
            all: events.len() as u64,
            each: seen
                .into_iter()
                .map(|(symbol, (count, ..))| (symbol, count))
                .collect(),
        }
    }

    fn are_explained(&self, events: &[Seen], cycle: &[u32], least: f64) -> bool {
        let in_cycle = |symbol: u32| cycle.iter().filter(|&&one| one == symbol).count() as u64;
        // Every step has these symbols, so the cycle must contain them. This check avoids a pass over the events.
        #[expect(clippy::iter_over_hash_type, reason = "all must hold, in whatever order")]
        for &symbol in self.each.keys() {
            if in_cycle(symbol) == 0 {
                return false;
            }
        }
        let mut search = Search::new(cycle);
        let cycles = events.iter().filter(|event| search.feed(event.symbol)).count() as u64;
        // The first and the last cycle may be cut off.
        let enough = |explained: u64, seen: u64, each: u64| {
            explained as f64 >= least * seen.saturating_sub(2 * each) as f64
        };
        let length = cycle.len() as u64;
        enough(cycles * length, self.all, length)
            && self.each.iter().all(|(&symbol, &seen)| {
                let each = in_cycle(symbol);
                enough(cycles * each, seen, each)
            })
    }
}

/// Returns, for each position of a cycle of messages, whether a step can end there. A stage sends micro-batches and
/// receives their gradients. The number of unanswered messages is therefore smallest at the end of a step, and only
/// there. If sends and receives do not balance, every position qualifies.
fn answered(directions: &[i64]) -> Vec<bool> {
    let open: Vec<i64> = directions
        .iter()
        .scan(0, |open, direction| {
            *open += direction;
            Some(*open)
        })
        .collect();
    let least = open.iter().min().copied().unwrap_or(0);
    let returns = open.last() == Some(&0);
    open.iter().map(|&open| !returns || open == least).collect()
}

/// Rotates the cycle so that a step ends where communication ends: after the reducer's wait, else before the longest
/// pause. `directions` is known for cycles that consist of messages only.
fn rotate(
    mut cycle: Vec<u32>,
    directions: Option<&[i64]>,
    window: &[Event],
    symbol: impl Fn(&Event) -> u32,
) -> Vec<u32> {
    let length = cycle.len();
    let mut pauses: Vec<Vec<i64>> = vec![Vec::new(); length];
    let mut at = 0;
    while at + length < window.len() {
        if (0..length).all(|position| symbol(&window[at + position]) == cycle[position]) {
            let mut done = window[at].end;
            for (position, pauses) in pauses.iter_mut().enumerate() {
                done = done.max(window[at + position].end);
                pauses.push(window[at + position + 1].start - done);
            }
            at += length;
        } else {
            at += 1;
        }
    }
    let has_reducer = cycle.contains(&REDUCER);
    let opening: Vec<bool> = cycle
        .iter()
        .map(|&wanted| {
            window
                .iter()
                .find(|&event| symbol(event) == wanted)
                .is_some_and(|event| event.opens)
        })
        .collect();
    // A step ends between a reduction and a distribution: gradients end it, and parameters, input or activations begin
    // the next one. Such places also exist inside a step, but without an optimizer between them.
    let is_seam = |position: usize| !opening[position] && opening[(position + 1) % length];
    let has_seam = (0..length).any(is_seam);
    let may_end = directions.map_or_else(|| vec![true; length], answered);
    let last = (0..length)
        .filter(|&position| may_end[position])
        .filter(|&position| match (has_reducer, has_seam) {
            (true, _) => cycle[position] == REDUCER,
            (false, true) => is_seam(position),
            (false, false) => true,
        })
        .max_by_key(|&position| {
            pauses[position].sort_unstable();
            (
                pauses[position]
                    .get(pauses[position].len() / 2)
                    .copied()
                    .unwrap_or(i64::MIN),
                position,
            )
        })
        .unwrap_or(length - 1);
    cycle.rotate_left((last + 1) % length);
    cycle
}

/// Finds a sequence in a stream without overlaps (Knuth, Morris, Pratt).
struct Search<'a> {
    cycle: &'a [u32],
    failure: Vec<usize>,
    state: usize,
}

impl<'a> Search<'a> {
    fn new(cycle: &'a [u32]) -> Self {
        let mut failure = vec![0; cycle.len()];
        let mut length = 0;
        for position in 1..cycle.len() {
            while length > 0 && cycle[position] != cycle[length] {
                length = failure[length - 1];
            }
            length += usize::from(cycle[position] == cycle[length]);
            failure[position] = length;
        }
        Self {
            cycle,
            failure,
            state: 0,
        }
    }

    /// Returns true if this symbol completes the sequence.
    fn feed(&mut self, symbol: u32) -> bool {
        while self.state > 0 && self.cycle[self.state] != symbol {
            self.state = self.failure[self.state - 1];
        }
        self.state += usize::from(self.cycle[self.state] == symbol);
        if self.state < self.cycle.len() {
            return false;
        }
        self.state = 0;
        true
    }
}

/// A whole cycle.
struct Found {
    /// Last shared operation between this cycle and the previous one, if they form a step of another kind.
    between: Option<(Key, i64)>,
    /// The anchor of the cycle.
    anchor: Option<(Key, i64)>,
}

/// Operations between two cycles.
#[derive(Clone, Copy, Default)]
struct Between {
    operations: u64,
    reduced_bytes: u64,
    /// The last operation that all members of the widest communicator call.
    last: Option<(u32, Key, i64)>,
}

/// Finds whole cycles in a stream of events, and the operations between them.
struct Matcher<'a> {
    search: Search<'a>,
    anchor: usize,
    recent: VecDeque<Event>,
    between: Between,
    operations_in_cycle: u64,
    cycles: u64,
    explained: u64,
    total: u64,
    since_last: u64,
}

impl<'a> Matcher<'a> {
    fn new(cycle: &'a [u32], anchor: usize) -> Self {
        let operations_in_cycle = cycle.iter().filter(|&&symbol| symbol != REDUCER).count() as u64;
        Self {
            search: Search::new(cycle),
            anchor,
            recent: VecDeque::new(),
            between: Between::default(),
            operations_in_cycle,
            cycles: 0,
            explained: 0,
            total: 0,
            since_last: 0,
        }
    }

    /// Returns the cycle that this event completes, if any.
    fn feed(&mut self, symbol: u32, event: &Event) -> Option<Found> {
        self.since_last += u64::from(event.key.is_some());
        self.recent.push_back(*event);
        if self.recent.len() > self.search.cycle.len()
            && let Some(event) = self.recent.pop_front()
        {
            self.pass(&event);
        }
        if !self.search.feed(symbol) {
            return None;
        }
        self.cycles += 1;
        self.explained += self.operations_in_cycle;
        let between = std::mem::take(&mut self.between);
        let reduced = self
            .recent
            .iter()
            .fold(0u64, |sum, event| sum.saturating_add(event.reduced_bytes));
        // Operations that reduce as much as a step are a step in another order. A single operation is a barrier, a
        // metric or a flag.
        let is_other = between.operations > 1
            && reduced > 0
            && between.reduced_bytes.saturating_mul(100) <= reduced.saturating_mul(MAX_REDUCED_PERCENT);
        // Warm-up before the first cycle, the end after the last cycle, and steps of other kinds do not count against
        // the pattern.
        self.total += if self.cycles == 1 || is_other {
            self.operations_in_cycle
        } else {
            self.since_last
        };
        self.since_last = 0;
        let anchor = self
            .recent
            .get(self.anchor)
            .and_then(|event| Some((event.key?, event.end)));
        self.recent.clear();
        Some(Found {
            between: between
                .last
                .filter(|_| is_other && self.cycles > 1)
                .map(|(_, key, end)| (key, end)),
            anchor,
        })
    }

    /// Counts an event that belongs to no cycle.
    fn pass(&mut self, event: &Event) {
        let Some(key) = event.key else { return };
        self.between.operations += 1;
        self.between.reduced_bytes = self.between.reduced_bytes.saturating_add(event.reduced_bytes);
        let is_shared = !matches!(key.operation.pattern(), Pattern::PointToPoint | Pattern::OneSided);
        if is_shared && self.between.last.is_none_or(|(widest, ..)| event.width >= widest) {
            self.between.last = Some((event.width, key, event.end));
        }
    }
}

/// Describes a cycle, as in `3 × all-reduce …, reducer wait`.
fn describe(cycle: &[u32], names: &[String]) -> String {
    const MAX_SHOWN: usize = 12;
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &symbol in cycle {
        match parts.last_mut() {
            Some((last, count)) if *last == symbol => *count += 1,
            _ => parts.push((symbol, 1)),
        }
    }
    let name = |symbol: u32| names.get(symbol as usize).map_or("?", String::as_str);
    let mut text: Vec<String> = parts
        .iter()
        .take(MAX_SHOWN)
        .map(|&(symbol, count)| {
            if count == 1 {
                name(symbol).to_owned()
            } else {
                format!("{count} × {}", name(symbol))
            }
        })
        .collect();
    if parts.len() > MAX_SHOWN {
        text.push(format!("… ({} operations in total)", cycle.len()));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates events. Symbol 0 is the reducer's wait; the others reduce a kilobyte.
    fn seen(symbols: &[u32]) -> Vec<Seen> {
        let seen = symbols.iter().map(|&symbol| Seen {
            symbol,
            reduced_bytes: if symbol == REDUCER { 0 } else { 1024 },
            is_mark: symbol == REDUCER,
        });
        seen.collect()
    }

    /// Gathers (1), reductions of gradients (2), and reductions of metrics (3).
    fn gathered(symbols: &[u32]) -> Vec<Seen> {
        let seen = symbols.iter().map(|&symbol| Seen {
            symbol,
            reduced_bytes: [0, 0, 1 << 20, 8][symbol as usize],
            is_mark: false,
        });
        seen.collect()
    }

    #[test]
    fn micro_steps_are_no_steps_and_evaluations_are_no_part_of_them() {
        // Sixteen micro-steps of eight gathers; only the last micro-step reduces. Gathers alone are 96 % of the
        // operations.
        let mut step = [1; 8].repeat(15);
        step.extend([1, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 2]);
        let accumulated = find_cycle(&gathered(&step.repeat(20))).expect("a cycle");
        assert_eq!(accumulated.len(), step.len());
        // Every ten steps, an evaluation gathers and reduces metrics. That is exactly periodic, but ten steps are not
        // one step.
        let step = [1, 1, 1, 2, 1, 2, 1, 2];
        let mut run = Vec::new();
        for _ in 0..12 {
            run.extend(step.repeat(10));
            run.extend([1, 1, 3]);
        }
        assert_eq!(find_cycle(&gathered(&run)).expect("a cycle").len(), step.len());
        // A layer reduces four times as much among few ranks as the step reduces among all ranks. The layer is not the
        // step.
        let mut step = [2].repeat(96);
        step.push(3);
        let mut events = gathered(&step.repeat(20));
        for event in events.iter_mut().filter(|event| event.symbol == 3) {
            event.reduced_bytes = 24 << 20;
        }
        assert_eq!(find_cycle(&events).expect("a cycle").len(), 97);
    }

    #[test]
    fn a_cycle_is_found_behind_a_warm_up_and_through_extra_operations() {
        let mut symbols = vec![9, 9, 9, 1, 0];
        for step in 0..50 {
            symbols.extend([1, 1, 1, 0]);
            if step % 20 == 19 {
                symbols.push(5);
            }
        }
        let cycle = find_cycle(&seen(&symbols)).expect("a cycle");
        assert_eq!(cycle.len(), 4);
        assert_eq!(cycle.iter().filter(|&&symbol| symbol == 0).count(), 1);
    }

    #[test]
    fn a_rare_mark_in_a_long_cycle_is_not_overlooked() {
        let mut symbols = Vec::new();
        for _ in 0..60 {
            symbols.extend(std::iter::repeat_n(1, 100));
            symbols.push(0);
        }
        assert_eq!(find_cycle(&seen(&symbols)).expect("a cycle").len(), 101);
        assert_eq!(find_cycle(&seen(&[3; 40])).expect("a cycle"), vec![3]);
    }

    #[test]
    fn a_cycle_of_messages_ends_where_all_is_answered() {
        // S S R S R R, beginning in the middle.
        assert_eq!(
            answered(&[1, -1, -1, 1, 1, -1]),
            [false, false, true, false, false, false]
        );
        // Only sends: no message is answered, and the step may end anywhere.
        assert_eq!(answered(&[1, 1]), [true, true]);
    }

    #[test]
    fn noise_has_no_cycle() {
        let mut state = 1u32;
        let noise: Vec<u32> = (0..2000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 28
            })
            .collect();
        assert_eq!(find_cycle(&seen(&noise)), None);
        assert_eq!(find_cycle(&[]), None);
        assert_eq!(find_cycle(&seen(&[1])), None);
    }
}
