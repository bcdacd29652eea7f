//! Lines of a terminal: labels before sentences, tables that shorten long names in favour of numbers, colours.

use crate::TextLayout;
use crate::compare::severities::mark;
use crate::reasons::Reasons;
use crate::sentences::Level;
use crate::text::painter::Painter;
use crate::text::table::TextTable;
use crate::text::writer::wrapped;

/// Width of the label before a sentence, in columns.
pub const LABEL: usize = 14;
const INDENT: usize = 2;
/// Minimum share of the width for names. Names differ in the middle, so columns at the right are dropped before names
/// get shorter.
const MIN_OF_NAME: f64 = 0.4;

/// Text under construction.
#[derive(Debug)]
pub struct Lines {
    out: String,
    paint: Painter,
    width: usize,
}

/// Row of a table: its verdict, a name that may be shortened, its numbers, and a sentence below it.
#[derive(Debug, Default)]
pub struct Row {
    /// Severity and word of the verdict.
    pub verdict: Option<(Level, String)>,
    /// The name.
    pub name: String,
    /// Other cells.
    pub cells: Vec<String>,
    /// Sentence below the row.
    pub below: String,
}

impl Lines {
    /// Creates an empty text.
    pub fn new(layout: &TextLayout) -> Self {
        Self {
            out: String::from("\n"),
            paint: Painter(layout.colours),
            width: layout.width,
        }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn paint(&self, level: Level, text: &str) -> String {
        match level {
            Level::Good => self.paint.good(text),
            Level::Plain => text.to_owned(),
            Level::Warning => self.paint.warning(text),
            Level::Bad => self.paint.bad(text),
        }
    }

    /// Adds a sentence after a bold label.
    pub fn labelled(&mut self, label: &str, level: Level, text: &str) {
        let label = self.paint.bold(&format!("{label:LABEL$}"));
        self.behind(&label, LABEL, level, text);
    }

    /// Adds a sentence after a verdict, both in its colour.
    pub fn verdict(&mut self, verdict: &str, level: Level, text: &str) {
        let label = self.paint(level, &format!("{verdict:LABEL$}"));
        self.behind(&label, LABEL, level, text);
    }

    fn behind(&mut self, label: &str, columns: usize, level: Level, text: &str) {
        let parts = wrapped(&printable(text), self.width.saturating_sub(columns));
        for (at, part) in parts.iter().enumerate() {
            let part = self.paint(level, part);
            if at == 0 {
                self.line(&format!("{label}{part}"));
            } else {
                self.line(&format!("{:columns$}{part}", ""));
            }
        }
    }

    /// Adds an empty line and a heading.
    pub fn heading(&mut self, heading: &str) {
        let heading = self.paint.bold(heading);
        self.line("");
        self.line(&heading);
    }

    /// Adds an empty line.
    pub fn line_break(&mut self) {
        self.line("");
    }

    /// Adds a sentence without a label.
    pub fn sentence(&mut self, text: &str) {
        self.behind("", 0, Level::Plain, text);
    }

    /// Adds a sentence under a heading.
    pub fn plain(&mut self, text: &str) {
        self.behind(&" ".repeat(INDENT), INDENT, Level::Plain, text);
    }

    /// Adds a secondary sentence under a heading.
    pub fn faint(&mut self, text: &str) {
        for part in wrapped(text, self.width - INDENT) {
            let part = self.paint.faint(&part);
            self.line(&format!("{:INDENT$}{part}", ""));
        }
    }

    /// Adds a sentence with a mark, and a number of `columns` columns before it.
    pub fn item(&mut self, level: Level, number: &str, columns: usize, text: &str) {
        let pad = columns.saturating_sub(number.chars().count());
        let mark = self.paint(level, mark(level));
        let label = format!("{:INDENT$}{mark} {:pad$}{number}  ", "", "");
        self.behind(&label, INDENT + 2 + columns + 2, Level::Plain, text);
    }

    /// Adds a command to copy, without wrapping.
    pub fn command(&mut self, command: &str) {
        let indent = " ".repeat(INDENT);
        self.line(&format!("{indent}{command}"));
    }

    /// Adds a table. `headings` are those of the verdict, the name and the cells; the first `left` of them are text.
    pub fn table(&mut self, left: usize, headings: &[&'static str], rows: &[Row], reasons: &Reasons) {
        if rows.is_empty() {
            return;
        }
        let width = self.width - INDENT;
        let name_width = name_width(headings, rows, width);
        let mut table = TextTable::new(left, headings);
        for row in rows {
            let mut cells = vec![verdict_cell(row), shortened(&printable(&row.name), name_width)];
            cells.extend(row.cells.iter().map(|cell| printable(cell)));
            table.push(cells);
        }
        let lines = table.lines(width);
        let mut lines = lines.iter();
        if let Some(heading) = lines.next() {
            let heading = self.paint.faint(heading);
            self.line(&format!("{:INDENT$}{heading}", ""));
        }
        for (row, line) in rows.iter().zip(lines) {
            // Only the first cell, the verdict, is coloured.
            let line = match (&row.verdict, line.strip_prefix(verdict_cell(row).as_str())) {
                (Some((level, _)), Some(rest)) => self.paint(*level, &verdict_cell(row)) + rest,
                _ => line.clone(),
            };
            self.line(&format!("{:INDENT$}{line}", ""));
            self.behind(&" ".repeat(INDENT + 2), INDENT + 2, Level::Plain, &row.below);
        }
        for (mark, reason) in reasons.notes() {
            self.faint(&format!("{mark} {}", reason.plain()));
        }
    }
}

fn verdict_cell(row: &Row) -> String {
    match &row.verdict {
        Some((level, word)) => format!("{} {word}", mark(*level)),
        None => String::new(),
    }
}

/// Replaces control characters. A name comes from a recording and may contain line breaks or terminal commands.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns the width of names next to the columns that fit.
fn name_width(headings: &[&str], rows: &[Row], width: usize) -> usize {
    const GAP: usize = 2;
    let verdicts = rows.iter().map(|row| verdict_cell(row).chars().count());
    let verdict = verdicts.max().filter(|width| *width > 0);
    let names = rows.iter().map(|row| row.name.chars().count());
    let shortest = names
        .max()
        .unwrap_or(0)
        .min((width as f64 * MIN_OF_NAME) as usize);
    let mut others = verdict.map_or(0, |width| width + GAP);
    for (at, heading) in headings.iter().enumerate().skip(2) {
        let cells = rows.iter().filter_map(|row| row.cells.get(at - 2));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        if widest == 0 {
            continue;
        }
        let column = widest.max(heading.chars().count()) + GAP;
        if others + column + shortest > width && others > 0 {
            break;
        }
        others += column;
    }
    width.saturating_sub(others).max(shortest)
}

/// Shortens a name in the middle. Its start is the metric and its end the limit.
pub fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let kept = most.saturating_sub(1);
    let tail = kept / 3;
    let head: String = name.chars().take(kept - tail).collect();
    let end: String = name.chars().skip(length - tail).collect();
    format!("{head}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_ends() {
        let name = "busbw[all-reduce 1-2 MiB world inside-host]<-3%";
        assert_eq!(shortened(name, 24), "busbw[all-reduce…st]<-3%");
        assert_eq!(shortened(name, 24).chars().count(), 24);
        assert_eq!(shortened("step_time", 24), "step_time");
    }
}
