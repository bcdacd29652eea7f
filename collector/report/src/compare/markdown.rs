//! A comparison as a comment on a pull request, in GitHub's Markdown. The summary of a step (`GITHUB_STEP_SUMMARY`) is
//! the same text.
//!
//! Names come from recordings and may contain anything. They must not become markup, mentions or columns.

use super::lines::shortened;
use super::rows;
use crate::compare::phrases;
use crate::prose::Prose;
use crate::reasons::Reasons;
use rankscope_analysis::model::units;
use rankscope_formats::comparison::{Comparison, SideSummary};
use std::fmt::Write;

/// Maximum number of characters of a GitHub comment.
pub const MAX_CHARACTERS: usize = 65_536;
/// Size at which tables end, in bytes. It leaves capacity for the rest of the comment.
const TABLES_END: usize = 50_000;
/// Maximum size of a cell and of a sentence, in bytes.
const MAX_OF_CELL: usize = 600;
const MAX_OF_SENTENCE: usize = 1_500;
/// Maximum number of sentences of a list, and of rows of tables.
const MAX_SENTENCES: usize = 6;
const MAX_METRICS: usize = 50;
const MAX_RANKS: usize = 10;
const MAX_CHANGES: usize = 30;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Word(&'static str),
    Number(&'static str),
}

use Column::{Number, Word};

/// Returns the comment.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut text = Markdown {
        out: String::new(),
        comparison,
    };
    text.first();
    text.gates();
    text.why();
    text.changes();
    text.metrics();
    text.differences();
    text.runs_and_method();
    text.out
}

struct Markdown<'a> {
    out: String,
    comparison: &'a Comparison,
}

