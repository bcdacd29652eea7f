//! Tests a merge of several hosts against the truth.
//!
//! The logs of a job with known times pass through known clocks. The resulting session is compared with the session
//! that one host would have given.

use rankscope_analysis::{MergeOptions, merge, merge_as_of};
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog, call};
use rankscope_fixtures::reclock::{TestClock, reclock};
use rankscope_formats::session::{AxisEvidence, SUMMARY_FILE, Session};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::RecordKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Merges a run, as one of few ranks and as one of many. Both give the same summary.
fn merged(run: &Path) -> Session {
    let options = MergeOptions::of_run(run);
    let summary = |many_ranks: bool| {
        merge_as_of(many_ranks, &options).expect("merged");
        let text = fs::read_to_string(options.output.join(SUMMARY_FILE)).expect("a summary");
        let lines = text.lines().filter(|line| !line.contains("written_unix_ns"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(summary(true) == summary(false), "{} differs", run.display());
    merge(&options, &mut |_| {}).expect("merged")
}

/// No pause.
const NO_PAUSE: (i64, i64) = (i64::MAX, 0);

/// Moves rank r of `run` to host `host(r)`. In true time the job stopped at a moment for this long.
fn on_hosts(
    run: &Path,
    to: &Path,
    ranks: u32,
    clocks: &[TestClock],
    pause: (i64, i64),
    host: impl Fn(u32) -> usize,
    mut change: impl FnMut(u32, &mut rankscope_ranklog::record::Record),
) {
    fs::create_dir_all(to).expect("mkdir");
    for rank in 0..ranks {
        let name = format!("rank-{rank}.rslog");
        let host = host(rank);
        reclock(
            &run.join(&name),
            &to.join(&name),
            &format!("host-{host}"),
            &clocks[host],
            &|ticks| {
                let at = ticks as i64;
                if at < pause.0 { at } else { at + pause.1 }
            },
            &mut |record| change(rank, record),
        )
        .expect("rewritten");
    }
}

/// Returns the clock that the collector assumes before it reads messages: the time shown at a true time, by the median
/// of the host's wall clock over the logs' calibrations.
fn base(clock: &TestClock, calibrated: &[i64], origin_unix_ns: i64, true_ns: i64) -> i64 {
    let moments: BTreeSet<i64> = calibrated.iter().copied().collect();
    let mut walls: Vec<i64> = moments
        .iter()
        .map(|&at| clock.wall(at) - clock.shows(at))
        .collect();
    walls.sort_unstable();
    clock.shows(true_ns) + walls[walls.len() / 2] - origin_unix_ns
}

/// Returns the knots whose true offset is in the interval, all knots, and the farthest assumed offset from the truth.
fn judge(
    evidence: &AxisEvidence,
    clocks: &[TestClock],
    calibrated: &[Vec<i64>],
    origin: i64,
    span: (i64, i64),
) -> (u64, u64, i64) {
    let (mut inside, mut checked, mut farthest) = (0, 0, 0);
    let root = evidence.root_host as usize;
    let shown = |host: usize, true_ns: i64| base(&clocks[host], &calibrated[host], origin, true_ns);
    for pair in &evidence.pairs {
        for knot in pair.segments.iter().flat_map(|segment| &segment.knots) {
            // True time at which the root shows this.
            let (mut low, mut high) = (span.0 - 20_000_000_000, span.1 + 20_000_000_000);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if shown(root, middle) <= knot.at_ns {
                    low = middle
                } else {
                    high = middle
                }
            }
            if low < span.0 || low > span.1 {
                continue;
            }
            let truth = shown(pair.other as usize, low) - shown(pair.one as usize, low);
            checked += 1;
            inside += u64::from(
                knot.low_ns.is_none_or(|low| low <= truth) && knot.high_ns.is_none_or(|high| truth <= high),
            );
            farthest = farthest.max((knot.assumed_ns - truth).abs());
        }
    }
    (inside, checked, farthest)
}

/// Returns the times of a job's calibrations, as [`SyntheticLog`] makes them: at the start and after the last record.
fn calibrations(run: &Path) -> Vec<i64> {
    let log = rankscope_ranklog::reader::RankLog::open(run).expect("a log");
    log.calibrations.iter().map(|entry| entry.ticks as i64).collect()
}

fn slow_clocks() -> [TestClock; 3] {
    [
        TestClock {
            offset_ns: 103_000_000_000,
            drift_ppb: 40_000,
            swing_ppb: 900,
            swing_s: 400.0,
            ..TestClock::default()
        },
        TestClock {
            offset_ns: 96_000_000_000,
            drift_ppb: -90_000,
            swing_ppb: 900,
            swing_s: 300.0,
            wall_ns: 9_700_000_000,
            ..TestClock::default()
        },
        TestClock {
            offset_ns: 109_000_000_000,
            drift_ppb: 95_000,
            wall_ns: -5_000_000_000,
            ..TestClock::default()
        },
    ]
}

/// Clocks of many hosts, of which one sleeps for 3 s and one has a wall clock that is set.
fn many_clocks(hosts: usize) -> Vec<TestClock> {
    let clock = |host: usize| {
        let number = host as i64;
        TestClock {
            offset_ns: 100_000_000_000 + (number * 7919 % 101) * 90_000_000,
            drift_ppb: (number * 37 % 19 - 9) * 10_000,
            swing_ppb: 400,
            swing_s: 200.0 + 10.0 * host as f64,
            sleep: (host == 5).then_some((START as i64 + 9_000_000_000, 3_000_000_000)),
            step: (host == 7).then_some((START as i64 + 4_000_000_000, 2_000_000_000)),
            wall_ns: (number * 31 % 23 - 11) * 400_000_000,
        }
    };
    (0..hosts).map(clock).collect()
}

/// More hosts than have all of their pairs looked at. `merged` compares both ways to align their clocks.
#[test]
fn true_offsets_of_many_hosts_are_inside_the_stated_intervals() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    let job = Ddp {
        ranks: 48,
        steps: 600,
        ..straggling()
    };
    job.write(&one).expect("write");
    let clocks = many_clocks(24);
    let pause = (START as i64 + 9_000_000_000, 3_000_000_000);
    on_hosts(
        &one,
        &many,
        job.ranks,
        &clocks,
        pause,
        |rank| rank as usize / 2,
        |_, _| {},
    );
    let session = merged(&many);
    let evidence = session.axis.evidence.as_ref().expect("several hosts");
    assert_eq!((evidence.pairs_total, evidence.pairs_unbounded), (24 * 23 / 2, 0));
    let moved = |true_ns: i64| {
        let pause_ns = if true_ns < pause.0 { 0 } else { pause.1 };
        true_ns + pause_ns
    };
    // The session numbers hosts by the names of their logs.
    let numbers: Vec<usize> = session
        .hosts
        .iter()
        .map(|host| host.name.trim_start_matches("host-").parse().expect("a number"))
        .collect();
    let clocks: Vec<TestClock> = numbers.iter().map(|&host| clocks[host].clone()).collect();
    let calibrated: Vec<Vec<i64>> = numbers
        .iter()
        .map(|host| {
            let log = |rank: usize| calibrations(&one.join(format!("rank-{rank}.rslog")));
            let both = [log(2 * host), log(2 * host + 1)].into_iter().flatten();
            both.map(moved).collect()
        })
        .collect();
    let last = calibrated.iter().flatten().max().copied().unwrap_or(0);
    let (inside, checked, farthest) = judge(
        evidence,
        &clocks,
        &calibrated,
        session.axis.origin_unix_ns,
        (START as i64, last),
    );
    println!("{inside} of {checked} inside; farthest {farthest} ns");
    assert!(checked > 100);
    assert_eq!(inside, checked);
}

/// Returns a job of 20 s whose rank 3 is 4 ms late in each step.
fn straggling() -> Ddp {
    Ddp {
        ranks: 4,
        steps: 800,
        forward_ns: 20_000_000,
        bucket_ns: 1_000_000,
        transfer_ns: 400_000,
        slow: Some((3, 4_000_000)),
        noise: 7,
        ..Ddp::default()
    }
}

#[test]
fn a_straggler_on_another_host_is_blamed_as_on_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let job = straggling();
    job.write(&one).expect("write");
    let clocks = slow_clocks();
    on_hosts(
        &one,
        &two,
        job.ranks,
        &clocks,
        NO_PAUSE,
        |rank| rank as usize / 2,
        |_, _| {},
    );
    let truth = merged(&one);
    assert_eq!(
        truth.axis.evidence, None,
        "one host has nothing to say about clocks"
    );
    let session = merged(&two);
    assert_eq!((session.axis.method.name(), session.hosts.len()), ("messages", 2));
    let evidence = session.axis.evidence.as_ref().expect("two hosts");
    let calibrated: Vec<Vec<i64>> = (0..2)
        .map(|host| {
            (2 * host..2 * host + 2)
                .flat_map(|rank| calibrations(&one.join(format!("rank-{rank}.rslog"))))
                .collect()
        })
        .collect();
    let span = (START as i64, calibrated[0].iter().max().copied().unwrap_or(0));
    let (inside, checked, farthest) =
        judge(evidence, &clocks, &calibrated, session.axis.origin_unix_ns, span);
    println!(
        "truth inside {inside} of {checked}, assumed at most {farthest} ns off, error ± {:?}",
        session.axis.error_between_hosts_ns.value
    );
    assert!(checked > 5);
    assert_eq!(inside, checked);
    // In this model leaves coincide to a few ns, so the assumed offset is equally good.
    assert!(farthest < 20_000, "{farthest}");
    // Wall clocks were seconds apart, which put nearly everything into the wrong order. (A broadcast proves one
    // direction only.)
    println!(
        "violations {} and {} of {}",
        evidence.violations_before, evidence.violations_after, evidence.held_out_instances
    );
    assert!(
        evidence.held_out_instances > 900 && evidence.violations_before + 2 >= evidence.held_out_instances
    );
    assert_eq!((evidence.violations_after, evidence.mismatched_instances), (0, 0));
    let waited = |session: &Session| session.totals.exposed_wait_rank_ns as f64;
    println!("Σ wait {} of {}", waited(&session), waited(&truth));
    assert!((waited(&session) / waited(&truth) - 1.0).abs() < 0.05);
    assert_eq!(session.matching.complete, truth.matching.complete);
    assert_eq!(session.matching.causality_violations, 0);
    let blamed = |session: &Session| {
        session
            .blame
            .ranks
            .iter()
            .max_by_key(|rank| rank.caused_exposed_rank_ns)
            .map(|rank| rank.rank)
    };
    assert_eq!((blamed(&session), blamed(&truth)), (Some(3), Some(3)));
    // Enters and leaves alone leave an uncertainty that the error reports: about the lateness of the rank.
    assert!(
        session
            .axis
            .error_between_hosts_ns
            .value
            .is_some_and(|ns| ns > 400_000)
    );
    assert!(
        session
            .operations
            .iter()
            .map(|class| class.classes.inconclusive)
            .sum::<u64>()
            > 100
    );
}

