//! Sums of the figures of ranks by device and host, and of operations by the role of their communicator.
//!
//! All values are sums of the session's own figures, so every level adds up to the one below it exactly. If a figure is
//! unknown for one rank, it is unknown for every group with that rank.

use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    DeviceActivity, Figure, NamedParts, OperationClass, RankBlame, RankBreakdown, Session, TrafficRow,
    TrafficSource,
};
pub use rankscope_formats::session::{Group, RoleSum, Rollup, Rollups, Sum};
use std::collections::BTreeMap;

/// Grouping of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each rank separately.
    Rank,
    /// Ranks on one device of one host. A rank with several devices is on all of them together.
    Device,
    /// Ranks on one host.
    Host,
    /// Operations, by the role of their communicator.
    Role,
}

impl By {
    /// Returns the name in commands and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Device => "device",
            Self::Host => "host",
            Self::Role => "role",
        }
    }
}

/// Returns the groupings that the report shows. `moved` is the session's table of traffic.
pub fn rollups(session: &Session, moved: &[TrafficRow]) -> Rollups {
    let by = |by: By| rollup(session, moved, by);
    Rollups {
        host: by(By::Host),
        device: by(By::Device),
        role: by(By::Role),
    }
}

/// Computes one grouping of a session. `moved` is its table of traffic.
pub fn rollup(session: &Session, moved: &[TrafficRow], by: By) -> Rollup {
    if by == By::Role {
        return Rollup {
            by: by.name().to_owned(),
            groups: Vec::new(),
            total: None,
            roles: roles(session),
        };
    }
    let known = OfRanks::of(session, moved);
    let mut keys: BTreeMap<(u32, String, RankIndex), Vec<RankIndex>> = BTreeMap::new();
    for (rank, known) in (0..).map(RankIndex).zip(&session.ranks) {
        let key = match by {
            By::Rank | By::Role => (0, String::new(), rank),
            By::Device => (known.host, devices_of(session, rank), RankIndex(0)),
            By::Host => (known.host, String::new(), RankIndex(0)),
        };
        keys.entry(key).or_default().push(rank);
    }
    let groups = keys.into_iter().map(|((host, device, rank), ranks)| {
        let host_name = || {
            let known = session.hosts.get(host as usize);
            known.map_or_else(|| format!("host {host}"), |known| format!("host {}", known.name))
        };
        let name = match by {
            By::Rank | By::Role => session
                .ranks
                .get(rank.index())
                .map_or_else(|| format!("log {rank}"), |known| known.name.clone()),
            By::Device => format!("{}, {device}", host_name()),
            By::Host => host_name(),
        };
        group(session, &known, name, ranks)
    });
    Rollup {
        by: by.name().to_owned(),
        groups: groups.collect(),
        total: Some(group(
            session,
            &known,
            "all ranks".to_owned(),
            (0..session.ranks.len()).map(RankIndex::of).collect(),
        )),
        roles: Vec::new(),
    }
}

/// Returns the devices on which a rank worked.
fn devices_of(session: &Session, rank: RankIndex) -> String {
    let known = session.activity.iter().find(|known| known.rank == rank.0);
    let mut devices: Vec<u32> = known
        .iter()
        .flat_map(|known| known.streams.iter().map(|stream| stream.device))
        .collect();
    devices.sort_unstable();
    devices.dedup();
    match &devices[..] {
        [] => "no recorded device".to_owned(),
        // The number is relative to the process: equal numbers of two ranks may be different devices.
        [one] => format!("device {one} of {}", process(session, rank)),
        several => {
            let numbers: Vec<String> = several.iter().map(u32::to_string).collect();
            format!("devices {} of {}", numbers.join(", "), process(session, rank))
        }
    }
}

fn process(session: &Session, rank: RankIndex) -> String {
    let known = session.ranks.get(rank.index());
    known.map_or_else(|| format!("log {rank}"), |known| format!("process {}", known.pid))
}

/// Bytes that one rank sent and received.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent: u64,
    received: u64,
    sent_to_other_hosts: u64,
}

/// Returns the traffic of each rank, as far as its pairs are known.
fn traffic_of_ranks(session: &Session, moved: &[TrafficRow]) -> Vec<Traffic> {
    let mut of_ranks = vec![Traffic::default(); session.ranks.len()];
    let host_of = |rank: RankIndex| session.ranks.get(rank.index()).map(|known| known.host);
    for row in moved
        .iter()
        .filter(|row| !row.superseded && row.source != TrafficSource::LeftOut)
    {
        let between_hosts = row
            .from_rank
            .zip(row.to_rank)
            .is_some_and(|(from, to)| host_of(from) != host_of(to));
        if let Some(from) = row.from_rank.and_then(|from| of_ranks.get_mut(from.index())) {
            from.sent += row.bytes;
            from.sent_to_other_hosts += if between_hosts { row.bytes } else { 0 };
        }
        if let Some(to) = row.to_rank.and_then(|to| of_ranks.get_mut(to.index())) {
            to.received += row.bytes;
        }
    }
    of_ranks
}

/// Figures of the ranks, each at the index of its rank. A search per rank would take a second for thousands of ranks.
struct OfRanks<'a> {
    traffic: Vec<Traffic>,
    breakdown: Vec<Option<&'a RankBreakdown>>,
    blame: Vec<Option<&'a RankBlame>>,
    activity: Vec<Option<&'a DeviceActivity>>,
    named: Vec<Option<&'a NamedParts>>,
}

