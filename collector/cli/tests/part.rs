//! Tests a merge of only the last part of a run.
//!
//! The part agrees with a merge of the whole run. Records that cross its start are counted, and are never reported as
//! faults.

use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::{MergeOptions, merge, merge_last};
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog, TRAINING, WORKER, blocked, call, execute, issue};
use rankscope_formats::ids::{CommunicatorId, StepIndex};
use rankscope_formats::session::{
    InstanceRow, InstanceState, OperationRow, Session, StepRow, TableReader, WorkClass, WorkKind, WorkRow,
    part_path, rank_path,
};
use rankscope_import::ImportOptions;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::BlockedIn;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A run that was merged as a whole, and a directory for parts of it.
struct Run {
    folder: TempDir,
    session: Session,
}

/// A session and its directory.
struct Merged {
    session: Session,
    path: PathBuf,
}

fn options(folder: &Path, name: &str) -> MergeOptions {
    MergeOptions {
        directories: vec![folder.join("run")],
        output: folder.join(name),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    }
}

impl Run {
    fn new(write: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder.path().join("run"));
        let session = merge(&options(folder.path(), "whole"), &mut |_| {}).expect("merged");
        assert_eq!(session.part, None);
        Self { folder, session }
    }

    fn of(job: &Ddp) -> Self {
        Self::new(|run| job.write(run).expect("written"))
    }

    fn whole(&self) -> Merged {
        Merged {
            session: self.session.clone(),
            path: self.folder.path().join("whole"),
        }
    }

    fn last(&self, last: Last) -> Merged {
        let options = options(self.folder.path(), "part");
        Merged {
            session: merge_last(&options, last, &mut |_| {}).expect("merged"),
            path: options.output,
        }
    }

    fn last_ns(&self, ns: i64) -> Merged {
        self.last(Last {
            time_ns: Some(ns),
            ..Last::default()
        })
    }

    fn last_records(&self, records: u64) -> Merged {
        self.last(Last {
            records: Some(records),
            ..Last::default()
        })
    }

    fn duration_ns(&self) -> i64 {
        self.session.axis.end_ns - self.session.axis.start_ns
    }
}

impl Merged {
    fn operations(&self) -> Vec<(u32, OperationRow)> {
        let ranks = 0..self.session.ranks.len() as u32;
        ranks
            .flat_map(|rank| {
                let rows = TableReader::read_all(&rank_path::<OperationRow>(&self.path, rank));
                rows.expect("operations").into_iter().map(move |row| (rank, row))
            })
            .collect()
    }

    fn instances(&self) -> Vec<InstanceRow> {
        TableReader::read_all(&part_path::<InstanceRow>(&self.path)).expect("instances")
    }

    fn steps(&self) -> Vec<(u32, StepRow)> {
        let ranks = 0..self.session.ranks.len() as u32;
        ranks
            .flat_map(|rank| {
                let rows = TableReader::read_all(&rank_path::<StepRow>(&self.path, rank));
                rows.expect("steps").into_iter().map(move |row| (rank, row))
            })
            .collect()
    }

    fn kinds(&self) -> BTreeSet<String> {
        let findings = self.session.findings.iter();
        findings.map(|finding| finding.kind.clone()).collect()
    }
}

type Name = (CommunicatorId, Operation, u32, u32);

fn name(row: &InstanceRow) -> Name {
    (row.communicator, row.operation, row.tag, row.sequence)
}

fn same<T: PartialEq + std::fmt::Debug>(these: &[T], those: &[T]) {
    for (at, (this, that)) in these.iter().zip(those).enumerate() {
        assert_eq!(this, that, "number {at}");
    }
    assert_eq!(these.len(), those.len());
}

