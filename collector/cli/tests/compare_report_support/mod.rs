//! Comparisons as the program makes them, one for each kind of result.
//!
//! The examples are a slow rank, no change, runs that cannot be compared, an additional operation, a thousand ranks,
//! and one in which everything is odd.

#![allow(dead_code, reason = "each test uses its part")]

use rankscope_compare::metrics;
use rankscope_formats::comparison::DifferenceEffect;
use rankscope_formats::comparison::Verdict;
use rankscope_formats::comparison::{
    Attribution, COMPARISON_VERSION, Change, Comparison, Detectable, Difference, GateResult, Interval,
    Method, MetricResult, NotCompared, OutlierEffect, PartChange, RankChange, RunName, RunUsed, SideSummary,
    StepQuantiles, WorstStep, full_name,
};
use rankscope_formats::comparison::{GateVerdict, MetricVerdict};
use rankscope_formats::session::{Figure, Tool};
use rankscope_report::compare::{Side, StepPicture};

const MS: f64 = 1e6;
/// 2026-03-02 09:30:00 UTC.
const START: i64 = 1_772_443_800_000_000_000;
const RUN: i64 = 95_000_000_000;

/// Returns a comparison that the program printed, if `COMPARISON` names its file, for visual inspection.
pub fn printed() -> Option<Comparison> {
    let file = std::env::var_os("COMPARISON")?;
    let text = std::fs::read_to_string(file).expect("a file");
    Some(serde_json::from_str(&text).expect("what rankscope compare --json prints"))
}

/// Returns all examples by name.
pub fn examples() -> Vec<(&'static str, Comparison)> {
    vec![
        ("slow-rank", slow_rank()),
        ("fine", fine()),
        ("not-comparable", not_comparable()),
        ("added-operation", added_operation()),
        ("large", large()),
        ("odd", odd()),
    ]
}

