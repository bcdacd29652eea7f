//! What the user chose to see: kind of rows, order, filter, selection. Keys change it.

use super::columns::Column;
use super::document::{TopDocument, TopRow};
use super::filter::Filter;

/// Number of ranks above which hosts are shown first.
const MANY_RANKS: usize = 64;

/// Key, independent of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, digit or sign.
    Char(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Ranks.
    Ranks,
    /// Hosts.
    Hosts,
}

/// What takes the place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The table.
    Table,
    /// All warnings with their evidence.
    Warnings,
    /// The keys.
    Help,
}

/// Choices of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Kind of rows; `None` for the choice by the number of ranks.
    pub rows_of: Option<RowsOf>,
    /// Column by which rows are sorted.
    pub sort: Column,
    /// True if the order is reversed.
    pub is_reversed: bool,
    /// Filter.
    pub filter: Filter,
    /// Text of the filter while it is typed.
    pub typed: Option<String>,
    /// Name of the selected row; `None` for the first row.
    pub selected: Option<String>,
    /// Part of the screen that replaces the table.
    pub panel: Panel,
    /// First line of the shown warnings.
    pub scrolled: usize,
    /// True while the screen keeps its figures.
    pub is_paused: bool,
    /// True once the user quits.
    pub is_over: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            rows_of: None,
            sort: Column::Caused,
            is_reversed: false,
            filter: Filter::default(),
            typed: None,
            selected: None,
            panel: Panel::Table,
            scrolled: 0,
            is_paused: false,
            is_over: false,
        }
    }
}

impl View {
    /// Returns the kind of rows that is shown. Of many ranks on several hosts, it is the hosts.
    pub fn rows_of(&self, document: &TopDocument) -> RowsOf {
        let are_many = document.ranks.len() > MANY_RANKS && document.hosts.len() > 1;
        self.rows_of
            .unwrap_or(if are_many { RowsOf::Hosts } else { RowsOf::Ranks })
    }

    /// Returns the shown rows, filtered and sorted.
    pub fn rows<'a>(&self, document: &'a TopDocument) -> Vec<&'a TopRow> {
        let all = match self.rows_of(document) {
            RowsOf::Ranks => &document.ranks,
            RowsOf::Hosts => &document.hosts,
        };
        let mut rows: Vec<&TopRow> = all.iter().filter(|row| self.filter.shows(row)).collect();
        // The sort is stable: rows with equal values stay in the order of their numbers.
        rows.sort_by(|one, other| self.sort.order(one, other));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// Returns the position of the selected row. A row that is not shown any more is replaced by the first one.
    pub fn position(&self, rows: &[&TopRow]) -> usize {
        let selected = self.selected.as_deref();
        selected
            .and_then(|name| rows.iter().position(|row| row.name == name))
            .unwrap_or(0)
    }

    /// Applies a key. `page` is the number of rows on the screen.
    pub fn press(&mut self, key: Key, document: Option<&TopDocument>, page: usize) {
        if key == Key::Interrupt {
            self.is_over = true;
        } else if self.typed.is_some() {
            self.type_filter(key);
        } else if self.panel == Panel::Help {
            self.panel = Panel::Table;
        } else {
            self.command(key, document, page.max(1));
        }
    }

    fn type_filter(&mut self, key: Key) {
        let Some(typed) = &mut self.typed else {
            return;
        };
        match key {
            Key::Char(letter) => typed.push(letter),
            Key::Backspace => {
                typed.pop();
            }
            Key::Enter => {
                self.filter = Filter::new(typed);
                self.typed = None;
                return;
            }
            Key::Escape => {
                self.filter = Filter::default();
                self.typed = None;
                return;
            }
            _ => {}
        }
        // The rows change while the user types.
        self.filter = Filter::new(self.typed.as_deref().unwrap_or_default());
    }

    fn command(&mut self, key: Key, document: Option<&TopDocument>, page: usize) {
        match key {
            Key::Char('q') => self.is_over = true,
            Key::Char('?') => self.panel = Panel::Help,
            Key::Char('w') => {
                self.scrolled = 0;
                self.panel = match self.panel {
                    Panel::Warnings => Panel::Table,
                    _ => Panel::Warnings,
                };
            }
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('s') => self.sort_by_next(1),
            Key::Char('S') => self.sort_by_next(Column::SORTABLE.len() - 1),
            Key::Char('/') => self.typed = Some(self.filter.text().to_owned()),
            Key::Char('h') => {
                if let Some(document) = document {
                    self.rows_of = Some(match self.rows_of(document) {
                        RowsOf::Ranks => RowsOf::Hosts,
                        RowsOf::Hosts => RowsOf::Ranks,
                    });
                    self.selected = None;
                }
            }
            Key::Enter => self.open_host(document),
            Key::Escape if self.panel == Panel::Warnings => self.panel = Panel::Table,
            Key::Escape => self.filter = Filter::default(),
            Key::Up => self.go(document, -1),
            Key::Down => self.go(document, 1),
            Key::PageUp => self.go(document, -(page as isize)),
            Key::PageDown => self.go(document, page as isize),
            Key::Home => self.go(document, isize::MIN / 2),
            Key::End => self.go(document, isize::MAX / 2),
            Key::Char(_) | Key::Backspace | Key::Interrupt => {}
        }
    }

    fn sort_by_next(&mut self, step: usize) {
        let columns = Column::SORTABLE;
        let at = columns.iter().position(|&column| column == self.sort);
        self.sort = columns[(at.unwrap_or(0) + step) % columns.len()];
        self.is_reversed = false;
    }

    /// Shows the ranks of the selected host.
    fn open_host(&mut self, document: Option<&TopDocument>) {
        let Some(document) = document.filter(|document| self.rows_of(document) == RowsOf::Hosts) else {
            return;
        };
        let rows = self.rows(document);
        if let Some(host) = rows.get(self.position(&rows)) {
            self.filter = Filter::new(&host.name);
            self.rows_of = Some(RowsOf::Ranks);
            self.selected = None;
        }
    }

    /// Moves the selection, or scrolls the warnings.
    fn go(&mut self, document: Option<&TopDocument>, by: isize) {
        if self.panel == Panel::Warnings {
            self.scrolled = self.scrolled.saturating_add_signed(by.clamp(-1000, 1000));
            return;
        }
        let Some(document) = document else {
            return;
        };
        let rows = self.rows(document);
        let at = self.position(&rows).saturating_add_signed(by);
        let row = rows.get(at.min(rows.len().saturating_sub(1)));
        self.selected = row.map(|row| row.name.clone());
    }
}
