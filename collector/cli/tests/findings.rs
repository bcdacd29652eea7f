//! Tests of the findings: each rule has a run that triggers it and a near miss that must not.
//!
//! Logs are written record by record, so their faults are known. Runs of real programs are in
//! tests/tests/findings_torch.rs.

mod findings_support;

use findings_support::{is_silent, kinds, only};
use rankscope_analysis::findings::{RULES, contradiction, contradictory};
use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog, call, counters};
use rankscope_fixtures::sessions::Job;
use rankscope_formats::gpu_samples::{FORMAT, Gpu, Header, Sample, throttle};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{AVAILABLE_MEMORY, Finding, PRIVATE_MEMORY, Session, Severity};
use rankscope_formats::status::{
    Confidence, HangKind, HangVerdict, Health, ProcessState, RankStatus, STATUS_FORMAT, Status,
};
use rankscope_ranklog::Operation;
use rankscope_ranklog::activity::{Activity, Coverage, HostCall, Work};
use rankscope_ranklog::definition::{KIND_STREAM, KIND_TEXT, Payload, Stream};
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_report::{Places, TextLayout, summary_text};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

type Log = SyntheticLog<BufWriter<File>>;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn merged(run: &Path) -> Session {
    let options = MergeOptions {
        directories: vec![run.to_path_buf()],
        output: run.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    let session = merge(&options, &mut |_| {}).expect("merge");
    for finding in &session.findings {
        is_whole(finding);
    }
    session
}

/// Asserts the parts that every finding must have.
fn is_whole(finding: &Finding) {
    let kind = &finding.kind;
    assert!(RULES.iter().any(|rule| rule.id == kind), "{kind} is no rule");
    assert!(!finding.title.is_empty() && !finding.path.is_empty(), "{kind}");
    assert!(
        finding.subject.is_some() && finding.cause.is_some() && finding.advice.is_some(),
        "{kind}"
    );
    assert_eq!(
        finding.cost_ns.value.is_some(),
        finding.cost_basis.is_some(),
        "{kind}"
    );
    assert_eq!(
        finding.cost_ns.value.is_some(),
        !finding.lies_in.is_empty(),
        "{kind}"
    );
    assert!(finding.shared_ns <= finding.cost_ns.value.unwrap_or(0), "{kind}");
    assert!(finding.look_at.len() <= Finding::MAX_TO_LOOK_AT, "{kind}");
    for condition in &finding.path {
        let (value, limit) = (condition.value, condition.limit);
        let holds = match condition.is.as_str() {
            ">=" => value >= limit,
            ">" => value > limit,
            "<=" => value <= limit,
            "<" => value < limit,
            "=" => value == limit,
            other => panic!("{kind}: {other}"),
        };
        assert!(holds, "{kind}: {condition:?}");
    }
}

/// Creates the logs of a job with one rank on each of these hosts.
fn logs_on(run: &Path, hosts: &[&str]) -> Vec<Log> {
    let size = hosts.len() as u32;
    (0..size)
        .zip(hosts)
        .map(|(rank, host)| {
            let mut log = SyntheticLog::create(run, rank, size, host).expect("create");
            log.communicator(0, rank, size, 7).expect("communicator");
            log
        })
        .collect()
}

fn session_of(job: &Ddp) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    job.write(folder.path()).expect("write");
    merged(folder.path())
}

/// Merges a job on these hosts.
fn session_on(job: &Ddp, hosts: &[&str]) -> Session {
    session_with(job, hosts, |_, _| {})
}

/// Merges a job on these hosts. `more` adds records to each log.
fn session_with(job: &Ddp, hosts: &[&str], more: impl Fn(u32, &mut Log)) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logs = logs_on(folder.path(), hosts);
    for (rank, log) in (0..).zip(&mut logs) {
        more(rank, log);
    }
    let job = Ddp {
        ranks: hosts.len() as u32,
        ..job.clone()
    };
    job.fill(&mut logs).expect("fill");
    for log in logs {
        log.end().expect("end");
    }
    merged(folder.path())
}

#[test]
fn runs_without_a_fault_have_no_finding() {
    for seed in 1..=24 {
        let job = Ddp {
            ranks: 2 + seed % 7,
            steps: 60,
            noise: seed * 7919,
            bytes: 4 << 20,
            ..Ddp::default()
        };
        let session = session_of(&job);
        assert!(session.findings.is_empty(), "seed {seed}: {:?}", session.findings);
        let card = session.scorecard.expect("a scorecard");
        assert_eq!(card.total.value, None, "two dimensions are not enough");
    }
}

#[test]
fn a_slow_host_is_named_and_a_slow_rank_on_a_host_is_not_the_host() {
    // The lateness is above the error between these hosts' clocks, 1 ms.
    let job = Ddp {
        steps: 60,
        forward_ns: 60 * MS,
        noise: 5,
        ..Ddp::default()
    };
    let hosts = ["a", "a", "a", "b", "b", "b"];
    let slow = Ddp {
        also_slow: vec![(3, 20 * MS), (4, 20 * MS), (5, 20 * MS)],
        ..job.clone()
    };
    let session = session_on(&slow, &hosts);
    let finding = only(&session, "slow-host");
    assert_eq!(
        (finding.ranks.as_slice(), finding.hosts.len()),
        (&[3, 4, 5][..], 1)
    );
    assert!(
        finding
            .subject
            .as_deref()
            .is_some_and(|subject| subject == "host b")
    );
    is_silent(&session, "late-rank");
    // The cost is the time that the job would save without the late rank: 20 ms a step.
    let per_step = finding.cost_of_step.value.expect("steps").numerator as f64;
    assert!((per_step / (20 * MS) as f64 - 1.0).abs() < 0.1, "{per_step}");
    let one = Ddp {
        slow: Some((4, 20 * MS)),
        ..job
    };
    let session = session_on(&one, &hosts);
    is_silent(&session, "slow-host");
    assert_eq!(only(&session, "late-rank").ranks, [4]);
}

#[test]
fn a_cost_is_a_part_of_the_steps_also_if_one_step_is_very_long() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logs = logs_on(folder.path(), &["host-a"; 2]);
    let mut now = START;
    for step in 0..40 {
        // Building connections delayed one all-reduce by seconds.
        let late = if step == 20 { 5_000 * MS } else { 25 * MS };
        now += 25 * MS;
        for (rank, log) in (0..).zip(&mut logs) {
            let enter = now + rank * late;
            let leave = now + late + MS;
            log.push(0, call(Operation::AllReduce, enter, leave, step, 4 << 20, 0));
        }
        now += late + MS;
    }
    for log in logs {
        log.end().expect("end");
    }
    let session = merged(folder.path());
    let late = only(&session, "late-rank");
    assert_eq!(late.ranks, [1]);
    // The mean cost is 150 ms, and the median step takes 51 ms.
    let share = late.cost_of_step.value.expect("steps");
    let median_ns = session.steps.median_ns.value.expect("steps");
    assert!(share.numerator > 2 * median_ns, "{share:?} {median_ns}");
    assert!(share.numerator < share.denominator, "{share:?}");
}

