//! One instance on all ranks, with the arrival and leave of each.
//!
//! A background thread finds its spans in the indices of all members: for four thousand ranks these are four thousand
//! files.

use crate::model::{Opened, PickedInstance, View};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::Span;
use rankscope_formats::session::{InstanceRow, RowGroups, part_path};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The operation of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Position of the lane in its index.
    pub lane: usize,
    /// The operation.
    pub span: Span,
}

impl Member {
    /// Returns the end of its wait for peers, in nanoseconds. Without a wait, this is its arrival.
    pub fn waited_until_ns(&self) -> i64 {
        if self.span.wait_ns > 0 {
            self.span.start_ns + self.span.wait_ns
        } else {
            self.span.arrival_ns()
        }
    }
}

/// All members of an instance, in the order of their arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// The instance.
    pub picked: PickedInstance,
    /// Row of the session's table, if it was found.
    pub row: Option<InstanceRow>,
    /// Members in the order of their arrivals.
    pub members: Vec<Member>,
    /// Number of members whose index is not available yet.
    pub pending: u32,
}

impl Members {
    /// Returns the instance with its communicator, which the row adds if the pick lacks it.
    pub fn picked_with_communicator(&self) -> PickedInstance {
        with_communicator(self.picked, self.row.as_ref())
    }
}

fn with_communicator(picked: PickedInstance, row: Option<&InstanceRow>) -> PickedInstance {
    let of_row = row.map(|row| row.communicator);
    PickedInstance {
        communicator: picked.communicator.or(of_row),
        ..picked
    }
}

/// Searches for instances.
pub struct Instances {
    newest: Arc<AtomicU64>,
    requested: Option<PickedInstance>,
    sender: Sender<Members>,
    found: Receiver<Members>,
    /// Time of the next search, because some ranks were not indexed yet.
    again: Option<Instant>,
    /// Latest result.
    pub shown: Option<Arc<Members>>,
}

/// Time between two searches while indices are missing.
const AGAIN: Duration = Duration::from_millis(500);

impl Default for Instances {
    fn default() -> Self {
        let (sender, found) = channel();
        Self {
            newest: Arc::default(),
            requested: None,
            sender,
            found,
            again: None,
            shown: None,
        }
    }
}

impl Instances {
    /// Requests the picked instance, and takes over results.
    pub fn update(&mut self, opened: &Arc<Opened>, picked: Option<PickedInstance>, ctx: &egui::Context) {
        while let Ok(members) = self.found.try_recv() {
            if Some(members.picked) == self.requested {
                // Search again once the missing indices may be available.
                if members.pending > 0 {
                    self.again = Some(Instant::now() + AGAIN);
                    ctx.request_repaint_after(AGAIN);
                }
                self.shown = Some(Arc::new(members));
            }
        }
        let is_due = self.again.is_some_and(|again| Instant::now() >= again);
        if self.requested == picked && !is_due {
            return;
        }
        self.again = None;
        if self
            .shown
            .as_ref()
            .is_none_or(|shown| Some(shown.picked) != picked)
        {
            self.shown = None;
        }
        self.requested = picked;
        let number = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(picked) = picked else { return };
        let (opened, sender, ctx, newest) = (
            opened.clone(),
            self.sender.clone(),
            ctx.clone(),
            self.newest.clone(),
        );
        std::thread::spawn(move || {
            let members = find_members(&opened, picked, &|| newest.load(Ordering::Relaxed) != number);
            if sender.send(members).is_ok() {
                ctx.request_repaint();
            }
        });
    }

    /// Returns true while a search is in progress.
    pub fn is_busy(&self) -> bool {
        self.requested.is_some()
            && self
                .shown
                .as_ref()
                .is_none_or(|shown| Some(shown.picked) != self.requested)
    }
}

