//! Several registries in one process, and spans that a filter disables.

mod common;

use common::Recorded;
use rankscope_ranklog::mark::{MarkKind, NO_SPAN};
use rankscope_ranklog::record::RecordKind;
use std::collections::BTreeMap;
use tracing::{Dispatch, debug_span, dispatcher, info, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

const ROUNDS: usize = 1000;

/// Two registries give the same numbers to spans of different names. A third one disables a span between two others.
#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    let registry = || Dispatch::new(tracing_subscriber::registry().with(rankscope_layer::layer()));
    let (one, other) = (registry(), registry());
    common::wait_for_recorder();
    for _ in 0..ROUNDS {
        // Both are open at the same time, with the same number.
        let first = dispatcher::with_default(&one, || info_span!("first"));
        let second = dispatcher::with_default(&other, || info_span!("second"));
        assert_eq!(
            first.id().map(|id| id.into_u64()),
            second.id().map(|id| id.into_u64())
        );
        first.in_scope(|| second.in_scope(|| ()));
    }
    let filtered = rankscope_layer::layer().with_filter(LevelFilter::INFO);
    // Another layer wants all spans, so the registry has the disabled one, too.
    let all = tracing_subscriber::registry()
        .with(filtered)
        .with(LevelFilter::TRACE);
    tracing::subscriber::with_default(all, || {
        let _outer = info_span!("outer").entered();
        let _disabled = debug_span!("disabled").entered();
        let _inner = info_span!("inner").entered();
        info!("inside");
    });
    rankscope_layer::step(5);
    rankscope_layer::step(5);
    rankscope_layer::step(6);
}

#[test]
fn spans_of_several_registries_keep_their_names() {
    if common::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    let named = |kind| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, record) in recorded.marks(kind) {
            *counts.entry(recorded.text(record)).or_default() += 1;
        }
        counts
    };
    let expected = BTreeMap::from([("first", ROUNDS), ("inner", 1), ("outer", 1), ("second", ROUNDS)]);
    assert_eq!(named(MarkKind::Begin), expected);
    assert_eq!(named(MarkKind::Entered), expected);
    assert_eq!(named(MarkKind::End), expected);
    // All spans that are open at the same time have different numbers.
    let mut open: BTreeMap<u64, &str> = BTreeMap::new();
    for record in recorded
        .records
        .iter()
        .filter(|one| one.record.kind == RecordKind::Mark as u8)
    {
        let (id, text) = (record.record.aux, recorded.text(record));
        match MarkKind::from_u8(record.record.operation) {
            Some(MarkKind::Begin) => assert_eq!(open.insert(id, text), None, "{text}"),
            Some(MarkKind::Entered) => assert_eq!(open.get(&id), Some(&text)),
            Some(MarkKind::End) => assert_eq!(open.remove(&id), Some(text)),
            _ => {}
        }
    }
}

#[test]
fn a_disabled_span_is_no_parent_and_a_repeated_step_is_one() {
    if common::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    let begun = |name: &str| {
        let mut found = recorded
            .marks(MarkKind::Begin)
            .filter(|(_, record)| recorded.text(record) == name);
        found.next().expect("a span").1.record
    };
    let (outer, inner) = (begun("outer"), begun("inner"));
    assert_eq!(outer.bytes, NO_SPAN);
    assert_eq!(inner.bytes, outer.aux);
    let events: Vec<u64> = recorded
        .marks(MarkKind::Event)
        .map(|(_, event)| event.record.aux)
        .collect();
    assert_eq!(events, [inner.aux]);
    let steps: Vec<u32> = recorded
        .marks(MarkKind::Range)
        .map(|(_, step)| step.record.sequence)
        .collect();
    assert_eq!(steps, [5, 6]);
}
