//! Counters in the window, from the index.

use super::parallel::stop_if;
use super::request::{SelectError, SelectionRequest};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{Counter, ViewFile};
use rankscope_formats::session::{CounterFigures, Figure, SelectedCounter, Session};
use std::sync::Arc;

/// Returns the counters of the selected ranks by rank and name, first those of the program.
pub fn counters(
    session: &Session,
    view: &dyn Fn(RankIndex) -> Option<Arc<ViewFile>>,
    request: &SelectionRequest<'_>,
) -> Result<Vec<SelectedCounter>, SelectError> {
    let mut out: Vec<SelectedCounter> = Vec::new();
    // All counters of a rank follow each other.
    let mut open: Option<(u32, Option<Arc<ViewFile>>)> = None;
    let selected = session.counters.iter();
    for counter in selected.filter(|counter| request.has(RankIndex(counter.rank))) {
        let (rank, name) = (counter.rank, counter.name.as_str());
        if out
            .last()
            .is_some_and(|last| (last.rank, last.name.as_str()) == (rank, name))
        {
            continue;
        }
        let (_, view) = match &mut open {
            Some(of) if of.0 == rank => of,
            other => {
                stop_if(request.cancelled)?;
                other.insert((rank, view(RankIndex(rank))))
            }
        };
        let figures = match view {
            None => Figure::unknown("the viewer's index of this rank cannot be read"),
            Some(view) => match view.counter_named(name) {
                None => Figure::unknown("the table counters has no sample of it"),
                Some(counter) => figures(&counter, request.window),
            },
        };
        out.push(SelectedCounter {
            rank,
            name: name.to_owned(),
            figures,
        });
    }
    let of_system = session.system_counters();
    out.sort_by_key(|counter| of_system.contains(counter.name.as_str()));
    Ok(out)
}

fn figures(counter: &Counter<'_>, (from_ns, to_ns): (i64, i64)) -> Figure<CounterFigures> {
    let (before, after) = (counter.samples_before(from_ns), counter.samples_before(to_ns));
    let samples = after.saturating_sub(before);
    let first = counter
        .held_at(from_ns)
        .or_else(|| counter.sample(before).filter(|_| samples > 0));
    let Some(first) = first.filter(|_| from_ns < to_ns) else {
        return Figure::unknown("it has no value in the window");
    };
    let last = counter.sample(after.saturating_sub(1)).unwrap_or(first);
    let spread = counter.spread_in(from_ns, to_ns);
    let finite = |value: f64| value.is_finite().then_some(value);
    Figure::known(CounterFigures {
        samples: samples as u64,
        min: spread.min(),
        mean: spread.mean(),
        max: spread.max(),
        first: finite(first.value),
        last: finite(last.value),
    })
}