#[test]
fn mismatched_instances_are_named_on_three_hosts_with_steps_of_a_wall_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, three) = (folder.path().join("one"), folder.path().join("three"));
    let job = Ddp {
        ranks: 3,
        slow: None,
        // An instance whose mismatch is smaller than the interval cannot be detected.
        bucket_ns: 3_000_000,
        ..straggling()
    };
    job.write(&one).expect("write");
    let mut clocks = slow_clocks();
    // No wall clock can be trusted: this one even jumps.
    clocks[1].step = Some((START as i64 + 5_000_000_000, 2_000_000_000));
    // On rank 2, every 40th collective exchanges its tag with the next one.
    let wrong = |tag: u32| tag > 10 && tag % 40 < 2 && tag < 2400;
    on_hosts(
        &one,
        &three,
        job.ranks,
        &clocks,
        NO_PAUSE,
        |rank| rank as usize,
        |rank, record| {
            if rank == 2
                && record.kind == RecordKind::Call as u8
                && record.operation == Operation::AllReduce as u8
                && wrong(record.tag)
            {
                record.tag ^= 1;
            }
        },
    );
    let session = merged(&three);
    let evidence = session.axis.evidence.as_ref().expect("three hosts");
    assert_eq!((evidence.pairs_total, evidence.pairs_unbounded), (3, 0));
    let expected: BTreeSet<u32> = (0..2400).filter(|&tag| wrong(tag)).collect();
    println!(
        "mismatched {} of {}",
        evidence.mismatched_instances,
        expected.len()
    );
    assert_eq!(evidence.mismatched_instances, expected.len() as u64);
    assert_eq!(session.matching.mismatched, expected.len() as u64);
    assert!(
        session
            .matching
            .listed
            .iter()
            .all(|listed| listed.kind == "mismatched" && expected.contains(&listed.tag))
    );
    assert_eq!(evidence.violations_after, 0);
    let calibrated: Vec<Vec<i64>> = (0..3)
        .map(|rank| calibrations(&one.join(format!("rank-{rank}.rslog"))))
        .collect();
    let span = (START as i64, calibrated[0].iter().max().copied().unwrap_or(0));
    let (inside, checked, farthest) =
        judge(evidence, &clocks, &calibrated, session.axis.origin_unix_ns, span);
    println!("truth inside {inside} of {checked}, assumed at most {farthest} ns off");
    assert_eq!(inside, checked);
}

