//! Measures how surely rankscope finds faults, and how silent it is without them.
//!
//! The study runs trainings over real Gloo with faults of known size. Each is accompanied by a twin, the same training
//! without the fault (`tests/programs/gloo_train.cc`).
//!
//! `cargo run --release -p rankscope-tests --bin fault_study -- --repeat 10`
//!
//! Each training is a line of JSON in the file that `--lines` names. The tables come at the end. Ranks compute by
//! waiting for the clock, but communicate with a processor: the machine must have nothing else to do. Idle-priority
//! threads keep the processors awake, as a training's own threads would. Waking a processor of a virtual machine takes
//! longer than a message, and the time varies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use rankscope_tests::training::{Fault, Outcome, Training};
use rankscope_tests::turn::Turn;
use rankscope_tests::{compile, turn};
use serde_json::{Value, json};

/// Trainings with known faults, and the findings of rankscope about them.
#[derive(Parser)]
struct Arguments {
    /// Number of trainings without a fault that are no twins.
    #[arg(long, default_value_t = 20)]
    silent: usize,
    /// Trainings of each fault, pattern and effect of 5 %, each with a twin without the fault.
    #[arg(long, default_value_t = 10)]
    repeat: usize,
    /// Trainings of each fault at each of 1, 2 and 10 % (ddp), each with a twin.
    #[arg(long, default_value_t = 10)]
    curve: usize,
    /// Trainings at a time.
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Let processors sleep.
    #[arg(long)]
    sleepy: bool,
    /// Steps of a training.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Computing time of a step, µs.
    #[arg(long, default_value_t = 50_000)]
    step_us: u32,
    /// Also run trainings of four ranks on two hosts of this machine: more ranks than a small machine has processors.
    #[arg(long)]
    four: bool,
    /// Also run trainings of three ranks on three hosts, which a router joins, with and without a slow link.
    #[arg(long)]
    links: bool,
    /// First seed. Parts of the same study need different seeds.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only these patterns.
    #[arg(long, value_delimiter = ',')]
    patterns: Vec<String>,
    /// Only these faults.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Folder for the whole reports of trainings in which the fault was not found, or something else was found.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// File for a line of JSON per training.
    #[arg(long, default_value = "fault_study.jsonl")]
    lines: PathBuf,
}

/// Part of the study to which a training belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Silent,
    Recall,
    Curve,
}

struct Planned {
    part: Part,
    training: Training,
}

/// Result of one training and, if it had a fault, of its twin without.
#[derive(Clone)]
struct Result {
    part: Part,
    pattern: &'static str,
    ranks: usize,
    fault: Fault,
    permille: u32,
    findings: Vec<String>,
    is_found: bool,
    has_class: bool,
    /// Number of findings that name a rank or host, and number of those that name the right one.
    named: (usize, usize),
    /// Reported cost of the fault's finding, else of the first finding, and the difference to the twin. Both per step,
    /// in ns.
    cost_ns: Option<(f64, f64)>,
    /// Kinds of the findings of the twin without the fault.
    twin: Option<Vec<String>>,
    cuts: (usize, usize),
}

