//! Tests the figures of counters in a window, from logs to the report: they are those of all samples in the table.

use proptest::prelude::*;
use rankscope_analysis::selection::{SelectionRequest, select};
use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::counters::{CounterSamples, write};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::{CounterFigures, CounterRow, Selection, Session, TableReader, rank_path};
use rankscope_report::selection_rows::{Which, table_of};
use rankscope_report::{TextLayout, selection_text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

const MS: u64 = 1_000_000;

/// A merged run with an index.
struct Run {
    _folder: tempfile::TempDir,
    path: PathBuf,
    session: Session,
}

fn samples(name: &str, samples: impl Iterator<Item = (u64, f64)>) -> CounterSamples {
    CounterSamples {
        name: name.to_owned(),
        samples: samples.collect(),
    }
}

/// Counters of a rank: one with many samples, one with gaps, one with a single sample, and one that is no number.
fn counters_of(rank: u32) -> Vec<CounterSamples> {
    let shift = u64::from(rank) * 3;
    let queue = (0..5000u64).map(move |at| (at * 7_000 + shift, ((at * 37 + shift) % 1009) as f64));
    let loss = (0..30u64).map(move |at| {
        let value = if at % 5 == 3 {
            f64::NAN
        } else {
            2.5 / (at + 1 + shift) as f64 - 0.1
        };
        (2 * MS + at * MS, value)
    });
    vec![
        samples("queue_bytes", queue),
        samples("loss", loss),
        samples("workers", [(5 * MS, 4.0)].into_iter()),
        samples("broken_ns", (0..4u64).map(|at| (at * MS, f64::INFINITY))),
    ]
}

fn run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = Ddp {
            ranks: 2,
            steps: 30,
            ..Ddp::default()
        };
        write(folder.path(), &job, counters_of).expect("logs");
        let session = merge(&MergeOptions::of_run(folder.path()), &mut |_| {}).expect("merged");
        let path = folder.path().join("session");
        index::ensure(&path, &session, 0..2, &mut |_, _| {}).expect("indexed");
        Run {
            path,
            session,
            _folder: folder,
        }
    })
}

fn selected(run: &Run, window: (i64, i64), ranks: Option<&BTreeSet<RankIndex>>) -> Selection {
    let request = SelectionRequest {
        window,
        ranks,
        cancelled: &AtomicBool::new(false),
    };
    let view = |rank: RankIndex| ViewFile::open(&view_path(&run.path, rank.0)).ok().map(Arc::new);
    select(&run.path, &run.session, &view, request).expect("a selection")
}

fn rows_of(path: &Path, rank: u32, name: &str) -> Vec<CounterRow> {
    let path = rank_path::<CounterRow>(path, rank);
    let mut rows = TableReader::<CounterRow>::read_all(&path).expect("rows");
    rows.retain(|row| row.name == name);
    rows.sort_by_key(|row| row.at_ns);
    rows
}

/// Returns the figures from a pass over all samples; `None` if no value holds in the window.
fn brute(rows: &[CounterRow], end_ns: i64, (from_ns, to_ns): (i64, i64)) -> Option<CounterFigures> {
    let end_ns = rows.last().map_or(end_ns, |last| last.at_ns.max(end_ns));
    let (mut min, mut max, mut sum, mut held_ns) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0);
    let (mut count, mut first, mut last) = (0, None, None);
    for (at, row) in rows.iter().enumerate() {
        let until_ns = rows.get(at + 1).map_or(end_ns, |next| next.at_ns);
        let inside_ns = (until_ns.min(to_ns) - row.at_ns.max(from_ns)).max(0);
        let is_sampled = (from_ns..to_ns).contains(&row.at_ns);
        if inside_ns == 0 && !is_sampled {
            continue;
        }
        count += u64::from(is_sampled);
        first = first.or(Some(row.value));
        last = Some(row.value);
        if row.value.is_finite() {
            min = min.min(row.value);
            max = max.max(row.value);
            sum += row.value * inside_ns as f64;
            held_ns += inside_ns;
        }
    }
    let finite = |value: f64| value.is_finite().then_some(value);
    Some(CounterFigures {
        samples: count,
        min: finite(min),
        mean: (held_ns > 0).then(|| sum / held_ns as f64),
        max: finite(max),
        first: first.and_then(finite),
        last: last?.is_finite().then_some(last?),
    })
}

