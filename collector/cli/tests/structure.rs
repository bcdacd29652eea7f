//! Tests the structure of jobs with known ranks, stages and waits. Logs are written record by record from a small model
//! of a pipeline.

mod findings_support;

use findings_support::{is_silent, only};
use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::{MergeOptions, merge, merge_last};
use rankscope_fixtures::logs::pipeline::{Log, MS, Pipelined, WORLD, session_of};
use rankscope_fixtures::logs::{START, SyntheticLog, call};
use rankscope_formats::session::Severity;
use rankscope_formats::session::{InstanceState, OperationRow, Session, StepRow, TableReader, rank_path};
use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::Payload;
use rankscope_ranklog::record::{Record, RecordKind};

#[test]
fn stages_are_found_by_their_messages_and_wait_as_an_ideal_pipeline_does() {
    for (replicas, joins) in [(2, false), (1, false), (2, true), (1, true)] {
        let reduces = replicas > 1;
        let job = Pipelined {
            replicas,
            reduces,
            joins,
            ..Pipelined::default()
        };
        let (session, _folder) = session_of(&job);
        let case = format!("{replicas} replicas, joins {joins}: {:?}", session.structure);
        let structure = &session.structure[0];
        assert_eq!(structure.no_pipeline, None, "{case}");
        let [pipeline] = &structure.pipelines[..] else {
            panic!("{case}")
        };
        assert_eq!(
            pipeline.chains,
            [[0, 1, 2, 3], [4, 5, 6, 7]][..replicas],
            "{case}"
        );
        assert_eq!(pipeline.micro_batches.value, Some(8), "{case}");
        let ideal = pipeline.ideal_bubble.value.expect("an ideal");
        assert_eq!((ideal.numerator, ideal.denominator), (3, 11));
        for (number, stage) in pipeline.stages.iter().enumerate() {
            assert_eq!(stage.ranks, [number as u32, 4 + number as u32][..replicas]);
            // The last steps have no end.
            assert!(
                stage.steps + 3 >= job.steps as u64,
                "{} steps: {case}",
                stage.steps
            );
            let bubble = stage.bubble.value.expect("a bubble").share();
            // The stage's own work is 8 of 11 parts. With a barrier the last stage waits there for the last pass of the
            // first stage.
            let expected = if joins {
                0.0..3.0 / 11.0 + 0.02
            } else {
                3.0 / 11.0 - 0.03..3.0 / 11.0 + 0.03
            };
            assert!(expected.contains(&bubble), "stage {number}: {bubble}, {case}");
            let own = stage.own_rank_ns as f64 / stage.window_rank_ns as f64;
            assert!((own - 8.0 / 11.0).abs() < 0.03, "stage {number}: {own}, {case}");
        }
        assert!(
            pipeline.imbalance_per_step_ns.value.expect("known") < MS / 10,
            "{case}"
        );
        for silent in [
            "late-rank",
            "pipeline-imbalance",
            "rotating-lateness",
            "work-imbalance",
        ] {
            is_silent(&session, silent);
        }
        let role = |size: u32| {
            let of_size = session.communicators.iter().filter(|known| known.size == size);
            of_size
                .map(|known| (known.role.as_str(), known.role_source.as_str()))
                .next()
        };
        assert_eq!(role(4 * replicas as u32), Some(("world", "size")));
        if reduces {
            assert_eq!(role(2), Some(("data", "operations")), "{case}");
            assert_eq!(structure.peers, [[0, 4], [1, 5], [2, 6], [3, 7]]);
            assert_eq!(structure.peers_source, "data-groups");
        } else {
            assert_eq!(structure.peers_source, "stages");
        }
    }
}

