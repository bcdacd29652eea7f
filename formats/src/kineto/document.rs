//! Streaming split of a trace into its parts: events, and the members that identify the trace. Memory holds one part
//! and one block of the file, for any length of the file.

use super::event::Event;
use super::scan::{Broken, Scan, is_space};
use super::unpack::Unpacked;
use crate::problem::Problem;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Number of bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 18;
/// Maximum size of an event or member, in bytes. A larger one is damaged or irrelevant.
const MOST_BYTES: usize = 1 << 26;
/// Maximum number of problems that are listed. Further problems are only counted.
const MAX_PROBLEMS: usize = 20;
/// Name of the member with the list of events.
const EVENTS: &[u8] = b"traceEvents";

/// Part of a trace.
#[derive(Debug)]
pub enum Part<'a> {
    /// Event.
    Event(Event<'a>),
    /// Other member of the outermost object: its name and its value as in the file.
    Member(&'a str, &'a str),
}

/// Result of reading a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// True if the trace has a list of events, empty or not.
    pub has_events: bool,
    /// Number of events read.
    pub events: u64,
    /// Size of the uncompressed file as far as it could be read, in bytes.
    pub bytes: u64,
    /// Parts that could not be read, in order.
    pub problems: Vec<Problem>,
    /// Number of problems beyond the listed ones.
    pub more_problems: u64,
}

