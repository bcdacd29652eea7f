//! Summaries of runs of a small model of a job with known changes and noise.
#![allow(dead_code, reason = "each test and example uses its part")]

use rankscope_compare::Run;
use rankscope_compare::metrics::{
    EXPOSED_TRANSFER, EXPOSED_WAIT, HOST_TIME, LATENESS, OPERATION_TRANSFER, OPERATION_WAIT, OTHER_BLOCKED,
    STEP_TIME,
};
use rankscope_compare::summarise::{OUTLIER_RULE, WARM_UP_RULE};
use rankscope_formats::comparison::{
    CommunicatorsOfRun, Mean, Measured, OperationOfRun, RankOfRun, RunName, RunSummary, StepsUsed, Value,
    WorldOfRun,
};
use rankscope_formats::session::Scope;
use rankscope_formats::session::{Figure, Surrounding, Tool};

/// Pseudo-random numbers that are the same on every machine: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Parts of a job's step, and how much its runs differ.
#[derive(Clone, Debug)]
pub struct Job {
    pub ranks: u32,
    pub steps: u64,
    /// Mean host time of a step, in nanoseconds. The next three fields are further parts of the mean step.
    pub host_ns: f64,
    pub wait_ns: f64,
    pub transfer_ns: f64,
    pub other_ns: f64,
    /// One standard deviation between runs, as a share of each part.
    pub noise: f64,
    /// A rank and the additional time that it takes, in nanoseconds.
    pub late: Option<(u32, f64)>,
    /// Operations: class, number per step, bytes of each.
    pub operations: Vec<(String, f64, f64)>,
    /// Nanoseconds added to the means over all steps, as the outliers of a run do.
    pub outliers_ns: f64,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            ranks: 4,
            steps: 100,
            host_ns: 80e6,
            wait_ns: 8e6,
            transfer_ns: 10e6,
            other_ns: 2e6,
            noise: 0.002,
            late: None,
            operations: vec![(
                "all-reduce 1-2 MiB world inside-host".to_owned(),
                4.0,
                1_500_000.0,
            )],
            outliers_ns: 0.0,
        }
    }
}

/// Returns a measured value with the variance of the blocks of its steps.
pub fn measured(metric: &str, subject: Option<&str>, all: f64, without: f64, noise: f64) -> Measured {
    let mean = |mean: f64| Mean {
        mean,
        variance: Some((noise * mean).powi(2) / 4.0),
        blocks: 20,
    };
    Measured {
        metric: metric.to_owned(),
        subject: subject.map(str::to_owned),
        value: Figure::known(Value {
            all: mean(all),
            without_outliers: mean(without),
        }),
        quantiles: Some([0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.5].map(|factor| factor * all)),
    }
}