#[test]
fn hosts_that_never_meet_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    for rank in 0..2u32 {
        let mut log = SyntheticLog::create(&one, rank, 2, "anywhere").expect("create");
        log.communicator(0, rank, 2, 1).expect("communicator");
        // Rank 0 sends the root's data: rank 1 never proves anything to it.
        for n in 0..100u64 {
            let at = START + n * 1_000_000;
            let mut broadcast = call(
                Operation::Broadcast,
                at + 1000 * u64::from(rank),
                at + 200_000,
                n as u32,
                1 << 16,
                0,
            );
            broadcast.peer = 0;
            log.push(0, broadcast);
        }
        log.end().expect("end");
    }
    on_hosts(
        &one,
        &two,
        2,
        &slow_clocks(),
        NO_PAUSE,
        |rank| rank as usize,
        |_, _| {},
    );
    let session = merged(&two);
    let evidence = session.axis.evidence.as_ref().expect("two hosts");
    assert_eq!((evidence.pairs_total, evidence.pairs_unbounded), (1, 1));
    let pair = &evidence.pairs[0];
    assert!(pair.sightings > 20 && pair.error_ns.value.is_none());
    let reason = pair.error_ns.reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("host 0 (host-0) never waited for host 1 (host-1)"),
        "{reason}"
    );
    assert!(session.axis.error_between_hosts_ns.value.is_none());
    assert_eq!(
        session.operations[0].classes.inconclusive, 100,
        "nothing can be said about who waited"
    );
}

