//! Tests reports of runs in periods, and what other commands do with such a run and with one of its periods.
//!
//! `REPORT_OUT=DIR cargo test -p rankscope --test report_periods` also writes the pages to DIR for visual inspection.

use rankscope_analysis::MergeOptions;
use rankscope_analysis::merge::in_periods::{PeriodOptions, merge_in_periods};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::page::browser::Browser;
use rankscope_fixtures::page::{CONTRAST, WALK, Walked, skip};
use rankscope_formats::session::{
    Figure, PERIODS_VERSION, Period, PeriodFinding, Periods, ProblemSummary, Ratio, Session, Severity, Tool,
};
use rankscope_report::periods::{Links, page, text, text_of_range};
use rankscope_report::{Places, TextLayout};
use roxmltree::{Document, ParsingOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;
/// Start of the week, in nanoseconds since 1970.
const START: i64 = 1_795_255_200 * SECOND_NS;

/// Returns a list of hours. One rank is late for a day, few hours have other findings, and some hours are missing. After
/// five days, a log appears late.
fn hours(count: i64) -> Periods {
    let finding = |kind: &str, severity, subject: Option<&str>, title: String, cost_ns| PeriodFinding {
        kind: kind.to_owned(),
        severity,
        subject: subject.map(str::to_owned),
        title,
        cost_ns,
    };
    let period = |hour: i64| {
        let wave = (hour * 37 % 17) as f64 / 17.0;
        let is_slow = (60..84).contains(&hour);
        let median_ns = ((0.9 + wave * 0.05 + if is_slow { 0.3 } else { 0.0 }) * 1e9) as i64;
        let rank_ns = 8 * HOUR_NS;
        let share = |share: f64| {
            Ratio::figure(
                (share * rank_ns as f64) as i64,
                rank_ns,
                "no rank has any time in this period",
            )
        };
        let mut findings = Vec::new();
        if is_slow {
            let cost_ns = (0.2 + wave * 0.1) * HOUR_NS as f64;
            let title = format!("rank 5 is late in {} % of the steps", 80 + hour % 17);
            findings.push(finding(
                "late-rank",
                Severity::Critical,
                Some("rank 5"),
                title,
                Figure::known(cost_ns as i64),
            ));
        }
        if hour % 11 == 3 {
            let title = "all-reduces of less than 64 KiB take 12 % of the time".to_owned();
            findings.push(finding(
                "small-buckets",
                Severity::Warning,
                None,
                title,
                Figure::known(60 * SECOND_NS),
            ));
        }
        if hour == 100 {
            let unknown = Figure::unknown("the cost of a slow link is not known");
            let host = Some("host gpu-node-with-a-long-name-0117.example.org");
            findings.push(finding(
                "slow-link",
                Severity::Warning,
                host,
                "the link of a host is slow".to_owned(),
                unknown,
            ));
        }
        let from_unix_ns = START + hour * HOUR_NS;
        Period {
            name: format!("hour-{hour}"),
            from_unix_ns,
            until_unix_ns: from_unix_ns + HOUR_NS,
            is_final: hour + 1 < count,
            ranks: if hour == 120 { 7 } else { 8 },
            operations: 1_250_000 + hour as u64,
            bytes: 3 << 40,
            steps: if hour == 30 { 0 } else { 3_900 },
            median_step_ns: if hour == 30 {
                Figure::unknown("no whole step")
            } else {
                Figure::known(median_ns)
            },
            exposed_communication: share(0.11 + wave * 0.02 + if is_slow { 0.21 } else { 0.0 }),
            exposed_wait: share(0.03 + wave * 0.01 + if is_slow { 0.2 } else { 0.0 }),
            left_out: u64::from(hour % 50 == 7) * 3,
            lost: u64::from(hour == 99) * 1_234,
            problems: u64::from(hour == 99) * 2,
            findings,
        }
    };
    Periods {
        version: PERIODS_VERSION,
        tool: Tool {
            name: "rankscope".to_owned(),
            version: "0.1.0".to_owned(),
        },
        directories: vec!["/scratch/runs/pretrain".to_owned()],
        length_ns: HOUR_NS,
        origin_unix_ns: START + 120 * SECOND_NS,
        periods: (0..count)
            .filter(|hour| !(40..44).contains(hour))
            .map(period)
            .collect(),
        missed: Vec::from_iter((count > 120).then(|| ProblemSummary {
            rank: None,
            file: Some("run/rank-7.rslog".to_owned()),
            offset_bytes: None,
            what: "the log appeared late".to_owned(),
        })),
    }
}

fn places() -> Places {
    Places {
        session: PathBuf::from("/scratch/runs/pretrain/session"),
        trace: None,
        report: Some(PathBuf::from("/scratch/runs/pretrain/report.html")),
    }
}

/// A run in periods.
struct Run {
    folder: TempDir,
    list: Periods,
}

impl Run {
    /// Steps of about 100 ms, in periods of 7 s.
    fn new() -> Self {
        let job = Ddp::of_long_steps(300);
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        job.write(&run).expect("written");
        let options = MergeOptions::new(vec![run.clone()], run.join("session"));
        let periods = PeriodOptions {
            now_unix_ns: i64::MAX,
            ..PeriodOptions::new(7 * SECOND_NS)
        };
        let list = merge_in_periods(&options, &periods, &mut |_| {});
        Self {
            folder,
            list: list.expect("merged"),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn period(&self, at: usize) -> PathBuf {
        self.list.periods[at].path(&self.path().join("session"))
    }

    /// Runs the program in the folder of the run.
    fn program(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rankscope"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the program")
    }

    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

fn read(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(html, options).expect("well-formed")
}

fn expect_no_difference(walked: &Walked, list: &Value, name: &str) {
    let wrong = walked.differences(list);
    assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
}

/// Lists of all sizes.
fn lists() -> Vec<(&'static str, Periods)> {
    vec![
        (
            "none",
            Periods {
                periods: Vec::new(),
                ..hours(1)
            },
        ),
        ("one", hours(1)),
        ("three", hours(3)),
        ("week", hours(168)),
        ("ten-weeks", hours(1_680)),
    ]
}

#[test]
fn overviews() {
    for (name, list) in lists() {
        insta::assert_snapshot!(
            format!("periods-{name}"),
            text(&list, &places(), &TextLayout::plain(110))
        );
    }
    let list = hours(168);
    let few = Periods {
        periods: list.periods[2..5].to_vec(),
        ..list.clone()
    };
    insta::assert_snapshot!(
        "periods-range",
        text_of_range(&few, "between 2 h and 5 h", 164, &TextLayout::plain(110))
    );
}

#[test]
fn an_overview_names_a_final_period_that_has_something_to_show() {
    let named = |list: &Periods| {
        let text = text(list, &places(), &TextLayout::plain(110));
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains("newest final period"));
        let at = at.expect("a period is named");
        (
            lines[at - 1].trim().to_owned(),
            lines[at].contains("with operations"),
        )
    };
    let mut list = hours(5);
    for (empty, name, has_operations) in [
        (4, "hour-3", true),
        (3, "hour-2", true),
        (1, "hour-2", true),
        (2, "hour-0", true),
        (0, "hour-3", false),
    ] {
        list.periods[empty].operations = 0;
        let (named, has) = named(&list);
        assert!(named.ends_with(name), "{named} instead of {name}");
        assert_eq!(has, has_operations, "{named}");
    }
}

#[test]
fn an_overview_fits_narrow_terminals_and_is_short() {
    for (name, list) in lists() {
        for width in [60, 80, 160] {
            let text = text(&list, &places(), &TextLayout::plain(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{name}: {widest} columns of {width}\n{text}");
            assert!(text.lines().count() < 140, "{name}\n{text}");
        }
    }
}

#[test]
fn every_number_of_the_page_is_that_of_the_list() {
    for (name, list) in lists() {
        let html = page(&list, &Links::none());
        let walked = Walked::of_document(&read(&html));
        let list = serde_json::to_value(&list).expect("JSON");
        expect_no_difference(&walked, &list, name);
        assert!(html.len() < 5_000_000, "{name}: {} bytes", html.len());
        if name == "week" {
            for pointer in [
                "/periods/70/median_step_ns/value",
                "/periods/60/findings/0/cost_ns/value",
                "/periods/3/operations",
            ] {
                let mut list = list.clone();
                let value = list.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
                *value = json!(value.as_f64().expect("a number") * 1.07 + 7.0);
                assert!(!walked.differences(&list).is_empty(), "{pointer} may be anything");
            }
        }
        if let Some(folder) = std::env::var_os("REPORT_OUT") {
            fs::write(Path::new(&folder).join(format!("periods-{name}.html")), html).expect("written");
        }
    }
}

#[test]
fn a_browser_shows_the_page_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    for (name, list) in lists() {
        fs::write(&file, page(&list, &Links::none())).expect("written");
        for scheme in ["light", "dark"] {
            browser.emulate("screen", 1_280, scheme);
            browser.open(&file);
            let walked = Walked::of(&browser.evaluate(WALK));
            expect_no_difference(&walked, &serde_json::to_value(&list).expect("JSON"), name);
            assert_eq!(browser.evaluate(CONTRAST)["faint"], json!([]), "{name}, {scheme}");
        }
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_run_in_periods_has_an_overview() {
    let run = Run::new();
    let list = fs::read_to_string(run.path().join("session/periods.json")).expect("a list");
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let printed = run.prints(&["report", "run"]);
    let count = run.list.periods.len();
    assert!(
        printed.contains(&format!("{count} periods of 7.00 s, all final")),
        "{printed}"
    );
    assert!(printed.contains("run/report.html"), "{printed}");
    let html = fs::read_to_string(run.path().join("report.html")).expect("a page");
    expect_no_difference(&Walked::of_document(&read(&html)), &list, "run");
    assert!(!html.contains("<a "));
    // The report of a period is inside the period, and the page links to it.
    let second = run.period(1);
    run.prints(&["report", second.to_str().expect("a path")]);
    assert!(second.join("report.html").exists());
    fs::create_dir(run.folder.path().join("pages")).expect("made");
    run.prints(&["report", "run/session", "--html", "pages/of run.html"]);
    let html = fs::read_to_string(run.folder.path().join("pages/of run.html")).expect("a page");
    let address = format!("../run/session/periods/{}/report.html", run.list.periods[1].name);
    let page = read(&html);
    let links: Vec<_> = page
        .descendants()
        .filter_map(|node| node.attribute("href"))
        .collect();
    assert_eq!(links, [address.as_str()]);
    expect_no_difference(&Walked::of_document(&page), &list, "with a link");
    // A report of an earlier merge is no link.
    let summary = second.join("session.json");
    let bytes = fs::read(&summary).expect("a summary");
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&summary, bytes).expect("written");
    run.prints(&["report", "run"]);
    assert!(
        !fs::read_to_string(run.path().join("report.html"))
            .expect("a page")
            .contains("<a ")
    );
    let json = run.prints(&["report", "run", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), list);
}

#[test]
fn the_list_matches_its_schema() {
    let run = Run::new();
    let schema: Value = serde_json::from_str(&run.prints(&["report", "--schema=periods"])).expect("JSON");
    assert_eq!(schema, rankscope_formats::session::periods_schema());
    let fields =
        |value: &Value| -> Vec<String> { value.as_object().expect("an object").keys().cloned().collect() };
    for (of, value) in [
        (&schema, json!(run.list)),
        (&schema["$defs"]["Period"], json!(run.list.periods[0])),
        (
            &schema["$defs"]["PeriodFinding"],
            json!(hours(100).periods[60].findings[0]),
        ),
    ] {
        assert_eq!(fields(&of["properties"]), fields(&value));
        for (name, field) in of["properties"].as_object().expect("fields") {
            let is_described = field.get("description").is_some() || field.get("$ref").is_some();
            assert!(is_described, "{name}");
        }
    }
}

#[test]
fn a_range_reads_only_the_periods_that_it_overlaps() {
    let run = Run::new();
    let origin = run.list.origin_unix_ns;
    let bounds = |at: usize| {
        let period = &run.list.periods[at];
        (period.from_unix_ns - origin, period.until_unix_ns - origin)
    };
    let (from, until) = bounds(2);
    let inside = format!("{}ns..{}ns", from + SECOND_NS, until - SECOND_NS);
    let across = format!("{}ns..{}ns", from + SECOND_NS, until + SECOND_NS);
    // The other periods are not read.
    for other in [0, 1] {
        fs::write(run.period(other).join("session.json"), "{").expect("written");
    }
    let of_run = run.prints(&["report", "run", "--range", &inside, "--json"]);
    let period = run.period(2);
    let of_period = run.prints(&[
        "report",
        period.to_str().expect("a path"),
        "--range",
        &inside,
        "--json",
    ]);
    assert_eq!(of_run, of_period);
    let selection: Value = serde_json::from_str(&of_run).expect("JSON");
    assert!(selection["totals"]["instances"].as_u64() > Some(0), "{selection}");
    assert_eq!(
        Session::read(&period).expect("a session").axis.origin_unix_ns,
        origin
    );
    let several = run.prints(&["report", "run", "--range", &across]);
    let count = run.list.periods.len();
    assert!(
        several.contains(&format!("Only 2 of {count} periods: those with time ")),
        "{several}"
    );
    let several: Value =
        serde_json::from_str(&run.prints(&["report", "run", "--range", &across, "--json"])).expect("JSON");
    assert_eq!(several["periods"], json!(run.list.periods[2..4]));
    let refused = run.fails(&["report", "run", "--range", &across, "--ranks", "0"]);
    assert!(refused.contains("--ranks needs one session"), "{refused}");
    let outside = run.fails(&["report", "run", "--range", "2h..3h"]);
    assert!(
        outside.contains("no period has records between 2 h 00 min and 3 h 00 min"),
        "{outside}"
    );
    assert!(
        outside.contains(&format!("the run has {count} periods from 0 to")),
        "{outside}"
    );
}

#[test]
fn commands_that_need_one_session_name_the_newest_periods() {
    let run = Run::new();
    let newest = format!(
        "run/session/periods/{}",
        run.list.periods.last().expect("a period").name
    );
    for arguments in [
        &["report", "run", "--by", "host"] as &[&str],
        &["report", "run", "--share"],
        &["report", "run", "--timeline"],
        &["report", "run", "--tokens-per-step", "5"],
        &["heatmap", "run"],
        &["export", "run", "--perfetto"],
        &["compare", "run", "--", "run"],
    ] {
        let error = run.fails(arguments);
        assert!(
            error.contains("is merged in") && error.contains(&newest),
            "{arguments:?}: {error}"
        );
    }
    // A run in periods is not missing silently from a folder of runs.
    let error = String::from_utf8(run.program(&["compare", ".", "--", "."]).stderr).expect("text");
    assert!(error.contains("left out: ./run is merged in"), "{error}");
}

#[test]
fn a_period_works_with_every_command() {
    let run = Run::new();
    let path = |at: usize| format!("run/session/periods/{}", run.list.periods[at].name);
    let (one, other) = (path(1), path(2));
    let before = fs::read_dir(run.path().join("session/periods"))
        .expect("a folder")
        .count();
    run.prints(&["report", &one]);
    run.prints(&["report", &one, "--by", "host"]);
    run.prints(&["report", &one, "--share"]);
    run.prints(&["heatmap", &one]);
    run.prints(&["export", &one, "--perfetto"]);
    for result in ["report.html", "report-shared.html", "heatmaps", "trace.pftrace"] {
        assert!(run.folder.path().join(&one).join(result).exists(), "{result}");
    }
    let compared = run.program(&["compare", &one, "--", &other]);
    assert!(matches!(compared.status.code(), Some(0 | 1 | 3)), "{compared:?}");
    let compared = String::from_utf8(compared.stdout).expect("text");
    for period in [1, 2] {
        assert!(compared.contains(&run.list.periods[period].name), "{compared}");
    }
    // The next merge removes what is not in the list.
    let after = fs::read_dir(run.path().join("session/periods"))
        .expect("a folder")
        .count();
    assert_eq!(before, after, "files beside the periods");
}
