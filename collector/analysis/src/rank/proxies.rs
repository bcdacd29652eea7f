//! Data that NCCL's proxies moved, by communicator, peer and direction.

use super::context::LogContext;
use super::event::{Stamp, Traffic};
use crate::intervals::counted::CountedTime;
use crate::intervals::length;
use rankscope_formats::ids::{CommunicatorId, MemberIndex};
use rankscope_ranklog::record::ProxyWaits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of stored intervals of proxy activity per peer.
const MAX_INTERVALS: usize = 256;

/// Data moved by NCCL's proxies in one direction between two ranks, and the waits of their steps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TrafficSums {
    /// Number of proxy operations.
    pub works: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Time in which at least one of them was active, in nanoseconds.
    pub busy_ns: i64,
    /// Waits of their steps for the device, the peer and the network, in nanoseconds. Steps overlap.
    pub waited_ns: [i64; 3],
}

/// One direction of traffic with a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Direction {
    communicator: CommunicatorId,
    peer: MemberIndex,
    is_receive: bool,
}

/// The proxies of one rank.
#[derive(Default)]
pub struct Proxies {
    active: BTreeMap<Direction, CountedTime>,
    /// By communicator of the session and peer in it: sent, then received.
    pub sums: BTreeMap<(CommunicatorId, MemberIndex), [TrafficSums; 2]>,
}

impl Proxies {
    /// Adds the work of a proxy.
    pub fn moved(&mut self, traffic: &Traffic, stamp: &Stamp, context: &LogContext<'_>) {
        if context.is_outside(stamp.enter_ns) {
            return;
        }
        let communicator = context.communicator(traffic.communicator).index;
        let Ok(peer) = u32::try_from(traffic.peer).map(MemberIndex) else {
            return;
        };
        let is_receive = traffic.is_receive;
        let direction = Direction {
            communicator,
            peer,
            is_receive,
        };
        let mut newly = Vec::new();
        self.active
            .entry(direction)
            .or_insert_with(|| CountedTime::new(MAX_INTERVALS))
            .add(stamp.interval(), &mut newly);
        let sums = &mut self.sums.entry((communicator, peer)).or_default()[usize::from(is_receive)];
        sums.works += 1;
        sums.bytes = sums.bytes.saturating_add(traffic.bytes);
        sums.busy_ns += length(&newly);
        let waits = [traffic.waits.device, traffic.waits.peer, traffic.waits.network];
        for (sum, units) in sums.waited_ns.iter_mut().zip(waits) {
            let ticks = u64::from(units) * ProxyWaits::UNIT_TICKS;
            *sum = sum.saturating_add(context.line.duration_ns(ticks));
        }
    }
}
