//! Tests merges in periods: together they are the whole run, and a run that has grown is merged like one that was complete.

use rankscope_analysis::merge;
use rankscope_analysis::merge::in_periods::{PeriodOptions, merge_in_periods};
use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::merge::units::parts::attempt_path;
use rankscope_analysis::merge::units::unit::run_unit;
use rankscope_fixtures::logs::kernels;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog};
use rankscope_fixtures::periods::{LATER, SECOND_NS, every, in_periods, options};
use rankscope_fixtures::session_files::{assert_same, files};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::{
    CommunicatorSummary, CounterRow, InstanceRow, OperationRow, PauseRow, Period, PeriodCut, Periods,
    ProgramSpanRow, SUMMARY_FILE, Session, SpanKind, SpanRow, StepRow, Table, TableReader, WorkRow,
    part_path, rank_path,
};
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::RecordKind;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Numbers of a session's ranks and communicators in the whole run. A period only numbers those that existed in it.
struct Numbers {
    ranks: Vec<u32>,
    communicators: Vec<CommunicatorId>,
}

impl Numbers {
    fn of(session: &Session, whole: &Session) -> Self {
        let ranks = session.ranks.iter().map(|rank| {
            let mut all = whole.ranks.iter();
            let found = all.find(|other| other.log == rank.log);
            found.expect("a rank of the whole run").index
        });
        let communicators = session.communicators.iter().map(|communicator| {
            let same = |other: &&CommunicatorSummary| {
                (&other.identity, &other.name) == (&communicator.identity, &communicator.name)
            };
            let mut found = whole.communicators.iter().filter(same);
            let number = found.next().expect("a communicator of the whole run").index;
            assert!(found.next().is_none(), "{} is listed twice", communicator.name);
            CommunicatorId(number)
        });
        Self {
            ranks: ranks.collect(),
            communicators: communicators.collect(),
        }
    }

    fn communicator(&self, id: CommunicatorId) -> CommunicatorId {
        self.communicators[id.0 as usize]
    }
}

/// Returns the rows of all ranks of a session, with the ranks' numbers in the whole run.
fn rows_of<T: Table>(path: &Path, session: &Session, numbers: &Numbers) -> Vec<(u32, T)> {
    let ranks = 0..session.ranks.len() as u32;
    // Ranks without spans of programs have no such table.
    let of_rank = |rank| match rank_path::<T>(path, rank) {
        path if path.exists() => TableReader::read_all(&path).expect("rows"),
        _ => Vec::new(),
    };
    ranks
        .flat_map(|rank| {
            let number = numbers.ranks[rank as usize];
            of_rank(rank).into_iter().map(move |row| (number, row))
        })
        .collect()
}

/// A run, its session as a whole, and its periods.
struct Merged {
    folder: TempDir,
    whole: Session,
    periods: Periods,
}

impl Merged {
    fn of(length_ns: i64, write: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        write(&run);
        let whole = merge(&options(&run, &folder.path().join("whole")), &mut |_| {}).expect("merged");
        let periods = in_periods(&run, &folder.path().join("session"), length_ns, LATER);
        assert!(periods.periods.iter().all(|period| period.is_final));
        Self {
            folder,
            whole,
            periods,
        }
    }

    fn sessions(&self) -> Vec<(PathBuf, Session)> {
        let path = |period: &Period| period.path(&self.folder.path().join("session"));
        let sessions = self.periods.periods.iter().map(path);
        sessions
            .map(|path| (path.clone(), Session::read(&path).expect("a session")))
            .collect()
    }

    /// Returns the path and the description of the whole run, and those of its periods.
    fn both(&self) -> [Vec<(PathBuf, Session)>; 2] {
        let whole = (self.folder.path().join("whole"), self.whole.clone());
        [vec![whole], self.sessions()]
    }

    /// Returns the rows of all ranks in the whole run, and in its periods.
    fn rows<T: Table>(&self) -> [Vec<(u32, T)>; 2] {
        let of =
            |(path, session): &(PathBuf, Session)| rows_of(path, session, &Numbers::of(session, &self.whole));
        self.both().map(|sessions| sessions.iter().flat_map(of).collect())
    }

