//! Reports of hangs that a watcher stored in run directories while the job ran.

use rankscope_formats::session::ProblemSummary;
use rankscope_formats::status::{HANG_FILE_PREFIX, STATUS_FORMAT, Status};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a report, in bytes. One of ten thousand ranks is smaller.
const MAX_BYTES: u64 = 1 << 26;
/// Maximum number of reports of a directory. A watcher stores one for each hang.
const MAX_REPORTS: usize = 64;

/// Reads the reports of run directories in the order of their times. `is_wanted` decides by the time of a report, in nanoseconds since
/// 1970. Files that cannot be read are problems.
pub fn of_directories(
    directories: &[PathBuf],
    is_wanted: impl Fn(i64) -> bool,
    problems: &mut Vec<ProblemSummary>,
) -> Vec<Status> {
    let mut found = Vec::new();
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        let mut files: Vec<PathBuf> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_report(path))
            .collect();
        files.sort();
        let (mut kept, mut more) = (0, 0);
        for path in files {
            match read(&path) {
                Ok(status) if !is_wanted(status.taken_unix_ns) => {}
                Ok(status) if kept < MAX_REPORTS => {
                    kept += 1;
                    found.push(status);
                }
                Ok(_) => more += 1,
                Err(error) => {
                    problems.push(problem(
                        &path,
                        format!("the report of a hang could not be read: {error}"),
                    ));
                }
            }
        }
        if more > 0 {
            problems.push(problem(
                directory,
                format!("{more} reports of hangs were not used"),
            ));
        }
    }
    found.sort_by_key(|status| status.taken_unix_ns);
    found
}

/// Returns true if this is the name of a report.
pub fn is_report(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(HANG_FILE_PREFIX) && name.ends_with(".json")
}

fn read(path: &Path) -> io::Result<Status> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    let status: Status = serde_json::from_slice(&bytes)?;
    if status.format != STATUS_FORMAT {
        return Err(io::Error::other(format!(
            "its format is {:?}, and this version reads {STATUS_FORMAT:?}",
            status.format
        )));
    }
    Ok(status)
}

fn problem(path: &Path, what: String) -> ProblemSummary {
    ProblemSummary::of_file(path, None, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_cannot_be_read_are_problems() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        let text = |format: &str, taken: i64| {
            format!(
                r#"{{"format": "{format}", "taken_unix_ns": {taken}, "directories": [], "health": "hang",
                    "sentence": "Rank 1 sleeps.", "verdicts": [], "groups": [], "communicators": [], "ranks": [],
                    "notes": []}}"#
            )
        };
        write("hang-2-a.json", &text(STATUS_FORMAT, 2));
        write("hang-1-b.json", &text(STATUS_FORMAT, 1));
        write("hang-3.json", "{");
        write("hang-4.json", &text("rankscope-status-9", 4));
        write("other.json", "{");
        let mut problems = Vec::new();
        let directories = [folder.path().to_path_buf()];
        let found = of_directories(&directories, |_| true, &mut problems);
        let times: Vec<i64> = found.iter().map(|status| status.taken_unix_ns).collect();
        assert_eq!(times, [1, 2]);
        assert_eq!(problems.len(), 2);
        assert!(problems[1].what.contains("rankscope-status-9"), "{problems:?}");
        // Reports of another time do not count towards the maximum.
        for number in 0..MAX_REPORTS {
            write(&format!("hang-0-{number}.json"), &text(STATUS_FORMAT, 0));
        }
        problems.clear();
        let found = of_directories(&directories, |taken_unix_ns| taken_unix_ns == 2, &mut problems);
        assert_eq!((found.len(), problems.len()), (1, 2));
        let found = of_directories(&directories, |_| true, &mut problems);
        assert_eq!((found.len(), problems.len()), (MAX_REPORTS, 2 + 3));
    }
}