#[test]
fn uneven_work_is_found_next_to_the_latest_rank_and_counts_once() {
    let job = Ddp {
        steps: 60,
        noise: 3,
        also_slow: vec![(2, 150 * US), (3, 300 * US)],
        ..Ddp::default()
    };
    let session = session_of(&job);
    let uneven = only(&session, "work-imbalance");
    assert_eq!(uneven.ranks, [3, 2]);
    // The mean is (0 + 0 + 150 + 300) / 4 = 112.5: the slowest rank is 187.5 above it.
    let per_step = uneven.cost_of_step.value.expect("steps").numerator as f64;
    assert!((per_step / 187.5e3 - 1.0).abs() < 0.05, "{per_step}");
    assert!(uneven.shared_with.contains(&"late-rank".to_owned()));
    assert!(uneven.shared_ns > 0);
    let latest = session
        .findings
        .iter()
        .find(|finding| finding.kind == "late-rank");
    assert_eq!(latest.map(|finding| finding.shared_ns), Some(0));
    let one = Ddp {
        also_slow: vec![(3, 300 * US)],
        ..job
    };
    let session = session_of(&one);
    is_silent(&session, "work-imbalance");
    assert_eq!(only(&session, "late-rank").ranks, [3]);
}

#[test]
fn small_buckets_are_found_and_large_and_single_ones_are_not() {
    let job = Ddp {
        steps: 60,
        buckets: 8,
        bucket_ns: 20 * US,
        bytes: 256 << 10,
        noise: 3,
        ..Ddp::default()
    };
    let session = session_of(&job);
    let finding = only(&session, "small-buckets");
    assert!(
        finding
            .advice
            .as_deref()
            .is_some_and(|advice| advice.contains("bucket_cap_mb=2)"))
    );
    assert!(!finding.look_at.is_empty() && finding.look_at[0].instance.is_some());
    is_silent(
        &session_of(&Ddp {
            bytes: 2 << 20,
            ..job.clone()
        }),
        "small-buckets",
    );
    // A model of this size has one bucket with any limit.
    is_silent(
        &session_of(&Ddp {
            buckets: 1,
            ..job.clone()
        }),
        "small-buckets",
    );
    // The buckets are small but take nearly no time.
    let long = Ddp {
        forward_ns: 30 * MS,
        ..job
    };
    is_silent(&session_of(&long), "small-buckets");
}

#[test]
fn the_search_for_unused_parameters_is_found_if_it_costs_time() {
    let job = Ddp {
        steps: 60,
        search_ns: 80 * US,
        noise: 3,
        ..Ddp::default()
    };
    let session = session_of(&job);
    let finding = only(&session, "unused-parameter-search");
    // The cost is 80 µs of search and 50 µs of an additional all-reduce.
    let per_step = finding.cost_of_step.value.expect("steps").numerator as f64;
    assert!((per_step / 130e3 - 1.0).abs() < 0.05, "{per_step}");
    let cheap = Ddp {
        forward_ns: 30 * MS,
        ..job.clone()
    };
    is_silent(&session_of(&cheap), "unused-parameter-search");
    is_silent(
        &session_of(&Ddp { search_ns: 0, ..job }),
        "unused-parameter-search",
    );
}

#[test]
fn exposed_communication_is_found_above_thirty_percent() {
    let job = Ddp {
        steps: 60,
        transfer_ns: 400 * US,
        noise: 3,
        ..Ddp::default()
    };
    let session = session_of(&job);
    let finding = only(&session, "exposed-communication");
    assert!(
        finding
            .cause
            .as_deref()
            .is_some_and(|cause| cause.contains("too little computation"))
    );
    let below = Ddp {
        transfer_ns: 130 * US,
        ..job.clone()
    };
    let session = session_of(&below);
    let of_steps: i64 = session
        .breakdown
        .iter()
        .map(|entry| entry.exposed_communication_ns)
        .sum();
    assert!(of_steps > 0);
    is_silent(&session, "exposed-communication");
    // On a crowded host ranks wait for processors.
    let session = session_with(&job, &["a"; 4], |_, log| {
        log.property("processors", "2").expect("property")
    });
    is_silent(&session, "exposed-communication");
    assert_eq!(only(&session, "crowded-host").severity, Severity::Note);
    let session = session_with(&job, &["a"; 4], |_, log| {
        log.property("processors", "4").expect("property")
    });
    is_silent(&session, "crowded-host");
    // A launcher that binds ranks to processors: each rank sees one, and together they have four, or two.
    let bound = |processors: u32| {
        session_with(&job, &["a"; 4], |rank, log| {
            log.property("processors", "1").expect("property");
            let own = (rank % processors).to_string();
            log.property("processors_allowed", &own).expect("property");
        })
    };
    is_silent(&bound(4), "crowded-host");
    let finding = bound(2);
    let finding = only(&finding, "crowded-host");
    assert!(
        finding.title.contains("4 ranks share 2 processors"),
        "{}",
        finding.title
    );
}

#[test]
fn a_pause_at_regular_intervals_is_found() {
    let job = Ddp {
        steps: 80,
        noise: 3,
        pause: Some((10, 2 * MS)),
        ..Ddp::default()
    };
    let session = session_of(&job);
    let finding = only(&session, "periodic-pause");
    assert!(finding.title.starts_with("every 10 steps"), "{}", finding.title);
    // One pause of 2 ms in each ten of the eighty steps, without the first steps, which are incomplete.
    let cost = finding.cost_ns.value.expect("a cost");
    assert!(
        (7 * 2 * MS as i64..=8 * 21 * MS as i64 / 10).contains(&cost),
        "{cost}"
    );
    is_silent(&session, "late-rank");
    // Two pauses are no period.
    let seldom = Ddp {
        pause: Some((40, 2 * MS)),
        ..job.clone()
    };
    is_silent(&session_of(&seldom), "periodic-pause");
    // A single rank that takes longer is late.
    let late = Ddp {
        pause: None,
        slow: Some((1, 2 * MS)),
        ..job
    };
    is_silent(&session_of(&late), "periodic-pause");
}

/// Merges ranks that call the library themselves. Each step is a broadcast and then `step`, which gets a start time and
/// returns the end time.
fn direct(hosts: &[&str], steps: u64, step: impl Fn(&mut [Log], u64, u64) -> u64) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logs = logs_on(folder.path(), hosts);
    let mut now = START + MS;
    for number in 0..steps {
        for log in &mut logs {
            let mut begin = call(
                Operation::Broadcast,
                now,
                now + 10 * US,
                number as u32,
                4 << 20,
                0,
            );
            begin.peer = 0;
            log.push(0, begin);
        }
        now = step(&mut logs, number, now + 500 * US);
    }
    for log in logs {
        log.end().expect("end");
    }
    merged(folder.path())
}

