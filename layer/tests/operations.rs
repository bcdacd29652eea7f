//! Spans with the field `op` are operations of the program's communicator.

mod common;

use common::Recorded;
use rankscope_ranklog::Operation;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::mark::MarkKind;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    common::wait_for_recorder();
    // Before the communicator is known, these are plain spans.
    info_span!("early", op = "all-reduce", bytes = 1).in_scope(|| {});
    info!(rank = 1, world = 2, "started");
    for number in 0..3u64 {
        info_span!("reduce", op = "all-reduce", bytes = 4096 + number).in_scope(|| {});
    }
    info_span!("send", op = "send", bytes = 8, peer = 0).in_scope(|| {});
    info_span!("root", op = "broadcast", bytes = 16, peer = 1).in_scope(|| {});
    info_span!("compute", op = "matmul", bytes = 5).in_scope(|| {});
    let _ = catch_unwind(AssertUnwindSafe(|| {
        info_span!("fails", op = "barrier").in_scope(|| panic!("expected"));
    }));
    // Not entered, so it did not happen.
    drop(info_span!("never", op = "barrier"));
    // One operation, and two further entries of the same span.
    let again = info_span!("again", op = "all-gather", bytes = 32);
    for _ in 0..3 {
        again.in_scope(|| {});
    }
    drop(again);
    // Many that are open at once, on one thread: only the outermost is an operation.
    let open: Vec<_> = (0..5)
        .map(|_| info_span!("nested", op = "reduce", bytes = 64, peer = 0))
        .collect();
    let entered: Vec<_> = open.iter().map(|span| span.enter()).collect();
    drop(entered);
    drop(open);
    // Each span has its own operation, also if another thread enters it.
    let spans: Vec<_> = (0..8u64)
        .map(|number| info_span!("moved", op = "gather", bytes = number, peer = 0))
        .collect();
    std::thread::scope(|scope| {
        for span in spans {
            scope.spawn(move || span.in_scope(|| {}));
        }
    });
}

#[test]
fn operations_are_recorded_with_their_fields() {
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    let communicators: Vec<_> = recorded.log.communicators.values().collect();
    assert_eq!(communicators.len(), 1, "{communicators:?}");
    assert_eq!((communicators[0].rank, communicators[0].size), (1, 2));
    let calls: Vec<&Record> = recorded
        .records
        .iter()
        .map(|record| &record.record)
        .filter(|record| record.kind == RecordKind::Call as u8)
        .collect();
    let of = |operation: Operation| -> Vec<(u32, u64, i32, bool)> {
        let calls = calls.iter().filter(|call| call.operation == operation as u8);
        calls
            .map(|call| {
                assert!(call.enter_ticks <= call.leave_ticks);
                (
                    call.sequence,
                    call.bytes,
                    call.peer,
                    call.flags & FLAG_FAILED != 0,
                )
            })
            .collect()
    };
    assert_eq!(
        of(Operation::AllReduce),
        [(0, 4096, -1, false), (1, 4097, -1, false), (2, 4098, -1, false)]
    );
    assert_eq!(of(Operation::Broadcast), [(0, 16, 1, false)]);
    assert_eq!(of(Operation::Barrier), [(0, 0, -1, true)], "a panic is a failure");
    assert_eq!(of(Operation::AllGather), [(0, 32, -1, false)]);
    assert_eq!(of(Operation::Reduce), [(0, 64, 0, false)]);
    let mut moved: Vec<u64> = of(Operation::Gather).iter().map(|call| call.1).collect();
    moved.sort_unstable();
    assert_eq!(moved, Vec::from_iter(0..8));
    let posts = recorded.records.iter().map(|record| &record.record);
    let posts: Vec<(u64, i32)> = posts
        .filter(|record| record.kind == RecordKind::Post as u8)
        .map(|record| (record.bytes, record.peer))
        .collect();
    assert_eq!(posts, [(8, 0)]);
    assert_eq!(calls.len(), 3 + 1 + 1 + 1 + 1 + 8);
    // Two further entries, and four nested operations.
    let wrong = recorded
        .log
        .losses
        .iter()
        .filter(|loss| loss.cause == LossCause::WrongUse);
    assert_eq!(wrong.map(|loss| loss.count).sum::<u64>(), 2 + 4);
    // All of them are spans as well.
    let spans = recorded.marks(MarkKind::Begin).count();
    assert_eq!(spans, 1 + 3 + 1 + 1 + 1 + 1 + 1 + 1 + 5 + 8);
    let entered = recorded.marks(MarkKind::Entered).count();
    assert_eq!(entered, spans - 1 + 2);
}
