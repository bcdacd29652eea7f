//! The price of a span, against the floor of BENCHMARKS.md: two timestamps and one committed record of 64 bytes.
//!
//! `cargo test --release -p rankscope-layer --test price -- --ignored --nocapture`

mod common;

use common::Recorded;
use rankscope_layer::Counter;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::mark::MarkKind;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{Dispatch, dispatcher, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

const BLOCKS: usize = 101;
/// Few enough for the chunks of the live area, so that none is lost.
const PER_BLOCK: u32 = 20_000;
/// Size of the floor's memory: that of a live area.
const FLOOR_BYTES: usize = 8 << 20;
const WORDS: usize = 8;

/// Two timestamps and a record: what any recording costs at least. As `tests/programs/price.h` measures it.
struct Floor {
    records: &'static [[AtomicU64; WORDS]],
    next: usize,
}

impl Floor {
    fn new() -> Self {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        file.set_len(FLOOR_BYTES as u64).expect("space");
        // SAFETY: the mapping is fresh, has this size, and is never unmapped. Zeros are valid numbers.
        let records = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                FLOOR_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(address, libc::MAP_FAILED);
            std::slice::from_raw_parts(address.cast(), FLOOR_BYTES / size_of::<[AtomicU64; WORDS]>())
        };
        Self { records, next: 0 }
    }

    fn once(&mut self) {
        let enter = ticks();
        let leave = ticks();
        let record = &self.records[self.next];
        self.next = (self.next + 1) % self.records.len();
        for (word, value) in record[1..].iter().zip([enter, leave, 1, 2, 3, 4, 5]) {
            word.store(value, Ordering::Relaxed);
        }
        record[0].store(1, Ordering::Release);
    }
}

fn block(mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..PER_BLOCK {
        once();
    }
    start.elapsed().as_nanos() as f64 / f64::from(PER_BLOCK)
}

/// Medians over blocks that are measured in turns: nanoseconds of each, and (ours − base) / floor.
fn compare(what: &str, mut ours: impl FnMut(), mut base: impl FnMut()) {
    let mut floor = Floor::new();
    let mut all: Vec<[f64; 4]> = (0..BLOCKS)
        .map(|_| {
            // The recorder's thread empties the chunks meanwhile.
            thread::sleep(Duration::from_millis(30));
            let (ours, base, floor) = (block(&mut ours), block(&mut base), block(|| floor.once()));
            [ours, base, floor, (ours - base) / floor]
        })
        .collect();
    let mut median = |at: usize| {
        all.sort_by(|a, b| a[at].total_cmp(&b[at]));
        all[BLOCKS / 2][at]
    };
    let [ours, base, floor, ratio] = [median(0), median(1), median(2), median(3)];
    println!(
        "{what}: {ours:.0} ns, without the layer {base:.0} ns, floor {floor:.0} ns: price / floor {ratio:.2}"
    );
}

#[test]
fn measured() {
    if !common::is_child() {
        return;
    }
    let recorded = Dispatch::new(tracing_subscriber::registry().with(rankscope_layer::layer()));
    let alone = Dispatch::new(tracing_subscriber::registry());
    let span_of = |dispatch: &Dispatch| dispatcher::with_default(dispatch, || info_span!("work"));
    let (ours, base) = (span_of(&recorded), span_of(&alone));
    compare(
        "enter and exit",
        || drop(black_box(&ours).enter()),
        || drop(black_box(&base).enter()),
    );
    static COUNTER: Counter = Counter::new("loss");
    compare("sample of a counter", || COUNTER.sample(black_box(0.5)), || ());
}

#[test]
fn disabled() {
    if !common::is_child() {
        return;
    }
    let off = || rankscope_layer::layer().with_filter(LevelFilter::OFF);
    let recorded = Dispatch::new(tracing_subscriber::registry().with(off()));
    let alone = Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF));
    let in_dispatch = |dispatch: &Dispatch| {
        let dispatch = dispatch.clone();
        move || {
            dispatcher::with_default(&dispatch, || {
                for _ in 0..100 {
                    let _span = black_box(info_span!("work")).entered();
                }
            });
        }
    };
    compare("100 disabled spans", in_dispatch(&recorded), in_dispatch(&alone));
}

#[test]
#[ignore = "a measurement"]
fn the_price_of_a_span() {
    if common::is_child() {
        return;
    }
    for name in ["measured", "disabled"] {
        let directory = tempfile::tempdir().expect("a directory");
        let output = common::start(name, directory.path(), &[])
            .wait_with_output()
            .expect("an end");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        text.lines()
            .filter(|line| line.contains("floor"))
            .for_each(|line| println!("{line}"));
        if name == "measured" {
            let recorded = Recorded::read(directory.path());
            let entered = recorded.marks(MarkKind::Entered).count() as u64;
            println!("{entered} recorded, {} lost", recorded.lost());
        }
    }
}
