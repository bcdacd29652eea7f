//! The Python interpreter of the command, and the directories of its packages. Nothing of the packages is imported.

use crate::surroundings::Surroundings;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
            .then(|| ask(&surroundings.place(&file)))
            .flatten()
            .unwrap_or_else(|| guess(surroundings, &file));
        found
            .packages
            .retain(|directory| surroundings.place(directory).is_dir());
        Some(found)
    }
}

/// Runs the interpreter. It does not import packages, except those that its own start imports.
fn ask(file: &Path) -> Option<Python> {
    let mut child = Command::new(file)
        .args(["-c", SCRIPT])
        .current_dir("/")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.take(MAX_OUTPUT_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    });
    let succeeded = wait(&mut child);
    let text = succeeded.then(|| reader.join().ok().flatten()).flatten()?;
    let mut lines = text.lines();
    let version = lines.next().map(str::to_owned);
    let interpreter = lines.next().filter(|line| !line.is_empty()).map(PathBuf::from);
    Some(Python {
        interpreter: interpreter.unwrap_or_else(|| file.to_path_buf()),
        version,
        packages: lines
            .filter(|line| line.starts_with('/'))
            .map(PathBuf::from)
            .collect(),
    })
}

/// Waits for the end of the process. It is killed when it takes too long.
fn wait(child: &mut Child) -> bool {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
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
