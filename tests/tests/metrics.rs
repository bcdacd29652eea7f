//! `rankscope serve` on a real job: scraped by a real Prometheus, and compared with the report of the same run.

use rankscope_tests::http::{Mailbox, free_port, get};
use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Process};
use rankscope_tests::{artefacts, compile, results, setup, skip, turn, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const OPENMETRICS: (&str, &str) = ("Accept", "application/openmetrics-text; version=1.0.0");

/// Starts `rankscope serve` for a run directory.
fn serve(run: &Path, port: u16, options: &[&str]) -> Process {
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command
        .arg("serve")
        .arg(run)
        .args([
            "--metrics",
            &format!("127.0.0.1:{port}"),
            "--window",
            "8s",
            "--interval",
            "2s",
        ])
        .args(options);
    Process::start(command)
}

/// Samples of a text in the format of Prometheus, by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name, value.parse().ok()?))
        })
        .collect()
}

/// Returns the sum of all samples of a family.
fn sum(samples: &BTreeMap<&str, f64>, name: &str) -> f64 {
    let of_family = |key: &str| key == name || key.starts_with(&format!("{name}{{"));
    samples
        .iter()
        .filter(|(key, _)| of_family(key))
        .map(|(_, value)| value)
        .sum()
}

/// Runs promtool, which must succeed.
fn promtool(tools: &Path, arguments: &[&str], directory: &Path, input: Option<&str>) {
    let mut command = Command::new(tools.join("promtool"));
    command.args(arguments).current_dir(directory);
    let input_file = input.map(|text| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    });
    if let Some(file) = &input_file {
        command.stdin(std::fs::File::open(file.path()).expect("opened"));
    }
    let output = command.output().expect("promtool runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "promtool {arguments:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// A Prometheus that scrapes a port every second.
struct Prometheus {
    url: String,
    process: Option<Process>,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(tools: &Path, target: u16) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let config = std::fs::read_to_string(artefacts::root().join("examples/prometheus/prometheus.yml"))
            .expect("the example")
            .replace("127.0.0.1:9400", &format!("127.0.0.1:{target}"))
            .replace("15s", "1s")
            + "\nglobal:\n  evaluation_interval: 1s\n";
        std::fs::write(folder.path().join("prometheus.yml"), config).expect("written");
        let rules = artefacts::root().join("examples/prometheus/rankscope.rules.yml");
        std::fs::copy(rules, folder.path().join("rankscope.rules.yml")).expect("copied");
        let port = free_port();
        let mut command = Command::new(tools.join("prometheus"));
        command
            .current_dir(folder.path())
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn");
        Self {
            url: format!("http://127.0.0.1:{port}"),
            process: Some(Process::start(command)),
            _folder: folder,
        }
    }

    /// Returns the result of a query.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!("{}/api/v1/query?query={encoded}", self.url);
        let Some((200, body)) = get(&url, &[]) else {
            return Vec::new();
        };
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    fn value(&self, query: &str) -> Option<f64> {
        self.query(query).first()?["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(libc::SIGKILL);
            process.wait(Duration::from_secs(10));
        }
    }
}

#[test]
fn the_dashboard_is_one_by_grafanas_schema() {
    let schema = artefacts::root().join("tests/grafana-schema");
    if !schema.join("node_modules").is_dir() {
        skip("Grafana's schema is not installed (tests/setup/node.sh)");
        return;
    }
    let check = |file: &Path| {
        let check = schema.join("check.mjs");
        let output = Command::new("node").arg(check).arg(file).output().expect("node");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    };
    let dashboard = artefacts::root().join("examples/prometheus/dashboard.json");
    assert_eq!(check(&dashboard), (true, String::new()));
    // The check finds a wrong value, and a property that does not exist.
    let text = fs::read_to_string(&dashboard).expect("readable");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let changed = folder.path().join("dashboard.json");
    for (from, to) in [
        ("\"absolute\"", "\"absolut\""),
        ("\"lineWidth\"", "\"lineWidht\""),
        ("\"fieldConfig\"", "\"fieldsConfig\""),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&changed, text.replacen(from, to, 1)).expect("written");
        let (is_right, problems) = check(&changed);
        assert!(!is_right && !problems.is_empty(), "{to}");
    }
}

