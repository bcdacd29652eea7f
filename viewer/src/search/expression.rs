//! The expression of a filter. Its display format can be parsed, and gives the same filter again.

use super::parse::Key;
use rankscope_formats::index::LaneKind;
use rankscope_formats::session::Scope;
use rankscope_ranklog::Operation;
use std::fmt::{self, Display, Formatter, Write};

/// A condition on spans.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Filter {
    /// Every span: the expression is empty.
    #[default]
    All,
    /// All of these conditions, at least two.
    And(Vec<Self>),
    /// One of these conditions, at least two.
    Or(Vec<Self>),
    /// Not this condition.
    Not(Box<Self>),
    /// A single test.
    Is(Test),
}

/// A single test of a span.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// The name of the span or counter contains this text, which is in lower case. Steps have names like `step 12`;
    /// breakdowns have no names.
    Name(String),
    /// The rank has one of these numbers in its world.
    Rank(Ranges),
    /// The name of the host contains this text, which is in lower case.
    Host(String),
    /// An operation on this communicator.
    Communicator(Communicator),
    /// An operation on a communicator of this role.
    Role(String),
    /// An operation on a communicator of this scope.
    Scope(Scope),
    /// The thread has one of these system IDs.
    Thread(Ranges),
    /// This operation.
    Operation(Operation),
    /// The row has this kind.
    Kind(Kind),
    /// The class has this name, or else starts with it. The text is in lower case, with hyphens between words.
    Class(String),
    /// Payload, in bytes. Spans without a known payload do not match.
    Size(Comparison, u64),
    /// Duration, in nanoseconds.
    Duration(Comparison, i64),
    /// Wait of an operation, in nanoseconds. Spans without a known wait do not match.
    Wait(Comparison, i64),
    /// Wait of an operation as a percentage of its duration.
    WaitShare(Comparison, f64),
    /// The span is at least partly inside a step with one of these numbers.
    Step(Ranges),
}

/// A communicator by number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Communicator {
    /// Position in [`rankscope_formats::session::Session::communicators`].
    Number(u32),
    /// The name contains this text, which is in lower case.
    Name(String),
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `>=`
    AtLeast,
    /// `>`
    More,
}

impl Comparison {
    /// Returns whether the comparison of `value` with `limit` is true.
    #[inline]
    pub fn holds<T: PartialOrd>(self, value: T, limit: T) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::Equal => value == limit,
            Self::AtLeast => value >= limit,
            Self::More => value > limit,
        }
    }
}

/// An inclusive range of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The smallest number.
    pub first: u32,
    /// The largest number. [`u32::MAX`]: no limit.
    pub last: u32,
}

/// A non-empty set of integers: ranges in the order in which they were typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(pub Vec<NumberRange>);

impl Ranges {
    /// Returns whether the set contains a number.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.0
            .iter()
            .any(|range| range.first <= number && number <= range.last)
    }

    /// Returns the number if there is only one.
    pub fn single(&self) -> Option<u32> {
        match self.0[..] {
            [NumberRange { first, last }] if first == last => Some(first),
            _ => None,
        }
    }
}

/// Kinds of rows, as users distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Training steps, evaluations, checkpoints.
    Step,
    /// Breakdowns.
    Part,
    /// Intervals without compute.
    Stall,
    /// Calls of threads.
    Call,
    /// Marks of the program.
    Mark,
    /// Overhead of the recorder and the driver.
    Overhead,
    /// Named pauses of the host.
    Pause,
    /// Operations.
    Operation,
    /// Device activity: kernels, copies.
    Kernel,
    /// Counters. They have no spans.
    Counter,
}

impl Kind {
    /// All kinds in the order of their rows.
    pub const ALL: [Self; 10] = [
        Self::Step,
        Self::Part,
        Self::Stall,
        Self::Call,
        Self::Mark,
        Self::Overhead,
        Self::Pause,
        Self::Operation,
        Self::Kernel,
        Self::Counter,
    ];

    /// Returns the kind of a lane.
    #[inline]
    pub fn of(lane: LaneKind) -> Self {
        match lane {
            LaneKind::Steps => Self::Step,
            LaneKind::Parts { .. } => Self::Part,
            LaneKind::Stalls => Self::Stall,
            LaneKind::Calls { .. } => Self::Call,
            LaneKind::Marks { .. } => Self::Mark,
            LaneKind::Overhead { .. } => Self::Overhead,
            LaneKind::Pauses => Self::Pause,
            LaneKind::Operations { .. } => Self::Operation,
            LaneKind::Works { .. } => Self::Kernel,
        }
    }

