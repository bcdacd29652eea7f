//! What heat maps show, from the session's tables: read on a thread of its own, by the library that also draws the report's.

use crate::model::{Opened, Window};
use rankscope_collector::heatmap::picture::Picture;
use rankscope_collector::heatmap::steps::Chosen;
use rankscope_collector::heatmap::{self, Kind};
use rankscope_formats::session::{StepRow, TableError, TableReader, rank_path};
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
    /// The one that a map belongs to.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Wait | Kind::Communication | Kind::StepTime | Kind::Delay => Self::Steps,
            Kind::Traffic | Kind::TrafficBandwidth => Self::Traffic,
            Kind::Busbw => Self::Bandwidth,
        }
    }

    /// What is read, for who waits for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "the steps of all ranks",
            Self::Traffic => "what went from rank to rank",
            Self::Bandwidth => "the operations",
        }
    }

    fn kinds(self) -> Vec<Kind> {
        let mut kinds = Kind::ALL.to_vec();
        kinds.retain(|kind| Self::of(*kind) == self);
        kinds
    }
}

/// The maps of a group, each with its values or why there are none; or why nothing could be read.
pub type Maps = Result<Vec<(Kind, Result<Arc<Picture>, String>)>, String>;

/// Cells of a rank × step map at most: four of them are kept, 16 bytes a cell.
const MOST_CELLS: usize = 1 << 20;

/// Reads the maps of a group.
pub fn maps(opened: &Opened, group: Group) -> Maps {
    let session = &opened.session;
    let columns = (MOST_CELLS / session.ranks.len().max(1)).clamp(256, 2048);
    let made = heatmap::pictures(&opened.path, session, &group.kinds(), &Chosen::default(), columns);
    let made = made.map_err(|error| format!("Cannot read {}: {error}", group.name()))?;
    Ok(made
        .into_iter()
        .map(|(kind, made)| (kind, made.map(Arc::new)))
        .collect())
}

/// When a rank was in these steps, on the axis.
pub fn window_of_steps(opened: &Opened, rank: u32, steps: Range<u64>) -> Result<Window, String> {
    let name = opened.name_of(rank);
    match span(opened, rank, &steps) {
        Ok(Some((start_ns, end_ns))) => Ok(Window::between(start_ns, end_ns)),
        Ok(None) => Err(format!("{name} has no step {}", steps.start)),
        Err(error) => Err(format!("Cannot read the steps of {name}: {error}")),
    }
}

fn span(opened: &Opened, rank: u32, steps: &Range<u64>) -> Result<Option<(i64, i64)>, TableError> {
    let mut reader = TableReader::<StepRow>::open(&rank_path::<StepRow>(&opened.path, rank))?;
    let mut rows = Vec::new();
    let mut found: Option<(i64, i64)> = None;
    while reader.next_rows(&mut rows)? {
        for row in rows.drain(..).filter(|row| steps.contains(&u64::from(row.step))) {
            let (start_ns, end_ns) = found.unwrap_or((row.start_ns, row.end_ns));
            found = Some((start_ns.min(row.start_ns), end_ns.max(row.end_ns)));
        }
    }
    Ok(found)
}