/// Rank 3 of four is late: the others wait for it, and a step takes 6 % longer.
pub fn slow_rank() -> Comparison {
    let mut comparison = empty();
    comparison.verdict = Verdict::Regressed;
    comparison.exit_status = 1;
    comparison.headline = "Step time rose by 6.1 % (49.8 ms to 52.8 ms), because rank 3 is late: \
        the others wait 2.70 ms longer for it in each step."
        .into();
    comparison.cautions = vec![
        "Each side has its own batch of runs: a drift of the machine between them looks like a change."
            .into(),
    ];
    let base_steps = [49.6, 50.1, 49.7, 49.9, 49.8];
    let new_steps = [52.7, 53.1, 52.5, 52.9, 52.8];
    comparison.base = side("/scratch/runs/ddp-base", &base_steps, 0);
    comparison.new = side("/scratch/runs/ddp-new", &new_steps, 1);
    comparison.metrics = vec![
        metric(
            "step_time",
            None,
            &base_steps,
            &new_steps,
            0.4,
            MetricVerdict::Regressed,
        )
        .declared(),
        metric(
            "exposed_wait",
            None,
            &[3.9, 4.1, 4.0, 4.05, 3.95],
            &[6.6, 6.9, 6.7, 6.75, 6.6],
            0.35,
            MetricVerdict::Regressed,
        )
        .declared(),
        metric(
            "busbw",
            Some(ALL_REDUCE),
            &[10.4e3, 10.2e3, 10.5e3, 10.3e3, 10.4e3],
            &[10.3e3, 10.3e3, 10.4e3, 10.2e3, 10.3e3],
            240.0,
            MetricVerdict::Unchanged,
        )
        .declared(),
        metric(
            "overlap",
            None,
            &[0.62, 0.63, 0.61, 0.62, 0.62],
            &[0.60, 0.62, 0.61, 0.63, 0.60],
            0.02,
            MetricVerdict::Inconclusive,
        )
        .declared()
        .needing(12),
        metric(
            "lateness",
            Some("rank 3"),
            &[0.1, 0.12, 0.09, 0.11, 0.1],
            &[3.2, 3.3, 3.1, 3.25, 3.2],
            0.2,
            MetricVerdict::Regressed,
        ),
        metric(
            "caused_wait",
            Some("rank 3"),
            &[0.8, 0.9, 0.85, 0.8, 0.9],
            &[9.4, 9.8, 9.6, 9.5, 9.5],
            0.5,
            MetricVerdict::Regressed,
        ),
        metric(
            "wait_share",
            None,
            &[0.20, 0.21, 0.20, 0.20, 0.21],
            &[0.31, 0.32, 0.31, 0.32, 0.31],
            0.01,
            MetricVerdict::Regressed,
        ),
        metric(
            "operation_wait",
            Some(ALL_REDUCE),
            &[3.7, 3.8, 3.75, 3.7, 3.8],
            &[6.4, 6.6, 6.5, 6.4, 6.5],
            0.3,
            MetricVerdict::Regressed,
        ),
        metric(
            "copy_time",
            None,
            &[1.30, 1.32, 1.31, 1.30, 1.29],
            &[1.21, 1.20, 1.22, 1.21, 1.20],
            0.03,
            MetricVerdict::Improved,
        ),
        metric(
            "time_to_first_step",
            None,
            &[4_100.0, 5_300.0, 4_600.0, 4_900.0, 4_200.0],
            &[5_200.0, 4_400.0, 5_900.0, 4_800.0, 4_500.0],
            900.0,
            MetricVerdict::Inconclusive,
        )
        .needing(240),
        metric(
            "host_time",
            None,
            &[36.1, 36.0, 36.2, 36.1, 36.0],
            &[36.4, 36.5, 36.3, 36.4, 36.4],
            0.5,
            MetricVerdict::Unchanged,
        )
        .within(0.02),
        metric(
            "operations",
            None,
            &[148.0; 5],
            &[148.0; 5],
            0.0,
            MetricVerdict::Unchanged,
        )
        .within(0.0),
        metric(
            "bytes",
            None,
            &[102.4; 5],
            &[102.4; 5],
            0.0,
            MetricVerdict::Unchanged,
        )
        .within(0.0),
        metric(
            "idle",
            None,
            &[2.1, 2.0, 2.2, 2.1, 2.1],
            &[2.1, 2.1, 2.2, 2.0, 2.1],
            0.04,
            MetricVerdict::Unchanged,
        )
        .within(0.02),
    ];
    comparison.gates = vec![
        gate(
            &comparison,
            "step_time>+2%",
            "step_time",
            0.02,
            GateVerdict::Fail,
            "The whole interval, +5.3 % to +6.9 %, is above the limit.",
            None,
        ),
        gate(
            &comparison,
            "exposed_wait>+25%",
            "exposed_wait",
            0.25,
            GateVerdict::Fail,
            "The whole interval, +60 % to +76 %, is above the limit.",
            None,
        ),
        gate(
            &comparison,
            "busbw[all-reduce 16-32 MiB world inside-host]<-5%",
            &full_name("busbw", Some(ALL_REDUCE)),
            -0.05,
            GateVerdict::Pass,
            "The whole interval, -3.0 % to +1.6 %, is within the limit.",
            None,
        ),
        gate(
            &comparison,
            "overlap<-2%",
            "overlap",
            -0.02,
            GateVerdict::Inconclusive,
            "The limit is inside the interval, -5.2 % to +1.3 %.",
            Some(12),
        ),
    ];
    comparison.detectable = vec![
        detectable("step_time", 1.1 * MS, 0.022),
        detectable("exposed_wait", 0.8 * MS, 0.19),
        detectable(&full_name("busbw", Some(ALL_REDUCE)), -0.45e9, -0.043),
        detectable("overlap", -0.05, -0.08),
    ];
    comparison.attribution = attribution(
        &[
            ("host", 36.1, 36.4),
            ("exposed-wait", 4.0, 6.7),
            ("exposed-transfer", 7.6, 7.62),
            ("other-blocked", 2.1, 2.08),
        ],
        (0..4).map(|rank| match rank {
            3 => rank_change(3, "node-a", &[3.2, -0.3, 0.1, 0.0]),
            _ => rank_change(rank, "node-a", &[-0.66, 3.7, -0.01, -0.03]),
        }),
    );
    comparison.changes = vec![
        change(
            "rank-slower",
            "Rank 3 is late by 3.20 ms in each step; it was by 0.10 ms.",
            Some(2.7),
            Some(true),
        ),
        change(
            "operation-waits",
            "All-reduces of 16-32 MiB wait 2.75 ms longer in each step, for rank 3.",
            Some(2.7),
            Some(true),
        ),
        change(
            "finding-new",
            "New finding: rank 3 (node-a) is late in 1 of 1 episodes: 97 % of the steps.",
            None,
            Some(true),
        ),
        change(
            "environment",
            "OMP_NUM_THREADS was 8 and is 1 on rank 3.",
            None,
            None,
        ),
    ];
    comparison.differences = vec![Difference {
        what: "versions".into(),
        text: "torch is 2.9.0 in the base and 2.9.1 in the new runs.".into(),
        effect: DifferenceEffect::Accepted,
    }];
    comparison.not_compared = vec![NotCompared {
        metric: "kernel_time".into(),
        reason: "no kernels were recorded: --kernels".into(),
    }];
    with_outliers(comparison)
}

