//! The causes of waits: what stops the operations that ranks wait in.

use crate::view::{Call, Context, Position, Rank, Step, View};
use crate::waits::{CREATION, Key, Lack, Wait, Waits};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::status::{HangKind, ProcessState};
use std::collections::{BTreeMap, BTreeSet};

/// Share of earlier rounds in which an operation must have followed another one to be expected after it.
const USUAL: f64 = 0.8;
/// Minimum number of such rounds.
const ROUNDS: u32 = 2;

/// A cause of waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Its kind.
    pub kind: HangKind,
    /// Ranks that cause it, in order.
    pub culprits: Vec<RankIndex>,
    /// The operation that shows it, as a position in [`Waits::all`].
    pub at: usize,
    /// All operations that the cause stops directly.
    pub stops: Vec<usize>,
    /// What distinguishes it.
    pub detail: Detail,
}

/// What distinguishes a cause.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// Nothing.
    None,
    /// The calls that disagree: the property, and each variant with its callers.
    Disagreement {
        /// Property in which they disagree.
        what: &'static str,
        /// Each variant with its callers, the most frequent first.
        variants: Vec<(Call, Vec<RankIndex>)>,
        /// True if it is not clear which variant is wrong.
        is_undecided: bool,
    },
    /// The circle of operations, as positions in [`Waits::all`].
    Circle {
        /// The operations.
        operations: Vec<usize>,
        /// True if no rank deviates from its earlier order.
        is_undecided: bool,
    },
    /// Members without a log.
    Unseen,
    /// Members that are inside a call whose operation is not known.
    Elsewhere,
}

/// Finds the causes of all waits. Each cause is listed once, the one that ranks have waited for longest first.
pub fn causes(view: &View, waits: &Waits) -> Vec<Cause> {
    let mut found: Vec<Cause> = Vec::new();
    for (at, wait) in waits.all.iter().enumerate() {
        for cause in causes_at(view, waits, at, wait) {
            match found.iter_mut().find(|known| {
                (known.kind, &known.culprits) == (cause.kind, &cause.culprits) && !known.culprits.is_empty()
            }) {
                Some(known) => known.stops.push(at),
                None => found.push(cause),
            }
        }
    }
    for circle in &waits.circles {
        found.push(circle_cause(view, waits, circle));
    }
    for circle in &waits.circles_on_devices {
        // Different orders can be harmless. Another cause at one of these operations explains the wait better.
        let is_explained = found
            .iter()
            .any(|cause| cause.stops.iter().any(|at| circle.contains(at)));
        if !is_explained {
            found.push(circle_cause(view, waits, circle));
        }
    }
    for cause in &mut found {
        cause.at = shown_at(view, waits, cause);
    }
    found.sort_by_key(|cause| waits.all[cause.at].since_ns());
    found
}

/// Chooses the operation that names a cause: the one that a culprit would call next, else the first that was waited
/// for.
fn shown_at(view: &View, waits: &Waits, cause: &Cause) -> usize {
    let firsts = match cause.detail {
        Detail::Circle { .. } => first_calls(waits, &cause.stops),
        _ => BTreeMap::new(),
    };
    let before = |rank: RankIndex, known: &Rank| {
        let first = firsts.get(&rank).map(|&at| waits.all[at].key);
        let call = first.and_then(|key| known.call_at(key.0, key.1));
        match call {
            Some(call) if call.is_on_device => call.after,
            _ => known.before,
        }
    };
    let expected: Vec<Step> = cause
        .culprits
        .iter()
        .filter_map(|&rank| {
            let known = view.ranks.get(rank.index())?;
            usual_after(known, before(rank, known))
        })
        .collect();
    let is_expected = |&&at: &&usize| {
        let wait = &waits.all[at];
        step_of(view, wait).is_some_and(|step| expected.contains(&step))
    };
    cause.stops.iter().find(is_expected).copied().unwrap_or(cause.at)
}

fn step_of(view: &View, wait: &Wait) -> Option<Step> {
    let (rank, _) = wait.callers.first()?;
    let call = view.ranks.get(rank.index())?.call_at(wait.key.0, wait.key.1)?;
    Some(step(call))
}