#[test]
fn steps_have_the_same_numbers_on_all_stages() {
    let (session, folder) = session_of(&Pipelined::default());
    let mut starts: Vec<Vec<i64>> = Vec::new();
    for rank in 0..8 {
        let path = rank_path::<StepRow>(&folder.path().join("session"), rank);
        let rows = TableReader::<StepRow>::read_all(&path).expect("steps");
        let mut rows: Vec<(u32, i64)> = rows.into_iter().map(|row| (row.step.0, row.start_ns)).collect();
        rows.sort_unstable();
        starts.push(rows.into_iter().map(|(_, start)| start).collect());
    }
    let median = session.steps.median_ns.value.expect("steps");
    for rank in 1..8 {
        for (one, other) in starts[0].iter().zip(&starts[rank]) {
            assert!(
                (one - other).abs() < median / 2,
                "rank {rank}: {one} {other} of {median}"
            );
        }
    }
}

#[test]
fn a_heavier_stage_is_named_and_no_rank_is() {
    let job = Pipelined {
        forward_ns: vec![MS, MS, 2 * MS, MS],
        ..Pipelined::default()
    };
    let (session, _folder) = session_of(&job);
    let finding = only(&session, "pipeline-imbalance");
    assert_eq!(finding.subject.as_deref(), Some("stage 2 of 4"));
    assert_eq!(finding.ranks, [2, 6]);
    // 24 ms of work on three stages and 48 on the third: 7 / 8 of 48 − 30.
    let cost = finding.cost_of_step.value.expect("a cost").numerator;
    assert!((cost - 7 * 18 * MS / 8).abs() < MS, "{cost}");
    is_silent(&session, "late-rank");
}

#[test]
fn a_late_replica_is_named_and_its_stage_is_not() {
    let job = Pipelined {
        replicas: 3,
        late: Some((1, 1, 6 * MS)),
        ..Pipelined::default()
    };
    let (session, _folder) = session_of(&job);
    let late = only(&session, "late-rank");
    // Replica 1, stage 1 of 4.
    assert_eq!(late.ranks, [5]);
    let cost = late.cost_of_step.value.expect("a cost").numerator;
    assert!((3 * MS..=6 * MS + MS / 2).contains(&cost), "{cost}");
    is_silent(&session, "pipeline-imbalance");
}

/// A job of two ranks that reduce once in a step of 10 ms, and whose program marks parts of the step.
mod marked {
    use super::*;
    use rankscope_formats::session::{PauseKind, PauseRow, StepKind};
    use rankscope_ranklog::definition::KIND_TEXT;
    use rankscope_ranklog::marks::CHECKPOINT_SAVE;

    const TEXTS: [&str; 5] = [
        "tokens #",
        "load_data",
        CHECKPOINT_SAVE,
        "validation",
        "gc.collect",
    ];
    const TOKENS: u32 = 0;
    const INPUT: u32 = 1;
    const SAVE: u32 = 2;
    const VALIDATION: u32 = 3;
    const GARBAGE: u32 = 4;
    /// Lane of a thread that is neither a training thread nor the program's first thread.
    const BACKGROUND: u32 = 3;

    fn mark(text: u32, start: i64, length: i64) -> Record {
        Record {
            enter_ticks: start as u64,
            leave_ticks: (start + length) as u64,
            object: u64::from(text),
            ..Record::new(RecordKind::Mark)
        }
    }

