//! Spans and events of the program, with their parents and fields.
//!
//! A slice of a thread's time is a mark like any other ([`super::host_marks`]). Here are the spans as a whole: they may begin
//! on one thread, be entered on others many times, and end on a third one.

use super::event::Stamp;
use rankscope_formats::session::{ProgramSpanKind, ProgramSpanRow};
use rankscope_ranklog::mark::{FieldValue, NO_SPAN};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bit of the numbers of spans that belong to one thread.
const OF_THREAD: u64 = 1 << 63;
/// Maximum number of open spans. A span whose end was lost stays open.
const MAX_OPEN: usize = 1 << 16;
/// Maximum number of fields of a span or event.
const MAX_FIELDS: usize = 32;
/// Maximum number of fields of all open spans, of some hundred bytes each.
const MAX_ALL_FIELDS: usize = 1 << 17;

/// A mark about a span.
#[derive(Clone, Copy, Debug)]
pub struct SpanMark {
    /// Number of the span in the log.
    pub span: u64,
    /// Number of the text in the log.
    pub text: u32,
}

/// A named value.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Number of the span in the log.
    pub span: u64,
    /// Number of the name in the log.
    pub key: u32,
    /// The value; `None` if a later version wrote it.
    pub value: Option<FieldValue>,
}

/// The open spans of one log.
#[derive(Default)]
pub struct ProgramSpans {
    open: FxHashMap<u64, Open>,
    /// Fields of the next event, by lane: its number, and the fields.
    of_events: FxHashMap<u32, (u32, Map<String, Value>)>,
    /// Number of fields of the open spans.
    fields: usize,
    /// Number of spans and fields that were not stored, because there are too many.
    pub not_stored: u64,
}

struct Open {
    row: ProgramSpanRow,
    fields: Map<String, Value>,
}

type Texts = BTreeMap<u32, String>;

impl ProgramSpans {
    /// Opens a span.
    pub fn begun(
        &mut self,
        mark: SpanMark,
        parent: u64,
        stamp: &Stamp,
        texts: &Texts,
        out: &mut Vec<ProgramSpanRow>,
    ) {
        // A reused number: the end of the earlier span was lost.
        if let Some(lost) = self.close(mark.span) {
            out.push(lost.into_row());
        }
        if self.open.len() >= MAX_OPEN {
            self.emit_oldest(out);
        }
        let kind = if mark.span & OF_THREAD != 0 {
            ProgramSpanKind::Thread
        } else {
            ProgramSpanKind::Span
        };
        let row = ProgramSpanRow {
            is_open: true,
            ..row(mark, parent, kind, stamp, texts)
        };
        let fields = Map::new();
        self.open.insert(mark.span, Open { row, fields });
    }

    /// Adds time in which a thread was inside a span.
    pub fn entered(&mut self, mark: SpanMark, stamp: &Stamp) {
        if let Some(open) = self.open.get_mut(&mark.span) {
            open.row.entered += 1;
            open.row.entered_ns += stamp.leave_ns - stamp.enter_ns;
            open.row.end_ns = open.row.end_ns.max(stamp.leave_ns);
        }
    }

    /// Closes a span of a thread. It is complete without its begin, which may have been lost.
    pub fn thread_span(
        &mut self,
        mark: SpanMark,
        stamp: &Stamp,
        texts: &Texts,
        out: &mut Vec<ProgramSpanRow>,
    ) {
        if !self.open.contains_key(&mark.span) {
            self.begun(mark, NO_SPAN, stamp, texts, out);
        }
        self.entered(mark, stamp);
        self.ended(mark, stamp.leave_ns, out);
    }

    /// Closes a span.
    pub fn ended(&mut self, mark: SpanMark, at_ns: i64, out: &mut Vec<ProgramSpanRow>) {
        if let Some(mut open) = self.close(mark.span) {
            open.row.end_ns = open.row.end_ns.max(at_ns);
            open.row.is_open = false;
            out.push(open.into_row());
        }
    }

    /// Emits half of the open spans, the oldest ones. Their ends were probably lost.
    fn emit_oldest(&mut self, out: &mut Vec<ProgramSpanRow>) {
        let mut starts: Vec<(i64, u64)> = self
            .open
            .values()
            .map(|open| (open.row.start_ns, open.row.span))
            .collect();
        starts.sort_unstable();
        for (_, span) in starts.iter().take(MAX_OPEN / 2) {
            out.extend(self.close(*span).map(Open::into_row));
        }
    }

