//! Logs on the common axis. Each pass opens its own readers.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::ingest::run_part::RunPart;
use crate::model::part_window::PartWindow;
use crate::rank::anchors::Anchors;
use crate::rank::{DeliveryDelay, RankReader};
use rankscope_formats::ids::RankIndex;
use rankscope_ranklog::reader::RankLog;
use std::sync::OnceLock;

/// Logs of a run on the common axis.
#[derive(Clone, Copy)]
pub struct Logs<'a> {
    /// The logs.
    pub all: &'a [RankLog],
    /// The axis.
    pub clocks: &'a Clocks,
    /// The merged part, if only a part of the run is merged.
    pub part: Option<&'a RunPart>,
    /// Delivery delay of each log, which its first reader measures for all others. Empty while the clocks may still
    /// change.
    pub delays: &'a [OnceLock<DeliveryDelay>],
}

impl<'a> Logs<'a> {
    /// Returns the log of a rank.
    pub fn of_rank(self, identities: &Identities, rank: RankIndex) -> &'a RankLog {
        &self.all[identities.ranks[rank.index()].log]
    }

    /// Returns the times that are merged.
    pub fn window(self) -> PartWindow {
        self.part.map_or(PartWindow::WHOLE, RunPart::window)
    }

    /// Opens a reader for the log of a rank.
    pub fn reader(self, identities: &Identities, rank: RankIndex, anchors: Anchors) -> RankReader<'a> {
        let identity = &identities.ranks[rank.index()];
        let mut reader = RankReader::new(
            rank,
            &self.all[identity.log],
            self.clocks.line(identity.log),
            &identity.communicators,
            anchors,
        );
        if let Some(part) = self.part {
            reader = part.restrict(reader, identity.log);
        }
        match self.delays.get(identity.log) {
            Some(delay) => reader.with_lateness(delay),
            None => reader,
        }
    }

    /// Opens a reader that emits operations without rows of device activity.
    pub fn operation_reader(
        self,
        identities: &Identities,
        rank: RankIndex,
        anchors: Anchors,
    ) -> RankReader<'a> {
        self.reader(identities, rank, anchors).without_works()
    }
}