#[test]
fn a_host_that_slept_wakes_later_on_the_axis() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, three) = (folder.path().join("one"), folder.path().join("three"));
    let job = Ddp {
        ranks: 3,
        slow: None,
        ..straggling()
    };
    job.write(&one).expect("write");
    let mut clocks = slow_clocks();
    // Host 0 would be the axis. It sleeps for 3 s, and all others wait for it.
    let pause = (START as i64 + 9_000_000_000, 3_000_000_000);
    clocks[0].sleep = Some(pause);
    on_hosts(
        &one,
        &three,
        job.ranks,
        &clocks,
        pause,
        |rank| rank as usize,
        |_, _| {},
    );
    let session = merged(&three);
    let evidence = session.axis.evidence.as_ref().expect("three hosts");
    assert_ne!(evidence.root_host, 0, "who lost time is no axis");
    assert_eq!(evidence.pairs_unbounded, 0);
    // Only calls in flight during the sleep may appear wrong.
    assert!(evidence.violations_after <= 2, "{}", evidence.violations_after);
    let of_sleeper = evidence.pairs.iter().filter(|pair| pair.one == 0);
    assert!(of_sleeper.clone().count() == 2 && of_sleeper.clone().all(|pair| pair.segments.len() == 2));
    let calibrated: Vec<Vec<i64>> = (0..3)
        .map(|rank| {
            let moments = calibrations(&one.join(format!("rank-{rank}.rslog")));
            let later = |at: i64| if at < pause.0 { at } else { at + pause.1 };
            moments.into_iter().map(later).collect()
        })
        .collect();
    let span = (START as i64, calibrated[0].iter().max().copied().unwrap_or(0));
    let (inside, checked, farthest) =
        judge(evidence, &clocks, &calibrated, session.axis.origin_unix_ns, span);
    println!("truth inside {inside} of {checked}, assumed at most {farthest} ns off");
    assert!(checked > 20);
    // The moment of the jump may be found a few calls too early or too late.
    assert_eq!(inside, checked);
    // Only the calls around the jump are lost.
    assert!(
        evidence.mismatched_instances <= 4,
        "{}",
        evidence.mismatched_instances
    );
    let took = session.axis.end_ns - session.axis.start_ns;
    let awake = merged(&one).axis;
    assert!(
        (took - (awake.end_ns - awake.start_ns) - pause.1).abs() < 10_000_000,
        "{took}"
    );
}
