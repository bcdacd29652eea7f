//! Computes a result for the window that was requested last, on a background thread.
//!
//! A computation starts only when the mouse rests. The results of the last few windows are cached, and computations
//! that are out of date are cancelled.

use crate::model::Window;
use crate::panels::background::{Background, DIED, Polled};
use egui::Context;
use rankscope_analysis::selection::SelectError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Number of cached results. Each has some MB for a job of thousands of ranks.
const KEPT: usize = 4;
/// Minimum time since the request before a slow computation starts, in seconds.
const REST_S: f64 = 0.15;
/// Minimum time between two computations of an incomplete result, in seconds.
const AGAIN_S: f64 = 0.5;

/// Computes and caches the results of windows.
pub struct Worker<T> {
    /// Window of the last request, and the time of its first request, in seconds of the window's clock.
    requested: Option<(Window, f64)>,
    running: Option<Running<T>>,
    /// Cached results, the most recently used at the end.
    kept: VecDeque<(Window, Arc<T>)>,
    failed: Option<(Window, String)>,
    /// Duration of the last computation that was not cancelled.
    took: Duration,
    began_s: f64,
}

struct Running<T> {
    window: Window,
    cancelled: Arc<AtomicBool>,
    result: Background<(Result<T, SelectError>, Duration)>,
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // This has no effect on a computation that has ended.
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        Self {
            requested: None,
            running: None,
            kept: VecDeque::new(),
            failed: None,
            took: Duration::ZERO,
            began_s: f64::NEG_INFINITY,
        }
    }
}