/// Calls all-reduces of this many bytes, one after the other.
fn reduces(count: u64, bytes: u64, step: u64, logs: &mut [Log], from: u64) -> u64 {
    for at in 0..count {
        for log in logs.iter_mut() {
            let enter = from + at * 20 * US;
            let tag = 1_000 + (step * count + at) as u32;
            log.push(
                0,
                call(Operation::AllReduce, enter, enter + 18 * US, tag, bytes, 0),
            );
        }
    }
    from + count * 20 * US
}

#[test]
fn a_flood_of_tiny_operations_is_found_and_a_few_are_not() {
    let session = direct(&["a"; 4], 40, |logs, step, from| {
        reduces(32, 64, step, logs, from)
    });
    let finding = only(&session, "small-messages");
    // 32 operations of 18 µs, none of it hidden.
    let per_step = finding.cost_of_step.value.expect("steps").numerator as f64;
    assert!(
        (per_step / (32 * 18 * US) as f64 - 1.0).abs() < 0.05,
        "{per_step}"
    );
    let session = direct(&["a"; 4], 40, |logs, step, from| reduces(4, 64, step, logs, from));
    is_silent(&session, "small-messages");
    let session = direct(&["a"; 4], 40, |logs, step, from| {
        reduces(32, 1 << 20, step, logs, from)
    });
    is_silent(&session, "small-messages");
}

/// Merges a ring in which every rank sends to the next one. `takes` gives the duration of a transfer, `late` the
/// sender's lateness.
fn ring(takes: impl Fn(u32) -> u64, late: impl Fn(u32) -> u64) -> Session {
    const RANKS: u32 = 6;
    direct(&["a"; RANKS as usize], 60, |logs, step, from| {
        let message = |kind: RecordKind, operation: Operation, enter: u64, leave: u64, peer: u32| Record {
            operation: operation as u8,
            enter_ticks: enter,
            leave_ticks: leave,
            object: 0xB000 + step % 16 * 64 + u64::from(operation == Operation::Receive),
            bytes: 1 << 20,
            communicator: 0,
            tag: 3,
            aux: 3,
            peer: peer as i32,
            ..Record::new(kind)
        };
        let end = from + 2 * MS;
        for (rank, log) in (0..RANKS).zip(logs.iter_mut()) {
            let (to, by) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
            let sends = from + late(rank);
            let jitter = (step * 37 + u64::from(rank) * 11) % 7 * US;
            let arrives = from + late(by) + takes(by) + (step * 37 + u64::from(by) * 11) % 7 * US;
            log.push(
                0,
                message(RecordKind::Post, Operation::Receive, from, from + US, by),
            );
            log.push(
                0,
                message(RecordKind::Post, Operation::Send, sends, sends + US, to),
            );
            let sent = (sends + takes(rank) + jitter).max(arrives);
            log.push(
                0,
                message(RecordKind::Complete, Operation::Receive, sends + US, arrives, by),
            );
            log.push(
                0,
                message(RecordKind::Complete, Operation::Send, arrives, sent, to),
            );
        }
        end
    })
}

#[test]
fn a_slow_link_between_two_ranks_is_named_and_a_late_sender_is_no_slow_link() {
    let session = ring(|from| if from == 2 { 900 * US } else { 300 * US }, |_| 0);
    let finding = only(&session, "slow-link");
    assert_eq!(finding.ranks, [2, 3]);
    assert!(
        finding.title.contains("from rank 2 to rank 3"),
        "{}",
        finding.title
    );
    assert!(finding.look_at[0].instance.is_some());
    is_silent(&ring(|_| 300 * US, |_| 0), "slow-link");
    // Two slow paths with one rank in common are two links.
    let session = ring(
        |from| {
            if [2, 3].contains(&from) {
                900 * US
            } else {
                300 * US
            }
        },
        |_| 0,
    );
    let slow = session
        .findings
        .iter()
        .filter(|finding| finding.kind == "slow-link");
    let mut pairs: Vec<&[u32]> = slow.map(|finding| &finding.ranks[..]).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [[2, 3], [3, 4]]);
    // A late sender makes others wait, but its path is as fast as the others.
    is_silent(
        &ring(|_| 300 * US, |rank| if rank == 2 { 600 * US } else { 0 }),
        "slow-link",
    );
    // A path that is slightly slower is not slow.
    is_silent(
        &ring(|from| if from == 2 { 340 * US } else { 300 * US }, |_| 0),
        "slow-link",
    );
}

/// Merges two ranks with devices and a gap before the last kernel of each step. The host waits for the device before it
/// launches the work after the gap, or has already launched it.
fn devices(gap: impl Fn(u64) -> u64, is_launched_late: bool) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logs = logs_on(folder.path(), &["a"; 2]);
    for log in &mut logs {
        log.property("source.cupti", "130500").expect("property");
        for (text, name) in [(70_000, "forward"), (70_001, "backward")] {
            log.definition(KIND_TEXT, Payload::text(text, name.as_bytes()))
                .expect("text");
        }
        let stream = Stream {
            index: 0,
            device: 0,
            context: 1,
            number: 7,
        };
        log.definition(KIND_STREAM, Payload::stream(stream))
            .expect("stream");
    }
    let mut now = START + MS;
    let mut correlation = 1;
    for step in 0..60u64 {
        let gap = gap(step);
        for log in &mut logs {
            let mut begin = call(Operation::Broadcast, now, now + 5 * US, step as u32, 4 << 20, 0);
            begin.peer = 0;
            log.push(0, begin);
            let launch = |start: u64, length: u64, correlation: u32, function: u32, waits: bool| {
                let call = HostCall {
                    start_ticks: start,
                    end_ticks: start + length,
                    thread: 100,
                    correlation,
                    function,
                    is_runtime: true,
                    has_failed: false,
                };
                Activity::Call { call, waits }.to_record()
            };
            let kernel = |start: u64, length: u64, correlation: u32, name: i32| {
                let work = Work {
                    start_ticks: start,
                    end_ticks: start + length,
                    stream: 0,
                    correlation,
                    graph_node: 0,
                };
                Activity::Kernel {
                    work,
                    name,
                    grid: [1, 1, 1],
                    block: [32, 1, 1],
                    graph: 0,
                }
                .to_record()
            };
            // The device works from 4 to 504 µs, is idle for the gap, and works for another 500 µs.
            let first = now + 4 * US;
            let second = first + 500 * US + gap;
            log.push(1, launch(now + US, US, correlation, 211, false));
            let launched = if is_launched_late {
                second - 3 * US
            } else {
                now + 2 * US
            };
            if !is_launched_late {
                log.push(1, launch(launched, US, correlation + 2, 211, false));
            }
            // cudaStreamSynchronize returns when the first kernel is over.
            log.push(1, launch(now + 3 * US, 502 * US, correlation + 1, 131, true));
            if is_launched_late {
                log.push(1, launch(launched, US, correlation + 2, 211, false));
            }
            log.push(1, kernel(first, 500 * US, correlation, 70_000));
            log.push(1, kernel(second, 500 * US, correlation + 2, 70_001));
            let covered = Activity::Covered {
                start_ticks: now,
                end_ticks: second + 502 * US,
                coverage: Coverage::All,
                works: 2,
            };
            log.push(1, covered.to_record());
        }
        correlation += 3;
        now += 1_006 * US + gap;
    }
    for log in logs {
        log.end().expect("end");
    }
    merged(folder.path())
}