fn check(window: (i64, i64)) {
    let run = run();
    let selection = selected(run, window, None);
    // Each rank has all of its counters, by name.
    let listed: Vec<(u32, &str)> = selection
        .counters
        .iter()
        .map(|counter| (counter.rank, counter.name.as_str()))
        .collect();
    let names = ["broken_ns", "loss", "queue_bytes", "workers"];
    let expected: Vec<(u32, &str)> = (0..2).flat_map(|rank| names.map(|name| (rank, name))).collect();
    assert_eq!(listed, expected);
    for counter in &selection.counters {
        let rows = rows_of(&run.path, counter.rank, &counter.name);
        assert!(!rows.is_empty());
        let end_ns = run.session.ranks[counter.rank as usize]
            .end_ns
            .value
            .expect("an end");
        let expected = brute(&rows, end_ns, window);
        let what = format!("{} of rank {} in {window:?}", counter.name, counter.rank);
        match (counter.figures.get(), expected) {
            (Ok(found), Some(expected)) => {
                assert_eq!(
                    CounterFigures { mean: None, ..*found },
                    CounterFigures {
                        mean: None,
                        ..expected
                    },
                    "{what}"
                );
                let (found, expected) = (found.mean, expected.mean);
                let is_same = match (found, expected) {
                    (Some(found), Some(expected)) => {
                        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
                    }
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                assert!(is_same, "{what}: {found:?} instead of {expected:?}");
            }
            (Err(reason), None) => assert_eq!(reason, "it has no value in the window", "{what}"),
            (found, expected) => panic!("{what}: {found:?} instead of {expected:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn figures_are_those_of_all_samples(from_ns in -5_000_000i64..60_000_000, length_ns in 1i64..70_000_000) {
        check((from_ns, from_ns + length_ns));
    }

    #[test]
    fn figures_of_short_windows_are_those_of_all_samples(from_ns in -1_000_000i64..40_000_000, length_ns in 1i64..20_000) {
        check((from_ns, from_ns + length_ns));
    }
}

#[test]
fn the_report_has_a_section_of_counters() {
    let run = run();
    let whole = (run.session.axis.start_ns, run.session.axis.end_ns);
    check(whole);
    let selection = selected(run, whole, Some(&BTreeSet::from([RankIndex(1)])));
    assert!(selection.counters.iter().all(|counter| counter.rank == 1));
    let table = table_of(&selection, &run.session, Which::Counters);
    assert_eq!(table.rows.len(), 4);
    let text = selection_text(&selection, &run.session, &TextLayout::plain(110));
    let section = text.split("\nCounters\n").nth(1).expect("a section");
    assert!(
        section.contains("queue_bytes") && section.contains("1.01 kB"),
        "{section}"
    );
    assert!(
        section.contains("no value in the window is a finite number"),
        "{section}"
    );
    let json = serde_json::to_value(&selection).expect("as JSON");
    let workers = &json["counters"][3];
    assert_eq!(workers["name"], "workers");
    assert_eq!(workers["figures"]["value"]["samples"], 1);
    assert_eq!(workers["figures"]["value"]["last"], 4.0);
    assert!(json["counters"][0]["figures"]["value"]["max"].is_null());
    let back: Selection = serde_json::from_value(json).expect("as it was written");
    assert_eq!(back.counters, selection.counters);
}

#[test]
fn a_rank_without_an_index_has_a_reason() {
    let run = run();
    let request = SelectionRequest {
        window: (0, 1000),
        ranks: None,
        cancelled: &AtomicBool::new(false),
    };
    let selection = select(&run.path, &run.session, &|_| None, request).expect("a selection");
    assert_eq!(selection.counters.len(), 8);
    for counter in &selection.counters {
        assert!(
            counter
                .figures
                .get()
                .is_err_and(|reason| reason.contains("index"))
        );
    }
}

#[test]
fn the_index_has_the_samples_of_the_table() {
    let run = run();
    for rank in 0..2 {
        let view = ViewFile::open(&view_path(&run.path, rank)).expect("an index");
        assert_eq!(view.footer().problems, Vec::<String>::new());
        for info in &view.footer().counters {
            let rows = rows_of(&run.path, rank, &info.name);
            let counter = view.counter_named(&info.name).expect("a counter");
            assert_eq!(counter.len(), rows.len());
            for (number, row) in rows.iter().enumerate() {
                let sample = counter.sample(number).expect("a sample");
                assert_eq!(
                    (sample.at_ns, sample.value.to_bits()),
                    (row.at_ns, row.value.to_bits())
                );
            }
        }
    }
}
