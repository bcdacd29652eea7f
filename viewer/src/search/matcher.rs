//! Evaluates a filter on ranks, lanes and spans of a session.
//!
//! Lookups happen only once: those of ranks, communicators and classes when the filter is compiled, those of a rank's
//! names and steps at its first span. A span then needs only a few comparisons and bit tests.

use super::expression::{Communicator, Comparison, Filter, Kind, NumberRange, Ranges, Test};
use crate::model::Opened;
use crate::picture::painter::Highlight;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{CLASSES, LaneInfo, LaneKind, Span, ViewFile, operation};
use rankscope_formats::session::{CommunicatorSummary, Session, StepSummary};
use std::sync::OnceLock;

/// Result of a filter for a lane, without its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMatch {
    /// No span matches.
    None,
    /// Every span matches.
    All,
    /// The spans must be tested.
    Some,
}

impl Filter {
    /// Compiles the filter for ranks, lanes and spans of a session.
    pub fn compile(&self, opened: &Opened) -> Matcher {
        let session = &opened.session;
        let mut compiler = Compiler {
            session,
            tables: Vec::new(),
        };
        let node = compiler.node(self);
        let asks_for_steps = compiler
            .tables
            .iter()
            .any(|table| matches!(table, Table::Steps(_)));
        Matcher {
            node,
            tables: compiler.tables,
            ranks: session.ranks.iter().map(|_| OnceLock::new()).collect(),
            worlds: session.ranks.iter().map(|rank| rank.world).collect(),
            listed_steps: if asks_for_steps {
                session.steps.list.iter().map(ListedStep::of).collect()
            } else {
                Vec::new()
            },
        }
    }
}

/// A filter that was compiled for one session. Threads share it.
pub struct Matcher {
    node: Node,
    /// Lookups in the index of each rank.
    tables: Vec<Table>,
    ranks: Vec<OnceLock<Vec<Lookup>>>,
    /// World of each rank.
    worlds: Vec<Option<u32>>,
    /// Steps for ranks without a lane of steps. Empty unless the filter tests steps.
    listed_steps: Vec<ListedStep>,
}

/// A time range, ordered by its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    /// Start, in nanoseconds.
    start_ns: i64,
    /// End, in nanoseconds.
    end_ns: i64,
}

/// A step, or a group of steps of a long run, over all ranks.
struct ListedStep {
    world: u32,
    first: u32,
    last: u32,
    interval: Interval,
}

impl ListedStep {
    fn of(entry: &StepSummary) -> Self {
        let first = u32::try_from(entry.step).unwrap_or(u32::MAX);
        Self {
            world: entry.world,
            first,
            last: first.saturating_add(entry.steps.saturating_sub(1)),
            interval: Interval {
                start_ns: entry.start_ns,
                end_ns: entry.end_ns,
            },
        }
    }
}

enum Node {
    All,
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Rank(Bits),
    /// Matching communicators, and the ranks that are members of one.
    Communicator {
        matching: Bits,
        ranks: Bits,
    },
    Thread(Ranges),
    Kind(Kind),
    /// One bit per class, for each kind of lane.
    Class([u8; Kind::ALL.len()]),
    /// Position of the table with the matching names, and the text for the names of steps.
    Name(usize, String),
    Operation(usize),
    Size(usize),
    Duration(Comparison, i64),
    Wait(Comparison, i64),
    WaitShare(Comparison, f64),
    Step(usize, Ranges),
}

