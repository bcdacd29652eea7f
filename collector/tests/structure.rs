//! The structure of jobs whose ranks, stages and waits are known: logs written record by record from a small model of a
//! pipeline.

mod support;

use rankscope_collector::{MergeOptions, merge};
use rankscope_formats::ranklog::definition::{IdentitySource, KIND_COMMUNICATOR, Payload};
use rankscope_formats::ranklog::record::{Record, RecordKind};
use rankscope_formats::session::{Session, StepRow, TableReader, rank_path};
use rankscope_formats::{Library, Operation};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use support::{START, SyntheticLog, call};

type Log = SyntheticLog<BufWriter<File>>;

const MS: i64 = 1_000_000;
/// Communicators of each log: the world, and the replicas of its stage.
const WORLD: u32 = 0;
const STAGE: u32 = 1;

/// A pipeline of one forward and one backward pass of each micro-batch (one forward, one backward in the steady state),
/// in replicas that reduce their gradients at the end of each step. Numbers go through the stages first.
#[derive(Clone)]
struct Pipelined {
    stages: usize,
    replicas: usize,
    micro: usize,
    steps: usize,
    /// Forward pass of a micro-batch on a stage, ns; the backward pass takes twice as long.
    forward_ns: Vec<i64>,
    /// One more time in each step before the first forward pass: replica, stage, ns.
    late: Option<(usize, usize, i64)>,
    /// A barrier of all ranks ends each step.
    joins: bool,
    /// Replicas reduce gradients.
    reduces: bool,
}

impl Default for Pipelined {
    fn default() -> Self {
        Self {
            stages: 4,
            replicas: 2,
            micro: 8,
            steps: 40,
            forward_ns: vec![MS; 4],
            late: None,
            joins: false,
            reduces: true,
        }
    }
}

/// What a stage does one after the other.
#[derive(Clone, Copy)]
enum Pass {
    Forward(usize),
    Backward(usize),
}

impl Pipelined {
    fn rank(&self, replica: usize, stage: usize) -> usize {
        replica * self.stages + stage
    }

    /// One forward, one backward, after as many forward passes as there are stages behind.
    fn schedule(&self, stage: usize) -> Vec<Pass> {
        let warm_up = (self.stages - 1 - stage).min(self.micro);
        let mut passes: Vec<Pass> = (0..warm_up).map(Pass::Forward).collect();
        for batch in warm_up..self.micro {
            passes.push(Pass::Forward(batch));
            passes.push(Pass::Backward(batch - warm_up));
        }
        passes.extend((self.micro - warm_up..self.micro).map(Pass::Backward));
        passes
    }

    fn write(&self, directory: &Path) {
        let size = (self.stages * self.replicas) as u32;
        let mut logs: Vec<Log> = (0..size)
            .map(|rank| SyntheticLog::create(directory, rank, size, "host-a").expect("create"))
            .collect();
        for (rank, log) in (0..).zip(&mut logs) {
            log.communicator(WORLD, rank, size, 7).expect("communicator");
            let (replica, stage) = (rank / self.stages as u32, rank % self.stages as u32);
            let payload = Payload::communicator(
                STAGE,
                Library::Gloo,
                IdentitySource::KeyAndBlob,
                replica,
                self.replicas as u32,
                [50 + stage as u8; 16],
                START + 10,
                u32::MAX,
                format!("{}/0", stage + 1).as_bytes(),
            );
            if self.reduces {
                log.definition(KIND_COMMUNICATOR, payload).expect("communicator");
            }
        }
        let mut now = vec![START as i64 + MS; size as usize];
        // A first barrier, which makes the world's communicator one that was used.
        self.together(
            &(0..size as usize).collect::<Vec<_>>(),
            WORLD,
            0,
            &mut now,
            &mut logs,
        );
        for step in 0..self.steps {
            for replica in 0..self.replicas {
                self.step(replica, &mut now, &mut logs);
            }
            if self.reduces {
                for stage in 0..self.stages {
                    let ranks: Vec<usize> = (0..self.replicas)
                        .map(|replica| self.rank(replica, stage))
                        .collect();
                    self.together(&ranks, STAGE, step as u32, &mut now, &mut logs);
                }
            }
            if self.joins {
                let all: Vec<usize> = (0..size as usize).collect();
                self.together(&all, WORLD, 1 + step as u32, &mut now, &mut logs);
            }
        }
        for log in logs {
            log.end().expect("end");
        }
    }

