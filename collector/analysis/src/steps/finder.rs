//! Finds steps from the program's marks, or from the repeating sequence of operations (METRICS.md, section 7).
//!
//! One rank of each world, the reference, is read first. Its sequence consists of (communicator, operation, type)
//! without sizes, and of waits of DistributedDataParallel's reducer. The operation that ends a cycle is an *anchor*.
//! Its key is the same on all ranks, so all ranks are cut at the same instances and number their steps alike.

use crate::rank::RankReader;
use crate::rank::anchors::{AnchorList, Key};
use crate::steps::cycle::{MIN_CYCLES, Seen, find_cycle, find_cycle_of, find_whole_cycle};
use crate::steps::cycle_end::rotate;
use crate::steps::cycle_matcher::CycleMatcher;
use crate::steps::events::{Event, LastOfWidest, REDUCER, Sequence, StepEnd, Symbols, is_of_all_members};
use crate::steps::marks::Marks;
use crate::steps::plan::{MIN_CONFIDENCE, StepPlan};
use crate::steps::side_communicators::SideCommunicators;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::StepKind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of events in which the pattern is searched.
const WINDOW: usize = 1 << 14;
/// Minimum number of different operations of a checkpoint: its processes gather plans, broadcast and scatter them. An exchange per step
/// has one or two.
const MIN_CHECKPOINT_SYMBOLS: usize = 3;
/// Maximum number of steps whose times are kept for the median.
const MAX_TIMES: usize = WINDOW;

/// Finds the steps of a world in its reference rank's log. `reader` opens the log, and `width` returns the size of a
/// communicator.
///
/// Operations of a device run later than their calls, by a time that varies. The program's own waits then fall between
/// different operations in each step, and no sequence repeats. If the order of arrival has no steps,
/// the search tries the order of the calls.
pub fn plan<'a>(reader: impl Fn() -> RankReader<'a>, width: impl Fn(CommunicatorId) -> u32) -> StepPlan {
    let mut symbols = Symbols::new();
    let by_arrival = plan_in_order(&mut reader(), &mut symbols, &width);
    if !by_arrival.anchors.is_empty() || !symbols.has_calls {
        return by_arrival;
    }
    let by_call = plan_in_order(&mut reader(), &mut Symbols::by_host(), &width);
    if by_call.anchors.is_empty() {
        by_arrival
    } else {
        by_call
    }
}

fn plan_in_order(
    reader: &mut RankReader<'_>,
    symbols: &mut Symbols,
    width: &impl Fn(CommunicatorId) -> u32,
) -> StepPlan {
    let mut sequence = Sequence::new(reader);
    let mut window = Vec::with_capacity(WINDOW);
    while window.len() < WINDOW
        && let Some(event) = sequence.next(symbols, width)
    {
        window.push(event);
    }
    if window.is_empty() {
        return StepPlan::none("no operation was recorded");
    }
    let (pattern, aside) = Pattern::find_beside(&mut window, symbols);
    let Some(pattern) = pattern else {
        return StepPlan::none("no repeating sequence of operations was found");
    };
    let mut matcher = CycleMatcher::new(&pattern.cycle, pattern.anchor);
    let mut ends = StepEnds::default();
    let mut take = |event: &Event| {
        let Some(found) = matcher.feed(pattern.distinction.of(event), event) else {
            return;
        };
        if let Some(end) = found.between {
            ends.push_other(end);
        }
        if let Some(end) = found.anchor {
            ends.push(end);
        }
    };
    window.iter().for_each(&mut take);
    while let Some(event) = sequence.next(symbols, width) {
        if !aside.has(&event) {
            take(&event);
        }
    }
    let plan = StepPlan {
        source: match pattern.distinction {
            Distinction::Size => "pattern-with-sizes",
            Distinction::Operation | Distinction::PositionInLaunch => "pattern",
        },
        pattern: Some(pattern.describe(symbols)),
        explained: matcher.explained,
        total: matcher.total,
        median_ns: ends.median_ns(),
        anchors: Arc::new(ends.anchors),
        reason: None,
        reference: None,
        others: BTreeMap::new(),
    };
    reject_poor(plan, matcher.cycles)
}

