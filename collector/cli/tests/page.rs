//! Tests that the page agrees with `rankscope report --json`, number by number, in a real browser: on a screen, in dark
//! mode and on paper.
//!
//! Every number of the page names its source (`collector/report/src/prose.rs`). Here that source is read from the JSON,
//! by code that shares nothing with the page's. `page_support/sources.rs` resolves a source. `page_support/readings.rs`
//! gives the values that a shown number may have been rounded from.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog};
use rankscope_fixtures::page::browser::Browser;
use rankscope_fixtures::page::{CONTRAST, WALK, Walked, skip};
use rankscope_fixtures::sessions::{Job, damaged, structured, traffic};
use rankscope_formats::session::{Attempt, DeviceActivity, Session, TrafficRow};
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::RecordKind;
use rankscope_report::{document, page, page_with};
use roxmltree::{Document, ParsingOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A page and the JSON of the same session.
struct Reported {
    name: String,
    html: String,
    json: Value,
}

fn made_up(name: &str, session: &Session, moved: &[TrafficRow]) -> Reported {
    Reported {
        name: name.to_owned(),
        html: page(session, moved),
        json: serde_json::to_value(document::of(session, moved)).expect("JSON"),
    }
}

/// Returns jobs of all sizes, one of them slow, on one host and on several, whole and damaged.
fn all_made_up() -> Vec<Reported> {
    let slow = |ranks, steps, slow, hosts| Job {
        ranks,
        steps,
        slow: Some(slow),
        hosts,
    };
    let jobs = [
        ("1 rank", Job::new(1, 5)),
        ("4 ranks", slow(4, 200, 2, 1)),
        ("8 ranks on 2 hosts", slow(8, 60, 5, 2)),
        ("64 ranks on 8 hosts", slow(64, 3_000, 17, 8)),
        ("1,024 ranks on 128 hosts", slow(1_024, 300, 777, 128)),
    ];
    let mut all: Vec<Reported> = jobs
        .into_iter()
        .map(|(name, job)| {
            let session = job.session();
            made_up(name, &session, &traffic(&session))
        })
        .collect();
    all.push(made_up("damaged", &damaged(), &[]));
    for restarts in [2, 9] {
        let mut session = Job::new(1, 5).session();
        let first = session.attempts[0].clone();
        session.attempts.extend((1..=restarts).map(|restart| Attempt {
            restart,
            lost_before_ns: Some(i64::from(restart) * 1_000_000_007),
            ..first.clone()
        }));
        all.push(made_up(&format!("{restarts} restarts"), &session, &[]));
    }
    let structured = structured();
    all.push(made_up(
        "pipelines and named times",
        &structured,
        &traffic(&structured),
    ));
    all
}

/// Returns the page that the program writes and the JSON that it prints.
fn by_the_program(name: &str, session: &Path) -> Reported {
    let program = || Command::new(env!("CARGO_BIN_EXE_rankscope"));
    let directory = tempfile::tempdir().expect("a directory");
    let html = directory.path().join("page.html");
    let reported = program()
        .args(["report", "--json", "--html"])
        .arg(&html)
        .arg(session)
        .output()
        .expect("the program");
    assert!(reported.status.success(), "{name}: {reported:?}");
    Reported {
        name: name.to_owned(),
        html: fs::read_to_string(&html).expect("a page"),
        json: serde_json::from_slice(&reported.stdout).expect("JSON"),
    }
}

/// Records and merges runs of several kinds with the program. One run misses a rank, one has two hosts and lost
/// records, one has no calls, and one is a pipeline.
fn merged() -> (TempDir, Vec<Reported>) {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |name: &str| directory.path().join(name);
    let job = Ddp {
        ranks: 4,
        slow: Some((2, 700_000)),
        noise: 7,
        ..Ddp::default()
    };
    job.write(&run("a rank lacks")).expect("written");
    fs::remove_file(run("a rank lacks").join("rank-3.rslog")).expect("removed");
    for (name, hosts, calls) in [
        ("two hosts", ["a", "b"], true),
        ("nothing called", ["a", "a"], false),
    ] {
        let mut logs: Vec<_> = (0..)
            .zip(hosts)
            .map(|(rank, host)| {
                let mut log = SyntheticLog::create(&run(name), rank, 2, host).expect("created");
                log.communicator(0, rank, 2, 7).expect("written");
                let loss = Loss {
                    cause: LossCause::Disk,
                    kind: RecordKind::Call,
                    count: 17,
                    first_ticks: START + 5,
                    last_ticks: START + 9_999,
                };
                log.losses(&[loss]).expect("written");
                log
            })
            .collect();
        if calls {
            let job = Ddp {
                ranks: 2,
                slow: Some((1, 700_000)),
                ..job.clone()
            };
            job.fill(&mut logs).expect("written");
        }
        for log in logs {
            log.end().expect("written");
        }
    }
    let pipeline = Pipelined {
        steps: 10,
        ..Pipelined::default()
    };
    pipeline.write(&run("a pipeline"));
    let all = ["a rank lacks", "two hosts", "nothing called", "a pipeline"].map(|name| {
        let done = Command::new(env!("CARGO_BIN_EXE_rankscope"))
            .arg("merge")
            .arg(run(name))
            .output();
        let done = done.expect("the program");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        by_the_program(name, &run(name))
    });
    (directory, all.into())
}

/// Imports real traces of two GPUs, with the figures of Holistic Trace Analysis.
fn imported() -> (TempDir, Reported) {
    let directory = tempfile::tempdir().expect("a directory");
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hta");
    let done = Command::new(env!("CARGO_BIN_EXE_rankscope"))
        .args(["import", "kineto"])
        .args([0, 1].map(|rank| traces.join(format!("two_ranks_rank{rank}.json.gz"))))
        .args(["--compat", "hta", "--output"])
        .arg(directory.path().join("run"))
        .output()
        .expect("the program");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let reported = by_the_program("imported traces", &directory.path().join("run"));
    (directory, reported)
}

fn read(reported: &Reported) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(&reported.html, options)
        .unwrap_or_else(|error| panic!("{}: {error}", reported.name))
}

