//! Rows of a panel: those of the library or sums of them, with the target of each row and the widths of the columns.

use super::roll_up::{By, Groups};
use super::stacked_bar::Bar;
use crate::model::moment_text;
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Figure, Parts, Selection, Session};
use rankscope_report::selection_rows::{Cell, Heading, SelectionTable, Value, Which, table_of};

/// Displayed precision of the starts of stalls, in nanoseconds.
const MOMENT_NS: i64 = 10_000;

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Table of the library.
    pub which: Which,
    /// Grouping of ranks; [`By::Rank`] for tables that are not about ranks.
    pub by: By,
}

impl Shape {
    /// Number of shapes, including those that no panel shows.
    pub const COUNT: usize = Which::ALL.len() * By::ALL.len();

    /// Returns all shapes.
    pub fn all() -> impl Iterator<Item = Self> {
        Which::ALL
            .into_iter()
            .flat_map(|which| By::ALL.map(|by| Self { which, by }))
    }

    /// Returns the position in [`Self::all`].
    pub fn index(self) -> usize {
        let which = Which::ALL.iter().position(|which| *which == self.which);
        which.unwrap_or(0) * By::ALL.len() + self.by.index()
    }

    /// Returns the name for file names.
    pub fn name(self) -> String {
        let which = match self.which {
            Which::Parts => "time",
            Which::Operations => "operations",
            Which::StallCauses => "stall-causes",
            Which::Stalls => "stalls",
            Which::Lateness => "lateness",
            Which::Counters => "counters",
        };
        match self.by {
            By::Rank => which.to_owned(),
            by => format!("{which}-by-{}", by.name()),
        }
    }
}

/// Target of a click on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// No target.
    Nothing,
    /// A rank.
    Rank(RankIndex),
    /// A time range of a rank, in nanoseconds on the axis.
    Stall {
        /// The rank.
        rank: RankIndex,
        /// Start of the stall.
        from_ns: i64,
        /// End of the stall.
        to_ns: i64,
    },
    /// A class: its position among the operations of the selection.
    Class(usize),
}

/// Width of a column, in characters of a monospaced font.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Letters {
    /// Total width.
    pub all: usize,
    /// Width of the longest unit and the space before it. Cells are padded to it, so that the digits are aligned.
    pub unit: usize,
}

/// Rows of one shape.
pub struct Rows {
    /// Rows as the library returns them, for copying and sorting.
    pub table: SelectionTable,
    /// Target of each row.
    pub targets: Vec<Target>,
    /// Bar of each row. `None` for other shapes than breakdowns, and for unknown figures.
    pub bars: Vec<Option<Bar>>,
    /// Width of each column.
    pub letters: Vec<Letters>,
    /// Columns to show by default: all but details that are equal in all rows.
    pub informative: Vec<usize>,
}

impl Rows {
    /// Creates the rows of a selection. `None` if the shape does not exist.
    pub fn new(selection: &Selection, session: &Session, shape: Shape) -> Option<Self> {
        if shape.by == By::Rank {
            return Some(Self::of_library(selection, session, shape.which));
        }
        let groups = Groups::new(session, shape.by)?;
        match shape.which {
            Which::Parts => Some(Self::of_parts(&groups, selection, session, shape.by)),
            Which::Lateness => Some(Self::of_lateness(&groups, selection, session, shape.by)),
            Which::Operations | Which::StallCauses | Which::Stalls | Which::Counters => None,
        }
    }

    fn of_library(selection: &Selection, session: &Session, which: Which) -> Self {
        let mut table = table_of(selection, session, which);
        let stalls = selection.stalls.value.iter().flat_map(|stalls| &stalls.longest);
        let targets = match which {
            Which::Parts => selection
                .parts
                .iter()
                .map(|entry| Target::Rank(RankIndex(entry.rank)))
                .collect(),
            Which::Lateness => {
                let ranks = selection.lateness.iter();
                ranks.map(|entry| Target::Rank(RankIndex(entry.rank))).collect()
            }
            Which::Counters => {
                let counters = selection.counters.iter();
                counters
                    .map(|entry| Target::Rank(RankIndex(entry.rank)))
                    .collect()
            }
            Which::Operations => (0..selection.operations.len()).map(Target::Class).collect(),
            Which::Stalls => stalls
                .map(|stall| Target::Stall {
                    rank: RankIndex(stall.rank),
                    from_ns: stall.start_ns,
                    to_ns: stall.end_ns,
                })
                .collect(),
            Which::StallCauses => Vec::new(),
        };
        let bar = |figure: &Figure<Parts>| figure.value.as_ref().map(|parts| Bar::new(parts, false));
        let bars = match which {
            Which::Parts => selection.parts.iter().map(|entry| bar(&entry.parts)).collect(),
            _ => Vec::new(),
        };
        if which == Which::Stalls {
            refine_start_times(&mut table);
        }
        Self::with(table, targets, bars)
    }