impl Job {
    /// Returns a run of this job that started `minute` minutes after the first.
    pub fn run(&self, random: &mut Random, minute: i64) -> Run {
        let mut vary = |ns: f64| ns * (1.0 + self.noise * random.normal());
        let parts = [
            vary(self.host_ns),
            vary(self.wait_ns),
            vary(self.transfer_ns),
            vary(self.other_ns),
        ];
        let mut ranks = Vec::new();
        let mut metrics = Vec::new();
        for number in 0..self.ranks {
            let late = self
                .late
                .filter(|(rank, _)| *rank == number)
                .map_or(0.0, |(_, ns)| ns);
            let own = vary(parts[0]) + late;
            let wait = (parts[1] + self.late.map_or(0.0, |(_, ns)| ns) - late).max(0.0);
            let of_rank = [own, wait, parts[2], parts[3]];
            ranks.push(RankOfRun {
                number,
                host: 0,
                steps: self.steps,
                parts_ns: of_rank
                    .iter()
                    .map(|ns| (ns * self.steps as f64).round() as i64)
                    .collect(),
            });
            let lateness = late + vary(1e5);
            metrics.push(measured(
                LATENESS,
                Some(&format!("rank {number}")),
                lateness,
                lateness,
                self.noise,
            ));
        }
        let mean = |part: usize| {
            let sum: i64 = ranks.iter().map(|rank| rank.parts_ns[part]).sum();
            sum as f64 / self.steps as f64 / f64::from(self.ranks)
        };
        let means = [0, 1, 2, 3].map(mean);
        let step: f64 = means.iter().sum();
        let mut of_steps = vec![measured(
            STEP_TIME,
            None,
            step + self.outliers_ns,
            step,
            self.noise,
        )];
        for (metric, ns) in [HOST_TIME, EXPOSED_WAIT, EXPOSED_TRANSFER, OTHER_BLOCKED]
            .into_iter()
            .zip(means)
        {
            of_steps.push(measured(metric, None, ns, ns, self.noise));
        }
        let classes = self.operations.len().max(1) as f64;
        for (class, _, _) in &self.operations {
            of_steps.push(measured(
                OPERATION_WAIT,
                Some(class),
                means[1] / classes,
                means[1] / classes,
                self.noise,
            ));
            of_steps.push(measured(
                OPERATION_TRANSFER,
                Some(class),
                means[2] / classes,
                means[2] / classes,
                self.noise,
            ));
        }
        of_steps.extend(metrics);
        Run {
            summary: RunSummary {
                tool: Tool {
                    name: "rankscope".to_owned(),
                    version: "0.1.0".to_owned(),
                },
                run: RunName {
                    id: format!("{:016x}", random.next()),
                    directory: format!("run-{minute}"),
                    started_unix_ns: 1_700_000_000_000_000_000 + minute * 60_000_000_000,
                    duration_ns: 20_000_000_000,
                },
                kind: "host".to_owned(),
                surroundings: vec![Surrounding {
                    property: "processor_model".to_owned(),
                    value: "a processor".to_owned(),
                    ranks: self.ranks,
                }],
                world: WorldOfRun {
                    worlds: 1,
                    size: self.ranks,
                    ranks_seen: self.ranks,
                    hosts: vec!["host".to_owned()],
                    crowded_hosts: 0,
                    records: 10_000,
                    lost: 0,
                    failed: 0,
                },
                steps: StepsUsed {
                    source: "pattern".to_owned(),
                    reason: None,
                    train: self.steps + 10,
                    partial: 0,
                    evaluate: 0,
                    checkpoint: 0,
                    warm_up_rule: WARM_UP_RULE.to_owned(),
                    warm_up: 10,
                    counted: self.steps,
                    outlier_rule: OUTLIER_RULE.to_owned(),
                    outliers: 0,
                    sequence: Some("00000000000000aa".to_owned()),
                },
                parts: ["host", "exposed-wait", "exposed-transfer", "other-blocked"]
                    .map(str::to_owned)
                    .to_vec(),
                ranks,
                metrics: of_steps,
                operations: self
                    .operations
                    .iter()
                    .map(|(class, count, bytes)| OperationOfRun {
                        class: class.clone(),
                        operation: class.split(' ').next().unwrap_or_default().to_owned(),
                        role: "world".to_owned(),
                        scope: Scope::InsideHost,
                        size_from_bytes: Some(1 << 20),
                        instances_per_step: *count,
                        bytes_per_step: count * bytes,
                    })
                    .collect(),
                communicators: vec![CommunicatorsOfRun {
                    library: "gloo".to_owned(),
                    role: "world".to_owned(),
                    scope: Scope::InsideHost,
                    size: self.ranks,
                    count: 1,
                }],
                findings: Vec::new(),
            },
            worst_steps: Vec::new(),
            entry: None,
        }
    }
}

/// Returns runs of two jobs, recorded in turns ABBA.
pub fn in_turns(base: &Job, new: &Job, runs: usize, seed: u64) -> (Vec<Run>, Vec<Run>) {
    let mut random = Random(seed);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for at in 0..runs as i64 {
        let (a, b) = if at % 2 == 0 {
            (2 * at, 2 * at + 1)
        } else {
            (2 * at + 1, 2 * at)
        };
        first.push(base.run(&mut random, a));
        second.push(new.run(&mut random, b));
    }
    (first, second)
}