fn step(call: &Call) -> Step {
    Step {
        communicator: call.communicator,
        operation: call.operation as u8,
    }
}

/// Returns the operation that usually followed these operations of a rank in earlier rounds.
fn usual_after(rank: &Rank, before: Option<Context>) -> Option<Step> {
    let before = before?;
    let followers: Vec<(Step, u32)> = rank
        .order
        .iter()
        .filter(|((first, _), _)| *first == before)
        .map(|((_, next), &count)| (*next, count))
        .collect();
    let all: u32 = followers.iter().map(|&(_, count)| count).sum();
    let &(next, count) = followers
        .iter()
        .max_by_key(|&&(step, count)| (count, step.operation, step.communicator))?;
    (count >= ROUNDS && f64::from(count) >= USUAL * f64::from(all)).then_some(next)
}

/// Returns true if a rank calls something else than it usually did after the operations before.
fn deviates(rank: &Rank, call: &Call) -> bool {
    let before = if call.is_on_device {
        call.after
    } else {
        rank.before
    };
    usual_after(rank, before).is_some_and(|usual| usual != step(call))
}

fn causes_at(view: &View, waits: &Waits, at: usize, wait: &Wait) -> Vec<Cause> {
    let cause = |kind, culprits: Vec<RankIndex>, detail| Cause {
        kind,
        culprits,
        at,
        stops: vec![at],
        detail,
    };
    if let Some((culprits, detail)) = disagreement(view, wait) {
        return vec![cause(HangKind::Mismatch, culprits, detail)];
    }
    let mut found = Vec::new();
    for (lack, ranks) in &wait.lacking {
        let (kind, detail) = match lack {
            Lack::Gone => (HangKind::ProcessGone, Detail::None),
            Lack::Stopped => (HangKind::Stopped, Detail::None),
            Lack::Outside => (HangKind::UserCode, Detail::None),
            Lack::Elsewhere => (HangKind::MissingCaller, Detail::Elsewhere),
            Lack::Waiting => continue,
        };
        found.push(cause(kind, ranks.clone(), detail));
    }
    if !found.is_empty() || waits.leads_on(at) {
        return found;
    }
    if !wait.unseen.is_empty() {
        return vec![cause(HangKind::MissingCaller, Vec::new(), Detail::Unseen)];
    }
    // All members are in the operation, or have left it.
    let in_state = |state: ProcessState| -> Vec<RankIndex> {
        let ranks = wait.callers.iter().map(|&(rank, _)| rank);
        ranks
            .filter(|rank| view.ranks[rank.index()].process.state == state)
            .collect()
    };
    let stopped = in_state(ProcessState::Stopped);
    let gone = in_state(ProcessState::Gone);
    if !stopped.is_empty() {
        return vec![cause(HangKind::Stopped, stopped, Detail::None)];
    }
    if !gone.is_empty() && !view.is_over() {
        return vec![cause(HangKind::ProcessGone, gone, Detail::None)];
    }
    if waits.is_behind(at) {
        return Vec::new();
    }
    let kind = if waits.is_on_device(view, at) {
        HangKind::PendingOnDevice
    } else {
        HangKind::Transfer
    };
    vec![cause(kind, Vec::new(), Detail::None)]
}

