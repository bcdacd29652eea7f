//! The process that the user started: it starts and records the ranks, and concludes.

use super::options::{BackendName, Bench, Role};
use super::{choice, conclusion};
use crate::commands::print::{error_line, message as print_message};
use crate::commands::run::report_live_areas;
use crate::commands::{Exit, merge};
use crate::launch::ending::Ending;
use crate::launch::job::Job;
use crate::launch::record::{self, LaunchRecord};
use crate::launch::run_directory::RunDirectory;
use crate::launch::signals::Signals;
use crate::launch::stop::StopWatch;
use crate::launch::{environment, free_space, library, live, run_directory};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rankscope_formats::bench::{BENCH_FILE, BenchLibrary, BenchResults};
use rankscope_formats::session::Session;
use rankscope_workloads::{cuda, locals};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Ranks on a host without GPUs.
const RANKS_WITHOUT_DEVICES: u32 = 2;

/// Starts the ranks on this host, records them, and prints and stores the results.
pub fn measure(bench: &Bench) -> Result<Exit> {
    let chosen = choice::choose(bench)?;
    let ranks = ranks(bench, &chosen)?;
    // Fails now, and not after minutes, if the earlier bench is unreadable.
    let before = bench.against.as_deref().map(BenchResults::read).transpose()?;
    bench.plan(chosen.name == BackendName::Nccl.name())?;
    let preloaded = if bench.no_record {
        None
    } else {
        Some(library::find().context("the operations cannot be recorded (--no-record measures without it)")?)
    };
    let directory = RunDirectory::prepare(bench.output.as_deref())?;
    if directory.earlier_logs > 0 {
        bail!(
            "{} already has a recording; name a new directory with -o",
            directory.path.display()
        );
    }
    // Results of an earlier bench must not be taken for those of this one.
    let _ = fs::remove_file(directory.path.join(BENCH_FILE));
    // The first word is this program.
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    words.extend(arguments(bench, &chosen, ranks, &directory.path));
    let mut launch = LaunchRecord::new(&["rankscope".to_owned(), "bench".to_owned()]);
    launch.write(&directory.path)?;
    let mut command = Command::new(env::current_exe().context("cannot determine the path of this program")?);
    command.args(&words);
    if let Some(preloaded) = &preloaded {
        environment::load(&mut command, preloaded);
        environment::record_into(&mut command, &directory.path, &launch.launch);
    } else {
        command.env_remove("RANKSCOPE_DIR");
    }
    let job = Job::start(&mut command).inspect_err(|_| {
        launch.remove(&directory.path);
        directory.remove_if_empty();
    });
    let ending = job.context("cannot start the ranks")?.accompany();
    launch.end(ending);
    launch.write(&directory.path)?;
    let interrupted = directory.path.clone();
    let _watch = StopWatch::start(move |signal| {
        merge::abandon(&interrupted);
        print_message("interrupted; bench.json has all rows, and `rankscope merge` completes the session");
        Ending::Signal(signal).end_likewise()
    });
    // The user may still stop this process or request a core dump of it.
    Signals::none().with(libc::SIGTSTP).with(libc::SIGQUIT).unblock();
    let session = preloaded.and_then(|_| recorded(&directory.path, ending));
    let results = match BenchResults::read(&directory.path) {
        Ok(results) => results,
        Err(error) => {
            launch.remove(&directory.path);
            directory.remove_if_empty();
            if ending != Ending::Status(0) {
                // The rank has printed the reason.
                bail!("the ranks ended before the first result: {ending}");
            }
            return Err(error.into());
        }
    };
    conclusion::conclude(
        bench,
        results,
        session.as_ref(),
        &directory.path,
        before.as_ref(),
        ending,
    )
}

/// Starts the ranks and waits for them. This process is recorded together with them, but calls no library.
pub fn start_ranks(bench: &Bench) -> Result<Exit> {
    // The first word is this program.
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    words.extend(["--role".into(), role_name(Role::Rank)]);
    let ranks = bench.ranks.context("no number of ranks")?;
    match locals::run(ranks, &words)? {
        None => Ok(Exit::Fine),
        Some(failed) => bail!("{failed}"),
    }
}

fn role_name(role: Role) -> OsString {
    role.to_possible_value()
        .map_or_else(OsString::new, |value| value.get_name().into())
}

/// Returns the arguments that fix what this process has chosen. The last of equal options counts.
fn arguments(bench: &Bench, chosen: &BenchLibrary, ranks: u32, directory: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![
        "--role".into(),
        role_name(Role::Starter),
        "--ranks".into(),
        ranks.to_string().into(),
        "--backend".into(),
        chosen.name.clone().into(),
        "--library".into(),
        chosen.path.clone().into(),
        "-o".into(),
        directory.into(),
    ];
    if let Some(version) = chosen.version.as_ref().or(bench.library_version.as_ref()) {
        words.extend(["--library-version".into(), version.into()]);
    }
    words
}

fn ranks(bench: &Bench, chosen: &BenchLibrary) -> Result<u32> {
    if chosen.name != BackendName::Nccl.name() {
        return Ok(bench.ranks.unwrap_or(RANKS_WITHOUT_DEVICES));
    }
    let devices = cuda::device_count();
    let ranks = bench.ranks.unwrap_or(devices);
    if ranks > devices && !bench.share_device {
        bail!("{ranks} ranks need {ranks} GPUs; this host has {devices}");
    }
    Ok(ranks)
}

/// Merges the recording. A bench without a session is still a bench.
fn recorded(directory: &Path, ending: Ending) -> Option<Session> {
    let merged = || -> Result<Option<Session>> {
        report_live_areas(&live::collect_all(
            directory,
            &record::others_recording(directory, ""),
        )?);
        if let Some(short) = free_space::warning(directory, None) {
            print_message(&format!("the recording may have stopped early: {short}"));
        }
        if run_directory::logs(directory)?.is_empty() {
            return Ok(None);
        }
        let merged = merge::merge(&[directory.to_path_buf()], directory)?;
        Ok(Some(merged.session))
    };
    match merged() {
        Ok(Some(session)) => Some(session),
        // A rank that failed early has named its reason.
        Ok(None) if ending != Ending::Status(0) => None,
        Ok(None) => {
            print_message("nothing was recorded: the library's calls do not pass through the dynamic linker");
            None
        }
        Err(error) => {
            print_message(&format!("the recording was not merged: {}", error_line(&error)));
            None
        }
    }
}
