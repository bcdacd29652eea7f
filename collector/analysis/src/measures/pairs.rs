//! Transfers between two ranks, and inside one communicator: whether one of them is slower than the others of its kind.

use crate::matching::size_class;
use crate::model::operation::RankOperation;
use rankscope_formats::session::LookAt;
use rustc_hash::FxHashMap;

/// Paths and sizes that are told apart; beyond, new ones are left out, counted.
const MOST_PATHS: usize = 1 << 16;
/// Of a message's transfer one in so many parts must have been waited for, or its end is not known.
const LEAST_AWAITED: i64 = 10;

/// What is compared with its like: the direction between two ranks, or the members of one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Messages from one rank to another: positions in the session.
    Between(u32, u32),
    /// Collectives of a communicator: its position in the session.
    Inside(u32),
}

/// Transfers of one path and kind: their logarithms, because they are skewed.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// How many.
    pub count: u64,
    sum_ln: f64,
    sum_ln_squared: f64,
    /// Σ ns.
    pub sum_ns: f64,
    /// Of that, while a transfer the other way was under way that was told before: what both ways cost together is less.
    pub beside_ns: f64,
    /// Begin and end of the last one.
    last_ns: (i64, i64),
    /// The longest.
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

    /// Share of the transfers during which none the other way was under way that was told before.
    pub fn alone_share(&self) -> f64 {
        1.0 - (self.beside_ns / self.sum_ns.max(1.0)).clamp(0.0, 1.0)
    }

    /// Mean of the logarithms.
    pub fn mean_ln(&self) -> f64 {
        self.sum_ln / self.count.max(1) as f64
    }

    /// How far the mean of the logarithms may be off: its standard error.
    pub fn error_ln(&self) -> f64 {
        let n = self.count as f64;
        if n < 2.0 {
            return f64::INFINITY;
        }
        let mean = self.mean_ln();
        ((self.sum_ln_squared / n - mean * mean).max(0.0) / (n - 1.0)).sqrt()
    }
}

/// Which transfers are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Number of the operation.
    pub operation: u8,
    /// Size class.
    pub size: u32,
    /// Members; 2 of messages.
    pub members: u32,
    /// They cross hosts.
    pub across_hosts: bool,
}

/// Transfers by kind and path.
#[derive(Default)]
pub struct Paths {
    known: FxHashMap<(Kind, Path), Transfers>,
    /// Transfers of paths that found no place.
    pub left_out: u64,
}

impl Paths {
    /// Takes a complete instance that has a transfer of its own.
    pub fn take(&mut self, members: &[RankOperation], transfer_ns: i64, instance: u64, across_hosts: bool) {
        let Some(first) = members.first() else { return };
        let Some(bytes) = first.known_bytes().filter(|_| transfer_ns > 0) else {
            return;
        };
        // A receive that was waited for only when the message had come tells when it was waited for, not when it came.
        if let [_, receiver] = members
            && first.is_message()
        {
            let begin_ns = receiver.leave_ns.saturating_sub(transfer_ns);
            let awaited = receiver.blocked.overlap(begin_ns, receiver.leave_ns);
            if awaited.saturating_mul(LEAST_AWAITED) < transfer_ns {
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
        let is_full = self.known.len() >= MOST_PATHS;
        if is_full && !self.known.contains_key(&(kind, path)) {
            self.left_out += 1;
            return;
        }
        let end_ns = match members {
            [_, receiver] if first.is_message() => receiver.leave_ns,
            _ => members.iter().map(|member| member.leave_ns).max().unwrap_or(0),
        };
        let start_ns = end_ns.saturating_sub(transfer_ns);
        let back_ns = match path {
            Path::Between(from, to) => self
                .known
                .get(&(kind, Path::Between(to, from)))
                .map(|back| back.last_ns),
            Path::Inside(_) => None,
        };
        let beside_ns = back_ns.map_or(0, |(from, to)| (end_ns.min(to) - start_ns.max(from)).max(0));
        let transfers = self.known.entry((kind, path)).or_default();
        transfers.beside_ns += beside_ns as f64;
        transfers.last_ns = (start_ns, end_ns);
        transfers.add(transfer_ns, || LookAt {
            what: format!("the longest transfer of a {}", first.operation.name()),
            rank: Some(first.rank),
            instance: Some(instance),
            step: (first.step != crate::model::operation::NO_STEP).then_some(u64::from(first.step)),
            start_ns,
            end_ns,
        });
    }

    /// All of them, in order.
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