/// Nothing changed, and the comparison shows it.
pub fn fine() -> Comparison {
    let mut comparison = slow_rank();
    let base_steps = [49.6, 50.1, 49.7, 49.9, 49.8];
    let new_steps = [49.7, 49.9, 49.8, 50.0, 49.6];
    comparison.verdict = Verdict::Fine;
    comparison.exit_status = 0;
    comparison.headline = "No gated metric is worse: step time changed by 0.0 % ± 0.8 %.".into();
    comparison.cautions.clear();
    comparison.base.label = Some("branch main, commit 3f2a91c, machine a100-8".into());
    for run in &mut comparison.base.runs {
        run.is_stored = true;
        run.worst_steps.clear();
    }
    comparison.new = side("/scratch/runs/ddp-new", &new_steps, 0);
    comparison.method.is_interleaved = true;
    comparison.metrics = vec![
        metric(
            "step_time",
            None,
            &base_steps,
            &new_steps,
            0.4,
            MetricVerdict::Unchanged,
        )
        .within(0.009)
        .declared(),
        metric(
            "host_time",
            None,
            &[36.1, 36.0, 36.2, 36.1, 36.0],
            &[36.1, 36.2, 36.0, 36.1, 36.1],
            0.5,
            MetricVerdict::Unchanged,
        )
        .within(0.02),
    ];
    comparison.gates = vec![gate(
        &comparison,
        "step_time>+2%",
        "step_time",
        0.02,
        GateVerdict::Pass,
        "The whole interval, -0.8 % to +0.8 %, is within the limit.",
        None,
    )];
    comparison.detectable = vec![detectable("step_time", 1.1 * MS, 0.022)];
    comparison.attribution = attribution(
        &[
            ("host", 36.1, 36.1),
            ("exposed-wait", 4.0, 4.02),
            ("exposed-transfer", 7.6, 7.59),
            ("other-blocked", 2.1, 2.1),
        ],
        (0..4).map(|rank| rank_change(rank, "node-a", &[0.0, 0.02, -0.01, 0.0])),
    );
    comparison.changes.clear();
    comparison.differences.clear();
    comparison.not_compared.clear();
    comparison
}

/// Base and new differ in their number of ranks, four and eight: no verdict.
pub fn not_comparable() -> Comparison {
    let mut comparison = empty();
    comparison.verdict = Verdict::Inconclusive;
    comparison.exit_status = 3;
    comparison.headline = "The runs cannot be compared: the base has 4 ranks and the new run 8.".into();
    comparison.reasons = vec![
        "The base has 4 ranks and the new run 8. --accept world-size compares them all the same.".into(),
        "There is one run a side and no stored noise: how much runs differ by themselves is not known."
            .into(),
    ];
    comparison.base = side("/scratch/runs/four", &[49.8], 0);
    comparison.new = side("/scratch/runs/my eight's", &[61.2], 1);
    comparison.method.unit = "none".into();
    comparison.method.noise = "One run a side says nothing about the next one.".into();
    comparison.method.degrees_of_freedom = Figure::unknown("one run a side, and no stored noise");
    comparison.metrics = vec![
        metric(
            "step_time",
            None,
            &[49.8],
            &[61.2],
            0.0,
            MetricVerdict::Inconclusive,
        )
        .declared()
        .without_noise(),
        metric(
            "operations",
            None,
            &[148.0],
            &[148.0],
            0.0,
            MetricVerdict::Inconclusive,
        )
        .without_noise(),
    ];
    comparison.gates = vec![
        gate(
            &comparison,
            "step_time>+2%",
            "step_time",
            0.02,
            GateVerdict::Inconclusive,
            "The runs differ in what they must have in common: world-size.",
            None,
        ),
        gate(
            &comparison,
            "stall_time>+1ms",
            "stall_time",
            0.0,
            GateVerdict::Inconclusive,
            "The metric is not known in the base.",
            None,
        ),
    ];
    comparison.gates[1].limit = Figure::unknown("the base has no stalls: no device was recorded");
    comparison.detectable = vec![Detectable {
        metric: "step_time".into(),
        change: Figure::unknown("no noise is known"),
        relative: Figure::unknown("no noise is known"),
    }];
    comparison.attribution.reason = Some("the sides have other ranks".into());
    comparison.differences = vec![
        Difference {
            what: "world-size".into(),
            text: "The base has 4 ranks, the new run 8.".into(),
            effect: DifferenceEffect::Blocks,
        },
        Difference {
            what: "coverage".into(),
            text: "Of the base 4 of 4 ranks were recorded, of the new run 7 of 8.".into(),
            effect: DifferenceEffect::CannotPass,
        },
    ];
    comparison.not_compared = vec![NotCompared {
        metric: "stall_time".into(),
        reason: "the base has no stalls: no device was recorded".into(),
    }];
    comparison
}