    /// Merges a job with `marks` in each step: (text, start in the step, length), in ns. `more` lengthens a step.
    fn session(
        marks: impl Fn(usize) -> Vec<(u32, u32, i64, i64)>,
        more: impl Fn(usize) -> i64,
    ) -> (Session, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut logs: Vec<Log> = (0..2)
            .map(|rank| {
                let mut log = SyntheticLog::create(folder.path(), rank, 2, "host-a").expect("create");
                log.communicator(WORLD, rank, 2, 7).expect("communicator");
                for (number, text) in (0..).zip(TEXTS) {
                    let text = Payload::text(number, text.as_bytes());
                    log.definition(KIND_TEXT, text).expect("a text");
                }
                log
            })
            .collect();
        let mut at = START as i64 + MS;
        for step in 0..40 {
            let end = at + 9 * MS + more(step);
            for log in &mut logs {
                for (lane, text, from, length) in marks(step) {
                    let mut record = mark(text, at + from, length);
                    if text == TOKENS {
                        (record.tag, record.sequence) = (1, 1000);
                    }
                    log.push(lane, record);
                }
                let reduce = call(
                    Operation::AllReduce,
                    end as u64,
                    (end + MS) as u64,
                    step as u32,
                    1 << 20,
                    0,
                );
                log.push(0, reduce);
            }
            at = end + MS;
        }
        for log in logs {
            log.end().expect("end");
        }
        let options = MergeOptions {
            directories: vec![folder.path().to_path_buf()],
            output: folder.path().join("session"),
            threads: Some(2),
            most_pending: None,
            origins: Vec::new(),
        };
        (merge(&options, &mut |_| {}).expect("merge"), folder)
    }

    fn part(session: &Session, kind: PauseKind) -> Option<&rankscope_formats::session::NamedPart> {
        let entry = session.named_times.ranks.first()?;
        entry.parts.iter().find(|part| part.kind == kind.name())
    }

    #[test]
    fn marked_times_are_summed_by_rank_and_step_and_unmarked_kinds_are_not_zero() {
        let (session, folder) = session(
            |_| {
                vec![
                    (0, TOKENS, 0, 0),
                    (0, INPUT, MS, 2 * MS),
                    (BACKGROUND, SAVE, 2 * MS, 5 * MS),
                ]
            },
            |_| 0,
        );
        let steps = session.steps.count as i64;
        assert!(steps > 30, "{steps}");
        let input = part(&session, PauseKind::Input).expect("input");
        assert_eq!(input.in_steps_ns, steps * 2 * MS);
        // Before its first operation, a thread is not known to train unless it is the program's first.
        assert_eq!(
            (input.in_run_ns, input.elsewhere_ns, input.count),
            (39 * 2 * MS, 2 * MS, 40)
        );
        let save = part(&session, PauseKind::Checkpoint).expect("checkpoints");
        assert_eq!(
            (save.in_run_ns, save.elsewhere_ns),
            (0, 40 * 5 * MS),
            "written in the background"
        );
        let not_seen: Vec<&str> = session
            .named_times
            .not_seen
            .iter()
            .map(|kind| kind.kind.as_str())
            .collect();
        assert_eq!(
            not_seen,
            ["garbage-collection", "evaluation", "optimizer", "between-passes"]
        );

        let rows =
            TableReader::<PauseRow>::read_all(&rank_path::<PauseRow>(&folder.path().join("session"), 1));
        let rows = rows.expect("rows");
        assert_eq!(rows.len(), 80);
        let in_steps = rows
            .iter()
            .filter(|row| row.kind == PauseKind::Input && row.step.is_some());
        assert_eq!(in_steps.count() as i64, steps);

        let [tokens] = &session.steps.counted[..] else {
            panic!("{:?}", session.steps.counted)
        };
        assert_eq!(
            (tokens.what.as_str(), tokens.source.as_str()),
            ("tokens", "marks")
        );
        assert_eq!(tokens.total as i64, steps * 2 * 1000);
        assert!((tokens.per_step - 2000.0).abs() < 1e-9);
        // Steps of 10 ms.
        assert!(
            (tokens.per_second - 200_000.0).abs() < 1.0,
            "{}",
            tokens.per_second
        );

        let cost = &only(&session, "input-bound").cost_of_step;
        let cost = cost.value.expect("a cost");
        assert_eq!((cost.numerator, cost.denominator), (2 * MS, 10 * MS));
        // A checkpoint that is written in the background.
        is_silent(&session, "checkpoint-pause");
    }

