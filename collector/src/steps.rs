//! Steps from the program's marks, or from the repeating sequence of operations (METRICS.md, section 7).
//!
//! One rank of each world, the reference, is read first: its sequence of (communicator, operation, type), without
//! sizes, and of waits of DistributedDataParallel's reducer. The operation that ends a cycle is an *anchor*: its key
//! is the same on all ranks, so all ranks are cut at the same instances and number their steps alike.

use crate::rank::{RankBatch, RankOperation, RankReader};
use crate::step_marks::Marks;
use rankscope_formats::session::OperationState;
use rankscope_formats::{Library, Operation, Pattern};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Share of the operations that the pattern must explain.
pub const LEAST_CONFIDENCE: f64 = 0.9;
/// Events in which the pattern is looked for.
const WINDOW: usize = 1 << 14;
/// Longest pattern.
const LONGEST: usize = 1 << 12;
/// Events that are put into the order of their issue: worker threads may run them in another.
const REORDER: usize = 256;
/// Cycles without which there is no pattern.
const FEWEST_CYCLES: u64 = 3;
/// How many anchors a rank may have lost in a row and still be found again.
const LOST_ANCHORS: usize = 64;
/// Symbol of a wait in the reducer.
const REDUCER: u32 = 0;

/// What names an operation that ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    communicator: u32,
    operation: Operation,
    tag: u32,
    sequence: u32,
}

impl Key {
    fn of(operation: &RankOperation) -> Self {
        Self {
            communicator: operation.communicator,
            operation: operation.operation,
            tag: operation.tag,
            sequence: operation.sequence,
        }
    }
}

/// Keys that go on by the same steps: a run of any length takes one entry.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Key,
    tag_step: u32,
    sequence_step: u32,
    count: u32,
    /// Anchors before this run.
    before: u32,
}

impl Run {
    fn key(&self, at: u32) -> Key {
        Key {
            tag: self.first.tag.wrapping_add(self.tag_step.wrapping_mul(at)),
            sequence: self
                .first
                .sequence
                .wrapping_add(self.sequence_step.wrapping_mul(at)),
            ..self.first
        }
    }
}

/// The anchors of a world, in order.
#[derive(Clone, Debug, Default)]
pub struct AnchorList {
    runs: Vec<Run>,
}

