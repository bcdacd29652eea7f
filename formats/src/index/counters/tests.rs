use super::super::{Footer, ViewFile, ViewWriter, view_path};
use super::*;
use proptest::prelude::*;

/// Writes a counter with these samples, which ends at `end_ns`.
fn written(samples: &[Sample], end_ns: i64) -> (tempfile::TempDir, ViewFile) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = view_path(folder.path(), 0);
    let mut writer = ViewWriter::create(&path).expect("create");
    // Samples of several counters alternate, and a counter without samples is not listed.
    let other = writer.counter("a", end_ns);
    let counter = writer.counter("loss", end_ns);
    writer.counter("never", end_ns);
    for sample in samples {
        writer.sample(counter, *sample).expect("a sample");
        writer.sample(other, *sample).expect("a sample");
    }
    writer.finish(Footer::default()).expect("finish");
    let view = ViewFile::open(&path).expect("open");
    (folder, view)
}

/// Range, sum of values times nanoseconds, and nanoseconds of the finite values in an interval, from all samples.
#[derive(Debug, PartialEq)]
struct Brute {
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    held_ns: u64,
}

fn brute(samples: &[Sample], end_ns: i64, from_ns: i64, to_ns: i64) -> Brute {
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut sum, mut held_ns) = (0.0, 0);
    let end_ns = samples.last().map_or(end_ns, |last| end_ns.max(last.at_ns));
    for (at, sample) in samples.iter().enumerate() {
        let until_ns = samples.get(at + 1).map_or(end_ns, |next| next.at_ns);
        let inside = until_ns.min(to_ns) - sample.at_ns.max(from_ns);
        let is_sampled = (from_ns..to_ns).contains(&sample.at_ns);
        if (inside > 0 || is_sampled) && sample.value.is_finite() {
            min = min.min(sample.value);
            max = max.max(sample.value);
            sum += sample.value * inside.max(0) as f64;
            held_ns += inside.max(0) as u64;
        }
    }
    Brute {
        min: (min <= max).then_some(min),
        max: (min <= max).then_some(max),
        mean: (held_ns > 0).then_some(sum / held_ns as f64),
        held_ns,
    }
}

fn assert_is_brute(spread: &Spread, brute: &Brute) {
    assert_eq!((spread.min(), spread.max()), (brute.min, brute.max));
    assert_eq!(spread.held_ns(), brute.held_ns);
    let scale = brute.max.unwrap_or(0.0).abs().max(brute.min.unwrap_or(0.0).abs());
    match (spread.mean(), brute.mean) {
        (Some(mean), Some(expected)) => assert!(
            (mean - expected).abs() <= 1e-12 * scale,
            "{mean} instead of {expected}"
        ),
        (mean, expected) => assert_eq!(mean, expected),
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -1e6f64..1e6,
        2 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
    ]
}

fn samples_of(parts: &[(i64, f64)]) -> Vec<Sample> {
    let mut at_ns = -500;
    let sample = |&(gap, value): &(i64, f64)| {
        at_ns += gap;
        Sample { at_ns, value }
    };
    parts.iter().map(sample).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At any place and length of an interval: range and mean are those of all samples. So are the held value and the
    /// number of samples.
    #[test]
    fn an_interval_has_the_range_and_the_mean_of_all_samples(
        parts in proptest::collection::vec((0i64..40, value()), 1..2500),
        after in -100i64..1000,
        intervals in proptest::collection::vec((-1000i64..60_000, 1i64..60_000), 1..40),
        short in proptest::collection::vec((-1000i64..60_000, 0i64..200), 1..40),
    ) {
        let samples = samples_of(&parts);
        let last_ns = samples[samples.len() - 1].at_ns;
        let (_folder, view) = written(&samples, last_ns + after);
        prop_assert_eq!(view.footer().counters.len(), 2);
        let counter = view.counter_named("loss").expect("a counter");
        prop_assert!(view.counter_named("never").is_none());
        prop_assert_eq!(counter.len(), samples.len());
        for (from_ns, length_ns) in intervals.into_iter().chain(short) {
            let to_ns = from_ns + length_ns;
            let expected = brute(&samples, last_ns + after, from_ns, to_ns);
            assert_is_brute(&counter.spread_in(from_ns, to_ns), &expected);
            let before = samples.iter().filter(|sample| sample.at_ns < from_ns).count();
            prop_assert_eq!(counter.samples_before(from_ns), before);
            let end_ns = counter.info.end_ns;
            let held = samples.iter().rev().find(|sample| sample.at_ns <= from_ns);
            let held = held.filter(|sample| from_ns < end_ns || from_ns == sample.at_ns);
            let found = counter.held_at(from_ns);
            prop_assert_eq!(found.map(|sample| sample.at_ns), held.map(|sample| sample.at_ns));
            prop_assert_eq!(
                found.map(|sample| sample.value.to_bits()),
                held.map(|sample| sample.value.to_bits())
            );
        }
        let whole = counter.spread_in(i64::MIN, i64::MAX);
        assert_is_brute(&whole, &brute(&samples, last_ns + after, -1000, i64::MAX));
    }

    /// Damage anywhere gives an error or other values, never a panic.
    #[test]
    fn damaged_counters_are_read_or_refused(
        parts in proptest::collection::vec((0i64..40, value()), 1..300),
        at in 0usize..1 << 20, byte in any::<u8>(),
    ) {
        let (folder, view) = written(&samples_of(&parts), 10_000);
        drop(view);
        let path = view_path(folder.path(), 0);
        let mut bytes = std::fs::read(&path).expect("read");
        let at = at % bytes.len();
        bytes[at] = byte;
        let Ok(view) = ViewFile::from_bytes(bytes) else { return Ok(()) };
        for position in 0..view.footer().counters.len() {
            let Some(counter) = view.counter(position) else { continue };
            for ns in [i64::MIN, -500, 0, 7_000, i64::MAX] {
                counter.held_at(ns);
                counter.spread_in(ns, ns.saturating_add(1000));
                counter.spread_in(i64::MIN, ns);
            }
        }
    }
}