fn expect_no_difference(walked: &Walked, reported: &Reported) {
    let wrong = walked.differences(&reported.json);
    assert!(
        wrong.is_empty(),
        "{}: {} of {} are not as the JSON says, among them\n{}",
        reported.name,
        wrong.len(),
        walked.marked.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

#[test]
fn every_number_is_that_of_the_json() {
    let (_traces, traces) = imported();
    let (_runs, runs) = merged();
    let made_up = all_made_up();
    let all = || made_up.iter().chain(&runs).chain([&traces]);
    for reported in all() {
        let walked = Walked::of_document(&read(reported));
        expect_no_difference(&walked, reported);
        assert!(
            walked.marked.len() > 40,
            "{}: {:?}",
            reported.name,
            walked.forms()
        );
    }
    // Every section that a page can have occurs on one of the pages.
    for section in [
        "<h2>Structure of the job</h2>",
        "<summary>Peers (same position in the replicas)</summary>",
        "<h2>Named parts of host time</h2>",
        "<h2>By host, device and role</h2>",
        "<summary>By device</summary>",
        "<summary>Operations by role</summary>",
    ] {
        assert!(
            all().any(|reported| reported.html.contains(section)),
            "no page has {section}"
        );
    }
}

/// Checks that the test above can fail: any changed number in the JSON is found on the page.
#[test]
fn a_number_that_differs_is_found() {
    let session = structured();
    let reported = made_up("4 ranks", &session, &traffic(&session));
    let walked = Walked::of_document(&read(&reported));
    assert_eq!(walked.differences(&reported.json), Vec::<String>::new());
    for pointer in [
        "/totals/operations",
        "/totals/bytes",
        "/axis/end_ns",
        "/steps/duration_ns/value/p50",
        "/operations/0/transfer_ns/value/p99",
        "/breakdown/1/exposed_wait_ns",
        "/blame/ranks/2/caused_rank_ns",
        "/waits/exposed_wait_ns/1/3",
        "/pairs/list/value/0/bytes",
        "/ranks/3/pid",
        "/structure/0/groups/2/size",
        "/structure/0/pipelines/0/stages/1/own_rank_ns",
        "/structure/0/pipelines/0/stages/0/bubble/value/numerator",
        "/structure/0/pipelines/0/micro_batches/value",
        "/named_times/ranks/2/parts/0/in_run_ns",
        "/steps/other_kinds",
        "/steps/counted/0/ns_each",
        "/rollups/host/groups/1/sent_to_other_hosts_bytes",
        "/rollups/host/groups/0/exposed_wait_rank_ns/value",
        "/rollups/host/total/window_rank_ns",
        "/rollups/role/roles/0/operations",
    ] {
        let mut json = reported.json.clone();
        let value = json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
        *value = json!(value.as_f64().expect("a number") * 1.07 + 7.0);
        let wrong = walked.differences(&json);
        assert!(!wrong.is_empty(), "{pointer} may be anything");
    }
    let mut json = reported.json.clone();
    json["ranks"][1]["name"] = json!("rank 11");
    assert!(!walked.differences(&json).is_empty(), "a name may be anything");
    // A number that was added to the page by hand.
    let by_hand = reported.html.replacen("<h2>", "<p>about 12 ms</p><h2>", 1);
    let by_hand = Reported {
        html: by_hand,
        ..reported
    };
    let wrong = Walked::of_document(&read(&by_hand)).differences(&by_hand.json);
    assert_eq!(
        wrong,
        ["a number that does not say where it comes from: 'about 12 ms'"]
    );
}

#[test]
fn a_page_of_a_thousand_ranks_can_be_mailed() {
    let session = Job {
        ranks: 1_024,
        steps: 3_000,
        slow: Some(777),
        hosts: 128,
    }
    .session();
    // Add everything that a real device reports to each rank.
    let (_directory, traces) = imported();
    let of_traces: Session = serde_json::from_value(traces.json).expect("a session");
    let mut session = session;
    session.activity = (0..1_024)
        .map(|rank| DeviceActivity {
            rank,
            ..of_traces.activity[0].clone()
        })
        .collect();
    let reported = made_up("1,024 ranks with devices", &session, &traffic(&session));
    let length = reported.html.len();
    assert!(length < 5_000_000, "{length} bytes");
    expect_no_difference(&Walked::of_document(&read(&reported)), &reported);
    // Sums follow the rows that were left out.
    assert!(reported.html.contains("data-from=\"/rollups/device/total/name\""));
    // Each table with more rows than it shows reports how many were left out.
    assert!(reported.html.contains(
        "The first <span data-as=\"drawn\">500</span> of <span data-as=\"drawn\">1024</span> rows"
    ));
}

/// Widths at which a page is read, in pixels: a screen, and A4 paper in portrait and landscape, without its margins.
const SCREEN: u32 = 1_280;
const UPRIGHT: u32 = 718;
const ACROSS: u32 = 1_046;

/// Script that lists content beyond the edges or collapsed, which would be missing on paper.
const CUT: &str = r#"(() => {
  const cut = [], width = document.documentElement.clientWidth;
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg') && e.tagName !== 'svg' || !e.textContent.trim()) continue;
    const place = e.getBoundingClientRect();
    if (place.right > width + 1 || place.left < -1)
      cut.push(e.tagName + ' ' + e.textContent.slice(0, 40) + ' from ' + place.left + ' to ' + place.right);
    if (!e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}))
      cut.push('hidden: ' + e.tagName + ' ' + e.textContent.slice(0, 40));
  }
  return cut;
})()"#;