#[test]
fn calls_that_wait_for_the_device_are_found_if_it_is_idle_after_them() {
    let session = devices(|_| 300 * US, true);
    let finding = only(&session, "synchronising-calls");
    assert_eq!(finding.subject.as_deref(), Some("cudaStreamSynchronize"));
    // One gap of 300 µs a step, without the first and the last step.
    let cost = finding.cost_ns.value.expect("a cost");
    assert!(
        (57 * 300 * US as i64..=60 * 301 * US as i64).contains(&cost),
        "{cost}"
    );
    // The same place is reported first as a recurring stall.
    let stall = only(&session, "recurring-stall");
    assert!(stall.title.contains("backward"), "{}", stall.title);
    assert!(stall.shared_with.contains(&"synchronising-calls".to_owned()));
    // The host waits as long, but the next kernel is already queued: something else delays the device.
    is_silent(&devices(|_| 300 * US, false), "synchronising-calls");
    // The gap costs nothing.
    let session = devices(|_| 10 * US, true);
    is_silent(&session, "synchronising-calls");
    is_silent(&session, "recurring-stall");
}

#[test]
fn utilisation_that_swings_is_found_and_low_utilisation_is_not() {
    let session = devices(|step| if step % 2 == 0 { 20 * US } else { 900 * US }, true);
    let finding = only(&session, "utilisation-swings");
    assert_eq!(finding.ranks.len(), 2);
    is_silent(&devices(|_| 900 * US, true), "utilisation-swings");
}

#[test]
fn another_profiler_is_found_and_another_reason_is_not() {
    let with = |key: &'static str, text: &'static str| {
        session_with(&Ddp::default(), &["a"; 2], move |_, log| {
            log.property(key, text).expect("property")
        })
    };
    let session = with(
        "source.cupti_ended",
        "another profiler subscribed by the second interface",
    );
    assert_eq!(only(&session, "another-profiler").ranks, [0, 1]);
    let session = with("source.cupti_refused", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
    is_silent(&session, "another-profiler");
}

#[test]
fn variables_that_the_loaded_nccl_does_not_read_are_named() {
    let with = |version: &'static str, name: &'static str| {
        session_with(&Ddp::default(), &["a"; 2], move |rank, log| {
            log.property("library.nccl.version", version).expect("property");
            if rank == 1 {
                log.property(&format!("env.{name}"), "1").expect("property");
            }
        })
    };
    let session = with("2.21.5", "NCCL_CTA_POLICY");
    let finding = only(&session, "unread-variables");
    assert_eq!(
        (finding.ranks.as_slice(), finding.severity.name()),
        (&[1][..], "note")
    );
    assert!(
        finding.evidence[0].contains("read from 2.27.3 on"),
        "{:?}",
        finding.evidence
    );
    is_silent(&with("2.28.9", "NCCL_CTA_POLICY"), "unread-variables");
    is_silent(&with("2.28.9", "NCCL_DEBUG"), "unread-variables");
    only(&with("2.28.9", "NCCL_THREADS"), "unread-variables");
}

#[test]
fn different_versions_name_the_minority() {
    let of = |versions: [&'static str; 3]| {
        session_with(&Ddp::default(), &["a"; 3], move |rank, log| {
            log.property("library.nccl.version", versions[rank as usize])
                .expect("property");
        })
    };
    let session = of(["2.28.9", "2.21.5", "2.28.9"]);
    assert_eq!(only(&session, "different-versions").ranks, [1]);
    is_silent(&of(["2.28.9"; 3]), "different-versions");
}

/// Merges two ranks that make the calls of `calls`. `is_closed` says whether their logs are closed.
fn two(calls: impl Fn(u32) -> Vec<Record>, is_closed: bool) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = logs_on(folder.path(), &["a"; 2]);
    for (rank, mut log) in (0..).zip(logs) {
        for record in calls(rank) {
            log.push(0, record);
        }
        if is_closed {
            log.end().expect("end");
        } else {
            log.flush(START + 100 * MS).expect("flush");
        }
    }
    merged(folder.path())
}

#[test]
fn members_that_disagree_are_found_and_members_that_agree_are_not() {
    let of = |sizes: [u64; 2]| {
        two(
            |rank| {
                let bytes = sizes[rank as usize];
                vec![call(Operation::AllReduce, START + 10, START + 1_000, 0, bytes, 0)]
            },
            true,
        )
    };
    let session = of([64, 1 << 20]);
    assert_eq!(only(&session, "mismatched").severity, Severity::Critical);
    assert!(
        only(&session, "mismatched").look_at[0]
            .what
            .contains("all-reduce")
    );
    is_silent(&of([64, 64]), "mismatched");
    assert_eq!(kinds(&of([64, 64])), Vec::<&str>::new());
}

#[test]
fn a_message_without_its_other_end_is_found_if_everything_was_recorded() {
    let sent = |rank: u32| {
        let send = Record {
            operation: Operation::Send as u8,
            enter_ticks: START + 10,
            leave_ticks: START + 11,
            object: 0xA,
            bytes: 4096,
            communicator: 0,
            peer: 1,
            ..Record::new(RecordKind::Post)
        };
        let done = Record {
            enter_ticks: START + 20,
            leave_ticks: START + 30,
            kind: RecordKind::Complete as u8,
            ..send
        };
        if rank == 0 {
            vec![send, done]
        } else {
            vec![call(Operation::Barrier, START + 10, START + 30, 0, 0, 0)]
        }
    };
    let session = two(sent, true);
    assert_eq!(session.matching.unmatched_messages, 1);
    only(&session, "unmatched-messages");
    let session = two(sent, false);
    assert_eq!(session.matching.unmatched_messages, 1);
    is_silent(&session, "unmatched-messages");
}

