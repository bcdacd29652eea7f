//! Links from the page of a run to the reports of its periods.

use crate::prose::Href;
use rankscope_formats::files::is_remote;
use rankscope_formats::session::{Period, SUMMARY_FILE};
use std::path::{Component, Path, PathBuf};

/// Name of the report in the session directory of a period.
const REPORT: &str = "report.html";

/// Directory of the page, and session directory of the run.
#[derive(Clone, Debug, Default)]
pub struct Links {
    places: Option<(PathBuf, PathBuf)>,
}

impl Links {
    /// Returns no links.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns links from the page at `html` to the periods in `session`.
    pub fn between(html: &Path, session: &Path) -> Self {
        if is_remote(html) || is_remote(session) {
            return Self::none();
        }
        let directory = html
            .parent()
            .map(|directory| match directory.as_os_str().is_empty() {
                true => Path::new("."),
                false => directory,
            });
        let absolute = |path: &Path| path.canonicalize().ok();
        Self {
            places: directory.and_then(absolute).zip(absolute(session)),
        }
    }

    /// Returns the address of a period's report, unless it is missing or older than the session of the period.
    pub fn to(&self, period: &Period) -> Option<Href> {
        let (directory, session) = self.places.as_ref()?;
        let period = period.path(session);
        let report = period.join(REPORT);
        let written = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_current = written(&report)? >= written(&period.join(SUMMARY_FILE))?;
        is_current.then(|| Href(relative(directory, &report)))
    }
}

/// Returns the address of `target` from `directory`. Both are absolute.
fn relative(directory: &Path, target: &Path) -> String {
    let common = directory
        .components()
        .zip(target.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = directory.components().skip(common).map(|_| "..".to_owned());
    let down = target
        .components()
        .skip(common)
        .filter_map(|component| match component {
            Component::Normal(name) => Some(encoded(&name.to_string_lossy())),
            _ => None,
        });
    up.chain(down).collect::<Vec<String>>().join("/")
}

/// Encodes a name for an address.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_relative_to_the_page() {
        for (directory, target, address) in [
            (
                "/a/run",
                "/a/run/session/periods/P/report.html",
                "session/periods/P/report.html",
            ),
            ("/a/pages", "/a/my run/P/report.html", "../my%20run/P/report.html"),
            ("/", "/a#b/x", "a%23b/x"),
        ] {
            assert_eq!(relative(Path::new(directory), Path::new(target)), address);
        }
    }
}
