//! Columns of the table: titles, cells and order.

use super::document::TopRow;
use rankscope_analysis::model::units;
use rankscope_formats::session::{Figure, Ratio};
use std::cmp::Ordering;

/// Text of a figure without a value.
pub const DASH: &str = "–";

/// Column of the table of ranks or hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Name of the rank or host.
    Name,
    /// State of the process, or number of running processes.
    State,
    /// Exposed waiting caused on other ranks.
    Caused,
    /// Share of launches in which the rank arrived last.
    Last,
    /// Share of exposed wait.
    Wait,
    /// Share of exposed communication.
    Exposed,
    /// Operations per second.
    Operations,
    /// Resident memory.
    Memory,
    /// Busy processors.
    Processors,
    /// Time of the longest operation in progress.
    InCall,
    /// Host of the rank.
    Host,
    /// Utilization of the GPUs.
    Gpu,
    /// Memory that is left on the host.
    Available,
    /// Traffic of the busiest interface.
    Network,
}

/// Width of a column that is as wide as its longest cell, within this limit.
const MAX_TEXT: usize = 24;

impl Column {
    /// Columns by which rows can be sorted, in the order in which the key `s` selects them.
    pub const SORTABLE: [Self; 9] = [
        Self::Caused,
        Self::Last,
        Self::Wait,
        Self::Exposed,
        Self::Operations,
        Self::Memory,
        Self::Processors,
        Self::InCall,
        Self::Name,
    ];

