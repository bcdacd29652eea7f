//! One row: an operation at one size.

use super::Plan;
use crate::backend::{Backend, Prepared};
use crate::case::Case;
use crate::data;
use crate::star::Star;
use crate::world::World;
use anyhow::{Result, anyhow};
use rankscope_formats::bench::{BenchRow, BenchSpread};
use std::time::{Duration, Instant};

/// Operations before the clock of a block starts (`BenchSettings::settling_iterations`).
pub const SETTLING: u32 = 2;

/// Measures a case. As in nccl-tests, the time of a block is its mean over the operations and over the ranks.
pub fn row(
    backend: &mut dyn Backend,
    world: &World,
    star: &mut Star,
    plan: &Plan,
    case: &Case,
) -> Result<BenchRow> {
    let mut prepared = Counted {
        prepared: backend.prepare(case)?,
        calls: 0,
    };
    let prepared = &mut prepared;
    let wrong_elements = check(prepared, world, star, plan, case)?;
    let one = warm_up(prepared, star, plan)?;
    let iterations = plan.iterations(one);
    let mut own = Vec::with_capacity(plan.blocks as usize);
    for _ in 0..plan.blocks {
        star.barrier()?;
        prepared.run(SETTLING)?;
        let start = Instant::now();
        prepared.run(iterations)?;
        own.push(start.elapsed().as_nanos() as f64 / f64::from(iterations));
    }
    let blocks_ns = means(star, &own)?;
    let time_ns = BenchSpread::of(&blocks_ns);
    let size_bytes = case.size_bytes();
    let algorithm = size_bytes as f64 / (time_ns.p50 / 1e9).max(1e-12);
    let factor = case.pattern.operation().bus_factor(case.ranks);
    Ok(BenchRow {
        operation: case.pattern.name().to_owned(),
        size_bytes,
        elements: case.elements,
        placement: case.placement,
        iterations,
        calls: prepared.calls,
        blocks_ns,
        time_ns,
        algorithm_bytes_per_s: algorithm,
        bus_bytes_per_s: factor.map(|factor| algorithm * factor),
        wrong_elements,
    })
}

/// A case that counts its operations.
struct Counted<'a> {
    prepared: Box<dyn Prepared + 'a>,
    calls: u64,
}

impl Counted<'_> {
    fn run(&mut self, iterations: u32) -> Result<()> {
        self.calls += u64::from(iterations);
        self.prepared.run(iterations)
    }
}

/// Runs the operation once, and counts the wrong elements on all ranks.
fn check(
    counted: &mut Counted<'_>,
    world: &World,
    star: &mut Star,
    plan: &Plan,
    case: &Case,
) -> Result<Option<u64>> {
    counted.prepared.fill(&data::input(case, world.rank))?;
    star.barrier()?;
    counted.run(1)?;
    if !plan.is_checked {
        return Ok(None);
    }
    let Some(expected) = data::expected(case, world.rank) else {
        return Ok(None);
    };
    let wrong = data::wrong(case.data_type, &expected, &counted.prepared.output()?);
    let all = numbers(star, &wrong.to_le_bytes())?;
    Ok(Some(
        all.iter().flatten().map(|&bits| u64::from_le_bytes(bits)).sum(),
    ))
}

/// Runs the operation before the measurement. Returns the time of one on the slowest rank, the same on all ranks.
fn warm_up(prepared: &mut Counted<'_>, star: &mut Star, plan: &Plan) -> Result<Duration> {
    let most = plan.warmup_iterations;
    let start = Instant::now();
    prepared.run(1)?;
    // A slow operation is not repeated for seconds.
    let first = slowest(star, start.elapsed())?;
    let rest = plan.iterations(first).min(most) - 1;
    if rest == 0 {
        return Ok(first);
    }
    let start = Instant::now();
    prepared.run(rest)?;
    slowest(star, start.elapsed() / rest)
}

fn slowest(star: &mut Star, own: Duration) -> Result<Duration> {
    let all = numbers(star, &(own.as_nanos() as u64).to_le_bytes())?;
    let most = all.iter().flatten().map(|&bits| u64::from_le_bytes(bits)).max();
    Ok(Duration::from_nanos(most.unwrap_or(0)))
}

/// Returns the mean over the ranks, for each block.
fn means(star: &mut Star, own: &[f64]) -> Result<Vec<f64>> {
    let bytes: Vec<u8> = own.iter().flat_map(|value| value.to_le_bytes()).collect();
    let all = numbers(star, &bytes)?;
    let of_block = |block: usize| {
        all.iter()
            .map(move |rank| f64::from_le_bytes(rank[block]))
            .sum::<f64>()
    };
    Ok((0..own.len())
        .map(|block| of_block(block) / all.len() as f64)
        .collect())
}

/// Exchanges numbers of eight bytes. Returns those of each rank: all send equally many.
pub fn numbers(star: &mut Star, own: &[u8]) -> Result<Vec<Vec<[u8; 8]>>> {
    let all = star.exchange(own)?;
    all.into_iter()
        .map(|message| {
            let (numbers, rest) = message.as_chunks::<8>();
            if message.len() == own.len() && rest.is_empty() {
                Ok(numbers.to_vec())
            } else {
                Err(anyhow!(
                    "the ranks measure different rows: were they started with the same options?"
                ))
            }
        })
        .collect()
}