/// Removes the steps of a plan whose pattern repeats too rarely, or explains too little.
fn reject_poor(plan: StepPlan, cycles: u64) -> StepPlan {
    let reason = if cycles < MIN_CYCLES {
        format!("the sequence of operations repeats only {cycles} times")
    } else if plan.confidence().unwrap_or(0.0) < MIN_CONFIDENCE {
        format!(
            "the repeating sequence explains only {} of {} operations",
            plan.explained, plan.total
        )
    } else {
        return plan;
    };
    StepPlan {
        source: "none",
        anchors: Arc::default(),
        median_ns: None,
        reason: Some(reason),
        ..plan
    }
}

/// Ends of steps in order of time, and the times between them.
#[derive(Default)]
struct StepEnds {
    anchors: AnchorList,
    times_ns: Vec<i64>,
    last_ns: Option<i64>,
}

impl StepEnds {
    /// Adds the end of a training step.
    fn push(&mut self, end: StepEnd) {
        if let Some(before_ns) = self.last_ns.replace(end.end_ns)
            && self.times_ns.len() < MAX_TIMES
        {
            self.times_ns.push(end.end_ns - before_ns);
        }
        self.anchors.push(end.key);
    }

    /// Adds the end of an evaluation, or of another step that is not training. The next step begins after it.
    fn push_other(&mut self, end: StepEnd) {
        self.anchors.push_other(end.key, StepKind::Evaluate);
        self.last_ns = Some(end.end_ns);
    }

    /// Returns the median time of a training step, in ns.
    fn median_ns(&mut self) -> Option<i64> {
        self.times_ns.sort_unstable();
        self.times_ns.get(self.times_ns.len() / 2).copied()
    }
}

/// A repeating sequence of symbols.
struct Pattern {
    /// One cycle, which ends where a step ends.
    cycle: Vec<u32>,
    /// Property that distinguishes its symbols.
    distinction: Distinction,
    /// Position of the operation that ends a step: the last one that involves the most ranks.
    anchor: usize,
}

impl Pattern {
    /// Finds the pattern of these events, and the communicators that are no part of training. Their events are removed.
    ///
    /// If the communicators carry a message per step, it is a part of the step, and may be the only one that shows where
    /// the step begins. So they are left out only if there is no pattern with them, or if it consists of several steps and
    /// the operations of a checkpoint.
    fn find_beside(window: &mut Vec<Event>, symbols: &Symbols) -> (Option<Self>, SideCommunicators) {
        let whole = Self::find(window, symbols);
        let aside = SideCommunicators::of(window);
        if aside.is_empty() {
            return (whole, aside);
        }
        let training: Vec<Event> = window.iter().copied().filter(|event| !aside.has(event)).collect();
        let pattern = Self::find(&training, symbols);
        let is_chosen = match (&whole, &pattern) {
            (None, Some(_)) => true,
            (Some(whole), Some(pattern)) => {
                let distinction = whole.distinction;
                let side: BTreeSet<u32> = window
                    .iter()
                    .filter(|event| aside.has(event))
                    .map(|event| distinction.of(event))
                    .collect();
                distinction == pattern.distinction && whole.has_steps_of(pattern, &side)
            }
            (_, None) => false,
        };
        if is_chosen {
            *window = training;
            (pattern, aside)
        } else {
            (whole, SideCommunicators::default())
        }
    }

    /// Returns true if this pattern consists of several cycles of another one, and of operations of a checkpoint. `side` has
    /// the symbols of communicators that may be left out.
    fn has_steps_of(&self, other: &Self, side: &BTreeSet<u32>) -> bool {
        let checkpoint: BTreeSet<u32> = self
            .cycle
            .iter()
            .copied()
            .filter(|symbol| side.contains(symbol))
            .collect();
        let mut rest: Vec<u32> = self
            .cycle
            .iter()
            .copied()
            .filter(|symbol| !side.contains(symbol))
            .collect();
        let steps = rest.len() / other.cycle.len();
        let mut several = other.cycle.repeat(steps);
        rest.sort_unstable();
        several.sort_unstable();
        checkpoint.len() >= MIN_CHECKPOINT_SYMBOLS && other.cycle.len() >= 2 && steps >= 2 && rest == several
    }

