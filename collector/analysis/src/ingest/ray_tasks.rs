//! Timelines of Ray in run directories: the tasks of its workers, joined with the ranks in these processes.
//!
//! The recorder notes the name of the file that a process prints to. Ray names it after the worker: `worker-ID-JOB-PID.out`.

use crate::clocks::clock::Line;
use crate::rank::FrameworkTask;
use rankscope_formats::ray_timeline::{self, RayEvent, RayTimeline};
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::secrets::Redactor;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of such a file in a run directory.
const PLAIN: &str = "ray-timeline.json";
/// Its name if it is gzipped.
const GZIPPED: &str = "ray-timeline.json.gz";
/// Property of a log: the name of the file that the process prints to.
const STDOUT: &str = "stdout_file";

/// The timelines of a run.
#[derive(Default)]
pub struct RayTasks(Vec<RayTimeline>);

impl RayTasks {
    /// Reads the timelines of run directories. What cannot be read is a problem.
    pub fn of_directories(
        directories: &[PathBuf],
        logs: &[RankLog],
        problems: &mut Vec<ProblemSummary>,
    ) -> Self {
        let paths = directories
            .iter()
            .filter(|directory| directory.is_dir())
            .flat_map(|directory| [false, true].map(|is_gzipped| path(directory, is_gzipped)));
        let mut found = Vec::new();
        for path in paths.filter(|path| path.exists()) {
            let mut problem = |offset_bytes: Option<u64>, what: String| {
                problems.push(ProblemSummary::of_file(&path, offset_bytes, what));
            };
            match ray_timeline::read_file(&path) {
                Ok(timeline) => {
                    for part in &timeline.problems {
                        problem(Some(part.offset), part.what.clone());
                    }
                    if ranks_of(&timeline, logs) == 0 {
                        problem(
                            None,
                            "no worker in this Ray timeline is a rank of the run".to_owned(),
                        );
                    }
                    found.push(timeline);
                }
                Err(error) => problem(None, format!("the timeline of Ray could not be read: {error}")),
            }
        }
        Self(found)
    }

    /// Returns the tasks that ran in the process of this log, on the axis.
    pub fn of_log(&self, log: &RankLog, line: &Line) -> Vec<FrameworkTask> {
        let Some(worker) = worker_of_log(log) else {
            return Vec::new();
        };
        // The wall clock may be adjusted during the run, even backwards, so the nearest reading before counts.
        let mut readings: Vec<(i64, i64)> = log
            .calibrations
            .iter()
            .map(|reading| (reading.realtime_ns, line.ns(reading.ticks)))
            .collect();
        readings.sort_unstable();
        let on_axis = |unix_ns: i64| {
            let after = readings.partition_point(|&(realtime_ns, _)| realtime_ns <= unix_ns);
            let &(realtime_ns, at_ns) = readings.get(after.saturating_sub(1))?;
            Some(at_ns.saturating_add(unix_ns.saturating_sub(realtime_ns)))
        };
        let recorded_from_ns = readings.iter().map(|&(_, at_ns)| at_ns).min().unwrap_or(i64::MIN);
        // A program names its tasks.
        let redactor = Redactor::of_environment();
        let task_of = |event: &RayEvent| {
            let start_ns = on_axis(event.start_unix_ns)?;
            // A step of the wall clock must not change a duration.
            let end_ns = start_ns.saturating_add(event.end_unix_ns.saturating_sub(event.start_unix_ns));
            // The recording begins with the first communicator. Tasks that ended before are no part of the run.
            (end_ns > recorded_from_ns).then(|| FrameworkTask {
                name: redactor.label(&event.name).into(),
                start_ns,
                end_ns,
                fields: event.fields.clone(),
            })
        };
        let events = self
            .0
            .iter()
            .filter_map(|timeline| timeline.by_worker.get(worker));
        events.flatten().filter_map(task_of).collect()
    }
}

/// Returns the path of the timeline in a run directory, plain or gzipped.
pub fn path(directory: &Path, is_gzipped: bool) -> PathBuf {
    directory.join(if is_gzipped { GZIPPED } else { PLAIN })
}

/// Returns true if this is the name of a timeline.
pub fn is_timeline(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == PLAIN || name == GZIPPED)
}

/// Returns the number of workers of a timeline that wrote one of these logs.
pub fn ranks_of(timeline: &RayTimeline, logs: &[RankLog]) -> usize {
    let workers: BTreeSet<&str> = logs.iter().filter_map(worker_of_log).collect();
    workers
        .iter()
        .filter(|&&worker| timeline.by_worker.contains_key(worker))
        .count()
}

/// Returns the ID of the worker whose process wrote a log.
fn worker_of_log(log: &RankLog) -> Option<&str> {
    worker_of_file(log.properties.get(STDOUT)?)
}

/// Returns the ID of the worker in the name of the file that it prints to.
fn worker_of_file(name: &str) -> Option<&str> {
    let (worker, _) = name
        .strip_suffix(".out")?
        .strip_prefix("worker-")?
        .split_once('-')?;
    (!worker.is_empty() && worker.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(worker)
}

#[cfg(test)]
mod tests {
    use super::worker_of_file;

    #[test]
    fn a_worker_has_the_name_of_the_file_that_it_prints_to() {
        let name = "worker-f41211afcf81ed07201d561e9a6363013e9b0d00aacde468fc61fb14-ffffffff-30268.out";
        assert_eq!(
            worker_of_file(name),
            Some("f41211afcf81ed07201d561e9a6363013e9b0d00aacde468fc61fb14")
        );
        for other in [
            "worker-train-1.out",
            "rank-0.out",
            "worker-.out",
            "worker-ab.out",
            "",
        ] {
            assert_eq!(worker_of_file(other), None, "{other}");
        }
    }
}
