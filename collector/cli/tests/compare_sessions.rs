//! Tests the step from sessions to summaries, for every kind of recording and for damaged ones: a summary agrees with
//! its session.

use rankscope_analysis::{MergeOptions, merge};
use rankscope_compare::metrics::{
    BUSBW, COMPUTE_ONLY, COPY_BYTES, COPY_TIME, EXPOSED_MEMORY, EXPOSED_TRANSFER, EXPOSED_WAIT, IDLE,
    KERNEL_TIME, OPERATIONS, OVERLAP, OVERLAPPED, STEP_TIME, STREAM_IDLE, TRANSFER_TIME,
};
use rankscope_compare::settings::Settings;
use rankscope_compare::summarise::{SummariseError, summarise};
use rankscope_compare::{Run, compare};
use rankscope_fixtures::logs::{Ddp, kernels};
use rankscope_formats::comparison::DifferenceEffect;
use rankscope_formats::comparison::GateVerdict;
use rankscope_formats::comparison::RunSummary;
use rankscope_formats::session::{OperationRow, Session, StepKind, StepRow, TableReader, rank_path};
use rankscope_import::{ImportOptions, ReadOptions};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn merged(run: &Path) -> Session {
    let options = MergeOptions {
        directories: vec![run.to_path_buf()],
        output: run.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    merge(&options, &mut |_| {}).expect("merge")
}

fn recorded(job: &Ddp) -> (TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    job.write(folder.path()).expect("write");
    let session = merged(folder.path());
    (folder, session)
}

fn summary(run: &Path) -> RunSummary {
    summarise(&run.join("session"), "run").expect("a summary").summary
}

fn mean(summary: &RunSummary, metric: &str) -> f64 {
    let measured = summary
        .measured(metric, None)
        .unwrap_or_else(|| panic!("{metric} is missing"));
    measured
        .value
        .value
        .unwrap_or_else(|| panic!("{metric}: {:?}", measured.value.reason))
        .all
        .mean
}

#[test]
fn means_are_those_of_the_steps_table_without_the_first_steps() {
    let job = Ddp {
        steps: 60,
        noise: 3,
        slow: Some((2, 300_000)),
        ..Ddp::default()
    };
    let (folder, session) = recorded(&job);
    let summary = summary(folder.path());
    assert_eq!((summary.kind.as_str(), summary.world.size), ("host", 4));
    let train = summary.steps.train;
    assert_eq!(summary.steps.warm_up, (train / 10).max(2));
    assert_eq!(summary.steps.counted, train - summary.steps.warm_up);
    let mut times = Vec::new();
    let mut waits = Vec::new();
    for rank in 0..4 {
        let mut rows: Vec<StepRow> =
            TableReader::read_all(&rank_path::<StepRow>(&folder.path().join("session"), rank))
                .expect("steps");
        rows.retain(|row| row.kind == StepKind::Train);
        rows.sort_by_key(|row| row.step);
        for row in &rows[summary.steps.warm_up as usize..] {
            times.push((row.end_ns - row.start_ns) as f64);
            waits.push(row.exposed_wait_ns.min(row.exposed_communication_ns) as f64);
        }
    }
    let expected = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean(&summary, STEP_TIME) - expected(&times)).abs() < 1e-3);
    assert!((mean(&summary, EXPOSED_WAIT) - expected(&waits)).abs() < 1e-3);
    let parts: f64 = summary
        .ranks
        .iter()
        .flat_map(|rank| &rank.parts_ns)
        .map(|&ns| ns as f64)
        .sum();
    assert!(
        (parts - times.iter().sum::<f64>()).abs() < 1e-3,
        "the parts are the steps"
    );
    assert!((mean(&summary, OPERATIONS) - f64::from(job.buckets)).abs() < 0.2);
    assert_eq!(summary.operations.len(), 1, "{:?}", summary.operations);
    let class = summary.operations[0].class.as_str();
    assert!(class.starts_with("all-reduce 1-2 MiB "), "{class}");
    let transfer = summary
        .measured(TRANSFER_TIME, Some(class))
        .and_then(|measured| measured.value.value);
    assert!(transfer.is_some_and(|value| value.all.mean > 0.0));
    // Bus bandwidth uses only launches with little waiting. With a slow rank there are none.
    assert!(summary.measured(BUSBW, Some(class)).is_none());
    assert!(
        session.surroundings.iter().all(|found| found.ranks == 4),
        "{:?}",
        session.surroundings
    );
}

#[test]
fn a_slower_transfer_and_a_halved_bucket_are_named_from_recordings() {
    let runs = |job: &Ddp, seeds: std::ops::Range<u32>| -> (Vec<TempDir>, Vec<Run>) {
        seeds
            .map(|noise| {
                let (folder, _) = recorded(&Ddp { noise, ..job.clone() });
                let run =
                    Run::of_session(summarise(&folder.path().join("session"), "run").expect("a summary"));
                (folder, run)
            })
            .unzip()
    };
    let job = Ddp {
        steps: 100,
        transfer_ns: 500_000,
        ..Ddp::default()
    };
    let (_keep, base) = runs(&job, 1..6);
    let (_also, slower) = runs(
        &Ddp {
            transfer_ns: 550_000,
            ..job.clone()
        },
        11..16,
    );
    let comparison = compare(&base, &slower, &[], &Settings::default()).expect("sides");
    assert_eq!(comparison.exit_status, 1, "{:#?}", comparison.gates);
    assert!(
        comparison.headline.contains("all-reduce 1-2 MiB") && comparison.headline.contains("transfers"),
        "{}",
        comparison.headline
    );
    assert!(
        comparison
            .gates
            .iter()
            .any(|gate| gate.metric == EXPOSED_TRANSFER && gate.verdict == GateVerdict::Fail)
    );
    let halved = Ddp {
        buckets: 6,
        bytes: 1 << 19,
        transfer_ns: 250_000,
        bucket_ns: 50_000,
        ..job.clone()
    };
    let (_third, halved) = runs(&halved, 21..26);
    let comparison = compare(&base, &halved, &[], &Settings::default()).expect("sides");
    assert_eq!(
        comparison.changes[0].kind, "operation-resized",
        "{:#?}",
        comparison.changes
    );
    assert!(
        comparison.changes[0]
            .text
            .contains("in 6 instead of 3 operations"),
        "{}",
        comparison.changes[0].text
    );
    assert_ne!(
        comparison.exit_status, 0,
        "what communicates otherwise does not pass unseen"
    );
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/hta")
        .join(name)
}

