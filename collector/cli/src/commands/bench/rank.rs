//! One rank of a bench.

use super::options::{BackendName, Bench, Role};
use super::output::Lines;
use super::{choice, conclusion};
use crate::commands::Exit;
use crate::launch::ending::Ending;
use crate::launch::run_directory;
use anyhow::{Context, Result};
use rankscope_formats::bench::BenchResults;
use rankscope_ranklog::place;
use rankscope_workloads::backend::Backend;
use rankscope_workloads::gloo::backend::Gloo;
use rankscope_workloads::nccl::backend::Nccl;
use rankscope_workloads::star::Star;
use rankscope_workloads::world::{World, rendezvous};
use rankscope_workloads::{locals, sweep, thread};
use std::path::Path;

/// Measures as this rank. Rank 0 prints the table and stores the results.
pub fn run(bench: &Bench, world: &World) -> Result<Exit> {
    let is_launched = bench.role == Role::Auto;
    if bench.share_device {
        share_device(world);
    }
    // Only rank 0 stores and compares. An unreadable earlier bench must fail before the measurement.
    let (directory, before) = if world.rank == 0 {
        let directory = run_directory::requested(bench.output.as_deref())?;
        place::make_run_directory(&directory).with_context(|| {
            format!(
                "cannot create {}; name another directory with -o",
                directory.display()
            )
        })?;
        let before = bench.against.as_deref().map(BenchResults::read).transpose()?;
        (Some(directory), before)
    } else {
        (None, None)
    };
    let results = thread::run(|| measure(bench, world, directory.as_deref()))??;
    // The ranks of a launcher have no common starter that could conclude.
    if is_launched && let Some(directory) = directory {
        return conclusion::conclude(
            bench,
            results,
            None,
            &directory,
            before.as_ref(),
            Ending::Status(0),
        );
    }
    Ok(Exit::Fine)
}

/// Makes NCCL take each rank for one on a different host. Otherwise it refuses two ranks on one device.
fn share_device(world: &World) {
    let settings = [
        ("NCCL_HOSTID", format!("rankscope-{}", world.rank)),
        ("NCCL_SOCKET_IFNAME", "lo".to_owned()),
        ("NCCL_NET", "Socket".to_owned()),
        ("NCCL_IB_DISABLE", "1".to_owned()),
        ("NCCL_P2P_DISABLE", "1".to_owned()),
        ("NCCL_SHM_DISABLE", "1".to_owned()),
        ("NCCL_NVLS_ENABLE", "0".to_owned()),
        ("NCCL_MNNVL_ENABLE", "0".to_owned()),
        ("NCCL_RAS_ENABLE", "0".to_owned()),
        ("NCCL_MAX_CTAS", "2".to_owned()),
    ];
    for (name, value) in settings {
        // SAFETY: no other thread of this process exists yet.
        unsafe { std::env::set_var(name, value) };
    }
}

fn measure(bench: &Bench, world: &World, directory: Option<&Path>) -> Result<BenchResults> {
    let chosen = choice::choose(bench)?;
    let is_nccl = chosen.name == BackendName::Nccl.name();
    let plan = bench.plan(is_nccl)?;
    let meeting = if bench.role == Role::Rank {
        locals::meeting()?
    } else {
        rendezvous(bench.rendezvous.as_deref()).map_err(anyhow::Error::msg)?
    };
    let mut star = Star::connect(world, meeting, bench.limit()).context("the ranks could not meet")?;
    let mut backend: Box<dyn Backend> = if is_nccl {
        Box::new(Nccl::connect(&chosen, world, &mut star, bench.limit())?)
    } else {
        Box::new(Gloo::connect(&chosen, world, &mut star, bench.limit())?)
    };
    let mut lines = Lines::new(bench.json);
    let results = sweep::run(backend.as_mut(), world, &mut star, &plan, &mut |results| {
        lines.row(results)?;
        store(results, directory)
    })?;
    if world.rank == 0 {
        lines.end()?;
        store(&results, directory)?;
    }
    Ok(results)
}

fn store(results: &BenchResults, directory: Option<&Path>) -> Result<()> {
    match directory {
        Some(directory) => results
            .write(directory)
            .with_context(|| format!("cannot write the results into {}", directory.display())),
        None => Ok(()),
    }
}
