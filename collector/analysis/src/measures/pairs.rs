//! Transfers by path: between two ranks, or inside one communicator. They show whether a path is slower than others of
//! its kind.

use crate::matching::size_class;
use crate::model::interval::Interval;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::LookAt;
use rustc_hash::FxHashMap;

/// Maximum number of paths and sizes. Transfers of further ones are left out and counted.
const MAX_PATHS: usize = 1 << 16;
/// Minimum awaited part of a message's transfer, as a divisor: one tenth. Otherwise the end of the transfer is unknown.
const MIN_AWAITED: i64 = 10;

/// Compared path: a direction between two ranks, or the members of one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Messages from one rank to another, as indices into the session's ranks.
    Between(RankIndex, RankIndex),
    /// Collectives of a communicator, as an index into the session's communicators.
    Inside(CommunicatorId),
}

/// Transfers of one path and kind. Their logarithms are summed, because durations are skewed.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// Number of transfers.
    pub count: u64,
    sum_ln: f64,
    sum_ln_squared: f64,
    /// Sum of the transfers, in ns.
    pub sum_ns: f64,
    /// Part of the sum during which an already counted transfer in the other direction was in progress, in ns. Both
    /// directions together cost less.
    pub beside_ns: f64,
    last: Interval,
    /// The longest transfer.
    pub slowest: Option<LookAt>,
}

impl Transfers {
    fn add(&mut self, ns: i64, moment: impl FnOnce() -> LookAt) {
        let ln = (ns as f64).ln();
        self.count += 1;
        self.sum_ln += ln;
        self.sum_ln_squared += ln * ln;
        self.sum_ns += ns as f64;
        if self
            .slowest
            .as_ref()
            .is_none_or(|known| known.end_ns - known.start_ns < ns)
        {
            self.slowest = Some(moment());
        }
    }

    /// Returns the share of the transfers without an already counted transfer in the other direction.
    pub fn alone_share(&self) -> f64 {
        1.0 - (self.beside_ns / self.sum_ns.max(1.0)).clamp(0.0, 1.0)
    }

    /// Returns the mean of the logarithms.
    pub fn mean_ln(&self) -> f64 {
        self.sum_ln / self.count.max(1) as f64
    }

    /// Returns the standard error of the mean of the logarithms.
    pub fn error_ln(&self) -> f64 {
        let n = self.count as f64;
        if n < 2.0 {
            return f64::INFINITY;
        }
        let mean = self.mean_ln();
        ((self.sum_ln_squared / n - mean * mean).max(0.0) / (n - 1.0)).sqrt()
    }
}

/// Transfers that are comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Number of the operation.
    pub operation: u8,
    /// Size class.
    pub size: u32,
    /// Number of members; 2 for messages.
    pub members: u32,
    /// True if they cross hosts.
    pub across_hosts: bool,
}

/// Transfers by kind and path.
#[derive(Default)]
pub struct Paths {
    known: FxHashMap<(Kind, Path), Transfers>,
    /// Transfers of paths beyond the maximum number.
    pub left_out: u64,
}

impl Paths {
    /// Adds the transfer of a complete instance that has a separate one.
    pub fn take(&mut self, members: &[RankOperation], transfer_ns: i64, instance: u64, across_hosts: bool) {
        let Some(first) = members.first() else { return };
        let Some(bytes) = first.known_bytes().filter(|_| transfer_ns > 0) else {
            return;
        };
        // If the program waits for a receive after the message has arrived, the time of the wait does not show the
        // arrival.
        if let [_, receiver] = members
            && first.is_message()
        {
            let begin_ns = receiver.leave_ns.saturating_sub(transfer_ns);
            let awaited = receiver
                .blocked
                .overlap_ns(Interval::new(begin_ns, receiver.leave_ns));
            if awaited.saturating_mul(MIN_AWAITED) < transfer_ns {
                return;
            }
        }
        let path = match members {
            [sender, receiver] if first.is_message() => Path::Between(sender.rank, receiver.rank),
            _ => Path::Inside(first.communicator),
        };
        let kind = Kind {
            operation: first.operation as u8,
            size: size_class(bytes),
            members: members.len() as u32,
            across_hosts,
        };
        let is_full = self.known.len() >= MAX_PATHS;
        if is_full && !self.known.contains_key(&(kind, path)) {
            self.left_out += 1;
            return;
        }
        let end_ns = match members {
            [_, receiver] if first.is_message() => receiver.leave_ns,
            _ => members.iter().map(|member| member.leave_ns).max().unwrap_or(0),
        };
        let start_ns = end_ns.saturating_sub(transfer_ns);
        let back = match path {
            Path::Between(from, to) => self
                .known
                .get(&(kind, Path::Between(to, from)))
                .map(|back| back.last),
            Path::Inside(_) => None,
        };
        let transfer = Interval { start_ns, end_ns };
        let beside_ns = back.map_or(0, |back| transfer.overlap_ns(back));
        let transfers = self.known.entry((kind, path)).or_default();
        transfers.beside_ns += beside_ns as f64;
        transfers.last = transfer;
        transfers.add(transfer_ns, || LookAt {
            what: format!("the longest transfer of a {}", first.operation.name()),
            rank: Some(first.rank.0),
            instance: Some(instance),
            step: (first.step != crate::model::operation::NO_STEP).then_some(u64::from(first.step.0)),
            start_ns,
            end_ns,
        });
    }

    /// Returns all paths, sorted.
    pub fn sorted(&self) -> Vec<(Kind, Path, &Transfers)> {
        let mut all: Vec<_> = self
            .known
            .iter()
            .map(|(&(kind, path), transfers)| (kind, path, transfers))
            .collect();
        all.sort_by_key(|&(kind, path, _)| (kind, path));
        all
    }
}