impl AnchorList {
    fn push(&mut self, key: Key) {
        let Some(last) = self.runs.last_mut() else {
            self.runs.push(Run {
                first: key,
                tag_step: 0,
                sequence_step: 0,
                count: 1,
                before: 0,
            });
            return;
        };
        let alike = last.first.communicator == key.communicator && last.first.operation == key.operation;
        if alike && last.count == 1 {
            last.tag_step = key.tag.wrapping_sub(last.first.tag);
            last.sequence_step = key.sequence.wrapping_sub(last.first.sequence);
        }
        if alike && last.key(last.count) == key {
            last.count += 1;
        } else {
            let before = last.before + last.count;
            self.runs.push(Run {
                first: key,
                tag_step: 0,
                sequence_step: 0,
                count: 1,
                before,
            });
        }
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.runs.last().map_or(0, |last| last.before + last.count)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// A rank's place among the anchors of its world.
#[derive(Clone, Default)]
pub struct Anchors {
    list: Arc<AnchorList>,
    run: usize,
    at: u32,
}

impl Anchors {
    /// At the first anchor.
    pub fn new(list: Arc<AnchorList>) -> Self {
        Self { list, run: 0, at: 0 }
    }

    /// The number of the anchor that this operation is; `None` if it is none.
    #[inline]
    pub fn number_of(&mut self, operation: &RankOperation) -> Option<u32> {
        let run = self.list.runs.get(self.run)?;
        if operation.operation != run.first.operation || operation.communicator != run.first.communicator {
            return if self.at + 1 >= run.count || self.list.runs.len() > 1 {
                self.search(operation)
            } else {
                None
            };
        }
        let key = Key::of(operation);
        let expected = run.key(self.at);
        if key == expected {
            return Some(self.advance());
        }
        // Tags and sequences grow: what is not beyond the next anchor cannot be a later one.
        if (key.tag, key.sequence) > (expected.tag, expected.sequence) {
            self.search(operation)
        } else {
            None
        }
    }

    fn advance(&mut self) -> u32 {
        let Some(run) = self.list.runs.get(self.run) else {
            return 0;
        };
        let number = run.before + self.at;
        self.at += 1;
        if self.at >= run.count {
            self.run += 1;
            self.at = 0;
        }
        number
    }

    /// A record was lost: looks for the operation among the next anchors.
    #[cold]
    fn search(&mut self, operation: &RankOperation) -> Option<u32> {
        let key = Key::of(operation);
        let (mut run, mut at) = (self.run, self.at);
        for _ in 0..LOST_ANCHORS {
            let here = self.list.runs.get(run)?;
            if here.key(at) == key {
                (self.run, self.at) = (run, at);
                return Some(self.advance());
            }
            at += 1;
            if at >= here.count {
                run += 1;
                at = 0;
            }
        }
        None
    }
}

/// The steps of a world, as its reference rank tells them.
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: &'static str,
    /// The cycle, for people.
    pub pattern: Option<String>,
    /// Operations of the cycles, and all operations between the first and the last cycle.
    pub explained: u64,
    /// See `explained`.
    pub total: u64,
    /// The operations that end cycles; empty where there are no steps.
    pub anchors: Arc<AnchorList>,
    /// Median time between anchors on the reference rank, ns.
    pub median_ns: Option<i64>,
    /// Why there are no steps.
    pub reason: Option<String>,
}

impl StepPlan {
    fn none(reason: impl Into<String>) -> Self {
        Self {
            source: "none",
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Share of the operations that the pattern explains.
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
    key: Option<Key>,
    /// A device ran it, and no call is known.
    is_replay: bool,
}

/// Numbers for what events are, in order of appearance.
struct Symbols {
    plain: FxHashMap<(u32, Operation, u8, i32), u32>,
    sized: FxHashMap<(u32, u64), u32>,
    names: Vec<String>,
    sized_names: Vec<String>,
    widths: Vec<u32>,
    /// Events stand at the time at which the host asked, also of operations whose times are a device's.
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
            self.widths.push(width(operation.communicator));
            self.names.len() as u32 - 1
        });
        let names = &self.names;
        let sized_names = &mut self.sized_names;
        let sized = *self.sized.entry((symbol, operation.bytes)).or_insert_with(|| {
            sized_names.push(format!("{}, {} bytes", names[symbol as usize], operation.bytes));
            sized_names.len() as u32 - 1
        });
        let start = if self.by_host && operation.called_ns != crate::rank::NO_TIME {
            operation.called_ns
        } else {
            operation.arrival_ns()
        };
        Event {
            start,
            end: operation.leave_ns.max(start),
            symbol,
            sized,
            key: Some(Key::of(operation)),
            is_replay: operation.library == Library::Nccl
                && operation.called_ns == crate::rank::NO_TIME
                && operation.returned_ns == crate::rank::NO_TIME,
        }
    }
}

/// Events in the order in which the program asked for them.
struct Sequence<'a, 'b> {
    reader: &'b mut RankReader<'a>,
    batch: RankBatch,
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    waiting: FxHashMap<u64, Event>,
    next: u64,
    incoming: VecDeque<Event>,
    ended: bool,
}

