//! Reads the values of heat maps from the session's tables, on a background thread. The report uses the same library.

use crate::model::{Opened, Window};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{StepRow, TableError, TableReader, rank_path};
use rankscope_report::heatmap;
use rankscope_report::heatmap::Kind;
use rankscope_report::heatmap::picture::Picture;
use rankscope_report::heatmap::steps::Chosen;
use std::ops::Range;
use std::sync::Arc;

/// Maps that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Rank × step: the tables `steps` of all ranks, once for all quantities.
    Steps,
    /// Rank × rank: the table `traffic`.
    Traffic,
    /// Operation × size: the summary.
    Bandwidth,
}

impl Group {
    /// Returns the group of a map.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Wait | Kind::Communication | Kind::StepTime | Kind::Delay => Self::Steps,
            Kind::Traffic | Kind::TrafficBandwidth => Self::Traffic,
            Kind::Busbw => Self::Bandwidth,
        }
    }

    /// Returns a name for the data that is being read, as displayed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "the steps of all ranks",
            Self::Traffic => "the traffic between ranks",
            Self::Bandwidth => "the operations",
        }
    }

    fn kinds(self) -> Vec<Kind> {
        let mut kinds = Kind::ALL.to_vec();
        kinds.retain(|kind| Self::of(*kind) == self);
        kinds
    }
}

/// The maps of a group, each with its values or the reason why it has none; or the reason why nothing could be read.
pub type Maps = Result<Vec<(Kind, Result<Arc<Picture>, String>)>, String>;

/// Maximum number of cells of a rank × step map. Four such maps are kept, with 16 bytes per cell.
const MAX_CELLS: usize = 1 << 20;

/// Reads the maps of a group.
pub fn maps(opened: &Opened, group: Group) -> Maps {
    let session = &opened.session;
    let columns = (MAX_CELLS / session.ranks.len().max(1)).clamp(256, 2048);
    let made = heatmap::pictures(&opened.path, session, &group.kinds(), &Chosen::default(), columns);
    let made = made.map_err(|error| format!("Cannot read {}: {error}", group.name()))?;
    Ok(made
        .into_iter()
        .map(|(kind, made)| (kind, made.map(Arc::new)))
        .collect())
}

/// Returns the time range on the axis in which a rank was in these steps.
pub fn window_of_steps(opened: &Opened, rank: RankIndex, steps: Range<u64>) -> Result<Window, String> {
    let name = opened.name_of(rank);
    match span(opened, rank, &steps) {
        Ok(Some(window)) => Ok(window),
        Ok(None) => Err(format!("{name} has no step {}", steps.start)),
        Err(error) => Err(format!("Cannot read the steps of {name}: {error}")),
    }
}

fn span(opened: &Opened, rank: RankIndex, steps: &Range<u64>) -> Result<Option<Window>, TableError> {
    let mut reader = TableReader::<StepRow>::open(&rank_path::<StepRow>(&opened.path, rank.0))?;
    let mut rows = Vec::new();
    let mut found: Option<Range<i64>> = None;
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..).filter(|row| steps.contains(&u64::from(row.step))) {
            let before = found.unwrap_or(row.start_ns..row.end_ns);
            found = Some(before.start.min(row.start_ns)..before.end.max(row.end_ns));
        }
    }
    Ok(found.map(|times| Window::between(times.start, times.end)))
}
