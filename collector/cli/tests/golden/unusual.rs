//! Runs with missing or duplicate parts.

use crate::scene::{US, at, logs, merged, of, once};
use rankscope_fixtures::logs::{START, SyntheticLog};
use rankscope_formats::session::{InstanceState, Session, WaitClass};
use rankscope_ranklog::Operation::AllReduce;
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_report::{document, page};
use serde_json::Value;

/// Collects the paths of figures that have neither a value nor a reason.
fn unexplained(value: &Value, place: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let is_figure =
                fields.len() == 2 && fields.contains_key("value") && fields.contains_key("reason");
            if is_figure && fields["value"].is_null() == fields["reason"].is_null() {
                out.push(place.to_owned());
            }
            for (name, field) in fields {
                unexplained(field, &format!("{place}/{name}"), out);
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                unexplained(element, &format!("{place}/{at}"), out);
            }
        }
        _ => {}
    }
}

/// Asserts that every figure has a value or a reason, and that a page can be made, whatever is missing.
fn is_whole(session: &Session) {
    let json = serde_json::to_value(document::of(session, &[])).expect("JSON");
    let mut wrong = Vec::new();
    unexplained(&json, "", &mut wrong);
    assert_eq!(wrong, Vec::<String>::new());
    assert!(page(session, &[]).contains("</html>"));
}

fn caused(session: &Session) -> Vec<i64> {
    let mut ranks = session.blame.ranks.clone();
    ranks.sort_by_key(|of| of.rank);
    ranks.iter().map(|of| of.caused_rank_ns).collect()
}

/// One rank alone, from 0 to 100: no wait, no bus, no class. None of them is reported as zero.
#[test]
fn one_rank() {
    let (session, row) = once(&[at(AllReduce, [0, 100], 0, 1 << 20)]);
    assert_eq!((row.class, row.bus_bytes_per_s), (WaitClass::None, None));
    assert_eq!(row.exposed_wait_rank_ns, None);
    assert_eq!(session.operations[0].bus_bytes_per_s.value, None);
    assert_eq!(session.coverage.ranks_expected.value, Some(1));
    assert_eq!(session.blame.total_rank_ns, 0);
    is_whole(&session);
}

/// Two ranks that created a communicator and called nothing.
#[test]
fn no_operation() {
    let (session, instances) = of(&[vec![], vec![]]);
    assert!(instances.is_empty() && session.operations.is_empty());
    assert_eq!((session.totals.operations, session.totals.instances), (0, 0));
    assert_eq!(
        (session.steps.duration_ns.value, session.steps.median_ns.value),
        (None, None)
    );
    let card = session.scorecard.as_ref().expect("a scorecard");
    assert!(card.total.value.is_none() && card.dimensions.iter().all(|score| score.score.value.is_none()));
    assert!(session.findings.is_empty(), "{:?}", session.findings);
    is_whole(&session);
}

/// Three ranks, the log of rank 2 is missing. The calls of ranks 0 and 1 are known, their waits are not: rank 2 may
/// have been the last.
#[test]
fn a_rank_without_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), 3, |rank, log| {
        log.push(0, at(AllReduce, [u64::from(rank) * 10, 100], 0, 1 << 20));
    });
    std::fs::remove_file(folder.path().join("rank-2.rslog")).expect("removed");
    let (session, instances) = merged(folder.path());
    let row = &instances[0];
    assert_eq!(
        (row.state, row.members, row.seen),
        (InstanceState::Incomplete, 3, 2)
    );
    assert_eq!(
        (row.exposed_wait_rank_ns, row.transfer_ns, row.bus_bytes_per_s),
        (None, None, None)
    );
    assert_eq!(session.operations[0].transfer_ns.value, None);
    assert_eq!(session.blame.total_rank_ns, 0);
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (2, Some(3))
    );
    // The page must not print 0 rank-seconds for an unknown value.
    let page = page(&session, &[]);
    let blame = &page[page.find("Waiting caused by each rank").expect("the section")..];
    assert!(
        blame[..blame.find("</ol>").expect("a note")].contains("no operation of the rank has known waits")
    );
    is_whole(&session);
}

