//! Filter of the rows: a part of a name, or numbers of ranks.

use super::document::TopRow;

/// Which rows are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
}

impl Filter {
    /// Creates a filter from its text. Numbers and ranges such as `0-63,128` select ranks; other text selects rows with
    /// this text in the name, the host or the state. An empty text selects all rows.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.trim().to_owned(),
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether all rows are shown.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns whether a row is shown. A host is shown if one of its ranks has such a number.
    pub fn shows(&self, row: &TopRow) -> bool {
        if self.is_empty() {
            return true;
        }
        match ranges(&self.text) {
            Some(ranges) => {
                let is_in = |number: &u32| ranges.iter().any(|range| range.contains(number));
                row.rank_numbers.iter().any(is_in)
            }
            None => {
                let wanted = self.text.to_lowercase();
                let texts = [row.name.as_str(), row.state.name()];
                let mut texts = texts.into_iter().chain(row.host.as_deref());
                texts.any(|text| text.to_lowercase().contains(&wanted))
            }
        }
    }
}

/// Returns the ranges of a list such as `0-63,128`; `None` if the text is not such a list.
fn ranges(text: &str) -> Option<Vec<std::ops::RangeInclusive<u32>>> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    text.split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(number(first)?..=number(last)?)
        })
        .collect()
}
