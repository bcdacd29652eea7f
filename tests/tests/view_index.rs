//! Tests the viewer's index over real Gloo: it agrees with the tables span by span, and its parts add up to the steps.

use std::collections::BTreeMap;
use std::path::Path;

use rankscope_analysis::index;
use rankscope_formats::index::{LaneKind, Span, ViewFile, part, view_path};
use rankscope_formats::session::{
    OperationRow, OperationState, Session, StepRow, Table, TableReader, rank_path,
};
use rankscope_tests::job::Job;
use rankscope_tests::{compile, results, turn};

fn rows<T: Table>(session: &Path, rank: u32) -> Vec<T> {
    let path = rank_path::<T>(session, rank);
    TableReader::<T>::read_all(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn open(session: &Path, rank: u32) -> ViewFile {
    ViewFile::open(&view_path(session, rank)).unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that every operation of the table is a span with the same start and end, and vice versa.
fn assert_operations(session: &Path, rank: u32, view: &ViewFile) {
    let mut spans: BTreeMap<(i64, Option<u64>), Vec<Span>> = BTreeMap::new();
    let mut count = 0;
    for (_, lane) in view.lanes_of(|kind| matches!(kind, LaneKind::Operations { .. })) {
        lane.spans_in(i64::MIN, i64::MAX, |span| {
            spans
                .entry((span.start_ns, span.instance))
                .or_default()
                .push(*span);
            count += 1;
            true
        });
    }
    let operations: Vec<OperationRow> = rows(session, rank);
    assert_eq!(count, operations.len(), "rank {rank}");
    for row in operations {
        let found = spans
            .get_mut(&(row.enter_ns, row.instance))
            .and_then(Vec::pop)
            .unwrap_or_else(|| panic!("rank {rank}: no span of {row:?}"));
        if row.state == OperationState::Completed {
            assert_eq!(Some(found.end_ns), row.leave_ns, "{row:?}");
            assert_eq!(found.arrival_ns(), row.issue_ns.unwrap_or(row.enter_ns));
            let waited = row
                .waited_until_ns
                .map_or(0, |until| (until - row.enter_ns).max(0));
            assert_eq!(found.wait_ns, waited, "{row:?}");
        }
        let name = view.name(found.name).unwrap_or_else(|| panic!("a name"));
        assert_eq!(name.text, row.operation.name());
        assert_eq!(name.bytes, row.bytes);
    }
}

/// Asserts that the parts of each step agree with the table of steps to the nanosecond. The table's waiting is a sum
/// over operations, the index has a union. They differ if two operations wait at once. Returns Σ of both.
fn assert_parts(session: &Path, rank: u32, view: &ViewFile) -> (i64, i64) {
    let (_, parts) = view
        .lanes_of(|kind| kind == LaneKind::Parts { device: false })
        .find(|(_, lane)| lane.info.layer == 0)
        .unwrap_or_else(|| panic!("rank {rank} has no parts"));
    let steps: Vec<StepRow> = rows(session, rank);
    assert!(steps.len() > 20, "rank {rank}: {} steps", steps.len());
    let (mut waited, mut reported) = (0, 0);
    for step in steps {
        let sums = parts.sums_in(step.start_ns, step.end_ns);
        let of = |class: u8| sums.0[usize::from(class)] as i64;
        let what = format!("rank {rank}, step {}: {sums:?} of {step:?}", step.step);
        assert_eq!(of(part::OWN) + of(part::OVERLAPPED), step.host_ns, "{what}");
        let exposed = of(part::EXPOSED_TRANSFER) + of(part::EXPOSED_WAIT);
        assert_eq!(exposed, step.exposed_communication_ns, "{what}");
        assert_eq!(of(part::OTHER_BLOCKED), step.other_blocked_ns, "{what}");
        assert_eq!(exposed + of(part::OVERLAPPED), step.communication_ns, "{what}");
        assert_eq!(sums.total_ns() as i64, step.end_ns - step.start_ns, "{what}");
        waited += of(part::EXPOSED_WAIT);
        reported += step.exposed_wait_ns;
    }
    (waited, reported)
}

#[test]
fn the_index_of_a_training_is_its_tables() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    for (pattern, ranks) in [("ddp", 4), ("fsdp", 2), ("accumulate", 2), ("pipeline", 4)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut job = Job::program(&program, ranks);
        for argument in [pattern, "40", "20000", "persistent", "1", "200", "3"] {
            job = job.arg(argument);
        }
        job.record_into(directory.path()).run(&turn).expect_status(0);
        results::merge(directory.path());
        let session = directory.path().join("session");
        let (mut waited, mut reported) = (0, 0);
        for rank in 0..ranks as u32 {
            let view = open(&session, rank);
            assert_eq!(view.footer().problems, Vec::<String>::new());
            assert_operations(&session, rank, &view);
            let (of_rank, reported_of_rank) = assert_parts(&session, rank, &view);
            waited += of_rank;
            reported += reported_of_rank;
        }
        assert!(reported > 0, "{pattern}: one rank is late, and nobody waits");
        let off = (waited - reported).abs() as f64 / reported as f64;
        assert!(
            off < 0.02,
            "{pattern}: waiting of {waited} ns beside {reported} ns"
        );
    }
}

#[test]
fn a_missing_index_or_one_of_another_session_is_rebuilt() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_steps.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    Job::program(&program, 2)
        .record_into(directory.path())
        .run(&turn)
        .expect_status(0);
    results::merge(directory.path());
    let path = directory.path().join("session");
    let mut session = Session::read(&path).expect("a session");
    let before = std::fs::read(view_path(&path, 0)).expect("an index");
    std::fs::remove_file(view_path(&path, 0)).expect("removed");
    let bytes = std::fs::read(view_path(&path, 1)).expect("an index");
    std::fs::write(view_path(&path, 1), &bytes[..bytes.len() / 2]).expect("cut");
    let mut made = Vec::new();
    let mut ensure = |session: &Session| {
        made.clear();
        index::ensure(&path, session, 0..2, &mut |done, all| made.push((done, all))).expect("indexed");
        made.len()
    };
    assert_eq!(ensure(&session), 3, "none, one and two of two");
    assert_eq!(std::fs::read(view_path(&path, 0)).expect("an index"), before);
    assert_eq!(ensure(&session), 0, "all are there");
    session.written_unix_ns += 1;
    assert_eq!(ensure(&session), 3, "they were of another session");
}
