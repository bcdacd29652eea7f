//! Parser of filters.
//!
//! Written by hand: only parentheses nest, and the quality of the messages for half-typed filters matters most. A
//! parser library (winnow, chumsky) would save a few loops over characters, but not the messages.
//!
//! ```text
//! filter     = all { "or" all }
//! all        = term { ["and"] term }
//! term       = ("-" | "not") term | "(" filter ")" | condition | word | phrase in quotes
//! condition  = key (":" | "=" | "<" | "<=" | ">" | ">=") value
//! ```

use super::expression::{
    Communicator, Comparison, Filter, Kind, NumberRange, ROLES, Ranges, SIZES, TIMES, Test, Units,
};
use rankscope_formats::session::Scope;
use rankscope_ranklog::Operation;
use std::ops::Range;

/// Error of parsing a filter: its place, and a correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid filter (bytes {place:?}): {hint}")]
pub struct FilterError {
    /// Byte range of the error. It may be empty at the end of the text.
    pub place: Range<usize>,
    /// Message that shows a correct form.
    pub hint: String,
}

/// Maximum nesting. Nobody types more, and a pasted text must not overflow the stack.
const DEEPEST: usize = 64;

/// Parses a filter. An empty text matches everything.
pub fn parse(text: &str) -> Result<Filter, FilterError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    parser.skip_space();
    if parser.rest().is_empty() {
        return Ok(Filter::All);
    }
    let filter = parser.either()?;
    match parser.rest() {
        "" => Ok(filter),
        _ => Err(FilterError {
            place: parser.at..parser.at + 1,
            hint: "unmatched parenthesis; to search for \")\", put it in quotes".to_owned(),
        }),
    }
}

/// Subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Rank,
    Host,
    Communicator,
    Role,
    Scope,
    Thread,
    Operation,
    Kind,
    Class,
    Size,
    Duration,
    Wait,
    Step,
}

/// Names of the keys with an example for messages. The first name is the displayed one.
const KEYS: [(Key, &[&str], &str); 13] = [
    (Key::Rank, &["rank", "ranks"], "rank:3 or rank:0-7,12"),
    (Key::Host, &["host", "hosts", "node"], "host:NAME"),
    (
        Key::Communicator,
        &["comm", "communicator", "communicators", "group"],
        "comm:NAME",
    ),
    (Key::Role, &["role", "roles"], "role:data"),
    (Key::Scope, &["scope", "scopes"], "scope:across-hosts"),
    (Key::Thread, &["thread", "threads", "tid"], "thread:1234"),
    (
        Key::Operation,
        &["op", "operation", "operations", "ops"],
        "op:all-reduce",
    ),
    (Key::Kind, &["kind", "kinds"], "kind:operation"),
    (Key::Class, &["class", "classes"], "class:waiting"),
    (Key::Size, &["size", "bytes"], "size>1MiB"),
    (Key::Duration, &["duration", "dur"], "duration>5ms"),
    (Key::Wait, &["wait", "waits"], "wait>1ms or wait>20%"),
    (Key::Step, &["step", "steps"], "step:12 or step:100-200"),
];

impl Key {
    /// Returns the key with a name in lower case.
    pub(super) fn named(name: &str) -> Option<Self> {
        KEYS.iter()
            .find(|(_, names, _)| names.contains(&name))
            .map(|&(key, ..)| key)
    }

    fn example(self) -> &'static str {
        KEYS.iter()
            .find(|&&(key, ..)| key == self)
            .map_or("", |&(.., example)| example)
    }
}

