//! Tests merges in periods when something went wrong: nothing is removed that the merge did not make, nothing is matched wrongly, and
//! records that no period has are reported.

use rankscope_analysis::merge::error::MergeError;
use rankscope_analysis::merge::in_periods::merge_in_periods;
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::periods::{LATER, SECOND_NS, every, in_periods, options};
use rankscope_formats::session::{InstanceRow, PERIODS_FILE, Periods, Session, TableReader, part_path};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const LENGTH_NS: i64 = 5 * SECOND_NS;

/// Cuts the logs of a run at a share of their bytes. Returns the whole logs.
fn cut_logs(run: &Path, share: f64) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(run)
        .expect("a run")
        .map(|entry| entry.expect("a log").path());
    entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .map(|path| {
            let bytes = fs::read(&path).expect("a log");
            fs::write(&path, &bytes[..(bytes.len() as f64 * share) as usize]).expect("written");
            (path, bytes)
        })
        .collect()
}

fn merge(run: &Path, session: &Path) -> Result<Periods, MergeError> {
    merge_in_periods(&options(run, session), &every(LENGTH_NS, LATER), &mut |_| {})
}

/// Returns the instances of a session, without their numbers.
fn instances(session: &Path) -> Vec<String> {
    let rows: Vec<InstanceRow> =
        TableReader::read_all(&part_path::<InstanceRow>(session)).expect("instances");
    let numbered = rows.into_iter().map(|row| InstanceRow {
        instance: 0,
        step: None,
        ..row
    });
    numbered.map(|row| format!("{row:?}")).collect()
}

/// Without the numbers of earlier messages, no message is matched: wrong pairs would look like right ones.
#[test]
fn messages_stay_unmatched_once_their_numbers_are_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    let job = Pipelined {
        forward_ns: vec![30_000_000; 4],
        steps: 24,
        ..Pipelined::default()
    };
    job.write(&run);
    let whole = folder.path().join("whole");
    rankscope_analysis::merge(&options(&run, &whole), &mut |_| {}).expect("merged");
    let right: BTreeSet<String> = instances(&whole).into_iter().collect();
    let list = in_periods(&run, &session, LENGTH_NS, LATER);
    // As after an update to a version that counts otherwise, when the run has grown by some periods.
    let mut known = list.clone();
    known.periods.truncate(2);
    known.write(&session).expect("written");
    let carried = known.periods[1].path(&session).join("carried");
    let mut bytes = fs::read(&carried).expect("a file");
    bytes[4] ^= 1;
    fs::write(&carried, bytes).expect("written");
    let list = merge(&run, &session).expect("merged");
    assert!(list.periods.len() > 4, "{}", list.periods.len());
    for (at, period) in list.periods.iter().enumerate() {
        let path = period.path(&session);
        let merged = Session::read(&path).expect("a session");
        let left_out = merged.part.expect("a part").left_out;
        assert_eq!(left_out.messages > 0, at >= 2, "period {at}: {left_out:?}");
        for instance in instances(&path) {
            assert!(right.contains(&instance), "period {at}: {instance}");
        }
        let names_it = |what: &str| what.contains("carried") && what.contains("checksum");
        let is_reported = merged
            .problems
            .listed
            .iter()
            .any(|problem| names_it(&problem.what));
        assert_eq!(is_reported, at == 2, "period {at}: {:?}", merged.problems);
    }
}

/// Copies of logs from other machines may be older than the period.
#[test]
fn logs_that_go_on_after_a_final_period_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(250).write(&run).expect("written");
    let logs = cut_logs(&run, 0.5);
    let list = merge(&run, &session).expect("merged");
    assert!(list.missed.is_empty() && list.periods.iter().all(|period| period.is_final));
    for (path, bytes) in &logs {
        fs::write(path, bytes).expect("written");
    }
    let again = merge(&run, &session).expect("merged");
    assert_eq!(again.missed.len(), logs.len(), "{:?}", again.missed);
    assert!(
        again.missed.iter().all(|missed| missed.what.contains("went on")),
        "{:?}",
        again.missed
    );
    assert!(again.periods.len() > list.periods.len());
    // They are listed once, and stay listed.
    assert_eq!(merge(&run, &session).expect("merged").missed, again.missed);
}

