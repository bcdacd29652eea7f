//! Tracks of one rank for reports of its program: counters, and spans that do not belong to one thread.

use super::rank_tracks::{lanes, slice_in};
use rankscope_formats::perfetto::{
    Arg, ArgValue, CounterId, CounterUnit, CounterValue, Error, Lanes, Slice, TraceWriter, TrackId,
};
use rankscope_formats::session::{ProgramSpanKind, ProgramSpanRow, counter_unit};
use rankscope_formats::whole_file::WholeFile;
use std::collections::BTreeMap;

/// Maximum number of counters of a rank in a trace.
const MAX_COUNTERS: usize = 1_024;

/// Tracks of one rank.
pub struct ProgramTracks {
    process: TrackId,
    counters: BTreeMap<String, CounterId>,
    spans: Lanes,
}

impl ProgramTracks {
    /// Creates the tracks of a process. Each is written with its first slice or sample.
    pub fn new(process: TrackId) -> Self {
        Self {
            process,
            counters: BTreeMap::new(),
            spans: lanes(process, "spans"),
        }
    }

    /// Writes a sample of a counter. Returns false if the trace has too many counters.
    pub fn sample(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        name: &str,
        time_ns: u64,
        value: f64,
    ) -> Result<bool, Error> {
        let track = match self.counters.get(name) {
            Some(&track) => track,
            None if self.counters.len() >= MAX_COUNTERS => return Ok(false),
            None => {
                let track = writer.counter(Some(self.process), name, unit(name))?;
                self.counters.insert(name.to_owned(), track);
                track
            }
        };
        writer.counter_value(track, time_ns, CounterValue::Double(value))?;
        Ok(true)
    }

    /// Writes a span.
    pub fn span(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        row: &ProgramSpanRow,
        start_ns: u64,
        duration_ns: u64,
    ) -> Result<(), Error> {
        let mut args: Vec<Arg<'_>> = vec![
            ("span", ArgValue::Uint(row.span)),
            ("entered", ArgValue::Uint(u64::from(row.entered))),
            ("entered_ns", ArgValue::Int(row.entered_ns)),
        ];
        args.extend(row.parent.map(|parent| ("parent", ArgValue::Uint(parent))));
        args.extend(row.follows.map(|from| ("follows", ArgValue::Uint(from))));
        args.extend(row.is_open.then_some(("open", ArgValue::Bool(true))));
        if let Some(fields) = &row.fields {
            args.push(("fields", ArgValue::Text(fields)));
        }
        let slice = Slice {
            start_ns,
            duration_ns,
            name: if row.name.is_empty() { "span" } else { &row.name },
            category: "span",
            args: &args,
            ..Slice::default()
        };
        slice_in(&mut self.spans, writer, &slice)
    }
}

/// Returns true for a span that its threads' tracks do not show: one that several threads entered, or none, or one more than
/// once, and one that is open.
pub fn is_shown(row: &ProgramSpanRow) -> bool {
    row.is_open || row.kind == ProgramSpanKind::Span && row.entered != 1
}

fn unit(name: &str) -> CounterUnit<'static> {
    match counter_unit(name) {
        "bytes" => CounterUnit::Bytes,
        "ns" => CounterUnit::Nanoseconds,
        "count" => CounterUnit::Plain,
        other => CounterUnit::Named(other),
    }
}
