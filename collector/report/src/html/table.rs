//! Tables of the HTML page, with the reasons for unknown values below them.

use crate::figures::{drawn, rule};
use crate::markup::{element, html};
use crate::prose::{Prose, prose};
use crate::reasons::Reasons;
use std::fmt::Write;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Text, aligned to the left.
    Word(&'static str),
    /// Long text, which may be wrapped.
    Long(&'static str),
    /// Numbers, aligned to the right.
    Number(&'static str),
}

/// Maximum number of rows. Lists grow with the job, but the page must stay small enough to be mailed.
const MOST_ROWS: usize = 500;

/// Table under construction.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    /// Rows with their class.
    rows: Vec<(&'static str, Vec<Prose>)>,
    /// Command that prints all rows.
    all_in: &'static str,
    /// Number of rows beyond the maximum.
    left_out: usize,
    /// Rows at the end, which are never left out: sums, and values for all rows.
    last: Vec<Vec<Prose>>,
    /// Reasons for its dashes.
    pub reasons: Reasons,
}

impl Table {
    /// Creates an empty table.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            all_in: "rankscope report --json",
            left_out: 0,
            last: Vec::new(),
            reasons: Reasons::default(),
        }
    }

    /// Sets the command that prints all rows, for a table with more rows than shown.
    pub fn all_in(mut self, command: &'static str) -> Self {
        self.all_in = command;
        self
    }

    /// Adds a row, not yet escaped.
    pub fn push<C: Into<Prose>>(&mut self, row: Vec<C>) {
        self.push_as("", row);
    }

    /// Adds a row with a class of the style sheet.
    pub fn push_as<C: Into<Prose>>(&mut self, class: &'static str, row: Vec<C>) {
        if self.rows.len() < MOST_ROWS {
            let row = row.into_iter().map(Into::into).collect();
            self.rows.push((class, row));
        } else {
            self.left_out += 1;
        }
    }

    /// Adds a row after all others.
    pub fn push_last(&mut self, row: Vec<Prose>) {
        self.last.push(row);
    }

    /// Returns the element, or nothing without rows. Empty columns are left out.
    pub fn finish(self) -> String {
        let Self {
            columns,
            rows,
            all_in,
            left_out,
            last,
            reasons,
        } = self;
        if rows.is_empty() && last.is_empty() {
            return String::new();
        }
        let is_filled = |column: usize| {
            rows.iter()
                .map(|(_, row)| row)
                .chain(&last)
                .any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()))
        };
        let shown: Vec<(usize, Column)> = columns
            .into_iter()
            .enumerate()
            .filter(|&(at, _)| is_filled(at))
            .collect();
        let empty = Prose::default();
        let mut out = String::from(r#"<div class="scroll"><table><thead><tr>"#);
        for (_, column) in &shown {
            match column {
                Column::Word(name) | Column::Long(name) => {
                    out.push_str(&element("th", r#" class="word""#, &heading(name), "span"));
                }
                Column::Number(name) => out.push_str(&element("th", "", &heading(name), "span")),
            }
        }
        out.push_str("</tr></thead><tbody>");
        let last = last.into_iter().map(|row| ("", row));
        let count = rows.len();
        for (class, row) in rows.into_iter().chain(last) {
            if class.is_empty() {
                out.push_str("<tr>");
            } else {
                let _ = write!(out, "<tr class=\"{class}\">");
            }
            for (at, column) in &shown {
                let class = match column {
                    Column::Word(_) => r#" class="word""#,
                    Column::Long(_) => r#" class="long""#,
                    Column::Number(_) => "",
                };
                out.push_str(&element("td", class, row.get(*at).unwrap_or(&empty), "span"));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>");
        if left_out > 0 {
            let note = prose![
                "The first ",
                drawn(count.to_string()),
                " of ",
                drawn((count + left_out).to_string()),
                " rows; ",
                all_in,
                " prints all rows."
            ];
            out.push_str(&element("p", r#" class="faint""#, &note, "span"));
        }
        out.push_str(&notes(&reasons));
        out
    }
}

/// Formats a heading. A number in it is part of a definition: `p99`.
fn heading(name: &'static str) -> Prose {
    if name.contains(|letter: char| letter.is_ascii_digit()) {
        rule(name).into()
    } else {
        name.into()
    }
}

fn notes(reasons: &Reasons) -> String {
    let notes: String = reasons
        .notes()
        .map(|(mark, reason)| format!("<li>{mark} {}</li>", html(reason)))
        .collect();
    if notes.is_empty() {
        notes
    } else {
        format!(r#"<ol class="notes">{notes}</ol>"#)
    }
}
