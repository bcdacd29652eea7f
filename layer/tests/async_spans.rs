//! Spans of asynchronous tasks that move between threads, against a layer that writes down what `tracing` reports.

mod common;

use common::{Recorded, thread_id};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::mark::{FieldValue, MarkKind};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::span::{Attributes, Id};
use tracing::{Instrument, Subscriber, info, info_span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Layer, registry::LookupSpan};

const TASKS: u64 = 40;
const POLLS: u64 = 20;

/// Returns the number of a span in the recording of the first layer: without the upper bits of its generation.
fn number(id: &Id) -> u64 {
    id.into_u64() & ((1 << 56) - 1)
}

/// Writes a line for each report.
struct Truth(Arc<Mutex<String>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Truth {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context
            .span(id)
            .expect("a span")
            .parent()
            .map_or(0, |parent| number(&parent.id()));
        let name = attributes.metadata().name();
        self.line(&format!("new {} {parent} {name}", number(id)));
    }
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.line(&format!("enter {} {}", number(id), this_thread()));
    }
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        self.line(&format!("exit {} {}", number(id), this_thread()));
    }
    fn on_follows_from(&self, id: &Id, from: &Id, _: Context<'_, S>) {
        self.line(&format!("follows {} {}", number(id), number(from)));
    }
    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.line(&format!("close {}", number(&id)));
    }
}

thread_local! {
    /// Ticks before the recorder's layer was called.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// Reads the clock before the recorder's layer does. [`Truth`] reads it afterwards.
struct Before;

impl<S: Subscriber> Layer<S> for Before {
    fn on_enter(&self, _: &Id, _: Context<'_, S>) {
        BEFORE.set(ticks());
    }
    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        BEFORE.set(ticks());
    }
}

/// Returns the thread, and the ticks before and after the recorder's layer.
fn this_thread() -> String {
    format!("{} {} {}", thread_id(), BEFORE.get(), ticks())
}

impl Truth {
    fn line(&self, text: &str) {
        let _ = writeln!(self.0.lock().expect("no panic"), "{text}");
    }
}

