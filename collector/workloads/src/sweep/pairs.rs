//! Messages between all pairs of ranks.

use super::PairPlan;
use super::measure::numbers;
use crate::backend::{Backend, Messages};
use crate::star::Star;
use crate::world::World;
use anyhow::Result;
use rankscope_formats::bench::PairRow;
use std::time::{Duration, Instant};

/// Messages before the clock starts. The first one may build a connection.
const WARM_UP: u32 = 2;

/// Measures every pair in both directions, one after the other. The other ranks are idle. Returns the rows on all ranks.
pub fn all(
    backend: &mut dyn Backend,
    world: &World,
    star: &mut Star,
    plan: &PairPlan,
) -> Result<Vec<PairRow>> {
    let mut rows = Vec::new();
    let count = plan.messages;
    for from in 0..world.size {
        for to in (0..world.size).filter(|&to| to != from) {
            let mut own = [0.0; 2];
            star.barrier()?;
            if world.rank == from || world.rank == to {
                let is_sender = world.rank == from;
                let peer = if is_sender { to } else { from };
                let mut small = backend.messages(plan.small_bytes)?;
                round_trips(small.as_mut(), is_sender, peer, WARM_UP)?;
                let time = round_trips(small.as_mut(), is_sender, peer, count)?;
                own[0] = time.as_nanos() as f64 / f64::from(count) / 2.0;
                drop(small);
                let mut large = backend.messages(plan.large_bytes)?;
                stream(large.as_mut(), is_sender, peer, WARM_UP)?;
                // The receiver's clock covers exactly the messages: from the end of the warm-up to the last one.
                let time = stream(large.as_mut(), is_sender, peer, count)?;
                let bytes = plan.large_bytes as f64 * f64::from(count);
                own[1] = bytes / time.as_secs_f64().max(1e-9);
            }
            let message: Vec<u8> = own.iter().flat_map(|value| f64::to_le_bytes(*value)).collect();
            let all = numbers(star, &message)?;
            // The sender measures the latency, and the receiver the bandwidth.
            let value = |rank: u32, at: usize| f64::from_le_bytes(all[rank as usize][at]);
            rows.push(PairRow {
                from,
                to,
                latency_ns: value(from, 0),
                bytes_per_s: value(to, 1),
            });
        }
    }
    Ok(rows)
}

fn round_trips(messages: &mut dyn Messages, is_first: bool, peer: u32, count: u32) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..count {
        if is_first {
            messages.send(peer)?;
            messages.receive(peer)?;
        } else {
            messages.receive(peer)?;
            messages.send(peer)?;
        }
    }
    Ok(start.elapsed())
}

fn stream(messages: &mut dyn Messages, is_sender: bool, peer: u32, count: u32) -> Result<Duration> {
    let start = Instant::now();
    if is_sender {
        messages.send_all(peer, count)?;
    } else {
        messages.receive_all(peer, count)?;
    }
    Ok(start.elapsed())
}
