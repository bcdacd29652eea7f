//! Writes the rank logs of a synthetic training on GPUs as a recorder with CUPTI writes them: `synthetic_kernels
//! DIRECTORY WORKS [RANKS]`.
//!
//! A step has 250 kernels of 60 names, a copy, a set, and four all-reduces on a separate stream. Kernels take 4 to 200
//! µs and start 2 to 6 µs after each other. CUPTI delivers its records twice a second: first the calls of that period,
//! then the works.

#[path = "../tests/support/mod.rs"]
pub mod support;

use rankscope_ranklog::activity::{Activity, Coverage, HostCall, LinkedTo, Work};
use rankscope_ranklog::definition::{KIND_STREAM, KIND_TEXT, Payload, Stream};
use rankscope_ranklog::record::{Enqueued, FLAG_DIRECT, NO_PEER, Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use support::{START, SyntheticLog};

const KERNELS: u64 = 250;
const NAMES: u64 = 60;
const REDUCES: u64 = 4;
/// Number of works in a step.
const WORKS: u64 = KERNELS + REDUCES + 2;
const FLUSH_NS: u64 = 500_000_000;
/// Lane of the launching thread and lane of the recorder's own thread.
const LANES: (u32, u32) = (0, 1);
const THREAD: u32 = 100;

/// Reproducible pseudo-random numbers (xorshift).
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn call(start: u64, length: u64, correlation: u64, function: u32) -> Record {
    let call = HostCall {
        start_ticks: start,
        end_ticks: start + length,
        thread: THREAD,
        correlation: correlation as u32,
        function,
        is_runtime: true,
        has_failed: false,
    };
    Activity::Call { call, waits: false }.to_record()
}

fn work(start: u64, length: u64, stream: u32, correlation: u64) -> Work {
    Work {
        start_ticks: start,
        end_ticks: start + length,
        stream,
        correlation: correlation as u32,
        graph_node: 0,
    }
}

fn kernel(work: Work, name: u64) -> Record {
    let size = |choices: u64| 1u32 << (name % choices);
    let kernel = Activity::Kernel {
        work,
        name: (1 << 16) + name as i32,
        grid: [size(13) * 3, size(3), 1],
        block: [32 << (name % 6), 1, 1],
        graph: 0,
    };
    kernel.to_record()
}

/// Writes the log of one rank.
pub fn write(directory: &Path, rank: u32, ranks: u32, steps: u64) -> io::Result<()> {
    let mut log = SyntheticLog::create(directory, rank, ranks, "node")?;
    log.property("source.cupti", "130500")?;
    log.communicator_of(Library::Nccl, 0, rank, ranks, 7)?;
    log.definition(
        KIND_TEXT,
        Payload::text(
            (1 << 16) + NAMES as u32,
            b"ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        ),
    )?;
    for name in 0..NAMES {
        let text = format!(
            "_ZN2at6native{:05}vectorized_elementwise_kernelILi4E{name}EEvi",
            20 + name
        );
        log.definition(KIND_TEXT, Payload::text((1 << 16) + name as u32, text.as_bytes()))?;
    }
    for (index, number) in [(0, 7), (1, 23)] {
        let stream = Stream {
            index,
            device: 0,
            context: 1,
            number,
        };
        log.definition(KIND_STREAM, Payload::stream(stream))?;
    }
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15 ^ u64::from(rank + 1));
    // Records that CUPTI holds until the next flush: links and calls, then works.
    let (mut calls, mut works): (Vec<Record>, Vec<Record>) = (Vec::new(), Vec::new());
    let (mut host, mut device, mut correlation, mut sequence) = (START, START + 20_000, 1u64, 0u32);
    let mut flushed = START;
    for _ in 0..steps {
        let begun = device.max(host);
        host = begun;
        device = begun + 10_000;
        let mut reduced = begun;
        for at in 0..WORKS {
            correlation += 1 + noise.below(3);
            host += 2_500 + noise.below(1_500);
            if at % (WORKS / REDUCES) == WORKS / REDUCES - 1 {
                // Starts once both ranks have arrived. In this model that is after the preceding computation.
                let enter = host;
                calls.push(call(enter + 3_000, 4_000, correlation, 430));
                calls.push(
                    Activity::Link {
                        correlation: correlation as u32,
                        to: LinkedTo::Call {
                            communicator: 0,
                            operation: Operation::AllReduce as u8,
                            sequence,
                            peer: NO_PEER,
                        },
                        near_ticks: enter + 7_000,
                    }
                    .to_record(),
                );
                log.push(
                    LANES.0,
                    Record {
                        operation: Operation::AllReduce as u8,
                        flags: FLAG_DIRECT,
                        element_bytes: 4,
                        enter_ticks: enter,
                        leave_ticks: enter + 9_000,
                        bytes: 25 << 20,
                        object: 0x5000,
                        communicator: 0,
                        sequence,
                        aux: Enqueued {
                            data_type: 7,
                            is_linked: true,
                            ..Enqueued::default()
                        }
                        .to_aux(),
                        ..Record::new(RecordKind::Enqueue)
                    },
                );
                host += 9_000;
                let start = device.max(reduced).max(enter + 8_000);
                let length = 400_000 + noise.below(200_000);
                works.push(kernel(work(start, length, 1, correlation), NAMES));
                reduced = start + length;
                sequence += 1;
                continue;
            }
            let launch = host;
            host += 2_000 + noise.below(1_000);
            let start = (device + 2_000 + noise.below(4_000)).max(launch + 4_000 + noise.below(1_000));
            let most = 1 << (6 + noise.below(12));
            let length = 4_000 + noise.below(most);
            device = start + length;
            match at {
                0 => {
                    calls.push(call(launch, 5_000, correlation, 41));
                    let copied = Activity::Copy {
                        work: work(start, length, 0, correlation),
                        bytes: 1 << 20,
                        direction: 1,
                        peer_device: -1,
                    };
                    works.push(copied.to_record());
                }
                1 => {
                    calls.push(call(launch, 3_000, correlation, 51));
                    let work = work(start, length, 0, correlation);
                    works.push(Activity::Set { work, bytes: 1 << 20 }.to_record());
                }
                _ => {
                    calls.push(call(launch, 2_000 + noise.below(1_000), correlation, 211));
                    works.push(kernel(work(start, length, 0, correlation), at * 7 % NAMES));
                }
            }
        }
        device = device.max(reduced);
        if device - flushed >= FLUSH_NS {
            let count = works.len() as u64;
            for record in calls.drain(..).chain(works.drain(..)) {
                log.push(LANES.1, record);
            }
            let covered = Activity::Covered {
                start_ticks: flushed,
                end_ticks: device,
                coverage: Coverage::All,
                works: count,
            };
            log.push(LANES.1, covered.to_record());
            flushed = device;
            log.flush(device)?;
        }
    }
    for record in calls.drain(..).chain(works.drain(..)) {
        log.push(LANES.1, record);
    }
    let covered = Activity::Covered {
        start_ticks: flushed,
        end_ticks: device,
        coverage: Coverage::All,
        works: 0,
    };
    log.push(LANES.1, covered.to_record());
    log.end()?;
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(works)) = (
        arguments.next().map(PathBuf::from),
        arguments.next().and_then(|text| text.parse::<u64>().ok()),
    ) else {
        eprintln!("usage: synthetic_kernels DIRECTORY WORKS [RANKS]");
        return ExitCode::from(2);
    };
    let ranks: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2);
    let steps = (works / u64::from(ranks) / WORKS).max(1);
    let mut bytes = 0;
    for rank in 0..ranks {
        if let Err(error) = write(&directory, rank, ranks, steps) {
            eprintln!("{}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
        let path = directory.join(format!("rank-{rank}.rslog"));
        bytes += std::fs::metadata(path).map_or(0, |meta| meta.len());
    }
    let works = steps * WORKS * u64::from(ranks);
    println!(
        "{works} works of {ranks} ranks in {}: {:.2} bytes each, with their launches, links and operations",
        directory.display(),
        bytes as f64 / works as f64
    );
    ExitCode::SUCCESS
}