    /// Asserts that the rows of the periods are those of the whole run. `known` makes rows comparable, and returns no text for rows
    /// that are not compared.
    fn assert_rows<T: Table + Debug>(&self, known: impl Fn(&T, &Numbers) -> String) {
        let [whole, parts] = self.both().map(|sessions| {
            let mut texts = Vec::new();
            for (path, session) in &sessions {
                let numbers = Numbers::of(session, &self.whole);
                let rows = rows_of::<T>(path, session, &numbers);
                texts.extend(rows.iter().map(|(rank, row)| (*rank, known(row, &numbers))));
            }
            texts.retain(|(_, text)| !text.is_empty());
            texts.sort();
            texts
        });
        for (one, other) in whole.iter().zip(&parts) {
            assert_eq!(one, other, "{}", T::NAME);
        }
        assert_eq!(whole.len(), parts.len(), "{}", T::NAME);
    }

    /// Asserts that each record of the whole run is in exactly one period.
    fn assert_whole(&self) {
        let sessions = self.sessions();
        assert!(sessions.len() > 2, "{}", sessions.len());
        let sum = |of: fn(&Session) -> u64| -> u64 { sessions.iter().map(|(_, session)| of(session)).sum() };
        let left_out = |session: &Session| {
            session
                .part
                .as_ref()
                .map_or(0, |part| part.left_out.not_completed)
        };
        assert_eq!(sum(left_out), 0);
        assert_eq!(
            sum(|session| session.totals.operations),
            self.whole.totals.operations
        );
        assert_eq!(sum(|session| session.totals.bytes), self.whole.totals.bytes);
        assert_eq!(
            sum(|session| session.matching.complete),
            self.whole.matching.complete
        );
        assert_eq!(
            sum(|session| session.matching.incomplete),
            self.whole.matching.incomplete
        );
        assert_eq!(sum(|session| session.problems.total), self.whole.problems.total);
        let records = |session: &Session| session.ranks.iter().map(|rank| rank.records).sum();
        assert_eq!(sum(records), records(&self.whole));
        // Instances, steps and communicators are numbered in each session.
        self.assert_rows(|row: &OperationRow, numbers| {
            let row = OperationRow {
                communicator: row.communicator.map(|id| numbers.communicator(id)),
                instance: None,
                step: None,
                ..row.clone()
            };
            format!("{row:?}")
        });
        // Time in which activity was recorded is divided at the cuts.
        self.assert_rows(|row: &SpanRow, _| match row.kind {
            SpanKind::Covered => String::new(),
            _ => format!("{row:?}"),
        });
        self.assert_rows(|row: &ProgramSpanRow, _| format!("{row:?}"));
        self.assert_rows(|row: &CounterRow, _| format!("{row:?}"));
        self.assert_rows(|row: &WorkRow, numbers| {
            let row = WorkRow {
                communicator: row.communicator.map(|id| numbers.communicator(id)),
                ..row.clone()
            };
            format!("{row:?}")
        });
        self.assert_rows(|row: &PauseRow, _| {
            let row = PauseRow {
                step: None,
                ..row.clone()
            };
            format!("{row:?}")
        });
        let [whole, parts] = self.both().map(|sessions| {
            let mut texts = Vec::new();
            for (path, session) in &sessions {
                let numbers = Numbers::of(session, &self.whole);
                let rows: Vec<InstanceRow> =
                    TableReader::read_all(&part_path::<InstanceRow>(path)).expect("instances");
                texts.extend(rows.into_iter().map(|row| {
                    let row = InstanceRow {
                        communicator: numbers.communicator(row.communicator),
                        last_rank: row
                            .last_rank
                            .map(|rank| RankIndex(numbers.ranks[rank.0 as usize])),
                        instance: 0,
                        step: None,
                        ..row
                    };
                    format!("{row:?}")
                }));
            }
            texts.sort();
            texts
        });
        assert_eq!(whole, parts);
        for (_, session) in &sessions {
            assert!(
                session
                    .breakdown
                    .iter()
                    .all(|rank| rank.adds_up || rank.steps == 0)
            );
        }
    }