/// True unless the operation was in progress at the end of its log. What was only enqueued is over for the host; but
/// beside operations whose times are a device's, the host's have no place in the order.
fn is_over(operation: &RankOperation, has_device_times: bool) -> bool {
    operation.leave_ns != crate::rank::NO_TIME
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
                // Two lists, each nearly in order; the heap has room only for nearby events.
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

/// Finds the steps of a world in its reference rank's log. `width` is the size of a communicator.
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
    let plain: Vec<u32> = window.iter().map(|event| event.symbol).collect();
    let mut source = "pattern";
    let mut cycle = find_cycle(&plain);
    // One operation over and over says nothing about where a step ends; its sizes may.
    if cycle.as_ref().is_some_and(|cycle| cycle.len() == 1) {
        let sized: Vec<u32> = window.iter().map(|event| event.sized).collect();
        if let Some(with_sizes) = find_cycle(&sized).filter(|cycle| cycle.len() > 1) {
            cycle = Some(with_sizes);
            source = "pattern-with-sizes";
        }
    }
    let with_sizes = source == "pattern-with-sizes";
    let symbol = |event: &Event| if with_sizes { event.sized } else { event.symbol };
    let Some(cycle) = cycle else {
        return StepPlan::none("no repeating sequence of operations was found");
    };
    let cycle = rotate(cycle, &window, symbol);
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
    let mut feed = |event: &Event| {
        if let Some((key, end)) = matcher.feed(symbol(event), event) {
            if let Some(last) = last.replace(end)
                && times.len() < WINDOW
            {
                times.push(end - last);
            }
            return Some(key);
        }
        None
    };
    let mut anchors = AnchorList::default();
    for event in &window {
        feed(event).into_iter().for_each(|key| anchors.push(key));
    }
    while let Some(event) = sequence.next(&mut symbols, &width) {
        feed(&event).into_iter().for_each(|key| anchors.push(key));
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
    };
    let confidence = plan.confidence().unwrap_or(0.0);
    if matcher.cycles < FEWEST_CYCLES {
        plan.reason = Some(format!(
            "the sequence of operations repeats only {} times",
            matcher.cycles
        ));
    } else if confidence < LEAST_CONFIDENCE {
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

/// The steps that a program marks, from the reference rank's log, read once more. `None` if the marks divide it badly:
/// then the pattern may do better.
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
    // The last operation of the step that all ranks take part in, as far as there is one.
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
        // What all members of its communicator do: a message has another name on its other end. A replay was asked for by
        // nobody at a time that is known.
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
        // What lies before the first mark and behind the last one is in no step, and no fault of theirs.
        inside += u64::from(boundaries.peek().is_some() && marks.boundaries[0] <= event.start);
        let members = symbols.widths[event.symbol as usize];
        if last.is_none_or(|(widest, ..)| members >= widest) {
            last = Some((members, key, event.end));
        }
    }
    for _ in boundaries {
        divided += usize::from(cut(&mut last, &mut anchors));
    }
    // Before the first mark there need be no operation; between two marks there must.
    if (divided as f64) < LEAST_CONFIDENCE * (marks.boundaries.len() - 1) as f64 {
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
    })
}

/// The shortest sequence of which the events are, as nearly as of any, a repetition.
fn find_cycle(symbols: &[u32]) -> Option<Vec<u32>> {
    // Warm-up is at the front: initial broadcasts, buckets that are rebuilt after the first step.
    let symbols = &symbols[symbols.len() / 4..];
    let longest = (symbols.len() / 2).min(LONGEST);
    let slack = 4.0 / symbols.len() as f64;
    let mut best = 0.3;
    let mut rates: Vec<(usize, f64)> = Vec::new();
    for period in 1..=longest {
        let pairs = symbols.len() - period;
        let most = ((best * 1.25 + slack) * pairs as f64) as usize;
        let mut differing = 0;
        for (one, other) in symbols.iter().zip(&symbols[period..]) {
            differing += usize::from(one != other);
            if differing > most {
                break;
            }
        }
        if differing <= most {
            let rate = differing as f64 / pairs as f64;
            best = best.min(rate);
            rates.push((period, rate));
        }
    }
    let limit = best * 1.25 + slack;
    let &(period, _) = rates.iter().find(|(_, rate)| *rate <= limit)?;
    // Two equal cycles in a row are a clean one.
    (0..symbols.len().checked_sub(2 * period)? + 1)
        .find(|&at| symbols[at..at + period] == symbols[at + period..at + 2 * period])
        .map(|at| symbols[at..at + period].to_vec())
}

