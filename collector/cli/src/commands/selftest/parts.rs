//! The parts: what each runs and demands.

use super::end::End;
use super::machine::Machine;
use super::outcome::{Found, PartResult, Verdict};
use super::recording::{Finished, Run};
use super::{device, operations};
use crate::commands::print::error_line;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rankscope_analysis::findings::shown;
use rankscope_analysis::model::units;
use rankscope_doctor::checks::sources::{FIRST_WITH_PLUGINS, FIRST_WITH_TIMES};
use rankscope_doctor::facts::version::Version;
use rankscope_formats::bench::{BenchResults, BenchSpread};
use rankscope_workloads::selftest::truth::DeviceTruth;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(90);
/// File of the truth in the directory of a part.
const TRUTH: &str = "truth.json";
/// Rows after which the bench is killed.
const ROWS_BEFORE_KILL: usize = 6;
/// Pairs of runs with and without the recorder.
const PRICE_PAIRS: usize = 4;

/// A part.
pub struct Part {
    /// Name.
    pub name: &'static str,
    /// What it proves.
    pub title: &'static str,
    needs: &'static [Need],
    check: fn(&Setting<'_>) -> Result<Found>,
}

/// What a part needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Gpu,
    Nccl,
    Cupti,
    Gloo,
}

/// What a part gets.
struct Setting<'a> {
    machine: &'a Machine,
    /// Library that records.
    library: &'a Path,
    /// Directory of the part.
    directory: &'a Path,
}

/// All parts, in order.
pub const ALL: &[Part] = &[
    Part {
        name: "gloo",
        title: "Gloo: every operation of two ranks",
        needs: &[Need::Gloo],
        check: gloo,
    },
    Part {
        name: "gloo-killed",
        title: "Gloo: records of ranks that are killed (SIGKILL)",
        needs: &[Need::Gloo],
        check: gloo_killed,
    },
    Part {
        name: "nccl",
        title: "NCCL: every operation, device times from its plugin",
        needs: &[Need::Gpu, Need::Nccl],
        check: |setting| nccl(setting, &[], Times::Plugin),
    },
    Part {
        name: "nccl-calls",
        title: "NCCL: every operation by its calls alone",
        needs: &[Need::Gpu, Need::Nccl],
        check: |setting| nccl(setting, &[("NCCL_PROFILER_PLUGIN", "none")], Times::None),
    },
    Part {
        name: "nccl-events",
        title: "NCCL: launches timed by CUDA events",
        needs: &[Need::Gpu, Need::Nccl],
        check: |setting| {
            let variables = [
                ("NCCL_PROFILER_PLUGIN", "none"),
                ("RANKSCOPE_NCCL_EVENTS", "100000"),
            ];
            nccl(setting, &variables, Times::Events)
        },
    },
    Part {
        name: "kernels",
        title: "CUPTI: kernels of known start and end, copies, graphs",
        needs: &[Need::Gpu, Need::Nccl, Need::Cupti],
        check: |setting| {
            let words = ["--known", "400", "--small", "20000", "--late-graph"];
            device_work(setting, &words, End::Exit)
        },
    },
    Part {
        name: "early-graph",
        title: "CUPTI: a graph that was created before the recording",
        needs: &[Need::Gpu, Need::Nccl, Need::Cupti],
        check: |setting| device_work(setting, &["--early-graph"], End::Exit),
    },
    Part {
        name: "kernels-exit",
        title: "CUPTI: a program that ends by _exit",
        needs: &[Need::Gpu, Need::Nccl, Need::Cupti],
        check: |setting| {
            device_work(
                setting,
                &["--small", "60000", "--pause-us", "5000"],
                End::ImmediateExit,
            )
        },
    },
    Part {
        name: "kernels-killed",
        title: "CUPTI: a program that is killed (SIGKILL)",
        needs: &[Need::Gpu, Need::Nccl, Need::Cupti],
        check: |setting| device_work(setting, &["--small", "60000", "--pause-us", "5000"], End::Kill),
    },
    Part {
        name: "other-profiler",
        title: "CUPTI: beside another profiler in the same process",
        needs: &[Need::Gpu, Need::Nccl, Need::Cupti],
        check: |setting| {
            let words = ["--known", "1200", "--pause-us", "3000", "--other-profiler"];
            device_work(setting, &words, End::Exit)
        },
    },
    Part {
        name: "price",
        title: "Price of a call and of a launch",
        needs: &[],
        check: price,
    },
];