    /// A collective of these ranks, in which each is blocked.
    fn together(&self, ranks: &[usize], communicator: u32, sequence: u32, now: &mut [i64], logs: &mut [Log]) {
        let last = ranks.iter().map(|&rank| now[rank]).max().unwrap_or(0);
        for &rank in ranks {
            let (operation, bytes) = match communicator {
                WORLD => (Operation::Barrier, 0),
                _ => (Operation::AllReduce, 1 << 16),
            };
            let mut record = call(operation, now[rank] as u64, (last + MS / 10) as u64, 0, bytes, 0);
            (record.communicator, record.sequence) = (communicator, sequence);
            logs[rank].push(0, record);
        }
        for &rank in ranks {
            now[rank] = last + MS / 10;
        }
    }

    /// One replica's step: events in the order in which their data come.
    fn step(&self, replica: usize, now: &mut [i64], logs: &mut [Log]) {
        let schedules: Vec<Vec<Pass>> = (0..self.stages).map(|stage| self.schedule(stage)).collect();
        let mut at = vec![0; self.stages];
        // When each message was sent: by stage that gets it and micro-batch.
        let mut down = vec![vec![None; self.micro]; self.stages];
        let mut up = vec![vec![None; self.micro]; self.stages];
        if let Some((late, stage, ns)) = self.late
            && late == replica
        {
            now[self.rank(replica, stage)] += ns;
        }
        while (0..self.stages).any(|stage| at[stage] < schedules[stage].len()) {
            for stage in 0..self.stages {
                while let Some(&pass) = schedules[stage].get(at[stage]) {
                    let rank = self.rank(replica, stage);
                    let (needs, next, takes) = match pass {
                        Pass::Forward(batch) => (
                            (stage > 0).then(|| (stage - 1, down[stage][batch])),
                            (stage + 1 < self.stages).then_some(stage + 1),
                            self.forward_ns[stage],
                        ),
                        Pass::Backward(batch) => (
                            (stage + 1 < self.stages).then(|| (stage + 1, up[stage][batch])),
                            stage.checked_sub(1),
                            2 * self.forward_ns[stage],
                        ),
                    };
                    if let Some((from, sent)) = needs {
                        let Some(sent): Option<i64> = sent else { break };
                        let come = sent.max(now[rank]) + 1_000;
                        message(
                            &mut logs[rank],
                            Operation::Receive,
                            self.rank(replica, from),
                            now[rank],
                            come,
                        );
                        now[rank] = come;
                    }
                    now[rank] += takes;
                    if let Some(to) = next {
                        message(
                            &mut logs[rank],
                            Operation::Send,
                            self.rank(replica, to),
                            now[rank],
                            now[rank] + 500,
                        );
                        let (table, Pass::Forward(batch) | Pass::Backward(batch)) = match pass {
                            Pass::Forward(_) => (&mut down, pass),
                            Pass::Backward(_) => (&mut up, pass),
                        };
                        table[to][batch] = Some(now[rank]);
                        now[rank] += 500;
                    }
                    at[stage] += 1;
                }
            }
        }
    }
}

/// A message's end: posted and waited for at once.
fn message(log: &mut Log, operation: Operation, peer: usize, enter: i64, leave: i64) {
    let post = Record {
        operation: operation as u8,
        enter_ticks: enter as u64,
        leave_ticks: enter as u64,
        peer: peer as i32,
        bytes: 1 << 12,
        object: 77,
        communicator: WORLD,
        ..Record::new(RecordKind::Post)
    };
    log.push(0, post);
    let complete = Record {
        operation: operation as u8,
        enter_ticks: enter as u64,
        leave_ticks: leave as u64,
        peer: peer as i32,
        object: 77,
        communicator: WORLD,
        ..Record::new(RecordKind::Complete)
    };
    log.push(0, complete);
}

fn session_of(job: &Pipelined) -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    job.write(folder.path());
    let options = MergeOptions {
        directories: vec![folder.path().to_path_buf()],
        output: folder.path().join("session"),
        threads: Some(2),
        most_pending: None,
    };
    let session = merge(&options, &mut |_| {}).expect("merge");
    (session, folder)
}

fn kinds(session: &Session) -> Vec<&str> {
    session
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

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
            // Its own work is 8 of 11 parts. With a barrier the last stage waits there for the first one's last pass.
            let wanted = if joins {
                0.0..3.0 / 11.0 + 0.02
            } else {
                3.0 / 11.0 - 0.03..3.0 / 11.0 + 0.03
            };
            assert!(wanted.contains(&bubble), "stage {number}: {bubble}, {case}");
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
            assert!(
                !kinds(&session).contains(&silent),
                "{silent}: {:?}",
                session.findings
            );
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
        let mut rows: Vec<(u32, i64)> = rows.into_iter().map(|row| (row.step, row.start_ns)).collect();
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
    let finding = session
        .findings
        .iter()
        .find(|finding| finding.kind == "pipeline-imbalance")
        .unwrap_or_else(|| panic!("{:?}", kinds(&session)));
    assert_eq!(finding.subject.as_deref(), Some("stage 2 of 4"));
    assert_eq!(finding.ranks, [2, 6]);
    // 24 ms of work on three stages and 48 on the third: 7 / 8 of 48 − 30.
    let cost = finding.cost_of_step.value.expect("a cost").numerator;
    assert!((cost - 7 * 18 * MS / 8).abs() < MS, "{cost}");
    assert!(!kinds(&session).contains(&"late-rank"), "{:?}", kinds(&session));
}

