//! Data-parallel training of a small network, with its own all-reduce over TCP.
//!
//! Each process trains on its part of the data. After each backward pass, a ring all-reduce averages the gradients. The program
//! is instrumented with `tracing` and `rankscope-layer` alone:
//!
//! ```sh
//! rankscope run -- target/release/rust_ddp --ranks 4 --late 2
//! ```
//!
//! Without `rankscope run` it trains in the same way and records nothing.

mod data;
mod model;
mod ring;
mod world;

use anyhow::Result;
use clap::Parser;
use data::Batches;
use model::Model;
use rankscope_layer::Counter;
use ring::Ring;
use std::thread;
use std::time::Duration;
use tracing::{info, info_span};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;
use world::World;

/// Trains a small network on several processes of this machine.
#[derive(Parser)]
struct Options {
    /// Number of processes.
    #[arg(long, default_value_t = 4)]
    ranks: u32,
    /// Number of steps.
    #[arg(long, default_value_t = 60)]
    steps: u64,
    /// Samples per step and process.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// A rank whose input is slow.
    #[arg(long)]
    late: Option<u32>,
    /// Time by which it is late in each step, in milliseconds.
    #[arg(long, default_value_t = 20)]
    late_ms: u64,
}

static LOSS: Counter = Counter::new("loss");

fn main() -> Result<()> {
    let options = Options::parse();
    match World::of_environment()? {
        Some(world) => train(&options, &world),
        None => world::start(options.ranks),
    }
}

fn train(options: &Options, world: &World) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(rankscope_layer::layer().with_filter(filter))
        .init();

    let mut ring = Ring::connect(world)?;
    let mut model = Model::new();
    let mut batches = Batches::of_rank(world.rank);
    let mut loss = 0.0;
    for number in 0..options.steps {
        rankscope_layer::step(number);
        rankscope_layer::count("samples", options.batch as u64);
        let batch = info_span!("load_data", batch = options.batch).in_scope(|| {
            if options.late == Some(world.rank) {
                thread::sleep(Duration::from_millis(options.late_ms));
            }
            batches.next(options.batch)
        });
        let outputs = info_span!("forward").in_scope(|| model.forward(&batch));
        let mut gradients = info_span!("backward").in_scope(|| model.backward(&batch, &outputs));
        ring.all_reduce(&mut gradients.values)?;
        info_span!("optimizer").in_scope(|| model.update(&gradients, world.size));
        loss = gradients.loss(world.size, options.batch);
        LOSS.sample(f64::from(loss));
    }
    info!(loss, "trained");
    if world.rank == 0 {
        println!("{} steps on {} ranks, loss {loss:.4}", options.steps, world.size);
    }
    Ok(())
}