/// Asserts that the part agrees with the whole, contains nothing else, and counts all other records that it has read.
fn holds(whole: &Merged, part: &Merged) {
    let reported = part.session.part.as_ref().expect("a part");
    let from_ns = reported.from_ns;
    assert_eq!(
        part.session.axis.origin_unix_ns,
        whole.session.axis.origin_unix_ns
    );
    assert_eq!(part.session.axis.end_ns, whole.session.axis.end_ns);
    assert!(part.session.axis.start_ns >= from_ns);
    let begin = |row: &OperationRow| row.issue_ns.unwrap_or(row.enter_ns).min(row.enter_ns);
    let whole_operations = whole.operations();
    let mut start_of: BTreeMap<Name, i64> = BTreeMap::new();
    let mut of_whole = BTreeMap::new();
    for (rank, row) in &whole_operations {
        let name = (
            row.communicator.expect("a communicator"),
            row.operation,
            row.tag,
            row.sequence,
        );
        let first = start_of.entry(name).or_insert(i64::MAX);
        *first = (*first).min(begin(row));
        of_whole.insert((*rank, name), row.clone());
    }
    // The part has exactly the instances that all members issued in the part, each as in the whole.
    let (all, mut instances) = (whole.instances(), part.instances());
    let mut expected: Vec<InstanceRow> = all
        .into_iter()
        .filter(|row| start_of[&name(row)] >= from_ns)
        .collect();
    assert!(!expected.is_empty(), "the part is empty");
    for rows in [&mut expected, &mut instances] {
        rows.sort_by_key(|row| (row.tag, row.sequence, row.operation as u8));
        for row in rows.iter_mut() {
            (row.instance, row.step) = (0, None);
        }
    }
    same(&instances, &expected);
    // The part has the steps that all ranks start in it, with its own numbers. A step is missing if the operation that
    // ends the previous step was issued before the part.
    let (steps, whole_steps) = (part.steps(), whole.steps());
    let first = |rows: &[(u32, StepRow)], from_ns: i64| {
        let before = rows.iter().filter(|(_, row)| row.start_ns < from_ns);
        before.map(|(_, row)| row.step.0 + 1).max().unwrap_or(0)
    };
    let first_step = first(&whole_steps, from_ns);
    let start_ns = steps
        .iter()
        .map(|(_, row)| row.start_ns)
        .min()
        .unwrap_or(i64::MAX);
    let of_run = whole_steps.iter().filter(|(_, row)| row.start_ns >= start_ns);
    let of_run = of_run.map(|(_, row)| row.step.0).min().unwrap_or(0);
    assert!(
        (first_step..=first_step + 2).contains(&of_run),
        "from step {of_run}, not {first_step}"
    );
    let of_part = steps.iter().map(|(_, row)| row.step.0).min().unwrap_or(0);
    let shift = of_run - of_part;
    let renumbered = |rows: Vec<(u32, StepRow)>, shift: u32| -> Vec<(u32, StepRow)> {
        let moved = |(rank, row): (u32, StepRow)| {
            let step = StepIndex(row.step.0 + shift);
            (rank, StepRow { step, ..row })
        };
        rows.into_iter().map(moved).collect()
    };
    let expected: Vec<(u32, StepRow)> = whole_steps
        .into_iter()
        .filter(|(_, row)| row.step.0 >= of_run)
        .collect();
    same(&renumbered(steps, shift), &expected);
    let operations = part.operations();
    assert_eq!(part.session.totals.operations, operations.len() as u64);
    for (rank, row) in operations {
        let key = (
            rank,
            (
                row.communicator.expect("a communicator"),
                row.operation,
                row.tag,
                row.sequence,
            ),
        );
        let of_whole = &of_whole[&key];
        if let Some(step) = row.step {
            assert_eq!(Some(StepIndex(step.0 + shift)), of_whole.step, "{row:?}");
        }
        let known = OperationRow {
            instance: of_whole.instance,
            step: of_whole.step,
            ..row
        };
        assert_eq!(known, *of_whole);
    }
    // Only operations that cross the start are counted. Members that ended before the start may not have been read.
    let reaches = |row: &OperationRow| row.leave_ns.is_none_or(|leave| leave >= from_ns);
    let mut reaching: BTreeMap<Name, u64> = BTreeMap::new();
    let mut all: BTreeMap<Name, u64> = BTreeMap::new();
    for ((_, name), row) in &of_whole {
        if start_of[name] < from_ns {
            *reaching.entry(*name).or_default() += u64::from(reaches(row));
            *all.entry(*name).or_default() += 1;
        }
    }
    reaching.retain(|_, reaching| *reaching > 0);
    assert_eq!(
        reported.left_out.instances,
        reaching.len() as u64,
        "{:?}",
        reported.left_out
    );
    let least: u64 = reaching.values().sum();
    let most: u64 = reaching.keys().map(|name| all[name]).sum();
    assert!(
        (least..=most).contains(&reported.left_out.operations),
        "{:?}",
        reported.left_out
    );
    let known = whole.kinds();
    let new: Vec<String> = part.kinds().difference(&known).cloned().collect();
    assert!(new.is_empty(), "only in the part: {new:?}");
    assert_eq!(
        part.session.matching.mismatched,
        whole.session.matching.mismatched
    );
    assert!(part.session.matching.without_key <= whole.session.matching.without_key);
    assert!(
        part.session
            .breakdown
            .iter()
            .all(|rank| rank.adds_up || rank.steps == 0)
    );
}

