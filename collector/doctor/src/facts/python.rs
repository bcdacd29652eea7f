//! The Python interpreter of the command, and the directories of its packages. Nothing of the packages is imported.

use super::time_limit::within;
use crate::surroundings::Surroundings;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time that the interpreter may take to print its search path.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of its output, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// Prints version and search path, a line each.
const SCRIPT: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); print('\\n'.join(sys.path))";

/// Python interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Python {
    /// Path of the interpreter.
    pub interpreter: PathBuf,
    /// Version, if it is known.
    pub version: Option<String>,
    /// Existing directories of packages, in the order of the search.
    pub packages: Vec<PathBuf>,
}

impl Python {
    /// Asks the interpreter for its search path. In a prepared tree, or if it does not answer, the usual places are
    /// taken.
    pub fn find(surroundings: &Surroundings, name: &str) -> Option<Self> {
        let path = surroundings.variable("PATH").map(std::ffi::OsStr::new);
        let file = crate::program::resolve_in(name.as_ref(), path, |path| surroundings.place(path))?;
        let mut found = (surroundings.is_system())
            .then(|| ask(&surroundings.place(&file), LIMIT))
            .flatten()
            .unwrap_or_else(|| guess(surroundings, &file));
        found
            .packages
            .retain(|directory| surroundings.place(directory).is_dir());
        Some(found)
    }
}

/// Whether a program's name is that of a Python interpreter, such as `python3.13t`. Only such a program is run: others
/// whose names begin with `python` are programs of the job.
pub fn is_interpreter(name: &str) -> bool {
    let version = ["python", "pypy"].iter().find_map(|stem| name.strip_prefix(stem));
    version.is_some_and(|version| {
        let version = version.strip_suffix("-dbg").unwrap_or(version);
        version
            .trim_end_matches(['d', 't'])
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// Runs the interpreter for at most this time. It imports no package, except those that its own start imports: `.pth`
/// files and `sitecustomize`.
fn ask(file: &Path, limit: Duration) -> Option<Python> {
    let mut child = Command::new(file)
        .args(["-c", SCRIPT])
        .current_dir("/")
        .env_remove("LD_PRELOAD")
        // A shim such as pyenv's starts further programs. They are killed with it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = child.stdout.take()?;
    let text = within(limit, move || {
        let mut text = String::new();
        output.take(MAX_OUTPUT_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    });
    end(&mut child);
    let text = text.flatten()?;
    let mut lines = text.lines();
    // An interpreter that failed has printed nothing.
    let version = lines.next()?.to_owned();
    let interpreter = lines.next().filter(|line| !line.is_empty()).map(PathBuf::from);
    Some(Python {
        interpreter: interpreter.unwrap_or_else(|| file.to_path_buf()),
        version: Some(version),
        packages: lines
            .filter(|line| line.starts_with('/'))
            .map(PathBuf::from)
            .collect(),
    })
}

/// Kills the process and all that it started, as far as they still run.
fn end(child: &mut Child) {
    let group = -child.id().cast_signed();
    // SAFETY: kill accesses no memory. The child is the leader of its group, and its id is in use until it is waited for.
    unsafe { libc::kill(group, libc::SIGKILL) };
    let _ = child.wait();
}

/// Returns the usual directories: those of PYTHONPATH, of the virtual environment, and of the system.
fn guess(surroundings: &Surroundings, file: &Path) -> Python {
    let mut packages: Vec<PathBuf> = surroundings
        .variable("PYTHONPATH")
        .map(|list| {
            list.split(':')
                .filter(|part| !part.is_empty())
                .map(PathBuf::from)
                .collect()
        })
        .unwrap_or_default();
    let environment = file.parent().and_then(Path::parent);
    let mut prefixes: Vec<PathBuf> = environment.map(Path::to_path_buf).into_iter().collect();
    let configuration = environment.and_then(|prefix| surroundings.read(prefix.join("pyvenv.cfg")));
    let setting = |name: &str| {
        let lines = configuration.as_deref()?.lines();
        lines
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let sees_system = configuration.is_none()
        || setting("include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if sees_system {
        let home = setting("home").map(PathBuf::from);
        prefixes.extend(home.as_deref().and_then(Path::parent).map(Path::to_path_buf));
        prefixes.extend([PathBuf::from("/usr/local"), PathBuf::from("/usr")]);
    }
    let mut version = setting("version");
    for prefix in prefixes {
        let versions: Vec<String> = surroundings
            .list(prefix.join("lib"))
            .into_iter()
            .filter(|name| name.starts_with("python3."))
            .collect();
        for name in versions {
            version = version.or_else(|| name.strip_prefix("python").map(str::to_owned));
            for folder in ["site-packages", "dist-packages"] {
                packages.push(prefix.join("lib").join(&name).join(folder));
            }
        }
        packages.push(prefix.join("lib/python3/dist-packages"));
    }
    Python {
        interpreter: file.to_path_buf(),
        version,
        packages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;
    use std::time::Instant;

    /// A process that another thread starts inherits a script that is being written, which then cannot be executed.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Writes a shell script, lets it answer for at most this time, and returns how long that took.
    fn answer(script: &str, limit: Duration) -> (Option<Python>, Duration) {
        let _turn = ONE_AT_A_TIME.lock();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("python3");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("changed");
        let begin = Instant::now();
        (ask(&file, limit), begin.elapsed())
    }

    #[test]
    fn an_interpreter_that_answers_is_believed() {
        let script = "echo 3.11.2; echo /opt/bin/python3; echo relative; echo /opt/lib";
        let (found, _) = answer(script, Duration::from_secs(30));
        let found = found.expect("an answer");
        assert_eq!(found.version.as_deref(), Some("3.11.2"));
        assert_eq!(found.interpreter, Path::new("/opt/bin/python3"));
        assert_eq!(found.packages, [Path::new("/opt/lib")]);
        assert_eq!(answer("exit 1", Duration::from_secs(30)).0, None);
    }

    #[test]
    fn an_interpreter_that_hangs_is_killed_with_all_that_it_started() {
        for script in [
            "sleep 600",
            // The output stays open after the script has ended.
            "echo 3.11.2; sleep 600 &",
        ] {
            let (found, took) = answer(script, Duration::from_millis(300));
            assert_eq!(found, None, "{script}");
            assert!(took < Duration::from_secs(60), "{script}: {took:?}");
        }
        // The script has closed its output, and does not end.
        let (found, took) = answer("echo 3.11.2; exec >/dev/null; sleep 600", Duration::from_secs(30));
        assert!(found.is_some());
        assert!(took < Duration::from_secs(60), "{took:?}");
    }

    #[test]
    fn programs_of_a_job_are_no_interpreters() {
        for name in ["python", "python3", "python3.13t", "python3.12-dbg", "pypy3.10"] {
            assert!(is_interpreter(name), "{name}");
        }
        for name in ["python_job.sh", "pythonic", "python-train", "train.py", "bpython"] {
            assert!(!is_interpreter(name), "{name}");
        }
    }
}
