//! What is computed of the window that was asked for last: on another thread, not before the mouse rests, and not a second
//! time for the last few windows. Whoever is superseded is told so.

use crate::model::Window;
use crate::panels::background::{Background, DIED, Polled};
use egui::Context;
use rankscope_collector::selection::SelectError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Windows whose results are kept: some MB each of a job of thousands of ranks.
const KEPT: usize = 4;
/// A window must have been asked for so long, seconds, before a slow computation begins.
const REST_S: f64 = 0.15;
/// What was incomplete is not computed anew more often than this, seconds.
const AGAIN_S: f64 = 0.5;

/// What is computed of windows.
pub struct Worker<T> {
    /// Asked for last, and since when, seconds of the window's clock.
    wanted: Option<(Window, f64)>,
    running: Option<Running<T>>,
    /// The one that was used last is the last one.
    kept: VecDeque<(Window, Arc<T>)>,
    failed: Option<(Window, String)>,
    /// How long the last one took that was not cancelled.
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
        // Without effect on what has ended.
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        Self {
            wanted: None,
            running: None,
            kept: VecDeque::new(),
            failed: None,
            took: Duration::ZERO,
            began_s: f64::NEG_INFINITY,
        }
    }
}

/// What is known of the window that was asked for.
pub enum Known<T> {
    /// It.
    Computed(Arc<T>),
    /// It comes; until then that of the window before, if there is one.
    Coming(Option<(Window, Arc<T>)>),
    /// Why it cannot be computed.
    Failed(String),
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// What is known of a window, to be asked in every frame. `compute` runs on another thread, and ends soon after it was
    /// cancelled; `is_stale` tells of a result that it would be better by now.
    pub fn ask(
        &mut self,
        ctx: &Context,
        window: Window,
        is_stale: impl Fn(&T) -> bool,
        compute: impl FnOnce(Window, &AtomicBool) -> Result<T, SelectError> + Send + 'static,
    ) -> Known<T> {
        let now_s = ctx.input(|input| input.time);
        self.arrive();
        if self.wanted.is_none_or(|(of, _)| of != window) {
            self.wanted = Some((window, now_s));
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
            let since_s = self.wanted.map_or(now_s, |(_, since_s)| since_s);
            // What takes a frame or two follows the mouse.
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
            (None, None) => Known::Coming(self.kept.back().cloned()),
        }
    }

    /// True if what is known of this window will not change by itself.
    pub fn is_ready(&self, window: Window) -> bool {
        let is_known = self.kept.iter().any(|(of, _)| *of == window);
        let has_failed = self.failed.as_ref().is_some_and(|(of, _)| *of == window);
        self.running.is_none() && (is_known || has_failed)
    }

    /// What was shown last: of the window that was asked for, or of one before.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.kept.back().map(|(_, known)| known)
    }

    /// Forgets why the last one failed, so that it is tried again.
    pub fn retry(&mut self) {
        self.failed = None;
    }

    /// What is kept of a window; it is then the one that was used last.
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
            // Only what was superseded is cancelled, and that is not waited for.
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

    /// A worker with a clock of its own, and what it began.
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

        /// A computation that takes as long as asked for, and says whether it was cancelled.
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
    fn while_it_is_dragged_only_the_newest_is_begun() {
        let mut bench = Bench::new();
        // Nothing is known of how long it takes: the first begins at once.
        assert_eq!(bench.wait(0.0, 1), 1);
        for (at_s, from_ns) in [(1.0, 2), (1.02, 3), (1.04, 4), (1.06, 5)] {
            let known = bench.ask(at_s, from_ns, Duration::ZERO);
            assert!(matches!(known, Known::Coming(Some((window, _))) if window.from_ns == 1));
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
    fn what_is_superseded_is_cancelled() {
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
    fn the_last_few_are_kept_and_no_more() {
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
    fn a_failure_is_told_and_tried_again_when_asked_to() {
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