/// Finds calls of one operation that disagree: the ranks with an unusual variant, and all variants.
fn disagreement(view: &View, wait: &Wait) -> Option<(Vec<RankIndex>, Detail)> {
    if wait.key == CREATION || matches!(wait.key.1, Position::Message { .. }) {
        return None;
    }
    let callers = wait.callers.iter().map(|&(rank, _)| rank);
    let mut variants: Vec<(Call, Vec<RankIndex>)> = Vec::new();
    let mut what = None;
    for rank in callers.chain(wait.completed.iter().copied()) {
        let known = view.ranks.get(rank.index())?;
        let (communicator, position) = wait.key;
        let completed = || known.recent.get(&communicator)?.completed_at(position);
        let Some(call) = known.call_at(communicator, position).or_else(completed) else {
            continue;
        };
        match variants
            .iter_mut()
            .find(|(first, _)| first.disagreement(call).is_none())
        {
            Some((_, ranks)) => ranks.push(rank),
            None => {
                if let Some((first, _)) = variants.first() {
                    what = what.or(first.disagreement(call));
                }
                variants.push((call.clone(), vec![rank]));
            }
        }
    }
    let what = what?;
    variants.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    let is_even = variants[0].1.len() == variants[1].1.len();
    let deviating: Vec<usize> = (0..variants.len())
        .filter(|&variant| {
            let (call, ranks) = &variants[variant];
            ranks.iter().all(|rank| deviates(&view.ranks[rank.index()], call))
        })
        .collect();
    let wrong: Vec<usize> = match deviating[..] {
        // Of two groups of one size, the one that does something new is wrong.
        [one] if is_even => vec![one],
        _ => (1..variants.len()).collect(),
    };
    let mut culprits: Vec<RankIndex> = wrong
        .iter()
        .flat_map(|&variant| variants[variant].1.clone())
        .collect();
    culprits.sort_unstable();
    let is_undecided = is_even && deviating.len() != 1;
    Some((
        culprits,
        Detail::Disagreement {
            what,
            variants,
            is_undecided,
        },
    ))
}

/// Returns the operation of a circle that each rank called first.
pub fn first_calls(waits: &Waits, circle: &[usize]) -> BTreeMap<RankIndex, usize> {
    let mut firsts: BTreeMap<RankIndex, (i64, usize)> = BTreeMap::new();
    for &at in circle {
        for &(rank, since_ns) in &waits.all[at].callers {
            let first = firsts.entry(rank).or_insert((since_ns, at));
            *first = (since_ns, at).min(*first);
        }
    }
    firsts.into_iter().map(|(rank, (_, at))| (rank, at)).collect()
}

/// Returns the cause of a circle of waits.
fn circle_cause(view: &View, waits: &Waits, circle: &[usize]) -> Cause {
    let first = circle
        .iter()
        .copied()
        .min_by_key(|&at| waits.all[at].since_ns())
        .unwrap_or(0);
    let communicators: BTreeSet<_> = circle.iter().map(|&at| waits.all[at].key.0).collect();
    let firsts = first_calls(waits, circle);
    let mut deviating: BTreeSet<RankIndex> = BTreeSet::new();
    for &at in circle {
        let key: Key = waits.all[at].key;
        for &(rank, _) in &waits.all[at].callers {
            let known = &view.ranks[rank.index()];
            // What a rank enqueued on a device after another operation of the circle follows from that one.
            let call = known
                .call_at(key.0, key.1)
                .filter(|call| !call.is_on_device || firsts[&rank] == at);
            if call.is_some_and(|call| deviates(known, call)) {
                deviating.insert(rank);
            }
        }
    }
    let mut of_operation: BTreeMap<usize, BTreeSet<RankIndex>> = BTreeMap::new();
    for (&rank, &at) in &firsts {
        of_operation.entry(at).or_default().insert(rank);
    }
    let all: BTreeSet<RankIndex> = firsts.into_keys().collect();
    let fewest = of_operation.values().map(BTreeSet::len).min().unwrap_or(0);
    let mut rare = of_operation.into_values().filter(|ranks| ranks.len() == fewest);
    let (culprits, is_undecided) = match (rare.next(), rare.next()) {
        _ if !deviating.is_empty() && deviating.len() < all.len() => (deviating, false),
        (Some(one), None) => (one, true),
        _ => (all, true),
    };
    let kind = if communicators.len() > 1 {
        HangKind::CrossedOrder
    } else {
        HangKind::Mismatch
    };
    Cause {
        kind,
        culprits: culprits.into_iter().collect(),
        at: first,
        // The operation that the culprits have not called is the one that shows the cause.
        stops: circle.to_vec(),
        detail: Detail::Circle {
            operations: circle.to_vec(),
            is_undecided,
        },
    }
}
