//! Tests the axis of several hosts against the truth, with real jobs.
//!
//! Ranks run on several hosts: network namespaces, joined by a router with a different delay for each direction. The
//! released library records them. Then each host gets a clock: offset, drift with wander, a sleep, steps of its wall
//! clock. Every timestamp passes through it, as if the recorder had read that clock. The original timestamps are the
//! truth, and only the judge sees them. docs/adr/0030-truth-in-tests.md explains why this is equivalent.

mod faults;
mod judge;
mod random;
mod recording;

use std::collections::BTreeSet;

use rankscope_analysis::{MergeOptions, merge};
use rankscope_formats::session::Session;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::RecordKind;
use rankscope_tests::disturbed::once_more;
use rankscope_tests::job::Job;
use rankscope_tests::python::Python;
use rankscope_tests::turn::Turn;
use rankscope_tests::{compile, turn};

use judge::{Judged, Truth, judge, percentile};
use random::Random;
use recording::{Recording, any_clocks, record, uneven_links};

/// Number of all-reduces in a step of `gloo_steps`. Tags of corresponding operations in consecutive steps differ by
/// this number.
const PER_STEP: u32 = 4;
const STEP_US: i64 = 20_000;
/// Two of this many steps are exchanged.
const WRONG_EVERY: u32 = 40;
/// Default lateness of a rank, in microseconds.
const LATE_US: i64 = 5_000;

/// Properties of a run.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    seconds: i64,
    /// Whether a rank on the last host is late in each step.
    straggles: bool,
    /// Its lateness, in microseconds.
    late_us: i64,
    /// Whether one rank's calls of 5 % of the instances are exchanged with the neighbouring step's.
    mismatches: bool,
    /// Whether a host sleeps for 3 s, near the middle of the run.
    sleeps: bool,
    /// Whether a wall clock steps by 2 s in the middle of the run.
    steps: bool,
}

impl Case {
    fn number(seed: u64, seconds: i64, late_us: i64) -> Case {
        Case {
            seed,
            seconds,
            late_us,
            straggles: seed.is_multiple_of(2),
            mismatches: !seed.is_multiple_of(2),
            sleeps: seed % 4 == 1,
            steps: seed.is_multiple_of(3),
        }
    }

    /// Returns the hosts of the ranks: two hosts of two ranks, three of one, or four of one.
    fn hosts(&self) -> &'static [usize] {
        match self.seed / 2 % 3 {
            0 => &[0, 0, 1, 1],
            1 => &[0, 1, 2],
            _ => &[0, 1, 2, 3],
        }
    }
}

/// Results of one run in addition to [`Judged`].
#[derive(Clone, Debug, Default)]
struct Found {
    judged: Judged,
    /// Number of mismatched instances, of those that were named, and of others that were named.
    mismatched: u64,
    named: u64,
    wrongly: u64,
    /// Number of pairs, and of unbounded pairs without a reason.
    pairs: u64,
    nameless: u64,
    /// Wait caused by the late rank, and Σ wait: each on several clocks ÷ on one clock.
    caused: Option<f64>,
    waited: Option<f64>,
    blames_the_late: Option<bool>,
}

fn merged(run: &std::path::Path) -> Session {
    merge(&MergeOptions::of_run(run), &mut |_| {}).expect("merged")
}

