//! Processor time per class of threads, as the number of processors that the class kept busy.
//!
//! The names of threads give their classes. NCCL names its threads only with `NCCL_SET_THREAD_NAME=1`; otherwise they count
//! as others. The classes add up to the process: others are the rest, with threads that have ended.

use super::samples::{Interval, Samples};
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
    /// How often its name was read. A library names a thread after it has started it.
    looks: u8,
}

/// How often the name of a thread is read.
const MAX_LOOKS: u8 = 3;

/// Processor time until the last sample.
pub struct ProcessorTime {
    process_id: i32,
    process_ns: u64,
    /// Threads, sorted by their IDs.
    threads: Vec<Thread>,
    seen: Vec<Thread>,
    interval: Interval,
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
            interval: Interval::begin(),
        };
        time.read_threads(&mut [0; CLASSES.len()], u64::MAX);
        time
    }

    /// Samples the processor time since the last sample.
    pub fn sample(&mut self, samples: &Samples) {
        let Some(process_ns) = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) else {
            return;
        };
        let past = self.interval.end();
        let mut classes = [0; CLASSES.len()];
        self.read_threads(&mut classes, past.ns());
        let whole_ns = process_ns.saturating_sub(self.process_ns);
        self.process_ns = process_ns;
        let others_ns = whole_ns.saturating_sub(classes.iter().sum());
        let all = CLASSES.iter().map(|(name, _)| *name).zip(classes);
        for (name, used_ns) in all.chain([(OTHERS, others_ns)]) {
            samples.put_rate(&[name], used_ns as f64 * 1e-9, &past);
        }
    }

    /// Reads the processor time of the threads, and adds its growth to their classes. None can have used more than
    /// `elapsed_ns`. That limits threads which are seen for the first time, but not because they are new.
    fn read_threads(&mut self, classes: &mut [u64; CLASSES.len()], elapsed_ns: u64) {
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
            let (mut class, grown_ns, mut looks) = match before {
                Some(before) => (before.class, used_ns - before.used_ns, before.looks),
                None => (None, used_ns.min(elapsed_ns), 0),
            };
            if class.is_none() && looks < MAX_LOOKS {
                class = self.class(id);
                looks += 1;
            }
            if let Some(sum) = class.and_then(|class| classes.get_mut(class)) {
                *sum += grown_ns;
            }
            self.seen.push(Thread {
                id,
                class,
                used_ns,
                looks,
            });
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
                time.read_threads(&mut [0; CLASSES.len()], 1);
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
        const OWN_NS: u64 = 30_000_000;
        static ENDS: AtomicBool = AtomicBool::new(false);
        let mut time = ProcessorTime::new();
        let (report, reported) = std::sync::mpsc::channel();
        let busy = std::thread::Builder::new()
            .name("pt_autograd_7".to_owned())
            .spawn(move || {
                while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < Some(OWN_NS) {
                    std::hint::spin_loop();
                }
                let _ = report.send(());
                while !ENDS.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
            .expect("a thread");
        reported.recv().expect("a report");
        let mut classes = [0; CLASSES.len()];
        time.read_threads(&mut classes, u64::MAX);
        assert!((OWN_NS..2 * OWN_NS).contains(&classes[1]), "{classes:?}");
        // A thread that is seen late has not used all of its time since the last sample.
        let mut late = ProcessorTime::new();
        late.threads.clear();
        let mut classes = [0; CLASSES.len()];
        late.read_threads(&mut classes, 1_000_000);
        assert_eq!(classes[1], 1_000_000);
        ENDS.store(true, Ordering::Relaxed);
        busy.join().expect("no panic");
    }

    #[test]
    fn a_thread_that_is_named_later_gets_its_class() {
        let (name_it, named) = std::sync::mpsc::channel::<()>();
        let (report, reported) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = report.send(());
            let _ = named.recv();
            // SAFETY: PR_SET_NAME reads a NUL-terminated static string.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"NCCL Progress 0".as_ptr()) };
            let _ = report.send(());
            let _ = named.recv();
        });
        reported.recv().expect("a report");
        let mut time = ProcessorTime::new();
        let communication =
            |time: &ProcessorTime| time.threads.iter().filter(|one| one.class == Some(2)).count();
        assert_eq!(communication(&time), 0);
        name_it.send(()).expect("it waits");
        reported.recv().expect("a report");
        time.read_threads(&mut [0; CLASSES.len()], 1);
        assert_eq!(communication(&time), 1);
        drop(name_it);
        thread.join().expect("no panic");
    }
}