#[test]
fn a_recording_of_devices_has_their_parts_kernels_copies_and_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        kernels::write(folder.path(), rank, 2, 40).expect("written");
    }
    merged(folder.path());
    let summary = summary(folder.path());
    assert_eq!((summary.kind.as_str(), summary.parts.len()), ("device", 6));
    let parts = [
        COMPUTE_ONLY,
        OVERLAPPED,
        EXPOSED_WAIT,
        EXPOSED_TRANSFER,
        EXPOSED_MEMORY,
        IDLE,
    ];
    let sum: f64 = parts.iter().map(|part| mean(&summary, part)).sum();
    assert!((sum - mean(&summary, STEP_TIME)).abs() < 1.0, "{sum}");
    let of = |metric: &str| {
        summary
            .metrics
            .iter()
            .filter(|measured| measured.metric == metric)
            .collect::<Vec<_>>()
    };
    assert!(of(KERNEL_TIME).len() >= 60, "{}", of(KERNEL_TIME).len());
    let kernels: f64 = of(KERNEL_TIME)
        .iter()
        .filter_map(|measured| measured.value.value)
        .map(|value| value.all.mean)
        .sum();
    let computed = mean(&summary, COMPUTE_ONLY) + mean(&summary, OVERLAPPED);
    // Communication kernels have names, too.
    assert!(kernels >= 0.99 * computed, "{kernels} {computed}");
    assert!(mean(&summary, COPY_TIME) > 0.0 && mean(&summary, COPY_BYTES) > 0.0);
    assert!(!of(STREAM_IDLE).is_empty());
    assert!((0.0..=1.0).contains(&mean(&summary, OVERLAP)));
}

#[test]
fn an_imported_run_names_missing_figures_and_is_not_compared_with_a_host_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ImportOptions {
        files: vec![
            fixture("two_ranks_rank0.json.gz"),
            fixture("two_ranks_rank1.json.gz"),
        ],
        output: folder.path().to_path_buf(),
        read: ReadOptions::default(),
        one_host: false,
        threads: None,
    };
    rankscope_import::kineto(&options, &|_| {}).expect("import");
    merged(folder.path());
    let imported = summary(folder.path());
    assert_eq!(imported.kind, "kineto");
    let step = imported.measured(STEP_TIME, None).expect("a step time");
    let reason = step.value.reason.clone().expect("the trace has too few steps");
    assert!(reason.contains("steps"), "{reason}");
    let (host, _) = recorded(&Ddp {
        ranks: 2,
        ..Ddp::default()
    });
    let run = |summary: RunSummary| vec![Run::of_baseline(summary, 0)];
    let comparison = compare(
        &run(summary(host.path())),
        &run(imported),
        &[],
        &Settings::default(),
    )
    .expect("sides");
    assert_eq!(comparison.exit_status, 3);
    assert!(
        comparison
            .differences
            .iter()
            .any(|found| found.what == "kind" && found.effect == DifferenceEffect::Blocks)
    );
}

#[test]
fn damaged_tables_are_named_and_missing_ones_are_no_zeros() {
    let (folder, _) = recorded(&Ddp::default());
    let session = folder.path().join("session");
    let table = rank_path::<OperationRow>(&session, 1);
    let whole = fs::read(&table).expect("a table");
    for cut in [0, 3, whole.len() / 2, whole.len() - 1] {
        fs::write(&table, &whole[..cut]).expect("written");
        match summarise(&session, "run") {
            Err(SummariseError::Table(error)) => {
                assert!(error.to_string().contains("rank=1.parquet"), "{error}")
            }
            other => panic!("a table cut at {cut}: {other:?}"),
        }
    }
    fs::write(&table, &whole).expect("written");
    fs::remove_dir_all(session.join("steps")).expect("removed");
    let without = summarise(&session, "run").expect("a summary").summary;
    let step = without.measured(STEP_TIME, None).expect("a step time");
    assert!(
        step.value.value.is_none() && step.value.reason.is_some(),
        "{step:?}"
    );
    assert!(summarise(folder.path(), "run").is_err(), "not a session");
}

#[test]
fn a_run_keeps_its_identity_when_it_is_moved() {
    let (folder, _) = recorded(&Ddp {
        noise: 5,
        ..Ddp::default()
    });
    let first = summary(folder.path());
    let elsewhere = tempfile::tempdir().expect("a folder");
    let moved = elsewhere.path().join("moved");
    fs::rename(folder.path().join("session"), &moved).expect("moved");
    let again = summarise(&moved, "elsewhere").expect("a summary").summary;
    assert_eq!(first.run.id, again.run.id);
    let (other, _) = recorded(&Ddp {
        noise: 6,
        ..Ddp::default()
    });
    assert_ne!(first.run.id, summary(other.path()).run.id);
}