/// Returns the queries of the dashboard with its variables replaced.
fn queries_of_the_dashboard() -> Vec<(String, String)> {
    let file = artefacts::root().join("examples/prometheus/dashboard.json");
    let text = std::fs::read_to_string(file).expect("the example");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap_or_default().to_owned();
        let targets = panel["targets"].as_array().expect("targets");
        targets.iter().map(move |target| {
            let query = target["expr"].as_str().expect("a query");
            let query = query
                .replace("$instance", ".+")
                .replace("$__rate_interval", "10s");
            (title.clone(), query)
        })
    });
    targets.collect()
}

#[test]
fn a_real_prometheus_scrapes_what_the_report_says() {
    let Some(tools) = setup::path("prometheus.sh") else {
        return;
    };
    let turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    std::fs::create_dir(&run).expect("a run directory");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/metrics");
    let server = serve(&run, port, &[]);
    let prometheus = Prometheus::start(&tools, port);
    wait_until("the server answers before the job begins", || {
        get(&url, &[]).is_some()
    });
    let (_, early) = get(&url, &[OPENMETRICS]).expect("an answer");
    assert!(
        early.ends_with("# EOF\n") && early.contains("rankscope_build_info{"),
        "{early}"
    );

    // Steps of 25 ms for 20 s; rank 2 of 4 is late by another 10 ms.
    let mut job = Job::program(&program, 4).record_into(&run);
    for argument in ["ddp", "560", "25000", "persistent", "2", "560", "7"] {
        job = job.arg(argument);
    }
    let running = job.start(&turn);
    wait_until("the job is scraped", || {
        prometheus.value("rankscope_ranks{state=\"running\"}") == Some(4.0)
    });
    wait_until("a late rank is a warning", || {
        !prometheus
            .query("rankscope_warning{kind=\"late-rank\", subject=\"rank 2\"} == 1")
            .is_empty()
    });
    let mut unanswered = queries_of_the_dashboard();
    // The double of a GPU records none; there is one rank or more in each of the others.
    wait_until("every panel has data while the job runs", || {
        unanswered.retain(|(_, query)| prometheus.query(query).is_empty());
        unanswered.is_empty()
    });
    let late = "topk(1, rankscope_rank_caused_exposed_wait)";
    let worst = prometheus.query(late);
    assert_eq!(worst[0]["metric"]["rank"], "2", "{worst:?}");
    let (status, json) = get(&format!("http://127.0.0.1:{port}/top.json"), &[]).expect("an answer");
    let top: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &top["ranks_running"]), (200, &Value::from(4)));
    wait_until("the alert is pending", || {
        !prometheus
            .query("ALERTS{alertname=\"RankscopeWarning\"}")
            .is_empty()
    });
    let finished = running.wait();
    finished.expect_status(0);

    // The last windows are read.
    sleep(Duration::from_secs(10));
    let (_, text) = get(&url, &[]).expect("an answer");
    let (_, openmetrics) = get(&url, &[OPENMETRICS]).expect("an answer");
    let scraped = prometheus.value("sum(rankscope_instances_total)");
    server.signal(libc::SIGTERM);
    server.wait(Duration::from_secs(10));
    promtool(&tools, &["check", "metrics"], directory.path(), Some(&text));
    assert!(openmetrics.ends_with("# EOF\n"), "{openmetrics}");

    let report = results::session(&run);
    let samples = samples(&text);
    let classes = report["operations"].as_array().expect("operations");
    let known = |field: &str| -> f64 { classes.iter().filter_map(|class| class[field].as_f64()).sum() };
    let instances = sum(&samples, "rankscope_instances_total");
    assert_eq!(scraped, Some(instances));
    assert_eq!(sum(&samples, "rankscope_uncounted_seconds_total"), 0.0);
    let expected = results::integer(&report, "/matching/complete") as f64;
    assert!(
        (instances / expected - 1.0).abs() < 0.01,
        "{instances} of {expected} instances are counted"
    );
    let steps = sum(&samples, "rankscope_step_time_seconds_count");
    let expected = report["steps"]["count"].as_f64().expect("steps");
    assert!(
        (steps / expected - 1.0).abs() < 0.05,
        "{steps} of {expected} steps are counted"
    );
    let step_time = sum(&samples, "rankscope_step_time_seconds_sum") / steps * 1e9;
    // The longest over the ranks is at least the median of all.
    let median = results::integer(&report, "/steps/median_ns/value") as f64;
    assert!(
        (0.95..1.5).contains(&(step_time / median)),
        "{step_time} and {median}"
    );
    let waited = sum(&samples, "rankscope_exposed_wait_rank_seconds_total") * 1e9;
    let expected = known("exposed_wait_rank_ns");
    assert!((waited / expected - 1.0).abs() < 0.03, "{waited} of {expected}");
    let transfers = sum(&samples, "rankscope_transfer_seconds_count");
    assert!(
        transfers > 0.9 * instances,
        "{transfers} of {instances} have a transfer time"
    );
}

