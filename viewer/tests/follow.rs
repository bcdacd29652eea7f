//! Follows a run that is too long for repeated complete merges. Its last part is shown in time.

mod support;

use rankscope_formats::session::Session;
use rankscope_tests::artefacts;
use rankscope_viewer::follow::{Followed, Follower};
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of records of a merge: only enough for a part of the run.
const MOST_RECORDS: u64 = 1_000;

/// Part of the run that one merge showed, on the axis.
#[derive(Debug)]
#[expect(dead_code, reason = "`from_ns` is only in the message of a failed assertion")]
struct Part {
    from_ns: i64,
    end_ns: i64,
    error_ns: i64,
}

/// Maximum error of the conversion from ticks to the axis.
fn clock_error_ns(session: &Session) -> i64 {
    session.hosts.iter().map(|host| host.error_ns).max().unwrap_or(0)
}

const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn the_last_part_of_a_long_run_is_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    fs::create_dir_all(&run).expect("made");
    let program = artefacts::program();
    let program_folder = program.parent().expect("a folder").to_path_buf();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths([program_folder].into_iter().chain(std::env::split_paths(&paths)));
    // SAFETY: this is the only test of the program, and no other thread has been started yet, so nothing reads the
    // environment meanwhile.
    unsafe { std::env::set_var("PATH", paths.expect("a path")) };
    let recording = {
        let run = run.clone();
        // Each log has more than `MOST_RECORDS` before its first watermark, and there are parts after it.
        std::thread::spawn(move || support::gloo_for(&run, 800, 2000).is_some())
    };
    let follower = Follower::start_with(run, MOST_RECORDS, || {}).expect("a follower");
    let since = Instant::now();
    // Largest age of the last visible record: at the time when the next part arrives. Also the starts and ends of the
    // parts.
    let mut lag_s = Vec::new();
    let mut shown_until_unix_ns = None;
    let mut parts: Vec<Part> = Vec::new();
    let mut why = None;
    let whole = loop {
        assert!(since.elapsed() < PATIENCE, "the run is not over: {why:?}");
        if recording.is_finished() && parts.is_empty() && since.elapsed() > Duration::from_secs(20) {
            break None;
        }
        match follower.poll() {
            Some(Followed::Newer(newer, _)) => {
                let (_, session) = *newer;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
                let end_unix_ns = session.axis.origin_unix_ns + session.axis.end_ns;
                assert!(session.totals.records <= 2 * MOST_RECORDS, "{:?}", session.totals);
                if let Some(part) = &session.part {
                    if let Some(until) = shown_until_unix_ns.replace(end_unix_ns) {
                        lag_s.push((now.as_nanos() as i64 - until) as f64 / 1e9);
                    }
                    parts.push(Part {
                        from_ns: part.from_ns,
                        end_ns: session.axis.end_ns,
                        error_ns: clock_error_ns(&session),
                    });
                    assert_eq!(session.matching.mismatched, 0);
                    assert_eq!(session.matching.unmatched_messages, 0);
                }
            }
            Some(Followed::Over(whole)) => break Some(whole.1),
            Some(Followed::NotNow(reason)) => why = Some(reason),
            Some(Followed::Same) | None => {}
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !recording.join().expect("the job") {
        return;
    }
    let whole = whole.expect("the whole run at its end");
    assert_eq!(whole.part, None);
    assert!(whole.totals.records > 3 * MOST_RECORDS);
    // The parts have the same axis in ascending order, and all of the run becomes visible in time. The last two may
    // both end with the run, and each merge fits the clock again, from the calibrations so far.
    assert!(parts.len() >= 3, "{parts:?}");
    let order = parts
        .windows(2)
        .all(|two| two[1].end_ns > two[0].end_ns - two[0].error_ns - two[1].error_ns);
    assert!(order, "{parts:?}");
    let last = &parts[parts.len() - 1];
    assert!(parts[0].end_ns < last.end_ns, "{parts:?}");
    assert!(
        whole.axis.end_ns >= last.end_ns - last.error_ns - clock_error_ns(&whole),
        "{} ± {}: {last:?}",
        whole.axis.end_ns,
        clock_error_ns(&whole)
    );
    lag_s.sort_by(f64::total_cmp);
    println!("whole end {} parts {parts:?}", whole.axis.end_ns);
    println!("{} parts, behind: {lag_s:.2?} s", parts.len());
    // Single parts may be late on a busy machine, so the test uses the median.
    let middle = lag_s[lag_s.len() / 2];
    assert!(middle < 1.0, "{lag_s:?}");
}
