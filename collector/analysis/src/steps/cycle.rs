//! Searches the shortest sequence of symbols whose repetition explains the events.

use crate::steps::plan::MIN_CONFIDENCE;
use rustc_hash::FxHashMap;

/// Minimum explained share of patterns that must leave almost nothing unexplained.
const WHOLE: f64 = 0.995;
/// Maximum length of a pattern.
const LONGEST: usize = 1 << 12;
/// Minimum number of cycles.
pub(super) const MIN_CYCLES: u64 = 3;
/// Minimum share of all reduced bytes of an operation that every step must have: gradients, not metrics.
const MIN_REDUCED_SHARE: f64 = 0.01;
/// A phase of another kind, such as an evaluation, reduces at most this share of the bytes of one cycle, in percent. All phases together
/// carry at most this share of all bytes.
const MAX_PHASE_PERCENT: u64 = 10;
/// Maximum number of such phases between cycles. More of them may be a part of each step.
const MAX_PHASES: usize = 2;
/// Maximum share of the events that differ from the event one period later.
const MAX_DIFFERING: f64 = 0.3;
/// Maximum number of examined periods.
const MAX_PERIODS: usize = 256;

/// Event as the search for a cycle sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub symbol: u32,
    pub bytes: u64,
    pub reduced_bytes: u64,
    /// True for a wait of the reducer. Each step has one.
    pub is_mark: bool,
}

/// Finds the shortest sequence whose repetition explains the events. It explains nine tenths of the operations, of the
/// reducer's waits, and of each operation that reduces a notable part of all reduced bytes. A longer sequence would be
/// several steps with an evaluation every fifty steps between them. A shorter sequence without reductions would be a
/// part of a step, such as a layer or a micro-step of gradient accumulation.
///
/// If no sequence explains as much, the run may have phases of other kinds, such as an evaluation of many small operations
/// at its end. Then the shortest sequence counts that explains nine tenths of the rest, and of everything that is reduced.
pub(super) fn find_cycle(events: &[Seen]) -> Option<Vec<u32>> {
    find_cycle_of(1, events)
}

/// The same with a minimum number of different symbols.
pub(super) fn find_cycle_of(different: usize, events: &[Seen]) -> Option<Vec<u32>> {
    let (explains, nearest) = search_cycle(different, MIN_CONFIDENCE, events);
    explains.or(nearest.filter(|_| different < 2))
}

/// Finds the shortest sequence that leaves almost nothing unexplained.
pub(super) fn find_whole_cycle(events: &[Seen]) -> Option<Vec<u32>> {
    search_cycle(1, WHOLE, events).0
}