    fn close(&mut self, span: u64) -> Option<Open> {
        let open = self.open.remove(&span)?;
        self.fields -= open.fields.len();
        Some(open)
    }

    /// Records that a span follows from another one. The first is kept.
    pub fn followed(&mut self, mark: SpanMark, from: u64) {
        if let Some(open) = self.open.get_mut(&mark.span) {
            open.row.follows.get_or_insert(from);
        }
    }

    /// Adds a value to a span.
    pub fn field(&mut self, field: Field, texts: &Texts) {
        let Some(open) = self.open.get_mut(&field.span) else {
            return;
        };
        if self.fields >= MAX_ALL_FIELDS {
            self.not_stored += 1;
            return;
        }
        let before = open.fields.len();
        self.not_stored += u64::from(!add(&mut open.fields, field, texts));
        self.fields += open.fields.len() - before;
    }

    /// Adds a value to the next event on this lane.
    pub fn event_field(&mut self, field: Field, number: u32, lane: u32, texts: &Texts) {
        let (of, fields) = self.of_events.entry(lane).or_default();
        if *of != number {
            // The earlier event itself was lost.
            fields.clear();
            *of = number;
        }
        let is_stored = add(fields, field, texts);
        self.not_stored += u64::from(!is_stored);
    }

    /// Adds an event.
    pub fn event(
        &mut self,
        mark: SpanMark,
        number: u32,
        stamp: &Stamp,
        texts: &Texts,
        out: &mut Vec<ProgramSpanRow>,
    ) {
        let fields = self.of_events.remove(&stamp.lane);
        let fields = fields.filter(|(of, _)| *of == number).map(|(_, fields)| fields);
        let fields = fields.unwrap_or_default();
        let row = row(mark, mark.span, ProgramSpanKind::Event, stamp, texts);
        out.push(Open { row, fields }.into_row());
    }

    /// Emits the spans that are open at the end of the log.
    pub fn finish(&mut self, end_ns: i64, out: &mut Vec<ProgramSpanRow>) {
        let mut rest: Vec<ProgramSpanRow> = self.open.drain().map(|(_, open)| open.into_row()).collect();
        rest.sort_by_key(|row| (row.start_ns, row.span));
        for row in &mut rest {
            row.end_ns = row.end_ns.max(end_ns);
        }
        out.append(&mut rest);
    }
}

impl Open {
    fn into_row(self) -> ProgramSpanRow {
        let fields = (!self.fields.is_empty()).then(|| Value::Object(self.fields).to_string().into());
        ProgramSpanRow { fields, ..self.row }
    }
}

/// Returns the row of a span that begins, or of an event.
fn row(mark: SpanMark, parent: u64, kind: ProgramSpanKind, stamp: &Stamp, texts: &Texts) -> ProgramSpanRow {
    ProgramSpanRow {
        span: mark.span,
        parent: (parent != NO_SPAN).then_some(parent),
        kind,
        name: texts.get(&mark.text).cloned().unwrap_or_default(),
        thread_id: stamp.thread_id,
        start_ns: stamp.enter_ns,
        end_ns: stamp.enter_ns,
        is_open: false,
        entered: 0,
        entered_ns: 0,
        follows: None,
        fields: None,
    }
}