#[test]
fn failed_operations_are_critical_if_they_are_many() {
    let of = |failed: u64| {
        two(
            move |_| {
                let calls = (0..100u64).map(|at| {
                    let enter = START + at * 10_000;
                    let mut call = call(Operation::AllReduce, enter, enter + 1_000, at as u32, 64, 0);
                    call.flags |= if at < failed { FLAG_FAILED } else { 0 };
                    call
                });
                calls.collect()
            },
            true,
        )
    };
    assert_eq!(only(&of(6), "failed-operations").severity, Severity::Critical);
    assert_eq!(only(&of(5), "failed-operations").severity, Severity::Warning);
    is_silent(&of(0), "failed-operations");
}

#[test]
fn an_error_of_a_communicator_names_the_rank_whose_log_ended_before() {
    const REMOTE_ERROR: u32 = 6;
    let of = |reporting: u32| {
        let folder = tempfile::tempdir().expect("a folder");
        for (rank, mut log) in (0..).zip(logs_on(folder.path(), &["a"; 3])) {
            // The last rank ends after its first call.
            let calls = if rank == 2 { 1 } else { 100 };
            for at in 0..calls {
                let enter = START + at * MS;
                log.push(
                    0,
                    call(Operation::AllReduce, enter, enter + 1_000, at as u32, 64, 0),
                );
            }
            if rank < reporting {
                let failure = Record {
                    enter_ticks: START + 90 * MS,
                    leave_ticks: START + 90 * MS,
                    communicator: 0,
                    flags: FLAG_FAILED,
                    tag: REMOTE_ERROR,
                    ..Record::new(RecordKind::Failure)
                };
                log.push(0, failure);
            }
            log.end().expect("end");
        }
        merged(folder.path())
    };
    let session = of(2);
    let finding = only(&session, "communicator-error");
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!(finding.ranks, [2], "{finding:?}");
    let evidence = finding.evidence.join("\n");
    for expected in ["ncclRemoteError (6) on rank 0, rank 1", "the log of rank 2 ended"] {
        assert!(evidence.contains(expected), "{evidence}");
    }
    is_silent(&of(0), "communicator-error");
}

#[test]
fn a_rank_that_reports_an_error_and_then_ends_is_no_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, mut log) in (0..).zip(logs_on(folder.path(), &["a"; 3])) {
        // The last rank ends first and reports nothing. Rank 0 reports an error and ends. Rank 1 reports another one later.
        let last_call = [50, 100, 10][rank];
        for at in 0..last_call {
            let enter = START + at * MS;
            log.push(
                0,
                call(Operation::AllReduce, enter, enter + 1_000, at as u32, 64, 0),
            );
        }
        let (error, at) = [(Some(6), 20), (Some(1), 90), (None, 0)][rank];
        if let Some(error) = error {
            let failure = Record {
                enter_ticks: START + at * MS,
                leave_ticks: START + at * MS,
                communicator: 0,
                flags: FLAG_FAILED,
                tag: error,
                ..Record::new(RecordKind::Failure)
            };
            log.push(0, failure);
        }
        log.end().expect("end");
    }
    let session = merged(folder.path());
    let finding = only(&session, "communicator-error");
    assert_eq!(finding.ranks, [2], "{finding:?}");
    let evidence = finding.evidence.join("\n");
    for expected in [
        "ncclRemoteError (6) on rank 0",
        "ncclUnhandledCudaError (1) on rank 1",
    ] {
        assert!(evidence.contains(expected), "{evidence}");
    }
    assert!(!evidence.contains("the log of rank 0 ended"), "{evidence}");
}

#[test]
fn slow_creation_of_communicators_is_found() {
    let of = |seconds: u64| {
        two(
            move |_| {
                let connect = call(
                    Operation::Connect,
                    START + 10,
                    START + seconds * 1_000 * MS,
                    0,
                    0,
                    0,
                );
                let end = START + 100_000 * MS;
                vec![connect, call(Operation::Barrier, end, end + 1_000, 0, 0, 0)]
            },
            true,
        )
    };
    let session = of(20);
    let finding = only(&session, "slow-start");
    assert!(
        finding
            .cost_ns
            .value
            .is_some_and(|ns| (19..=20).contains(&(ns / 1_000_000_000)))
    );
    is_silent(&of(4), "slow-start");
}

#[test]
fn unrecorded_ranks_and_losses_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    Ddp::default().write(folder.path()).expect("write");
    std::fs::remove_file(folder.path().join("rank-2.rslog")).expect("removed");
    let session = merged(folder.path());
    assert!(only(&session, "missing-ranks").title.starts_with("1 of 4"));
    assert!(only(&session, "missing-ranks").evidence[0].contains("rank 2"));
    let session = session_with(&Ddp::default(), &["a"; 2], |rank, log| {
        if rank == 1 {
            let loss = Loss {
                cause: LossCause::Disk,
                kind: RecordKind::Call,
                count: 17,
                first_ticks: START + 5,
                last_ticks: START + 9,
            };
            log.losses(&[loss]).expect("losses");
            log.property("env.RANK", "3").expect("property");
        }
    });
    is_silent(&session, "missing-ranks");
    let losses = only(&session, "losses");
    assert_eq!((losses.look_at[0].start_ns, losses.look_at[0].end_ns), (5, 9));
    assert_eq!(only(&session, "rank-mismatch").ranks, [1]);
    // Evidence that was left out on purpose is no loss, and an environment that agrees is no mismatch.
    let session = session_with(&Ddp::default(), &["a"; 2], |rank, log| {
        let left_out = Loss {
            cause: LossCause::EvidenceBound,
            kind: RecordKind::Call,
            count: 17,
            first_ticks: START + 5,
            last_ticks: START + 9,
        };
        log.losses(&[left_out]).expect("losses");
        log.property("env.RANK", &rank.to_string()).expect("property");
    });
    is_silent(&session, "losses");
    is_silent(&session, "rank-mismatch");
}