#[test]
fn a_part_agrees_with_the_whole_session() {
    let run = Run::of(&Ddp {
        steps: 4000,
        slow: Some((2, 150_000)),
        noise: 7,
        ..Ddp::default()
    });
    let whole = run.whole();
    let duration = run.duration_ns();
    // Starts at any place of a step, near watermarks and far from them.
    for ns in [
        duration / 50,
        duration / 7,
        duration / 3 + 1_234_567,
        duration / 2 + 77_777,
        duration * 9 / 10,
    ] {
        let part = run.last_ns(ns);
        holds(&whole, &part);
        let reported = part.session.part.as_ref().expect("a part");
        let begin = part.session.axis.end_ns - reported.from_ns;
        assert!((ns - 2..=ns).contains(&begin), "{begin} of {ns}");
        let share = part.session.totals.operations as f64 / whole.session.totals.operations as f64;
        assert!((share - ns as f64 / duration as f64).abs() < 0.01, "{share}");
        assert!(part.session.steps.count > 0 && part.session.steps.source == "pattern");
    }
}

#[test]
fn last_records_limits_the_number_of_records() {
    let run = Run::of(&Ddp {
        steps: 6000,
        ..Ddp::default()
    });
    let whole = run.whole();
    let all = whole.session.totals.records;
    for most in [all / 20, all / 6, all / 2] {
        let part = run.last_records(most);
        holds(&whole, &part);
        let read = part.session.totals.records;
        assert!(
            (most * 19 / 20..=most * 21 / 20).contains(&read),
            "{read} of {most}"
        );
    }
    // Even for one record there are some operations, and for all records the result is no part.
    let part = run.last_records(1);
    assert!(part.session.part.is_some() && part.session.totals.operations > 0);
    assert_eq!(run.last_records(all).session.part, None);
    assert_eq!(run.last_ns(2 * run.duration_ns()).session.part, None);
    // If both limits are given, the shorter one counts.
    let both = run.last(Last {
        time_ns: Some(run.duration_ns() / 100),
        records: Some(all / 2),
    });
    holds(&whole, &both);
    let reported = both.session.part.expect("a part");
    assert!(both.session.axis.end_ns - reported.from_ns <= run.duration_ns() / 100);
}

/// Operations of two ranks, with steps between them. The last operations cross the start of the part in every possible
/// way.
struct Pair {
    logs: [SyntheticLog<std::io::BufWriter<std::fs::File>>; 2],
    now: u64,
    tag: u32,
}

impl Pair {
    fn create(run: &Path) -> Self {
        let logs = [0, 1].map(|rank| {
            let mut log = SyntheticLog::create(run, rank, 2, "host-a").expect("created");
            log.communicator(0, rank, 2, 9).expect("a communicator");
            log
        });
        Self {
            logs,
            now: START + 1_000_000,
            tag: 0,
        }
    }

