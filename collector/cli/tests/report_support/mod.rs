//! Made-up sessions as the collector would write them: any number of ranks, one of them slow or none.

#![allow(dead_code, reason = "each test uses its part")]

use rankscope_analysis::model::declared::{DeclaredLimits, latency_limit};
use rankscope_analysis::summary::scorecard::scorecard;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::AxisMethod;
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::Scope;
use rankscope_formats::session::Severity;
use rankscope_formats::session::Window;
use rankscope_formats::session::*;
use rankscope_ranklog::Operation;

const MS: i64 = 1_000_000;
const STEP: i64 = 100 * MS;

/// Properties of a made-up job.
#[derive(Clone, Copy)]
pub struct Job {
    /// Number of ranks of the world.
    pub ranks: u32,
    /// Number of steps.
    pub steps: u64,
    /// Slow rank, if any.
    pub slow: Option<u32>,
    /// Number of hosts over which the ranks are spread.
    pub hosts: u32,
}

impl Job {
    /// Returns a job without faults.
    pub fn new(ranks: u32, steps: u64) -> Self {
        Self {
            ranks,
            steps,
            slow: None,
            hosts: 1,
        }
    }

    /// Returns the job's session.
    pub fn session(self) -> Session {
        let ranks: Vec<u32> = (0..self.ranks).collect();
        let per_host = self.ranks.div_ceil(self.hosts);
        let end = self.steps as i64 * self.step_ns() + 2_000 * MS;
        let wait = |rank, step| self.wait_ns(rank, step);
        let total_wait: i64 = ranks
            .iter()
            .map(|&rank| (0..self.steps).map(|step| wait(rank, step)).sum::<i64>())
            .sum();
        let operations = u64::from(self.ranks) * self.steps * 9;
        let mut session = Session {
            version: SESSION_VERSION,
            tool: Tool {
                name: "rankscope".into(),
                version: "0.1.0".into(),
            },
            written_unix_ns: 1_795_255_300_000_000_000,
            directories: vec!["/scratch/runs/resnet".into()],
            surroundings: Vec::new(),
            axis: Axis {
                origin_unix_ns: 1_795_255_201_000_000_000,
                start_ns: 0,
                end_ns: end,
                error_between_hosts_ns: if self.hosts == 1 {
                    Figure::known(0)
                } else {
                    Figure::unknown("the clock of host node1 was not synchronised")
                },
                error_inside_host_ns: 180,
                method: if self.hosts == 1 {
                    AxisMethod::OneHost
                } else {
                    AxisMethod::Realtime
                },
                evidence: None,
            },
            coverage: Coverage {
                ranks_seen: self.ranks,
                ranks_expected: Figure::known(self.ranks),
                missing: vec![],
                advice: None,
                logs_without_rank: 0,
                ranks_not_closed: 0,
            },
            attempts: vec![Attempt {
                run_id: None,
                restart: 0,
                start_ns: 0,
                end_ns: end,
                lost_before_ns: None,
                worlds: vec![0],
            }],
            worlds: vec![World {
                attempt: 0,
                size: self.ranks,
                ranks: ranks.clone(),
                communicator: Some(0),
                source: "communicator".into(),
            }],
            hosts: (0..self.hosts)
                .map(|host| Host {
                    name: format!("node{host}"),
                    boot_id: Some(format!("boot-{host}")),
                    time_namespace: Some("4026531834".into()),
                    counter: "tsc".into(),
                    ticks_per_second: Figure::known(2_600_000_123.0),
                    calibrations: 24,
                    error_ns: 180,
                    realtime_error_ns: Figure::unknown("not synchronised"),
                    counter_distrusted: false,
                    ranks: ranks
                        .iter()
                        .copied()
                        .filter(|rank| rank / per_host == host)
                        .collect(),
                })
                .collect(),
            ranks: ranks
                .iter()
                .map(|&rank| self.rank(rank, rank / per_host, end))
                .collect(),
            communicators: vec![CommunicatorSummary {
                index: 0,
                library: "gloo".into(),
                identity: "9f86d081884c7d659a2feaa0c55ad015".into(),
                identity_source: "key-and-blob".into(),
                size: self.ranks,
                members: ranks.iter().map(|&rank| Some(rank)).collect(),
                name: "default_pg/0//0//0".into(),
                role: "world".into(),
                role_source: "size".into(),
                scope: if self.hosts == 1 {
                    Scope::InsideHost
                } else {
                    Scope::AcrossHosts
                },
                world: Some(0),
                created_ns: 40 * MS,
                operations,
            }],
            structure: Vec::new(),
            totals: Totals {
                operations,
                instances: self.steps * 9,
                bytes: operations * 3_200_000,
                exposed_wait_rank_ns: total_wait,
                records: operations * 2 + 1_000,
                ..Totals::default()
            },
            operations: self.operations(total_wait),
            connect: Connect {
                calls: u64::from(self.ranks),
                failed: 0,
                duration_rank_ns: i64::from(self.ranks) * 38 * MS,
                longest_ns: 52 * MS,
            },
            steps: self.steps_summary(),
            breakdown: ranks.iter().map(|&rank| self.breakdown(rank)).collect(),
            imported: None,
            part: None,
            devices: Vec::new(),
            named_times: Default::default(),
            activity: Vec::new(),
            traffic: Vec::new(),
            waits: self.matrix(),
            blame: self.blame(total_wait),
            findings: self.slow.map(|slow| self.finding(slow)).into_iter().collect(),
            scorecard: None,
            small_launches: vec![SmallLaunches {
                scope: Scope::InsideHost,
                transfer_ns: Self::quantiles(45e3),
            }],
            matching: Matching {
                complete: self.steps * 9,
                ..Matching::default()
            },
            losses: vec![],
            problems: Problems::default(),
            tables: vec![],
        };
        // One entry of each kind, with and without given limits.
        let stated = DeclaredLimits {
            peaks: Vec::new(),
            latency_limits: self
                .slow
                .iter()
                .filter_map(|_| latency_limit("60us").ok())
                .collect(),
        };
        session.scorecard = Some(scorecard(&session, &stated));
        session
    }