/// A step has one additional all-reduce.
pub fn added_operation() -> Comparison {
    let mut comparison = slow_rank();
    let base_steps = [49.6, 50.1, 49.7];
    let new_steps = [51.9, 52.3, 51.8];
    comparison.headline =
        "Step time rose by 4.4 % (49.8 ms to 52.0 ms): a step has one all-reduce of 64 MiB more.".into();
    comparison.base = side("/scratch/runs/a", &base_steps, 0);
    comparison.new = side("/scratch/runs/b", &new_steps, 0);
    // The base has an additional batch from the day before.
    let mut earlier = side("/scratch/runs/earlier", &[49.2, 49.3], 0);
    for run in &mut earlier.runs {
        run.is_compared = false;
        run.name.started_unix_ns -= 86_400_000_000_000;
    }
    for run in &mut comparison.base.runs {
        run.batch = 1;
    }
    earlier.runs.append(&mut comparison.base.runs);
    earlier.batches = 2;
    comparison.base = earlier;
    comparison.method.unit = "batches".into();
    comparison.metrics = vec![
        metric(
            "step_time",
            None,
            &base_steps,
            &new_steps,
            0.6,
            MetricVerdict::Regressed,
        )
        .declared(),
        metric(
            "operations",
            None,
            &[148.0; 3],
            &[149.0; 3],
            0.0,
            MetricVerdict::Regressed,
        ),
        metric(
            "bytes",
            None,
            &[102.4; 3],
            &[169.5; 3],
            0.0,
            MetricVerdict::Regressed,
        ),
        metric(
            "transfer_time",
            Some("all-reduce 64-128 MiB world inside-host"),
            &[0.0; 3],
            &[2.1, 2.2, 2.15],
            0.1,
            MetricVerdict::Regressed,
        ),
        metric(
            "kernel_time",
            Some(
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            ),
            &[4.0, 4.1, 4.0],
            &[4.3, 4.4, 4.2],
            0.1,
            MetricVerdict::Regressed,
        ),
    ];
    comparison.metrics[3].interval = Some(Interval {
        low: 1.9 * MS,
        high: 2.6 * MS,
    });
    comparison.gates = vec![gate(
        &comparison,
        "step_time>+2%",
        "step_time",
        0.02,
        GateVerdict::Fail,
        "The whole interval, +3.2 % to +5.6 %, is above the limit.",
        None,
    )];
    comparison.detectable = vec![detectable("step_time", 1.6 * MS, 0.033)];
    comparison.attribution = attribution(
        &[
            ("compute-only", 30.1, 30.0),
            ("overlapped", 6.0, 6.1),
            ("exposed-wait", 4.0, 4.1),
            ("exposed-transfer", 7.6, 9.7),
            ("exposed-memory", 0.4, 0.4),
            ("idle", 1.7, 1.7),
            ("host", 0.1, 0.1),
            ("other-blocked", 0.2, 0.2),
        ],
        (0..8).map(|rank| {
            rank_change(
                rank,
                ["node-a", "node-b"][rank as usize / 4],
                &[
                    -0.1,
                    0.1,
                    0.1 * f64::from(rank % 3),
                    2.0 + 0.02 * f64::from(rank),
                    0.0,
                    0.0,
                    0.0,
                    0.0,
                ],
            )
        }),
    );
    comparison.changes = vec![
        change(
            "operation-added",
            "A step has one all-reduce of 64.0 MiB more (role world, inside hosts): 149 operations instead of 148.",
            Some(2.1),
            Some(true),
        ),
        change(
            "operations-reordered",
            "The order of the operations of a step is another from the 12th on.",
            None,
            None,
        ),
        change(
            "kernel-faster",
            "void gemm<float | half> takes 0.10 ms less of each step.",
            Some(-0.1),
            Some(false),
        ),
    ];
    comparison
}