    /// Asserts that no period has a finding that the whole run has not.
    fn assert_no_new_findings(&self) {
        let kinds = |session: &Session| -> Vec<String> {
            let findings = session.findings.iter();
            findings.map(|finding| finding.kind.clone()).collect()
        };
        let known = kinds(&self.whole);
        for (path, session) in self.sessions() {
            let new: Vec<_> = kinds(&session)
                .into_iter()
                .filter(|kind| !known.contains(kind))
                .collect();
            assert!(new.is_empty(), "{}: {new:?}", path.display());
        }
    }
}

#[test]
fn each_operation_is_in_exactly_one_period() {
    for (seconds, ranks, hosts) in [(7, 4, 1), (13, 4, 2)] {
        let job = Ddp {
            ranks,
            hosts,
            ..Ddp::of_long_steps(400)
        };
        let merged = Merged::of(seconds * SECOND_NS, |run| job.write(run).expect("written"));
        if hosts == 1 {
            merged.assert_whole();
            merged.assert_no_new_findings();
        } else {
            // Each period aligns the clocks anew, so its times differ a little.
            let [whole, parts] = merged.rows::<OperationRow>();
            let keys = |rows: Vec<(u32, OperationRow)>| {
                let key = |(rank, row): &(u32, OperationRow)| {
                    (
                        *rank,
                        row.communicator,
                        row.operation as u8,
                        row.tag,
                        row.sequence,
                    )
                };
                let mut keys: Vec<_> = rows.iter().map(key).collect();
                keys.sort_unstable();
                keys
            };
            assert_eq!(keys(whole), keys(parts));
            let sum: u64 = merged
                .periods
                .periods
                .iter()
                .map(|period| period.operations)
                .sum();
            assert_eq!(sum, merged.whole.totals.operations);
        }
        // The step at a cut is whole in no period.
        let steps: u64 = merged.periods.periods.iter().map(|period| period.steps).sum();
        let cuts = merged.periods.periods.len() as u64 - 1;
        assert!(
            (merged.whole.steps.count - 2 * cuts..=merged.whole.steps.count).contains(&steps),
            "{steps} of {}, {cuts} cuts",
            merged.whole.steps.count
        );
        let [whole, parts] = merged.rows::<StepRow>();
        if hosts == 1 {
            let key = |(rank, row): &(u32, StepRow)| (*rank, row.start_ns);
            let whole: BTreeMap<_, _> = whole.into_iter().map(|row| (key(&row), row.1)).collect();
            for row in parts {
                let same = &whole[&key(&row)];
                assert_eq!(
                    StepRow {
                        step: same.step,
                        ..row.1
                    },
                    *same
                );
            }
        }
    }
}

/// Gloo's messages are numbered from the start of the run. In the short run, ranks send their first message in a later period.
#[test]
fn messages_are_matched_in_all_periods() {
    for (forward_ns, steps, length_ns) in [(30_000_000, 40, 5 * SECOND_NS), (4_000_000, 2, SECOND_NS / 100)] {
        let job = Pipelined {
            forward_ns: vec![forward_ns; 4],
            steps,
            ..Pipelined::default()
        };
        let merged = Merged::of(length_ns, |run| job.write(run));
        merged.assert_whole();
        for (path, session) in merged.sessions() {
            let left_out = &session.part.as_ref().expect("a part").left_out;
            assert_eq!(left_out.messages, 0, "{}", path.display());
            assert_eq!(session.matching.without_key, 0, "{}", path.display());
        }
    }
}

/// Records of device work arrive late, and works of one step run in two periods.
#[test]
fn device_work_is_in_exactly_one_period() {
    let merged = Merged::of(SECOND_NS / 2, |run| {
        (0..2).for_each(|rank| kernels::write(run, rank, 2, 250).expect("written"));
    });
    merged.assert_whole();
    let sessions = merged.sessions();
    let sum = |of: fn(&Session) -> u64| -> u64 { sessions.iter().map(|(_, session)| of(session)).sum() };
    for of in [
        |session: &Session| session.activity.iter().map(|entry| entry.kernels).sum(),
        |session: &Session| {
            session
                .activity
                .iter()
                .map(|entry| entry.communication_kernels)
                .sum()
        },
        |session: &Session| session.activity.iter().map(|entry| entry.copies).sum(),
        |session: &Session| session.activity.iter().map(|entry| entry.with_launch).sum(),
        |session: &Session| session.activity.iter().map(|entry| entry.covered_ns as u64).sum(),
    ] {
        assert_eq!(sum(of), of(&merged.whole));
    }
}