    fn step_ns(self) -> i64 {
        if self.slow.is_some() { STEP + 21 * MS } else { STEP }
    }

    /// Returns a reproducible value from 0 to 999 that appears random.
    fn noise(rank: u32, step: u64) -> i64 {
        let mixed = (u64::from(rank) << 32 | step)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29) % 1_000) as i64
    }

    fn delay_ns(self, rank: u32, step: u64) -> i64 {
        let own = Self::noise(rank, step) * 800 - 400_000;
        own + if self.slow == Some(rank) { 20 * MS } else { 0 }
    }

    fn wait_ns(self, rank: u32, step: u64) -> i64 {
        let jitter = Self::noise(rank, step + 7) * 1_500;
        jitter
            + if self.slow.is_none_or(|slow| slow == rank) {
                0
            } else {
                20 * MS
            }
    }

    fn rank(self, rank: u32, host: u32, end: i64) -> Rank {
        Rank {
            index: rank,
            world: Some(0),
            attempt: 0,
            number: Figure::known(rank),
            name: format!("rank {rank}"),
            host,
            pid: 4_000 + rank,
            log: format!("node{host}-{}-00000000000000{rank:02x}.rslog", 4_000 + rank),
            log_bytes: 8_400_000,
            ending: LogEnding::Closed,
            environment_rank: Some(rank),
            environment_agrees: Some(true),
            command_line: Some("python train.py --layers 50 --note '<b>\"quoted\" & odd</b>'".into()),
            start_ns: Figure::known(0),
            end_ns: Figure::known(end),
            records: self.steps * 18,
            operations: self.steps * 9,
            lost: 0,
            in_flight: vec![],
            in_flight_for_ns: None,
        }
    }

    fn quantiles(middle: f64) -> Quantiles {
        Quantiles {
            count: self::count_of_samples(),
            min: middle * 0.7,
            p25: middle * 0.9,
            p50: middle,
            p75: middle * 1.1,
            p90: middle * 1.3,
            p99: middle * 1.9,
            max: middle * 3.0,
            sum: middle * 1_000.0,
            relative_error: 0.01,
        }
    }

    fn operations(self, total_wait: i64) -> Vec<OperationClass> {
        let class = |operation: &str, from: Option<u64>, per_step: u64, transfer_ns: f64, wait: i64| {
            let count = u64::from(self.ranks) * self.steps * per_step;
            OperationClass {
                library: "gloo".into(),
                operation: operation.into(),
                size_from_bytes: from,
                size_below_bytes: from.map(|from| from * 2),
                role: "world".into(),
                scope: Scope::InsideHost,
                members: self.ranks,
                launches: false,
                operations: count,
                shared: 0,
                instances: self.steps * per_step,
                failed: 0,
                bytes: match from {
                    Some(from) => Figure::known(count * from * 3 / 2),
                    None => {
                        Figure::unknown("this version of the library keeps the size where it cannot be read")
                    }
                },
                duration_ns: Figure::known(Self::quantiles(transfer_ns * 1.6)),
                queue_ns: Figure::known(Self::quantiles(30_000.0)),
                exposed_wait_rank_ns: wait,
                hidden_wait_rank_ns: wait / 9,
                wait_is_upper_bound: operation.ends_with("-v"),
                transfer_ns: Figure::known(Self::quantiles(transfer_ns)),
                algorithm_bytes_per_s: Figure::known(Self::quantiles(1.1e9)),
                bus_bytes_per_s: match from {
                    Some(_) if operation == "barrier" => Figure::unknown("a barrier moves no data"),
                    Some(from) => Figure::known(Self::quantiles(from as f64 * 2.25 / transfer_ns * 1e9)),
                    None => {
                        Figure::unknown("this version of the library keeps the size where it cannot be read")
                    }
                },
                effective_bytes_per_s: Figure::known(Self::quantiles(0.8e9)),
                shortest_duration_used: 0,
                bandwidth_invalid: 0,
                classes: ClassCounts {
                    transfer_bound: if self.slow.is_some() { 10 } else { self.steps },
                    skew_bound: if self.slow.is_some() { self.steps } else { 2 },
                    ..ClassCounts::default()
                },
                transfer_bound: TransferBound::default(),
                slowest: None,
                longest_three_in_a_row_ns: Figure::known((transfer_ns * 2.0) as i64),
            }
        };
        vec![
            class("all-reduce", Some(4 << 20), 6, 6.1e6, total_wait * 8 / 10),
            class("all-reduce", Some(512 << 10), 1, 0.8e6, total_wait / 10),
            class("broadcast", Some(64), 1, 45e3, total_wait / 20),
            class("all-gather-v", None, 1, 70e3, total_wait / 20),
        ]
    }

    fn steps_summary(self) -> Steps {
        let mut durations = Self::quantiles(self.step_ns() as f64);
        durations.count = self.steps * u64::from(self.ranks);
        let per_entry = self.steps.div_ceil(512).max(1);
        Steps {
            source: "pattern".into(),
            pattern: Some("6 × all-reduce f32, all-reduce f32, broadcast i64, all-gather-v u8".into()),
            confidence: Figure::known(0.998),
            explained_operations: Figure::known(Ratio {
                numerator: 998,
                denominator: 1_000,
            }),
            count: self.steps,
            other_kinds: 0,
            counted: Vec::new(),
            duration_ns: Figure::known(durations),
            median_ns: Figure::known(self.step_ns()),
            steps_per_entry: per_entry as u32,
            list: (0..self.steps)
                .step_by(per_entry as usize)
                .map(|step| StepSummary {
                    world: 0,
                    step,
                    steps: per_entry.min(self.steps - step) as u32,
                    start_ns: step as i64 * self.step_ns(),
                    end_ns: (step as i64 + 1) * self.step_ns(),
                    duration_ns: self.step_ns() + Self::noise(999, step) * 9_000,
                    exposed_wait_rank_ns: (0..self.ranks).map(|rank| self.wait_ns(rank, step)).sum(),
                    latest_rank: Some(self.slow.unwrap_or(step as u32 % self.ranks)),
                    latest_delay_ns: Some(self.slow.map_or(300_000, |slow| self.delay_ns(slow, step))),
                })
                .collect(),
        }
    }

    fn breakdown(self, rank: u32) -> RankBreakdown {
        let window_ns = self.steps as i64 * self.step_ns();
        let exposed_wait_ns: i64 = (0..self.steps).map(|step| self.wait_ns(rank, step)).sum();
        let transfer = self.steps as i64 * 14 * MS;
        let other_blocked_ns = self.steps as i64 * 900_000;
        let exposed_communication_ns = exposed_wait_ns + transfer;
        RankBreakdown {
            rank,
            window: Window::Steps,
            window_ns,
            steps: self.steps,
            host_ns: window_ns - exposed_communication_ns - other_blocked_ns,
            exposed_communication_ns,
            other_blocked_ns,
            communication_ns: exposed_communication_ns * 2,
            exposed_wait_ns,
            hidden_wait_ns: exposed_wait_ns / 9,
            operations_without_times: 0,
            operations_on_device: 0,
            queued_ns: Figure::known(self.steps as i64 * 2 * MS),
            overlap: if rank == 1 {
                Figure::unknown("of 91 % of the operations only the end was seen on an issuing thread")
            } else {
                Ratio::figure(
                    exposed_communication_ns,
                    exposed_communication_ns * 2,
                    "no communication",
                )
            },
            operations_with_wait_seen: Figure::known(Ratio {
                numerator: 890,
                denominator: 900,
            }),
            training_threads: 1,
            adds_up: true,
        }
    }

    fn matrix(self) -> WaitMatrix {
        let per_column = self.steps.div_ceil(256).max(1);
        let columns: Vec<u64> = (0..self.steps).step_by(per_column as usize).collect();
        let cells = |cell: &dyn Fn(u32, u64) -> i64| -> Vec<Vec<Option<i64>>> {
            let seen = |rank: u32, step: u64| (rank != 3 || step > self.steps / 10).then(|| cell(rank, step));
            (0..self.ranks)
                .map(|rank| columns.iter().map(|&step| seen(rank, step)).collect())
                .collect()
        };
        WaitMatrix {
            ranks: (0..self.ranks).collect(),
            steps: columns.clone(),
            steps_per_column: per_column as u32,
            exposed_wait_ns: cells(&|rank, step| self.wait_ns(rank, step)),
            exposed_communication_ns: cells(&|rank, step| self.wait_ns(rank, step) + 14 * MS),
            own_delay_ns: cells(&|rank, step| self.delay_ns(rank, step)),
            duration_ns: cells(&|_, _| self.step_ns()),
            reason: None,
        }
    }

    fn blame(self, total_wait: i64) -> Blame {
        let mut ranks: Vec<RankBlame> = (0..self.ranks)
            .map(|rank| {
                let share = match self.slow {
                    Some(slow) if slow == rank => 90,
                    Some(_) => 10 / i64::from(self.ranks),
                    None => 100 / i64::from(self.ranks),
                };
                RankBlame {
                    rank,
                    caused_rank_ns: total_wait * share / 90,
                    caused_exposed_rank_ns: total_wait * share / 100,
                    caused_exposed_in_steps_rank_ns: total_wait * share / 110,
                    job_lost_exposed_in_steps_ns: total_wait * share / 330,
                    job_lost_ns: total_wait * share / 300,
                    job_lost_exposed_ns: total_wait * share / 320,
                    last_arrivals: self.steps * 9 * share as u64 / 100,
                    launches: self.steps * 9,
                }
            })
            .collect();
        ranks.sort_by_key(|entry| std::cmp::Reverse(entry.caused_exposed_rank_ns));
        Blame {
            ranks,
            total_rank_ns: total_wait * 10 / 9,
            total_exposed_rank_ns: total_wait,
        }
    }

    fn finding(self, slow: u32) -> Finding {
        let steps = self.steps as i64;
        let cost = 20 * MS * steps;
        Finding {
            subject: Some(format!("rank {slow}")),
            cause: Some(
                "its own work between communications takes longer than that of the other ranks".into(),
            ),
            path: vec![Condition {
                what: "exposed wait that it causes per step".into(),
                value: (20 * MS) as f64,
                is: ">=".into(),
                limit: (self.step_ns() / 50) as f64,
                unit: "ns".into(),
            }],
            look_at: vec![LookAt {
                what: format!("rank {slow} is 20.4 ms late"),
                rank: Some(slow),
                instance: None,
                step: Some(1),
                start_ns: 2_000 * MS,
                end_ns: 2_000 * MS + self.step_ns(),
            }],
            cost_basis: Some("exposed wait for this rank in steps".into()),
            lies_in: vec!["waiting".into()],
            cost_of_run: Figure::known(Ratio {
                numerator: cost,
                denominator: steps * self.step_ns() + 2_000 * MS,
            }),
            evidence: vec![format!(
                "it arrives 20.0 ms after the others (median over {steps} steps)"
            )],
            advice: Some(format!(
                "look at what rank {slow} does between its all-reduces that the others do not"
            )),
            ranks: vec![slow],
            cost_ns: Figure::known(cost),
            cost_of_step: Figure::known(Ratio {
                numerator: 20 * MS,
                denominator: self.step_ns(),
            }),
            lateness: Some(Lateness {
                class: "persistent".into(),
                late_steps: Ratio {
                    numerator: steps - 1,
                    denominator: steps,
                },
                episodes: 1,
                median_delay_ns: 20 * MS,
                latest_of_late_steps: Ratio {
                    numerator: steps * 8,
                    denominator: steps * 9,
                },
                p_value: 3.2e-41,
            }),
            ..Finding::new(
                "late-rank",
                Severity::Critical,
                format!("rank {slow} is late in nearly every step, and the others wait for it"),
            )
        }
    }
}