async fn task(number: u64) {
    for poll in 0..POLLS {
        let inner = info_span!("inner", poll, label = if poll % 2 == 0 { "even" } else { "odd" });
        async {
            // Other tasks run meanwhile, and another thread may continue this one.
            tokio::task::yield_now().await;
            std::hint::black_box((0..200).sum::<u64>());
        }
        .instrument(inner)
        .await;
        if poll == number % POLLS {
            info!(number, "half way");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Runs the tasks in a child, which leaves one span open.
#[test]
fn child() {
    if !common::is_child() {
        return;
    }
    let lines = Arc::new(Mutex::new(String::new()));
    tracing_subscriber::registry()
        .with(Before)
        .with(rankscope_layer::layer())
        .with(Truth(Arc::clone(&lines)))
        .init();
    common::wait_for_recorder();
    let open = info_span!("never closed");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut running = Vec::new();
        let mut before: Option<tracing::Span> = None;
        for number in 0..TASKS {
            let outer = info_span!("task", number, done = tracing::field::Empty);
            if let Some(before) = &before {
                outer.follows_from(before);
            }
            before = Some(outer.clone());
            let work = async move {
                task(number).await;
                tracing::Span::current().record("done", true);
            };
            running.push(tokio::spawn(work.instrument(outer)));
        }
        for one in running {
            one.await.expect("no panic");
        }
    });
    drop(runtime);
    let directory = std::env::var(common::CHILD).expect("a directory");
    std::fs::write(format!("{directory}/truth"), &*lines.lock().expect("no panic")).expect("a file");
    std::mem::forget(open);
}

/// Time in which a thread was inside a span. Of enter and leave, the ticks just before and just after are known.
#[derive(Clone, Default)]
struct Entered {
    thread: u32,
    enter: [u64; 2],
    leave: [u64; 2],
}

/// What the truth says about one span. Numbers are used again, so that a span has its position in the list.
#[derive(Default)]
struct Known {
    name: String,
    parent: u64,
    entered: Vec<Entered>,
    follows: Option<u64>,
    is_closed: bool,
}

fn known(truth: &str) -> BTreeMap<u64, Vec<Known>> {
    let mut spans: BTreeMap<u64, Vec<Known>> = BTreeMap::new();
    for line in truth.lines() {
        let words: Vec<&str> = line
            .splitn(if line.starts_with("new") { 4 } else { 5 }, ' ')
            .collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let list = spans.entry(number(1)).or_default();
        match words[0] {
            "new" => list.push(Known {
                name: words[3].to_owned(),
                parent: number(2),
                ..Known::default()
            }),
            "enter" => list.last_mut().expect("a span").entered.push(Entered {
                thread: number(2) as u32,
                enter: [number(3), number(4)],
                leave: [0, 0],
            }),
            "exit" => {
                let entered = &mut list.last_mut().expect("a span").entered;
                let mut open = entered.iter_mut().rev().filter(|one| one.leave[0] == 0);
                let of_thread = open.find(|one| one.thread == number(2) as u32);
                of_thread.expect("it was entered").leave = [number(3), number(4)];
            }
            "follows" => list.last_mut().expect("a span").follows = Some(number(2)),
            _ => list.last_mut().expect("a span").is_closed = true,
        }
    }
    spans
}

#[test]
fn spans_of_tasks_are_those_that_tracing_reports() {
    if common::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    common::run("child", directory.path(), &[]);
    let recorded = Recorded::read(directory.path());
    assert_eq!(recorded.lost(), 0);
    let truth = std::fs::read_to_string(directory.path().join("truth")).expect("the truth");
    let known = known(&truth);

    // A log rounds ticks down.
    let quantum: u64 = recorded.log.properties["clock.quantum_ticks"]
        .parse()
        .expect("a number");

    // Per span number, in the order of time: what the log says.
    let mut found: BTreeMap<u64, Vec<Known>> = BTreeMap::new();
    for record in &recorded.records {
        let words = &record.record;
        let Some(kind) = MarkKind::from_u8(words.operation).filter(|_| words.kind == 10) else {
            continue;
        };
        let list = found.entry(words.aux).or_default();
        match kind {
            MarkKind::Begin => list.push(Known {
                name: recorded.text(record).to_owned(),
                parent: words.bytes,
                ..Known::default()
            }),
            MarkKind::Entered => {
                let thread = recorded.threads[record.thread as usize];
                let entered = Entered {
                    thread,
                    enter: [words.enter_ticks; 2],
                    leave: [words.leave_ticks; 2],
                };
                let begun = list.last().map(|known| known.name.as_str());
                assert_eq!(Some(recorded.text(record)), begun, "the text of its begin");
                list.last_mut().expect("begun before").entered.push(entered);
            }
            MarkKind::Follows => list.last_mut().expect("begun before").follows = Some(words.bytes),
            MarkKind::End => list.last_mut().expect("begun before").is_closed = true,
            _ => {}
        }
    }
    found.remove(&0);
    let mut threads = 0;
    assert_eq!(found.len(), known.len());
    for (number, expected) in &known {
        let seen = &found[number];
        assert_eq!(seen.len(), expected.len(), "span {number}");
        for (seen, expected) in seen.iter().zip(expected) {
            assert_eq!(
                (&seen.name, seen.parent),
                (&expected.name, expected.parent),
                "span {number}"
            );
            assert_eq!(
                (seen.follows, seen.is_closed),
                (expected.follows, expected.is_closed),
                "span {number}"
            );
            assert_eq!(seen.entered.len(), expected.entered.len(), "span {number}");
            let mut expected_entered = expected.entered.clone();
            expected_entered.sort_by_key(|one| one.leave[0]);
            for (seen, expected) in seen.entered.iter().zip(&expected_entered) {
                assert_eq!(seen.thread, expected.thread, "span {number}");
                for (seen, [before, after]) in
                    [(seen.enter[0], expected.enter), (seen.leave[0], expected.leave)]
                {
                    assert!(
                        before - quantum <= seen && seen <= after,
                        "span {number}: {seen} is not from {before} to {after}"
                    );
                }
            }
            let mut of: Vec<u32> = expected.entered.iter().map(|one| one.thread).collect();
            of.sort_unstable();
            of.dedup();
            threads = threads.max(of.len());
        }
    }
    assert!(threads >= 2, "no task moved to another thread");
    let open: Vec<&str> = known
        .values()
        .flatten()
        .filter(|one| !one.is_closed)
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(open, ["never closed"]);

    // Fields and events.
    let fields: Vec<(String, FieldValue)> = recorded
        .marks(MarkKind::Field)
        .map(|(_, record)| {
            let value = FieldValue::from_bits(record.record.element_bytes, record.record.bytes);
            (recorded.text(record).to_owned(), value.expect("a known type"))
        })
        .collect();
    let of = |name: &str| fields.iter().filter(|(key, _)| key == name).count() as u64;
    assert_eq!(
        [of("number"), of("poll"), of("label"), of("done")],
        [TASKS, TASKS * POLLS, TASKS * POLLS, TASKS]
    );
    let labels = fields.iter().filter_map(|(key, value)| match value {
        FieldValue::Text(text) if key == "label" => Some(recorded.log.texts[text].as_str()),
        _ => None,
    });
    assert_eq!(
        labels.filter(|&label| label == "odd").count() as u64,
        TASKS * POLLS / 2
    );
    assert_eq!(recorded.marks(MarkKind::Event).count() as u64, TASKS);
    assert!(
        recorded
            .marks(MarkKind::Event)
            .all(|(_, event)| recorded.text(event) == "half way")
    );
    assert_eq!(recorded.marks(MarkKind::EventField).count() as u64, TASKS);
}