    #[test]
    fn checkpoints_and_evaluation_on_training_threads_are_distinguished_from_training() {
        let (session, folder) = session(
            |step| match step {
                10 | 20 | 30 => vec![(0, SAVE, 8 * MS, 15 * MS)],
                15 | 25 => vec![(0, VALIDATION, 8 * MS, 60 * MS), (0, INPUT, 10 * MS, 4 * MS)],
                _ => Vec::new(),
            },
            |step| match step {
                10 | 20 | 30 => 15 * MS,
                15 | 25 => 60 * MS,
                _ => 0,
            },
        );
        assert_eq!(session.steps.other_kinds, 5);
        assert_eq!(
            session.steps.duration_ns.value.expect("steps").max as i64,
            10 * MS
        );
        let path = rank_path::<StepRow>(&folder.path().join("session"), 0);
        let rows = TableReader::<StepRow>::read_all(&path).expect("steps");
        let of = |kind: StepKind| rows.iter().filter(|row| row.kind == kind).count();
        assert_eq!((of(StepKind::Evaluate), of(StepKind::Checkpoint)), (2, 3));
        // Input inside evaluation counts as evaluation.
        assert_eq!(
            part(&session, PauseKind::Evaluation)
                .expect("evaluation")
                .in_run_ns,
            2 * 60 * MS
        );
        assert_eq!(part(&session, PauseKind::Input).expect("input").in_run_ns, 0);
        let checkpoint = only(&session, "checkpoint-pause");
        assert_eq!(checkpoint.cost_ns.value, Some(3 * 15 * MS));
        assert_eq!(only(&session, "evaluation-time").severity, Severity::Note);
        is_silent(&session, "input-bound");
    }

    /// Merges a job with one marked text of this length in each step of 10 ms. Its share of the run is about the same.
    fn each_step(text: u32, length: i64) -> Session {
        session(|_| vec![(0, text, MS, length)], |_| 0).0
    }

    #[test]
    fn garbage_collection_costs_what_it_takes_in_steps() {
        let session = each_step(GARBAGE, MS / 2);
        let cost = &only(&session, "garbage-collection").cost_of_step;
        let cost = cost.value.expect("a cost");
        assert_eq!((cost.numerator, cost.denominator), (MS / 2, 10 * MS));
        is_silent(&session, "input-bound");
    }

    /// Findings start at 2 %: 1.9 % gives no finding of any kind, 2.5 % gives one of each.
    #[test]
    fn a_little_named_time_is_no_finding() {
        let (little, more) = (19 * MS / 100, 25 * MS / 100);
        for (text, kind) in [
            (INPUT, PauseKind::Input),
            (SAVE, PauseKind::Checkpoint),
            (VALIDATION, PauseKind::Evaluation),
            (GARBAGE, PauseKind::GarbageCollection),
        ] {
            let session = each_step(text, little);
            assert!(part(&session, kind).is_some(), "{kind:?}");
            is_silent(&session, "input-bound");
            is_silent(&session, "checkpoint-pause");
            is_silent(&session, "evaluation-time");
            is_silent(&session, "garbage-collection");
        }
        only(&each_step(INPUT, more), "input-bound");
        only(&each_step(SAVE, more), "checkpoint-pause");
        only(&each_step(VALIDATION, more), "evaluation-time");
        only(&each_step(GARBAGE, more), "garbage-collection");
    }
}

mod rolled_up {
    use super::*;
    use rankscope_analysis::selection::rollup::{By, Group, rollup};
    use rankscope_report::heatmap::read_traffic;