impl<'a> OfRanks<'a> {
    fn of(session: &'a Session, moved: &[TrafficRow]) -> Self {
        let ranks = session.ranks.len();
        Self {
            traffic: traffic_of_ranks(session, moved),
            breakdown: by_rank(ranks, &session.breakdown, |entry| entry.rank),
            blame: by_rank(ranks, &session.blame.ranks, |entry| entry.rank),
            activity: by_rank(ranks, &session.activity, |entry| entry.rank),
            named: by_rank(ranks, &session.named_times.ranks, |entry| entry.rank),
        }
    }
}

/// Puts entries at the indices of their ranks. Of several entries of a rank, the first counts.
fn by_rank<T>(ranks: usize, entries: &[T], rank: impl Fn(&T) -> u32) -> Vec<Option<&T>> {
    let mut out = vec![None; ranks];
    for entry in entries {
        if let Some(place) = out.get_mut(rank(entry) as usize) {
            place.get_or_insert(entry);
        }
    }
    out
}

fn group(session: &Session, of_ranks: &OfRanks<'_>, name: String, ranks: Vec<RankIndex>) -> Group {
    let mut sum = Group {
        name,
        ..Group::default()
    };
    for &rank in &ranks {
        if let Some(known) = session.ranks.get(rank.index()) {
            sum.operations += known.operations;
            sum.lost += known.lost;
        }
        if let Some(moved) = of_ranks.traffic.get(rank.index()) {
            sum.sent_bytes += moved.sent;
            sum.received_bytes += moved.received;
            sum.sent_to_other_hosts_bytes += moved.sent_to_other_hosts;
        }
        if let Some(entry) = of_ranks.breakdown.get(rank.index()).copied().flatten() {
            add_breakdown(&mut sum, session, entry);
        }
        let blame = of_ranks.blame.get(rank.index()).copied().flatten();
        sum.caused_exposed_rank_ns += blame.map_or(0, |of| of.caused_exposed_rank_ns);
        let activity = of_ranks.activity.get(rank.index()).copied().flatten();
        let activity = activity.filter(|known| known.window_ns > 0);
        sum.stalled_rank_ns.add(
            activity
                .map(|known| known.device_stalls.ns)
                .ok_or("device activity of a rank was not recorded"),
        );
        for cause in activity.iter().flat_map(|known| &known.device_stalls.by_cause) {
            match sum
                .stalled_by_cause
                .iter_mut()
                .find(|known| known.cause == cause.cause)
            {
                Some(known) => {
                    known.count += cause.count;
                    known.ns += cause.ns;
                }
                None => sum.stalled_by_cause.push(cause.clone()),
            }
        }
        let named = of_ranks.named.get(rank.index()).copied().flatten();
        for part in named.iter().flat_map(|entry| &entry.parts) {
            *sum.named.entry(part.kind.clone()).or_default() += part.in_run_ns;
        }
    }
    sum.stalled_by_cause
        .sort_by(|one, other| one.cause.cmp(&other.cause));
    sum.ranks = ranks.iter().map(|rank| rank.0).collect();
    sum
}

fn add_breakdown(sum: &mut Group, session: &Session, entry: &RankBreakdown) {
    let left_out = "operations of a rank have no times";
    let timed = |ns: i64| if entry.leaves_out() { Err(left_out) } else { Ok(ns) };
    sum.window_rank_ns += entry.window_ns;
    sum.own_rank_ns.add(timed(entry.host_ns));
    sum.exposed_communication_rank_ns
        .add(timed(entry.exposed_communication_ns));
    let waits = match crate::model::labels::waits_unknown(session) {
        Some(reason) => Err(reason),
        None => timed(entry.exposed_wait_ns),
    };
    sum.exposed_wait_rank_ns.add(waits);
    sum.other_blocked_rank_ns += entry.other_blocked_ns;
    sum.communication_rank_ns.add(timed(entry.communication_ns));
}

fn roles(session: &Session) -> Vec<RoleSum> {
    let mut by_role: BTreeMap<&str, Vec<&OperationClass>> = BTreeMap::new();
    for class in &session.operations {
        by_role.entry(&class.role).or_default().push(class);
    }
    let sums = by_role.into_iter().map(|(role, classes)| {
        // Operations of a group are also listed as launches. They count once.
        let single = || classes.iter().filter(|class| !class.launches);
        let bytes: Option<u64> = single().map(|class| class.bytes.value).sum();
        let no_transfer = classes.iter().find(|class| {
            let counts = class.operations > class.shared && class.members > 1;
            counts && class.transfer_ns.value.is_none()
        });
        let known = session.communicators.iter().filter(|known| known.role == role);
        RoleSum {
            role: role.to_owned(),
            communicators: known.count() as u32,
            operations: single().map(|class| class.operations).sum(),
            failed: single().map(|class| class.failed).sum(),
            bytes: bytes.map_or_else(
                || Figure::unknown("sizes of some operations are unknown"),
                Figure::known,
            ),
            exposed_wait_rank_ns: classes.iter().map(|class| class.exposed_wait_rank_ns).sum(),
            hidden_wait_rank_ns: classes.iter().map(|class| class.hidden_wait_rank_ns).sum(),
            transfer_ns: match no_transfer {
                Some(class) => Figure::unknown(class.transfer_ns.get().err().unwrap_or("unknown")),
                None => Figure::known(
                    classes
                        .iter()
                        .filter_map(|class| class.transfer_ns.value.as_ref())
                        .map(|quantiles| quantiles.sum.round() as i64)
                        .sum(),
                ),
            },
        }
    });
    sums.collect()
}
