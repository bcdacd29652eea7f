//! Titles to the left of the rows.

use super::layout::RowKind;
use crate::model::{CounterScale, Opened, RankGroup};
use rankscope_analysis::model::units::counter_value;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{LaneKind, OTHER_THREADS};
use rankscope_formats::session::{CommunicatorSummary, Session, counter_unit};

/// Returns the title of a row.
pub fn title(opened: &Opened, kind: RowKind) -> String {
    match kind {
        RowKind::Group(id) => opened
            .groupings
            .group(id)
            .map_or_else(String::new, RankGroup::title),
        RowKind::Rank { rank, .. } => opened.name_of(rank).to_owned(),
        RowKind::InFlight { most, .. } => format!("in flight, up to {most}"),
        RowKind::Counter { rank, counter } => counter_name(opened, rank, counter),
        RowKind::MoreCounters { count, .. } => match count {
            1 => "1 more counter".to_owned(),
            count => format!("{count} more counters"),
        },
        RowKind::Pending(_) => "indexing …".to_owned(),
        // The comparison names its own rows.
        RowKind::Difference(_) | RowKind::Other { .. } | RowKind::OtherPending(_) | RowKind::Unmatched(_) => {
            String::new()
        }
        RowKind::Lane {
            rank, kind, layer, ..
        } => lane_title(&opened.session, rank, kind, layer),
    }
}

/// Returns the title of a lane.
pub fn lane_title(session: &Session, rank: RankIndex, kind: LaneKind, layer: u32) -> String {
    let own = match kind {
        LaneKind::Steps => "steps".to_owned(),
        LaneKind::Parts { device: true } => "devices".to_owned(),
        LaneKind::Parts { device: false } => {
            return if layer == 0 {
                "host".to_owned()
            } else {
                format!("host, thread {}", layer + 1)
            };
        }
        LaneKind::Stalls => "stalls".to_owned(),
        LaneKind::Pauses => "named".to_owned(),
        LaneKind::Calls {
            thread_id: OTHER_THREADS,
        } => "other threads".to_owned(),
        LaneKind::Marks {
            thread_id: OTHER_THREADS,
        } => "other marks".to_owned(),
        LaneKind::Overhead { thread_id: 0 } => "overhead".to_owned(),
        LaneKind::Overhead {
            thread_id: OTHER_THREADS,
        } => "other overhead".to_owned(),
        LaneKind::Overhead { thread_id } => format!("overhead {thread_id}"),
        LaneKind::Calls { thread_id } => format!("thread {thread_id}"),
        LaneKind::Marks { thread_id } => format!("marks {thread_id}"),
        LaneKind::Operations { communicator } => communicator
            .and_then(|communicator| session.communicators.get(communicator as usize))
            .map_or_else(|| "operations".to_owned(), communicator_title),
        LaneKind::Works { stream } => stream
            .and_then(|stream| {
                let of_rank = session
                    .activity
                    .iter()
                    .find(|activity| RankIndex(activity.rank) == rank)?;
                let stream = of_rank.streams.get(stream as usize)?;
                Some(format!("device {} stream {}", stream.device, stream.number))
            })
            .unwrap_or_else(|| "device".to_owned()),
    };
    if layer == 0 {
        own
    } else {
        // This row continues the one above with spans that overlap there.
        String::new()
    }
}

/// Returns the title of a communicator: library, role and size.
pub fn communicator_title(communicator: &CommunicatorSummary) -> String {
    format!(
        "{} {} of {}",
        communicator.library, communicator.role, communicator.size
    )
}

/// Returns the name of a counter, by its position in the index of a rank.
pub fn counter_name(opened: &Opened, rank: RankIndex, counter: usize) -> String {
    opened
        .open_view(rank)
        .and_then(|view| Some(view.footer().counters.get(counter)?.name.clone()))
        .unwrap_or_default()
}

/// Returns the values at the bottom and the top of the rows of a counter.
pub fn counter_range(opened: &Opened, name: &str) -> String {
    let Some(CounterScale { lowest, highest }) = opened.counter_scales.get(name) else {
        return "no finite value".to_owned();
    };
    let unit = counter_unit(name);
    let highest = counter_value(highest, unit);
    if lowest == 0.0 {
        format!("0 to {highest}")
    } else {
        format!("{} to {highest}", counter_value(lowest, unit))
    }
}