/// Finds the shortest sequence that explains at least the share `least` of the events, and the sequence whose
/// repetition differs least from them.
fn search_cycle(different: usize, least: f64, events: &[Seen]) -> (Option<Vec<u32>>, Option<Vec<u32>>) {
    let all_events = events;
    // Warm-up is at the front: initial broadcasts, and buckets that are rebuilt after the first step.
    let events = &all_events[all_events.len() / 4..];
    let symbols: Vec<u32> = events.iter().map(|event| event.symbol).collect();
    let needed = Needed::of(events);
    // A long evaluation repeats with another period. What each step needs does not occur in it.
    let is_needed: Vec<usize> = events
        .iter()
        .map(|event| usize::from(needed.each.contains_key(&event.symbol)))
        .collect();
    let most_needed = (MAX_DIFFERING * is_needed.iter().sum::<usize>() as f64) as usize;
    let longest = (symbols.len() / 2).min(LONGEST);
    let mut examined = 0;
    // The shortest sequence that explains enough, but occurs too rarely.
    let mut rare: Option<Vec<u32>> = None;
    // The shortest sequence that explains enough beside phases of other kinds.
    let mut beside_phases: Option<Vec<u32>> = None;
    // The period that differs least, if no sequence explains enough.
    let mut nearest: Option<(f64, usize)> = None;
    for period in 1..=longest {
        let pairs = symbols.len() - period;
        let most = (MAX_DIFFERING * pairs as f64) as usize;
        let (mut differing, mut needed_differing) = (0, 0);
        for ((one, other), is_needed) in symbols.iter().zip(&symbols[period..]).zip(&is_needed) {
            let differs = usize::from(one != other);
            differing += differs;
            needed_differing += differs * is_needed;
            if differing > most && needed_differing >= most_needed {
                break;
            }
        }
        if differing <= most {
            let rate = differing as f64 / pairs as f64;
            if nearest.is_none_or(|(least, _)| rate < least) {
                nearest = Some((rate, period));
            }
        } else if needed_differing >= most_needed {
            continue;
        }
        let has_enough = |cycle: &[u32]| {
            (different < 2 || cycle.iter().any(|&symbol| symbol != cycle[0])) && needed.may_explain(cycle)
        };
        if examined < MAX_PERIODS
            && let Some(cycle) = clean_cycle(&symbols, period, has_enough)
        {
            examined += 1;
            match needed.are_explained(events, &cycle, least) {
                // Two cycles, with parts of others at both ends, explain everything.
                Explained::Whole if occurs_thrice(&cycle, all_events) => return (Some(cycle), None),
                Explained::Whole => {
                    rare.get_or_insert(cycle);
                }
                Explained::BesidePhases => {
                    beside_phases.get_or_insert(cycle);
                }
                Explained::No => {}
            }
        }
    }
    let nearest = nearest.and_then(|(_, period)| {
        // Several repetitions of a shorter sequence differ as little as that sequence.
        let mut cycle = clean_run(&symbols, period, |_| true)?;
        cycle.truncate(primitive_length(&cycle));
        Some(cycle)
    });
    (beside_phases.or(rare), nearest)
}

/// Returns true if a cycle occurs three times: in a row, wherever it begins, or anywhere as it is.
fn occurs_thrice(cycle: &[u32], events: &[Seen]) -> bool {
    let period = cycle.len();
    let mut equal = 0;
    for (one, other) in events.iter().zip(events.iter().skip(period)) {
        equal = if one.symbol == other.symbol { equal + 1 } else { 0 };
        if equal >= 2 * period {
            return true;
        }
    }
    let mut search = Search::new(cycle);
    events.iter().filter(|event| search.feed(event.symbol)).count() as u64 >= MIN_CYCLES
}

/// Returns the length of the shortest sequence whose repetitions are the cycle.
fn primitive_length(cycle: &[u32]) -> usize {
    let failure = failure_function(cycle);
    let shortest = cycle.len() - failure.last().copied().unwrap_or(0);
    if shortest > 0 && cycle.len().is_multiple_of(shortest) {
        shortest
    } else {
        cycle.len()
    }
}

/// Returns a cycle that occurs twice in a row and is accepted. Repetitions of a shorter sequence are no cycle: they explain no
/// more than that sequence, and only seem to, because more of them may be cut off at both ends.
fn clean_cycle(symbols: &[u32], period: usize, accepts: impl Fn(&[u32]) -> bool) -> Option<Vec<u32>> {
    clean_run(symbols, period, |cycle| {
        accepts(cycle) && primitive_length(cycle) == cycle.len()
    })
}