    /// Returns the name as the user types it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Part => "part",
            Self::Stall => "stall",
            Self::Call => "call",
            Self::Mark => "mark",
            Self::Overhead => "overhead",
            Self::Pause => "pause",
            Self::Operation => "operation",
            Self::Kernel => "kernel",
            Self::Counter => "counter",
        }
    }

    /// Returns the names of the classes of this kind. Empty if there is only one class.
    pub fn classes(self) -> &'static [&'static str] {
        use rankscope_formats::index;
        match self {
            Self::Step => &index::step::NAMES,
            Self::Part => &index::part::NAMES,
            Self::Call => &index::call::NAMES,
            Self::Overhead => &index::overhead::NAMES,
            Self::Operation => &index::operation::NAMES,
            Self::Kernel => &index::work::NAMES,
            Self::Stall | Self::Mark | Self::Pause | Self::Counter => &[],
        }
    }
}

/// Roles of communicators. A communicator may have several, joined by `+`; each of them matches.
pub const ROLES: [&str; 8] = [
    "world",
    "self",
    "tensor",
    "pipeline",
    "data",
    "expert",
    "context",
    "sub-group",
];

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = |f: &mut Formatter<'_>, parts: &[Self], between: &str| {
            parts.iter().enumerate().try_for_each(|(at, part)| {
                f.write_str(if at == 0 { "" } else { between })?;
                part.fmt_inside(f)
            })
        };
        match self {
            Self::All => Ok(()),
            Self::And(parts) => list(f, parts, " "),
            Self::Or(parts) => list(f, parts, " or "),
            Self::Not(part) => {
                f.write_char('-')?;
                part.fmt_inside(f)
            }
            Self::Is(test) => test.fmt(f),
        }
    }
}

impl Filter {
    fn fmt_inside(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(_) | Self::Or(_) => write!(f, "({self})"),
            // Two hyphens would be parsed as a word.
            Self::Not(part) if matches!(**part, Self::Not(_)) => write!(f, "({self})"),
            _ => self.fmt(f),
        }
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) => Quoted(text).fmt(f),
            Self::Rank(numbers) => write!(f, "rank:{numbers}"),
            Self::Host(text) => write!(f, "host:{}", Quoted(text)),
            Self::Communicator(Communicator::Number(number)) => write!(f, "comm:{number}"),
            // A number in quotes is a name.
            Self::Communicator(Communicator::Name(text)) if text.bytes().all(|c| c.is_ascii_digit()) => {
                write!(f, "comm:\"{text}\"")
            }
            Self::Communicator(Communicator::Name(text)) => write!(f, "comm:{}", Quoted(text)),
            Self::Role(text) => write!(f, "role:{text}"),
            Self::Scope(text) => write!(f, "scope:{text}"),
            Self::Thread(numbers) => write!(f, "thread:{numbers}"),
            Self::Operation(operation) => write!(f, "op:{}", operation.name()),
            Self::Kind(kind) => write!(f, "kind:{}", kind.name()),
            Self::Class(text) => write!(f, "class:{text}"),
            Self::Size(is, bytes) => write!(f, "size{is}{}", Exact(*bytes, &SIZES)),
            Self::Duration(is, ns) => write!(f, "duration{is}{}", Exact(ns.unsigned_abs(), &TIMES)),
            Self::Wait(is, ns) => write!(f, "wait{is}{}", Exact(ns.unsigned_abs(), &TIMES)),
            Self::WaitShare(is, percent) => write!(f, "wait{is}{percent}%"),
            Self::Step(numbers) => write!(f, "step:{numbers}"),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::AtLeast => ">=",
            Self::More => ">",
        })
    }
}

impl Display for Ranges {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .enumerate()
            .try_for_each(|(at, &NumberRange { first, last })| {
                f.write_str(if at == 0 { "" } else { "," })?;
                match last {
                    _ if first == last => write!(f, "{first}"),
                    u32::MAX => write!(f, "{first}-"),
                    _ => write!(f, "{first}-{last}"),
                }
            })
    }
}

/// A name, in quotes if it would otherwise have another meaning.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0;
        let is_plain = text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            && text
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '#' | '@'));
        let means_more = matches!(text, "and" | "or" | "not") || Key::named(text).is_some();
        if is_plain && !means_more {
            return f.write_str(text);
        }
        f.write_char('"')?;
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('"')
    }
}

/// Units for printing and parsing, the largest first.
pub(super) type Units = [(&'static str, u64)];

pub(super) const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

pub(super) const TIMES: [(&str, u64); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A number in the largest unit in which it is an integer.
struct Exact<'a>(u64, &'a Units);

impl Display for Exact<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(value, units) = *self;
        let whole = |&&(_, unit): &&(&str, u64)| value >= unit && value.is_multiple_of(unit);
        match units.iter().find(whole).or(units.last()) {
            Some((name, unit)) => write!(f, "{}{name}", value / unit),
            None => write!(f, "{value}"),
        }
    }
}