    fn of_parts(groups: &Groups, selection: &Selection, session: &Session, by: By) -> Self {
        let sums = groups.parts(selection, session);
        let headings = [
            heading(by.name(), "group", false),
            heading("of", "level", false),
            heading("ranks", "ranks", true),
            heading("recorded, Σ", "window_rank_ns", true),
            heading("own, Σ", "own_rank_ns", true),
            heading("overlapped, Σ", "overlapped_rank_ns", true),
            heading("transfer, Σ", "exposed_transfer_rank_ns", true),
            heading("waiting, Σ", "exposed_wait_rank_ns", true),
            heading("memory, Σ", "exposed_memory_rank_ns", true),
            heading("idle, Σ", "idle_rank_ns", true),
            heading("other blocked, Σ", "other_blocked_rank_ns", true),
        ];
        let rows = sums.iter().map(|sum| {
            let head = [
                words(&groups.names[sum.group]),
                words(&sum.level),
                count(sum.ranks),
            ];
            let times = match sum.parts.get() {
                Ok(parts) => vec![
                    rank_time(parts.window_ns),
                    rank_time(parts.own_ns),
                    rank_time(parts.overlapped_ns),
                    rank_time(parts.exposed_transfer_ns),
                    figure(&parts.exposed_wait_ns),
                    figure(&parts.exposed_memory_ns),
                    figure(&parts.idle_ns),
                    figure(&parts.other_blocked_ns),
                ],
                Err(reason) => vec![unknown(reason); headings.len() - head.len()],
            };
            head.into_iter().chain(times).collect()
        });
        let bars = sums
            .iter()
            .map(|sum| sum.parts.value.as_ref().map(|parts| Bar::new(parts, true)));
        let table = SelectionTable {
            which: Which::Parts,
            headings: headings.to_vec(),
            rows: rows.collect(),
            reason: None,
        };
        Self::with(table, Vec::new(), bars.collect())
    }

    fn of_lateness(groups: &Groups, selection: &Selection, session: &Session, by: By) -> Self {
        let headings = vec![
            heading(by.name(), "group", false),
            heading("ranks", "ranks", true),
            heading("last in", "last_arrivals", true),
            heading(
                "waiting where it was last, Σ",
                "exposed_wait_where_last_rank_ns",
                true,
            ),
            heading("waited itself, Σ", "exposed_wait_rank_ns", true),
        ];
        let rows = groups.lateness(selection, session).into_iter().map(|sum| {
            vec![
                words(&groups.names[sum.group]),
                count(sum.ranks),
                count(sum.last_arrivals),
                rank_time(sum.exposed_wait_where_last_rank_ns),
                figure(&sum.exposed_wait_rank_ns),
            ]
        });
        let table = SelectionTable {
            which: Which::Lateness,
            headings,
            rows: rows.collect(),
            reason: None,
        };
        Self::with(table, Vec::new(), Vec::new())
    }

    fn with(table: SelectionTable, mut targets: Vec<Target>, mut bars: Vec<Option<Bar>>) -> Self {
        targets.resize(table.rows.len(), Target::Nothing);
        bars.resize(table.rows.len(), None);
        let columns = 0..table.headings.len();
        let letters = columns.clone().map(|column| letters_of(&table, column)).collect();
        let informative = columns.filter(|column| table.is_informative(*column)).collect();
        Self {
            table,
            targets,
            bars,
            letters,
            informative,
        }
    }

    /// Returns the text of a cell for drawing. Numbers are padded to the longest unit of the column.
    pub fn padded(&self, row: usize, column: usize) -> String {
        let Some(cell) = self.cell(row, column) else {
            return String::new();
        };
        let pad = match self.letters.get(column) {
            Some(letters) => letters.unit.saturating_sub(unit_of(&cell.text)),
            None => 0,
        };
        format!("{}{:pad$}", cell.text, "")
    }