/// Finds a part by its name, for the command line.
pub fn named(text: &str) -> Result<&'static str, String> {
    let known = ALL.iter().find(|part| part.name == text);
    known.map(|part| part.name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|part| part.name).collect();
        format!("unknown part; use {}", names.join(", "))
    })
}

impl Part {
    /// Runs the part.
    pub fn run(&self, machine: &Machine, library: &Path, directory: &Path) -> PartResult {
        let begun = Instant::now();
        let mut result = PartResult {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            verdict: Verdict::Skipped,
            seen: Vec::new(),
            failures: Vec::new(),
            figures: Default::default(),
            took_ms: 0,
        };
        if let Some(missing) = self.needs.iter().find_map(|need| need.missing(machine)) {
            result.seen.push(missing.to_owned());
            return result;
        }
        let setting = Setting {
            machine,
            library,
            directory,
        };
        match (self.check)(&setting) {
            Ok(found) => {
                result.verdict = if let Some(reason) = found.skipped {
                    result.seen.push(reason);
                    return result;
                } else if !found.failures.is_empty() {
                    Verdict::Failed
                } else if found.is_measurement {
                    Verdict::Measured
                } else {
                    Verdict::Passed
                };
                result.seen = found.seen;
                result.failures = found.failures;
                result.figures = found.figures;
            }
            Err(error) => {
                result.verdict = Verdict::Failed;
                result.failures.push(error_line(&error));
            }
        }
        result.took_ms = begun.elapsed().as_millis() as u64;
        result
    }
}

impl Need {
    fn missing(self, machine: &Machine) -> Option<&'static str> {
        match self {
            Self::Gpu if machine.gpus == 0 => Some("there is no GPU here"),
            Self::Nccl if machine.nccl.is_none() => Some("NCCL was not found (--library names its file)"),
            Self::Cupti if machine.cupti.is_none() => {
                Some("CUPTI was not found (a part of the CUDA toolkit, and of PyTorch's packages)")
            }
            Self::Gloo if machine.gloo.is_none() => Some("Gloo was not found (a part of PyTorch)"),
            _ => None,
        }
    }
}