/// A counter with a sample per microsecond.
fn long(samples: usize) -> (tempfile::TempDir, ViewFile) {
    let samples: Vec<Sample> = (0..samples as i64)
        .map(|number| Sample {
            at_ns: number * 1_000,
            value: (number.wrapping_mul(7919) % 2003) as f64,
        })
        .collect();
    written(&samples, samples.len() as i64 * 1_000)
}

/// Compares two times of one run, so that the speed of the machine does not matter.
#[test]
fn a_long_interval_does_not_read_its_samples() {
    let (_folder, view) = long(100_000);
    let counter = view.counter_named("loss").expect("a counter");
    let began = std::time::Instant::now();
    let sum: f64 = (0..counter.len())
        .filter_map(|number| counter.sample(number))
        .map(|sample| sample.value)
        .sum();
    let one_pass = began.elapsed();
    let began = std::time::Instant::now();
    const INTERVALS: i64 = 50;
    for number in 0..INTERVALS {
        let spread = counter.spread_in(number, 99_999_999 - number);
        assert_eq!(spread.max(), Some(2002.0));
    }
    let intervals = began.elapsed();
    assert!(
        sum > 0.0 && intervals < one_pass * INTERVALS as u32 / 5,
        "{intervals:?}, {one_pass:?}"
    );
}

/// Prints what a picture costs: `cargo test --release -p rankscope-formats --features index price -- --ignored --nocapture`.
#[test]
#[ignore = "a benchmark, which needs a machine of its own"]
fn the_price_of_a_picture() {
    const SAMPLES: usize = 1_000_000;
    const COLUMNS: i64 = 4_000;
    let (folder, view) = long(SAMPLES);
    let bytes = std::fs::metadata(view_path(folder.path(), 0))
        .expect("a file")
        .len();
    println!("{:.1} bytes per sample", bytes as f64 / (2 * SAMPLES) as f64);
    let counter = view.counter_named("loss").expect("a counter");
    for window_ns in [1_000_000_000i64, 100_000_000, 10_000_000, 1_000_000, 10_000] {
        let edge =
            |column: i64| 1_000 + (i128::from(window_ns) * i128::from(column) / i128::from(COLUMNS)) as i64;
        let began = std::time::Instant::now();
        let known = (0..COLUMNS).filter(|&column| {
            counter
                .spread_in(edge(column), edge(column + 1).max(edge(column) + 1))
                .min()
                .is_some()
        });
        let known = known.count();
        println!(
            "{COLUMNS} columns of {window_ns} ns: {:.2} ms",
            began.elapsed().as_secs_f64() * 1e3
        );
        assert_eq!(known, COLUMNS as usize);
    }
}

/// The tree has more than two levels.
#[test]
fn a_long_counter_has_the_same_values_as_all_its_samples() {
    let value = |number: i64| match number % 1000 {
        999 => f64::NAN,
        rest => (number.wrapping_mul(7919) % 2003) as f64 - rest as f64,
    };
    let samples: Vec<Sample> = (0..100_000)
        .map(|number| Sample {
            at_ns: number * 10 + number % 7,
            value: value(number),
        })
        .collect();
    let (_folder, view) = written(&samples, 1_000_100);
    let counter = view.counter_named("loss").expect("a counter");
    for (from_ns, to_ns) in [
        (0, 1_000_000),
        (1, 999_999),
        (-5, 2_000_000),
        (123_456, 876_543),
        (10_240, 10_241),
        (163_840, 327_680),
        (999_990, 1_000_200),
        (2_000_000, 3_000_000),
    ] {
        let expected = brute(&samples, 1_000_100, from_ns, to_ns);
        assert_is_brute(&counter.spread_in(from_ns, to_ns), &expected);
    }
}

/// Sums of such values times nanoseconds exceed a float.
#[test]
fn the_mean_of_large_values_is_one() {
    let samples = [(0, f64::MAX), (10, f64::MAX), (20, -f64::MAX), (40, 0.0)];
    let samples = samples.map(|(at_ns, value)| Sample { at_ns, value });
    let (_folder, view) = written(&samples, 40);
    let counter = view.counter_named("loss").expect("a counter");
    let whole = counter.spread_in(0, 100);
    assert_eq!((whole.min(), whole.max()), (Some(-f64::MAX), Some(f64::MAX)));
    assert!(whole.mean().is_some_and(|mean| mean.abs() < 1e300));
    // The last value holds for no time.
    let last = counter.spread_in(40, 41);
    assert_eq!((last.min(), last.mean(), last.held_ns()), (Some(0.0), None, 0));
    assert_eq!(counter.held_at(40).map(|sample| sample.value), Some(0.0));
    assert_eq!(counter.held_at(41), None);
}

/// A sample that is out of order is moved, so that times ascend.
#[test]
fn samples_out_of_order_are_moved() {
    let samples = [(10, 1.0), (5, 2.0), (20, 3.0)].map(|(at_ns, value)| Sample { at_ns, value });
    let (_folder, view) = written(&samples, 30);
    let counter = view.counter_named("loss").expect("a counter");
    let times: Vec<i64> = (0..3)
        .filter_map(|number| Some(counter.sample(number)?.at_ns))
        .collect();
    assert_eq!(times, [10, 10, 20]);
    assert_eq!(counter.held_at(15).map(|sample| sample.value), Some(2.0));
}