fn count_of_samples() -> u64 {
    1_000
}

/// Returns a session with everything that the structure of a job can have.
///
/// It has two worlds: one is a pipeline of two stages in two chains, the other has no known structure. It also has
/// groups by role, named parts of most ranks' host time, and the program's counts.
pub fn structured() -> Session {
    let mut session = Job {
        ranks: 4,
        steps: 50,
        slow: None,
        hosts: 2,
    }
    .session();
    session.worlds.push(World {
        attempt: 0,
        size: 2,
        ranks: vec![],
        communicator: None,
        source: "environment".into(),
    });
    let stage = |ranks: [u32; 2], own_rank_ns: i64, bubble_rank_ns: i64| Stage {
        ranks: ranks.into(),
        steps: 50,
        window_rank_ns: 10_000 * MS,
        own_rank_ns,
        bubble_rank_ns,
        bubble: Ratio::figure(bubble_rank_ns, 10_000 * MS, "no steps"),
    };
    for index in 1..=6 {
        session.communicators.push(CommunicatorSummary {
            index,
            size: 2,
            operations: 0,
            ..session.communicators[0].clone()
        });
    }
    let group = |role: &str, source: &str, stride: Option<u32>, communicators: Vec<u32>| RoleGroup {
        role: role.into(),
        role_source: source.into(),
        size: 2,
        stride,
        scope: Scope::AcrossHosts,
        communicators,
    };
    session.structure = vec![
        WorldStructure {
            world: 0,
            groups: vec![
                group("data", "operations", Some(2), vec![1, 2]),
                group("tensor", "name", Some(1), vec![3]),
                group("sub-group", "none", None, vec![4, 5, 6]),
            ],
            peers: vec![vec![0, 2], vec![1, 3]],
            peers_source: "stages".into(),
            pipelines: vec![
                Pipeline {
                    chains: vec![vec![0, 1], vec![2, 3]],
                    micro_batches: Figure::known(8),
                    messages_per_micro_batch: 1,
                    ideal_bubble: Figure::known(Ratio {
                        numerator: 1,
                        denominator: 9,
                    }),
                    imbalance_per_step_ns: Figure::known(3 * MS),
                    stages: vec![
                        stage([0, 2], 8_230 * MS, 1_430 * MS),
                        stage([1, 3], 7_650 * MS, 2_170 * MS),
                    ],
                },
                Pipeline {
                    chains: vec![vec![3, 0]],
                    micro_batches: Figure::unknown("their number differs from step to step"),
                    messages_per_micro_batch: 1,
                    ideal_bubble: Figure::unknown("micro-batches are not known"),
                    imbalance_per_step_ns: Figure::unknown("micro-batches are not known"),
                    stages: [3, 0]
                        .map(|rank| Stage {
                            ranks: vec![rank],
                            steps: 0,
                            window_rank_ns: 0,
                            bubble: Figure::unknown("its messages have no times"),
                            ..stage([0, 0], 0, 0)
                        })
                        .into(),
                },
            ],
            no_pipeline: None,
        },
        WorldStructure {
            world: 1,
            no_pipeline: Some("17 messages go both ways".into()),
            ..WorldStructure::default()
        },
    ];
    let part = |kind: &str, count: u64, elsewhere_ns: i64| NamedPart {
        kind: kind.into(),
        count,
        in_steps_ns: count as i64 * 7 * MS,
        in_run_ns: count as i64 * 9 * MS,
        elsewhere_ns,
    };
    let named = |rank: u32, parts: Vec<NamedPart>| NamedParts {
        rank,
        steps_ns: 5_000 * MS,
        own_ns: 4_000 * MS,
        run_ns: 7_000 * MS,
        parts,
    };
    session.named_times = NamedTimes {
        not_seen: vec![NotSeen {
            kind: "evaluation".into(),
            reason: "no mark of these 4 ranks names it".into(),
        }],
        ranks: vec![
            named(0, vec![part("input", 50, 31 * MS), part("checkpoint", 2, 0)]),
            named(1, vec![part("input", 48, 0)]),
            // The part that another rank names second is first here.
            named(3, vec![part("checkpoint", 1, 0), part("input", 13, 5 * MS)]),
        ],
    };
    session.steps.other_kinds = 3;
    session.steps.counted = vec![Counted {
        what: "tokens".into(),
        source: "marks".into(),
        total: 50 * 131_072,
        per_step: 131_072.0,
        per_second: 1_310_720.4,
        ns_each: 763.2,
        exposed_communication_ns_each: 12.9,
    }];
    session
}