/// A lookup that is done once per rank.
enum Table {
    NameContains(String),
    NameIs(&'static str),
    Size(Comparison, u64),
    Steps(Ranges),
}

/// Result of a lookup.
enum Lookup {
    Names(Bits),
    /// Sorted, disjoint intervals.
    Steps(Vec<Interval>),
}

/// A set of small integers.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn from(numbers: impl Iterator<Item = bool>) -> Self {
        let mut out = Vec::new();
        for (at, is_in) in numbers.enumerate() {
            if at % 64 == 0 {
                out.push(0);
            }
            if let Some(word) = out.last_mut() {
                *word |= u64::from(is_in) << (at % 64);
            }
        }
        Self(out)
    }

    #[inline]
    fn has(&self, number: u32) -> bool {
        self.0
            .get(number as usize / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

struct Compiler<'a> {
    session: &'a Session,
    tables: Vec<Table>,
}

impl Compiler<'_> {
    fn node(&mut self, filter: &Filter) -> Node {
        match filter {
            Filter::All => Node::All,
            Filter::And(parts) => Node::And(parts.iter().map(|part| self.node(part)).collect()),
            Filter::Or(parts) => Node::Or(parts.iter().map(|part| self.node(part)).collect()),
            Filter::Not(part) => Node::Not(Box::new(self.node(part))),
            Filter::Is(test) => self.test(test),
        }
    }

    fn test(&mut self, test: &Test) -> Node {
        let session = self.session;
        let ranks = &session.ranks;
        match test {
            Test::Name(text) => Node::Name(self.table(Table::NameContains(text.clone())), text.clone()),
            Test::Rank(numbers) => Node::Rank(Bits::from(ranks.iter().map(|rank| {
                // A rank without a number is identified by its position.
                numbers.contains(rank.number.value.unwrap_or(rank.index))
            }))),
            Test::Host(text) => Node::Rank(Bits::from(ranks.iter().map(|rank| {
                let host = session.hosts.get(rank.host as usize);
                host.is_some_and(|host| host.name.to_lowercase().contains(text.as_str()))
            }))),
            Test::Communicator(Communicator::Number(number)) => {
                self.communicators(|communicator| communicator.index == *number)
            }
            Test::Communicator(Communicator::Name(text)) => {
                self.communicators(|communicator| communicator.name.to_lowercase().contains(text.as_str()))
            }
            Test::Role(role) => {
                self.communicators(|communicator| communicator.role.split('+').any(|part| part == role))
            }
            Test::Scope(scope) => self.communicators(|communicator| communicator.scope == *scope),
            Test::Thread(threads) => Node::Thread(threads.clone()),
            Test::Kind(kind) => Node::Kind(*kind),
            Test::Class(text) => Node::Class(classes_of(text)),
            Test::Operation(operation) => Node::Operation(self.table(Table::NameIs(operation.name()))),
            Test::Size(is, bytes) => Node::Size(self.table(Table::Size(*is, *bytes))),
            Test::Duration(is, ns) => Node::Duration(*is, *ns),
            Test::Wait(is, ns) => Node::Wait(*is, *ns),
            Test::WaitShare(is, percent) => Node::WaitShare(*is, *percent),
            Test::Step(numbers) => Node::Step(self.table(Table::Steps(numbers.clone())), numbers.clone()),
        }
    }

    fn table(&mut self, table: Table) -> usize {
        self.tables.push(table);
        self.tables.len() - 1
    }

    fn communicators(&self, matches: impl Fn(&CommunicatorSummary) -> bool) -> Node {
        let communicators = &self.session.communicators;
        let matching = Bits::from(communicators.iter().map(&matches));
        let mut has_one = vec![false; self.session.ranks.len()];
        for communicator in communicators.iter().filter(|communicator| matches(communicator)) {
            for rank in communicator.members.iter().flatten().copied().map(RankIndex) {
                if let Some(has_one) = has_one.get_mut(rank.index()) {
                    *has_one = true;
                }
            }
        }
        Node::Communicator {
            matching,
            ranks: Bits::from(has_one.into_iter()),
        }
    }
}

/// Returns the classes with this name for each kind of lane. If there are none, returns those that start with it.
fn classes_of(text: &str) -> [u8; Kind::ALL.len()] {
    let bits = |is_meant: &dyn Fn(&str) -> bool| {
        Kind::ALL.map(|kind| {
            let names = kind.classes().iter().enumerate();
            names
                .filter(|(_, name)| is_meant(&name.replace(' ', "-")))
                .fold(0u8, |bits, (class, _)| bits | 1 << class)
        })
    };
    let exact = bits(&|name| name == text);
    if exact == [0; Kind::ALL.len()] {
        bits(&|name| name.starts_with(text))
    } else {
        exact
    }
}

