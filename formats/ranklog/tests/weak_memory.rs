//! Every interleaving of the parts of the recorder that share memory without a lock, as loom's memory model allows it:
//! a call in progress, a record in a chunk, and the ring of free chunks.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use rankscope_ranklog::word::Word;
use rankscope_ranklog::{free_ring, record_slot, sequence_lock};
use std::sync::atomic::Ordering;

/// Word of the model.
#[derive(Debug)]
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange_weak(current, new, success, failure)
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// The first word of a slot and two others. A record has seven others, which are alike.
type Slot = (Modelled, [Modelled; 2]);

fn slot() -> Arc<Slot> {
    let word = |_| Modelled(AtomicU64::new(0));
    Arc::new((word(0), std::array::from_fn(word)))
}

/// Makes calls one after another, each with this commit word and with this value of all other words.
fn call_in_turn(slot: &Arc<Slot>, calls: [[u64; 2]; 2]) -> thread::JoinHandle<()> {
    let slot = Arc::clone(slot);
    thread::spawn(move || {
        let (first, rest) = &*slot;
        for (at, [commit_word, value]) in calls.into_iter().enumerate() {
            if at > 0 {
                sequence_lock::clear(first);
            }
            sequence_lock::put(first, rest, commit_word, [value, value]);
        }
    })
}

#[test]
fn a_copy_is_one_call() {
    loom::model(|| {
        let slot = slot();
        // The generation is the only difference of the commit words.
        let calls = [[1 << 32 | 1, 10], [1 << 32 | 2, 20]];
        let writer = call_in_turn(&slot, calls);
        if let Some((commit_word, [one, other])) = sequence_lock::copy(&slot.0, &slot.1) {
            assert!(one == other && calls.contains(&[commit_word, one]));
        }
        writer.join().expect("the writer ends");
        let [commit_word, value] = calls[1];
        assert_eq!(
            sequence_lock::copy(&slot.0, &slot.1),
            Some((commit_word, [value, value]))
        );
    });
}

/// The model finds the fault that the generation prevents.
#[test]
#[should_panic(expected = "a mixture of two calls")]
fn with_equal_commit_words_a_copy_can_be_a_mixture() {
    loom::model(|| {
        let slot = slot();
        let writer = call_in_turn(&slot, [[1 << 32 | 1, 10], [1 << 32 | 1, 20]]);
        if let Some((_, [one, other])) = sequence_lock::copy(&slot.0, &slot.1) {
            assert!(one == other, "a mixture of two calls");
        }
        writer.join().expect("the writer ends");
    });
}

/// The model finds what the reader's second look prevents.
#[test]
#[should_panic(expected = "a mixture of two calls")]
fn without_a_second_look_a_copy_can_be_a_mixture() {
    loom::model(|| {
        let slot = slot();
        let writer = call_in_turn(&slot, [[1 << 32 | 1, 10], [1 << 32 | 2, 20]]);
        if slot.0.load(Ordering::Acquire) != 0 {
            let [one, other] = slot.1.each_ref().map(|word| word.load(Ordering::Relaxed));
            assert!(one == other, "a mixture of two calls");
        }
        writer.join().expect("the writer ends");
    });
}

#[test]
fn a_committed_record_is_whole() {
    loom::model(|| {
        let slot = slot();
        let writer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || record_slot::put(&slot.0, &slot.1, 1 << 32 | 7, [10, 20]))
        };
        let copy = record_slot::copy(&slot.0, &slot.1, 7);
        assert!(copy.is_none() || copy == Some((1 << 32 | 7, [10, 20])));
        assert_eq!(record_slot::copy(&slot.0, &slot.1, 6), None);
        writer.join().expect("the writer ends");
        assert_eq!(
            record_slot::copy(&slot.0, &slot.1, 7),
            Some((1 << 32 | 7, [10, 20]))
        );
    });
}

/// The model finds what the release of the commit word prevents.
#[test]
#[should_panic(expected = "half a record")]
fn without_a_release_half_a_record_can_be_copied() {
    loom::model(|| {
        let slot = slot();
        let writer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                for word in &slot.1 {
                    word.store(10, Ordering::Relaxed);
                }
                slot.0.store(7, Ordering::Relaxed);
            })
        };
        if let Some((_, body)) = record_slot::copy(&slot.0, &slot.1, 7) {
            assert_eq!(body, [10, 10], "half a record");
        }
        writer.join().expect("the writer ends");
    });
}

/// The ring of free chunks: head, tail, and two places.
struct Ring {
    head: Modelled,
    tail: Modelled,
    places: [AtomicU64; 2],
}

impl Ring {
    /// Makes a ring of two chunks, of which one is free.
    fn of_chunk(chunk: u64) -> Arc<Self> {
        let ring = Self {
            head: Modelled(AtomicU64::new(0)),
            tail: Modelled(AtomicU64::new(0)),
            places: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        ring.push(chunk);
        Arc::new(ring)
    }

    fn place(&self, position: u64) -> &AtomicU64 {
        &self.places[position as usize % self.places.len()]
    }

    fn push(&self, chunk: u64) {
        free_ring::push(&self.tail, |position| {
            self.place(position).store(chunk, Ordering::Relaxed);
        });
    }

    fn pop(&self) -> Option<u64> {
        free_ring::pop(&self.head, &self.tail, |position| {
            self.place(position).load(Ordering::Relaxed)
        })
    }
}

/// One chunk is free, another becomes free. One lane takes two chunks, if it finds them, and another lane takes one.
fn two_lanes_take_chunks(pop: impl Fn(&Ring) -> Option<u64> + Copy + Send + 'static) {
    let ring = Ring::of_chunk(1);
    let lanes = [2, 1].map(|chunks| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || (0..chunks).filter_map(|_| pop(&ring)).collect::<Vec<u64>>())
    });
    ring.push(2);
    let taken = lanes.map(|lane| lane.join().expect("the lane ends"));
    let mut taken: Vec<u64> = taken.into_iter().flatten().collect();
    taken.extend((0..2).filter_map(|_| ring.pop()));
    taken.sort_unstable();
    assert_eq!(taken, [1, 2], "each chunk has one owner");
}

#[test]
fn each_free_chunk_is_taken_once() {
    loom::model(|| two_lanes_take_chunks(Ring::pop));
}

/// The model finds what acquiring the head prevents.
#[test]
#[should_panic(expected = "each chunk has one owner")]
fn without_acquiring_the_head_a_chunk_is_taken_that_was_not_free() {
    loom::model(|| {
        two_lanes_take_chunks(|ring| {
            let head = ring.head.load(Ordering::Relaxed);
            if head == ring.tail.load(Ordering::Acquire) {
                return None;
            }
            let chunk = ring.place(head).load(Ordering::Relaxed);
            let exchanged =
                ring.head
                    .compare_exchange_weak(head, head + 1, Ordering::AcqRel, Ordering::Relaxed);
            exchanged.ok().map(|_| chunk)
        });
    });
}