/// Copies a run whose logs end at this share of their bytes, as if the job still ran on another machine.
fn copy_until(run: &Path, to: &Path, share: f64) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(run).expect("a run") {
        let path = entry.expect("a log").path();
        let bytes = fs::read(&path).expect("a log");
        let kept = (bytes.len() as f64 * share) as usize;
        let name = path.file_name().expect("a name");
        fs::write(to.join(name), &bytes[..kept]).expect("written");
    }
}

/// A run that grows is merged to the same periods as a complete one, and final periods are not written again.
#[test]
fn a_growing_run_gives_the_periods_of_the_complete_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, growing) = (folder.path().join("run"), folder.path().join("growing"));
    Ddp::of_long_steps(600).write(&run).expect("written");
    let length_ns = 7 * SECOND_NS;
    let at_once = folder.path().join("at-once");
    let expected = in_periods(&run, &at_once, length_ns, LATER);
    let session = folder.path().join("session");
    let mut written: BTreeMap<String, i64> = BTreeMap::new();
    let mut finals: Vec<String> = Vec::new();
    for share in [0.3, 0.55, 0.55, 0.8, 1.0] {
        copy_until(&run, &growing, share);
        if share == 0.8 {
            // What is in final periods is not looked at again.
            let log = growing.join("rank-1.rslog");
            let mut bytes = fs::read(&log).expect("a log");
            bytes[4096..5120].fill(0);
            fs::write(&log, &bytes).expect("written");
        }
        // Logs without an end may grow, as long as they are not silent for long.
        let now = if share < 1.0 { 0 } else { LATER };
        let list = in_periods(&growing, &session, length_ns, now);
        for period in &list.periods {
            let read = Session::read(&period.path(&session)).expect("a session");
            let before = written.insert(period.name.clone(), read.written_unix_ns);
            if finals.contains(&period.name) {
                assert!(period.is_final, "{}", period.name);
                assert_eq!(
                    before,
                    Some(read.written_unix_ns),
                    "{} was written again",
                    period.name
                );
            }
        }
        let now = list.periods.iter().filter(|period| period.is_final);
        finals = now.map(|period| period.name.clone()).collect();
        let last = list.periods.last().expect("a period");
        assert_eq!(last.is_final, share == 1.0, "at {share}");
        assert!(finals.len() >= (share * 6.0) as usize, "{finals:?} at {share}");
    }
    assert!(finals.len() > 5, "{}", finals.len());
    let list = Periods::read(&session).expect("a list").expect("periods");
    assert_eq!(list.periods, expected.periods);
    for period in &list.periods {
        let tables = |session: &Path| {
            let mut all = comparable(&period.path(session));
            // One has the path of the run, the other how far the logs had grown.
            all.remove(Path::new(SUMMARY_FILE));
            all.remove(Path::new("cut.json"));
            all
        };
        assert_same(&tables(&at_once), &tables(&session), &period.name);
        assert_eq!(cuts(&period.path(&at_once)), cuts(&period.path(&session)));
    }
}

/// Logs of other machines are copied at different times. A copy without an end may be older than its log, by up to a period.
#[test]
fn a_late_copy_may_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, copy) = (folder.path().join("run"), folder.path().join("copy"));
    Ddp::of_long_steps(200).write(&run).expect("written");
    copy_until(&run, &copy, 0.5);
    let length_ns = 300 * SECOND_NS;
    let last = |logs: &Path, session: &str, now_unix_ns: i64, copied_unix_ns: Option<i64>| {
        let periods = PeriodOptions {
            copied_unix_ns,
            ..every(length_ns, now_unix_ns)
        };
        let options = options(logs, &folder.path().join(session));
        let list = merge_in_periods(&options, &periods, &mut |_| {}).expect("merged");
        list.periods.last().expect("a period").clone()
    };
    let open = last(&copy, "open", 0, None);
    assert!(!open.is_final);
    let after = |seconds: i64| open.until_unix_ns + seconds * SECOND_NS;
    assert!(last(&copy, "ended", after(200), None).is_final);
    assert!(!last(&copy, "late", after(200), Some(after(200))).is_final);
    assert!(last(&copy, "later", after(400), Some(after(400))).is_final);
    // Copying has stopped, so the processes may still record.
    assert!(!last(&copy, "stopped", after(9_000), Some(after(0))).is_final);
    // Logs with an end cannot go on, but another attempt may begin.
    assert!(!last(&run, "closed", after(200), Some(after(0))).is_final);
    assert!(last(&run, "closed-later", after(400), Some(after(0))).is_final);
}

