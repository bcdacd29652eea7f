//! Spans of many threads at once, spans before a kill, and the number of allocations per span.

mod common;

use common::Recorded;
use rankscope_ranklog::mark::MarkKind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tracing::info_span;
use tracing_subscriber::prelude::*;

const THREADS: u64 = 8;

/// Counts the allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees what the system's allocator needs.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(address, layout) }
    }
}

fn spans_per_thread() -> u64 {
    std::env::var("LAYER_TEST_SPANS").map_or(20_000, |text| text.parse().expect("a number"))
}

#[test]
fn many_threads() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..spans_per_thread() {
                    info_span!("work").in_scope(|| ());
                }
            })
        })
        .collect();
    for one in threads {
        one.join().expect("no panic");
    }
}

fn expect_recorded_or_counted(spans_per_thread: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let spans = spans_per_thread.to_string();
    common::run("many_threads", directory.path(), &[("LAYER_TEST_SPANS", &spans)]);
    let recorded = Recorded::read(directory.path());
    let all = THREADS * spans_per_thread;
    let of = |kind| recorded.marks(kind).count() as u64;
    let (begun, entered, ended) = (of(MarkKind::Begin), of(MarkKind::Entered), of(MarkKind::End));
    println!(
        "{all} spans: {entered} recorded, {} of {} records lost",
        recorded.lost(),
        3 * all
    );
    assert_eq!(begun + entered + ended + recorded.lost(), 3 * all);
    assert!(begun <= all && entered <= all && ended <= all);
}

#[test]
fn every_span_of_many_threads_is_recorded_or_counted() {
    if !common::is_child() {
        expect_recorded_or_counted(20_000);
    }
}

/// 10⁷ spans: `cargo test --release -p rankscope-layer --test threads ten_million -- --ignored --nocapture`.
#[test]
#[ignore = "a minute, and a gigabyte"]
fn every_one_of_ten_million_spans_is_recorded_or_counted() {
    if !common::is_child() {
        expect_recorded_or_counted(10_000_000 / THREADS);
    }
}

/// Leaves spans until it is killed. The file contains how many it has left.
#[test]
fn endless() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    let directory = std::env::var(common::CHILD).expect("a directory");
    let left = shared_count(&Path::new(&directory).join("left"));
    // On a busy machine the recorder may start late. What it counts meanwhile is in memory that ends with the process.
    for _ in 0..100 {
        // At most 0.1 s each.
        rankscope_recorder::life::wait_for_start();
    }
    loop {
        info_span!("work").in_scope(|| ());
        left.fetch_add(1, Ordering::Release);
    }
}

/// Maps a number in a file. It outlives the process.
fn shared_count(path: &Path) -> &'static AtomicU64 {
    use std::os::fd::AsRawFd;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("a file");
    file.set_len(4096).expect("space");
    // SAFETY: the mapping is fresh, has 4096 bytes of the file, and is never unmapped. Zeros are a valid number.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(address, libc::MAP_FAILED);
        &*address.cast::<AtomicU64>()
    }
}

fn expect_nothing_lost_by_a_kill(after: Duration) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = common::start("endless", directory.path(), &[]);
    let left = shared_count(&directory.path().join("left"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while left.load(Ordering::Acquire) == 0 {
        assert!(Instant::now() < deadline, "no span");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(after);
    child.kill().expect("a kill");
    let status = child.wait().expect("an end");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let recorded = Recorded::read(directory.path());
    let entered = recorded.marks(MarkKind::Entered).count() as u64;
    let left = left.load(Ordering::Acquire);
    // A lane without room counts what it drops. One more span may have been recorded than counted by the program.
    assert!(
        entered + recorded.lost() >= left && entered <= left + 1,
        "{entered} recorded, {} lost, {left} left",
        recorded.lost()
    );
}

#[test]
fn a_kill_loses_no_span() {
    if !common::is_child() {
        for turn in 0..10 {
            expect_nothing_lost_by_a_kill(Duration::from_micros(700 * turn));
        }
    }
}

/// 200 kills: `cargo test --release -p rankscope-layer --test threads two_hundred -- --ignored`.
#[test]
#[ignore = "half a minute"]
fn two_hundred_kills_lose_no_span() {
    if !common::is_child() {
        for turn in 0..200 {
            expect_nothing_lost_by_a_kill(Duration::from_micros(137 * turn));
        }
    }
}

#[test]
fn without_allocations() {
    if !common::is_child() {
        return;
    }
    tracing_subscriber::registry()
        .with(rankscope_layer::layer())
        .init();
    let once = || {
        let _span = info_span!("outer", number = 7, label = "one").entered();
        tracing::info!(value = 0.5, "inside");
        rankscope_layer::counter("loss", 0.5);
    };
    // The first spans of a thread take memory of `tracing`'s registry and a lane.
    for _ in 0..100 {
        once();
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..1000 {
        once();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

#[test]
fn a_span_allocates_nothing() {
    if !common::is_child() {
        let directory = tempfile::tempdir().expect("a directory");
        common::run("without_allocations", directory.path(), &[]);
    }
}
