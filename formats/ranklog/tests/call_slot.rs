//! Every interleaving of a hook and a reader of a slot, as loom's memory model allows it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use rankscope_ranklog::call_slot::{self, Word};
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
                call_slot::clear(first);
            }
            call_slot::put(first, rest, commit_word, [value, value]);
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
        if let Some((commit_word, [one, other])) = call_slot::copy(&slot.0, &slot.1) {
            assert!(one == other && calls.contains(&[commit_word, one]));
        }
        writer.join().expect("the writer ends");
        let [commit_word, value] = calls[1];
        assert_eq!(
            call_slot::copy(&slot.0, &slot.1),
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
        if let Some((_, [one, other])) = call_slot::copy(&slot.0, &slot.1) {
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
