//! Bandwidth of an instance (METRICS.md, section 2).

use crate::measures::waiting::InstanceWait;
use crate::model::operation::RankOperation;
use rankscope_formats::session::WaitClass;
use rankscope_ranklog::Operation;

/// Bandwidth of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bandwidth {
    /// S in bytes; `None` if sizes are unknown or have no meaning.
    pub size_bytes: Option<u64>,
    /// S / t in bytes/s; `None` unless the launch is transfer-bound and t > 0.
    pub algorithm: Option<f64>,
    /// S / t · f in bytes/s.
    pub bus: Option<f64>,
    /// S over the whole duration, in bytes/s.
    pub effective: Option<f64>,
    /// True if t is the shortest member duration.
    pub shortest_used: bool,
    /// True if t ≤ 0. Such launches are counted, but not used.
    pub invalid: bool,
    /// S·f in bytes and t in ns, if there is a bus bandwidth.
    pub on_bus: Option<(f64, i64)>,
}

/// Returns S·f of an instance in bytes, or `None` if S or f is unknown.
pub fn bus_bytes(members: &[RankOperation]) -> Option<f64> {
    let factor = members.first()?.operation.bus_factor(members.len() as u32)?;
    Some(size_bytes(members)? as f64 * factor)
}

/// Returns S of an instance, from one member's count c·e or from the counts of all members.
pub fn size_bytes(members: &[RankOperation]) -> Option<u64> {
    let first = members.first()?;
    let n = members.len() as u64;
    let own = || members.iter().filter_map(RankOperation::known_bytes).max();
    let counts = || members.iter().all(|member| member.counts.len() == members.len());
    match first.operation {
        Operation::AllReduce | Operation::Broadcast | Operation::Reduce | Operation::Scan => own(),
        Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::Gather
        | Operation::Scatter => own()?.checked_mul(n),
        Operation::Send | Operation::Receive => first.known_bytes().or_else(|| members.get(1)?.known_bytes()),
        Operation::AllToAllV if counts() => (0..members.len())
            .map(|member| {
                let others = || (0..members.len()).filter(move |&other| other != member);
                let sent: u64 = sum(others().map(|other| members[member].counts[other]));
                let received: u64 = sum(others().map(|other| members[other].counts[member]));
                sent.max(received)
            })
            .max(),
        Operation::AllGatherV if counts() => {
            let total = sum(first.counts.iter().copied());
            first.counts.iter().map(|own| total - own).max()
        }
        // Everything except the root's own part crosses the root's link.
        Operation::GatherV | Operation::ScatterV => {
            let root = usize::try_from(first.peer).ok()?;
            let counts = &members.get(root)?.counts;
            let own = counts.get(root)?;
            Some(sum(counts.iter().copied()) - own)
        }
        Operation::ReduceScatterV if counts() => Some(sum(first.counts.iter().copied())),
        _ => None,
    }
}

/// Sums counts. They come from records, so the sum saturates instead of wrapping.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Returns the bandwidth of a complete instance that is a separate launch.
pub fn bandwidth(members: &[RankOperation], wait: &InstanceWait) -> Bandwidth {
    of_launch(members, size_bytes(members), bus_bytes(members), wait)
}

/// Returns the bandwidth of a launch from Σ S, Σ S·f and the times of its members.
pub fn of_launch(
    members: &[RankOperation],
    size_bytes: Option<u64>,
    bus_bytes: Option<f64>,
    wait: &InstanceWait,
) -> Bandwidth {
    let mut out = Bandwidth::default();
    let is_message = members.first().is_some_and(RankOperation::is_message);
    let (Some(size), Some(on_bus)) = (size_bytes.filter(|&size| size > 0), bus_bytes) else {
        return out;
    };
    out.size_bytes = Some(size);
    let enter = members.iter().map(|member| member.enter_ns).min().unwrap_or(0);
    let leave = members.iter().map(|member| member.leave_ns).max().unwrap_or(0);
    if leave > enter {
        out.effective = Some(size as f64 / (leave - enter) as f64 * 1e9);
    }
    let mut t = wait.transfer_ns;
    let error_ns = wait.transfer_error_ns;
    if error_ns > 0 && error_ns.saturating_mul(10) > t {
        t = wait.shortest_ns;
        out.shortest_used = true;
    }
    if t <= 0 {
        out.invalid = true;
    } else if wait.class == WaitClass::TransferBound || (is_message && wait.class == WaitClass::None) {
        out.algorithm = Some(size as f64 / t as f64 * 1e9);
        out.bus = Some(on_bus / t as f64 * 1e9);
        out.on_bus = Some((on_bus, t));
    }
    out
}
