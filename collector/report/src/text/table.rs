//! Table for a terminal: columns as wide as their content, numbers aligned to the right.

/// Rows of cells with headings.
#[derive(Debug)]
pub struct TextTable {
    headings: Vec<&'static str>,
    /// Number of columns aligned to the left.
    left: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table. The first `left` columns are text and the others numbers.
    pub fn new(left: usize, headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            left,
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines, headings first. Columns that exceed `width` are left out from the right.
    pub fn lines(&self, width: usize) -> Vec<String> {
        const GAP: usize = 2;
        let mut columns = self.headings.len();
        let widths: Vec<usize> = (0..columns).map(|column| self.column_width(column)).collect();
        // Empty columns are left out.
        let shown = |column: usize| widths[column] > 0;
        while columns > self.left + 1 && total(&widths[..columns], GAP) > width {
            columns -= 1;
        }
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut line = String::new();
            for column in (0..columns).filter(|&column| shown(column)) {
                let cell = cells(column);
                let pad = widths[column].saturating_sub(cell.chars().count());
                let gap = if line.is_empty() { 0 } else { GAP };
                if column < self.left {
                    line.push_str(&format!("{:gap$}{cell}{:pad$}", "", ""));
                } else {
                    line.push_str(&format!("{:gap$}{:pad$}{cell}", "", ""));
                }
            }
            line.trim_end().to_owned()
        };
        let mut lines = vec![line(&|column| self.headings[column].to_owned())];
        lines.extend(
            self.rows
                .iter()
                .map(|row| line(&|column| row.get(column).cloned().unwrap_or_default())),
        );
        lines
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        if widest == 0 {
            0
        } else {
            widest.max(self.headings[column].chars().count())
        }
    }
}

fn total(widths: &[usize], gap: usize) -> usize {
    let shown = widths.iter().filter(|&&width| width > 0);
    shown.map(|width| width + gap).sum::<usize>().saturating_sub(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_left_numbers_right_and_no_wider_than_asked() {
        let mut table = TextTable::new(1, &["rank", "wait", "note"]);
        table.push(vec!["rank 0".into(), "1 ms".into(), "first".into()]);
        table.push(vec!["rank 10".into(), "–¹".into()]);
        assert_eq!(
            table.lines(80),
            ["rank     wait   note", "rank 0   1 ms  first", "rank 10    –¹"]
        );
        assert_eq!(
            table.lines(15),
            ["rank     wait", "rank 0   1 ms", "rank 10    –¹"]
        );
    }
}