fn plan(arguments: &Arguments) -> Vec<Planned> {
    let is_selected = |list: &[String], word: &str| list.is_empty() || list.iter().any(|one| one == word);
    let patterns: Vec<&'static str> = ["ddp", "fsdp", "accumulate", "evaluate"]
        .into_iter()
        .filter(|pattern| is_selected(&arguments.patterns, pattern))
        .collect();
    let training = |pattern, fault, permille, seed| Training {
        pattern,
        ranks: 2,
        per_host: None,
        is_routed: false,
        steps: arguments.steps,
        step_us: arguments.step_us,
        fault,
        victim: seed as usize % 2,
        permille,
        seed,
    };
    let four = |pattern, fault, permille, seed: u64| Training {
        ranks: 4,
        per_host: Some(2),
        victim: match fault {
            Fault::Host => seed as usize % 2 * 2,
            _ => seed as usize % 4,
        },
        ..training(pattern, fault, permille, seed)
    };
    let mut out = Vec::new();
    let mut push = |part, training: Training| {
        if is_selected(&arguments.faults, training.fault.word()) {
            out.push(Planned { part, training });
        }
    };
    let mut seed = arguments.first_seed;
    for n in 0..arguments.silent {
        if let Some(&pattern) = patterns.get(n % patterns.len().max(1)) {
            push(Part::Silent, training(pattern, Fault::None, 0, seed));
            seed += 1;
        }
    }
    let faults = [
        Fault::Persistent,
        Fault::Recurrent,
        Fault::Transient,
        Fault::Rotating,
    ];
    for fault in faults {
        for &pattern in &patterns {
            for _ in 0..arguments.repeat {
                push(Part::Recall, training(pattern, fault, 50, seed));
                seed += 1;
            }
        }
        for permille in [10, 20, 100] {
            for _ in 0..arguments.curve {
                push(Part::Curve, training("ddp", fault, permille, seed));
                seed += 1;
            }
        }
    }
    if arguments.four {
        let patterns = ["ddp", "fsdp", "pipeline"];
        let patterns = patterns
            .into_iter()
            .filter(|pattern| is_selected(&arguments.patterns, pattern));
        for pattern in patterns {
            for _ in 0..arguments.silent / 15 {
                push(Part::Silent, four(pattern, Fault::None, 0, seed));
                seed += 1;
            }
            for fault in faults.into_iter().chain([Fault::Host]) {
                // In a pipeline only one stage would be late then. That is imbalance, which is a different question.
                if pattern == "pipeline" && matches!(fault, Fault::Rotating | Fault::Host) {
                    continue;
                }
                for _ in 0..arguments.repeat {
                    push(Part::Recall, four(pattern, fault, 50, seed));
                    seed += 1;
                }
            }
        }
    }
    if arguments.links {
        let routed = |fault, permille, seed: u64| Training {
            ranks: 3,
            per_host: Some(1),
            is_routed: true,
            victim: seed as usize % 2,
            ..training("exchange", fault, permille, seed)
        };
        for _ in 0..arguments.repeat {
            push(Part::Recall, routed(Fault::Link, 50, seed));
            seed += 1;
        }
        for permille in [10, 20, 100] {
            for _ in 0..arguments.curve {
                push(Part::Curve, routed(Fault::Link, permille, seed));
                seed += 1;
            }
        }
    }
    // Drifts of this machine should affect all parts equally.
    let count = out.len() as u64;
    out.sort_by_key(|planned| planned.training.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count.max(1));
    out
}

/// Returns true if a finding names the victim, or the victim's host, alone.
fn is_right(finding: &Value, training: &Training) -> bool {
    let ranks: Vec<u64> = finding["ranks"]
        .as_array()
        .map_or_else(Vec::new, |ranks| ranks.iter().filter_map(Value::as_u64).collect());
    let victim = training.victim as u64;
    match training.fault {
        Fault::Host | Fault::Link => ranks == [victim, victim + 1],
        Fault::None | Fault::Rotating => ranks.is_empty(),
        _ => ranks == [victim],
    }
}

fn judge(planned: &Planned, outcome: &Outcome, twin: Option<&Outcome>) -> Result {
    let Planned { part, training } = planned;
    let findings = outcome.findings();
    let expected = training.fault.finding();
    let names_ranks = |finding: &&Value| {
        matches!(
            finding["kind"].as_str(),
            Some("late-rank" | "slow-host" | "slow-link")
        )
    };
    let named = findings.iter().filter(names_ranks);
    let right = findings
        .iter()
        .filter(names_ranks)
        .filter(|finding| is_right(finding, training));
    let found = findings.iter().find(|finding| {
        expected.is_some_and(|(kind, _)| finding["kind"] == kind) && is_right(finding, training)
    });
    let class = expected.and_then(|(_, class)| class);
    let has_class = found.is_some_and(|found| class.is_none_or(|class| found["lateness"]["class"] == class));
    let steps = training.steps as f64;
    let cost_ns = found.or(findings.first()).zip(twin).and_then(|(first, twin)| {
        let stated = first["cost_ns"]["value"].as_f64()? / steps;
        Some((stated, outcome.mean_step_ns() - twin.mean_step_ns()))
    });
    Result {
        part: *part,
        pattern: training.pattern,
        ranks: training.ranks,
        fault: training.fault,
        permille: training.permille,
        findings: findings
            .iter()
            .map(|finding| finding["title"].as_str().unwrap_or("").to_owned())
            .collect(),
        is_found: found.is_some(),
        has_class,
        named: (named.count(), right.count()),
        cost_ns,
        twin: twin.map(|twin| twin.kinds().into_iter().map(str::to_owned).collect()),
        cuts: outcome.cuts(),
    }
}

