//! Steps, counts and counters.

use crate::access::api;
use std::sync::atomic::{AtomicU32, Ordering};

/// Records that a step begins. The step before it ends. The number of the current step again has no effect.
///
/// ```
/// for number in 0..3 {
///     rankscope_layer::step(number);
/// }
/// ```
pub fn step(number: u64) {
    if let Some(api) = api() {
        (api.step)(number);
    }
}

/// Records how many `tokens` or `samples` this rank processes in the step. Counts of one step add up, and give the step time
/// per token or sample.
///
/// ```
/// rankscope_layer::step(0);
/// rankscope_layer::count("tokens", 4096);
/// ```
pub fn count(what: &str, number: u64) {
    if let Some(api) = api() {
        // SAFETY: the text has this length.
        unsafe { (api.count)(what.as_ptr().cast(), what.len(), number) };
    }
}

/// Records a sample of the counter with this name. [`Counter`] is faster where the same counter is sampled often.
///
/// ```
/// rankscope_layer::counter("loss", 0.25);
/// ```
pub fn counter(name: &str, value: f64) {
    if let Some(api) = api() {
        // SAFETY: the text has this length.
        let text = unsafe { (api.text)(name.as_ptr().cast(), name.len()) };
        (api.counter)(text, value);
    }
}

/// A counter: a value that the program samples, such as the loss or the length of a queue.
///
/// End the name with the unit: `queue_bytes`, `read_bytes_per_s`, `wait_ns`.
///
/// ```
/// use rankscope_layer::Counter;
///
/// static LOSS: Counter = Counter::new("loss");
/// LOSS.sample(0.25);
/// ```
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    /// Number of the name plus one; 0 while unknown.
    text: AtomicU32,
}

impl Counter {
    /// Returns a counter with this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            text: AtomicU32::new(0),
        }
    }

    /// Records a sample.
    #[inline]
    pub fn sample(&self, value: f64) {
        let Some(api) = api() else { return };
        let text = match self.text.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known.wrapping_sub(1),
        };
        (api.counter)(text, value);
    }

    #[cold]
    fn find(&self) -> u32 {
        let Some(api) = api() else { return u32::MAX };
        // SAFETY: the text has this length.
        let text = unsafe { (api.text)(self.name.as_ptr().cast(), self.name.len()) };
        self.text.store(text.wrapping_add(1), Ordering::Relaxed);
        text
    }
}