/// Arguments of a bench whose operations are counted.
fn bench_words<'a>(backend: &'a str, library: &'a str, ranks: &'a str, directory: &'a str) -> Vec<&'a str> {
    vec![
        "bench",
        "--role",
        "starter",
        "--backend",
        backend,
        "--library",
        library,
        "--ranks",
        ranks,
        "-o",
        directory,
        "--blocks",
        "3",
        "--iterations",
        "5",
        "--min",
        "1K",
        "--max",
        "256K",
        "--factor",
        "16",
        "--timeout",
        "60",
        "--operations",
        "all-reduce,all-gather,reduce-scatter,all-to-all,broadcast,reduce,gather,scatter,send-receive",
    ]
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

fn gloo(setting: &Setting<'_>) -> Result<Found> {
    let gloo = setting.machine.gloo.as_ref().context("no Gloo")?;
    let words = bench_words("gloo", text(&gloo.path)?, "2", text(setting.directory)?);
    let finished = Run::new(&words, setting.directory, Some(setting.library))?.finish(LIMIT)?;
    checked_operations(&finished)
}

fn checked_operations(finished: &Finished) -> Result<Found> {
    let mut found = Found::default();
    let session = finished.expect_session()?;
    let results = BenchResults::read(&finished.directory)?;
    operations::check(&results, session, &finished.directory, &mut found)?;
    Ok(found)
}

fn gloo_killed(setting: &Setting<'_>) -> Result<Found> {
    let gloo = setting.machine.gloo.as_ref().context("no Gloo")?;
    let mut words = bench_words("gloo", text(&gloo.path)?, "2", text(setting.directory)?);
    // It must not end by itself before it is killed.
    words.extend(["--blocks", "200", "--row-limit", "0.2"]);
    let mut started = Run::new(&words, setting.directory, Some(setting.library))?.start()?;
    let deadline = Instant::now() + LIMIT;
    let rows = || BenchResults::read(setting.directory).map_or(0, |results| results.rows.len());
    while rows() < ROWS_BEFORE_KILL {
        if started.has_ended() || Instant::now() > deadline {
            bail!("the ranks did not get to row {ROWS_BEFORE_KILL}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    started.kill_all();
    let finished = started.wait(LIMIT)?;
    let mut found = Found::default();
    found.demand(!finished.status.success(), || {
        "the ranks were not killed".to_owned()
    });
    let session = finished.session.as_ref().context("nothing was recorded")?;
    let results = BenchResults::read(&finished.directory)?;
    operations::check(&results, session, &finished.directory, &mut found)?;
    Ok(found)
}

/// Source of the times of NCCL's operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Plugin,
    Events,
    None,
}

fn nccl(setting: &Setting<'_>, variables: &[(&str, &str)], times: Times) -> Result<Found> {
    let nccl = setting.machine.nccl.as_ref().context("no NCCL")?;
    let gpus = setting.machine.gpus;
    let ranks = gpus.max(2).to_string();
    let mut words = bench_words("nccl", text(&nccl.path)?, &ranks, text(setting.directory)?);
    if gpus < 2 {
        words.push("--share-device");
    }
    let mut run = Run::new(&words, setting.directory, Some(setting.library))?;
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let finished = run.finish(LIMIT)?;
    let mut found = checked_operations(&finished)?;
    let session = finished.expect_session()?;
    let version = BenchResults::read(&finished.directory)?
        .library
        .version
        .unwrap_or_default();
    let is_since = |(major, minor): (u32, u32)| {
        let version = Version::parse(&version);
        version.is_none_or(|version| version.is_at_least(major, minor))
    };
    let has_plugin = is_since(FIRST_WITH_PLUGINS);
    if times == Times::Plugin && !has_plugin {
        found.seen.push(format!(
            "NCCL {version} has no profiler interface, so there are no device times"
        ));
    }
    let timed = |rank: u32| {
        let sources = session.devices.iter().filter(|source| source.rank == rank);
        sources
            .map(|source| (source.operations + source.timed_by_events, source.source.clone()))
            .next()
    };
    for rank in 0..gpus.max(2) {
        match (times, timed(rank)) {
            (Times::None, Some((count, _))) => found.demand(count == 0, || {
                format!("rank {rank} has {count} times, and nothing should report any")
            }),
            (Times::None, None) => {}
            (Times::Plugin, None) if !has_plugin => {}
            (_, None) => found
                .failures
                .push(format!("rank {rank}: no source of device times")),
            (_, Some((count, source))) => {
                found.figure(&format!("timed_operations_rank_{rank}"), count as f64);
                let reports_times = times == Times::Events || is_since(FIRST_WITH_TIMES);
                found.demand(count > 0 || !reports_times, || {
                    format!("rank {rank}: no operation has device times ({source})")
                });
                if rank == 0 {
                    found.seen.push(format!(
                        "{count} operations of rank 0 have device times ({source})"
                    ));
                }
            }
        }
    }
    if let Some(error) = session
        .devices
        .iter()
        .filter_map(|source| source.median_error_ns.value)
        .max()
    {
        found.figure("median_error_ns", error as f64);
        found
            .seen
            .push(format!("stated error of these times: {} (median)", shown(error)));
    }
    let unknown: u64 = session.devices.iter().map(|source| source.without_call).sum();
    found.demand(unknown == 0, || {
        format!("{unknown} operations of the plugin belong to no call")
    });
    Ok(found)
}

fn device_work(setting: &Setting<'_>, words: &[&str], end: End) -> Result<Found> {
    let nccl = setting.machine.nccl.as_ref().context("no NCCL")?;
    let truth = setting.directory.join(TRUTH);
    let end_name = end.to_possible_value().context("an end without a name")?;
    let mut all = vec![
        "selftest",
        "--role",
        "device",
        "--truth",
        text(&truth)?,
        "--end",
        end_name.get_name(),
        "--called",
        text(&nccl.path)?,
    ];
    all.extend(words);
    let mut run = Run::new(&all, setting.directory, Some(setting.library))?
        .env("RANKSCOPE_KERNELS", "off")
        .env("RANKSCOPE_LIVE_MIB", "32");
    if let Some(cupti) = &setting.machine.cupti {
        run = run.env("RANKSCOPE_CUPTI", &cupti.path);
    }
    let finished = run.finish(LIMIT)?;
    if end != End::Kill {
        finished.expect_success()?;
    }
    let truth = DeviceTruth::read(&truth).with_context(|| {
        format!(
            "the program did not come to its end: {}",
            finished.output().trim()
        )
    })?;
    let session = finished.session.as_ref().context("nothing was recorded")?;
    let mut found = Found::default();
    device::check(&truth, session, &finished.directory, end, &mut found)?;
    Ok(found)
}

/// Measures with and without the recorder, one after the other, and compares the medians.
fn price(setting: &Setting<'_>) -> Result<Found> {
    let mut found = Found {
        is_measurement: true,
        ..Found::default()
    };
    let machine = setting.machine;
    let mut measured = 0;
    if let Some(gloo) = &machine.gloo {
        let words = ["selftest", "--role", "gloo-price", "--called", text(&gloo.path)?];
        pair(
            setting,
            "gloo_call",
            "a small all-reduce of Gloo",
            &words,
            &[],
            &mut found,
        )?;
        measured += 1;
    }
    if let (1.., Some(nccl)) = (machine.gpus, &machine.nccl) {
        let called = text(&nccl.path)?;
        let words = ["selftest", "--role", "nccl-price", "--called", called];
        pair(
            setting,
            "nccl_call",
            "ncclAllReduce on one rank",
            &words,
            &[],
            &mut found,
        )?;
        let words = ["selftest", "--role", "launch-price", "--called", called];
        pair(
            setting,
            "launch",
            "a launch, calls recorded",
            &words,
            &[],
            &mut found,
        )?;
        if let Some(cupti) = &machine.cupti {
            let variables = [
                ("RANKSCOPE_KERNELS", "all"),
                ("RANKSCOPE_CUPTI", text(&cupti.path)?),
            ];
            pair(
                setting,
                "launch_with_kernels",
                "a launch, kernels recorded",
                &words,
                &variables,
                &mut found,
            )?;
        }
        measured += 1;
    }
    if measured == 0 {
        found.skipped = Some("there is neither Gloo, nor NCCL with a GPU".to_owned());
    }
    Ok(found)
}

fn pair(
    setting: &Setting<'_>,
    name: &str,
    title: &str,
    words: &[&str],
    variables: &[(&str, &str)],
    found: &mut Found,
) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..PRICE_PAIRS {
        // ABBA: a drift of the machine affects both.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let directory = setting.directory.join(format!("{name}-{round}-{side}"));
            let figure = directory.join(TRUTH);
            let mut all = words.to_vec();
            all.extend(["--truth", text(&figure)?]);
            let mut run = Run::new(&all, &directory, (side == 1).then_some(setting.library))?;
            if side == 1 {
                for (name, value) in variables {
                    run = run.env(name, value);
                }
            }
            run.finish(LIMIT)?.expect_success()?;
            let ns: f64 = fs::read_to_string(&figure)?.parse()?;
            times[side].push(ns);
            // Only the figure is kept.
            let _ = fs::remove_dir_all(&directory);
        }
    }
    let [without, with] = times.each_ref().map(|values| BenchSpread::of(values).p50);
    // The two runs of a pair follow each other, so the ratios of the pairs are free of slow drifts.
    let ratios: Vec<f64> = times[1]
        .iter()
        .zip(&times[0])
        .map(|(with, without)| with / without)
        .collect();
    let ratio = BenchSpread::of(&ratios).p50;
    found.figure(&format!("{name}_without_ns"), without);
    found.figure(&format!("{name}_with_ns"), with);
    found.figure(&format!("{name}_ratio"), ratio);
    found.seen.push(format!(
        "{title}: {} recorded, {} not recorded (ratio {:.3})",
        units::time_f(with),
        units::time_f(without),
        ratio
    ));
    Ok(())
}
