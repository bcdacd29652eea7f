//! The order of rows. It is computed once per choice of a column, not in every frame.

use super::summed::Summed;
use super::table_rows::{Rows, Target};
use rankscope_report::selection_rows::{Cell, Heading, SelectionTable, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sort order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Position of the column.
    pub column: usize,
    /// Whether the largest value is first.
    pub is_descending: bool,
}

impl Sort {
    /// Returns the order after a click on a heading. Numbers start with the largest, words with the first; another
    /// click reverses the order.
    pub fn after_click(before: Option<Self>, column: usize, is_number: bool) -> Self {
        let is_descending = match before {
            Some(before) if before.column == column => !before.is_descending,
            _ => is_number,
        };
        Self {
            column,
            is_descending,
        }
    }
}

/// A cached order of the rows of one selection.
#[derive(Default)]
pub struct Order {
    of: Option<(Arc<Summed>, Option<Sort>)>,
    rows: Arc<[u32]>,
}

impl Order {
    /// Returns the positions of the rows in the requested order, or in the library's order without a request.
    pub fn of(&mut self, summed: &Arc<Summed>, rows: &Rows, sort: Option<Sort>) -> Arc<[u32]> {
        let is_known = self
            .of
            .as_ref()
            .is_some_and(|(of, by)| Arc::ptr_eq(of, summed) && *by == sort);
        if !is_known {
            self.rows = order_of(rows, sort).into();
            self.of = Some((summed.clone(), sort));
        }
        self.rows.clone()
    }
}

/// Returns the sorted positions, as the library sorts: unknown values are last in both directions.
pub fn order_of(rows: &Rows, sort: Option<Sort>) -> Vec<u32> {
    let count = rows.table.rows.len() as u32;
    let Some(sort) = sort.filter(|sort| sort.column < rows.table.headings.len()) else {
        return (0..count).collect();
    };
    let places = places_of_words(rows, sort.column);
    let cell = |value: Value| Cell {
        text: String::new(),
        value,
    };
    let heading = |name| Heading {
        shown: "",
        name,
        is_number: true,
        is_detail: false,
    };
    let mut table = SelectionTable {
        which: rows.table.which,
        headings: vec![heading("key"), heading("row")],
        rows: (0..count)
            .map(|row| {
                let key = key_of(rows, row as usize, sort.column, &places);
                vec![cell(key), cell(Value::Whole(i64::from(row)))]
            })
            .collect(),
        reason: None,
    };
    table.sort_by(0, sort.is_descending);
    let numbers = table.rows.iter().filter_map(|row| match row.get(1)?.value {
        Value::Whole(row) => u32::try_from(row).ok(),
        _ => None,
    });
    numbers.collect()
}

/// Returns the sort key of a row: words by their place among all words of the column, ranks by their position in
/// the session.
fn key_of(rows: &Rows, row: usize, column: usize, places: &[&str]) -> Value {
    let Some(cell) = rows.cell(row, column) else {
        return Value::Unknown(String::new());
    };
    let of_rank = match rows.targets.get(row) {
        Some(Target::Rank(rank) | Target::Stall { rank, .. }) if column == 0 => Some(*rank),
        _ => None,
    };
    match (&cell.value, of_rank) {
        (Value::Words(_), Some(rank)) => Value::Whole(i64::from(rank.0)),
        (Value::Words(words), None) => {
            let place = places.binary_search_by(|place| compare(place, words));
            Value::Whole(place.unwrap_or_else(|place| place) as i64)
        }
        (value, _) => value.clone(),
    }
}

/// Returns the distinct words of a column in natural order.
fn places_of_words(rows: &Rows, column: usize) -> Vec<&str> {
    let words = rows
        .table
        .rows
        .iter()
        .filter_map(|row| match &row.get(column)?.value {
            Value::Words(words) => Some(words.as_str()),
            _ => None,
        });
    let mut places: Vec<&str> = words.collect::<BTreeSet<_>>().into_iter().collect();
    places.sort_by(|one, other| compare(one, other));
    places
}

/// Compares words in natural order: numbers inside them by value, so 2 is before 10.
fn compare(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one.chars().peekable(), other.chars().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return one.cmp(other),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                number(&mut a).cmp(&number(&mut b))
            }
            (Some(x), Some(y)) => {
                let order = x.cmp(y);
                a.next();
                b.next();
                order
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn number(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> u128 {
    let mut value = 0u128;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        value = value.saturating_mul(10).saturating_add(u128::from(digit));
        letters.next();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::roll_up::By;
    use super::super::table_rows::{Shape, tests::selection};
    use super::*;
    use proptest::prelude::*;
    use rankscope_report::selection_rows::Which;

    fn rows(which: Which) -> Rows {
        let (selection, session) = selection();
        Rows::new(&selection, &session, Shape { which, by: By::Rank }).expect("of ranks")
    }

    proptest! {
        #[test]
        fn texts_have_a_total_order(a in "[a-c0-9 ]{0,6}", b in "[a-c0-9 ]{0,6}", c in "[a-c0-9 ]{0,6}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b).is_eq(), a == b);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }

    #[test]
    fn every_column_of_every_table_can_be_sorted_by() {
        for which in Which::ALL {
            let rows = rows(which);
            for column in 0..rows.table.headings.len() {
                for is_descending in [false, true] {
                    let order = order_of(
                        &rows,
                        Some(Sort {
                            column,
                            is_descending,
                        }),
                    );
                    let all: BTreeSet<u32> = order.iter().copied().collect();
                    assert_eq!(all.len(), rows.table.rows.len(), "each row once");
                    let cells: Vec<&Value> = order
                        .iter()
                        .map(|&row| &rows.cell(row as usize, column).expect("a cell").value)
                        .collect();
                    let first_unknown = cells.iter().position(|value| matches!(value, Value::Unknown(_)));
                    if let Some(first) = first_unknown {
                        assert!(
                            cells[first..]
                                .iter()
                                .all(|value| matches!(value, Value::Unknown(_)))
                        );
                    }
                    for pair in cells.windows(2) {
                        if let (Value::Whole(one), Value::Whole(other)) = (pair[0], pair[1]) {
                            assert!(if is_descending { one >= other } else { one <= other });
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ranks_are_sorted_by_number() {
        assert!(compare("rank 2", "rank 10").is_lt());
        assert!(compare("stage 1 of 12", "stage 1 of 2").is_gt());
        let first = Sort::after_click(None, 3, true);
        assert!(first.is_descending);
        assert!(!Sort::after_click(Some(first), 3, true).is_descending);
        assert!(!Sort::after_click(Some(first), 0, false).is_descending);
    }
}