/// Returns the first sequence of this length that occurs twice in a row and is accepted. In each stretch of repetitions, only
/// the first one is considered: the others are the same, beginning elsewhere.
fn clean_run(symbols: &[u32], period: usize, accepts: impl Fn(&[u32]) -> bool) -> Option<Vec<u32>> {
    let mut equal = 0;
    for (at, (one, other)) in symbols.iter().zip(symbols.iter().skip(period)).enumerate() {
        equal = if one == other { equal + 1 } else { 0 };
        if equal == period {
            let cycle = &symbols[at + 1 - period..=at];
            if accepts(cycle) {
                return Some(cycle.to_vec());
            }
        }
    }
    None
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

    /// Returns true if the cycle contains all that every step has. This check avoids a pass over the events.
    fn may_explain(&self, cycle: &[u32]) -> bool {
        self.each.keys().all(|symbol| cycle.contains(symbol))
    }

    fn are_explained(&self, events: &[Seen], cycle: &[u32], least: f64) -> Explained {
        let in_cycle = |symbol: u32| cycle.iter().filter(|&&one| one == symbol).count() as u64;
        let mut search = Search::new(cycle);
        let ends = events
            .iter()
            .zip(1..)
            .filter(|(event, _)| search.feed(event.symbol));
        let ends: Vec<usize> = ends.map(|(_, end)| end).collect();
        let cycles = ends.len() as u64;
        // The first and the last cycle may be cut off.
        let enough = |explained: u64, seen: u64, each: u64| {
            explained as f64 >= least * seen.saturating_sub(2 * each) as f64
        };
        let length = cycle.len() as u64;
        let is_each_explained = self.each.iter().all(|(&symbol, &seen)| {
            let each = in_cycle(symbol);
            enough(cycles * each, seen, each)
        });
        if !is_each_explained {
            Explained::No
        } else if enough(cycles * length, self.all, length) {
            Explained::Whole
        } else if cycles >= MIN_CYCLES
            && !self.each.is_empty()
            && enough(
                cycles * length,
                self.all - in_phases(events, &ends, cycle.len()),
                0,
            )
        {
            Explained::BesidePhases
        } else {
            Explained::No
        }
    }
}

/// How much of the events a cycle explains.
enum Explained {
    /// Enough of all.
    Whole,
    /// Enough of those that are in no phase of another kind.
    BesidePhases,
    /// Not enough.
    No,
}

/// Returns the number of events in phases of another kind: before the first cycle, after the last one, and in the longest
/// pauses between cycles. `ends` has the ends of the cycles.
fn in_phases(events: &[Seen], ends: &[usize], length: usize) -> u64 {
    let reduced = |events: &[Seen]| {
        events
            .iter()
            .fold(0u64, |sum, event| sum.saturating_add(event.reduced_bytes))
    };
    let (Some(&first), Some(&last)) = (ends.first(), ends.last()) else {
        return 0;
    };
    let of_cycle = reduced(&events[first - length..first]);
    let is_phase = |&(start, end): &(usize, usize)| {
        reduced(&events[start..end]).saturating_mul(100) <= of_cycle.saturating_mul(MAX_PHASE_PERCENT)
    };
    // A cycle may be cut off at both ends.
    let is_outer_phase = |&(start, end): &(usize, usize)| end - start < length || is_phase(&(start, end));
    let outer = [(0, first - length), (last, events.len())];
    let outer = outer.into_iter().filter(is_outer_phase);
    let between = ends.windows(2).map(|pair| (pair[0], pair[1] - length));
    let mut between: Vec<(usize, usize)> = between.filter(is_phase).collect();
    between.sort_by_key(|&(start, end)| std::cmp::Reverse(end - start));
    let phases: Vec<(usize, usize)> = outer.chain(between.into_iter().take(MAX_PHASES)).collect();
    let payload = |events: &[Seen]| {
        let sum: u128 = events.iter().map(|event| u128::from(event.bytes)).sum();
        sum
    };
    let in_phases: u128 = phases
        .iter()
        .map(|&(start, end)| payload(&events[start..end]))
        .sum();
    // A benchmark calls one operation after the other, and each carries a lot.
    if in_phases * 100 > payload(events) * u128::from(MAX_PHASE_PERCENT) {
        return 0;
    }
    phases.iter().map(|&(start, end)| (end - start) as u64).sum()
}

/// Returns for each position the length of the longest proper prefix that ends there, too.
fn failure_function(cycle: &[u32]) -> Vec<usize> {
    let mut failure = vec![0; cycle.len()];
    let mut length = 0;
    for position in 1..cycle.len() {
        while length > 0 && cycle[position] != cycle[length] {
            length = failure[length - 1];
        }
        length += usize::from(cycle[position] == cycle[length]);
        failure[position] = length;
    }
    failure
}

/// Finds a sequence in a stream without overlaps (Knuth, Morris, Pratt).
pub(super) struct Search<'a> {
    pub cycle: &'a [u32],
    failure: Vec<usize>,
    state: usize,
}