    /// Writes one work with the times at which each rank issued, entered and left it. `None`: the rank has no record of
    /// it.
    fn work(&mut self, operation: Operation, times: [Option<(u64, u64, u64)>; 2]) {
        let work = 0x7F00_0000_0000 + u64::from(self.tag) * 512;
        for (log, times) in self.logs.iter_mut().zip(times) {
            let Some((issued, enter, leave)) = times else {
                continue;
            };
            log.push(TRAINING.0, issue(operation, issued, work));
            let mut record = call(operation, enter, leave, self.tag, 4096, work);
            if operation == Operation::Broadcast {
                record.peer = 0;
            }
            log.push(WORKER.0, record);
            log.push(WORKER.0, execute(enter, leave, work));
            log.push(
                TRAINING.0,
                blocked(BlockedIn::WorkWait, issued + 10, leave + 20, work),
            );
            self.now = self.now.max(leave + 20);
        }
        self.tag += 1;
    }

    /// Writes steps of a millisecond that both ranks do at the same time, with a watermark after each.
    fn steps(&mut self, count: u32) {
        for _ in 0..count {
            let at = self.now + 900_000;
            let times = Some((at, at + 1_000, at + 100_000));
            self.work(Operation::AllReduce, [times, times]);
            self.flush();
        }
    }

    fn flush(&mut self) {
        for log in &mut self.logs {
            log.flush(self.now + 1).expect("flushed");
        }
    }

    fn end(self) {
        for log in self.logs {
            log.end().expect("ended");
        }
    }
}

fn unfinished(session: &Session) -> (u64, u64, u64) {
    let matching = &session.matching;
    (
        matching.incomplete,
        matching.mismatched,
        matching.unmatched_messages,
    )
}

/// One operation of each kind crosses the start of the part. One has a rank that issued before and a rank that issued
/// after the start. One has a root that was done long before, and one has waited since before the start.
#[test]
fn operations_across_the_start_of_the_part_are_left_out() {
    let mut cut = 0;
    let run = Run::new(|run| {
        let mut pair = Pair::create(run);
        pair.steps(40);
        let at = pair.now;
        cut = at + 5_000_000;
        let (before, after) = (at + 4_000_000, at + 6_000_000);
        // The root leaves the broadcast long before the other rank issues it: nothing of the root is read.
        let broadcast = pair.tag;
        let root = Some((before - 3_000, before - 2_000, before - 1_000));
        pair.work(Operation::Broadcast, [root, None]);
        pair.logs[0].flush(before - 500).expect("flushed");
        // Issued before the start, done after it.
        let times = Some((before, before + 500, after + 500));
        pair.work(Operation::AllReduce, [times, times]);
        // Rank 0 issued before and entered after the start. Rank 1 did everything after it.
        pair.work(
            Operation::AllReduce,
            [
                Some((before + 1_000, after + 1_000, after + 9_000)),
                Some((after + 2_000, after + 3_000, after + 9_000)),
            ],
        );
        let next = std::mem::replace(&mut pair.tag, broadcast);
        let other = Some((after + 20_000, after + 21_000, after + 22_000));
        pair.work(Operation::Broadcast, [None, other]);
        pair.tag = next;
        // Both ranks issue after the start: the operation is in the part, although rank 1 is late.
        pair.work(
            Operation::AllReduce,
            [
                Some((after + 30_000, after + 31_000, after + 900_000)),
                Some((after + 800_000, after + 801_000, after + 900_000)),
            ],
        );
        pair.flush();
        pair.steps(40);
        pair.end();
    });
    let whole = run.whole();
    assert_eq!(unfinished(&whole.session), (0, 0, 0));
    let end = run.session.axis.origin_unix_ns + run.session.axis.end_ns;
    let cut_unix_ns = cut as i64 + 1_700_000_000_000_000_000;
    let part = run.last_ns(end - cut_unix_ns);
    holds(&whole, &part);
    assert_eq!(unfinished(&part.session), (0, 0, 0));
    let reported = part.session.part.as_ref().expect("a part");
    assert_eq!(reported.left_out.instances, 3, "{:?}", reported.left_out);
    assert_eq!(reported.left_out.operations, 5, "{:?}", reported.left_out);
    let late = part
        .instances()
        .into_iter()
        .find(|row| row.tag == 43)
        .expect("the late one");
    assert_eq!(late.state, InstanceState::Complete);
    // Rank 0 is blocked from 10 ns after its issue on.
    assert_eq!(late.exposed_wait_rank_ns, Some(769_990));
    assert!(part.session.ranks.iter().all(|rank| rank.in_flight.is_empty()));
}