#[test]
fn a_hang_that_a_watcher_reported_is_found_and_a_report_without_a_verdict_is_not() {
    let of = |taken_unix_ns, verdicts: Vec<HangVerdict>| {
        let folder = tempfile::tempdir().expect("a folder");
        for (rank, mut log) in (0..).zip(logs_on(folder.path(), &["a"; 2])) {
            log.push(0, call(Operation::AllReduce, START + 10, START + 20, 0, 64, 0));
            if rank == 0 && !verdicts.is_empty() {
                let barrier = call(Operation::Barrier, START + 30, 0, 1, 0, 0);
                log.in_flight(&[(0, 100, barrier)]).expect("in flight");
            }
            log.flush(START + 1_000).expect("flush");
        }
        // The watcher orders ranks differently: its rank 0 wrote the log that the session lists second.
        let mut ranks: Vec<RankStatus> = log_names(folder.path()).map(rank_status).collect();
        ranks.sort_by(|one, other| other.log.cmp(&one.log));
        let status = Status {
            format: STATUS_FORMAT.to_owned(),
            taken_unix_ns,
            directories: vec![folder.path().display().to_string()],
            health: Health::Hang,
            sentence: "Rank 1 sleeps.".to_owned(),
            verdicts,
            groups: Vec::new(),
            communicators: Vec::new(),
            ranks,
            notes: Vec::new(),
        };
        let report = serde_json::to_string(&status).expect("JSON");
        std::fs::write(folder.path().join("hang-1-a.json"), report).expect("written");
        merged(folder.path())
    };
    let verdict = HangVerdict {
        kind: HangKind::MissingCaller,
        confidence: Confidence::High,
        sentence: "Rank 1 sleeps.".to_owned(),
        culprits: vec![0],
        culprit_names: vec!["rank 1".to_owned()],
        waiting: vec![1],
        communicator: None,
        operation: Some("barrier".to_owned()),
        sequence: Some(1),
        for_ns: 5_000_000_000,
        evidence: vec!["rank 0 waits.".to_owned()],
    };
    let session = of(AFTER_ALL_RECORDS_UNIX_NS, vec![verdict.clone()]);
    let finding = only(&session, "hang");
    assert_eq!(
        (finding.severity.name(), &finding.ranks[..]),
        ("critical", &[1][..])
    );
    assert_eq!(finding.title, "Rank 1 sleeps");
    // The report says it already.
    is_silent(&session, "never-finished");
    // The job went on after this report.
    let session = of(0, vec![verdict]);
    only(&session, "hang");
    only(&session, "never-finished");
    let session = of(AFTER_ALL_RECORDS_UNIX_NS, Vec::new());
    is_silent(&session, "hang");
}

const AFTER_ALL_RECORDS_UNIX_NS: i64 = i64::MAX / 2;

fn log_names(run: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(run).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    names.filter(|name| name.ends_with(".rslog"))
}

fn rank_status(log: String) -> RankStatus {
    RankStatus {
        name: log.clone(),
        number: None,
        host: "a".to_owned(),
        pid: 1,
        process: ProcessState::Running,
        ending: None,
        log,
        now: String::new(),
        for_ns: None,
        last_completed: None,
        last_completed_ago_ns: None,
        stack: None,
    }
}

#[test]
fn a_job_that_ends_inside_an_operation_is_found_and_one_killed_between_two_is_not() {
    let of = |is_inside: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        for (rank, mut log) in (0..).zip(logs_on(folder.path(), &["a"; 2])) {
            log.push(0, call(Operation::AllReduce, START + 10, START + 20, 0, 64, 0));
            if is_inside && rank == 0 {
                let barrier = call(Operation::Barrier, START + 30, 0, 1, 0, 0);
                log.in_flight(&[(0, 100, barrier)]).expect("in flight");
            }
            // Neither log is closed: both processes were killed.
            log.flush(START + 1_000).expect("flush");
        }
        merged(folder.path())
    };
    let session = of(true);
    let finding = only(&session, "never-finished");
    assert_eq!(
        (finding.severity.name(), &finding.ranks[..]),
        ("critical", &[0][..])
    );
    assert!(finding.evidence[0].contains("barrier"), "{:?}", finding.evidence);
    let session = of(false);
    assert_eq!(session.coverage.ranks_not_closed, 2);
    is_silent(&session, "never-finished");
}

/// Merges all-reduces in which `late` names the late rank of each step, if any.
fn in_turn(late: impl Fn(u64) -> Option<u64>) -> Session {
    const RANKS: usize = 8;
    const LATE: u64 = 300 * US;
    direct(&["a"; RANKS], 80, |logs, step, from| {
        let late = late(step);
        let last = from + late.map_or(0, |_| LATE);
        for (rank, log) in (0..).zip(logs.iter_mut()) {
            let enter = if late == Some(rank) { last } else { from };
            let tag = 1_000 + step as u32;
            log.push(
                0,
                call(Operation::AllReduce, enter, last + 50 * US, tag, 4 << 20, 0),
            );
        }
        last + 100 * US
    })
}

#[test]
fn rotating_lateness_blames_no_rank_and_one_late_rank_or_few_late_steps_are_not_rotating() {
    let round = in_turn(|step| Some(step * 3 % 8));
    let finding = only(&round, "rotating-lateness");
    assert!(
        finding.ranks.is_empty() || finding.ranks.len() == 8,
        "{:?}",
        finding.ranks
    );
    is_silent(&round, "late-rank");
    // Seven ranks wait for 300 µs in each step, so the job loses 300 µs.
    let per_step = finding.cost_of_step.value.expect("steps").numerator;
    assert!((290_000..=310_000).contains(&per_step), "{per_step}");
    let one = in_turn(|_| Some(5));
    assert_eq!(only(&one, "late-rank").ranks, [5]);
    is_silent(&one, "rotating-lateness");
    // Two of five steps are less than half.
    let seldom = in_turn(|step| (step % 5 < 2).then_some(step * 3 % 8));
    is_silent(&seldom, "rotating-lateness");
}

/// No recording makes parts contradict each other: only a bug does. The test therefore changes the session.
#[test]
fn parts_of_the_host_or_of_devices_that_do_not_add_up_are_found() {
    let mut session = Job::new(4, 20).session();
    assert!(contradiction(&session).is_none(), "breakdown of a whole session");
    session.breakdown[2].adds_up = false;
    assert_eq!(contradictory(&session), [RankIndex(2)]);
    let finding = contradiction(&session).expect("breakdown").finish(&session);
    assert_eq!(
        (finding.kind.as_str(), finding.severity.name()),
        ("breakdown", "critical")
    );
    session.breakdown[2].adds_up = true;
    let session = devices(|_| 300 * US, false);
    assert!(contradiction(&session).is_none());
    let mut wrong = session.clone();
    wrong.activity[1].adds_up = false;
    assert_eq!(contradictory(&wrong), [RankIndex(1)]);
}

