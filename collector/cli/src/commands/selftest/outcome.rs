//! Result of a part.

use super::machine::Machine;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Version of the layout.
const VERSION: u32 = 1;
/// Width of names in the printed list.
const NAME_WIDTH: usize = 14;

/// Results of the selftest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Document {
    /// Version of this layout.
    pub version: u32,
    /// Version of rankscope.
    pub tool_version: String,
    /// What this machine has.
    pub machine: Machine,
    /// Parts in the order in which they ran.
    pub parts: Vec<PartResult>,
}

/// Verdict of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is as it must be.
    Passed,
    /// Something is wrong.
    Failed,
    /// It could not run here.
    Skipped,
    /// It measures only.
    Measured,
}

/// Result of a part.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartResult {
    /// Name.
    pub name: String,
    /// What it proves.
    pub title: String,
    /// Verdict.
    pub verdict: Verdict,
    /// What was seen, or why the part did not run.
    pub seen: Vec<String>,
    /// What is wrong.
    pub failures: Vec<String>,
    /// Figures, with their units in their names.
    pub figures: BTreeMap<String, f64>,
    /// Duration, in milliseconds.
    pub took_ms: u64,
}

/// What a part found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What was seen.
    pub seen: Vec<String>,
    /// What is wrong.
    pub failures: Vec<String>,
    /// Figures.
    pub figures: BTreeMap<String, f64>,
    /// Whether the part only measures.
    pub is_measurement: bool,
    /// Why the part could not run.
    pub skipped: Option<String>,
}

impl Found {
    /// Adds a failure unless the condition holds.
    pub fn demand(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(otherwise());
        }
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }
}

impl Document {
    /// Returns a document without results.
    pub fn new(machine: &Machine) -> Self {
        Self {
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine.clone(),
            parts: Vec::new(),
        }
    }

    /// Returns what is printed before the first part.
    pub fn heading(&self) -> String {
        format!("{}\n", self.machine.text())
    }

    /// Returns what is printed after the last part.
    pub fn conclusion(&self) -> String {
        let count = |verdict| self.parts.iter().filter(|part| part.verdict == verdict).count();
        let (passed, failed) = (
            count(Verdict::Passed) + count(Verdict::Measured),
            count(Verdict::Failed),
        );
        let skipped = count(Verdict::Skipped);
        let verdict = match (passed, failed) {
            (_, 1..) => "Do NOT trust recordings of this machine where a part failed",
            (0, _) => "Nothing could be checked here",
            _ => "Every part that ran passed",
        };
        format!("\n{verdict}: {passed} passed, {failed} failed, {skipped} could not run\n")
    }
}

impl PartResult {
    /// Returns its lines for a terminal.
    pub fn line(&self) -> String {
        let mark = match self.verdict {
            Verdict::Passed => "ok",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "–",
            Verdict::Measured => "·",
        };
        let seconds = self.took_ms as f64 / 1e3;
        let mut out = format!(
            "{mark:<7} {:<NAME_WIDTH$} {} ({seconds:.1} s)\n",
            self.name, self.title
        );
        let indent = " ".repeat(NAME_WIDTH + 9);
        for failure in &self.failures {
            let _ = writeln!(out, "{indent}! {failure}");
        }
        for seen in &self.seen {
            let _ = writeln!(out, "{indent}{seen}");
        }
        out
    }
}