/// A rank is killed long before the part starts. The other one continues alone and waits for it in vain at the end.
#[test]
fn a_rank_killed_before_the_part_is_reported_once() {
    let run = Run::new(|run| {
        let mut pair = Pair::create(run);
        pair.steps(40);
        // Rank 1 is in an all-reduce when it dies.
        let at = pair.now + 1_000;
        let call_of = |tag: u32, enter: u64| call(Operation::AllReduce, enter, 0, tag, 4096, 0);
        let [mut first, mut second] = pair.logs;
        second
            .in_flight(&[(TRAINING.0, TRAINING.1, call_of(40, at))])
            .expect("in flight");
        second.end().expect("ended");
        // Rank 0 works alone for 40 ms and records blocked times.
        for number in 0..400u64 {
            let enter = at + 100_000 * (number + 1);
            first.push(
                TRAINING.0,
                blocked(BlockedIn::ProcessGroup, enter, enter + 10_000, 0),
            );
            if number % 10 == 0 {
                first.flush(enter + 10_001).expect("flushed");
            }
        }
        let enter = at + 100_000 * 401;
        first
            .in_flight(&[(TRAINING.0, TRAINING.1, call_of(40, enter))])
            .expect("in flight");
        first.end().expect("ended");
    });
    let whole = run.whole();
    assert_eq!(whole.session.matching.incomplete, 1);
    assert!(whole.kinds().contains("never-finished"));
    assert_eq!(
        whole
            .session
            .ranks
            .iter()
            .filter(|rank| !rank.in_flight.is_empty())
            .count(),
        2
    );
    let part = run.last_ns(10_000_000);
    let reported = part.session.part.as_ref().expect("a part");
    // The instance is left out because one member called before the part. Rank 0 is nevertheless in flight in it, and
    // the part reports that.
    assert_eq!(part.session.totals.operations, 0);
    assert_eq!(
        (reported.left_out.instances, reported.left_out.operations),
        (1, 2),
        "{:?}",
        reported.left_out
    );
    assert_eq!(unfinished(&part.session), (0, 0, 0));
    let stuck: Vec<u32> = part
        .session
        .ranks
        .iter()
        .filter(|rank| !rank.in_flight.is_empty())
        .map(|rank| rank.index)
        .collect();
    assert_eq!(stuck, [0]);
    assert!(part.kinds().is_subset(&whole.kinds()), "{:?}", part.kinds());
    assert_eq!(part.session.coverage.ranks_seen, 2);
}

/// A rank that dies in the part is reported as in the whole.
#[test]
fn a_rank_that_dies_in_the_part_is_reported_missing() {
    let run = Run::new(|run| {
        let mut pair = Pair::create(run);
        pair.steps(80);
        let at = pair.now + 500_000;
        pair.work(Operation::AllReduce, [Some((at, at + 1_000, at + 50_000)), None]);
        pair.end();
    });
    let whole = run.whole();
    assert_eq!(unfinished(&whole.session), (1, 0, 0));
    let part = run.last_ns(20_000_000);
    holds(&whole, &part);
    assert_eq!(unfinished(&part.session), (1, 0, 0));
    assert_eq!(
        part.session.matching.incomplete_reasons,
        whole.session.matching.incomplete_reasons
    );
}

