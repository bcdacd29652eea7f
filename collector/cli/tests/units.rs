//! Tests merges whose logs other processes read, in units. The runners here are doubles of a distributed engine: they repeat
//! units, abandon attempts, or do nothing.

use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::merge::units::parts::attempt_path;
use rankscope_analysis::merge::units::unit::run_unit;
use rankscope_analysis::{MergeOptions, merge, merge_by};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::damage::damage_two;
use rankscope_fixtures::logs::kernels;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::session_files::{assert_same, files};
use rankscope_formats::session::SUMMARY_FILE;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Runs every unit twice, the last one first, after attempts that were abandoned.
#[derive(Debug, Default)]
struct Twice {
    /// Units of each stage.
    stages: Mutex<Vec<Range<u32>>>,
}

impl UnitRunner for Twice {
    fn run(&self, directory: &Path, units: Range<u32>, progress: &mut dyn FnMut()) -> Result<(), String> {
        self.stages.lock().expect("no panic").push(units.clone());
        for unit in units.rev() {
            // Its name comes before all others.
            let abandoned = attempt_path(directory, unit, "0");
            fs::create_dir_all(abandoned.join("spans")).expect("a directory");
            fs::write(abandoned.join("spans/rank=0.parquet"), b"half").expect("a file");
            std::thread::scope(|scope| {
                for attempt in ["b", "a"] {
                    scope.spawn(move || run_unit(directory, unit, attempt, |_| true).expect("a unit"));
                }
            });
            progress();
        }
        // Nothing that an engine reports has to be true.
        Err("the engine says that the job failed".to_owned())
    }
}

/// Reports success without running anything.
#[derive(Debug)]
struct Never;

impl UnitRunner for Never {
    fn run(&self, _: &Path, _: Range<u32>, _: &mut dyn FnMut()) -> Result<(), String> {
        Ok(())
    }
}

/// Appends to a log before its unit runs.
#[derive(Debug)]
struct AfterChange(PathBuf);

impl UnitRunner for AfterChange {
    fn run(&self, directory: &Path, units: Range<u32>, _: &mut dyn FnMut()) -> Result<(), String> {
        let mut log = OpenOptions::new().append(true).open(&self.0).expect("a log");
        log.write_all(b"more").expect("written");
        for unit in units {
            run_unit(directory, unit, "a", |_| true).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Refuses the logs.
#[derive(Debug)]
struct WithoutAccess;

impl UnitRunner for WithoutAccess {
    fn run(&self, directory: &Path, _: Range<u32>, _: &mut dyn FnMut()) -> Result<(), String> {
        let done = run_unit(directory, 0, "a", |_| false);
        done.map(drop).map_err(|error| error.to_string())
    }
}

fn options(run: &Path, output: &Path) -> MergeOptions {
    MergeOptions::new(vec![run.to_path_buf()], output.to_path_buf())
}

/// Checks that a run whose units ran twice gives the same session as on this machine.
fn assert_same_in_units(run: &Path) {
    let output = tempfile::tempdir().expect("a folder");
    let options = options(run, output.path());
    merge(&options, &mut |_| {}).expect("merge");
    let here = files(output.path());
    let mut shares = Vec::new();
    let runner = Arc::new(Twice::default());
    merge_by(runner.clone(), &options, &mut |progress| {
        if progress.phase == "reading logs" {
            shares.extend(progress.share);
        }
    })
    .expect("merge");
    assert!(shares.contains(&1.0), "{shares:?}");
    let stages = runner.stages.lock().expect("no panic");
    let [reading, writing] = stages.as_slice() else {
        panic!("logs are read and tables are written by units: {stages:?}");
    };
    assert!(
        reading.start == 0 && reading.end > 0 && writing.start == reading.end && writing.end > writing.start
    );
    let elsewhere = files(output.path());
    assert_same(&here, &elsewhere, &run.display().to_string());
}

#[test]
fn units_give_the_same_session_whatever_the_engine_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("ddp");
    let ddp = Ddp {
        // Three units.
        ranks: 130,
        steps: 12,
        slow: Some((70, 50_000)),
        ..Ddp::default()
    };
    ddp.write(&run).expect("write");
    damage_two(&run);
    assert_same_in_units(&run);
    let run = folder.path().join("pipeline");
    Pipelined::default().write(&run);
    assert_same_in_units(&run);
    let run = folder.path().join("kernels");
    (0..3).for_each(|rank| kernels::write(&run, rank, 3, 40).expect("write"));
    assert_same_in_units(&run);
}

#[test]
fn a_merge_fails_without_all_units_and_names_the_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, output) = (folder.path().join("run"), folder.path().join("session"));
    let ddp = Ddp {
        ranks: 2,
        steps: 5,
        ..Ddp::default()
    };
    ddp.write(&run).expect("write");
    let log = fs::read_dir(&run)
        .expect("a run")
        .next()
        .expect("an entry")
        .expect("a log")
        .path();
    let failed = |runner: Arc<dyn UnitRunner>| {
        let error = merge_by(runner, &options(&run, &output), &mut |_| {});
        error.expect_err("units are missing").to_string()
    };
    let error = failed(Arc::new(Never));
    assert!(error.contains("unit 0 of the merge is missing"), "{error}");
    let error = failed(Arc::new(WithoutAccess));
    assert!(error.contains("--root"), "{error}");
    let error = failed(Arc::new(AfterChange(log)));
    assert!(
        error.contains("the log has changed since the merge began"),
        "{error}"
    );
    // Neither a summary nor files of units remain.
    let names: Vec<_> = fs::read_dir(&output)
        .expect("an output")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(!names.iter().any(|name| name == SUMMARY_FILE), "{names:?}");
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".parts-")),
        "{names:?}"
    );
}