impl Matcher {
    /// Returns false if nothing of this rank matches, and true if something may match.
    pub fn rank(&self, rank: RankIndex) -> bool {
        self.node.of_rank(rank) != Some(false)
    }

    /// Returns how much of a lane matches.
    pub fn lane(&self, rank: RankIndex, lane: &LaneInfo) -> LaneMatch {
        match self.node.of_lane(rank, lane.kind) {
            Some(true) => LaneMatch::All,
            Some(false) => LaneMatch::None,
            None => LaneMatch::Some,
        }
    }

    /// Returns true if a span of a lane matches.
    ///
    /// The first span of a rank causes the lookups in its index, which take some milliseconds.
    #[inline]
    pub fn span(&self, rank: RankIndex, lane: &LaneInfo, span: &Span, view: &ViewFile) -> bool {
        let Some(known) = self.ranks.get(rank.index()) else {
            return false;
        };
        let lookups = known.get_or_init(|| self.lookups_of(rank, view));
        self.node.of_span(rank, lane.kind, span, lookups)
    }

    /// Returns true if a counter matches. It has a rank, a kind and a name; other conditions are about spans.
    pub fn counter(&self, rank: RankIndex, name: &str) -> bool {
        self.node.of_counter(rank, name)
    }

    /// Returns true if the expression searches for counters: by a name or their kind. Other conditions match counters by chance.
    pub fn names_counters(&self) -> bool {
        self.node.names_counters()
    }

    fn lookups_of(&self, rank: RankIndex, view: &ViewFile) -> Vec<Lookup> {
        let names = &view.footer().names;
        self.tables
            .iter()
            .map(|table| match table {
                Table::NameContains(text) => Lookup::Names(Bits::from(
                    names.iter().map(|name| contains_lower(&name.text, text)),
                )),
                Table::NameIs(text) => Lookup::Names(Bits::from(names.iter().map(|name| name.text == *text))),
                Table::Size(is, bytes) => Lookup::Names(Bits::from(
                    names
                        .iter()
                        .map(|name| name.bytes.is_some_and(|size| is.holds(size, *bytes))),
                )),
                Table::Steps(numbers) => Lookup::Steps(self.step_intervals(rank, numbers, view)),
            })
            .collect()
    }

    fn step_intervals(&self, rank: RankIndex, numbers: &Ranges, view: &ViewFile) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let mut has_lane = false;
        for (_, lane) in view.lanes_of(|kind| kind == LaneKind::Steps) {
            has_lane = true;
            lane.spans_in(i64::MIN, i64::MAX, |span| {
                if numbers.contains(span.name) {
                    intervals.push(Interval {
                        start_ns: span.start_ns,
                        end_ns: span.end_ns,
                    });
                }
                true
            });
        }
        if !has_lane {
            let world = self.worlds.get(rank.index()).copied().flatten();
            for step in &self.listed_steps {
                let matches = |range: &NumberRange| range.first <= step.last && step.first <= range.last;
                if Some(step.world) == world && numbers.0.iter().any(matches) {
                    intervals.push(step.interval);
                }
            }
        }
        intervals.sort_unstable();
        // In disjoint intervals, one lookup decides whether a span touches any.
        intervals.dedup_by(|next, before| {
            let touch = next.start_ns <= before.end_ns;
            if touch {
                before.end_ns = before.end_ns.max(next.end_ns);
            }
            touch
        });
        intervals
    }
}

/// Returns whether the text in lower case contains `searched`, which is in lower case.
fn contains_lower(text: &str, searched: &str) -> bool {
    if text.bytes().all(|c| !c.is_ascii_uppercase() && c.is_ascii()) {
        text.contains(searched)
    } else {
        text.to_lowercase().contains(searched)
    }
}

/// Returns the wait of an operation if it is known.
#[inline]
fn waiting(kind: LaneKind, span: &Span) -> Option<i64> {
    let is_judged = span.wait_ns > 0
        || matches!(
            span.class,
            operation::WAITING | operation::TRANSFER | operation::INCONCLUSIVE
        );
    (is_judged && matches!(kind, LaneKind::Operations { .. })).then_some(span.wait_ns)
}