    /// Finds the pattern of these events.
    fn find(window: &[Event], symbols: &Symbols) -> Option<Self> {
        let (cycle, distinguished) = Self::find_cycle(window, symbols)?;
        let symbol = |event: &Event| distinguished.of(event);
        let first_of = |sought: u32| window.iter().find(|event| symbol(event) == sought);
        let direction_of = |&sought: &u32| symbols.directions[first_of(sought)?.symbol as usize];
        let directions: Option<Vec<i64>> = cycle.iter().map(direction_of).collect();
        let cycle = rotate(cycle, directions.as_deref(), window, symbol);
        let width_of = |sought: u32| {
            let plain = first_of(sought).map_or(REDUCER, |event| event.symbol);
            symbols.widths[plain as usize]
        };
        let anchor = (0..cycle.len())
            .filter(|&position| cycle[position] != REDUCER)
            .max_by_key(|&position| (width_of(cycle[position]), position))?;
        Some(Self {
            cycle,
            distinction: distinguished,
            anchor,
        })
    }

    /// Returns the cycle that explains the events best, and the property that distinguishes its symbols.
    fn find_cycle(window: &[Event], symbols: &Symbols) -> Option<(Vec<u32>, Distinction)> {
        let found = Self::find_cycle_of_operations(window, symbols)?;
        // A step contains whole launches. A shorter cycle would divide a launch into steps.
        let collectives = window.iter().map(|event| event.collectives).max()?;
        if found.0.len() < usize::from(collectives) {
            let by_position = Distinction::PositionInLaunch;
            if let Some(cycle) = find_cycle(&by_position.seen(window)) {
                return Some((cycle, by_position));
            }
        }
        Some(found)
    }

    /// The same, without regard to launches.
    fn find_cycle_of_operations(window: &[Event], symbols: &Symbols) -> Option<(Vec<u32>, Distinction)> {
        let plain = Distinction::Operation.seen(window);
        let mut cycle = find_cycle(&plain)?;
        // A single repeated operation does not show where a step ends. Its sizes may.
        if cycle.len() == 1 {
            let with_sizes = find_cycle(&Distinction::Size.seen(window));
            if let Some(with_sizes) = with_sizes.filter(|cycle| cycle.len() > 1) {
                return Some((with_sizes, Distinction::Size));
            }
            if let Some(longer) = find_cycle_of(2, &plain) {
                // A broadcast before thirty reductions explains hardly more operations, but a step begins with it.
                cycle = longer;
            }
        }
        // A micro-batch of a pipeline explains everything but the start and the end of each step. A cycle of messages
        // alone must therefore leave almost nothing unexplained.
        let is_message = |&sought: &u32| matches!(symbols.directions.get(sought as usize), Some(Some(_)));
        if cycle.iter().all(is_message)
            && let Some(longer) = find_whole_cycle(&plain)
        {
            cycle = longer;
        }
        Some((cycle, Distinction::Operation))
    }

    fn describe(&self, symbols: &Symbols) -> String {
        let names = match self.distinction {
            Distinction::Operation => &symbols.names,
            Distinction::Size => &symbols.sized_names,
            Distinction::PositionInLaunch => &symbols.positioned_names,
        };
        describe(&self.cycle, names)
    }
}

/// Property that distinguishes the symbols of a sequence in addition to communicator, operation and type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Distinction {
    /// None.
    Operation,
    /// Payload.
    Size,
    /// Position among the collectives of its launch.
    PositionInLaunch,
}

impl Distinction {
    /// Returns the symbol of an event.
    fn of(self, event: &Event) -> u32 {
        match self {
            Self::Operation => event.symbol,
            Self::Size => event.sized,
            Self::PositionInLaunch => event.positioned,
        }
    }

    /// Returns the events as the search for a cycle sees them.
    fn seen(self, window: &[Event]) -> Vec<Seen> {
        let seen = window.iter().map(|event| Seen {
            symbol: self.of(event),
            bytes: event.bytes,
            reduced_bytes: event.reduced_bytes,
            is_mark: event.symbol == REDUCER,
        });
        seen.collect()
    }
}

