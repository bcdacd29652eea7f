//! Spans of asynchronous tasks against `tracing-mock`, the subscriber by which `tracing` tests itself.
//!
//! It demands one order, so the tasks run on one thread. `async_spans` tests many threads.

mod common;

use common::Recorded;
use rankscope_ranklog::mark::MarkKind;
use std::collections::BTreeMap;
use tracing::{Instrument, info, info_span};
use tracing_mock::{expect, layer};
use tracing_subscriber::prelude::*;

/// What `tracing` reports of the two tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    New(&'static str),
    Enter(&'static str),
    Exit(&'static str),
    Event(&'static str),
}
use Report::{Enter, Event, Exit, New};

/// The reports in their order. The tasks take turns, and an instrumented task is entered once more when it is dropped.
const EXPECTED: &[Report] = &[
    New("first"),
    New("second"),
    Enter("first"),
    New("inner"),
    Enter("inner"),
    Exit("inner"),
    Exit("first"),
    Enter("second"),
    Exit("second"),
    Enter("second"),
    Exit("second"),
    Enter("first"),
    Enter("inner"),
    Event("continued"),
    Exit("inner"),
    Enter("inner"),
    Exit("inner"),
    Exit("first"),
    Enter("first"),
    Exit("first"),
    Enter("second"),
    Exit("second"),
    Enter("second"),
    Exit("second"),
];

#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    let mut mock = layer::mock();
    for &report in EXPECTED {
        mock = match report {
            New(name) => mock.new_span(expect::span().named(name)),
            Enter(name) => mock.enter(expect::span().named(name)),
            Exit(name) => mock.exit(expect::span().named(name)),
            Event(message) => mock.event(expect::event().with_fields(expect::msg(message))),
        };
    }
    let (mock, handle) = mock.only().run_with_handle();
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .with(mock)
        .init();
    common::wait_for_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (first, second) = (info_span!("first"), info_span!("second"));
        let work = async {
            async {
                tokio::task::yield_now().await;
                info!("continued");
            }
            .instrument(info_span!("inner"))
            .await;
        };
        let one = tokio::spawn(work.instrument(first));
        let turns = async {
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        };
        let other = tokio::spawn(turns.instrument(second));
        one.await.expect("no panic");
        other.await.expect("no panic");
    });
    handle.assert_finished();
}

#[test]
fn the_recording_is_what_the_reference_subscriber_demands() {
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    assert_eq!(recorded.lost(), 0);
    let names = |kind: MarkKind| -> Vec<&str> {
        let marks = recorded.marks(kind);
        marks.map(|(_, record)| recorded.text(record)).collect()
    };
    let expected = |wanted: fn(&Report) -> Option<&'static str>| -> Vec<&str> {
        EXPECTED.iter().filter_map(wanted).collect()
    };
    let new = |report: &Report| match report {
        New(name) => Some(*name),
        _ => None,
    };
    // The time inside a span is recorded when the span is left.
    let exits = |report: &Report| match report {
        Exit(name) => Some(*name),
        _ => None,
    };
    let events = |report: &Report| match report {
        Event(message) => Some(*message),
        _ => None,
    };
    assert_eq!(names(MarkKind::Begin), expected(new));
    assert_eq!(names(MarkKind::Entered), expected(exits));
    assert_eq!(names(MarkKind::Event), expected(events));
    let mut ended = names(MarkKind::End);
    ended.sort_unstable();
    assert_eq!(ended, ["first", "inner", "second"]);
    // The parent of each span, by name.
    let begun = recorded.marks(MarkKind::Begin);
    let ids: BTreeMap<u64, &str> = begun
        .map(|(_, record)| (record.record.aux, recorded.text(record)))
        .collect();
    let parents = recorded.marks(MarkKind::Begin).map(|(_, record)| {
        let parent = ids.get(&record.record.bytes).copied();
        (recorded.text(record), parent)
    });
    let parents: Vec<(&str, Option<&str>)> = parents.collect();
    assert_eq!(
        parents,
        [("first", None), ("second", None), ("inner", Some("first"))]
    );
    let inside = recorded
        .marks(MarkKind::Event)
        .map(|(_, record)| ids[&record.record.aux]);
    assert_eq!(inside.collect::<Vec<_>>(), ["inner"]);
}