/// Finds all members of an instance.
pub fn find_members(opened: &Opened, picked: PickedInstance, is_over: &dyn Fn() -> bool) -> Members {
    let row = instance_row(opened, picked, is_over);
    let (from_ns, to_ns) = row.as_ref().map_or((picked.from_ns, picked.to_ns), |row| {
        (row.start_ns.min(picked.from_ns), row.end_ns.max(picked.to_ns))
    });
    let searched = with_communicator(picked, row.as_ref());
    let known = searched
        .communicator
        .and_then(|communicator| opened.session.communicators.get(communicator.index()));
    let ranks: Vec<RankIndex> = known.map_or_else(
        || opened.ranks().collect(),
        |communicator| {
            let members = communicator.members.iter().flatten();
            members.map(|&rank| RankIndex(rank)).collect()
        },
    );
    let mut members = Vec::new();
    let mut pending = 0;
    for rank in ranks {
        if is_over() {
            break;
        }
        match opened.view(rank) {
            View::Open(view) => {
                let mut lanes = view.lanes_of(|kind| searched.has_lane(kind));
                let found = lanes.find_map(|(lane, spans)| {
                    let span = spans.span_of(picked.instance, from_ns, to_ns.saturating_add(1))?;
                    Some(Member { rank, lane, span })
                });
                members.extend(found);
            }
            View::Pending => pending += 1,
            View::Missing => {}
        }
    }
    members.sort_by_key(|member| (member.span.arrival_ns(), member.rank));
    Members {
        picked,
        row,
        members,
        pending,
    }
}

/// Time by which the instance may start before the picked operation, in nanoseconds. Nearly always they start together,
/// so the search starts with the smallest value.
const EARLIER_NS: [i64; 4] = [10_000_000, 1_000_000_000, 60_000_000_000, i64::MAX];

/// Finds an instance by its number. Reads the table from its start.
pub fn by_number(opened: &Opened, instance: u64) -> Option<PickedInstance> {
    let groups = RowGroups::<InstanceRow>::open(&part_path::<InstanceRow>(&opened.path)).ok()?;
    let mut reader = groups.read().ok()?;
    let mut rows = Vec::new();
    while !opened.is_closed() && reader.next_rows(&mut rows).ok()? {
        if let Some(row) = rows.iter().find(|row| row.instance == instance) {
            return Some(PickedInstance {
                instance,
                communicator: Some(row.communicator),
                from_ns: row.start_ns,
                to_ns: row.end_ns.max(row.start_ns),
            });
        }
        rows.clear();
    }
    None
}

fn instance_row(opened: &Opened, picked: PickedInstance, is_over: &dyn Fn() -> bool) -> Option<InstanceRow> {
    let groups = RowGroups::<InstanceRow>::open(&part_path::<InstanceRow>(&opened.path)).ok()?;
    let mut read = BTreeSet::new();
    let mut rows = Vec::new();
    for earlier_ns in EARLIER_NS {
        let from_ns = picked.from_ns.saturating_sub(earlier_ns);
        for group in groups.between(from_ns, picked.to_ns.saturating_add(1)) {
            if !read.insert(group) {
                continue;
            }
            let mut reader = groups.reader(vec![group]).ok()?;
            while !is_over() && reader.next_rows(&mut rows).ok()? {
                if let Some(row) = rows.iter().find(|row| row.instance == picked.instance) {
                    return Some(row.clone());
                }
                rows.clear();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::fixture::{Made, ranks};
    use rankscope_formats::ids::CommunicatorId;
    use rankscope_formats::session::{InstanceState, RowLimits, TableWriter};

    #[test]
    fn an_instance_of_a_finding_is_found_without_its_communicator() {
        let made = Made::new();
        let found = |communicator| {
            let picked = PickedInstance {
                instance: 2,
                communicator,
                from_ns: 200_000,
                to_ns: 280_000,
            };
            let members = find_members(&made.opened, picked, &|| false).members;
            members.iter().map(|member| member.rank).collect::<Vec<_>>()
        };
        let all: Vec<RankIndex> = ranks().collect();
        assert_eq!(found(Some(CommunicatorId(0))), all);
        assert_eq!(found(None), all);
        assert_eq!(found(Some(CommunicatorId(1))), []);
    }

    #[test]
    fn the_table_adds_the_communicator_that_a_pick_lacks() {
        let made = Made::new();
        let row = InstanceRow {
            start_ns: 200_000,
            end_ns: 280_000,
            first_arrival_ns: 200_000,
            last_arrival_ns: 210_000,
            ..InstanceRow::empty(2, CommunicatorId(1), 2, InstanceState::Complete)
        };
        let path = part_path::<InstanceRow>(&made.opened.path);
        let mut writer = TableWriter::create(&path, RowLimits::default()).expect("a table");
        writer.write(&mut vec![row]).expect("a row");
        writer.finish().expect("a footer");
        let picked = PickedInstance {
            instance: 2,
            communicator: None,
            from_ns: 200_000,
            to_ns: 280_000,
        };
        let found = find_members(&made.opened, picked, &|| false);
        let communicator = Some(CommunicatorId(1));
        assert_eq!(found.picked_with_communicator().communicator, communicator);
        // In this session, that communicator has no operation.
        assert_eq!(found.members, []);
    }
}