/// For each rule one test asserts that it fires, and another that it is silent in a similar run.
#[test]
fn every_rule_has_a_trigger_and_a_near_miss() {
    let here = squeezed(concat!(include_str!("findings.rs"), include_str!("structure.rs")));
    // Rules whose runs are made elsewhere, or whose findings are checked differently: the assertion that fires and the
    // silent one.
    let elsewhere = [
        (
            "low-bandwidth",
            include_str!("scorecard.rs"),
            r#"assert_eq!(kinds(&session), ["low-bandwidth"]);"#,
            r#"findings::state(&mut session, &stated(&["5"], &[])); assert_eq!(kinds(&session), Vec::<&str>::new());"#,
        ),
        (
            "slow-class",
            include_str!("scorecard.rs"),
            r#"&["89us"])); assert_eq!(kinds(&session), ["slow-class"]);"#,
            r#"&["90us"])); assert_eq!(kinds(&session), Vec::<&str>::new());"#,
        ),
        (
            "replay-counts",
            include_str!("launches.rs"),
            "assert_eq!(replays(Some(GROUPS - 1)), Some(Severity::Critical));",
            "assert_eq!(replays(None), None);",
        ),
        (
            "ras-mismatch",
            include_str!("import_diagnostics.rs"),
            r#"let of_ras = of_kind(&session, "ras-mismatch"); assert_eq!(of_ras.len(), 2);"#,
            r#"is_silent(&session, "ras-mismatch");"#,
        ),
        (
            "breakdown",
            include_str!("findings.rs"),
            r#"contradiction(&session).expect("breakdown")"#,
            r#"assert!(contradiction(&session).is_none(), "breakdown of a whole session");"#,
        ),
    ];
    for rule in RULES {
        let of_it: Vec<_> = elsewhere.iter().filter(|(id, ..)| *id == rule.id).collect();
        if let [(_, source, fires, silent)] = of_it[..] {
            let source = squeezed(source);
            assert!(source.contains(&squeezed(fires)), "{} fires nowhere", rule.id);
            assert!(source.contains(&squeezed(silent)), "{} has no near miss", rule.id);
            continue;
        }
        let ends = format!(r#","{}")"#, rule.id);
        let is_asserted = |by: &str| {
            here.match_indices(&ends).any(|(at, _)| {
                // Find the call that this argument ends: the nearest one that starts before it.
                let before = &here[..at];
                let [fires, silent] = ["only(&", "is_silent(&"].map(|call| before.rfind(call));
                if by == "only" {
                    fires > silent
                } else {
                    silent > fires
                }
            })
        };
        assert!(is_asserted("only"), "{} fires nowhere", rule.id);
        assert!(is_asserted("is_silent"), "{} has no near miss", rule.id);
    }
}

/// Removes spaces, line ends, and commas before a closing bracket, so that formatting does not matter.
fn squeezed(source: &str) -> String {
    let plain: String = source.split_whitespace().collect();
    plain.replace(",)", ")").replace(",]", "]")
}

/// Merges a job of two ranks with this number of attempts, one call each, five seconds apart.
fn with_attempts(attempts: u8) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    for restart in 0..attempts {
        let run = folder.path().join(format!("attempt-{restart:02}"));
        std::fs::create_dir(&run).expect("mkdir");
        for rank in 0..2 {
            let file = BufWriter::new(File::create(run.join(format!("{rank}.rslog"))).expect("create"));
            let (nonce, process) = (u64::from(restart) << 8, 1 + u32::from(restart));
            let mut log = SyntheticLog::new_of(file, rank, 2, "a", nonce, process).expect("log");
            log.property("env.TORCHELASTIC_RUN_ID", "job-7")
                .expect("property");
            let count = restart.to_string();
            log.property("env.TORCHELASTIC_RESTART_COUNT", &count)
                .expect("property");
            log.communicator(0, rank, 2, restart + 1).expect("communicator");
            let enter = START + u64::from(restart) * 5_000 * MS;
            log.push(0, call(Operation::AllReduce, enter, enter + MS, 0, 64, 0));
            log.end().expect("end");
        }
    }
    merged(folder.path())
}

#[test]
fn a_restart_costs_the_time_between_the_attempts() {
    let session = with_attempts(2);
    let finding = only(&session, "restart");
    // Calibrations are at the end of each log. The first record of the second attempt is therefore its call.
    let cost = finding.cost_ns.value.expect("a cost");
    assert!((4_990..=5_000).contains(&(cost / MS as i64)), "{cost}");
    assert_eq!(session.findings[0].kind, "restart", "the costliest comes first");
    is_silent(
        &session_of(&Ddp {
            ranks: 2,
            steps: 5,
            ..Ddp::default()
        }),
        "restart",
    );
}