#[test]
fn a_late_replica_is_named_and_its_stage_is_not() {
    let job = Pipelined {
        replicas: 3,
        late: Some((1, 1, 6 * MS)),
        ..Pipelined::default()
    };
    let (session, _folder) = session_of(&job);
    let late: Vec<_> = session
        .findings
        .iter()
        .filter(|finding| finding.kind == "late-rank")
        .collect();
    assert_eq!(late.len(), 1, "{:?}", session.findings);
    // Replica 1, stage 1 of 4.
    assert_eq!(late[0].ranks, [5]);
    let cost = late[0].cost_of_step.value.expect("a cost").numerator;
    assert!((3 * MS..=6 * MS + MS / 2).contains(&cost), "{cost}");
    assert!(
        !kinds(&session).contains(&"pipeline-imbalance"),
        "{:?}",
        kinds(&session)
    );
}

/// A job of two ranks that reduce once a step of 10 ms, whose program marks parts of it.
mod marked {
    use super::*;
    use rankscope_formats::ranklog::definition::KIND_TEXT;
    use rankscope_formats::ranklog::marks::CHECKPOINT_SAVE;
    use rankscope_formats::session::{PauseKind, PauseRow, StepKind};

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
    /// Lane of a thread that neither trains nor is the program's first.
    const BACKGROUND: u32 = 3;

    fn mark(text: u32, start: i64, length: i64) -> Record {
        Record {
            enter_ticks: start as u64,
            leave_ticks: (start + length) as u64,
            object: u64::from(text),
            ..Record::new(RecordKind::Mark)
        }
    }

    /// `marks` of a step: (text, start in the step, length), all ns; `more` makes a step longer.
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
        };
        (merge(&options, &mut |_| {}).expect("merge"), folder)
    }

    fn part(session: &Session, kind: PauseKind) -> Option<&rankscope_formats::session::NamedPart> {
        let entry = session.named_times.ranks.first()?;
        entry.parts.iter().find(|part| part.kind == kind.name())
    }

    #[test]
    fn what_marks_name_is_summed_by_rank_and_step_and_what_nothing_names_is_not_zero() {
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
        // Before its first operation nothing says that a thread trains, unless it is the program's first.
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

        let found = session
            .findings
            .iter()
            .find(|finding| finding.kind == "input-bound");
        let cost = found.expect("input-bound").cost_of_step.value.expect("a cost");
        assert_eq!((cost.numerator, cost.denominator), (2 * MS, 10 * MS));
        assert!(!kinds(&session).contains(&"checkpoint-pause"));
    }

    #[test]
    fn checkpoints_and_evaluation_on_training_threads_are_told_apart_from_training() {
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
        // Input inside of evaluation is evaluation's.
        assert_eq!(
            part(&session, PauseKind::Evaluation)
                .expect("evaluation")
                .in_run_ns,
            2 * 60 * MS
        );
        assert_eq!(part(&session, PauseKind::Input).expect("input").in_run_ns, 0);
        let find = |kind: &str| session.findings.iter().find(|finding| finding.kind == kind);
        let checkpoint = find("checkpoint-pause").expect("checkpoints");
        assert_eq!(checkpoint.cost_ns.value, Some(3 * 15 * MS));
        assert_eq!(find("evaluation-time").expect("evaluation").severity, "note");
        assert!(find("input-bound").is_none());
    }

    #[test]
    fn a_little_input_is_no_finding() {
        let (session, _folder) = session(|_| vec![(0, INPUT, MS, MS / 10)], |_| 0);
        assert!(part(&session, PauseKind::Input).is_some());
        assert!(!kinds(&session).contains(&"input-bound"), "{:?}", kinds(&session));
    }
}

mod rolled_up {
    use super::*;
    use rankscope_collector::heatmap::read_traffic;
    use rankscope_collector::rollup::{By, Group, rollup};

    /// Every level adds up to all ranks together, and roles to the session's totals.
    #[test]
    fn sums_add_up_on_every_level() {
        let (session, folder) = session_of(&Pipelined {
            joins: true,
            ..Pipelined::default()
        });
        let moved = read_traffic(&folder.path().join("session")).expect("traffic");
        let figures = |group: &Group| {
            let known = |sum: &rankscope_collector::rollup::Sum| sum.0.value.expect("known");
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
