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
    let hosts: Vec<String> = star
        .exchange(host_name().as_bytes())?
        .iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    Ok(BenchResults {
        version: BENCH_VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() as i64),
        is_complete: false,
        library: backend.library(),
        ranks: hosts.len() as u32,
        scope: scope(&hosts),
        hosts,
        data_type: plan.data_type.name().to_owned(),
        settings: BenchSettings {
            blocks: plan.blocks,
            most_iterations: plan.most_iterations,
            warmup_iterations: plan.warmup_iterations,
            row_limit_ms: plan.row_limit.as_millis() as u64,
            is_recorded: std::env::var_os("RANKSCOPE_DIR").is_some(),
        },
        rows: Vec::new(),
        pairs: Vec::new(),
        peak: None,
        problems: Vec::new(),
    })
}

/// Returns the location of ranks on these hosts, as the analysis classifies communicators.
fn scope(hosts: &[String]) -> Scope {
    let different = hosts.iter().collect::<BTreeSet<_>>().len();
    if different <= 1 {
        Scope::InsideHost
    } else if different == hosts.len() {
        Scope::AcrossHosts
    } else {
        Scope::Mixed
    }
}

/// Operations whose bus bandwidth shows the path: each rank waits for each, so that none runs ahead.
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

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for its length minus one, so that it ends with a null.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0 {
        return "unknown".to_owned();
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_hosts() {
        let of = |names: &[&str]| scope(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["a", "a"]), Scope::InsideHost);
        assert_eq!(of(&["a", "b"]), Scope::AcrossHosts);
        assert_eq!(of(&["a", "a", "b", "b"]), Scope::Mixed);
    }
}