/// Units that are parsed but not printed. Buffer sizes are powers of two, so `4M` means 4 MiB.
const MORE_SIZES: [(&str, u64); 10] = [
    ("b", 1),
    ("bytes", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

const MORE_TIMES: [(&str, u64); 4] = [
    ("µs", 1_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, FilterError>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Consumes characters while they match.
    fn take_while(&mut self, mut is_so: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !is_so(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn take(&mut self, next: &str) -> bool {
        let is_next = self.rest().starts_with(next);
        self.at += if is_next { next.len() } else { 0 };
        is_next
    }

    /// Consumes a keyword or one of its symbols.
    fn take_joint(&mut self, word: &str, signs: &[&str]) -> bool {
        let rest = self.rest();
        let is_word = rest
            .get(..word.len())
            .is_some_and(|next| next.eq_ignore_ascii_case(word))
            && rest[word.len()..].chars().next().is_none_or(ends_word);
        if is_word {
            self.at += word.len();
        }
        is_word || signs.iter().any(|sign| self.take(sign))
    }

    fn error<T>(&self, from: usize, hint: impl Into<String>) -> Parsed<T> {
        Err(FilterError {
            place: from..self.at.max(from),
            hint: hint.into(),
        })
    }

    fn either(&mut self) -> Parsed<Filter> {
        let mut parts = vec![self.all()?];
        while self.take_joint("or", &["||", "|"]) {
            parts.push(self.all()?);
        }
        Ok(joined(parts, Filter::Or))
    }

    fn all(&mut self) -> Parsed<Filter> {
        let mut parts = Vec::new();
        let from = self.at;
        loop {
            self.skip_space();
            let before = self.at;
            let is_end = self.rest().is_empty() || self.rest().starts_with(')');
            let is_or = self.take_joint("or", &["|"]);
            self.at = before;
            if is_end || is_or {
                break;
            }
            if !self.take_joint("and", &["&&", "&"]) {
                parts.push(self.term()?);
            }
        }
        if parts.is_empty() {
            return self.error(from, "missing word or condition, such as all-reduce or rank:3");
        }
        Ok(joined(parts, Filter::And))
    }

    fn term(&mut self) -> Parsed<Filter> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.error(self.at, "parentheses are nested too deeply");
        }
        let term = self.term_inside();
        self.depth -= 1;
        term
    }

    fn term_inside(&mut self) -> Parsed<Filter> {
        let from = self.at;
        let before_space = self.rest().chars().nth(1).is_none_or(char::is_whitespace);
        if self.take_joint("not", &[]) || !before_space && (self.take("-") || self.take("!")) {
            self.skip_space();
            if self.rest().is_empty() || self.rest().starts_with(')') {
                return self.error(from, "missing condition after the negation");
            }
            return Ok(Filter::Not(Box::new(self.term()?)));
        }
        if self.take("(") {
            let filter = self.either()?;
            let opened = from..from + 1;
            return if self.take(")") {
                Ok(filter)
            } else {
                Err(FilterError {
                    place: opened,
                    hint: "this parenthesis is not closed".to_owned(),
                })
            };
        }
        if let Some(condition) = self.condition()? {
            return Ok(condition);
        }
        Ok(Filter::Is(Test::Name(self.word().to_lowercase())))
    }

    /// Parses a word or a phrase in quotes. A word may contain balanced parentheses, for names of functions.
    fn word(&mut self) -> String {
        if self.take("\"") {
            return self.phrase();
        }
        let mut open = 0;
        let word = self.take_while(|c| {
            match c {
                '(' => open += 1,
                ')' if open == 0 => return false,
                ')' => open -= 1,
                _ => {}
            }
            !c.is_whitespace() && c != '"'
        });
        word.to_owned()
    }

    /// Parses a phrase after its opening quote. Without a closing quote it extends to the end of the text.
    fn phrase(&mut self) -> String {
        let mut out = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            self.at += c.len_utf8();
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => return out,
                _ => {
                    if escaped && !matches!(c, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(c);
                    escaped = false;
                }
            }
        }
        if escaped {
            out.push('\\');
        }
        out
    }

    fn condition(&mut self) -> Parsed<Option<Filter>> {
        let from = self.at;
        let name = self.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
        let name_end = self.at;
        self.skip_space();
        let spaced = self.at > name_end;
        let is = self.comparison(spaced);
        let Some(key) = Key::named(&name) else {
            let hint = match near_miss(&name) {
                Some(meant) if is.is_some() && !spaced => format!("unknown key '{name}'; {meant}?"),
                _ => {
                    self.at = from;
                    return Ok(None);
                }
            };
            self.at = name_end;
            return self.error(from, hint);
        };
        // "rank 3" is a common way to write it.
        let is_named = is.is_none()
            && spaced
            && matches!(key, Key::Rank | Key::Step)
            && self.rest().starts_with(|c: char| c.is_ascii_digit());
        if is.is_none() && !is_named {
            self.at = from;
            return Ok(None);
        }
        self.skip_space();
        let is = is.unwrap_or(Comparison::Equal);
        let filter = match key {
            Key::Rank => Filter::Is(Test::Rank(self.ranges(key, is)?)),
            Key::Thread => Filter::Is(Test::Thread(self.ranges(key, is)?)),
            Key::Step => Filter::Is(Test::Step(self.ranges(key, is)?)),
            Key::Size | Key::Duration | Key::Wait => Filter::Is(self.quantity(key, is)?),
            _ if is != Comparison::Equal => {
                return self.error(from, format!("names cannot be compared; write {}", key.example()));
            }
            _ => self.names(key)?,
        };
        Ok(Some(filter))
    }

    /// Parses the comparison between a key and its value. After a space, only unambiguous signs count.
    fn comparison(&mut self, spaced: bool) -> Option<Comparison> {
        const SIGNS: [(&str, Comparison); 9] = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("≤", Comparison::AtMost),
            ("≥", Comparison::AtLeast),
            ("==", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::More),
            ("=", Comparison::Equal),
            (":", Comparison::Equal),
        ];
        // Two colons are part of names in many languages.
        if self.rest().starts_with("::") || spaced && self.rest().starts_with(':') {
            return None;
        }
        SIGNS
            .into_iter()
            .find(|(sign, _)| self.take(sign))
            .map(|(_, is)| is)
    }

    fn number(&mut self, key: Key) -> Parsed<u32> {
        let from = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            self.take_while(|c| !ends_word(c) && c != ',');
            return self.error(from, format!("expected a whole number, as in {}", key.example()));
        }
        match digits.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.error(from, "number is too large"),
        }
    }

    fn ranges(&mut self, key: Key, is: Comparison) -> Parsed<Ranges> {
        let begin = self.at;
        let mut ranges = Vec::new();
        loop {
            let from = self.at;
            let first = if self.rest().starts_with('-') {
                0
            } else {
                self.number(key)?
            };
            let mut last = first;
            if self.take("-") {
                let is_open = !self.rest().starts_with(|c: char| c.is_ascii_digit());
                last = if is_open && self.at > from + 1 {
                    u32::MAX
                } else {
                    self.number(key)?
                };
            }
            if last < first {
                return self.error(from, format!("the larger number must be last: {last}-{first}"));
            }
            ranges.push(NumberRange { first, last });
            if !self.take(",") {
                break;
            }
            self.skip_space();
        }
        if !self.rest().chars().next().is_none_or(ends_word) {
            let from = self.at;
            self.take_while(|c| !ends_word(c));
            return self.error(from, format!("expected only numbers, as in {}", key.example()));
        }
        let ranges = Ranges(ranges);
        let up_to = |last| NumberRange { first: 0, last };
        let from = |first| NumberRange {
            first,
            last: u32::MAX,
        };
        let compared = match (is, ranges.single()) {
            (Comparison::Equal, _) => return Ok(ranges),
            (_, None) => None,
            (Comparison::Less, Some(limit)) => limit.checked_sub(1).map(up_to),
            (Comparison::AtMost, Some(limit)) => Some(up_to(limit)),
            (Comparison::AtLeast, Some(limit)) => Some(from(limit)),
            (Comparison::More, Some(limit)) => limit.checked_add(1).map(from),
        };
        match compared {
            Some(range) => Ok(Ranges(vec![range])),
            None => self.error(
                begin,
                format!("compare with a single number, or write {}", key.example()),
            ),
        }
    }

    fn quantity(&mut self, key: Key, is: Comparison) -> Parsed<Test> {
        let from = self.at;
        let number = self.take_while(|c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            self.take_while(|c| !ends_word(c));
            return self.error(
                from,
                format!("expected a number with a unit, as in {}", key.example()),
            );
        }
        let number_end = self.at;
        self.skip_space();
        let unit_from = self.at;
        let unit = self.take_while(|c| c.is_alphabetic() || c == '%').to_lowercase();
        if unit == "%" && key == Key::Wait {
            return match number.parse::<f64>() {
                Ok(percent) if percent.is_finite() => Ok(Test::WaitShare(is, percent)),
                _ => self.error(from, "not a number"),
            };
        }
        let (units, more): (&Units, &Units) = match key {
            Key::Size => (&SIZES, &MORE_SIZES),
            _ => (&TIMES, &MORE_TIMES),
        };
        let factor = units
            .iter()
            .chain(more)
            .find(|(name, _)| name.to_lowercase() == unit || unit == "μs" && *name == "us")
            .map(|&(_, factor)| factor);
        let factor = match factor {
            Some(factor) => factor,
            // Zero needs no unit.
            None if unit.is_empty() && number == "0" => 1,
            None => {
                let known: Vec<&str> = units.iter().rev().map(|&(name, _)| name).collect();
                let share = if key == Key::Wait { ", or %" } else { "" };
                let hint = format!("expected a unit ({}{share})", known.join(", "));
                if unit.is_empty() {
                    self.at = number_end;
                    return self.error(from, format!("{hint} after {number}"));
                }
                return self.error(unit_from, hint);
            }
        };
        if !self.rest().chars().next().is_none_or(ends_word) {
            self.take_while(|c| !ends_word(c));
            return self.error(unit_from, format!("not a unit; write {}", key.example()));
        }
        let Some(value) = scaled(number, factor) else {
            return self.error(from, "not a number, or too large");
        };
        Ok(match key {
            Key::Size => Test::Size(is, value.unsigned_abs()),
            Key::Duration => Test::Duration(is, value),
            _ => Test::Wait(is, value),
        })
    }

    /// Parses one name, or several with commas between them.
    fn names(&mut self, key: Key) -> Parsed<Filter> {
        let from = self.at;
        let quoted = self.rest().starts_with('"');
        let value = self.word();
        if value.trim().is_empty() {
            return self.error(from, format!("missing value, as in {}", key.example()));
        }
        let is_list = !quoted && !value.starts_with(',') && !value.ends_with(',');
        let mut parts = Vec::new();
        let mut at = from;
        for part in value
            .split(|c| is_list && c == ',')
            .filter(|part| !part.is_empty())
        {
            let place = if quoted {
                from..self.at
            } else {
                at..at + part.len()
            };
            at += part.len() + 1;
            let test = self::test_of(key, part, quoted).map_err(|hint| FilterError { place, hint })?;
            parts.push(Filter::Is(test));
        }
        Ok(joined(parts, Filter::Or))
    }
}