/// Finds the steps that the program marks, by reading the reference rank's log again. Returns `None` if the marks
/// divide the log poorly. The pattern may then do better.
pub fn plan_by_marks(
    reader: &mut RankReader<'_>,
    marks: &Marks,
    width: impl Fn(CommunicatorId) -> u32,
) -> Option<StepPlan> {
    let mut symbols = Symbols::by_host();
    let mut sequence = Sequence::new(reader);
    let mut inside = 0;
    let mut boundaries = marks.boundaries.iter().copied().peekable();
    let mut last = LastOfWidest::default();
    let mut ends = StepEnds::default();
    let mut cut = |last: &mut LastOfWidest| {
        let end = std::mem::take(last).end();
        end.into_iter().for_each(|end| ends.push(end));
        end.is_some()
    };
    let mut divided = 0;
    while let Some(event) = sequence.next(&mut symbols, &width) {
        // The issue time of a replay is unknown.
        let is_usable = |&key: &Key| is_of_all_members(key) && !event.is_replay;
        let Some(key) = event.key.filter(is_usable) else {
            continue;
        };
        while boundaries
            .next_if(|&boundary| boundary <= event.start_ns)
            .is_some()
        {
            divided += usize::from(cut(&mut last));
        }
        // Operations before the first mark and after the last one are in no step. They do not count against the marks.
        inside += u64::from(boundaries.peek().is_some() && marks.boundaries[0] <= event.start_ns);
        last.take(&event, key);
    }
    for _ in boundaries {
        divided += usize::from(cut(&mut last));
    }
    // Before the first mark there may be no operation. Between two marks there must be one.
    if (divided as f64) < MIN_CONFIDENCE * (marks.boundaries.len() - 1) as f64 {
        return None;
    }
    Some(StepPlan {
        source: "marks",
        pattern: Some(marks.what.clone()),
        explained: inside,
        total: inside,
        median_ns: ends.median_ns(),
        anchors: Arc::new(ends.anchors),
        reason: None,
        reference: None,
        others: BTreeMap::new(),
    })
}

/// Describes a cycle, as in `3 × all-reduce …, reducer wait`.
fn describe(cycle: &[u32], names: &[String]) -> String {
    const MAX_SHOWN: usize = 12;
    let mut parts: Vec<(&str, u32)> = Vec::new();
    for &symbol in cycle {
        let name = names.get(symbol as usize).map_or("?", String::as_str);
        match parts.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => parts.push((name, 1)),
        }
    }
    let mut text: Vec<String> = parts
        .iter()
        .take(MAX_SHOWN)
        .map(|&(name, count)| {
            if count == 1 {
                name.to_owned()
            } else {
                format!("{count} × {name}")
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

    fn pattern(cycle: &[u32]) -> Pattern {
        Pattern {
            cycle: cycle.to_vec(),
            distinction: Distinction::Operation,
            anchor: 0,
        }
    }

    #[test]
    fn several_steps_and_a_checkpoint_are_no_step() {
        let side = BTreeSet::from([7, 8, 9]);
        let step = pattern(&[1, 2]);
        assert!(pattern(&[1, 2, 1, 2, 7, 8, 9]).has_steps_of(&step, &side));
        assert!(
            pattern(&[2, 7, 1, 8, 2, 9, 1]).has_steps_of(&step, &side),
            "asynchronous"
        );
        for (cycle, why) in [
            (
                &[1, 2, 1, 2, 7, 8, 8][..],
                "two different operations are control messages",
            ),
            (&[1, 2, 7, 8, 9], "one step with a checkpoint in each"),
            (&[1, 2, 1, 2, 2, 7, 8, 9], "the rest is more than steps"),
        ] {
            assert!(!pattern(cycle).has_steps_of(&step, &side), "{why}");
        }
        assert!(
            !pattern(&[1, 1, 1, 7, 8, 9]).has_steps_of(&pattern(&[1]), &side),
            "one operation does not show where a step ends"
        );
    }
}