/// A thousand ranks, hundreds of metrics, and names of any length.
pub fn large() -> Comparison {
    let mut comparison = slow_rank();
    let runs: Vec<f64> = (0..40).map(|at| 812.0 + wave(at) * 6.0).collect();
    let slower: Vec<f64> = (0..40).map(|at| 841.0 + wave(at + 7) * 9.0).collect();
    comparison.base = side(
        "/lustre/project/very/long/path/to/the/runs/of/the/base/of-the-training",
        &runs,
        0,
    );
    comparison.new = side(
        "/lustre/project/very/long/path/to/the/runs/of/the/new/of-the-training",
        &slower,
        0,
    );
    comparison.headline = "Step time rose by 3.6 % (812 ms to 841 ms): host node-097 is slower.".into();
    comparison.metrics =
        vec![metric("step_time", None, &runs, &slower, 5.0, MetricVerdict::Regressed).declared()];
    for at in 0..299u32 {
        let value = 10.0 + f64::from(at % 17);
        let (metric_name, subject) = match at % 3 {
            0 => (
                "kernel_time",
                format!(
                    "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{at}x128_32x5_tn_align8>(Params)"
                ),
            ),
            1 => (
                "busbw",
                format!("reduce-scatter {at}-{} MiB data-parallel across-hosts", at + 1),
            ),
            _ => ("caused_wait", format!("rank {at}")),
        };
        let rise = match at {
            0..40 => 1.0 + 0.5 * wave(at as usize),
            40..90 => 1.0 + 0.1 * wave(at as usize),
            _ => 1.0 + 0.004 * wave(at as usize),
        };
        let verdict = match at {
            0..40 if (rise > 1.0) == (metric_name != "busbw") => MetricVerdict::Regressed,
            0..40 => MetricVerdict::Improved,
            40..90 => MetricVerdict::Inconclusive,
            _ => MetricVerdict::Unchanged,
        };
        let base: Vec<f64> = (0..40)
            .map(|run| value * (1.0 + 0.01 * wave(run + at as usize)))
            .collect();
        let new: Vec<f64> = base.iter().map(|value| value * rise).collect();
        let half = if verdict == MetricVerdict::Inconclusive {
            2.0
        } else {
            0.2
        };
        let result = metric(metric_name, Some(&subject), &base, &new, half, verdict);
        comparison
            .metrics
            .push(if verdict == MetricVerdict::Inconclusive {
                result.needing(17 + at)
            } else {
                result
            });
    }
    comparison.gates = vec![gate(
        &comparison,
        "step_time>+2%",
        "step_time",
        0.02,
        GateVerdict::Fail,
        "The whole interval, +3.0 % to +4.2 %, is above the limit.",
        None,
    )];
    comparison.detectable = vec![detectable("step_time", 10.0 * MS, 0.012)];
    comparison.attribution = attribution(
        &[
            ("compute-only", 610.0, 612.0),
            ("overlapped", 90.0, 89.0),
            ("exposed-wait", 40.0, 66.0),
            ("exposed-transfer", 50.0, 51.5),
            ("exposed-memory", 4.0, 4.5),
            ("idle", 18.0, 18.0),
        ],
        (0..1_024u32).map(|rank| {
            let host = rank / 8;
            let slow = if host == 97 { 24.0 } else { 0.0 };
            rank_change(
                rank,
                &format!("node-{host:03}"),
                &[
                    2.0 * wave(rank as usize) + slow,
                    -1.0,
                    26.0 - slow + wave(rank as usize * 3),
                    1.5,
                    0.5,
                    0.0,
                ],
            )
        }),
    );
    comparison.changes = (0..60)
        .map(|at| {
            change(
                "rank-slower",
                &format!("Rank {} is late by {}.10 ms in each step.", 776 + at, 24 - at / 3),
                Some(24.0 - f64::from(at) / 3.0),
                Some(true),
            )
        })
        .collect();
    comparison.not_compared = (0..40)
        .map(|at| NotCompared {
            metric: format!("pause[kind {at}]"),
            reason: "the base does not have it".into(),
        })
        .collect();
    comparison
}

