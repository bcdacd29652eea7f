//! A comparison on a terminal: first what it can find, then the verdict, the reasons, and the certainty.

use super::lines::{Lines, Row};
use super::rows;
use crate::TextLayout;
use crate::compare::{phrases, severities};
use crate::prose::Prose;
use crate::reasons::Reasons;
use crate::sentences::Level;
use rankscope_analysis::model::units;
use rankscope_formats::comparison::{Comparison, SideSummary};

/// Maximum number of rows without `--all`.
const MAX_METRICS: usize = 20;
const MAX_RANKS: usize = 5;
const MAX_CHANGES: usize = 15;
const MAX_NOT_COMPARED: usize = 5;
/// Width of a bar on each side of its middle, in columns.
const BAR: usize = 8;

/// Selection of rows of long lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    /// Notable rows, up to a maximum.
    #[default]
    Notable,
    /// All rows (`--all`).
    All,
}

impl Listed {
    fn most(self, most: usize) -> usize {
        match self {
            Self::Notable => most,
            Self::All => usize::MAX,
        }
    }
}

/// Returns the whole text.
pub fn comparison_text(comparison: &Comparison, listed: Listed, layout: &TextLayout) -> String {
    let mut text = Text {
        lines: Lines::new(layout),
        comparison,
        listed,
    };
    text.detectable();
    text.verdict();
    text.gates();
    text.parts();
    text.ranks();
    text.changes();
    text.metrics();
    text.not_compared();
    text.differences();
    text.runs();
    text.method();
    text.view();
    text.lines.finish()
}

struct Text<'a> {
    lines: Lines,
    comparison: &'a Comparison,
    listed: Listed,
}