/// Returns where the logs of a period are cut.
fn cuts(period: &Path) -> Vec<(u64, u32, u64, u64)> {
    let cut = PeriodCut::read(period).expect("readable").expect("a cut");
    let logs = cut.logs.into_iter();
    logs.map(|(nonce, pid, ticks, begin, _)| (nonce, pid, ticks, begin))
        .collect()
}

#[test]
fn a_late_log_and_another_length_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(250).write(&run).expect("written");
    let late = run.join("rank-1.rslog");
    let bytes = fs::read(&late).expect("a log");
    fs::remove_file(&late).expect("removed");
    // One log is cut, so the last periods are not final.
    let cut = run.join("rank-3.rslog");
    let other = fs::read(&cut).expect("a log");
    fs::write(&cut, &other[..other.len() * 4 / 5]).expect("written");
    let list = in_periods(&run, &session, 5 * SECOND_NS, 0);
    assert!(list.periods[0].is_final && !list.periods.last().expect("a period").is_final);
    fs::write(&late, &bytes).expect("written");
    let list = in_periods(&run, &session, 5 * SECOND_NS, 0);
    let [missed] = list.missed.as_slice() else {
        panic!("one late log: {:?}", list.missed);
    };
    assert!(missed.what.contains("appeared after period"), "{missed:?}");
    let options = options(&run, &session);
    let merge_in = |length_ns| merge_in_periods(&options, &every(length_ns, 0), &mut |_| {});
    let error = merge_in(6 * SECOND_NS).expect_err("another length");
    assert!(error.to_string().contains("periods of 5s"), "{error}");
    // A session of the whole run is not replaced.
    fs::remove_dir_all(&session).expect("removed");
    merge(&options, &mut |_| {}).expect("merged");
    let error = merge_in(5 * SECOND_NS).expect_err("a session");
    assert!(error.to_string().contains("whole run"), "{error}");
}

/// An interrupted merge leaves a period without a list entry. The next merge writes it again.
#[test]
fn an_interrupted_merge_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(200).write(&run).expect("written");
    let expected = in_periods(&run, &session, 5 * SECOND_NS, LATER);
    let second = expected.periods[1].path(&session);
    // The list is written after each period.
    let mut list = expected.clone();
    list.periods.truncate(1);
    list.write(&session).expect("written");
    fs::write(second.join("session.json"), "{").expect("written");
    fs::create_dir_all(second.parent().expect("a folder").join("20990101T000000Z")).expect("made");
    let again = in_periods(&run, &session, 5 * SECOND_NS, LATER);
    assert_eq!(again.periods, expected.periods);
    let names = fs::read_dir(session.join("periods")).expect("a folder").count();
    assert_eq!(names, expected.periods.len());
}

/// Returns the files of a period that do not contain the time of the merge.
fn comparable(period: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(period);
    all.retain(|path, _| path.extension().is_none_or(|extension| extension != "view"));
    all
}

/// Runs every unit twice, the last one first, after attempts that were abandoned.
#[derive(Debug)]
struct Twice;

impl UnitRunner for Twice {
    fn run(&self, directory: &Path, units: Range<u32>, progress: &mut dyn FnMut()) -> Result<(), String> {
        for unit in units.rev() {
            fs::create_dir(attempt_path(directory, unit, "0")).expect("a directory");
            for attempt in ["one", "two"] {
                run_unit(directory, unit, attempt, |_| true).map_err(|error| error.to_string())?;
            }
            progress();
        }
        Ok(())
    }
}

