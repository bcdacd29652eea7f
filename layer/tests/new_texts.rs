//! Texts that several threads use for the first time at the same moment.

mod common;

use common::Recorded;
use rankscope_ranklog::mark::{FieldValue, MarkKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tracing::info_span;
use tracing_subscriber::prelude::*;

/// A small machine has two cores, and all threads must run at the same moment.
const THREADS: u64 = 2;
const ROUNDS: u64 = 600;

/// Returns the text that all threads use in a round.
fn text(round: u64) -> String {
    format!("{}{round}", "a value ".repeat(3))
}

#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    common::wait_for_recorder();
    let arrived = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let arrived = Arc::clone(&arrived);
            thread::spawn(move || {
                for round in 1..=ROUNDS {
                    let value = text(round);
                    arrived.fetch_add(1, Ordering::Relaxed);
                    while arrived.load(Ordering::Relaxed) < round * THREADS {
                        std::hint::spin_loop();
                    }
                    info_span!("work", value);
                }
            })
        })
        .collect();
    for one in threads {
        one.join().expect("no panic");
    }
}

#[test]
fn a_text_that_another_thread_is_storing_loses_no_record() {
    if common::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    assert_eq!(recorded.lost(), 0);
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, field) in recorded.marks(MarkKind::Field) {
        let value = FieldValue::from_bits(field.record.element_bytes, field.record.bytes);
        let Some(FieldValue::Text(number)) = value else {
            panic!("{value:?}");
        };
        *found.entry(&recorded.log.texts[&number]).or_default() += 1;
    }
    let expected: Vec<String> = (1..=ROUNDS).map(text).collect();
    let expected: BTreeMap<&str, u64> = expected.iter().map(|text| (text.as_str(), THREADS)).collect();
    assert_eq!(found, expected);
}