/// Ten all-reduces in which rank 1 is 10 late. Its fifth record is lost, and the log reports the loss. That instance
/// gives no figures. The others keep their partners, although rank 1 has one record fewer. 9 · 10 = 90.
#[test]
fn a_loss_in_the_middle_shifts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), 2, |rank, log| {
        for number in (0..10u64).filter(|&number| (rank, number) != (1, 4)) {
            let from = number * 100 + u64::from(rank) * 10;
            log.push(
                0,
                at(AllReduce, [from, number * 100 + 50], number as u32, 1 << 20),
            );
        }
        if rank == 1 {
            let lost = Loss {
                cause: LossCause::Disk,
                kind: RecordKind::Call,
                count: 1,
                first_ticks: START + 410_000,
                last_ticks: START + 450_000,
            };
            log.losses(&[lost]).expect("losses");
        }
    });
    let (session, instances) = merged(folder.path());
    assert_eq!((session.matching.complete, session.matching.incomplete), (9, 1));
    let incomplete: Vec<u32> = instances
        .iter()
        .filter(|row| row.state == InstanceState::Incomplete)
        .map(|row| row.tag)
        .collect();
    assert_eq!(incomplete, [4]);
    assert_eq!(session.totals.exposed_wait_rank_ns, 90 * US);
    assert_eq!(caused(&session), [0, 90 * US]);
    assert_eq!((session.totals.lost, session.ranks[1].lost), (1, 1));
    assert!(session.findings.iter().any(|finding| finding.kind == "losses"));
    is_whole(&session);
}

/// Two communicators with the same name, one after the other, whose calls have the same tags. In the first rank 1 is 20
/// late, in the second rank 0 is 30 late. Calls of one are never matched with calls of the other.
#[test]
fn a_reused_name() {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), 2, |rank, log| {
        log.communicator(1, rank, 2, 8).expect("communicator");
        let [first, second] = if rank == 0 { [0, 130] } else { [20, 100] };
        log.push(0, at(AllReduce, [first, 40], 0, 1 << 20));
        let again = at(AllReduce, [second, 150], 0, 1 << 20);
        log.push(
            0,
            Record {
                communicator: 1,
                ..again
            },
        );
    });
    let (session, instances) = merged(folder.path());
    assert_eq!((session.matching.complete, session.matching.incomplete), (2, 0));
    let waits: Vec<Option<i64>> = instances.iter().map(|row| row.exposed_wait_rank_ns).collect();
    assert_eq!(waits, [Some(20 * US), Some(30 * US)]);
    assert_eq!(caused(&session), [30 * US, 20 * US]);
    assert_eq!(session.communicators.len(), 2);
    is_whole(&session);
}

/// Two attempts with the same ranks, tags and names. In the first rank 1 is 10 late, in the second rank 0 is 20 late.
/// Blame has four ranks, and the time between the attempts is no rank's wait.
#[test]
fn a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    for attempt in 0..2u32 {
        let run = folder.path().join(format!("attempt-{attempt}"));
        std::fs::create_dir(&run).expect("mkdir");
        for rank in 0..2u32 {
            let file = std::fs::File::create(run.join(format!("{rank}.rslog"))).expect("create");
            let nonce = u64::from(attempt) << 8;
            let mut log =
                SyntheticLog::new_of(std::io::BufWriter::new(file), rank, 2, "a", nonce, 1 + attempt)
                    .expect("log");
            for (key, value) in [
                ("env.TORCHELASTIC_RUN_ID", "job".to_owned()),
                ("env.TORCHELASTIC_RESTART_COUNT", attempt.to_string()),
            ] {
                log.property(key, &value).expect("property");
            }
            log.communicator(0, rank, 2, 1 + attempt as u8)
                .expect("communicator");
            let begin = u64::from(attempt) * 1_000_000;
            let late = [[0, 10], [20, 0]][attempt as usize][rank as usize];
            log.push(0, at(AllReduce, [begin + late, begin + 50], 0, 1 << 20));
            log.end().expect("end");
        }
    }
    let (session, instances) = merged(folder.path());
    assert_eq!((session.attempts.len(), session.matching.complete), (2, 2));
    let waits: Vec<Option<i64>> = instances.iter().map(|row| row.exposed_wait_rank_ns).collect();
    assert_eq!(waits, [Some(10 * US), Some(20 * US)]);
    assert_eq!(caused(&session), [0, 10 * US, 20 * US, 0]);
    is_whole(&session);
}