fn line(planned: &Planned, result: &Result, outcome: &Outcome) -> Value {
    let training = &planned.training;
    json!({
        "part": match planned.part { Part::Silent => "silent", Part::Recall => "recall", Part::Curve => "curve" },
        "pattern": training.pattern, "ranks": training.ranks, "fault": training.fault.word(), "victim": training.victim,
        "permille": training.permille, "seed": training.seed, "found": result.is_found, "class": result.has_class,
        "named": result.named.0, "right": result.named.1, "cuts": [result.cuts.0, result.cuts.1],
        "stated_ns": result.cost_ns.map(|cost| cost.0), "true_ns": result.cost_ns.map(|cost| cost.1),
        "kinds": outcome.kinds(), "twin_kinds": result.twin, "findings": result.findings, "step_ns": outcome.mean_step_ns(),
        "steps": outcome.report["steps"]["count"], "source": outcome.report["steps"]["source"],
    })
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} % ({part} of {of})", part as f64 / of as f64 * 100.0)
    }
}

/// Returns the reported cost of all findings divided by the true cost of all faults, and its standard error. A single
/// training's difference to its twin also contains everything else that the machine did meanwhile.
fn pooled(costs: &[(f64, f64)]) -> (Option<f64>, Option<f64>) {
    let count = costs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| costs.iter().map(of).sum::<f64>() / count;
    let (stated, truth) = (mean(|cost| cost.0), mean(|cost| cost.1));
    if costs.is_empty() || truth <= 0.0 {
        return (None, None);
    }
    let ratio = stated / truth;
    let squares: f64 = costs.iter().map(|cost| (cost.0 - ratio * cost.1).powi(2)).sum();
    let error = (costs.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt() / truth);
    (Some(ratio), error)
}

fn tables(results: &[Result]) -> String {
    let mut out = String::new();
    out.push_str("\n| ranks | pattern | trainings without a fault | with a finding |\n|---|---|---|---|\n");
    let mut silent: BTreeMap<(usize, &str), Vec<&Result>> = BTreeMap::new();
    for result in results {
        silent
            .entry((result.ranks, result.pattern))
            .or_default()
            .push(result);
    }
    let cuts_of = |all: &[&Result]| {
        let equal = all.iter().map(|result| result.cuts.0).sum();
        percent(equal, all.iter().map(|result| result.cuts.1).sum())
    };
    for ((ranks, pattern), all) in &silent {
        let alone = all.iter().filter(|result| result.part == Part::Silent);
        let alone = alone.map(|result| !result.findings.is_empty());
        let twins = all.iter().filter_map(|result| result.twin.as_ref());
        let loud: Vec<bool> = alone.chain(twins.map(|kinds| !kinds.is_empty())).collect();
        let _ = writeln!(
            out,
            "| {ranks} | {pattern} | {} | {} |",
            loud.len(),
            loud.iter().filter(|&&is_loud| is_loud).count(),
        );
    }
    out.push_str(
        "\n| ranks | pattern | fault | effect | found | class right | right one named | cost stated ÷ true, of all | ± (one standard error) | median | within 20 % | steps cut as marked |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut faulty: BTreeMap<(Part, usize, &str, &str, u32), Vec<&Result>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.part != Part::Silent) {
        let key = (
            result.part,
            result.ranks,
            result.fault.word(),
            result.pattern,
            result.permille,
        );
        faulty.entry(key).or_default().push(result);
    }
    for ((_, ranks, fault, pattern, permille), all) in &faulty {
        let found = all.iter().filter(|result| result.is_found).count();
        let class = all.iter().filter(|result| result.has_class).count();
        let named: usize = all.iter().map(|result| result.named.0).sum();
        let right: usize = all.iter().map(|result| result.named.1).sum();
        let found_cost = all.iter().filter(|result| result.is_found);
        let costs: Vec<(f64, f64)> = found_cost.filter_map(|result| result.cost_ns).collect();
        let (whole, error) = pooled(&costs);
        let mut ratios: Vec<f64> = costs.iter().map(|(stated, truth)| stated / truth).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied();
        let near = ratios.iter().filter(|ratio| (0.8..=1.2).contains(*ratio)).count();
        let _ = writeln!(
            out,
            "| {ranks} | {pattern} | {fault} | {} % | {} | {} | {} | {} | {} | {} | {} | {} |",
            f64::from(*permille) / 10.0,
            percent(found, all.len()),
            percent(class, found),
            percent(right, named),
            whole.map_or_else(|| "–".to_owned(), |whole| format!("{whole:.2}")),
            error.map_or_else(|| "–".to_owned(), |error| format!("{error:.2}")),
            median.map_or_else(|| "–".to_owned(), |median| format!("{median:.2}")),
            percent(near, ratios.len()),
            cuts_of(all),
        );
    }
    let all: Vec<&Result> = results.iter().collect();
    let _ = writeln!(
        out,
        "\nends of steps and evaluations as marked, of all trainings: {}",
        cuts_of(&all)
    );
    out
}