/// Bases of zero, no intervals, no runs, names that resemble markup, and extreme values.
pub fn odd() -> Comparison {
    let mut comparison = empty();
    comparison.verdict = Verdict::Inconclusive;
    comparison.exit_status = 3;
    comparison.headline = "Nothing is known: <b>one</b> | side has `no steps`.".into();
    comparison.reasons = vec!["The base has no steps, and\nsays so on two lines.".into()];
    comparison.new = side("/tmp/new", &[1.0, 1.1], 0);
    comparison.new.runs[1].step_time = None;
    comparison.metrics = vec![
        metric(
            "step_time",
            None,
            &[0.0, 0.0],
            &[1.0, 1.1],
            0.2,
            MetricVerdict::Inconclusive,
        )
        .declared(),
        metric(
            "lost_share",
            None,
            &[0.0],
            &[0.000_1],
            0.0,
            MetricVerdict::Inconclusive,
        )
        .without_noise(),
        metric(
            "connect_time",
            None,
            &[5e-4],
            &[5e5],
            0.0,
            MetricVerdict::Regressed,
        )
        .without_noise(),
        metric(
            "stall_cause",
            Some("waits | <script>alert(1)</script> `x`\n::error::y"),
            &[0.0],
            &[0.0],
            0.0,
            MetricVerdict::Unchanged,
        )
        .within(0.0),
        metric(
            "busbw",
            Some("one value"),
            &[10e3, 10e3],
            &[10e3, 10e3],
            0.0,
            MetricVerdict::Unchanged,
        )
        .within(0.0),
        metric(
            "stall_time",
            None,
            &[1.0],
            &[-1.0],
            3.0,
            MetricVerdict::Inconclusive,
        ),
    ];
    comparison.metrics[5].base = -1.0;
    comparison.gates = vec![
        gate(
            &comparison,
            "step_time>+2%",
            "step_time",
            0.02,
            GateVerdict::Inconclusive,
            "The base is 0: 2 % of it allow nothing | anything.",
            None,
        ),
        gate(
            &comparison,
            "nothing[a,b:c]>+1%",
            "nothing[a,b:c]",
            0.0,
            GateVerdict::Inconclusive,
            "100% unknown,\nthe metric: is there?",
            None,
        ),
    ];
    comparison.gates[0].limit = Figure::unknown("the base is 0");
    comparison.gates[1].limit = Figure::unknown("no such metric");
    comparison.detectable = vec![
        Detectable {
            metric: "step_time".into(),
            change: Figure::known(0.3 * MS),
            relative: Figure::unknown("the base is 0"),
        },
        Detectable {
            metric: "nothing[a,b:c]".into(),
            change: Figure::unknown("no such metric"),
            relative: Figure::unknown("no such metric"),
        },
    ];
    comparison.attribution = attribution(
        &[("host", 0.0, 1.0)],
        (0..1).map(|rank| rank_change(rank, "h<1>|", &[1.0])),
    );
    comparison.changes = vec![change("environment", "X|Y was <unset> and is `set`", None, None)];
    comparison
}

/// Returns pictures of the longest steps of each side's first run, with bars in place of the viewer's lanes.
pub fn pictures(comparison: &Comparison) -> Vec<StepPicture> {
    let sides = [(Side::Base, &comparison.base), (Side::New, &comparison.new)];
    sides
        .into_iter()
        .filter_map(|(side, of)| Some((side, of.runs.first()?)))
        .flat_map(|(side, run)| {
            let steps = run.worst_steps.iter().take(2);
            steps.map(move |step| StepPicture {
                side,
                run: 0,
                step: step.step,
                png: lanes(step.step as usize),
            })
        })
        .collect()
}

