//! Processor time per class of threads, as the number of processors that the class kept busy.
//!
//! The names of threads give their classes. NCCL names its threads only with `NCCL_SET_THREAD_NAME=1`; otherwise they count
//! as others. The classes add up to the process: others are the rest, with threads that have ended.

use super::samples::Samples;
use std::fs;

/// Maximum number of threads that are read one by one. Further threads count as others.
const MAX_THREADS: usize = 1024;

/// Classes other than the rest, with the beginnings of their threads' names.
const CLASSES: [(&[u8], &[&str]); 4] = [
    (MAIN, &[]),
    (b"processors_autograd", &["pt_autograd"]),
    (
        b"processors_communication",
        &["pt_gloo", "pt_nccl", "pt_tcpstore", "NCCL", "gloo", "ucx"],
    ),
    (b"processors_rankscope", &["rankscope"]),
];
const MAIN: &[u8] = b"processors_main_thread";
const OTHERS: &[u8] = b"processors_other_threads";
/// Position of the main thread's class.
const MAIN_CLASS: usize = 0;

#[derive(Clone, Copy)]
struct Thread {
    id: i32,
    /// Position in [`CLASSES`]; `None` for the rest.
    class: Option<usize>,
    /// Processor time until the last sample, in nanoseconds.
    used_ns: u64,
}

/// Processor time until the last sample.
pub struct ProcessorTime {
    process_id: i32,
    process_ns: u64,
    /// Threads, sorted by their IDs.
    threads: Vec<Thread>,
    seen: Vec<Thread>,
    /// Classes that have used a processor. The others have no counter.
    active: [bool; CLASSES.len()],
}

impl ProcessorTime {
    /// Reads the processor time so far.
    pub fn new() -> Self {
        let mut time = Self {
            // SAFETY: getpid cannot fail.
            process_id: unsafe { libc::getpid() },
            process_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0),
            threads: Vec::new(),
            seen: Vec::new(),
            active: [false; CLASSES.len()],
        };
        time.read_threads(&mut [0; CLASSES.len()]);
        time
    }

    /// Samples the processor time since the last sample.
    pub fn sample(&mut self, samples: &Samples) {
        let mut classes = [0; CLASSES.len()];
        self.read_threads(&mut classes);
        let Some(process_ns) = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) else {
            return;
        };
        let whole_ns = process_ns.saturating_sub(self.process_ns);
        self.process_ns = process_ns;
        let others_ns = whole_ns.saturating_sub(classes.iter().sum());
        for (((name, _), used_ns), is_active) in CLASSES.iter().zip(classes).zip(&mut self.active) {
            *is_active |= used_ns > 0;
            if *is_active {
                samples.put_rate(&[name], used_ns as f64 * 1e-9);
            }
        }
        samples.put_rate(&[OTHERS], others_ns as f64 * 1e-9);
    }

    /// Reads the processor time of the threads, and adds its growth to their classes.
    fn read_threads(&mut self, classes: &mut [u64; CLASSES.len()]) {
        self.seen.clear();
        let Ok(entries) = fs::read_dir("/proc/self/task") else {
            return;
        };
        let ids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for id in ids.take(MAX_THREADS) {
            let Some(used_ns) = clock_ns(thread_clock(id)) else {
                continue;
            };
            let before = self
                .threads
                .binary_search_by_key(&id, |thread| thread.id)
                .ok()
                .and_then(|at| self.threads.get(at))
                // A new thread may have the ID of one that has ended.
                .filter(|before| before.used_ns <= used_ns);
            let (class, grown_ns) = match before {
                Some(before) => (before.class, used_ns - before.used_ns),
                None => (self.class(id), used_ns),
            };
            if let Some(sum) = class.and_then(|class| classes.get_mut(class)) {
                *sum += grown_ns;
            }
            self.seen.push(Thread { id, class, used_ns });
        }
        self.seen.sort_unstable_by_key(|thread| thread.id);
        std::mem::swap(&mut self.threads, &mut self.seen);
    }

    fn class(&self, id: i32) -> Option<usize> {
        if id == self.process_id {
            return Some(MAIN_CLASS);
        }
        let name = fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok()?;
        class_of(&name)
    }
}

fn class_of(name: &str) -> Option<usize> {
    CLASSES
        .iter()
        .position(|(_, beginnings)| beginnings.iter().any(|beginning| name.starts_with(beginning)))
}

/// Returns the clock of a thread's processor time: `MAKE_THREAD_CPUCLOCK(id, CPUCLOCK_SCHED)` of the kernel's
/// `include/linux/posix-timers_types.h`.
const fn thread_clock(id: i32) -> libc::clockid_t {
    const CPUCLOCK_PERTHREAD: i32 = 4;
    const CPUCLOCK_SCHED: i32 = 2;
    (!id << 3) | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a local. An unknown clock only makes the call fail.
    let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (outcome == 0).then(|| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn names_give_classes() {
        let name = |class: Option<usize>| class.map(|class| CLASSES[class].0);
        assert_eq!(name(class_of("pt_autograd_0\n")), Some(CLASSES[1].0));
        assert_eq!(name(class_of("pt_gloo_runloop\n")), Some(CLASSES[2].0));
        assert_eq!(name(class_of("NCCL Progress 0\n")), Some(CLASSES[2].0));
        assert_eq!(name(class_of("rankscope-keep\n")), Some(CLASSES[3].0));
        assert_eq!(name(class_of("python\n")), None);
    }

    /// Prints the price of a sample: `cargo test --release -p rankscope-recorder price -- --ignored --nocapture`.
    #[test]
    #[ignore = "a benchmark, which needs a machine of its own"]
    fn the_price_of_reading_the_threads() {
        for more in [8, 64, 512] {
            let (ends, waits) = std::sync::mpsc::channel::<()>();
            let waits = std::sync::Arc::new(std::sync::Mutex::new(waits));
            let threads: Vec<_> = (0..more)
                .map(|_| {
                    let waits = waits.clone();
                    std::thread::spawn(move || drop(waits.lock().map(|waits| waits.recv())))
                })
                .collect();
            let mut time = ProcessorTime::new();
            const ROUNDS: u32 = 200;
            let began = std::time::Instant::now();
            for _ in 0..ROUNDS {
                time.read_threads(&mut [0; CLASSES.len()]);
            }
            let all = time.threads.len();
            println!(
                "{all} threads: {:.1} us",
                began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
            );
            drop(ends);
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
        }
    }

    #[test]
    fn a_busy_thread_counts_for_its_class() {
        static ENDS: AtomicBool = AtomicBool::new(false);
        let mut time = ProcessorTime::new();
        let busy = std::thread::Builder::new()
            .name("pt_autograd_7".to_owned())
            .spawn(|| {
                while !ENDS.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            })
            .expect("a thread");
        let started = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
        while clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).expect("a clock") - started < 50_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut classes = [0; CLASSES.len()];
        time.read_threads(&mut classes);
        // Other tests of this process may run beside it, so the share of the class is not known.
        let first = classes[1];
        assert!(first > 1_000_000, "{classes:?}");
        ENDS.store(true, Ordering::Relaxed);
        busy.join().expect("no panic");
        let mut classes = [0; CLASSES.len()];
        time.read_threads(&mut classes);
        assert_eq!(classes[1], 0, "the thread has ended");
        assert!(classes[MAIN_CLASS] < first.max(1_000_000_000));
    }
}