/// Turns the cycle so that a step ends where communication ends: after the reducer's wait, else before the longest
/// pause.
fn rotate(mut cycle: Vec<u32>, window: &[Event], symbol: impl Fn(&Event) -> u32) -> Vec<u32> {
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
    let last = (0..length)
        .filter(|&position| !has_reducer || cycle[position] == REDUCER)
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

/// Finds whole cycles in a stream of events (after Knuth, Morris and Pratt).
struct Matcher<'a> {
    cycle: &'a [u32],
    failure: Vec<usize>,
    anchor: usize,
    state: usize,
    recent: VecDeque<(Option<Key>, i64)>,
    operations_in_cycle: u64,
    cycles: u64,
    explained: u64,
    total: u64,
    since_last: u64,
}

impl<'a> Matcher<'a> {
    fn new(cycle: &'a [u32], anchor: usize) -> Self {
        let mut failure = vec![0; cycle.len()];
        let mut length = 0;
        for position in 1..cycle.len() {
            while length > 0 && cycle[position] != cycle[length] {
                length = failure[length - 1];
            }
            length += usize::from(cycle[position] == cycle[length]);
            failure[position] = length;
        }
        let operations_in_cycle = cycle.iter().filter(|&&symbol| symbol != REDUCER).count() as u64;
        Self {
            cycle,
            failure,
            anchor,
            state: 0,
            recent: VecDeque::new(),
            operations_in_cycle,
            cycles: 0,
            explained: 0,
            total: 0,
            since_last: 0,
        }
    }

    /// The anchor's key and end, if this event ends a cycle.
    fn feed(&mut self, symbol: u32, event: &Event) -> Option<(Key, i64)> {
        self.since_last += u64::from(event.key.is_some());
        self.recent.push_back((event.key, event.end));
        if self.recent.len() > self.cycle.len() {
            self.recent.pop_front();
        }
        while self.state > 0 && self.cycle[self.state] != symbol {
            self.state = self.failure[self.state - 1];
        }
        self.state += usize::from(self.cycle[self.state] == symbol);
        if self.state < self.cycle.len() {
            return None;
        }
        self.state = 0;
        self.cycles += 1;
        self.explained += self.operations_in_cycle;
        // Before the first cycle lies warm-up, after the last the end: neither speaks against the pattern.
        self.total += if self.cycles == 1 {
            self.operations_in_cycle
        } else {
            self.since_last
        };
        self.since_last = 0;
        let (key, end) = *self.recent.get(self.anchor)?;
        Some((key?, end))
    }
}

/// `3 × all-reduce …, reducer wait`.
fn describe(cycle: &[u32], names: &[String]) -> String {
    const MOST_SHOWN: usize = 12;
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
        .take(MOST_SHOWN)
        .map(|&(symbol, count)| {
            if count == 1 {
                name(symbol).to_owned()
            } else {
                format!("{count} × {}", name(symbol))
            }
        })
        .collect();
    if parts.len() > MOST_SHOWN {
        text.push(format!("… ({} operations in all)", cycle.len()));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_behind_a_warm_up_and_through_extra_operations() {
        let mut symbols = vec![9, 9, 9, 1, 0];
        for step in 0..50 {
            symbols.extend([1, 1, 1, 0]);
            if step % 20 == 19 {
                symbols.push(5);
            }
        }
        let cycle = find_cycle(&symbols).expect("a cycle");
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
        assert_eq!(find_cycle(&symbols).expect("a cycle").len(), 101);
        assert_eq!(find_cycle(&[3; 40]).expect("a cycle"), vec![3]);
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
        assert_eq!(find_cycle(&noise), None);
        assert_eq!(find_cycle(&[]), None);
        assert_eq!(find_cycle(&[1]), None);
    }

    #[test]
    fn anchors_of_a_regular_run_take_one_entry_and_survive_lost_records() {
        let key = |n: u32| Key {
            communicator: 1,
            operation: Operation::AllReduce,
            tag: 10 + 3 * n,
            sequence: 0,
        };
        let mut list = AnchorList::default();
        (0..100).for_each(|n| list.push(key(n)));
        assert_eq!((list.len(), list.runs.len()), (100, 1));
        list.push(Key { tag: 1000, ..key(0) });
        assert_eq!(list.len(), 101);
        assert_eq!(list.runs[0].key(42), key(42));
    }
}