#[test]
fn many_restarts_are_one_finding_and_one_line() {
    let restarts_of = |session: &Session| {
        let findings = session.findings.iter();
        findings.filter(|finding| finding.kind == "restart").count()
    };
    let lines_of = |session: &Session| {
        let places = Places {
            session: "session".into(),
            trace: None,
            report: None,
        };
        let text = summary_text(session, &places, &TextLayout::plain(160));
        text.lines()
            .filter(|line| line.contains("the job was restarted"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let few = with_attempts(4);
    assert_eq!(restarts_of(&few), 3);
    let many = with_attempts(30);
    let finding = only(&many, "restart");
    assert!(
        finding.title.contains("the job was restarted 29 times"),
        "{}",
        finding.title
    );
    let cost = finding.cost_ns.value.expect("a cost");
    assert!((29 * 4_990..=29 * 5_000).contains(&(cost / MS as i64)), "{cost}");
    assert_eq!(finding.look_at.len(), 3);
    assert_eq!(lines_of(&few).len(), 6, "three notes and three findings");
    let lines = lines_of(&many);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains(
            "the job was restarted 29 times; 2 min 25 s passed between attempts, at most 5.00 s at once"
        ),
        "{lines:?}"
    );
}

/// Merges a job of three ranks on two hosts. The resident memory of each has a sample per second.
fn with_memory(seconds: u64, left_bytes: f64, resident_bytes: impl Fn(u32, u64) -> f64) -> Session {
    const SECOND: u64 = 1000 * MS;
    const COUNTERS: [(u32, &str); 2] = [(800, PRIVATE_MEMORY), (801, AVAILABLE_MEMORY)];
    let job = Ddp {
        steps: 60,
        ..Ddp::default()
    };
    session_with(&job, &["a", "a", "b"], |rank, log| {
        for (text, name) in COUNTERS {
            log.definition(KIND_TEXT, Payload::text(text, name.as_bytes()))
                .expect("text");
        }
        for second in 0..seconds {
            for ((text, _), value) in COUNTERS
                .into_iter()
                .zip([resident_bytes(rank, second), left_bytes])
            {
                log.push(9, counters::sample(text, START + second * SECOND, value, true));
            }
        }
    })
}

#[test]
fn memory_that_grows_over_the_whole_run_is_reported() {
    const MIB: f64 = 1048576.0;
    let leaks = |mib_per_s: f64| {
        move |rank: u32, second: u64| {
            let garbage = (second % 3) as f64 * 9.0 * MIB;
            let kept = if rank == 1 {
                second as f64 * mib_per_s * MIB
            } else {
                0.0
            };
            500.0 * MIB + garbage + kept
        }
    };
    let session = with_memory(200, 50e9, leaks(2.0));
    let finding = only(&session, "growing-memory");
    assert_eq!(
        (finding.severity, &finding.ranks[..]),
        (Severity::Warning, &[1][..])
    );
    let counter = session
        .counters
        .iter()
        .find(|counter| counter.rank == 1 && counter.name == PRIVATE_MEMORY);
    let growth = counter.and_then(|counter| counter.growth).expect("growth");
    let expected = 2.0 * 3600.0 * MIB;
    assert!((growth.per_hour() / expected - 1.0).abs() < 0.05, "{growth:?}");
    assert!(
        finding.title.contains("grows by 7.") && finding.title.contains("GB per hour"),
        "{}",
        finding.title
    );
    assert!(
        finding
            .evidence
            .iter()
            .any(|line| line.contains("50.0 GB available on a: enough for 6.")),
        "{:?}",
        finding.evidence
    );
    // The available memory suffices for months.
    let session = with_memory(200, 50e12, leaks(2.0));
    assert_eq!(only(&session, "growing-memory").severity, Severity::Note);
    // Near misses: too little growth, a run too short, memory that levels off, and memory that goes up and down.
    is_silent(&with_memory(200, 50e9, leaks(0.3)), "growing-memory");
    is_silent(&with_memory(60, 50e9, leaks(2.0)), "growing-memory");
    let fills_up = |_: u32, second: u64| 500.0 * MIB + (second.min(120) * 4) as f64 * MIB;
    is_silent(&with_memory(200, 50e9, fills_up), "growing-memory");
    let saw = |_: u32, second: u64| 500.0 * MIB + (second % 50 * 40) as f64 * MIB;
    is_silent(&with_memory(200, 50e9, saw), "growing-memory");
}

/// State of one GPU in all of its samples.
#[derive(Clone, Copy)]
struct GpuState {
    clock_mhz: u32,
    utilization: u32,
    reasons: u64,
    /// Share of the samples that have these reasons, in percent.
    often: u64,
}

const AT_WORK: GpuState = GpuState {
    clock_mhz: 1980,
    utilization: 97,
    reasons: 0,
    often: 100,
};

/// Merges a job of one rank per GPU. Its run directory has 100 samples of each GPU on two hosts.
fn with_gpus(states: &[GpuState]) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts: Vec<&str> = (0..states.len())
        .map(|rank| if rank % 2 == 0 { "a" } else { "b" })
        .collect();
    let address = |rank: usize| format!("0000:{:02x}:00.0", 0x17 + rank);
    let mut logs = logs_on(folder.path(), &hosts);
    for (rank, log) in logs.iter_mut().enumerate() {
        log.property("device.0.address", &address(rank))
            .expect("property");
    }
    let job = Ddp {
        ranks: states.len() as u32,
        steps: 60,
        forward_ns: 1000 * MS,
        ..Ddp::default()
    };
    job.fill(&mut logs).expect("fill");
    logs.into_iter().for_each(|log| drop(log.end().expect("end")));
    for host in ["a", "b"] {
        let own: Vec<usize> = (0..states.len()).filter(|&rank| hosts[rank] == host).collect();
        let gpus = own.iter().map(|&rank| Gpu {
            address: format!("0000{}", address(rank).to_uppercase()),
            model: Some("H100".to_owned()),
            max_sm_clock_mhz: Some(1980),
            ..Gpu::default()
        });
        let header = Header {
            format: FORMAT.to_owned(),
            host: host.to_owned(),
            boot_id: Some(format!("boot-of-{host}")),
            time_namespace: Some("4026531834".to_owned()),
            gpus: gpus.collect(),
            ..Header::default()
        };
        let mut lines = vec![serde_json::to_string(&header).expect("JSON")];
        for number in 0..100_u64 {
            for (&rank, gpu) in own.iter().zip(0..) {
                let state = states[rank];
                let sample = Sample {
                    raw_ns: (START + MS + number * 500 * MS) as i64,
                    gpu,
                    utilization_percent: Some(state.utilization),
                    sm_clock_mhz: Some(state.clock_mhz),
                    throttle_reasons: Some(if number < state.often { state.reasons } else { 0 }),
                    ..Sample::default()
                };
                lines.push(serde_json::to_string(&sample).expect("JSON"));
            }
        }
        std::fs::write(
            folder.path().join(format!("gpus-{host}.jsonl")),
            lines.join("\n") + "\n",
        )
        .expect("a file");
    }
    let session = merged(folder.path());
    assert_eq!(session.problems.total, 0, "{:?}", session.problems);
    assert_eq!(session.gpus.len(), states.len());
    for (rank, gpu) in (0..).zip(&session.gpus) {
        assert_eq!((gpu.rank, gpu.samples), (Some(rank), 100));
    }
    session
}

#[test]
fn gpus_with_reduced_clocks_are_reported() {
    let hot = GpuState {
        reasons: throttle::THERMAL | throttle::HARDWARE,
        often: 6,
        ..AT_WORK
    };
    let session = with_gpus(&[AT_WORK, hot, AT_WORK, AT_WORK]);
    let finding = only(&session, "throttled-gpu");
    assert_eq!(
        (finding.severity, &finding.ranks[..]),
        (Severity::Warning, &[1][..])
    );
    assert!(
        finding.title.contains("throttled by temperature in up to 6 %"),
        "{}",
        finding.title
    );
    is_silent(&session, "slow-clock");
    // Near misses: rarely, idle, and another reason.
    let rarely = GpuState { often: 4, ..hot };
    is_silent(&with_gpus(&[AT_WORK, rarely, AT_WORK, AT_WORK]), "throttled-gpu");
    let idle = GpuState {
        utilization: 49,
        ..hot
    };
    is_silent(&with_gpus(&[AT_WORK, idle, AT_WORK, AT_WORK]), "throttled-gpu");
    // A power limit is a note, and only if it costs a tenth of the clock.
    let capped = |clock_mhz: u32| GpuState {
        reasons: throttle::POWER_CAP,
        clock_mhz,
        ..AT_WORK
    };
    is_silent(&with_gpus(&[capped(1800); 4]), "throttled-gpu");
    let session = with_gpus(&[capped(1700); 4]);
    let finding = only(&session, "throttled-gpu");
    assert_eq!((finding.severity, finding.ranks.len()), (Severity::Note, 4));
}

#[test]
fn a_gpu_with_a_lower_clock_than_its_peers_is_reported() {
    let slow = |clock_mhz: u32| GpuState { clock_mhz, ..AT_WORK };
    let session = with_gpus(&[AT_WORK, AT_WORK, slow(1500), AT_WORK]);
    let finding = only(&session, "slow-clock");
    assert_eq!(
        (finding.severity, &finding.ranks[..]),
        (Severity::Warning, &[2][..])
    );
    assert!(
        finding.title.contains("down to 76 % of the median"),
        "{}",
        finding.title
    );
    is_silent(&with_gpus(&[AT_WORK, AT_WORK, slow(1882), AT_WORK]), "slow-clock");
    is_silent(&with_gpus(&[AT_WORK, slow(1500)]), "slow-clock");
    is_silent(&with_gpus(&[slow(1500); 4]), "slow-clock");
    // The rank with the most work reaches its power limit, and has the lowest clock.
    let capped = GpuState {
        reasons: throttle::POWER_CAP,
        ..slow(1500)
    };
    is_silent(&with_gpus(&[AT_WORK, AT_WORK, capped, AT_WORK]), "slow-clock");
}
