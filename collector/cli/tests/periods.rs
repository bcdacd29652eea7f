//! Tests merges in periods: together they are the whole run, and a run that has grown is merged like one that was complete.

use rankscope_analysis::merge::in_periods::{merge_in_periods, merge_in_periods_at};
use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::kernels;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::session_files::{assert_same, files};
use rankscope_formats::session::{
    CounterRow, InstanceRow, OperationRow, PauseRow, Period, Periods, ProgramSpanRow, Session, SpanRow,
    StepRow, Table, TableReader, WorkRow, part_path, rank_path,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SECOND_NS: i64 = 1_000_000_000;
/// Long after all synthetic runs.
const LATER: i64 = i64::MAX;

/// A run, its session as a whole, and its periods.
struct Merged {
    folder: TempDir,
    whole: Session,
    periods: Periods,
}

/// Steps of about 100 ms.
fn slow_steps(steps: u32) -> Ddp {
    Ddp {
        steps,
        forward_ns: 60_000_000,
        bucket_ns: 10_000_000,
        transfer_ns: 5_000_000,
        slow: Some((2, 15_000_000)),
        noise: 7,
        ..Ddp::default()
    }
}

fn options(run: &Path, output: &Path) -> MergeOptions {
    MergeOptions::new(vec![run.to_path_buf()], output.to_path_buf())
}

fn in_periods(run: &Path, output: &Path, length_ns: i64, now: i64) -> Periods {
    merge_in_periods_at(&options(run, output), length_ns, now, &mut |_| {}, &mut |_, _| {}).expect("merged")
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

    /// Returns the rows of all ranks in the whole run, and in its periods.
    fn rows<T: Table>(&self) -> [Vec<(u32, T)>; 2] {
        let read = |path: &Path, session: &Session| {
            let ranks = 0..session.ranks.len() as u32;
            // Ranks without spans of programs have no such table.
            let of_rank = |rank| match rank_path::<T>(path, rank) {
                path if path.exists() => TableReader::read_all(&path).expect("rows"),
                _ => Vec::new(),
            };
            let rows = ranks.flat_map(|rank| of_rank(rank).into_iter().map(move |row| (rank, row)));
            rows.collect::<Vec<(u32, T)>>()
        };
        let sessions = self.sessions();
        let parts = sessions.iter().flat_map(|(path, session)| read(path, session));
        [
            read(&self.folder.path().join("whole"), &self.whole),
            parts.collect(),
        ]
    }

    /// Asserts that the rows of the periods are those of the whole run. `known` makes rows comparable.
    fn assert_rows<T: Table + Debug>(&self, known: impl Fn(&T) -> String) {
        let [whole, parts] = self.rows::<T>();
        let known = |rows: Vec<(u32, T)>| {
            let mut texts: Vec<_> = rows.iter().map(|(rank, row)| (*rank, known(row))).collect();
            texts.sort();
            texts
        };
        let (whole, parts) = (known(whole), known(parts));
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
        // Numbers of instances and steps count from the start of a session.
        self.assert_rows(|row: &OperationRow| {
            let row = OperationRow {
                instance: None,
                step: None,
                ..row.clone()
            };
            format!("{row:?}")
        });
        self.assert_rows(|row: &SpanRow| format!("{row:?}"));
        self.assert_rows(|row: &ProgramSpanRow| format!("{row:?}"));
        self.assert_rows(|row: &CounterRow| format!("{row:?}"));
        self.assert_rows(|row: &WorkRow| format!("{row:?}"));
        self.assert_rows(|row: &PauseRow| {
            let row = PauseRow {
                step: None,
                ..row.clone()
            };
            format!("{row:?}")
        });
        let instances = |path: &Path| -> Vec<InstanceRow> {
            TableReader::read_all(&part_path::<InstanceRow>(path)).expect("instances")
        };
        let texts = |rows: Vec<InstanceRow>| {
            let numbered = |row: InstanceRow| InstanceRow {
                instance: 0,
                step: None,
                ..row
            };
            let mut texts: Vec<_> = rows
                .into_iter()
                .map(|row| format!("{:?}", numbered(row)))
                .collect();
            texts.sort();
            texts
        };
        let parts = sessions.iter().flat_map(|(path, _)| instances(path)).collect();
        assert_eq!(texts(instances(&self.folder.path().join("whole"))), texts(parts));
        let kinds = |session: &Session| -> Vec<String> {
            let findings = session.findings.iter();
            findings.map(|finding| finding.kind.clone()).collect()
        };
        let known = kinds(&self.whole);
        for (path, session) in &sessions {
            let new: Vec<_> = kinds(session)
                .into_iter()
                .filter(|kind| !known.contains(kind))
                .collect();
            assert!(new.is_empty(), "{}: {new:?}", path.display());
            assert!(
                session
                    .breakdown
                    .iter()
                    .all(|rank| rank.adds_up || rank.steps == 0)
            );
        }
    }
}

#[test]
fn each_operation_is_in_exactly_one_period() {
    for (seconds, ranks, hosts) in [(7, 4, 1), (20, 4, 1), (13, 4, 2)] {
        let job = Ddp {
            ranks,
            hosts,
            ..slow_steps(600)
        };
        let merged = Merged::of(seconds * SECOND_NS, |run| job.write(run).expect("written"));
        if hosts == 1 {
            merged.assert_whole();
        } else {
            // Each period aligns the clocks anew, so its times differ a little.
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