impl Text<'_> {
    fn detectable(&mut self) {
        if let Some(sizes) = phrases::can_find(self.comparison) {
            self.lines.sentence(&sizes.plain());
            self.lines.line_break();
        }
    }

    fn verdict(&mut self) {
        let Comparison {
            verdict,
            headline,
            reasons,
            cautions,
            ..
        } = self.comparison;
        let level = severities::of_comparison(*verdict);
        self.lines
            .verdict(&verdict.name().to_uppercase(), level, headline);
        for (at, reason) in reasons.iter().enumerate() {
            let label = if at == 0 { "Reasons" } else { "" };
            self.lines.labelled(label, Level::Warning, reason);
        }
        for (at, caution) in cautions.iter().enumerate() {
            let label = if at == 0 { "Note" } else { "" };
            self.lines.labelled(label, Level::Plain, caution);
        }
    }

    fn gates(&mut self) {
        if self.comparison.gates.is_empty() {
            return;
        }
        self.lines.heading("Gates");
        let mut reasons = Reasons::default();
        let rows: Vec<Row> = rows::gates(self.comparison, &mut reasons)
            .into_iter()
            .map(|gate| Row {
                verdict: Some((gate.level, gate.verdict.plain())),
                name: gate.rule.plain(),
                cells: plain(&[&gate.change, &gate.base, &gate.new]),
                below: gate.reason.plain(),
            })
            .collect();
        let headings = ["verdict", "rule", "change", "base", "new"];
        self.lines.table(2, &headings, &rows, &reasons);
    }

    fn parts(&mut self) {
        let attribution = &self.comparison.attribution;
        self.lines.heading("Why");
        if let Some(reason) = &attribution.reason {
            self.lines.plain(&format!("– {reason}"));
            return;
        }
        self.lines.plain(&phrases::step_change(self.comparison).plain());
        let parts = attribution.parts.iter();
        let most = parts.map(|part| part.change_ns.unsigned_abs()).max().unwrap_or(0);
        let mut rows: Vec<Row> = (0..attribution.parts.len())
            .filter_map(|at| {
                let [name, base, new, change] = rows::part(self.comparison, at)?;
                let ns = attribution.parts.get(at)?.change_ns;
                Some(Row {
                    name: format!("{:20}{}", name.plain(), bar(ns, most)),
                    cells: plain(&[&change, &base, &new]),
                    ..Row::default()
                })
            })
            .collect();
        let [name, base, new, change] = rows::whole(self.comparison);
        rows.push(Row {
            name: name.plain(),
            cells: plain(&[&change, &base, &new]),
            ..Row::default()
        });
        let headings = ["", "part of a step", "change", "base", "new"];
        self.lines.table(2, &headings, &rows, &Reasons::default());
    }

    fn ranks(&mut self) {
        let ranks = rows::ranks_by_difference(self.comparison);
        if ranks.len() < 2 || self.comparison.attribution.reason.is_some() {
            return;
        }
        let most = self.listed.most(MAX_RANKS);
        self.lines.heading(&format!(
            "Ranks with the most unusual change, of {}",
            units::count(ranks.len() as u64)
        ));
        let mut rows: Vec<Row> = ranks
            .iter()
            .take(most)
            .map(|(at, rank)| {
                let [name, host, change, parts] = rows::rank(self.comparison, *at, rank);
                Row {
                    name: name.plain(),
                    cells: plain(&[&host, &parts, &change]),
                    ..Row::default()
                }
            })
            .collect();
        if let Some((at, rank)) = rows::median_of_ranks(self.comparison).filter(|_| ranks.len() > most) {
            let [_, _, change, parts] = rows::rank(self.comparison, at, rank);
            rows.push(Row {
                name: "median rank".to_owned(),
                cells: plain(&[&Prose::default(), &parts, &change]),
                ..Row::default()
            });
        }
        let headings = ["", "rank", "host", "main parts", "change"];
        self.lines.table(4, &headings, &rows, &Reasons::default());
    }

    fn changes(&mut self) {
        let changes = &self.comparison.changes;
        if changes.is_empty() {
            return;
        }
        self.lines.heading("Changes");
        let most = self.listed.most(MAX_CHANGES);
        let shares: Vec<String> = (0..changes.len().min(most))
            .map(|at| rows::step_share(self.comparison, at).plain())
            .collect();
        let columns = shares
            .iter()
            .map(|share| share.chars().count())
            .max()
            .unwrap_or(0);
        for (change, share) in changes.iter().zip(&shares) {
            self.lines
                .item(severities::of_change(change), share, columns, &change.text);
        }
        if columns > 0 {
            self.lines.faint("Times: change of the mean step.");
        }
        self.more(changes.len(), most);
    }

    fn more(&mut self, all: usize, shown: usize) {
        if all > shown {
            let more = units::count((all - shown) as u64);
            self.lines.faint(&format!("… {more} more: --all lists them"));
        }
    }

    fn metrics(&mut self) {
        let all: Vec<_> = match self.listed {
            Listed::All => self.comparison.metrics.iter().enumerate().collect(),
            Listed::Notable => rows::notable(self.comparison),
        };
        let unchanged = rows::unchanged(self.comparison);
        if all.is_empty() && unchanged == 0 {
            return;
        }
        self.lines.heading(match self.listed {
            Listed::All => "Metrics",
            Listed::Notable => "Other metrics",
        });
        let most = self.listed.most(MAX_METRICS);
        let rows: Vec<Row> = all
            .iter()
            .take(most)
            .map(|(at, metric)| {
                let row = rows::metric(self.comparison, metric, *at);
                Row {
                    verdict: Some((row.level, row.verdict.plain())),
                    name: row.name.plain(),
                    cells: plain(&[&row.change, &row.base, &row.new, &row.note]),
                    below: String::new(),
                }
            })
            .collect();
        let headings = ["verdict", "metric", "change", "base", "new", ""];
        self.lines.table(2, &headings, &rows, &Reasons::default());
        self.more(all.len(), most);
        if self.listed == Listed::Notable && unchanged > 0 {
            let unchanged = units::counted(unchanged as u64, "metric");
            self.lines
                .faint(&format!("{unchanged} unchanged: --all lists them"));
        }
    }

    fn not_compared(&mut self) {
        let all = &self.comparison.not_compared;
        if all.is_empty() {
            return;
        }
        self.lines.heading("Not compared");
        let most = self.listed.most(MAX_NOT_COMPARED);
        for not in all.iter().take(most) {
            let text = format!("{}: {}", not.metric, not.reason);
            self.lines.item(Level::Plain, "", 0, &text);
        }
        self.more(all.len(), most);
    }

    fn differences(&mut self) {
        if self.comparison.differences.is_empty() {
            return;
        }
        self.lines.heading("Differences between the runs");
        for difference in &self.comparison.differences {
            let effect = phrases::effect(difference.effect);
            let text = format!("{} ({}: {effect})", difference.text, difference.what);
            self.lines
                .item(severities::of_difference(difference), "", 0, &text);
        }
    }

    fn runs(&mut self) {
        self.lines.line_break();
        let side = |lines: &mut Lines, label: &str, side: &SideSummary, of: &str| {
            let text = phrases::side(side, of).plain();
            let directories = phrases::directories(side, of).plain();
            let between = if directories.is_empty() { "" } else { ": " };
            lines.labelled(label, Level::Plain, &format!("{text}{between}{directories}"));
        };
        side(&mut self.lines, "Base", &self.comparison.base, "/base");
        side(&mut self.lines, "New", &self.comparison.new, "/new");
    }

    fn method(&mut self) {
        // The error probabilities of all verdicts are a long paragraph. It appears only with `--all`.
        let most = self.listed.most(2);
        let sentences = phrases::method(self.comparison);
        for (at, sentence) in sentences.iter().take(most).enumerate() {
            let label = if at == 0 { "Method" } else { "" };
            self.lines.labelled(label, Level::Plain, &sentence.plain());
        }
    }

    fn view(&mut self) {
        self.lines.line_break();
        match phrases::view_command(self.comparison) {
            Ok(command) => self.lines.command(&format!("→ {command}")),
            Err(reason) => {
                let text = format!("– no picture of both sides: {reason}");
                self.lines.faint(&text);
            }
        }
    }
}

fn plain(cells: &[&Prose]) -> Vec<String> {
    cells.iter().map(|cell| cell.plain()).collect()
}

/// Draws a change as a bar from the middle. Longer times are to the right.
fn bar(ns: i64, most: u64) -> String {
    let length = if most == 0 {
        0
    } else {
        (ns.unsigned_abs() as f64 / most as f64 * BAR as f64).round() as usize
    };
    let (left, right) = if ns < 0 { (length, 0) } else { (0, length) };
    format!(
        "{}{}│{}{}",
        " ".repeat(BAR - left),
        "▒".repeat(left),
        "█".repeat(right),
        " ".repeat(BAR - right)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_from_the_middle() {
        assert_eq!(bar(8, 8), "        │████████");
        assert_eq!(bar(-4, 8), "    ▒▒▒▒│        ");
        assert_eq!(bar(0, 0), "        │        ");
    }
}