impl Highlight for Matcher {
    fn span(&self, rank: RankIndex, lane: &LaneInfo, span: &Span, view: &ViewFile) -> bool {
        Self::span(self, rank, lane, span, view)
    }

    fn counter(&self, rank: RankIndex, name: &str) -> bool {
        Self::counter(self, rank, name)
    }

    fn names_counters(&self) -> bool {
        Self::names_counters(self)
    }
}

#[inline]
fn has_name(kind: LaneKind) -> bool {
    !matches!(kind, LaneKind::Steps | LaneKind::Parts { .. })
}

impl Node {
    /// Returns the result for all spans of a rank, if it is the same for each.
    fn of_rank(&self, rank: RankIndex) -> Option<bool> {
        match self {
            Self::And(parts) => all_of(parts.iter().map(|part| part.of_rank(rank))),
            Self::Or(parts) => any_of(parts.iter().map(|part| part.of_rank(rank))),
            Self::Not(part) => part.of_rank(rank).map(|is| !is),
            Self::All => Some(true),
            Self::Rank(ranks) => Some(ranks.has(rank.0)),
            Self::Communicator { ranks, .. } if !ranks.has(rank.0) => Some(false),
            _ => None,
        }
    }

    /// Returns the result for all spans of a lane, if it is the same for each.
    fn of_lane(&self, rank: RankIndex, lane: LaneKind) -> Option<bool> {
        match self {
            Self::And(parts) => all_of(parts.iter().map(|part| part.of_lane(rank, lane))),
            Self::Or(parts) => any_of(parts.iter().map(|part| part.of_lane(rank, lane))),
            Self::Not(part) => part.of_lane(rank, lane).map(|is| !is),
            Self::All => Some(true),
            Self::Rank(ranks) => Some(ranks.has(rank.0)),
            Self::Communicator { matching, .. } => Some(match lane {
                LaneKind::Operations {
                    communicator: Some(communicator),
                } => matching.has(communicator),
                _ => false,
            }),
            Self::Thread(threads) => Some(match lane {
                LaneKind::Calls { thread_id }
                | LaneKind::Marks { thread_id }
                | LaneKind::Overhead { thread_id } => threads.contains(thread_id),
                _ => false,
            }),
            Self::Kind(kind) => Some(Kind::of(lane) == *kind),
            Self::Class(classes) => match classes[Kind::of(lane) as usize] {
                0 => Some(false),
                _ => None,
            },
            Self::Name(..) => match lane {
                LaneKind::Parts { .. } => Some(false),
                _ => None,
            },
            Self::Operation(_) | Self::Wait(..) | Self::WaitShare(..) => match lane {
                LaneKind::Operations { .. } => None,
                _ => Some(false),
            },
            Self::Size(_) => match lane {
                LaneKind::Operations { .. } | LaneKind::Works { .. } => None,
                _ => Some(false),
            },
            Self::Duration(..) | Self::Step(..) => None,
        }
    }

