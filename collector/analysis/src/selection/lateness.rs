//! Last arrivals in the launches of a window, and the waits in them.

use super::request::SelectionRequest;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Figure, RankLateness, RankParts, SelectedInstance, Session};

#[derive(Clone, Copy, Default)]
struct OfRank {
    last_arrivals: u64,
    exposed_where_last: i64,
}

#[derive(Clone, Copy, Default)]
struct OfCommunicator {
    /// Number of launches of all members.
    launches: u64,
    /// Number of messages between some of the members. An instance does not show which.
    messages: u64,
}

/// Sums by rank and by communicator.
pub struct Lateness {
    ranks: Vec<OfRank>,
    communicators: Vec<OfCommunicator>,
    sizes: Vec<u32>,
}

impl Lateness {
    /// Creates empty sums for the ranks of a session.
    pub fn new(session: &Session) -> Self {
        Self {
            ranks: vec![OfRank::default(); session.ranks.len()],
            communicators: vec![OfCommunicator::default(); session.communicators.len()],
            sizes: session.communicators.iter().map(|known| known.size).collect(),
        }
    }

    /// Counts an instance that begins in the window.
    pub fn take(&mut self, row: &SelectedInstance) {
        let Some(last) = row.last_rank.filter(|_| row.members > 1) else {
            return;
        };
        if let Some(rank) = self.ranks.get_mut(last.index()) {
            rank.last_arrivals += 1;
            rank.exposed_where_last += row.exposed_wait_rank_ns.unwrap_or(0);
        }
        let at = row.communicator.index();
        if let (Some(known), Some(&size)) = (self.communicators.get_mut(at), self.sizes.get(at)) {
            if row.members == size {
                known.launches += 1;
            } else {
                known.messages += 1;
            }
        }
    }

    /// Adds the sums of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.ranks.iter_mut().zip(&other.ranks) {
            sum.last_arrivals += more.last_arrivals;
            sum.exposed_where_last += more.exposed_where_last;
        }
        for (sum, more) in self.communicators.iter_mut().zip(&other.communicators) {
            sum.launches += more.launches;
            sum.messages += more.messages;
        }
    }

    /// Returns an entry per requested rank. The rank's own waits come from its `parts`.
    pub fn table(
        &self,
        session: &Session,
        request: &SelectionRequest<'_>,
        parts: &[RankParts],
    ) -> Vec<RankLateness> {
        let mut of_rank = vec![OfCommunicator::default(); session.ranks.len()];
        for (known, sums) in session.communicators.iter().zip(&self.communicators) {
            for &rank in known.members.iter().flatten() {
                if let Some(sum) = of_rank.get_mut(rank as usize) {
                    sum.launches += sums.launches;
                    sum.messages += sums.messages;
                }
            }
        }
        let row = |rank: RankIndex| {
            let at = rank.index();
            let sums = self.ranks.get(at).copied().unwrap_or_default();
            let took_part = of_rank.get(at).copied().unwrap_or_default();
            // The last level of a rank is the most exact: its devices, if their work was recorded.
            let waited = parts.iter().rfind(|entry| entry.rank == rank.0);
            RankLateness {
                rank: rank.0,
                last_arrivals: sums.last_arrivals,
                launches: if took_part.messages == 0 {
                    Figure::known(took_part.launches)
                } else {
                    Figure::unknown("the table does not show which ranks exchanged messages")
                },
                exposed_wait_where_last_rank_ns: sums.exposed_where_last,
                exposed_wait_ns: match waited.map(|entry| entry.parts.get()) {
                    Some(Ok(parts)) => parts.exposed_wait_ns.clone(),
                    Some(Err(reason)) => Figure::unknown(reason),
                    None => Figure::unknown("the rank's time was not recorded"),
                },
            }
        };
        request.ranks_of(session).into_iter().map(row).collect()
    }
}