    /// All columns, in the order in which they are added while there is room. The first ones are always shown.
    pub const BY_IMPORTANCE: [Self; 14] = [
        Self::Name,
        Self::State,
        Self::Caused,
        Self::Last,
        Self::Wait,
        Self::Exposed,
        Self::Operations,
        Self::InCall,
        Self::Memory,
        Self::Processors,
        Self::Host,
        Self::Gpu,
        Self::Available,
        Self::Network,
    ];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::State => "STATE",
            Self::Caused => "CAUSED",
            Self::Last => "LAST",
            Self::Wait => "WAIT",
            Self::Exposed => "EXPOSED",
            Self::Operations => "OPS/S",
            Self::Memory => "MEMORY",
            Self::Processors => "CPU",
            Self::InCall => "IN CALL",
            Self::Host => "HOST",
            Self::Gpu => "GPU",
            Self::Available => "LEFT",
            Self::Network => "NETWORK",
        }
    }

    /// Returns the name in the heading of the table and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::State => "state",
            Self::Caused => "caused",
            Self::Last => "last",
            Self::Wait => "wait",
            Self::Exposed => "exposed",
            Self::Operations => "ops",
            Self::Memory => "memory",
            Self::Processors => "cpu",
            Self::InCall => "call",
            Self::Host => "host",
            Self::Gpu => "gpu",
            Self::Available => "left",
            Self::Network => "network",
        }
    }

    /// Returns whether the column has text, which begins at its left edge. Numbers end at the right edge.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::State | Self::Host | Self::Network)
    }

    /// Returns whether rows can have a value in this column. Hosts have no host.
    pub fn is_of(self, is_host: bool) -> bool {
        match self {
            Self::Host => !is_host,
            Self::Available | Self::Network => is_host,
            _ => true,
        }
    }

    /// Returns the width of the column over these rows.
    pub fn width(self, rows: &[&TopRow]) -> usize {
        let cells = rows.iter().map(|row| self.cell(row).chars().count());
        // One more for the mark of the sorted column.
        let title = self.title().chars().count() + 1;
        cells.max().unwrap_or(0).min(MAX_TEXT).max(title)
    }

    /// Returns the text of a row.
    pub fn cell(self, row: &TopRow) -> String {
        match self {
            Self::Name => row.name.clone(),
            Self::State if row.host.is_some() => row.state.name().to_owned(),
            Self::State => format!("{}/{} run", row.running, row.ranks),
            Self::Caused => units::rank_time(row.caused_exposed_rank_ns),
            Self::Last => share(&row.last_arrivals),
            Self::Wait => share(&row.exposed_wait),
            Self::Exposed => share(&row.exposed_communication),
            Self::Operations => figure(&row.operations_per_s, |&value| units::mean_count(value)),
            Self::Memory => figure(&row.resident_memory_bytes, |&value| units::bytes_f(value)),
            Self::Processors => figure(&row.processors, |&value| units::digits(value)),
            Self::InCall => long_call_ns(row).map_or_else(String::new, units::time),
            Self::Host => row.host.clone().unwrap_or_default(),
            Self::Gpu => figure(&row.gpu_utilization_percent, |&value| {
                units::counter_value(value, "%")
            }),
            Self::Available => figure(&row.available_memory_bytes, |&value| units::bytes_f(value)),
            Self::Network => figure(&row.busiest_link, |link| {
                format!(
                    "{} ↓{} ↑{}",
                    link.name,
                    units::rate(link.received_bytes_per_s.round()),
                    units::rate(link.sent_bytes_per_s.round())
                )
            }),
        }
    }

    /// Returns the reason why a row has no value in this column.
    pub fn reason(self, row: &TopRow) -> Option<&str> {
        match self {
            Self::Last => row.last_arrivals.get().err(),
            Self::Wait => row.exposed_wait.get().err(),
            Self::Exposed => row.exposed_communication.get().err(),
            Self::Operations => row.operations_per_s.get().err(),
            Self::Memory => row.resident_memory_bytes.get().err(),
            Self::Processors => row.processors.get().err(),
            Self::Gpu => row.gpu_utilization_percent.get().err(),
            Self::Available => row.available_memory_bytes.get().err(),
            Self::Network => row.busiest_link.get().err(),
            _ => None,
        }
    }

    /// Compares two rows: the largest value first, names in ascending order, rows without a value last.
    pub fn order(self, one: &TopRow, other: &TopRow) -> Ordering {
        let value = |row: &TopRow| -> Option<f64> {
            let share = |figure: &Figure<Ratio>| figure.value.map(Ratio::share);
            match self {
                Self::Caused => Some(row.caused_exposed_rank_ns as f64),
                Self::Last => share(&row.last_arrivals),
                Self::Wait => share(&row.exposed_wait),
                Self::Exposed => share(&row.exposed_communication),
                Self::Operations => row.operations_per_s.value,
                Self::Memory => row.resident_memory_bytes.value,
                Self::Processors => row.processors.value,
                Self::InCall => row.in_call_for_ns.map(|ns| ns as f64),
                Self::Gpu => row.gpu_utilization_percent.value,
                Self::Available => row.available_memory_bytes.value,
                Self::Network => row
                    .busiest_link
                    .value
                    .as_ref()
                    .map(|link| link.received_bytes_per_s + link.sent_bytes_per_s),
                Self::Name | Self::State | Self::Host => None,
            }
        };
        match self {
            Self::State => one.state.cmp(&other.state),
            Self::Host => one.host.cmp(&other.host),
            Self::Name => Ordering::Equal,
            _ => match (value(one), value(other)) {
                (Some(one), Some(other)) => other.total_cmp(&one),
                (one, other) => one.is_none().cmp(&other.is_none()),
            },
        }
    }
}

impl std::str::FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::SORTABLE.into_iter().find(|column| column.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::SORTABLE.iter().map(|column| column.name()).collect();
            format!("'{text}' is not a column; choose one of {}", names.join(", "))
        })
    }
}

/// Duration from which an operation in progress is shown. The time of shorter ones is mostly that of the reading.
const LONG_CALL_NS: i64 = 1_000_000_000;

/// Returns the duration of the operation in progress for the longest time, in nanoseconds, if it is long.
pub fn long_call_ns(row: &TopRow) -> Option<i64> {
    row.in_call_for_ns.filter(|&ns| ns >= LONG_CALL_NS)
}

/// Returns the text of a figure, or a dash.
pub fn figure<T>(figure: &Figure<T>, show: impl FnOnce(&T) -> String) -> String {
    figure.value.as_ref().map_or_else(|| DASH.to_owned(), show)
}

/// Returns the text of a share, or a dash.
pub fn share(ratio: &Figure<Ratio>) -> String {
    figure(ratio, |ratio| units::percent(ratio.share()))
}