/// Reads a file, gzipped or not. Its first bytes decide this, not its name. Calls `visit` for every part, with its
/// offset in the uncompressed file.
///
/// # Errors
///
/// If the file cannot be opened. Parts that cannot be read are listed in the outcome. Parts before them, and those
/// after them that can be found, are still visited.
pub fn read_file(path: &Path, visit: &mut dyn FnMut(u64, Part<'_>)) -> io::Result<Outcome> {
    let mut file = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
    let is_gzip = file.fill_buf()?.starts_with(&[0x1F, 0x8B]);
    Ok(if is_gzip {
        read(Unpacked::start(file)?, visit)
    } else {
        read(file, visit)
    })
}

/// As [`read_file`], for any uncompressed input.
pub fn read(input: impl Read, visit: &mut dyn FnMut(u64, Part<'_>)) -> Outcome {
    let mut reader = Reader {
        input,
        data: Vec::new(),
        done: 0,
        before: 0,
        is_at_end: false,
        place: Place::Outside,
        is_list: false,
        outcome: Outcome::default(),
    };
    while let Some(found) = reader.find() {
        reader.hand_out(found, visit);
    }
    reader.outcome.bytes = reader.offset(reader.done);
    reader.outcome
}

/// State of the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the outermost object or list.
    Outside,
    /// In the outermost object, before a member.
    Members,
    /// In the list of events.
    Events,
    /// After the end.
    End,
}

/// Next part.
enum Found {
    Event,
    Member {
        name: (usize, usize),
        value: (usize, usize),
    },
}

struct Reader<R> {
    input: R,
    data: Vec<u8>,
    /// Length of the prefix of `data` that has been processed.
    done: usize,
    /// Number of bytes of the file before `data`.
    before: u64,
    is_at_end: bool,
    place: Place,
    /// True if the list of events is the outermost value and not a member of an object.
    is_list: bool,
    outcome: Outcome,
}

impl<R: Read> Reader<R> {
    fn hand_out(&mut self, found: Found, visit: &mut dyn FnMut(u64, Part<'_>)) {
        match found {
            Found::Member { name, value } => {
                let offset = self.offset(name.0);
                let text = |(start, end): (usize, usize)| std::str::from_utf8(&self.data[start..end]);
                match (text(name), text(value)) {
                    (Ok(name), Ok(value)) => visit(offset, Part::Member(name, value)),
                    _ => self.problem(name.0, "a member that is no text was left out".to_owned()),
                }
                self.done = value.1;
            }
            Found::Event => self.hand_out_event(visit),
        }
    }

    /// Passes the event that starts here to `visit`.
    fn hand_out_event(&mut self, visit: &mut dyn FnMut(u64, Part<'_>)) {
        let start = self.done;
        loop {
            let broken = match Event::read(&self.data, start) {
                Ok((event, end)) => {
                    self.outcome.events += 1;
                    visit(self.before + start as u64, Part::Event(event));
                    self.done = end;
                    return;
                }
                Err(broken) => broken,
            };
            match broken {
                // The event is decoded again with more data. This is rare, because blocks are long and events are
                // short.
                Broken::Unfinished => {
                    if self.data.len() - start > MOST_BYTES || !self.fill() {
                        self.skip_endless(start);
                        return;
                    }
                }
                Broken::Malformed(why) => {
                    // The next event may be inside this one: a missing quote hides the end of an event.
                    let behind = next_event(&self.data[start + 1..]).map(|behind| start + 1 + behind);
                    self.done = behind
                        .or_else(|| self.end_of_value(start))
                        .unwrap_or(self.data.len());
                    let left_out = self.done - start;
                    let what = format!("an event that is no JSON ({why}): {left_out} bytes were left out");
                    self.problem(start, what);
                    return;
                }
            }
        }
    }

    /// Finds the next part without parsing it; `None` at the end.
    fn find(&mut self) -> Option<Found> {
        loop {
            self.forget();
            let next = self.skip_space();
            match (self.place, next) {
                (Place::End, _) => return None,
                (Place::Outside, Some(b'{')) => {
                    self.done += 1;
                    self.place = Place::Members;
                }
                (Place::Outside, Some(b'[')) => {
                    self.done += 1;
                    self.begin_events(true);
                }
                // Byte-order mark.
                (Place::Outside, Some(0xEF | 0xBB | 0xBF)) => self.done += 1,
                (Place::Outside, Some(_)) => {
                    self.problem(
                        self.done,
                        "this is no JSON object and no list of events".to_owned(),
                    );
                    self.place = Place::End;
                }
                (Place::Outside, None) => {
                    self.problem(self.done, "the file is empty".to_owned());
                    self.place = Place::End;
                }
                (Place::Members | Place::Events, None) => {
                    let kept = self.outcome.events;
                    self.problem(
                        self.done,
                        format!("the file ends before the trace does; {kept} events before were kept"),
                    );
                    self.place = Place::End;
                }
                (Place::Members, Some(b'}')) => {
                    self.done += 1;
                    self.place = Place::End;
                }
                (Place::Members, Some(b'"')) => {
                    if let Some(found) = self.find_member() {
                        return Some(found);
                    }
                }
                (Place::Members, Some(_)) => {
                    self.problem(
                        self.done,
                        "no member at this place; the rest was left out".to_owned(),
                    );
                    self.place = Place::End;
                }
                (Place::Events, Some(b']')) => {
                    self.done += 1;
                    self.place = if self.is_list { Place::End } else { Place::Members };
                }
                (Place::Events, Some(b'{')) => return Some(Found::Event),
                (Place::Events, Some(_)) => self.skip_to_event(),
            }
        }
    }

    fn begin_events(&mut self, is_list: bool) {
        self.place = Place::Events;
        self.is_list = is_list;
        self.outcome.has_events = true;
    }

    /// Finds the member whose name starts here. `None` if it cannot be read, or if it is the list of events, which is
    /// then entered.
    fn find_member(&mut self) -> Option<Found> {
        let start = self.done;
        let Some(end) = self.end_of_value(start) else {
            self.cut_off(start);
            return None;
        };
        let name = (start + 1, end - 1);
        let mut value = self.behind_space(end);
        if self.data.get(value) == Some(&b':') {
            value = self.behind_space(value + 1);
        }
        if self.data.get(value) == Some(&b'[') && &self.data[name.0..name.1] == EVENTS {
            self.done = value + 1;
            self.begin_events(false);
            return None;
        }
        let Some(end) = self.end_of_value(value).filter(|&end| end > value) else {
            self.cut_off(start);
            return None;
        };
        Some(Found::Member {
            name,
            value: (value, end),
        })
    }

    /// Reports that a value does not end, because of the end of the file or because it is too long.
    fn cut_off(&mut self, start: usize) {
        let kept = self.outcome.events;
        self.problem(
            start,
            format!("a member that does not end; {kept} events before it were kept"),
        );
        self.place = Place::End;
    }

    /// Reports an event that does not end, and continues with the next visible event.
    fn skip_endless(&mut self, start: usize) {
        let behind = next_event(&self.data[start + 1..]);
        let kept = self.outcome.events;
        self.problem(
            start,
            if self.is_at_end && behind.is_none() {
                format!("the file ends in the middle of an event; {kept} events before it were kept")
            } else {
                "an event that does not end was left out".to_owned()
            },
        );
        match behind {
            Some(behind) => self.done = start + 1 + behind,
            None if self.is_at_end => self.place = Place::End,
            None => self.done = self.data.len(),
        }
    }

    /// Reports bytes that are not an event where one is expected, and continues with the next event.
    fn skip_to_event(&mut self) {
        let start = self.done;
        let offset = self.offset(start);
        loop {
            let behind = self.data[self.done..]
                .iter()
                .position(|&byte| byte == b'{' || byte == b']');
            match behind {
                Some(behind) => {
                    self.done += behind;
                    break;
                }
                None => {
                    self.done = self.data.len();
                    self.forget();
                    if !self.fill() {
                        break;
                    }
                }
            }
        }
        let left_out = self.offset(self.done) - offset;
        self.problem_at(
            offset,
            format!("no event at this place; {left_out} bytes were left out"),
        );
    }

    /// Returns the end of the value that starts at `start`; `None` if it does not end.
    fn end_of_value(&mut self, start: usize) -> Option<usize> {
        let mut scan = Scan::new(start);
        loop {
            if let Some(end) = scan.end(&self.data) {
                return Some(end);
            }
            if self.data.len() - start > MOST_BYTES || !self.fill() {
                // A number may end with the file.
                let is_scalar = scan.depth == 0 && !scan.in_string && self.is_at_end && scan.at > start;
                return is_scalar.then_some(scan.at);
            }
        }
    }

    /// Skips to the next byte that is neither space nor comma, and returns it.
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            while let Some(&byte) = self.data.get(self.done) {
                if !is_space(byte) {
                    return Some(byte);
                }
                self.done += 1;
            }
            self.forget();
            if !self.fill() {
                return None;
            }
        }
    }

    /// Returns the position of the next such byte from `at` on. The data before it is kept.
    fn behind_space(&mut self, mut at: usize) -> usize {
        loop {
            while self.data.get(at).is_some_and(|&byte| is_space(byte)) {
                at += 1;
            }
            if at < self.data.len() || self.data.len() - self.done > MOST_BYTES || !self.fill() {
                return at;
            }
        }
    }

    /// Drops processed data once this is worth moving the rest.
    fn forget(&mut self) {
        if self.done >= BLOCK_BYTES || self.done == self.data.len() {
            self.before += self.done as u64;
            self.data.drain(..self.done);
            self.done = 0;
        }
    }

    /// Reads another block; false at the end of the file or of its readable part.
    fn fill(&mut self) -> bool {
        if self.is_at_end {
            return false;
        }
        let held = self.data.len();
        self.data.resize(held + BLOCK_BYTES, 0);
        let read = loop {
            match self.input.read(&mut self.data[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kept = self.outcome.events;
                    let what =
                        format!("cannot be read from here on: {error}; {kept} events before were kept");
                    self.problem(held, what);
                    break 0;
                }
                Ok(read) => break read,
            }
        };
        self.data.truncate(held + read);
        self.is_at_end = read == 0;
        read > 0
    }

    fn offset(&self, at: usize) -> u64 {
        self.before + at as u64
    }

    fn problem(&mut self, at: usize, what: String) {
        self.problem_at(self.offset(at), what);
    }

    fn problem_at(&mut self, offset: u64, what: String) {
        if self.outcome.problems.len() < MAX_PROBLEMS {
            self.outcome.problems.push(Problem { offset, what });
        } else {
            self.outcome.more_problems += 1;
        }
    }
}

/// Finds the probable start of an event. Kineto writes the phase or the category first, and only in events.
fn next_event(data: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', data).find(|&at| {
        let inside = data[at + 1..].trim_ascii_start();
        inside.starts_with(b"\"ph\"") || inside.starts_with(b"\"cat\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reader that returns a few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let take = self.1.min(out.len()).min(self.0.len());
            out[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn names(text: &[u8], at_once: usize) -> (Vec<String>, Vec<String>, Outcome) {
        let (mut events, mut members) = (Vec::new(), Vec::new());
        let outcome = read(Slowly(text, at_once), &mut |_, part| match part {
            Part::Event(event) => events.push(event.name.as_str().to_owned()),
            Part::Member(name, value) => members.push(format!("{name}={value}")),
        });
        (events, members, outcome)
    }

    const TRACE: &[u8] = br#"
{ "schemaVersion": 1, "text": "a ] } \" , b", "list": [1, [2], {"a": "]"}],
  "traceEvents": [
  {
    "ph": "X", "name": "one \"{\"", "args": {"x": [1, "}"]}
  },
  {"ph": "X", "name": "two"}
  ],
  "traceName": "t", "baseTimeNanoseconds": 17
}
"#;

    #[test]
    fn members_before_and_after_the_events_are_found_in_chunks_of_any_size() {
        for at_once in [1, 2, 3, 7, 1000] {
            let (events, members, outcome) = names(TRACE, at_once);
            assert_eq!(events, ["one \"{\"", "two"]);
            assert_eq!(
                members,
                [
                    "schemaVersion=1",
                    r#"text="a ] } \" , b""#,
                    r#"list=[1, [2], {"a": "]"}]"#,
                    r#"traceName="t""#,
                    "baseTimeNanoseconds=17"
                ]
            );
            assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
            assert_eq!((outcome.events, outcome.bytes), (2, TRACE.len() as u64));
        }
    }

    #[test]
    fn a_list_of_events_is_a_trace_too() {
        let (events, _, outcome) = names(br#"[{"name": "a"}, {"name": "b"},"#, 5);
        assert_eq!(events, ["a", "b"]);
        assert_eq!(outcome.problems.len(), 1, "it has no end");
        let (events, _, outcome) = names(br#"[{"name": "a"}]"#, 5);
        assert_eq!((events.len(), outcome.problems.len()), (1, 0));
    }

    #[test]
    fn a_file_cut_anywhere_gives_the_events_before_the_cut_and_says_so() {
        for cut in 0..TRACE.len() - 2 {
            let (events, _, outcome) = names(&TRACE[..cut], 64);
            let whole = ["}\"]}\n  }", "\"two\"}"]
                .iter()
                .filter(|end| {
                    let at = TRACE
                        .windows(end.len())
                        .position(|window| window == end.as_bytes());
                    at.is_some_and(|at| at + end.len() <= cut)
                })
                .count();
            assert_eq!(events.len(), whole, "cut at {cut}");
            assert!(!outcome.problems.is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn damage_costs_only_the_event_that_it_is_in() {
        let text = br#"{"traceEvents": [
  {"ph": "X", "name": "a"},
  {"ph": "X", "name": "no end, "ts": 1},
  {"ph": "X", "name": "b"},
  7 what
  {"ph": "X", "name": "c"},
  {"ph": "X", "name": "d" "ts"}
]}"#;
        let (events, _, outcome) = names(text, 64);
        assert_eq!(events, ["a", "b", "c"]);
        let offsets: Vec<usize> = outcome
            .problems
            .iter()
            .map(|problem| problem.offset as usize)
            .collect();
        assert_eq!(offsets.len(), 3, "{:?}", outcome.problems);
        assert!(text[offsets[0]..].starts_with(br#"{"ph": "X", "name": "no end"#));
        assert!(text[offsets[1]..].starts_with(b"7 what"));
        assert!(text[offsets[2]..].starts_with(br#"{"ph": "X", "name": "d""#));
    }

    #[test]
    fn input_that_other_readers_accept_is_accepted() {
        let text = b"{\"traceEvents\": [{\"name\": \"a\", \"args\": {\"x\": NaN, \"y\": [-Infinity, inf]}},\
            {\"name\": \"C:\\Users\tb\xFF\"}]}";
        let (events, _, outcome) = names(text, 64);
        assert_eq!(events, ["a", "C:\\Users\tb\u{FFFD}"]);
        assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
    }

    #[test]
    fn other_files_are_no_traces() {
        for text in [&b""[..], b"   ", b"<html>", b"PK\x03\x04", b"{\"a\": 1}", b"17"] {
            let (events, _, outcome) = names(text, 64);
            assert!(events.is_empty() && !outcome.has_events, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(
            prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b'\\'), Just(b','), Just(b':'), any::<u8>()],
            0..200,
        ), at_once in 1usize..64) {
            names(&bytes, at_once);
            let mut inside = b"{\"traceEvents\": [".to_vec();
            inside.extend_from_slice(&bytes);
            names(&inside, at_once);
        }
    }
}