impl<'a> Search<'a> {
    pub fn new(cycle: &'a [u32]) -> Self {
        Self {
            cycle,
            failure: failure_function(cycle),
            state: 0,
        }
    }

    /// Returns true if this symbol completes the sequence.
    pub fn feed(&mut self, symbol: u32) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::events::REDUCER;

    /// Creates events. Symbol 0 is the reducer's wait; the others reduce a kilobyte.
    fn seen(symbols: &[u32]) -> Vec<Seen> {
        let seen = symbols.iter().map(|&symbol| Seen {
            symbol,
            bytes: if symbol == REDUCER { 0 } else { 1024 },
            reduced_bytes: if symbol == REDUCER { 0 } else { 1024 },
            is_mark: symbol == REDUCER,
        });
        seen.collect()
    }

    /// Gathers (1), reductions of gradients (2), and reductions of metrics (3).
    fn gathered(symbols: &[u32]) -> Vec<Seen> {
        let seen = symbols.iter().map(|&symbol| Seen {
            symbol,
            bytes: [0, 64, 1 << 20, 8][symbol as usize],
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
    fn an_evaluation_of_many_operations_does_not_change_the_step() {
        // A broadcast (1) and two reductions of gradients (2). At the end, an evaluation has barriers and gathers of metrics.
        let step = [1, 2, 2];
        let evaluation = [0, 1].repeat(60);
        for steps in [40, 100, 200, 1000] {
            for evaluations in 1..=2 {
                let mut run = Vec::new();
                for number in 0..evaluations {
                    // The phases between evaluations differ, as epochs of different data do.
                    run.extend(step.repeat(steps + 7 * number));
                    run.extend(&evaluation);
                }
                let cycle = find_cycle(&gathered(&run)).expect("a cycle");
                let mut sorted = cycle.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, [1, 2, 2], "{steps} steps, {evaluations} evaluations");
            }
        }
    }

    #[test]
    fn an_evaluation_before_the_training_is_no_step() {
        // The step has an even number of operations, like the evaluation.
        for steps in [40, 100] {
            let run = [[0, 1].repeat(60), [1, 2, 2, 2].repeat(steps)].concat();
            let mut cycle = find_cycle(&gathered(&run)).expect("a cycle");
            cycle.sort_unstable();
            assert_eq!(cycle, [1, 2, 2, 2], "{steps} steps");
        }
    }

    #[test]
    fn a_benchmark_of_collectives_has_no_steps() {
        // A barrier before each call of a reduction, then before each call of a gather that carries as much.
        let mut events = gathered(
            &[
                [0, 2].repeat(25),
                [0, 1].repeat(25),
                [0, 2].repeat(25),
                [0, 1].repeat(25),
            ]
            .concat(),
        );
        for event in events.iter_mut().filter(|event| event.symbol == 1) {
            event.bytes = 1 << 20;
        }
        let (explains, _) = search_cycle(1, MIN_CONFIDENCE, &events);
        assert_eq!(explains, None);
    }

    #[test]
    fn layers_are_no_steps_in_a_short_run() {
        // Twelve layers: gathers forward, a gather and a reduction of each layer backward.
        let step = [vec![1; 12], [1, 2].repeat(12)].concat();
        for steps in 3..=6 {
            for (before, after) in [(0, 0), (6, 2)] {
                let run = [vec![0; before], step.repeat(steps), vec![0; after]].concat();
                let cycle = find_cycle(&gathered(&run)).expect("a cycle");
                assert_eq!(
                    cycle.len(),
                    step.len(),
                    "{steps} steps, {before} operations before them"
                );
            }
        }
    }

    #[test]
    fn a_cycle_is_never_a_repetition_of_a_shorter_one() {
        assert_eq!(primitive_length(&[1, 2, 2, 1, 2, 2]), 3);
        assert_eq!(primitive_length(&[1, 2, 1]), 3);
        assert_eq!(primitive_length(&[4, 4, 4]), 1);
        assert_eq!(primitive_length(&[]), 0);
    }

    #[test]
    fn a_cycle_is_found_after_a_warm_up_and_despite_extra_operations() {
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
