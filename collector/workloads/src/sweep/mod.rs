//! `rankscope bench`: a sweep over operations and sizes, and messages between all pairs.

mod measure;
mod pairs;
mod plan;

pub use plan::{PairPlan, Plan, sizes};

use crate::backend::Backend;
use crate::case::{Case, Pattern};
use crate::star::Star;
use crate::world::World;
use anyhow::Result;
use rankscope_formats::bench::{BENCH_VERSION, BenchPeak, BenchResults, BenchSettings, Placement};
use rankscope_formats::session::Scope;
use rankscope_ranklog::process;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the sweep. All ranks must call it with the same plan. Rank 0 calls `on_row` after each row with the results so far.
pub fn run(
    backend: &mut dyn Backend,
    world: &World,
    star: &mut Star,
    plan: &Plan,
    on_row: &mut dyn FnMut(&BenchResults) -> Result<()>,
) -> Result<BenchResults> {
    let mut results = begin(backend, star, plan)?;
    for &pattern in &plan.patterns {
        let mut measured = BTreeSet::new();
        for &size in &plan.sizes {
            for &placement in &plan.placements {
                let case = Case::of_size(pattern, plan.data_type, size, world.size, placement);
                // Several small sizes may become the same smallest case.
                let is_known = !measured.insert((case.elements, placement == Placement::InPlace));
                let is_impossible = placement == Placement::InPlace && case.in_place_offsets(0).is_none();
                if is_known || is_impossible {
                    continue;
                }
                if let Some(reason) = backend.why_not(&case) {
                    note(&mut results, &format!("{}: {reason}", pattern.name()));
                    continue;
                }
                if pattern == Pattern::SendReceive && world.size < 2 {
                    note(&mut results, "send-receive: it needs two ranks");
                    continue;
                }
                let row = measure::row(backend, world, star, plan, &case)?;
                results.rows.push(row);
                results.peak = peak(&results);
                if world.rank == 0 {
                    on_row(&results)?;
                }
            }
        }
    }
    if let Some(pairs) = &plan.pairs {
        results.pairs = pairs::all(backend, world, star, pairs)?;
    }
    results.is_complete = true;
    star.barrier()?;
    Ok(results)
}

fn note(results: &mut BenchResults, problem: &str) {
    if !results.problems.iter().any(|known| known == problem) {
        results.problems.push(problem.to_owned());
    }
}

fn begin(backend: &dyn Backend, star: &mut Star, plan: &Plan) -> Result<BenchResults> {
    let own = format!("{}\n{}", machine(), process::host_name());
    let all = star.exchange(own.as_bytes())?;
    let texts: Vec<_> = all
        .iter()
        .map(|message| String::from_utf8_lossy(message))
        .collect();
    // Containers of one machine have different names, and different machines may have the same one.
    let (machines, hosts): (Vec<_>, Vec<_>) = texts.iter().filter_map(|text| text.split_once('\n')).unzip();
    Ok(BenchResults {
        version: BENCH_VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() as i64),
        is_complete: false,
        library: backend.library(),
        ranks: hosts.len() as u32,
        scope: scope(&machines),
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        data_type: plan.data_type.name().to_owned(),
        settings: BenchSettings {
            blocks: plan.blocks,
            most_iterations: plan.most_iterations,
            warmup_iterations: plan.warmup_iterations,
            settling_iterations: measure::SETTLING,
            row_limit_ms: plan.row_limit.as_millis() as u64,
            is_recorded: plan.is_recorded,
        },
        rows: Vec::new(),
        pairs: Vec::new(),
        peak: None,
        problems: Vec::new(),
    })
}

/// Returns what identifies this machine for the analysis: boot id and time namespace.
fn machine() -> String {
    let properties = process::properties();
    let of = |name: &str| {
        let found = properties.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    };
    format!("{} {}", of("boot_id"), of("time_namespace"))
}

/// Returns the location of ranks on these machines, as the analysis classifies communicators.
fn scope(machines: &[&str]) -> Scope {
    let different = machines.iter().collect::<BTreeSet<_>>().len();
    if different <= 1 {
        Scope::InsideHost
    } else if different == machines.len() {
        Scope::AcrossHosts
    } else {
        Scope::Mixed
    }
}

/// Operations whose bus bandwidth shows the path: every rank waits for every other, so none runs ahead.
const OF_THE_PATH: [Pattern; 4] = [
    Pattern::AllReduce,
    Pattern::AllGather,
    Pattern::ReduceScatter,
    Pattern::AllToAll,
];

/// Returns the operation with the highest bus bandwidth. Wrong results do not count.
fn peak(results: &BenchResults) -> Option<BenchPeak> {
    let best = results
        .rows
        .iter()
        .filter(|row| {
            let is_of_the_path = OF_THE_PATH.iter().any(|pattern| pattern.name() == row.operation);
            is_of_the_path && row.wrong_elements.unwrap_or(0) == 0
        })
        .filter_map(|row| Some((row, row.bus_bytes_per_s?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(BenchPeak {
        bus_bytes_per_s: best.1,
        bus_row: format!("{} of {} bytes", best.0.operation, best.0.size_bytes),
        small_transfer_p99_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_machines() {
        assert_eq!(scope(&["a", "a"]), Scope::InsideHost);
        assert_eq!(scope(&["a", "b"]), Scope::AcrossHosts);
        assert_eq!(scope(&["a", "a", "b", "b"]), Scope::Mixed);
    }
}