/// Returns the condition on a name, or the message with the correct form.
fn test_of(key: Key, value: &str, quoted: bool) -> Result<Test, String> {
    let lower = value.to_lowercase();
    let kebab = lower.replace(['_', ' '], "-");
    let one_of = |names: &[&str]| -> Result<String, String> {
        names
            .iter()
            .find(|name| **name == kebab)
            .map(|name| (*name).to_owned())
            .ok_or_else(|| format!("'{value}' is not one of {}", names.join(", ")))
    };
    match key {
        Key::Host => Ok(Test::Host(lower)),
        Key::Communicator => Ok(Test::Communicator(match value.parse() {
            Ok(number) if !quoted && value.bytes().all(|c| c.is_ascii_digit()) => {
                Communicator::Number(number)
            }
            _ => Communicator::Name(lower),
        })),
        Key::Role => one_of(&ROLES).map(Test::Role),
        Key::Scope => {
            let scope = Scope::ALL.iter().find(|scope| scope.name() == kebab);
            scope.copied().map(Test::Scope).ok_or_else(|| {
                let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
                format!("'{value}' is not one of {}", names.join(", "))
            })
        }
        Key::Kind => {
            // Kinds have aliases and plural forms.
            let name = match kebab.strip_suffix('s').unwrap_or(&kebab) {
                "op" => "operation",
                "work" => "kernel",
                name => name,
            };
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            kind.map(Test::Kind).ok_or_else(|| {
                let names = Kind::ALL.map(Kind::name).join(", ");
                format!("'{value}' is not one of {names}")
            })
        }
        Key::Class => {
            let known = || Kind::ALL.into_iter().flat_map(Kind::classes);
            if known().any(|name| name.replace(' ', "-").starts_with(&kebab)) {
                return Ok(Test::Class(kebab));
            }
            let mut names: Vec<String> = Vec::new();
            for name in known().map(|name| name.replace(' ', "-")) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Err(format!("'{value}' is not one of {}", names.join(", ")))
        }
        _ => {
            let operation = Operation::named(&kebab);
            operation.map(Test::Operation).ok_or_else(|| {
                let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
                format!("'{value}' is not one of {}", names.join(", "))
            })
        }
    }
}

