//! Text of a selected window on a terminal: totals, then breakdown, operations, stalls, last arrivals, and counters.

use super::painter::Painter;
use super::table::TextTable;
use super::writer::wrapped;
use crate::TextLayout;
use crate::reasons::Reasons;
use crate::selection_rows::{SelectionTable, Value, Which, table_of};
use rankscope_analysis::model::labels::rank_name;
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Selection, Session};

/// Maximum number of rows of a table. The JSON has all rows.
const MOST_ROWS: usize = 24;
const MOST_STALLS: usize = 8;
/// Width of the label before a sentence, in columns.
const LABEL: usize = 12;

/// Formats the selection.
pub fn selection_text(selection: &Selection, session: &Session, layout: &TextLayout) -> String {
    let mut text = Text {
        out: String::from("\n"),
        paint: Painter(layout.colours),
        width: layout.width,
    };
    text.labelled("Window", &window(selection, session));
    text.labelled("Totals", &totals(selection));
    if !selection.adds_up() {
        text.bad(
            "The parts of a rank do not add up to its window. This is a bug of rankscope; please report it.",
        );
    }
    for which in Which::ALL {
        let table = table_of(selection, session, which);
        if table.rows.is_empty() && matches!(which, Which::Stalls | Which::Counters) {
            continue;
        }
        text.section(&table);
    }
    text.out
}

fn window(selection: &Selection, session: &Session) -> String {
    let (from, to) = (selection.from_ns, selection.to_ns);
    let mut text = format!(
        "{} from {} to {} after the start of the session",
        units::time(to.saturating_sub(from)),
        units::time(from),
        units::time(to)
    );
    if let Some(ranks) = &selection.of_ranks {
        let names: Vec<String> = ranks
            .iter()
            .map(|&rank| rank_name(session, RankIndex(rank)))
            .collect();
        text.push_str(&format!(
            "; only {}, and operations on communicators with one of them",
            names.join(", ")
        ));
    }
    text
}

fn totals(selection: &Selection) -> String {
    let totals = &selection.totals;
    let mut text = format!(
        "{} of operations, {} complete",
        units::counted(totals.instances, "instance"),
        units::count(totals.complete)
    );
    let bytes = totals.size_bytes.value.map(units::bytes);
    let exposed = totals.exposed_wait_rank_ns.value.map(units::rank_time);
    let hidden = totals.hidden_wait_rank_ns.value.map(units::rank_time);
    for (what, sum) in [
        ("S in total", bytes),
        ("exposed wait", exposed),
        ("hidden wait", hidden),
    ] {
        if let Some(sum) = sum {
            text.push_str(&format!("; {what} {sum}"));
        }
    }
    text
}

/// Returns a note with the definitions of a table.
fn note(which: Which) -> &'static str {
    match which {
        Which::Parts => "Only the recorded part of the window. The parts add up to it.",
        Which::Operations => {
            "An instance counts in the window in which its first member enters, with all of its time. Bandwidth is \
             that of launches with a wait share of at most 20 %."
        }
        Which::StallCauses => {
            "A stall counts in the window in which it starts, with all of its time, including time after the window."
        }
        Which::Stalls => "",
        Which::Counters => {
            "A value holds until the next sample. The first value may have its sample before the window. The mean is \
             weighted by time."
        }
        Which::Lateness => {
            "Waiting where it was last: the exposed wait of all members of those launches. Other ranks may have \
             caused some of it. Own waiting is cut at the ends of the window."
        }
    }
}

struct Text {
    out: String,
    paint: Painter,
    width: usize,
}

impl Text {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn labelled(&mut self, label: &str, words: &str) {
        let label = self.paint.bold(&format!("{label:LABEL$}"));
        for (at, part) in wrapped(words, self.width - LABEL).iter().enumerate() {
            let before = if at == 0 { label.clone() } else { " ".repeat(LABEL) };
            self.line(&format!("{before}{part}"));
        }
    }

    fn bad(&mut self, words: &str) {
        let words = self.paint.bad(words);
        self.line(&words);
    }

    fn faint(&mut self, words: &str) {
        for part in wrapped(words, self.width - 2) {
            let part = self.paint.faint(&format!("  {part}"));
            self.line(&part);
        }
    }

    fn section(&mut self, table: &SelectionTable) {
        let heading = self.paint.bold(table.which.title());
        self.line("");
        self.line(&heading);
        if table.rows.is_empty() {
            let reason = table.reason.as_deref().unwrap_or("nothing");
            self.faint(reason);
            return;
        }
        let mut reasons = Reasons::default();
        let columns: Vec<usize> = (0..table.headings.len())
            .filter(|&column| table.is_informative(column))
            .collect();
        let headings = || columns.iter().filter_map(|&column| table.headings.get(column));
        let left = headings().take_while(|heading| !heading.is_number).count();
        let shown: Vec<&str> = headings().map(|heading| heading.shown).collect();
        let most = match table.which {
            Which::Stalls => MOST_STALLS,
            _ => MOST_ROWS,
        };
        let mut lines = TextTable::new(left, &shown);
        for row in table.rows.iter().take(most) {
            let cells = columns.iter().filter_map(|&column| row.get(column));
            let texts = cells.map(|cell| match &cell.value {
                Value::Unknown(reason) => reasons.dash(reason.as_str()).plain(),
                _ => cell.text.clone(),
            });
            lines.push(texts.collect());
        }
        for (at, line) in lines.lines(self.width - 2).iter().enumerate() {
            let line = if at == 0 {
                self.paint.faint(line)
            } else {
                line.clone()
            };
            self.line(&format!("  {line}"));
        }
        let left_out = table.rows.len().saturating_sub(most);
        if left_out > 0 {
            self.faint(&format!(
                "… and {} more with --json",
                units::count(left_out as u64)
            ));
        }
        for (mark, reason) in reasons.notes() {
            self.faint(&format!("{mark} {}", reason.plain()));
        }
        self.faint(note(table.which));
    }
}