#[test]
fn several_hosts_have_one_part() {
    let run = Run::of(&Ddp {
        ranks: 4,
        hosts: 2,
        steps: 4000,
        noise: 5,
        slow: Some((3, 100_000)),
        ..Ddp::default()
    });
    let part = run.last_ns(run.duration_ns() / 4);
    let reported = part.session.part.as_ref().expect("a part");
    assert_eq!(unfinished(&part.session), (0, 0, 0));
    let share = part.session.totals.operations as f64 / run.session.totals.operations as f64;
    assert!((share - 0.25).abs() < 0.01, "{share}");
    assert!(reported.left_out.instances < 8, "{:?}", reported.left_out);
    assert!(part.kinds().is_subset(&run.whole().kinds()), "{:?}", part.kinds());
}

/// A rank without a log has nothing before the part either. The operations of the others are incomplete, as in the
/// whole, and not left out.
#[test]
fn a_rank_without_a_log_does_not_empty_the_part() {
    let run = Run::new(|run| {
        let job = Ddp {
            ranks: 4,
            hosts: 2,
            steps: 400,
            ..Ddp::default()
        };
        job.write(run).expect("written");
        let logs = std::fs::read_dir(run).expect("the run").flatten();
        let mut logs: Vec<PathBuf> = logs.map(|entry| entry.path()).collect();
        logs.sort();
        std::fs::remove_file(&logs[3]).expect("removed");
    });
    assert_eq!(run.session.matching.complete, 0);
    let part = run.last_ns(run.duration_ns() / 4);
    let share = part.session.totals.operations as f64 / run.session.totals.operations as f64;
    assert!((share - 0.25).abs() < 0.02, "{share}");
    let reported = part.session.part.as_ref().expect("a part");
    assert!(reported.left_out.instances < 8, "{:?}", reported.left_out);
    assert!(part.session.matching.incomplete > 0);
    assert_eq!(
        part.session.matching.incomplete_reasons[0].reason,
        run.session.matching.incomplete_reasons[0].reason
    );
}

/// Sums over devices of an imported trace are those of the part's tables.
#[test]
fn sums_of_devices_cover_only_the_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hta");
    let import = ImportOptions {
        files: vec![fixtures.join("fsdp_rank3.json.gz")],
        output: folder.path().join("run"),
        ..ImportOptions::default()
    };
    rankscope_import::kineto(&import, &|_| {}).expect("imported");
    let last = Last {
        time_ns: Some(200_000_000),
        ..Last::default()
    };
    let part = options(folder.path(), "part");
    let session = merge_last(&part, last, &mut |_| {}).expect("merged");
    let reported = session.part.as_ref().expect("a part");
    // The end is known from a watermark, one tick after the last record.
    assert!((session.axis.end_ns - 200_000_000).abs_diff(reported.from_ns) <= 1);
    assert!(session.totals.operations > 0 && session.steps.count > 0);
    let works: Vec<WorkRow> = TableReader::read_all(&rank_path::<WorkRow>(&part.output, 0)).expect("works");
    let of = |kind: WorkKind, class: Option<WorkClass>| -> u64 {
        let is_one = |row: &&WorkRow| row.kind == kind && class.is_none_or(|class| row.class == class);
        works.iter().filter(is_one).count() as u64
    };
    let activity = &session.activity[0];
    let communication = of(WorkKind::Kernel, Some(WorkClass::Communication));
    assert!(communication > 0);
    assert_eq!(
        (activity.kernels, activity.communication_kernels),
        (of(WorkKind::Kernel, None) - communication, communication)
    );
    assert_eq!(activity.copies, of(WorkKind::Copy, None));
    assert_eq!(activity.sets, of(WorkKind::Set, None));
    let launched = works.iter().filter(|row| row.launch_start_ns.is_some()).count();
    assert_eq!(activity.with_launch, launched as u64);
    assert!(activity.covered_ns <= 200_000_000, "{}", activity.covered_ns);
    let counted: u64 = activity.top.iter().map(|kernel| kernel.count).sum();
    assert!(counted <= of(WorkKind::Kernel, None));
}