/// Adds a value. Returns false if it was not stored.
fn add(fields: &mut Map<String, Value>, field: Field, texts: &Texts) -> bool {
    let Some(key) = texts.get(&field.key) else {
        return false;
    };
    if fields.len() >= MAX_FIELDS && !fields.contains_key(key) {
        return false;
    }
    let value = match field.value {
        Some(FieldValue::Signed(value)) => value.into(),
        Some(FieldValue::Unsigned(value)) => value.into(),
        // JSON has no infinite numbers.
        Some(FieldValue::Double(value)) => {
            serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number)
        }
        Some(FieldValue::Bool(value)) => value.into(),
        Some(FieldValue::Text(number)) => texts.get(&number).cloned().into(),
        None => Value::Null,
    };
    fields.insert(key.clone(), value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(lane: u32, enter_ns: i64, leave_ns: i64) -> Stamp {
        Stamp {
            thread_id: 100 + lane,
            lane,
            enter_ns,
            leave_ns,
        }
    }

    fn texts() -> Texts {
        [(1, "request"), (2, "user"), (3, "anna"), (4, "retry")]
            .into_iter()
            .map(|(number, text)| (number, text.to_owned()))
            .collect()
    }

    const fn mark(span: u64) -> SpanMark {
        SpanMark { span, text: 1 }
    }

    #[test]
    fn a_span_that_moves_between_threads_is_one_row() {
        let (texts, mut spans, mut out) = (texts(), ProgramSpans::default(), Vec::new());
        spans.begun(mark(7), 3, &stamp(0, 10, 10), &texts, &mut out);
        spans.field(
            Field {
                span: 7,
                key: 2,
                value: Some(FieldValue::Text(3)),
            },
            &texts,
        );
        spans.entered(mark(7), &stamp(0, 11, 15));
        spans.entered(mark(7), &stamp(1, 20, 22));
        spans.followed(mark(7), 5);
        spans.ended(mark(7), 30, &mut out);
        let [row] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((row.span, row.parent, row.follows), (7, Some(3), Some(5)));
        assert_eq!(
            (row.start_ns, row.end_ns, row.entered, row.entered_ns),
            (10, 30, 2, 6)
        );
        assert_eq!((row.name.as_str(), row.is_open), ("request", false));
        assert_eq!(row.fields.as_deref(), Some(r#"{"user":"anna"}"#));
    }

    #[test]
    fn what_never_closes_is_open_to_the_end() {
        let (texts, mut spans, mut out) = (texts(), ProgramSpans::default(), Vec::new());
        spans.begun(mark(7), 0, &stamp(0, 10, 10), &texts, &mut out);
        // The end of the first one was lost, and its number was used again.
        spans.begun(mark(7), 0, &stamp(0, 50, 50), &texts, &mut out);
        spans.finish(90, &mut out);
        let seen: Vec<_> = out
            .iter()
            .map(|row| (row.start_ns, row.end_ns, row.is_open))
            .collect();
        assert_eq!(seen, [(10, 10, true), (50, 90, true)]);
    }

    #[test]
    fn a_span_of_a_thread_needs_no_begin() {
        let (texts, mut spans, mut out) = (texts(), ProgramSpans::default(), Vec::new());
        spans.thread_span(mark(OF_THREAD | 9), &stamp(0, 10, 14), &texts, &mut out);
        spans.ended(mark(8), 20, &mut out);
        let [row] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(
            (row.kind, row.start_ns, row.end_ns),
            (ProgramSpanKind::Thread, 10, 14)
        );
    }

    #[test]
    fn values_of_an_event_precede_it_on_its_lane() {
        let (texts, mut spans, mut out) = (texts(), ProgramSpans::default(), Vec::new());
        let value = |number| Field {
            span: 7,
            key: 4,
            value: Some(FieldValue::Unsigned(number)),
        };
        spans.event_field(value(2), 5, 0, &texts);
        spans.event_field(value(9), 5, 1, &texts);
        spans.event(mark(7), 5, &stamp(0, 10, 10), &texts, &mut out);
        spans.event(mark(0), 6, &stamp(0, 11, 11), &texts, &mut out);
        // Event 5 of the other lane was lost.
        spans.event(mark(0), 6, &stamp(1, 12, 12), &texts, &mut out);
        assert_eq!(out[0].fields.as_deref(), Some(r#"{"retry":2}"#));
        assert_eq!((out[0].kind, out[0].parent), (ProgramSpanKind::Event, Some(7)));
        assert_eq!((out[1].fields.as_deref(), out[1].parent), (None, None));
        assert_eq!(out[2].fields, None);
    }

    #[test]
    fn memory_is_bounded() {
        let (texts, mut spans, mut out) = (texts(), ProgramSpans::default(), Vec::new());
        for span in 1..=MAX_OPEN as u64 + 5 {
            spans.begun(
                mark(span),
                0,
                &stamp(0, span as i64, span as i64),
                &texts,
                &mut out,
            );
        }
        assert_eq!((spans.open.len(), out.len()), (MAX_OPEN / 2 + 5, MAX_OPEN / 2));
        assert!(
            out.iter()
                .all(|row| row.is_open && row.start_ns <= MAX_OPEN as i64 / 2)
        );
    }
}