/// Returns a session with every possible fault.
pub fn damaged() -> Session {
    let mut session = Job {
        ranks: 4,
        steps: 3,
        slow: None,
        hosts: 2,
    }
    .session();
    session.coverage.ranks_expected = Figure::known(8);
    session.coverage.missing = [4, 5, 6, 7].map(|number| MissingRank { world: 0, number }).into();
    session.coverage.advice =
        Some("start rankscope run on every node, or forward LD_PRELOAD and RANKSCOPE_DIR to them".into());
    session.coverage.logs_without_rank = 1;
    session.coverage.ranks_not_closed = 1;
    session.ranks[2].ending = LogEnding::Torn;
    session.ranks[2].in_flight = vec!["gloo all-reduce on communicator 0, since 1.20 s".into()];
    session.ranks[2].lost = 40;
    session.totals.lost = 40;
    session.totals.failed = 2;
    session.totals.in_flight = 1;
    session.losses = vec![LossSummary {
        rank: Some(2),
        source: String::new(),
        cause: "no-chunk".into(),
        kind: "call".into(),
        count: 40,
        first_ns: 700 * MS,
        last_ns: 760 * MS,
        advice: "give the live area more room: RANKSCOPE_LIVE_MIB".into(),
    }];
    let reason = "the pattern explains 61 % of the operations; 90 % are needed";
    session.steps.source = "none".into();
    session.steps.count = 0;
    session.steps.list.clear();
    session.steps.duration_ns = Figure::unknown(reason);
    session.steps.confidence = Figure::known(0.61);
    session.waits = WaitMatrix {
        reason: Some(reason.into()),
        ..WaitMatrix::default()
    };
    for entry in &mut session.breakdown {
        entry.window = Window::Run;
    }
    session.breakdown[1].adds_up = false;
    session.matching = Matching {
        complete: 20,
        incomplete: 7,
        mismatched: 1,
        incomplete_reasons: vec![ReasonCount {
            reason: "a member's rank was not seen".into(),
            count: 7,
        }],
        listed: vec![Unmatched {
            kind: "mismatched".into(),
            communicator: 0,
            operation: "all-reduce".into(),
            tag: 3,
            sequence: 17,
            start_ns: 512 * MS,
            ranks: vec![0, 1, 2],
            missing_members: vec![4],
            reason: "rank 1 reduces 4,096 bytes, the others 8,192".into(),
        }],
        ..Matching::default()
    };
    session.findings = vec![Finding {
        evidence: vec![
            "rank 0: all-reduce after 1.20 s: Connection closed by peer [::1]:4242 <reset>".into(),
        ],
        ranks: vec![0],
        cost_ns: Figure::unknown("a failure has no price"),
        cost_of_step: Figure::unknown("there are no steps"),
        ..Finding::new("failed-operations", Severity::Warning, "2 operations failed")
    }];
    session.problems = Problems {
        total: 5,
        listed: vec![ProblemSummary {
            rank: Some(2),
            file: Some("node0-4002-0000000000000002.rslog".into()),
            offset_bytes: Some(812_345),
            what: "the last frame is cut short (120 of 4,096 bytes); all before it was kept".into(),
        }],
    };
    session
}

/// Returns traffic of a measured ring, and a modelled path back to the first rank.
pub fn traffic(session: &Session) -> Vec<TrafficRow> {
    let ranks = session.ranks.len() as u32;
    let row = |from: u32, to: u32, source| TrafficRow {
        communicator: Some(CommunicatorId(0)),
        operation: Operation::AllReduce,
        source,
        route: TrafficRoute::Ring,
        from_member: Some(MemberIndex(from)),
        to_member: Some(MemberIndex(to)),
        from_rank: Some(RankIndex(from)),
        to_rank: Some(RankIndex(to)),
        operations: 10,
        bytes: 1_000_000 + u64::from(from) * 10_000,
        timed_bytes: 900_000,
        transfer_ns: 2_000_000,
        superseded: false,
    };
    (0..ranks)
        .flat_map(|from| {
            [
                row(from, (from + 1) % ranks, TrafficSource::Nested),
                row(from, 0, TrafficSource::Modelled),
            ]
        })
        .collect()
}