fn lanes(seed: usize) -> Vec<u8> {
    const WIDTH: usize = 640;
    const HEIGHT: usize = 200;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a header");
    let pixels: Vec<u8> = (0..HEIGHT)
        .flat_map(|y| (0..WIDTH).map(move |x| (x, y)))
        .flat_map(|(x, y)| {
            let lane = y / 25;
            match (y % 25 < 20, wave(lane * 31 + x / (20 + lane * 3) + seed) > 0.0) {
                (true, true) => [0x4c, 0x9f, 0x8b],
                (true, false) => [0xe0, 0x89, 0x2b],
                _ => [0xf4, 0xf6, 0xf8],
            }
        })
        .collect();
    writer.write_image_data(&pixels).expect("pixels");
    writer.finish().expect("an end");
    bytes
}

const ALL_REDUCE: &str = "all-reduce 16-32 MiB world inside-host";

/// Returns a reproducible value between -1 and 1 that appears random.
fn wave(at: usize) -> f64 {
    let at = at as f64;
    ((at * 12.989_8).sin() * 43_758.545_3).fract()
}

fn empty() -> Comparison {
    Comparison {
        version: COMPARISON_VERSION,
        tool: Tool {
            name: "rankscope".into(),
            version: "0.1.0".into(),
        },
        verdict: Verdict::Fine,
        exit_status: 0,
        headline: String::new(),
        reasons: Vec::new(),
        cautions: Vec::new(),
        base: SideSummary {
            label: None,
            runs: Vec::new(),
            batches: 0,
        },
        new: SideSummary {
            label: None,
            runs: Vec::new(),
            batches: 0,
        },
        method: Method {
            unit: "runs".into(),
            is_interleaved: false,
            degrees_of_freedom: Figure::known(8.0),
            family_alpha: 0.05,
            gate_alpha: 0.012_5,
            pass_alpha: 0.05,
            false_discovery_rate: 0.05,
            confidence: 0.95,
            margin: 0.02,
            warm_up_rule:
                "the first 5 steps, then those before the running median stays within 5 % of the last one"
                    .into(),
            outlier_rule: "steps longer than the median plus 5 times the median distance from it".into(),
            outlier_effect: Figure::unknown("there are no steps"),
            noise: "The noise between runs is that of 10 runs, and of no stored ones.".into(),
        },
        detectable: Vec::new(),
        gates: Vec::new(),
        metrics: Vec::new(),
        not_compared: Vec::new(),
        attribution: Attribution {
            reason: None,
            base_step_ns: 0,
            new_step_ns: 0,
            change_ns: 0,
            parts: Vec::new(),
            ranks: Vec::new(),
        },
        changes: Vec::new(),
        differences: Vec::new(),
    }
}

fn side(directory: &str, steps_ms: &[f64], batch: i64) -> SideSummary {
    let runs = steps_ms
        .iter()
        .zip(0..)
        .map(|(&mean, at)| {
            let median = mean * 0.985 * MS;
            RunUsed {
                name: RunName {
                    id: format!("{directory}-{at}"),
                    directory: format!("{directory}-{}", at + 1),
                    started_unix_ns: START + batch * 7_200_000_000_000 + at * 2 * RUN,
                    duration_ns: RUN,
                },
                batch: 0,
                is_compared: true,
                is_stored: false,
                steps: 192,
                warm_up: 8,
                outliers: 3 + at as u64 % 3,
                step_time: Some(StepQuantiles {
                    min: median * 0.94,
                    p5: median * 0.96,
                    p25: median * 0.985,
                    p50: median,
                    p75: median * 1.02,
                    p95: median * 1.07,
                    max: median * 1.9,
                }),
                worst_steps: (0..3)
                    .map(|place| WorstStep {
                        step: 117 - 20 * place as u64 + at as u64,
                        start_ns: 40_000_000_000 - place * 1_000_000_000,
                        end_ns: 40_000_000_000 - place * 1_000_000_000
                            + (median * (1.9 - 0.2 * place as f64)) as i64,
                    })
                    .collect(),
            }
        })
        .collect();
    SideSummary {
        label: None,
        runs,
        batches: 1,
    }
}