/// Keeps the report of a training with an unexpected result.
fn keep(folder: &Path, planned: &Planned, what: &str, outcome: &Outcome) {
    let Training {
        fault, pattern, seed, ..
    } = planned.training;
    let path = folder.join(format!("{}-{pattern}-{seed}-{what}.json", fault.word()));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, outcome.report.to_string()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn run(planned: &Planned, turn: &Turn, program: &Path, kept: Option<&Path>) -> (Result, Value) {
    let outcome = planned.training.run(turn, program);
    let twin = (planned.training.fault != Fault::None).then(|| {
        let twin = Training {
            fault: Fault::None,
            ..planned.training.clone()
        };
        twin.run(turn, program)
    });
    let result = judge(planned, &outcome, twin.as_ref());
    if let Some(folder) = kept {
        let as_planned = match planned.part {
            Part::Silent => result.findings.is_empty(),
            _ => result.is_found,
        };
        if !as_planned {
            keep(folder, planned, "with", &outcome);
        }
        if let Some(twin) = twin.filter(|twin| !twin.findings().is_empty()) {
            keep(folder, planned, "without", &twin);
        }
    }
    let line = line(planned, &result, &outcome);
    (result, line)
}

/// Starts one thread per processor that runs only if nothing else does.
fn keep_awake() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for processor in 0..processors {
        std::thread::spawn(move || {
            // SAFETY: the calls affect this thread alone, with pointers to valid locals. If the policy cannot be set,
            // the thread ends: with normal priority it would disturb the study.
            let is_idle = unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(processor, &mut only);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &only);
                let parameters: libc::sched_param = std::mem::zeroed();
                libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) == 0
            };
            if is_idle {
                loop {
                    std::hint::spin_loop();
                }
            }
        });
    }
}

fn main() {
    let arguments = Arguments::parse();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let planned = plan(&arguments);
    let lines = File::create(&arguments.lines)
        .unwrap_or_else(|error| panic!("{}: {error}", arguments.lines.display()));
    let (lines, results) = (Mutex::new(lines), Mutex::new(Vec::new()));
    let next = AtomicUsize::new(0);
    let turn = turn::take();
    if !arguments.sleepy {
        keep_awake();
    }
    std::thread::scope(|scope| {
        for _ in 0..arguments.at_once.max(1) {
            scope.spawn(|| {
                while let Some(one) = planned.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (result, line) = run(one, &turn, &program, arguments.keep.as_deref());
                    let mut results = results.lock().expect("nobody panics with it");
                    results.push(result);
                    eprint!(
                        "\r{} of {} ",
                        results.len(),
                        next.load(Ordering::Relaxed).max(results.len())
                    );
                    drop(results);
                    let mut lines = lines.lock().expect("nobody panics with it");
                    writeln!(lines, "{line}").expect("room for a line");
                }
            });
        }
    });
    eprintln!();
    let results = results.into_inner().expect("nobody panicked with it");
    print!("{}", tables(&results));
}