#[test]
fn examples_for_prometheus_are_valid() {
    let Some(tools) = setup::path("prometheus.sh") else {
        return;
    };
    let folder = artefacts::root().join("examples/prometheus");
    promtool(&tools, &["check", "config", "prometheus.yml"], &folder, None);
    promtool(
        &tools,
        &["test", "rules", "rankscope.rules.test.yml"],
        &folder,
        None,
    );
}

#[test]
fn other_machines_need_a_token() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().to_str().expect("a name");
    let refused = results::rankscope(["serve", run, "--metrics", "0.0.0.0:0"]);
    assert_eq!(refused.code(), 2);
    assert!(
        refused.complaints().contains("--token-file"),
        "{}",
        refused.complaints()
    );
    let narrow = results::rankscope(["serve", run, "--window", "5s", "--interval", "4s"]);
    assert_eq!(narrow.code(), 2);

    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").expect("written");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/metrics");
    let server = serve(
        directory.path(),
        port,
        &["--token-file", file.to_str().expect("a name")],
    );
    wait_until("the server answers", || get(&url, &[]).is_some());
    let status = |headers: &[(&str, &str)]| get(&url, headers).map(|(status, _)| status);
    assert_eq!(status(&[]), Some(401));
    assert_eq!(status(&[("Authorization", "Bearer 0123456789abcdeX")]), Some(401));
    assert_eq!(status(&[("Authorization", "Bearer 0123456789abcdef")]), Some(200));
    let taken = results::rankscope(["serve", run, "--metrics", &format!("127.0.0.1:{port}")]);
    assert_eq!(taken.code(), 2);
    assert!(
        taken.complaints().contains("cannot listen"),
        "{}",
        taken.complaints()
    );
    server.signal(libc::SIGTERM);
    server.wait(Duration::from_secs(10));
}

#[test]
fn warnings_reach_a_webhook_and_a_command_once_while_the_job_runs() {
    let turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    let mailbox = Mailbox::start();
    let mut job = Job::program(&program, 4).record_into(&run);
    for argument in ["ddp", "300", "25000", "persistent", "2", "400", "7"] {
        job = job.arg(argument);
    }
    let running = job.start(&turn);
    wait_until("the job records", || run.exists());
    let events = directory.path().join("events");
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command
        .arg("watch")
        .arg(&run)
        .args(["--warnings", "--no-hangs", "--warning-window", "4s"])
        .arg("--webhook")
        .arg(mailbox.url())
        .arg("--warning-command")
        .arg(format!("cat >> {}", events.display()));
    let watch = Process::start(command);
    running.wait().expect_status(0);
    watch.signal(libc::SIGTERM);
    let watch = watch.wait(Duration::from_secs(10));

    let of_rank = |event: &&Value| event["warning"]["kind"] == "late-rank";
    let received = mailbox.received();
    let late: Vec<&Value> = received.iter().filter(of_rank).collect();
    assert_eq!(late.len(), 1, "{received:?}");
    assert_eq!(late[0]["event"], "warning");
    assert_eq!(late[0]["warning"]["subject"], "rank 2");
    let text = late[0]["text"].as_str().expect("a text");
    assert!(text.contains("warning: rank 2 is late"), "{text}");
    let printed = watch.complaints();
    assert_eq!(printed.matches("warning: rank 2 is late").count(), 1, "{printed}");
    let events = std::fs::read_to_string(events).expect("the command ran");
    let events: Vec<Value> = serde_json::Deserializer::from_str(&events)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("events");
    assert_eq!(events.iter().filter(of_rank).count(), 1, "{events:?}");
}
