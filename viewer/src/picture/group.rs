//! Paints the row of a closed group: where the time of its ranks went, on average.

use super::columns::Columns;
use super::paint::{Picture, fill};
use crate::model::{GroupId, Opened, Window, parts_lane};
use crate::theme::{Theme, faded};
use egui::{Color32, ColorImage};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::LaneKind;

/// Maximum number of ranks that the row of a group shows. If the group has more, they are spread evenly over its ranks.
pub const MAX_RANKS: usize = 8;

/// Returns the ranks of a group that its row shows.
pub fn sample(ranks: &[RankIndex]) -> impl Iterator<Item = RankIndex> + '_ {
    let count = ranks.len().min(MAX_RANKS);
    (0..count).map(move |number| ranks[number * ranks.len() / count])
}

/// Paints the mean of the sampled ranks of a group. Waits until their indices are open. `None`: no index can be read, or the session is
/// closed.
pub fn paint(
    opened: &Opened,
    group: GroupId,
    window: Window,
    (width, height): (usize, usize),
    theme: Theme,
    (exact, is_filtered): (bool, bool),
) -> Option<Picture> {
    let group = opened.groupings.group(group)?;
    let mut sum: Option<(Columns, LaneKind)> = None;
    for rank in sample(&group.ranks) {
        let Some(view) = opened.wait_for(rank) else {
            continue;
        };
        let Some(lane) = parts_lane(&view.footer().lanes).and_then(|lane| view.lane(lane)) else {
            continue;
        };
        let columns = Columns::of(lane, window, width, exact);
        match &mut sum {
            // Classes of the device and of the host have different meanings, so they are not added up.
            Some((sum, kind)) if *kind == lane.info.kind => sum.merge(&columns),
            Some(_) => {}
            None => sum = Some((columns, lane.info.kind)),
        }
    }
    let (columns, kind) = sum?;
    let shades = theme.classes(kind);
    let background = theme.background();
    let mut image = ColorImage::filled([width, height], Color32::TRANSPARENT);
    // A filter highlights spans, and this row has none.
    fill(&mut image, &columns, |class, x, y| match is_filtered {
        true => faded(shades[class].colour, background),
        false => shades[class].at(x, y),
    });
    Some(Picture {
        image,
        named: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ranks_are_all_shown_and_many_are_spread_evenly() {
        let of = |count: u32| -> Vec<u32> {
            let ranks: Vec<RankIndex> = (100..100 + count).map(RankIndex).collect();
            sample(&ranks).map(|rank| rank.0).collect()
        };
        assert_eq!(of(0), [0; 0]);
        assert_eq!(of(3), [100, 101, 102]);
        assert_eq!(of(8).len(), 8);
        assert_eq!(of(16), [100, 102, 104, 106, 108, 110, 112, 114]);
    }
}
