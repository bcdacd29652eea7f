//! Evaluation of a source of the page, from the JSON alone. `collector/report/src/source.rs` defines the syntax.

use serde_json::Value;
use std::ops::Range;

/// A value that a source represents.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Numbers. There are several if the source represents several.
    Numbers(Vec<f64>),
    /// A text.
    Text(String),
}

/// Evaluates `source` in `document`.
pub fn find(document: &Value, source: &str) -> Result<Found, String> {
    let mut parser = Parser {
        document,
        rest: source,
    };
    let found = parser.any()?;
    if parser.rest.is_empty() {
        Ok(found)
    } else {
        Err(format!("'{}' is left of '{source}'", parser.rest))
    }
}

struct Parser<'a> {
    document: &'a Value,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Found, String> {
        if self.rest.starts_with('/') {
            let mut open = 0;
            let is_end = |letter: char| {
                match letter {
                    '(' => open += 1,
                    ')' => open -= 1,
                    _ => {}
                }
                open < 0 || (letter == ',' && open == 0)
            };
            let end = self.rest.find(is_end).unwrap_or(self.rest.len());
            let (pointer, rest) = self.rest.split_at(end);
            self.rest = rest;
            let mut values = Vec::new();
            select(self.document, &pointer[1..], &mut values).map_err(|what| format!("{pointer}: {what}"))?;
            return found(&values).map_err(|what| format!("{pointer}: {what}"));
        }
        let end = self.rest.find(['(', ',', ')']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let Some(arguments) = rest.strip_prefix('(') else {
            self.rest = rest;
            let number: f64 = name.parse().map_err(|_| format!("'{name}' is no number"))?;
            return Ok(Found::Numbers(vec![number]));
        };
        self.rest = arguments;
        let mut each: Vec<Found> = Vec::new();
        while !self.rest.starts_with(')') {
            each.push(self.any()?);
            self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
            if self.rest.is_empty() {
                return Err(format!("{name}( has no end"));
            }
        }
        self.rest = &self.rest[1..];
        apply(name, &each)
    }
}

fn apply(name: &str, each: &[Found]) -> Result<Found, String> {
    if name == "number" {
        let count: usize = each
            .iter()
            .map(|found| match found {
                Found::Numbers(numbers) => numbers.len(),
                Found::Text(_) => 1,
            })
            .sum();
        return Ok(Found::Numbers(vec![count as f64]));
    }
    let mut all: Vec<f64> = Vec::new();
    for found in each {
        match found {
            Found::Numbers(numbers) => all.extend(numbers),
            Found::Text(text) => return Err(format!("{name} of the text '{text}'")),
        }
    }
    let one = match (name, all.as_slice()) {
        ("list", _) => return Ok(Found::Numbers(all)),
        ("sum", numbers) => numbers.iter().sum(),
        ("max", [_, ..]) => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ("min", [_, ..]) => all.iter().copied().fold(f64::INFINITY, f64::min),
        ("share", [part, whole]) if *whole != 0.0 => part / whole,
        ("less", [from, what]) => from - what,
        ("times", [one, other]) => one * other,
        _ => return Err(format!("{name} of {} values", all.len())),
    };
    Ok(Found::Numbers(vec![one]))
}

/// Collects all values under a pointer that are not null.
fn select<'a>(value: &'a Value, pointer: &str, into: &mut Vec<&'a Value>) -> Result<(), String> {
    if pointer.is_empty() {
        if !value.is_null() {
            into.push(value);
        }
        return Ok(());
    }
    let (first, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
    match value {
        Value::Object(fields) => match fields.get(first) {
            Some(field) => select(field, rest, into),
            None => Err(format!("there is no '{first}'")),
        },
        Value::Array(elements) => {
            let chosen: Range<usize> = match (first, first.split_once(':')) {
                ("*", _) => 0..elements.len(),
                (_, Some((from, to))) => position(from)?..position(to)?,
                (at, None) => position(at)?..position(at)? + 1,
            };
            let chosen = elements
                .get(chosen)
                .ok_or_else(|| format!("{first} of {}", elements.len()))?;
            chosen.iter().try_for_each(|element| select(element, rest, into))
        }
        // An unknown figure has no value, and an optional object may be null.
        Value::Null => Ok(()),
        _ => Err(format!("'{first}' of a value that has no parts")),
    }
}

fn position(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("'{text}' is no position"))
}

fn found(values: &[&Value]) -> Result<Found, String> {
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
    match (numbers, values) {
        (Some(numbers), _) => Ok(Found::Numbers(numbers)),
        (None, [Value::String(text)]) => Ok(Found::Text(text.clone())),
        // Objects and texts are counted, not read.
        (None, things) if things.iter().all(|thing| thing.is_object() || thing.is_string()) => {
            Ok(Found::Numbers(vec![f64::NAN; things.len()]))
        }
        _ => Err("neither numbers nor a text".to_owned()),
    }
}

#[test]
fn sources_mean_what_their_module_says() {
    let document = serde_json::json!({
        "a": [{"n": 1, "f": {"value": 2}}, {"n": 10, "f": {"value": null}}, {"n": 100, "f": null}],
        "name": "x", "empty": [], "time(us)": 5,
    });
    let numbers = |source: &str| match find(&document, source) {
        Ok(Found::Numbers(numbers)) => numbers,
        other => panic!("{source}: {other:?}"),
    };
    assert_eq!(numbers("/a/1/n"), [10.0]);
    assert_eq!(numbers("sum(/a/*/n)"), [111.0]);
    assert_eq!(numbers("sum(/a/0:2/n,/a/2/n,-1)"), [110.0]);
    assert_eq!(numbers("number(/a/*/f/value)"), [1.0]);
    assert_eq!(numbers("number(/a/*)"), [3.0]);
    assert_eq!(numbers("number(/empty/*)"), [0.0]);
    assert_eq!(numbers("share(less(/a/2/n,/a/1/n),times(/a/0/n,3))"), [30.0]);
    assert_eq!(numbers("max(/a/*/n)"), [100.0]);
    assert_eq!(numbers("sum(/time(us),1)"), [6.0]);
    assert_eq!(find(&document, "/name"), Ok(Found::Text("x".to_owned())));
    for wrong in [
        "/b",
        "/a/3/n",
        "/a/0:4/n",
        "sum(/a/0/n",
        "share(/a/0/n,0)",
        "max(/empty/*)",
        "/a/0/n)",
        "/name/x",
    ] {
        assert!(find(&document, wrong).is_err(), "{wrong}");
    }
}
