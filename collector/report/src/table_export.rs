//! Export of a selection's rows: CSV for programs, with values in the units of the headings, and Markdown as displayed.

use super::selection_rows::{Cell, SelectionTable, Value};

/// Formats as CSV (RFC 4180, lines end in CRLF). A cell with an unknown value is empty.
pub fn csv(table: &SelectionTable) -> Result<String, csv::Error> {
    let mut out = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    out.write_record(table.headings.iter().map(|heading| heading.name))?;
    for row in &table.rows {
        out.write_record(row.iter().map(|cell| match &cell.value {
            Value::Unknown(_) => String::new(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Words(words) => words.clone(),
        }))?;
    }
    let bytes = out.into_inner().map_err(|error| error.into_error())?;
    // Only strings were written.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats as a Markdown table (GitHub's). The reasons for unknown values are listed below, each once.
pub fn markdown(table: &SelectionTable) -> String {
    let mut out = String::new();
    let mut line = |cells: Vec<String>| {
        out.push_str("| ");
        out.push_str(&cells.join(" | "));
        out.push_str(" |\n");
    };
    let headings = &table.headings;
    line(headings.iter().map(|heading| escaped(heading.shown)).collect());
    let rule = |is_number| if is_number { "---:" } else { "---" }.to_owned();
    line(headings.iter().map(|heading| rule(heading.is_number)).collect());
    for row in &table.rows {
        line(row.iter().map(|cell| escaped(&cell.text)).collect());
    }
    let mut reasons: Vec<&str> = Vec::new();
    let unknown = table.rows.iter().flatten().filter_map(reason);
    for reason in table.reason.as_deref().into_iter().chain(unknown) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        out.push_str(&format!("\n–: {}\n", escaped(&reasons.join("; "))));
    }
    out
}

fn reason(cell: &Cell) -> Option<&str> {
    match &cell.value {
        Value::Unknown(reason) => Some(reason),
        _ => None,
    }
}

/// Escapes characters that would end a cell or start other markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '_' | '<' | '[' => out.extend(['\\', letter]),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::selection_rows::{Heading, Which};
    use super::*;

    fn table() -> SelectionTable {
        let heading = |shown, name, is_number| Heading {
            shown,
            name,
            is_number,
            is_detail: false,
        };
        let cell = |text: &str, value| Cell {
            text: text.into(),
            value,
        };
        SelectionTable {
            which: Which::Parts,
            headings: vec![heading("rank", "rank", false), heading("own", "own_ns", true)],
            rows: vec![
                vec![
                    cell("a|b, \"c\"", Value::Words("a|b, \"c\"".into())),
                    cell("1.50 ms", Value::Whole(1_500_000)),
                ],
                vec![
                    cell("rank 1", Value::Words("rank 1".into())),
                    cell("–", Value::Unknown("no log".into())),
                ],
            ],
            reason: None,
        }
    }

    #[test]
    fn csv_has_values_and_markdown_has_the_shown_text() {
        assert_eq!(
            csv(&table()).expect("as it can be written"),
            "rank,own_ns\r\n\"a|b, \"\"c\"\"\",1500000\r\nrank 1,\r\n"
        );
        assert_eq!(
            markdown(&table()),
            "| rank | own |\n| --- | ---: |\n| a\\|b, \"c\" | 1.50 ms |\n| rank 1 | – |\n\n–: no log\n"
        );
    }
}