impl Markdown<'_> {
    fn first(&mut self) {
        let Comparison {
            verdict,
            headline,
            reasons,
            cautions,
            ..
        } = self.comparison;
        let _ = writeln!(
            self.out,
            "### rankscope: {verdict}\n\n**{}**\n",
            sentence(headline)
        );
        self.list(reasons.iter().map(|reason| sentence(reason)));
        self.list(
            cautions
                .iter()
                .map(|caution| format!("Note: {}", sentence(caution))),
        );
        if let Some(sizes) = phrases::can_find(self.comparison) {
            let _ = writeln!(self.out, "{}\n", sentence(&sizes.plain()));
        }
    }

    fn list(&mut self, items: impl ExactSizeIterator<Item = String>) {
        let left_out = items.len().saturating_sub(MAX_SENTENCES);
        for item in items.take(MAX_SENTENCES) {
            let _ = writeln!(self.out, "- {item}");
        }
        if left_out > 0 {
            let _ = writeln!(self.out, "- … {left_out} more");
        }
        self.blank();
    }

    /// Adds an empty line unless there is one.
    fn blank(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn gates(&mut self) {
        let mut reasons = Reasons::default();
        let rows = rows::gates(self.comparison, &mut reasons);
        let rows = rows.into_iter().map(|gate| {
            vec![
                format!("**{}**", cell(&gate.verdict)),
                code(&gate.rule.plain()),
                cell(&gate.base),
                cell(&gate.new),
                cell(&gate.change),
                cell(&gate.reason),
            ]
        });
        let columns = [
            Word("verdict"),
            Word("gate"),
            Number("base"),
            Number("new"),
            Number("change"),
            Word("reason"),
        ];
        self.table(&columns, rows.collect(), usize::MAX);
        self.notes(&reasons);
    }

    fn why(&mut self) {
        let attribution = &self.comparison.attribution;
        self.open("Why the step time changed");
        if let Some(reason) = &attribution.reason {
            let _ = writeln!(self.out, "– {}", sentence(reason));
            self.close();
            return;
        }
        let step = phrases::step_change(self.comparison).plain();
        let _ = writeln!(self.out, "{}\n", sentence(&step));
        let whole = rows::whole(self.comparison);
        let parts = (0..attribution.parts.len()).filter_map(|at| rows::part(self.comparison, at));
        let rows = parts.chain([whole]).map(|row| row.iter().map(cell).collect());
        let columns = [
            Word("part of a step"),
            Number("base"),
            Number("new"),
            Number("change"),
        ];
        self.table(&columns, rows.collect(), usize::MAX);
        let ranks = rows::ranks_by_difference(self.comparison);
        if ranks.len() > 1 {
            let count = units::count(ranks.len() as u64);
            let _ = writeln!(self.out, "Ranks with the most unusual change, of {count}:\n");
            let rows = ranks.iter().take(MAX_RANKS).map(|(at, rank)| {
                let row = rows::rank(self.comparison, *at, rank);
                row.iter().map(cell).collect()
            });
            let columns = [Word("rank"), Word("host"), Number("change"), Word("main parts")];
            self.table(&columns, rows.collect(), usize::MAX);
        }
        self.close();
    }

    fn changes(&mut self) {
        let changes = &self.comparison.changes;
        if changes.is_empty() {
            return;
        }
        self.open(&format!("Changes ({})", units::count(changes.len() as u64)));
        let rows = changes.iter().enumerate().map(|(at, change)| {
            let word = match change.is_worse {
                Some(true) => "worse",
                Some(false) => "better",
                None => "otherwise",
            };
            vec![
                word.to_owned(),
                within(&change.text, MAX_OF_CELL),
                cell(&rows::step_share(self.comparison, at)),
            ]
        });
        let columns = [Word(""), Word("change"), Number("per mean step")];
        self.table(&columns, rows.collect(), MAX_CHANGES);
        self.close();
    }

    fn metrics(&mut self) {
        let notable = rows::notable(self.comparison);
        let unchanged = rows::unchanged(self.comparison);
        if notable.is_empty() && unchanged == 0 {
            return;
        }
        self.open(&format!(
            "Other metrics ({} changed or inconclusive, {} unchanged)",
            units::count(notable.len() as u64),
            units::count(unchanged as u64)
        ));
        let rows = notable.iter().map(|(at, metric)| {
            let row = rows::metric(self.comparison, metric, *at);
            vec![
                cell(&row.verdict),
                code(&row.name.plain()),
                cell(&row.base),
                cell(&row.new),
                cell(&row.change),
                cell(&row.note),
            ]
        });
        let columns = [
            Word("verdict"),
            Word("metric"),
            Number("base"),
            Number("new"),
            Number("change"),
            Word(""),
        ];
        self.table(&columns, rows.collect(), MAX_METRICS);
        let not_compared = self.comparison.not_compared.len();
        if not_compared > 0 {
            let count = units::counted(not_compared as u64, "metric");
            let _ = writeln!(self.out, "{count} cannot be compared.");
        }
        self.close();
    }

    fn differences(&mut self) {
        let differences = &self.comparison.differences;
        if differences.is_empty() {
            return;
        }
        let count = units::count(differences.len() as u64);
        self.open(&format!("Differences between the runs ({count})"));
        let rows = differences.iter().map(|difference| {
            vec![
                code(&difference.what),
                within(&difference.text, MAX_OF_CELL),
                escaped(phrases::effect(difference.effect)),
            ]
        });
        let columns = [Word("property"), Word("both values"), Word("effect")];
        self.table(&columns, rows.collect(), usize::MAX);
        self.close();
    }

    fn runs_and_method(&mut self) {
        self.open("Runs and method");
        let side = |name: &str, side: &SideSummary, of: &str| {
            let text = phrases::side(side, of).plain();
            let shown: Vec<String> = phrases::first_directories(side).map(code).collect();
            let more = side.runs.len() - shown.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let between = if shown.is_empty() { "" } else { ": " };
            format!("{name}: {}{between}{}{more}", sentence(&text), shown.join(", "))
        };
        let sides = [
            side("Base", &self.comparison.base, "/base"),
            side("New", &self.comparison.new, "/new"),
        ];
        let method = phrases::method(self.comparison);
        let method = method.iter().map(|text| sentence(&text.plain()));
        let all: Vec<String> = sides.into_iter().chain(method).collect();
        self.list(all.into_iter());
        if let Ok(command) = phrases::view_command(self.comparison) {
            let _ = writeln!(self.out, "To see both sides: {}", code(&command));
        }
        self.close();
    }

    fn open(&mut self, summary: &str) {
        self.blank();
        // Without the empty line, the following text would be HTML instead of Markdown.
        let _ = write!(self.out, "<details><summary>{}</summary>\n\n", escaped(summary));
    }

    fn close(&mut self) {
        self.blank();
        self.out.push_str("</details>\n");
    }

    /// Adds a table with at most `most` rows, as far as they fit. Reports the number of rows left out.
    fn table(&mut self, columns: &[Column], rows: Vec<Vec<String>>, most: usize) {
        if rows.is_empty() {
            return;
        }
        // Empty columns are left out.
        let is_filled = |at: usize| {
            rows.iter()
                .any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()))
        };
        let filled: Vec<usize> = (0..columns.len()).filter(|&at| is_filled(at)).collect();
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = filled.iter().map(|&at| cell(at)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        self.out.push_str(&line(&|at| match columns[at] {
            Word(name) | Number(name) => name.to_owned(),
        }));
        self.out.push_str(&line(&|at| match columns[at] {
            Word(_) => "---".to_owned(),
            Number(_) => "--:".to_owned(),
        }));
        let mut shown = 0;
        for row in rows.iter().take(most) {
            let row = line(&|at| {
                let cell = row.get(at).cloned().unwrap_or_default();
                match columns[at] {
                    Word(_) => cell,
                    // A number and its unit stay on one line.
                    Number(_) => cell.replace(' ', "\u{a0}"),
                }
            });
            if self.out.len() + row.len() > TABLES_END {
                break;
            }
            self.out.push_str(&row);
            shown += 1;
        }
        self.out.push('\n');
        if shown < rows.len() {
            let more = units::count((rows.len() - shown) as u64);
            let _ = writeln!(
                self.out,
                "… {more} more: `rankscope compare --all` lists them, `--json` has all.\n"
            );
        }
    }

    fn notes(&mut self, reasons: &Reasons) {
        for (mark, reason) in reasons.notes() {
            let _ = writeln!(self.out, "{mark} {}  ", sentence(&reason.plain()));
        }
    }
}

