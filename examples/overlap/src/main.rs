//! Compute and communication that overlap by a known amount on two streams of a device. Prints the figures that a
//! profiler should report, as JSON.
//!
//! The kernels spin for a given time by the device's own timer and store their start and end. These times are the
//! truth, in addition to the plan. One kernel has a name like NCCL's own, so that it counts as communication. NCCL
//! itself only creates a communicator of one rank. With it the recorder starts, and the process is a rank.

mod kernels;
mod nccl;
mod options;
mod truth;

use kernels::Kernels;
use options::Options;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};
use truth::Truth;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overlap: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let mut kernels = Kernels::new(&options)?;
    let begun = Instant::now();
    nccl::join_alone(&options.nccl)?;
    let communicator_ms = begun.elapsed().as_millis();
    if let Some(command) = &options.ready {
        // The command is no part of the job.
        let status = Command::new("sh")
            .args(["-c", &format!("({command}) >&2")])
            .env_remove("LD_PRELOAD")
            .status()?;
        if !status.success() {
            return Err(format!("{command}: {status}").into());
        }
    }
    sleep(options.wait);
    for _ in 0..options.rounds {
        kernels.round()?;
        sleep(Duration::from_micros(options.idle_us));
    }
    let truth = Truth::of(&kernels.stamps())?;
    println!(
        "{{\"rounds\":{},\"overlap_percent\":{},\"communicator_ms\":{communicator_ms},\"planned\":{},\"truth\":{}}}",
        options.rounds,
        options.overlap_percent,
        options.planned().to_json(),
        truth.to_json()
    );
    Ok(())
}