fn joined(mut parts: Vec<Filter>, join: impl Fn(Vec<Filter>) -> Filter) -> Filter {
    match parts.len() {
        1 => parts.pop().unwrap_or_default(),
        _ => join(parts),
    }
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | '"')
}

/// Multiplies a decimal number by a factor. The result is exact for integers, and `None` on a syntax error or overflow.
fn scaled(number: &str, factor: u64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    if fraction.contains('.') || number == "." {
        return None;
    }
    let part = (format!("0.{fraction}").parse::<f64>().ok()? * factor as f64).round() as u64;
    i64::try_from(whole.checked_mul(factor)?.checked_add(part)?).ok()
}

/// Suggests a condition for a word that is almost a key.
fn near_miss(name: &str) -> Option<String> {
    let is_near = |key: &str| key.len() >= 4 && differ_by_one(name, key);
    KEYS.iter()
        .find(|(_, names, _)| names.iter().any(|key| is_near(key)))
        .map(|(.., example)| format!("did you mean {example}"))
}

/// Returns whether two words differ by one letter that was added, removed, replaced or swapped.
fn differ_by_one(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let same_begin = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same_begin..], &other[same_begin..]);
    match (one, other) {
        ([], [_]) | ([_], []) => true,
        ([a, b, one @ ..], [c, d, other @ ..]) if a == d && b == c && one == other => true,
        ([_, one_rest @ ..], [_, other_rest @ ..]) => {
            one_rest == other_rest || one_rest == other || one == other_rest
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::filters;
    use super::*;
    use proptest::prelude::*;

    fn is(test: Test) -> Filter {
        Filter::Is(test)
    }

    fn name(text: &str) -> Filter {
        is(Test::Name(text.to_owned()))
    }

    #[test]
    fn spelling_variants_are_accepted() {
        let numbers = |ranges: &[(u32, u32)]| {
            let ranges = ranges.iter().map(|&(first, last)| NumberRange { first, last });
            Ranges(ranges.collect())
        };
        let ranks = |ranges| is(Test::Rank(numbers(ranges)));
        for (text, meant) in [
            ("", Filter::All),
            ("  ", Filter::All),
            ("AllReduce", name("allreduce")),
            ("\"two Words\"", name("two words")),
            ("\"not closed", name("not closed")),
            ("aten::add", name("aten::add")),
            ("step::run", name("step::run")),
            ("nccl:all_reduce", name("nccl:all_reduce")),
            (
                "void gemm(int)",
                Filter::And(vec![name("void"), name("gemm(int)")]),
            ),
            ("vector<float>", name("vector<float>")),
            ("rank", name("rank")),
            ("rank:3", ranks(&[(3, 3)])),
            ("Rank 3", ranks(&[(3, 3)])),
            ("rank:0-7,12", ranks(&[(0, 7), (12, 12)])),
            ("rank:0-7, 12", ranks(&[(0, 7), (12, 12)])),
            ("rank:5-", ranks(&[(5, u32::MAX)])),
            ("rank:-5", ranks(&[(0, 5)])),
            ("rank>=5", ranks(&[(5, u32::MAX)])),
            ("rank < 5", ranks(&[(0, 4)])),
            ("step 12", is(Test::Step(numbers(&[(12, 12)])))),
            ("op:AllReduce", is(Test::Operation(Operation::AllReduce))),
            ("op:all_gather_v", is(Test::Operation(Operation::AllGatherV))),
            (
                "op:send,receive",
                Filter::Or(vec![
                    is(Test::Operation(Operation::Send)),
                    is(Test::Operation(Operation::Receive)),
                ]),
            ),
            ("kind:operations", is(Test::Kind(Kind::Operation))),
            ("class:in_flight", is(Test::Class("in-flight".into()))),
            ("class:\"In Flight\"", is(Test::Class("in-flight".into()))),
            ("size>1MiB", is(Test::Size(Comparison::More, 1 << 20))),
            ("size > 1.5 MiB", is(Test::Size(Comparison::More, 3 << 19))),
            ("size<=64k", is(Test::Size(Comparison::AtMost, 1 << 16))),
            ("size≥1kB", is(Test::Size(Comparison::AtLeast, 1000))),
            ("duration>5ms", is(Test::Duration(Comparison::More, 5_000_000))),
            ("duration<=1.5µs", is(Test::Duration(Comparison::AtMost, 1_500))),
            ("wait>20%", is(Test::WaitShare(Comparison::More, 20.0))),
            ("wait>0", is(Test::Wait(Comparison::More, 0))),
            ("comm:3", is(Test::Communicator(Communicator::Number(3)))),
            (
                "comm:\"3\"",
                is(Test::Communicator(Communicator::Name("3".into()))),
            ),
            (
                "a or b c",
                Filter::Or(vec![name("a"), Filter::And(vec![name("b"), name("c")])]),
            ),
            (
                "a | b && c",
                Filter::Or(vec![name("a"), Filter::And(vec![name("b"), name("c")])]),
            ),
            (
                "(a OR b) and c",
                Filter::And(vec![Filter::Or(vec![name("a"), name("b")]), name("c")]),
            ),
            ("-a", Filter::Not(Box::new(name("a")))),
            ("not rank:3", Filter::Not(Box::new(ranks(&[(3, 3)])))),
            (
                "!(a b)",
                Filter::Not(Box::new(Filter::And(vec![name("a"), name("b")]))),
            ),
            ("all-reduce", name("all-reduce")),
            ("a - b", Filter::And(vec![name("a"), name("-"), name("b")])),
            (
                "orbit android nothing",
                Filter::And(vec![name("orbit"), name("android"), name("nothing")]),
            ),
        ] {
            assert_eq!(parse(text), Ok(meant), "{text}");
        }
    }

    #[test]
    fn errors_name_the_place_and_suggest_a_correction() {
        for (text, place, hint) in [
            ("rank:x", 5..6, "rank:3 or rank:0-7,12"),
            ("all-reduce rank:", 16..16, "rank:3"),
            ("rank:7-3", 5..8, "3-7"),
            ("rank:3x", 6..7, "only numbers"),
            ("rank:99999999999", 5..16, "too large"),
            ("rank<0", 5..6, "rank:3"),
            ("rnak:3", 0..4, "rank:3"),
            ("stp:3 x", 0..3, "step:12"),
            ("size>5", 5..6, "KiB, MiB"),
            ("size>5parsecs", 6..13, "KiB, MiB"),
            ("size>big", 5..8, "size>1MiB"),
            ("size>20%", 7..8, "unit"),
            ("duration>1..2ms", 9..15, "number"),
            ("wait>5", 5..6, "or %"),
            ("role:dada", 5..9, "tensor, pipeline, data"),
            ("role>data", 0..5, "role:data"),
            ("op:all-reduce,all-redcue", 14..24, "all-gather"),
            ("kind:thing", 5..10, "operation"),
            ("class:none", 6..10, "in-flight"),
            ("(a b", 0..1, "not closed"),
            ("a)", 1..2, "unmatched parenthesis"),
            ("a or", 4..4, "missing"),
            ("or a", 0..0, "missing"),
            ("()", 1..1, "missing"),
            ("not", 0..3, "missing"),
            ("host:", 5..5, "host:NAME"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.place, place, "{text}: {error}");
            assert!(error.hint.contains(hint), "{text}: {error}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err() && parse(&"-".repeat(100_000)).is_err());
        assert!(parse(&"not ".repeat(100_000)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn a_printed_filter_parses_to_itself(filter in filters("[a-z0-9 _:\"\\\\()<>,.µ|&!#/=%-]{0,8}|or|and|not|rank|12|size")) {
            let text = filter.to_string();
            prop_assert_eq!(parse(&text), Ok(filter), "{}", text);
        }

        #[test]
        fn any_text_parses_or_has_an_error_inside_it(text in "\\PC*") {
            check(&text)?;
        }

        #[test]
        fn fragments_of_filters_parse_or_have_an_error_inside_them(
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "rank", "step", ":", "=", ">", "<=", "3", "-", ",", "7", " ", "or", "and", "not", "(", ")", "\"", "\\", "µs", "MiB",
                "size", "wait", "%", ".", "op", "all-reduce", "kind", "call", "host", "é", "∞", "class", "in", "comm", "!", "|", "≥",
            ]), 0..14),
        ) {
            check(&pieces.concat())?;
        }
    }

    fn check(text: &str) -> Result<(), TestCaseError> {
        match parse(text) {
            Ok(filter) => {
                let printed = filter.to_string();
                prop_assert_eq!(parse(&printed), Ok(filter), "{} as {}", text, printed);
            }
            Err(error) => {
                prop_assert!(text.get(error.place.clone()).is_some(), "{}: {:?}", text, error);
                prop_assert!(!error.hint.is_empty());
            }
        }
        Ok(())
    }
}