/// A rank that starts in the part has no time before its start.
#[test]
fn a_rank_that_starts_in_the_part_has_no_time_before_its_start() {
    let run = Run::new(|run| {
        let pair = Pair::create(run);
        let at = pair.now;
        let [mut first, second] = pair.logs;
        for number in 0..1000u64 {
            let enter = at + 100_000 * number;
            first.push(
                TRAINING.0,
                blocked(BlockedIn::ProcessGroup, enter, enter + 10_000, 0),
            );
        }
        first.flush(at + 100_000_000).expect("flushed");
        first.end().expect("ended");
        second.end().expect("ended");
        let begin = START + 90_000_000;
        let file = std::fs::File::create(run.join("late.rslog")).expect("a file");
        let mut late = SyntheticLog::new_at(file, (2, 3), "host-a", (0, 0), begin).expect("a log");
        late.push(
            TRAINING.0,
            blocked(BlockedIn::ProcessGroup, begin + 1_000, begin + 2_000, 0),
        );
        late.flush(begin + 3_000).expect("flushed");
        late.end().expect("ended");
    });
    let part = run.last_ns(50_000_000);
    let late = part.session.breakdown.iter().map(|rank| rank.window_ns).min();
    assert!(late.is_some_and(|window_ns| window_ns <= 10_000), "{late:?}");
}

/// Two attempts of two ranks in flight mode. Of each, operations before its own start were dropped on rank 0 only.
#[test]
fn attempts_in_flight_mode_start_where_each_has_all_records() {
    const MS: u64 = 1_000_000;
    const OPERATIONS: u64 = 100;
    let folder = tempfile::tempdir().expect("a folder");
    for restart in 0..2u8 {
        let start = START + u64::from(restart) * 60_000 * MS;
        let at = |number: u64| start + number * 10 * MS;
        for rank in 0..2 {
            let name = folder.path().join("run").join(format!("attempt-{restart}"));
            std::fs::create_dir_all(&name).expect("a directory");
            let file = std::fs::File::create(name.join(format!("rank-{rank}.rslog"))).expect("a file");
            let (nonce, process) = (
                (u64::from(restart) << 8) | (u64::from(rank) + 1),
                1 + u32::from(restart),
            );
            let mut log = SyntheticLog::new_of(file, rank, 2, "host", nonce, process).expect("a log");
            log.property("env.TORCHELASTIC_RUN_ID", "job-7").expect("written");
            log.property("env.TORCHELASTIC_RESTART_COUNT", &restart.to_string())
                .expect("written");
            log.property("flight", "area").expect("written");
            // Rank 0 has dropped more than rank 1.
            let first = if rank == 0 { 40 } else { 10 };
            log.property("flight_from_ticks", &at(first).to_string())
                .expect("written");
            log.communicator(0, rank, 2, restart + 1).expect("communicator");
            for number in first..OPERATIONS {
                let enter = at(number);
                let record = call(Operation::AllReduce, enter, enter + MS, number as u32, 4096, 0);
                log.push(TRAINING.0, record);
            }
            log.flush(at(OPERATIONS)).expect("flushed");
            log.end().expect("written");
        }
    }
    let session = merge(&options(folder.path(), "whole"), &mut |_| {}).expect("merged");
    let operations: Vec<(u32, u64)> = session
        .ranks
        .iter()
        .map(|rank| (rank.attempt, rank.operations))
        .collect();
    // The first operation entered at the start itself.
    assert!(
        operations
            .iter()
            .all(|&(_, operations)| (59..=60).contains(&operations)),
        "{operations:?}"
    );
    assert_eq!(
        operations
            .iter()
            .map(|&(attempt, _)| attempt)
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
    assert_eq!(session.matching.incomplete, 0, "{:?}", session.matching);
}