/// State of the requested window.
pub enum Known<T> {
    /// The result.
    Computed(Arc<T>),
    /// The result is being computed. Until then, the latest result of another window, if there is one.
    Pending(Option<(Window, Arc<T>)>),
    /// The reason why it cannot be computed.
    Failed(String),
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// Requests the result of a window. Call it in every frame.
    ///
    /// `compute` runs on a background thread, and ends soon after it is cancelled. `is_stale` returns true if another
    /// computation would give a more complete result.
    pub fn ask(
        &mut self,
        ctx: &Context,
        window: Window,
        is_stale: impl Fn(&T) -> bool,
        compute: impl FnOnce(Window, &AtomicBool) -> Result<T, SelectError> + Send + 'static,
    ) -> Known<T> {
        let now_s = ctx.input(|input| input.time);
        self.arrive();
        if self.requested.is_none_or(|(of, _)| of != window) {
            self.requested = Some((window, now_s));
            self.failed = None;
        }
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.window != window)
        {
            self.running = None;
        }
        let known = self.take_out(window);
        let is_good = known.as_ref().is_some_and(|known| !is_stale(known));
        let rest_s = if known.is_some() {
            AGAIN_S + self.began_s - now_s
        } else {
            let since_s = self.requested.map_or(now_s, |(_, since_s)| since_s);
            // A computation of a frame or two follows the mouse immediately.
            (2.0 * self.took.as_secs_f64()).min(REST_S) + since_s - now_s
        };
        if !is_good && self.running.is_none() && self.failed.is_none() {
            if rest_s <= 0.0 {
                self.start(ctx, window, now_s, compute);
            } else {
                ctx.request_repaint_after(Duration::from_secs_f64(rest_s));
            }
        }
        match (known, &self.failed) {
            (Some(known), _) => Known::Computed(known),
            (None, Some((_, reason))) => Known::Failed(reason.clone()),
            (None, None) => Known::Pending(self.kept.back().cloned()),
        }
    }

    /// Returns true if the state of this window will not change by itself.
    pub fn is_ready(&self, window: Window) -> bool {
        let is_known = self.kept.iter().any(|(of, _)| *of == window);
        let has_failed = self.failed.as_ref().is_some_and(|(of, _)| *of == window);
        self.running.is_none() && (is_known || has_failed)
    }

    /// Returns the latest result, of the requested window or of an earlier one.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.kept.back().map(|(_, known)| known)
    }

    /// Forgets the last failure, so that it is retried.
    pub fn retry(&mut self) {
        self.failed = None;
    }

    /// Returns the cached result of a window, which becomes the most recently used.
    fn take_out(&mut self, window: Window) -> Option<Arc<T>> {
        let at = self.kept.iter().position(|(of, _)| *of == window)?;
        let entry = self.kept.remove(at)?;
        self.kept.push_back(entry.clone());
        Some(entry.1)
    }

    fn start(
        &mut self,
        ctx: &Context,
        window: Window,
        now_s: f64,
        compute: impl FnOnce(Window, &AtomicBool) -> Result<T, SelectError> + Send + 'static,
    ) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let of_thread = cancelled.clone();
        let result = Background::start(ctx, move || {
            let begin = Instant::now();
            let result = compute(window, &of_thread);
            (result, begin.elapsed())
        });
        self.began_s = now_s;
        self.running = Some(Running {
            window,
            cancelled,
            result,
        });
    }

    fn arrive(&mut self) {
        let Some(running) = &self.running else {
            return;
        };
        let window = running.window;
        let (result, took) = match running.result.poll() {
            Polled::Pending => return,
            Polled::Done(done) => done,
            Polled::Died => {
                self.failed = Some((window, DIED.to_owned()));
                self.running = None;
                return;
            }
        };
        self.running = None;
        self.took = took;
        match result {
            Ok(known) => {
                self.kept.retain(|(of, _)| *of != window);
                if self.kept.len() >= KEPT {
                    self.kept.pop_front();
                }
                self.kept.push_back((window, Arc::new(known)));
            }
            // Only computations that are out of date are cancelled, and nobody waits for their result.
            Err(SelectError::Cancelled) => {}
            Err(error) => self.failed = Some((window, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::RawInput;
    use std::sync::Mutex;
    use std::thread;

    /// A worker with a simulated clock, and a log of its computations.
    struct Bench {
        ctx: Context,
        worker: Worker<i64>,
        begun: Arc<Mutex<Vec<i64>>>,
        cancelled: Arc<Mutex<Vec<i64>>>,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                ctx: Context::default(),
                worker: Worker::default(),
                begun: Arc::default(),
                cancelled: Arc::default(),
            }
        }

        /// Requests a computation of the given duration that logs whether it was cancelled.
        fn ask(&mut self, at_s: f64, from_ns: i64, lasts: Duration) -> Known<i64> {
            let input = RawInput {
                time: Some(at_s),
                ..RawInput::default()
            };
            self.ctx.run_ui(input, |_| {}).drop_without_applying_deltas();
            let (begun, cancelled) = (self.begun.clone(), self.cancelled.clone());
            let window = Window::between(from_ns, from_ns + 1000);
            self.worker.ask(
                &self.ctx,
                window,
                |_| false,
                move |window, stop| {
                    begun.lock().expect("whole").push(window.from_ns);
                    let begin = Instant::now();
                    while begin.elapsed() < lasts {
                        if stop.load(Ordering::Relaxed) {
                            cancelled.lock().expect("whole").push(window.from_ns);
                            return Err(SelectError::Cancelled);
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok(window.from_ns)
                },
            )
        }

        fn wait(&mut self, at_s: f64, from_ns: i64) -> i64 {
            let begin = Instant::now();
            loop {
                if let Known::Computed(known) = self.ask(at_s, from_ns, Duration::from_millis(100)) {
                    return *known;
                }
                assert!(begin.elapsed() < Duration::from_secs(20), "not in time");
                thread::sleep(Duration::from_millis(1));
            }
        }

        fn begun(&self) -> Vec<i64> {
            self.begun.lock().expect("whole").clone()
        }
    }

    #[test]
    fn during_a_drag_only_the_newest_window_is_computed() {
        let mut bench = Bench::new();
        // The duration is unknown at first, so the first computation starts at once.
        assert_eq!(bench.wait(0.0, 1), 1);
        for (at_s, from_ns) in [(1.0, 2), (1.02, 3), (1.04, 4), (1.06, 5)] {
            let known = bench.ask(at_s, from_ns, Duration::ZERO);
            assert!(matches!(known, Known::Pending(Some((window, _))) if window.from_ns == 1));
        }
        bench.ask(1.1, 5, Duration::ZERO);
        assert_eq!(bench.begun(), [1], "the mouse does not rest");
        assert_eq!(bench.wait(1.3, 5), 5);
        assert_eq!(bench.begun(), [1, 5]);
        assert!(
            matches!(bench.ask(1.4, 1, Duration::ZERO), Known::Computed(_)),
            "it is kept"
        );
        assert_eq!(bench.begun(), [1, 5]);
    }

    #[test]
    fn outdated_computations_are_cancelled() {
        let mut bench = Bench::new();
        bench.ask(0.0, 1, Duration::from_secs(30));
        let begin = Instant::now();
        while bench.begun().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not begin");
            thread::sleep(Duration::from_millis(1));
        }
        bench.ask(1.0, 2, Duration::ZERO);
        assert_eq!(bench.wait(2.0, 2), 2);
        while bench.cancelled.lock().expect("whole").is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it goes on");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(*bench.cancelled.lock().expect("whole"), [1]);
    }

    #[test]
    fn the_last_results_are_cached() {
        let mut bench = Bench::new();
        for from_ns in 0..KEPT as i64 + 2 {
            bench.ask(from_ns as f64, from_ns, Duration::ZERO);
            // Longer than any rest.
            bench.wait(from_ns as f64 + 0.9, from_ns);
        }
        assert_eq!(bench.worker.kept.len(), KEPT);
        assert_eq!(bench.begun().len(), KEPT + 2);
        assert_eq!(bench.worker.latest().map(|known| **known), Some(KEPT as i64 + 1));
    }

    #[test]
    fn a_failure_is_reported_and_retried_on_request() {
        let mut worker = Worker::<i64>::default();
        let ctx = Context::default();
        let window = Window::between(0, 100);
        let begin = Instant::now();
        let ask = |worker: &mut Worker<i64>| {
            loop {
                let input = RawInput {
                    time: Some(begin.elapsed().as_secs_f64()),
                    ..RawInput::default()
                };
                ctx.run_ui(input, |_| {}).drop_without_applying_deltas();
                match worker.ask(&ctx, window, |_| false, |_, _| Err(SelectError::Worker)) {
                    Known::Failed(reason) => return reason,
                    _ => thread::sleep(Duration::from_millis(1)),
                }
                assert!(begin.elapsed() < Duration::from_secs(20), "not in time");
            }
        };
        assert!(ask(&mut worker).contains("please report this"));
        assert!(worker.is_ready(window));
        worker.retry();
        assert!(!worker.is_ready(window));
        ask(&mut worker);
    }
}