/// Other processes merge periods independently, and give the same files.
#[test]
fn units_give_the_same_periods() {
    let folder = tempfile::tempdir().expect("a folder");
    type Write<'a> = &'a dyn Fn(&Path);
    let writes: [(&str, i64, Write<'_>); 4] = [
        ("ddp", 7, &|run| {
            Ddp::of_long_steps(250).write(run).expect("written")
        }),
        ("hosts", 9, &|run| {
            let job = Ddp {
                hosts: 2,
                ..Ddp::of_long_steps(250)
            };
            job.write(run).expect("written");
        }),
        ("pipeline", 5, &|run| {
            let job = Pipelined {
                forward_ns: vec![30_000_000; 4],
                steps: 20,
                ..Pipelined::default()
            };
            job.write(run);
        }),
        ("kernels", 1, &|run| {
            (0..2).for_each(|rank| kernels::write(run, rank, 2, 200).expect("written"));
        }),
    ];
    for (name, seconds, write) in writes {
        let run = folder.path().join(name);
        write(&run);
        let (here, elsewhere) = (run.join("here"), run.join("elsewhere"));
        let expected = in_periods(&run, &here, seconds * SECOND_NS, LATER);
        let by_units = PeriodOptions {
            runner: Some(Arc::new(Twice)),
            ..every(seconds * SECOND_NS, LATER)
        };
        let list = merge_in_periods(&options(&run, &elsewhere), &by_units, &mut |_| {}).expect("merged");
        assert_eq!(list.periods, expected.periods, "{name}");
        for period in &list.periods {
            let what = format!("{name}, {}", period.name);
            assert_same(
                &comparable(&period.path(&here)),
                &comparable(&period.path(&elsewhere)),
                &what,
            );
        }
        // What the merge did not need is removed.
        let names = fs::read_dir(&elsewhere).expect("a folder").flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert!(
            names.iter().all(|name| !name.to_string_lossy().starts_with('.')),
            "{names:?}"
        );
    }
}

/// Periods that other processes cannot read yet are merged here.
#[test]
fn units_merge_what_is_recorded_of_a_growing_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, growing) = (folder.path().join("run"), folder.path().join("growing"));
    Ddp::of_long_steps(350).write(&run).expect("written");
    let (here, elsewhere) = (folder.path().join("here"), folder.path().join("elsewhere"));
    let by_units = PeriodOptions {
        runner: Some(Arc::new(Twice)),
        ..every(6 * SECOND_NS, 0)
    };
    for share in [0.5, 0.8, 1.0] {
        copy_until(&run, &growing, share);
        let expected = in_periods(&growing, &here, 6 * SECOND_NS, 0);
        let list = merge_in_periods(&options(&growing, &elsewhere), &by_units, &mut |_| {}).expect("merged");
        assert_eq!(list.periods, expected.periods, "{share}");
    }
}

/// Recorders count dropped records over the whole run. The period in which the last one was dropped has them.
#[test]
fn dropped_records_are_counted_in_one_period() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    let job = Ddp::of_long_steps(200);
    let mut logs: Vec<_> = (0..job.ranks)
        .map(|rank| {
            let mut log = SyntheticLog::create(&run, rank, job.ranks, "host-a").expect("a log");
            log.communicator(0, rank, job.ranks, 7).expect("a communicator");
            log
        })
        .collect();
    job.fill(&mut logs).expect("records");
    let second = START + 1_000_000_000;
    let loss = Loss {
        cause: LossCause::Disk,
        kind: RecordKind::Call,
        count: 5,
        first_ticks: second + 11_000_000_000,
        last_ticks: second + 12_000_000_000,
    };
    logs[1].losses(&[loss]).expect("losses");
    logs.into_iter().for_each(|log| drop(log.end().expect("an end")));
    let list = in_periods(&run, &session, 5 * SECOND_NS, LATER);
    let lost: Vec<u64> = list.periods.iter().map(|period| period.lost).collect();
    assert_eq!(lost.iter().sum::<u64>(), 5, "{lost:?}");
    assert!(
        lost.iter().filter(|&&lost| lost > 0).count() == 1 && lost[0] == 0,
        "{lost:?}"
    );
}

#[test]
fn a_run_of_too_many_periods_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(20).write(&run).expect("written");
    let merged = merge_in_periods(&options(&run, &session), &every(1_000, LATER), &mut |_| {});
    let error = merged.expect_err("too many");
    assert!(error.to_string().contains("greater length"), "{error}");
}
