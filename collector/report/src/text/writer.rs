//! Writes the parts of a text for a terminal: sentences with labels, headings, tables.

use super::painter::Painter;
use super::table::TextTable;
use crate::TextLayout;
use crate::reasons::Reasons;
use crate::sentences::{Level, Line};
use std::fmt::Display;

/// Width of the label before a sentence, in columns.
const LABEL: usize = 12;

/// Text under construction.
pub struct Text {
    /// The text so far.
    pub out: String,
    /// Colours.
    pub paint: Painter,
    /// Width, in columns.
    pub width: usize,
}

impl Text {
    /// Starts a text with `begin`.
    pub fn new(begin: &str, layout: &TextLayout) -> Self {
        Self {
            out: begin.to_owned(),
            paint: Painter(layout.colours),
            width: layout.width,
        }
    }

    /// Adds a line.
    pub fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Paints a text by its severity.
    pub fn paint(&self, level: Level, text: &str) -> String {
        match level {
            Level::Good => self.paint.good(text),
            Level::Plain => text.to_owned(),
            Level::Warning => self.paint.warning(text),
            Level::Bad => self.paint.bad(text),
        }
    }

    /// Adds a sentence after a label, and its advice.
    pub fn labelled(&mut self, label: &str, line: &Line) {
        let label = self.paint.bold(&format!("{label:LABEL$}"));
        for (at, part) in wrapped(&line.text.plain(), self.width - LABEL).iter().enumerate() {
            let before = if at == 0 { label.clone() } else { " ".repeat(LABEL) };
            let part = self.paint(line.level, part);
            self.line(&format!("{before}{part}"));
        }
        if let Some(advice) = &line.advice {
            self.arrow(&advice.plain(), LABEL);
        }
    }

    /// Adds advice with an arrow.
    pub fn arrow(&mut self, advice: &str, indent: usize) {
        for (at, part) in wrapped(advice, self.width - indent - 2).iter().enumerate() {
            let mark = if at == 0 { "→ " } else { "  " };
            self.line(&format!("{:indent$}{mark}{part}", ""));
        }
    }

    /// Adds an empty line and a heading.
    pub fn heading(&mut self, heading: &str) {
        let heading = self.paint.bold(heading);
        self.line("");
        self.line(&heading);
    }

    /// Adds secondary information.
    pub fn faint(&mut self, words: &str) {
        for part in wrapped(words, self.width - 2) {
            let part = self.paint.faint(&format!("  {part}"));
            self.line(&part);
        }
    }

    /// Adds a path or a command, and below it what it is for.
    pub fn place(&mut self, what: &dyn Display, how: &str) {
        self.line(&format!("  {what}"));
        for part in wrapped(how, self.width - 6) {
            let part = self.paint.faint(&format!("      {part}"));
            self.line(&part);
        }
    }

    /// Adds a table, and the reasons for its dashes.
    pub fn table(&mut self, table: &TextTable, reasons: &Reasons) {
        for (at, line) in table.lines(self.width - 2).iter().enumerate() {
            let line = if at == 0 {
                self.paint.faint(line)
            } else {
                line.clone()
            };
            self.line(&format!("  {line}"));
        }
        for (mark, reason) in reasons.notes() {
            for (at, part) in wrapped(&reason.plain(), self.width - 6).iter().enumerate() {
                let mark = if at == 0 { mark.as_str() } else { " " };
                let note = self.paint.faint(&format!("  {mark} {part}"));
                self.line(&note);
            }
        }
    }
}

/// Wraps text to lines of at most `width` columns. A longer word is not split.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