fn metric(
    name: &str,
    subject: Option<&str>,
    base: &[f64],
    new: &[f64],
    half: f64,
    verdict: MetricVerdict,
) -> MetricResult {
    let known = metrics::find(name).expect("a metric");
    // The arguments are in ms for times, and in MB for rates and bytes.
    let scale = match known.unit.name() {
        "ns" | "bytes/s" | "bytes" => MS,
        _ => 1.0,
    };
    let scaled = |values: &[f64]| values.iter().map(|value| value * scale).collect::<Vec<f64>>();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (base_runs, new_runs) = (scaled(base), scaled(new));
    let (base, new) = (mean(&base_runs), mean(&new_runs));
    let change = new - base;
    MetricResult {
        metric: name.into(),
        subject: subject.map(str::to_owned),
        meaning: known.meaning.into(),
        unit: known.unit.name().into(),
        better: known.better,
        is_declared: false,
        base,
        new,
        change,
        relative: (base != 0.0).then(|| change / base),
        interval: Some(Interval {
            low: change - half * scale,
            high: change + half * scale,
        }),
        p_value: Some(if verdict == MetricVerdict::Unchanged {
            0.41
        } else {
            1.2e-7
        }),
        change_without_outliers: change * 0.97,
        verdict,
        within: None,
        runs_needed: None,
        base_runs,
        new_runs,
    }
}

trait Extend: Sized {
    fn declared(self) -> Self;
    fn needing(self, runs: u32) -> Self;
    fn within(self, share: f64) -> Self;
    fn without_noise(self) -> Self;
}

impl Extend for MetricResult {
    fn declared(mut self) -> Self {
        self.is_declared = true;
        self
    }

    fn needing(mut self, runs: u32) -> Self {
        self.runs_needed = Some(runs);
        self
    }

    fn within(mut self, share: f64) -> Self {
        self.within = Some(share);
        self
    }

    fn without_noise(mut self) -> Self {
        self.interval = None;
        self.p_value = None;
        self
    }
}

fn gate(
    comparison: &Comparison,
    rule: &str,
    metric: &str,
    share: f64,
    verdict: GateVerdict,
    reason: &str,
    runs_needed: Option<u32>,
) -> GateResult {
    let base = comparison
        .metrics
        .iter()
        .find(|known| known.full_name() == metric)
        .map(|known| known.base);
    GateResult {
        rule: rule.into(),
        metric: metric.into(),
        limit: base.map_or_else(
            || Figure::unknown("there is no base"),
            |base| Figure::known(base * share.abs()),
        ),
        at_most: Figure::unknown("made up"),
        verdict,
        reason: reason.into(),
        runs_needed,
    }
}

fn detectable(metric: &str, change: f64, relative: f64) -> Detectable {
    Detectable {
        metric: metric.into(),
        change: Figure::known(change),
        relative: Figure::known(relative),
    }
}

fn attribution(parts: &[(&str, f64, f64)], ranks: impl Iterator<Item = RankChange>) -> Attribution {
    let parts: Vec<PartChange> = parts
        .iter()
        .map(|&(part, base, new)| {
            let (base_ns, new_ns) = (ns(base), ns(new));
            PartChange {
                part: part.into(),
                base_ns,
                new_ns,
                change_ns: new_ns - base_ns,
            }
        })
        .collect();
    let sum = |field: fn(&PartChange) -> i64| parts.iter().map(field).sum();
    Attribution {
        reason: None,
        base_step_ns: sum(|part| part.base_ns),
        new_step_ns: sum(|part| part.new_ns),
        change_ns: sum(|part| part.change_ns),
        ranks: ranks.collect(),
        parts,
    }
}

fn rank_change(rank: u32, host: &str, parts_ms: &[f64]) -> RankChange {
    let parts_ns: Vec<i64> = parts_ms.iter().map(|&ms| ns(ms)).collect();
    RankChange {
        rank,
        host: host.into(),
        change_ns: parts_ns.iter().sum(),
        parts_ns,
    }
}

fn change(kind: &str, text: &str, step_ms: Option<f64>, is_worse: Option<bool>) -> Change {
    Change {
        kind: kind.into(),
        text: text.into(),
        step_ns: step_ms.map_or_else(
            || Figure::unknown("it has no time of its own"),
            |ms| Figure::known(ms * MS),
        ),
        is_worse,
    }
}

fn ns(ms: f64) -> i64 {
    (ms * MS).round() as i64
}

/// Adds the effect of outliers to a comparison.
fn with_outliers(mut comparison: Comparison) -> Comparison {
    comparison.method.outlier_effect = Figure::known(OutlierEffect {
        base_outliers: 18,
        new_outliers: 18,
        change_with: 0.061,
        change_without: 0.058,
    });
    comparison
}