    /// Every level adds up to all ranks together, and roles add up to the session's totals.
    #[test]
    fn sums_add_up_on_every_level() {
        let (session, folder) = session_of(&Pipelined {
            joins: true,
            ..Pipelined::default()
        });
        let moved = read_traffic(&folder.path().join("session")).expect("traffic");
        let figures = |group: &Group| {
            let known = |sum: &rankscope_analysis::selection::rollup::Sum| sum.0.value.expect("known");
            [
                group.operations as i64,
                group.window_rank_ns,
                known(&group.own_rank_ns),
                known(&group.exposed_communication_rank_ns),
                known(&group.exposed_wait_rank_ns),
                group.other_blocked_rank_ns,
                known(&group.communication_rank_ns),
                group.caused_exposed_rank_ns,
                group.sent_bytes as i64,
                group.received_bytes as i64,
                group.ranks.len() as i64,
            ]
        };
        for by in [By::Rank, By::Device, By::Host] {
            let sums = rollup(&session, &moved, by);
            let total = figures(sums.total.as_ref().expect("a total"));
            assert!(
                total[..5].iter().all(|&sum| sum > 0) && total[8] > 0,
                "{by:?}: {total:?}"
            );
            let mut added = [0; 11];
            for group in &sums.groups {
                for (sum, more) in added.iter_mut().zip(figures(group)) {
                    *sum += more;
                }
            }
            assert_eq!(added, total, "{by:?}");
            // The three parts are the windows.
            assert_eq!(total[2] + total[3] + total[5], total[1], "{by:?}");
        }
        assert_eq!(rollup(&session, &moved, By::Rank).groups.len(), 8);
        let total: i64 = session.breakdown.iter().map(|entry| entry.host_ns).sum();
        let host = &rollup(&session, &moved, By::Host).groups[0];
        assert_eq!(
            (host.own_rank_ns.0.value, host.name.as_str()),
            (Some(total), "host host-a")
        );
        let stalled = &host.stalled_rank_ns.0;
        assert!(
            stalled.value.is_none() && stalled.reason.is_some(),
            "no device was seen: {stalled:?}"
        );

        let roles = rollup(&session, &moved, By::Role).roles;
        let names: Vec<&str> = roles.iter().map(|role| role.role.as_str()).collect();
        assert_eq!(names, ["data", "world"]);
        assert_eq!(
            roles.iter().map(|role| role.operations).sum::<u64>(),
            session.totals.operations
        );
        let waited: i64 = roles.iter().map(|role| role.exposed_wait_rank_ns).sum();
        assert_eq!(waited, session.totals.exposed_wait_rank_ns);
        let bytes: Option<u64> = roles.iter().map(|role| role.bytes.value).sum();
        assert_eq!(bytes, Some(session.totals.bytes));
    }
}

/// Some messages are matched by counting from the start of the run. A part knows their times but not the other end.
/// Everything else in it is as in the whole run.
#[test]
fn messages_of_a_part_are_kept_and_no_rank_is_blamed_for_their_other_end() {
    let (whole, folder) = session_of(&Pipelined::default());
    assert_eq!(whole.matching.unmatched_messages, 0);
    let duration_ns = whole.axis.end_ns - whole.axis.start_ns;
    for divisor in [2, 3, 7] {
        let options = MergeOptions {
            directories: vec![folder.path().to_path_buf()],
            output: folder.path().join("session"),
            threads: Some(2),
            most_pending: None,
            origins: Vec::new(),
        };
        let last = Last {
            time_ns: Some(duration_ns / divisor + 12_345),
            ..Last::default()
        };
        let part = merge_last(&options, last, &mut |_| {}).expect("merge");
        let reported = part.part.as_ref().expect("a part");
        let matching = &part.matching;
        let wrong =
            matching.unmatched_messages + matching.incomplete + matching.mismatched + matching.without_key;
        assert_eq!(wrong, 0, "{matching:?}");
        let ranks = 0..part.ranks.len() as u32;
        let rows = ranks.flat_map(|rank| {
            let path = rank_path::<OperationRow>(&folder.path().join("session"), rank);
            TableReader::<OperationRow>::read_all(&path).expect("operations")
        });
        let alone = rows.filter(|row| row.matched == InstanceState::WithoutKey && row.instance.is_none());
        assert_eq!(alone.count() as u64, reported.left_out.messages);
        assert!(reported.left_out.messages > 100, "{:?}", reported.left_out);
        for finding in &part.findings {
            let is_known = whole.findings.iter().any(|known| known.kind == finding.kind);
            assert!(is_known, "{}", finding.title);
        }
    }
}