    fn of_counter(&self, rank: RankIndex, name: &str) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.of_counter(rank, name)),
            Self::Or(parts) => parts.iter().any(|part| part.of_counter(rank, name)),
            Self::Not(part) => !part.of_counter(rank, name),
            Self::All => true,
            Self::Rank(ranks) => ranks.has(rank.0),
            Self::Kind(kind) => *kind == Kind::Counter,
            Self::Name(_, text) => contains_lower(name, text),
            Self::Communicator { .. }
            | Self::Thread(_)
            | Self::Class(_)
            | Self::Operation(_)
            | Self::Size(_)
            | Self::Duration(..)
            | Self::Wait(..)
            | Self::WaitShare(..)
            | Self::Step(..) => false,
        }
    }

    fn names_counters(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::names_counters),
            Self::Name(..) => true,
            Self::Kind(kind) => *kind == Kind::Counter,
            _ => false,
        }
    }

    fn of_span(&self, rank: RankIndex, lane: LaneKind, span: &Span, lookups: &[Lookup]) -> bool {
        let in_table = |at: usize| match lookups.get(at) {
            Some(Lookup::Names(names)) => has_name(lane) && names.has(span.name),
            _ => false,
        };
        match self {
            Self::And(parts) => parts.iter().all(|part| part.of_span(rank, lane, span, lookups)),
            Self::Or(parts) => parts.iter().any(|part| part.of_span(rank, lane, span, lookups)),
            Self::Not(part) => !part.of_span(rank, lane, span, lookups),
            Self::All | Self::Rank(_) | Self::Communicator { .. } | Self::Thread(_) | Self::Kind(_) => {
                self.of_lane(rank, lane) == Some(true)
            }
            Self::Class(classes) => {
                let mut own = 1u8 << (usize::from(span.class) % CLASSES);
                if span.wait_ns > 0 {
                    own |= 1 << operation::WAITING;
                }
                classes[Kind::of(lane) as usize] & own != 0
            }
            Self::Name(_, text) if lane == LaneKind::Steps => {
                format!("step {}", span.name).contains(text.as_str())
            }
            Self::Name(at, _) => in_table(*at),
            Self::Operation(at) => matches!(lane, LaneKind::Operations { .. }) && in_table(*at),
            Self::Size(at) => {
                matches!(lane, LaneKind::Operations { .. } | LaneKind::Works { .. }) && in_table(*at)
            }
            Self::Duration(is, ns) => is.holds(span.end_ns.saturating_sub(span.start_ns), *ns),
            Self::Wait(is, ns) => waiting(lane, span).is_some_and(|wait| is.holds(wait, *ns)),
            Self::WaitShare(is, percent) => {
                let duration = span.end_ns.saturating_sub(span.start_ns);
                waiting(lane, span)
                    .filter(|_| duration > 0)
                    .is_some_and(|wait| is.holds(wait as f64 * 100.0 / duration as f64, *percent))
            }
            Self::Step(_, numbers) if lane == LaneKind::Steps => numbers.contains(span.name),
            Self::Step(at, _) => match lookups.get(*at) {
                Some(Lookup::Steps(steps)) => {
                    let after = steps.partition_point(|step| step.end_ns <= span.start_ns);
                    // A span without duration is at its start.
                    let last = span.end_ns.max(span.start_ns.saturating_add(1));
                    steps.get(after).is_some_and(|step| step.start_ns < last)
                }
                _ => false,
            },
        }
    }
}

fn all_of(mut parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    parts
        .try_fold(Some(true), |all, part| match part {
            Some(false) => Err(()),
            Some(true) => Ok(all),
            None => Ok(None),
        })
        .unwrap_or(Some(false))
}