#[test]
fn only_what_a_merge_made_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(120).write(&run).expect("written");
    // A directory with other content.
    let precious = session.join("periods/20261128T170000Z");
    fs::create_dir_all(&precious).expect("made");
    let error = merge(&run, &session).expect_err("an occupied directory");
    assert!(
        error.to_string().contains("not empty") && precious.is_dir(),
        "{error}"
    );
    fs::remove_dir_all(&session).expect("removed");
    // Its own directory, in which someone left other files, and whose last period was interrupted.
    let list = merge(&run, &session).expect("merged");
    let others = [session.join("periods/notes"), session.join("periods/report.txt")];
    fs::create_dir(&others[0]).expect("made");
    fs::write(&others[1], "").expect("written");
    let unfinished = session.join("periods/.unfinished-20261128T170000Z");
    fs::create_dir(&unfinished).expect("made");
    assert_eq!(merge(&run, &session).expect("merged"), list);
    assert!(others.iter().all(|path| path.exists()) && !unfinished.exists());
    // Without its list, the directory is one with other content.
    fs::remove_file(session.join(PERIODS_FILE)).expect("removed");
    merge(&run, &session).expect_err("an occupied directory");
    assert!(list.periods.iter().all(|period| period.path(&session).is_dir()));
}

#[test]
fn another_run_and_a_missing_last_period_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(120).write(&run).expect("written");
    let list = merge(&run, &session).expect("merged");
    let other = folder.path().join("other");
    let mut log =
        rankscope_fixtures::logs::SyntheticLog::new_of(Vec::new(), 0, 1, "host-b", 77, 9).expect("a log");
    log.communicator(0, 0, 1, 5).expect("a communicator");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("rank-0.rslog"), log.end().expect("an end")).expect("written");
    let error = merge(&other, &session).expect_err("another run");
    assert!(error.to_string().contains("another run"), "{error}");
    // Any other period may be removed.
    let path = |at: usize| list.periods[at].path(&session);
    fs::remove_dir_all(path(0)).expect("removed");
    assert_eq!(merge(&run, &session).expect("merged"), list);
    fs::remove_dir_all(path(list.periods.len() - 1)).expect("removed");
    let error = merge(&run, &session).expect_err("a missing period");
    assert!(error.to_string().contains("was removed"), "{error}");
}

/// A period that was taken from the list is merged again, although the index of the logs begins after it.
#[test]
fn a_period_that_is_not_listed_is_merged_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(250).write(&run).expect("written");
    let expected = merge(&run, &session).expect("merged");
    let mut list = expected.clone();
    let removed = list.periods.remove(2);
    list.write(&session).expect("written");
    fs::remove_dir_all(removed.path(&session)).expect("removed");
    assert_eq!(merge(&run, &session).expect("merged"), expected);
    assert!(removed.path(&session).join("session.json").is_file());
}

#[test]
fn damaged_files_are_errors_or_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, session) = (folder.path().join("run"), folder.path().join("session"));
    Ddp::of_long_steps(200).write(&run).expect("written");
    let expected = merge(&run, &session).expect("merged");
    // Without the index, the logs are opened completely.
    fs::write(session.join("logs"), "damage").expect("written");
    assert_eq!(merge(&run, &session).expect("merged"), expected);
    let cut = expected
        .periods
        .last()
        .expect("a period")
        .path(&session)
        .join("cut.json");
    for damage in ["", "{", "[]", r#"{"unix_ns": 0, "logs": [[1, 2]]}"#] {
        fs::write(&cut, damage).expect("written");
        let error = merge(&run, &session).expect_err("damage");
        assert!(error.to_string().contains("cut.json"), "{error}");
    }
    // Cuts that run backwards, of a period that is merged again.
    let mut list = expected.clone();
    list.periods.truncate(2);
    list.write(&session).expect("written");
    let first = list.periods[1].path(&session).join("cut.json");
    let text = fs::read_to_string(&first).expect("a cut");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for log in value["logs"].as_array_mut().expect("logs") {
        (log[2], log[3]) = (u64::MAX.into(), u64::MAX.into());
    }
    fs::write(&first, value.to_string()).expect("written");
    merge(&run, &session).expect("no panic");
}
