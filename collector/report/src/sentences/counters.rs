//! Counters of the program.

use super::line::{Level, Line};
use crate::figures::{Shown, counted, mean, quoted, tiny};
use crate::prose::{Prose, prose};
use crate::source::{among, number};
use rankscope_formats::session::{CounterSource, CounterSummary, Session, counter_unit};
use std::collections::BTreeMap;

/// Maximum number of counters that are listed.
const MAX_LISTED: usize = 8;

/// A summary, and its position in the list of the session.
type Entry<'a> = (usize, &'a CounterSummary);

/// Returns the range of each counter over all ranks.
pub fn counters(session: &Session) -> Vec<Line> {
    let mut names: BTreeMap<&str, Vec<Entry<'_>>> = BTreeMap::new();
    for (at, counter) in session.counters.iter().enumerate() {
        if counter.source == CounterSource::Program && counter.mean.is_some() {
            names.entry(&counter.name).or_default().push((at, counter));
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let more = names.len().saturating_sub(MAX_LISTED);
    let each = names
        .iter()
        .take(MAX_LISTED)
        .filter_map(|(name, entries)| of_all_ranks(name, entries));
    let mut text = Prose::join(each, "; ");
    if more > 0 {
        text.push(format!("; and {more} more in the table counters"));
    }
    vec![Line::new(Level::Plain, text)]
}

fn of_all_ranks(name: &str, entries: &[Entry<'_>]) -> Option<Prose> {
    let lowest = entries
        .iter()
        .min_by(|one, other| of(one.1.min).total_cmp(&of(other.1.min)))?;
    let highest = entries
        .iter()
        .max_by(|one, other| of(one.1.max).total_cmp(&of(other.1.max)))?;
    let shown = |value: Option<f64>, at: usize, field: &str| -> Shown {
        let (value, from) = (of(value), format!("/counters/{at}/{field}"));
        let unit = counter_unit(name);
        // A learning rate would be shown as 0.000.
        if unit == "count" && value != 0.0 && value.abs() < 1e-3 {
            tiny(value, from)
        } else {
            mean(value, unit, from)
        }
    };
    let first = entries.first()?.0;
    let positions = entries.iter().map(|entry| entry.0);
    let ranks = counted(
        entries.len() as u64,
        "rank",
        number(among("/counters", positions, "/rank")),
    );
    Some(prose![
        quoted(name, format!("/counters/{first}/name")),
        " from ",
        shown(lowest.1.min, lowest.0, "min"),
        " to ",
        shown(highest.1.max, highest.0, "max"),
        " on ",
        ranks
    ])
}

fn of(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}