fn any_of(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all_of(parts.map(|part| part.map(|is| !is))).map(|none| !none)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Made, filters, ranks, spans};
    use super::super::parse::parse;
    use super::*;
    use proptest::prelude::*;
    use rankscope_formats::index::Name;

    /// All properties of a span, without tables.
    struct Seen<'a> {
        session: &'a Session,
        rank: RankIndex,
        kind: LaneKind,
        span: Span,
        name: Option<&'a Name>,
        steps: &'a [(u32, i64, i64)],
    }

    /// Reference implementation of the matcher, one test after the other.
    fn is_meant(filter: &Filter, seen: &Seen) -> bool {
        match filter {
            Filter::All => true,
            Filter::And(parts) => parts.iter().all(|part| is_meant(part, seen)),
            Filter::Or(parts) => parts.iter().any(|part| is_meant(part, seen)),
            Filter::Not(part) => !is_meant(part, seen),
            Filter::Is(test) => fits(test, seen),
        }
    }

    fn fits(test: &Test, seen: &Seen) -> bool {
        let Seen { session, span, .. } = seen;
        let rank = &session.ranks[seen.rank.index()];
        let communicator = match seen.kind {
            LaneKind::Operations {
                communicator: Some(number),
            } => session.communicators.get(number as usize),
            _ => None,
        };
        let is_operation = matches!(seen.kind, LaneKind::Operations { .. });
        let duration = span.end_ns - span.start_ns;
        let knows_wait = is_operation && (span.wait_ns > 0 || [0, 1, 2].contains(&span.class));
        match test {
            Test::Name(text) => match seen.kind {
                LaneKind::Steps => format!("step {}", span.name).contains(text),
                _ => seen
                    .name
                    .is_some_and(|name| name.text.to_lowercase().contains(text)),
            },
            Test::Rank(numbers) => numbers.contains(rank.number.value.expect("a number")),
            Test::Host(text) => session.hosts[rank.host as usize].name.contains(text),
            Test::Communicator(Communicator::Number(number)) => {
                communicator.is_some_and(|communicator| communicator.index == *number)
            }
            Test::Communicator(Communicator::Name(text)) => {
                communicator.is_some_and(|communicator| communicator.name.to_lowercase().contains(text))
            }
            Test::Role(role) => {
                communicator.is_some_and(|communicator| communicator.role.split('+').any(|part| part == role))
            }
            Test::Scope(scope) => communicator.is_some_and(|communicator| communicator.scope == *scope),
            Test::Thread(threads) => match seen.kind {
                LaneKind::Calls { thread_id }
                | LaneKind::Marks { thread_id }
                | LaneKind::Overhead { thread_id } => threads.contains(thread_id),
                _ => false,
            },
            Test::Operation(operation) => {
                is_operation && seen.name.is_some_and(|name| name.text == operation.name())
            }
            Test::Kind(kind) => Kind::of(seen.kind) == *kind,
            Test::Class(text) => {
                let all = Kind::ALL.iter().flat_map(|kind| kind.classes());
                let is_exact = all.into_iter().any(|name| name.replace(' ', "-") == *text);
                let names = Kind::of(seen.kind).classes();
                let own = [
                    names.get(usize::from(span.class)).copied(),
                    (span.wait_ns > 0).then_some("waiting"),
                ];
                own.into_iter().flatten().any(|name| {
                    let name = name.replace(' ', "-");
                    if is_exact {
                        name == *text
                    } else {
                        name.starts_with(text)
                    }
                })
            }
            Test::Size(is, bytes) => {
                let has_size = is_operation || matches!(seen.kind, LaneKind::Works { .. });
                let size = seen.name.and_then(|name| name.bytes);
                has_size && size.is_some_and(|size| is.holds(size, *bytes))
            }
            Test::Duration(is, ns) => is.holds(duration, *ns),
            Test::Wait(is, ns) => knows_wait && is.holds(span.wait_ns, *ns),
            Test::WaitShare(is, percent) => {
                knows_wait
                    && duration > 0
                    && is.holds(span.wait_ns as f64 * 100.0 / duration as f64, *percent)
            }
            Test::Step(numbers) => match seen.kind {
                LaneKind::Steps => numbers.contains(span.name),
                _ => seen.steps.iter().any(|&(number, from, to)| {
                    let touches = span.start_ns < to && (span.end_ns > from || span.start_ns >= from);
                    touches && numbers.contains(number)
                }),
            },
        }
    }

    fn check(made: &Made, filter: &Filter) -> Result<u64, TestCaseError> {
        let matcher = filter.compile(&made.opened);
        let session = &made.opened.session;
        let mut count = 0;
        for rank in ranks() {
            let view = made.view(rank);
            let mut steps = Vec::new();
            let mut has_steps = false;
            for (_, lane) in view.lanes_of(|kind| kind == LaneKind::Steps) {
                has_steps = true;
                lane.spans_in(i64::MIN, i64::MAX, |span| {
                    steps.push((span.name, span.start_ns, span.end_ns));
                    true
                });
            }
            if !has_steps {
                let listed = session.steps.list.iter();
                steps.extend(listed.map(|step| (step.step as u32, step.start_ns, step.end_ns)));
            }
            for position in 0..view.footer().lanes.len() {
                let lane = view.lane(position).expect("a lane");
                let whole = matcher.lane(rank, lane.info);
                let mut all = Vec::new();
                lane.spans_in(i64::MIN, i64::MAX, |span| {
                    all.push(*span);
                    true
                });
                for span in all {
                    let kind = lane.info.kind;
                    let name = view.name(span.name).filter(|_| has_name(kind));
                    let seen = Seen {
                        session,
                        rank,
                        kind,
                        span,
                        name,
                        steps: &steps,
                    };
                    let expected = is_meant(filter, &seen);
                    let meant = matcher.span(rank, lane.info, &span, view);
                    prop_assert_eq!(meant, expected, "{} {:?} {:?} {:?}", filter, kind, span, name);
                    prop_assert!(whole != LaneMatch::All || meant, "{} {:?}", filter, kind);
                    prop_assert!(whole != LaneMatch::None || !meant, "{} {:?}", filter, kind);
                    prop_assert!(matcher.rank(rank) || !meant, "{} rank {}", filter, rank);
                    count += u64::from(meant);
                }
            }
        }
        Ok(count)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn compiled_filters_match_like_a_naive_evaluation(
            planned in spans(),
            filters in proptest::collection::vec(filters("[ab0-9]{0,2}|node1|group|step 1"), 1..12),
        ) {
            let made = Made::with(&planned);
            for filter in &filters {
                check(&made, filter)?;
            }
        }
    }

    #[test]
    fn common_searches_find_their_spans() {
        let made = Made::new();
        for (text, count) in [
            ("", 4 * 14),
            ("all-reduce", 4 * 5),
            ("op:all-reduce rank:0-1", 2 * 5),
            ("forward", 4),
            ("gemm(int)", 4),
            ("\"forward pass\"", 4),
            ("kind:call or kind:mark", 8),
            ("thread:77", 12),
            ("kind:overhead", 4),
            ("class:recorder", 4),
            ("buffer flush class:driver", 0),
            ("host:node1 class:failed", 2),
            ("role:data", 2),
            ("role:context", 2),
            ("scope:across-hosts -rank:3", 20 - 5 + 2 - 1),
            ("comm:\"group tensor\"", 2),
            ("comm:1", 2),
            ("size>=1MiB", 4 * 3),
            ("wait>40%", 4 * 2),
            ("class:waiting", 4 * 4),
            ("kind:part class:exposed", 4),
            ("duration>55us kind:kernel", 4),
            ("step 12 op:all-reduce", 4),
            ("kind:step 12", 4),
            ("nothing-like-this", 0),
        ] {
            let filter = parse(text).expect(text);
            assert_eq!(check(&made, &filter).expect(text), count, "{text}");
        }
    }

    #[test]
    fn counters_match_by_rank_kind_and_name() {
        let made = Made::new();
        for (text, expected) in [
            ("", [true, true, true]),
            ("loss", [true, true, false]),
            ("LOSS rank:1", [false, true, false]),
            ("-loss", [false, false, true]),
            ("queue or rank:0", [true, false, true]),
            ("kind:counter", [true, true, true]),
            ("kind:operation", [false, false, false]),
            ("host:node0 kind:counter -bytes", [true, true, false]),
            ("duration>0ns", [false, false, false]),
            ("class:waiting or comm:1 or role:data", [false, false, false]),
        ] {
            let matcher = parse(text).expect(text).compile(&made.opened);
            let counters = [(0, "Loss"), (1, "Loss"), (1, "queue_bytes")];
            let found = counters.map(|(rank, name)| matcher.counter(RankIndex(rank), name));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn ranks_and_lanes_without_matches_are_skipped() {
        let made = Made::new();
        let matcher = parse("role:data kind:operation")
            .expect("a filter")
            .compile(&made.opened);
        assert!(matcher.rank(RankIndex(0)) && !matcher.rank(RankIndex(3)) && !matcher.rank(RankIndex(99)));
        let lanes = &made.view(RankIndex(0)).footer().lanes;
        let matches: Vec<LaneMatch> = lanes
            .iter()
            .map(|lane| matcher.lane(RankIndex(0), lane))
            .collect();
        assert_eq!(matches.iter().filter(|&&all| all == LaneMatch::All).count(), 1);
        assert!(!matches.contains(&LaneMatch::Some));
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&matcher);
    }
}