#[test]
fn a_browser_shows_the_numbers_of_the_json_in_light_and_dark_and_in_print() {
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let directory = tempfile::tempdir().expect("a directory");
    let (_traces, traces) = imported();
    let (_runs, runs) = merged();
    for reported in all_made_up().iter().chain(&runs).chain([&traces]) {
        let name = &reported.name;
        let file = directory.path().join("report.html");
        fs::write(&file, &reported.html).expect("written");
        browser.emulate("screen", SCREEN, "light");
        browser.open(&file);
        let walked = Walked::of(&browser.evaluate(WALK));
        expect_no_difference(&walked, reported);
        // The browser reads the same content as an XML parser.
        let by_xml = Walked::of_document(&read(reported));
        assert_eq!(walked.forms(), by_xml.forms(), "{name}");
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            browser.emulate("screen", SCREEN, scheme);
            let seen = browser.evaluate(CONTRAST);
            assert_eq!(seen["faint"], json!([]), "{name}, {scheme}");
            backgrounds.push(seen["background"].clone());
        }
        assert_ne!(backgrounds[0], backgrounds[1], "{name}: dark is as light");
        for width in [UPRIGHT, ACROSS] {
            // Paper is white, whatever the screen's colours.
            browser.emulate("print", width, "dark");
            assert_eq!(browser.evaluate(CONTRAST)["background"], backgrounds[0], "{name}");
            assert_eq!(browser.evaluate(CUT), json!([]), "{name} on {width} px of paper");
        }
        assert!(browser.print().len() > 10_000, "{name}");
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}");
    }
}

/// A picture of the timeline is embedded in the page: nothing is loaded, and the page stays well-formed.
#[test]
fn a_picture_of_the_timeline_is_in_the_page() {
    // PNG of one red pixel.
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
    let png = BASE64_STANDARD.decode(PNG).expect("a picture");
    let session = Job::new(2, 5).session();
    let html = page_with(&session, &[], Some(&png));
    assert!(!page(&session, &[]).contains("<img"));
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&html, options).expect("well-formed");
    let image = document
        .descendants()
        .find(|node| node.has_tag_name("img"))
        .expect("an image");
    assert_eq!(
        image.attribute("src"),
        Some(format!("data:image/png;base64,{PNG}").as_str())
    );
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.html");
    fs::write(&file, html).expect("written");
    browser.open(&file);
    let width = browser.evaluate("document.querySelector('img.timeline').naturalWidth");
    assert_eq!(width, json!(1));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Checks that the browser's complaints are received: this page requests a forbidden resource.
#[test]
fn complaints_of_the_browser_are_reported() {
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.html");
    let session = Job::new(2, 5).session();
    let html = page(&session, &[]);
    for wrong in ["<script>1</script>", "<img src=\"elsewhere.png\"/>"] {
        fs::write(&file, html.replacen("</body>", &format!("{wrong}</body>"), 1)).expect("written");
        browser.open(&file);
        // Complaints may arrive after the page.
        browser.evaluate("new Promise(done => setTimeout(done, 200))");
        assert_ne!(browser.complaints, Vec::<String>::new(), "{wrong}");
    }
}