fn run(turn: &Turn, program: &std::path::Path, case: Case) -> Option<Found> {
    let mut random = Random::new(case.seed);
    let hosts = case.hosts();
    let host_count = 1 + hosts.iter().max().copied().unwrap_or(0);
    let late_rank = hosts.len() - 1;
    let links = uneven_links(host_count, &mut random);
    let late_us = if case.straggles { case.late_us } else { 0 };
    let steps = case.seconds * 1_000_000 / (STEP_US + late_us);
    let mut job = Job::program(program, hosts.len()).arg(steps.to_string());
    job = job.env("COMPUTE_US", STEP_US.to_string());
    if case.straggles {
        job = job.env("LATE", format!("{late_rank}:{}", case.late_us));
    }
    let recording = record(turn, case.seed, &links, hosts, job)?;

    let mut clocks = any_clocks(host_count, &mut random);
    let span = recording.span_ns;
    // The pause must be far from exchanged calls: nothing is known about calls during which a clock jumps. The distance
    // is in steps, because their duration on a busy machine is unknown.
    let between_wrong = steps as u32 / 2 / WRONG_EVERY * WRONG_EVERY + WRONG_EVERY / 2;
    let pause = case
        .sleeps
        .then(|| (recording.called_ns(between_wrong * PER_STEP), 3_000_000_000));
    let sleeper = random.between(0, host_count as i64) as usize;
    clocks[sleeper].sleep = pause;
    if case.steps {
        let stepper = random.between(0, host_count as i64) as usize;
        clocks[stepper].step = Some((span.0.midpoint(span.1), 2_000_000_000));
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let several = folder.path().join("several");
    // Instances with the same tag position in two neighbouring steps are exchanged.
    let wrong_step =
        |step: u32| case.mismatches && step > 10 && step % WRONG_EVERY < 2 && i64::from(step) < steps - 2;
    let is_wrong = |tag: u32| wrong_step(tag / PER_STEP);
    recording.under_clocks(&several, &clocks, pause, |rank, record| {
        let is_reduction =
            record.kind == RecordKind::Call as u8 && record.operation == Operation::AllReduce as u8;
        if rank == late_rank && is_reduction && is_wrong(record.tag) {
            let step = record.tag / PER_STEP;
            record.tag = (step ^ 1) * PER_STEP + record.tag % PER_STEP;
        }
    });
    let truth = Truth {
        clocks: &clocks,
        span_ns: (span.0, span.1 + pause.map_or(0, |(_, length)| length)),
        least_ns: least(&recording),
    };
    let mut found = Found {
        judged: judge(&several, &truth, |members| is_wrong(members[0].tag)),
        ..Found::default()
    };

    let session = merged(&several);
    let evidence = session.axis.evidence.as_ref().expect("several hosts");
    found.pairs = evidence.pairs_total;
    found.nameless = evidence
        .pairs
        .iter()
        .filter(|pair| pair.error_ns.value.is_none() && pair.error_ns.reason.is_none())
        .count() as u64;
    let expected: BTreeSet<u32> = (0..steps as u32 * PER_STEP)
        .filter(|&tag| is_wrong(tag))
        .collect();
    found.mismatched = expected.len() as u64;
    let named: BTreeSet<u32> = session
        .matching
        .listed
        .iter()
        .filter(|listed| listed.kind == "mismatched")
        .map(|listed| listed.tag)
        .collect();
    assert_eq!(named.len() as u64, session.matching.mismatched, "all are listed");
    found.named = named.intersection(&expected).count() as u64;
    found.wrongly = named.difference(&expected).count() as u64;

    if case.straggles && pause.is_none() {
        let one = folder.path().join("one");
        recording.under_one_clock(&one);
        let alone = merged(&one);
        let caused = |session: &Session| {
            let of_late = session
                .blame
                .ranks
                .iter()
                .find(|of| of.rank as usize == late_rank);
            of_late.map_or(0, |of| of.caused_rank_ns) as f64
        };
        let waited = |session: &Session| session.totals.exposed_wait_rank_ns as f64;
        let most = |session: &Session| {
            let worst = session.blame.ranks.iter().max_by_key(|of| of.caused_rank_ns);
            worst.map(|of| of.rank as usize)
        };
        assert_eq!(
            most(&alone),
            Some(late_rank),
            "by one clock the late rank is the late one"
        );
        found.caused = Some(caused(&session) / caused(&alone));
        found.waited = Some(waited(&session) / waited(&alone));
        found.blames_the_late = Some(most(&session) == most(&alone));
    }
    Some(found)
}

fn least(recording: &Recording) -> Vec<Vec<i64>> {
    let least = |link: &rankscope_tests::network::Link| link.least_delay.as_nanos() as i64;
    let of_sender = |links: &Vec<_>| links.iter().map(least).collect();
    recording.links.iter().map(of_sender).collect()
}

/// Runs all cases, and prints each of them and the table of the bars. Returns `None` if this machine has no namespaces.
fn table(seeds: impl IntoIterator<Item = u64>, seconds: i64, late_us: i64) -> Option<Vec<Found>> {
    let program = compile::gloo("gloo_steps.cc")?;
    let turn = turn::take();
    let mut all = Vec::new();
    for seed in seeds {
        let case = Case::number(seed, seconds, late_us);
        let found = run(&turn, &program, case)?;
        let judged = &found.judged;
        println!(
            "{seed:3}: {} ranks{}{}{}{}: inside {} of {}, width {:.0} µs (none {:.0}, first {:.0}, last {:.0}, both {:.0}), ÷ exact {:.3}, ÷ cycle {:.2}, ÷ links {:.2}, assumed off by \
             {:.0} µs, messages {} of {}, named {} of {} and {} others, caused {:.4?} waited {:.4?}",
            case.hosts().len(),
            if case.straggles { ", one late" } else { "" },
            if case.mismatches { ", mismatches" } else { "" },
            if case.sleeps { ", a sleep" } else { "" },
            if case.steps { ", a step" } else { "" },
            judged.inside,
            judged.stretches,
            percentile(&judged.widths, 50) / 1e3,
            percentile(&judged.by_choice[0], 50) / 1e3,
            percentile(&judged.by_choice[1], 50) / 1e3,
            percentile(&judged.by_choice[2], 50) / 1e3,
            percentile(&judged.by_choice[3], 50) / 1e3,
            percentile(&judged.to_exact, 95),
            percentile(&judged.to_cycle, 50),
            percentile(&judged.to_links, 50),
            percentile(
                &judged.assumed_off.iter().map(|off| off.abs()).collect::<Vec<_>>(),
                50
            ) / 1e3,
            judged.messages,
            judged.ends / 2,
            found.named,
            found.mismatched,
            found.wrongly,
            found.caused,
            found.waited,
        );
        all.push(found);
    }
    Some(all)
}

/// Asserts the bars. `most_to_cycle` is a limit for the length of the runs. In a run of a few seconds few messages
/// reach the minimum delay, and drift is hardly known. The bar itself is for runs of 20 s.
fn assert_bars(all: &[Found], most_to_cycle: f64) {
    let sum = |of: fn(&Found) -> u64| all.iter().map(of).sum::<u64>();
    let join = |of: fn(&Judged) -> &Vec<f64>| {
        all.iter()
            .flat_map(|found| of(&found.judged))
            .copied()
            .collect::<Vec<f64>>()
    };
    let (inside, stretches) = (
        sum(|found| found.judged.inside),
        sum(|found| found.judged.stretches),
    );
    let (unbounded, nameless) = (sum(|found| found.judged.unbounded), sum(|found| found.nameless));
    let (named, mismatched) = (sum(|found| found.named), sum(|found| found.mismatched));
    let to_exact = percentile(&join(|judged| &judged.to_exact), 95);
    let to_cycle = percentile(&join(|judged| &judged.to_cycle), 50);
    let off_percent = |ratios: Vec<f64>| {
        ratios
            .iter()
            .map(|ratio| (ratio - 1.0).abs() * 100.0)
            .fold(0.0, f64::max)
    };
    let caused = off_percent(all.iter().filter_map(|found| found.caused).collect());
    let waited = off_percent(all.iter().filter_map(|found| found.waited).collect());
    println!(
        "truth inside: {inside} of {stretches} (pair, stretch); unbounded {unbounded}, without a name {nameless}"
    );
    println!(
        "width ÷ exact programme: p95 {to_exact:.4} of {}",
        join(|judged| &judged.to_exact).len()
    );
    println!(
        "width ÷ shortest cycle of one-way minima: median {to_cycle:.3}, worst {:.3}; ÷ least delays of the links {:.3}",
        percentile(&join(|judged| &judged.to_cycle), 100),
        percentile(&join(|judged| &judged.to_links), 50),
    );
    println!(
        "mismatched instances named: {named} of {mismatched}, others {}",
        sum(|found| found.wrongly)
    );
    println!("wait of a late rank: off by at most {caused:.2} %, Σ wait {waited:.2} %");
    assert!(inside as f64 >= 0.999 * stretches as f64);
    assert!(unbounded as f64 <= 0.01 * stretches as f64 && nameless == 0);
    assert!(to_exact <= 1.1 && to_cycle <= most_to_cycle);
    assert!(named as f64 >= 0.99 * mismatched as f64 && sum(|found| found.wrongly) == 0);
    assert!(caused <= 5.0 && waited <= 5.0);
    assert!(all.iter().all(|found| found.blames_the_late != Some(false)));
}

#[test]
fn real_jobs_on_hosts_with_different_clocks() {
    // Every number of hosts with a late rank and with mismatches, and the sleep and the step of a clock, each alone and
    // both. The numbers left out repeat these: AXIS_FIRST=0 AXIS_RUNS=10 AXIS_SECONDS=4 of the benchmark has them.
    once_more(|_| {
        if let Some(all) = table([0, 1, 2, 3, 4, 5, 9], 4, LATE_US) {
            assert_bars(&all, 2.0);
        }
    });
}

/// Tests a real training under PyTorch: the blame of a host with a late rank is that of a single clock.
#[test]
fn a_training_on_two_hosts_blames_the_late_rank_as_on_one() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let mut random = Random::new(4242);
    let links = uneven_links(2, &mut random);
    let late_rank = 3;
    let job = Job::torch(&python, "ddp.py", 4)
        .env("STEPS", "120")
        .env("SLOW_RANK", late_rank.to_string())
        .env("SLOW_MS", "20");
    let Some(recording) = record(&turn, 4242, &links, &[0, 0, 1, 1], job) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    recording.under_one_clock(&one);
    let clocks = any_clocks(2, &mut random);
    recording.under_clocks(&two, &clocks, None, |_, _| {});
    let truth = Truth {
        clocks: &clocks,
        span_ns: recording.span_ns,
        least_ns: least(&recording),
    };
    let judged = judge(&two, &truth, |_| false);
    let [one, two] = [one, two].map(|run| merged(&run));
    let caused = |session: &Session| {
        let of_late = session.blame.ranks.iter().find(|of| of.rank == late_rank);
        of_late.map_or(0, |of| of.caused_exposed_rank_ns) as f64
    };
    println!(
        "inside {} of {}, width {:.0} µs, messages {} of {}, wait for the late rank ÷ that on one clock {:.4}",
        judged.inside,
        judged.stretches,
        percentile(&judged.widths, 50) / 1e3,
        judged.messages,
        judged.ends / 2,
        caused(&two) / caused(&one)
    );
    assert!(judged.stretches > 0 && judged.inside == judged.stretches && judged.unbounded == 0);
    assert!(
        judged.messages * 10 >= judged.ends / 2 * 7,
        "both ends decide alike"
    );
    assert!((caused(&two) / caused(&one) - 1.0).abs() <= 0.05);
    let late = |session: &Session| {
        let found = session
            .findings
            .iter()
            .filter(|finding| finding.kind == "late-rank");
        found.map(|finding| finding.ranks.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (late(&one), late(&two)),
        (vec![vec![late_rank]], vec![vec![late_rank]])
    );
}

/// Prints the table of the bars for longer runs: `tests/benchmarks/axis.sh`.
#[test]
#[ignore = "a benchmark, whose duration AXIS_RUNS and AXIS_SECONDS give"]
fn benchmark_of_longer_runs() {
    let number = |name: &str, otherwise: i64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |given| given.parse().expect("a number"))
    };
    let (runs, seconds) = (number("AXIS_RUNS", 40), number("AXIS_SECONDS", 20));
    let first = number("AXIS_FIRST", 100);
    let late_us = number("AXIS_LATE_US", LATE_US);
    if let Some(all) = table(first as u64..(first + runs) as u64, seconds, late_us) {
        assert_bars(&all, 1.2);
    }
}