    /// Returns a cell.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.table.rows.get(row)?.get(column)
    }

    /// Returns the text of a row for screen readers.
    pub fn words(&self, row: usize) -> String {
        let Some(cells) = self.table.rows.get(row) else {
            return String::new();
        };
        let texts = self.table.headings.iter().zip(cells).map(|(heading, cell)| {
            if heading.is_number {
                format!("{} {}", heading.shown, cell.text)
            } else {
                cell.text.clone()
            }
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the rows in an order as a separate table, for copying and saving.
    pub fn in_order(&self, order: &[u32]) -> SelectionTable {
        let rows = order.iter().filter_map(|&row| self.table.rows.get(row as usize));
        SelectionTable {
            which: self.table.which,
            headings: self.table.headings.clone(),
            rows: rows.cloned().collect(),
            reason: self.table.reason.clone(),
        }
    }
}

/// Shows the starts of stalls with more digits. Three digits of a second would not distinguish neighbours.
fn refine_start_times(table: &mut SelectionTable) {
    let Some(column) = table
        .headings
        .iter()
        .position(|heading| heading.name == "start_ns")
    else {
        return;
    };
    for cell in table.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        if let Value::Whole(ns) = cell.value {
            cell.text = moment_text(ns, MOMENT_NS);
        }
    }
}

/// Returns the number of characters of the unit at the end of a text, including the space before it.
fn unit_of(text: &str) -> usize {
    text.rsplit_once(' ')
        .map_or(0, |(_, unit)| unit.chars().count() + 1)
}

fn letters_of(table: &SelectionTable, column: usize) -> Letters {
    let cells = || table.rows.iter().filter_map(|row| row.get(column));
    if !table
        .headings
        .get(column)
        .is_some_and(|heading| heading.is_number)
    {
        let all = cells().map(|cell| cell.text.chars().count()).max();
        return Letters {
            all: all.unwrap_or(0),
            unit: 0,
        };
    }
    let unit = cells().map(|cell| unit_of(&cell.text)).max().unwrap_or(0);
    let digits = cells().map(|cell| cell.text.chars().count() - unit_of(&cell.text));
    Letters {
        all: digits.max().unwrap_or(0) + unit,
        unit,
    }
}

fn heading(shown: &'static str, name: &'static str, is_number: bool) -> Heading {
    Heading {
        shown,
        name,
        is_number,
        is_detail: false,
    }
}

fn words(text: &str) -> Cell {
    Cell {
        text: text.to_owned(),
        value: Value::Words(text.to_owned()),
    }
}

fn count(count: u64) -> Cell {
    Cell {
        text: units::count(count),
        value: Value::Whole(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

fn rank_time(ns: i64) -> Cell {
    Cell {
        text: units::rank_time(ns),
        value: Value::Whole(ns),
    }
}

fn unknown(reason: &str) -> Cell {
    Cell {
        text: "–".to_owned(),
        value: Value::Unknown(reason.to_owned()),
    }
}

fn figure(figure: &Figure<i64>) -> Cell {
    match figure.get() {
        Ok(&ns) => rank_time(ns),
        Err(reason) => unknown(reason),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::panels::selection::tests::made_selection;

    pub fn selection() -> (Selection, Session) {
        made_selection()
    }

    #[test]
    fn digits_are_aligned() {
        let cell = |text: &str| Cell {
            text: text.to_owned(),
            value: Value::Unknown(String::new()),
        };
        let table = SelectionTable {
            which: Which::Parts,
            headings: vec![heading("own", "own_ns", true)],
            rows: ["1.25 ms", "12.5 s", "0", "–"]
                .map(|text| vec![cell(text)])
                .into(),
            reason: None,
        };
        let rows = Rows::with(table, Vec::new(), Vec::new());
        let padded: Vec<String> = (0..4).map(|row| rows.padded(row, 0)).collect();
        assert_eq!(padded, ["1.25 ms", "12.5 s ", "0   ", "–   "]);
        assert_eq!(rows.letters[0], Letters { all: 7, unit: 3 });
    }

    #[test]
    fn every_row_has_a_target_and_every_shape_an_index() {
        let (selection, session) = selection();
        for (at, shape) in Shape::all().enumerate() {
            assert_eq!(shape.index(), at);
            if let Some(rows) = Rows::new(&selection, &session, shape) {
                assert_eq!(rows.targets.len(), rows.table.rows.len());
                assert_eq!(rows.bars.len(), rows.table.rows.len());
            }
        }
        assert_eq!(Shape::all().count(), Shape::COUNT);
    }
}
