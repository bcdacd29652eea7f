//! One commit of the branch: its entries and their bytes, read by one git process.

use super::repository::Repository;
use crate::baseline::directory::too_large;
use crate::baseline::entry::EntryName;
use crate::baseline::error::StoreError;
use crate::baseline::problem::Problem;
use crate::baseline::{ENTRIES, LARGEST_ENTRY};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Commit of the branch.
#[derive(Debug)]
pub struct Snapshot {
    repository: Repository,
    branch: String,
    /// Object and size of each entry.
    entries: BTreeMap<EntryName, (String, u64)>,
    problems: Vec<Problem>,
    objects: Option<Objects>,
}

impl Snapshot {
    /// Lists the entries of a commit.
    pub(super) fn of(repository: &Repository, branch: &str, commit: &str) -> Result<Self, StoreError> {
        let mut found = Self {
            repository: repository.clone(),
            branch: branch.to_owned(),
            entries: BTreeMap::new(),
            problems: Vec::new(),
            objects: None,
        };
        let folder = format!("{ENTRIES}/");
        let list = repository.bytes(&["ls-tree", "-r", "-l", "-z", "--full-tree", commit, &folder])?;
        for line in list.split(|&byte| byte == 0).filter(|line| !line.is_empty()) {
            found.take(&String::from_utf8_lossy(line));
        }
        Ok(found)
    }

    /// Parses a line of `ls-tree`: `100644 blob OBJECT SIZE<tab>PATH`.
    fn take(&mut self, line: &str) {
        let Some((head, path)) = line.split_once('\t') else {
            return;
        };
        let below = path
            .strip_prefix(ENTRIES)
            .map_or(path, |rest| rest.trim_start_matches('/'));
        if below.split('/').any(|part| part.starts_with('.')) {
            return;
        }
        let mut head = head.split_whitespace();
        let (mode, _, object) = (head.next(), head.next(), head.next());
        let size = head.next().and_then(|size| size.parse().ok());
        let is_file = mode.is_some_and(|mode| mode.starts_with("100"));
        match (EntryName::from_path(below), object, size) {
            (Some(name), Some(object), Some(size)) if is_file => {
                self.entries.insert(name, (object.to_owned(), size));
            }
            _ => self.problems.push(Problem {
                path: format!("{}:{path}", self.branch),
                what: "is not an entry of a baseline; remove it".to_owned(),
            }),
        }
    }

    /// Returns all entries in order of time.
    pub fn names(&self) -> Vec<EntryName> {
        self.entries.keys().cloned().collect()
    }

    /// Returns files that are not entries.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the displayed path of an entry.
    pub fn shown(&self, name: &EntryName) -> String {
        format!("{}:{ENTRIES}/{}", self.branch, name.path())
    }

    /// Reads the bytes of an entry.
    pub fn read(&mut self, name: &EntryName) -> Result<Vec<u8>, Problem> {
        let path = self.shown(name);
        let problem = |what: String| Problem {
            path: path.clone(),
            what,
        };
        let (object, size) = self
            .entries
            .get(name)
            .ok_or_else(|| problem("does not exist".to_owned()))?;
        if *size > LARGEST_ENTRY {
            return Err(problem(too_large(*size)));
        }
        let mut objects = match self.objects.take() {
            Some(objects) => objects,
            None => Objects::start(&self.repository)
                .map_err(|error| problem(format!("cannot be read: {error}")))?,
        };
        let bytes = objects
            .read(object, *size)
            .map_err(|error| problem(format!("cannot be read: {error}")))?;
        // After an error the position in the process's output is unknown, so the next entry gets a new process.
        self.objects = Some(objects);
        Ok(bytes)
    }
}

/// Process that prints objects.
#[derive(Debug)]
struct Objects {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Objects {
    fn start(repository: &Repository) -> io::Result<Self> {
        let mut child = repository
            .command()
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| io::Error::other("git has no output"))?;
        Ok(Self {
            child,
            asks,
            answers: BufReader::new(answers),
        })
    }

    fn read(&mut self, object: &str, size: u64) -> io::Result<Vec<u8>> {
        let asks = self
            .asks
            .as_mut()
            .ok_or_else(|| io::Error::other("git has no input"))?;
        writeln!(asks, "{object}")?;
        asks.flush()?;
        // The line is `OBJECT blob SIZE` or `OBJECT missing`.
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        if !head.trim_end().ends_with(&format!(" blob {size}")) {
            let said = if head.is_empty() {
                "git could not read the object; run git fsck"
            } else {
                head.trim_end()
            };
            return Err(io::Error::other(said.to_owned()));
        }
        let mut bytes = vec![0; size as usize];
        self.answers.read_exact(&mut bytes)?;
        // A line break follows.
        self.answers.read_exact(&mut [0])?;
        Ok(bytes)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // Git ends when its input is closed.
        self.asks = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