fn cell(text: &Prose) -> String {
    within(&text.plain(), MAX_OF_CELL)
}

fn sentence(text: &str) -> String {
    within(text, MAX_OF_SENTENCE)
}

/// Formats a name as code.
fn code(name: &str) -> String {
    let is_plain = |letter: char| !matches!(letter, '`' | '|') && !letter.is_control();
    let is_whole = !name.is_empty() && name.trim() == name && name.len() <= MAX_OF_CELL;
    if is_whole && name.chars().all(is_plain) {
        format!("`{name}`")
    } else {
        format!("<code>{}</code>", within(name, MAX_OF_CELL))
    }
}

/// Shortens a text in the middle until its escaped form fits into `most` bytes.
fn within(text: &str, most: usize) -> String {
    let mut letters = text.chars().count().min(most);
    loop {
        let written = escaped(&shortened(text, letters));
        if written.len() <= most || letters <= 1 {
            return written;
        }
        letters = letters * most / written.len();
    }
}

/// Escapes text so that nothing in it becomes markup of GitHub or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        let is_inside_word = before.is_alphanumeric() && next.is_alphanumeric();
        match letter {
            '&' | '<' | '>' | '|' | '*' | '`' | '[' | ']' | '\\' | '~' | '$' | '!' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            '_' if !is_inside_word => out.push_str("&#95;"),
            // Prevents notifications of users and mentions of other pull requests. GitHub searches for these after
            // decoding entities.
            '@' | '#' if next.is_alphanumeric() => {
                out.push(letter);
                out.push_str("&#8203;");
            }
            _ if letter.is_control() => out.push(' '),
            _ => out.push(letter),
        }
        before = letter;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(code("step_time>+2%"), "`step_time>+2%`");
        assert_eq!(code("a|b`"), "<code>a&#124;b&#96;</code>");
        assert_eq!(escaped("step_time _x_"), "step_time &#95;x&#95;");
        assert_eq!(escaped("<b>@me #12\n"), "&#60;b&#62;@&#8203;me #&#8203;12 ");
    }
}
