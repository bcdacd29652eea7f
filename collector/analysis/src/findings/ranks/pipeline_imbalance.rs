//! Pipeline stages with unequal work: the slowest stage sets the pace of all (METRICS.md, section 8).

use crate::findings::draft::part::{HOST, WAITING};
use crate::findings::facts::WorldSteps;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use crate::measures::stages::own_per_step;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Pipeline, Ratio, Stage};

/// Minimum cost of a finding, in percent of the step.
const MIN_COST_PERCENT: i64 = 5;
/// Minimum distance of the slowest stage's own time from the mean of the stages, in standard errors.
const STANDARD_ERRORS: f64 = 5.0;
/// Minimum number of steps, or groups of steps, to estimate the noise.
const MIN_COLUMNS: usize = 20;

/// Uneven stages.
pub const RULE: Rule = Rule {
    id: "pipeline-imbalance",
    title: "One pipeline stage has more work than the others",
    means: "Each micro-batch waits for the slowest stage. In every step, the other stages idle for the difference, \
            in addition to the bubble of an ideal pipeline.",
    fires: "The own time of one stage is above the mean of the stages by at least five standard errors, over at \
            least 20 steps. A stage's own time is that of its fastest replica in each step. With m micro-batches per \
            step, (m − 1) / m of the difference is at least 5 % of the median step.",
    silent: "Stages with a single late replica (late-rank). Stages that only wait for another stage. The bubble of a \
            balanced pipeline. Steps with a varying number of micro-batches.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let worlds = facts.worlds();
    let mut out = Vec::new();
    for structure in &facts.session.structure {
        let Some(steps) = worlds.iter().find(|steps| steps.world == structure.world) else {
            continue;
        };
        let stages = structure.pipelines.iter();
        let measured = stages.filter_map(|pipeline| UnevenStages::measure(facts, steps, pipeline));
        out.extend(
            measured
                .filter(UnevenStages::fires)
                .map(|stages| stages.draft(facts)),
        );
    }
    out
}

/// The stages of a pipeline, and the slowest of them.
struct UnevenStages<'a> {
    steps: &'a WorldSteps<'a>,
    pipeline: &'a Pipeline,
    micro_batches: i64,
    ideal_bubble: Ratio,
    /// Own time by stage, mean over columns, in ns per step.
    own_ns: Vec<f64>,
    /// Position of the slowest stage.
    slowest: usize,
    /// Number of columns of the step board.
    columns: usize,
    /// Own time of the slowest stage above the mean of the stages, mean over columns, in ns per step.
    mean_excess_ns: f64,
    /// Distance of this mean from 0, in standard errors.
    excess_errors: f64,
    cost_per_step_ns: i64,
}

impl<'a> UnevenStages<'a> {
    fn measure(facts: &Facts<'_>, steps: &'a WorldSteps<'a>, pipeline: &'a Pipeline) -> Option<Self> {
        let micro_batches = i64::from(pipeline.micro_batches.value?);
        let ideal_bubble = pipeline.ideal_bubble.value?;
        own_per_step(&pipeline.stages)?;
        if facts.in_steps().len() < steps.ranks.len() {
            return None;
        }
        let times: Vec<Vec<f64>> = pipeline
            .stages
            .iter()
            .map(|stage| own_times(facts, steps.world, stage))
            .collect::<Option<_>>()?;
        let columns = times
            .iter()
            .map(Vec::len)
            .min()
            .filter(|&columns| columns >= MIN_COLUMNS)?;
        let own_ns: Vec<f64> = times
            .iter()
            .map(|of| of.iter().sum::<f64>() / of.len() as f64)
            .collect();
        let (slowest, &largest) = own_ns
            .iter()
            .enumerate()
            .max_by(|one, other| one.1.total_cmp(other.1))?;
        let mean = own_ns.iter().sum::<f64>() / own_ns.len() as f64;
        let excess: Vec<f64> = (0..columns)
            .map(|column| {
                let all: f64 = times.iter().map(|of| of[column]).sum();
                times[slowest][column] - all / times.len() as f64
            })
            .collect();
        let (mean_excess_ns, excess_errors) = standard_errors(&excess);
        Some(Self {
            steps,
            pipeline,
            micro_batches,
            ideal_bubble,
            own_ns,
            slowest,
            columns,
            mean_excess_ns,
            excess_errors,
            cost_per_step_ns: (largest - mean) as i64 * (micro_batches - 1) / micro_batches,
        })
    }

    fn fires(&self) -> bool {
        self.cost_per_step_ns * 100 >= self.steps.median_ns * MIN_COST_PERCENT
            && self.excess_errors >= STANDARD_ERRORS
    }

    fn draft(&self, facts: &Facts<'_>) -> Draft {
        let Self {
            steps,
            pipeline,
            micro_batches: micro,
            ideal_bubble: ideal,
            slowest,
            cost_per_step_ns: per_step,
            ..
        } = *self;
        let stage = &pipeline.stages[slowest];
        let name = format!("stage {slowest} of {}", pipeline.stages.len());
        let each: Vec<String> = self
            .own_ns
            .iter()
            .enumerate()
            .map(|(stage, &ns)| format!("stage {stage} {}", shown(ns as i64)))
            .collect();
        let bubbles: Vec<String> = pipeline
            .stages
            .iter()
            .enumerate()
            .filter_map(|(stage, known)| {
                let bubble = known.bubble.value?;
                let bubble = percent(bubble.numerator, bubble.denominator);
                Some(format!("stage {stage} {bubble}"))
            })
            .collect();
        Draft::new(
            RULE.id,
            &name,
            format!("{name} has more work than the others: {}", steps.shown_per_step(per_step)),
        )
        .evidence(format!("own time per step: {}", each.join(", ")))
        .evidence(format!(
            "exposed wait in receives along the chain: {}; ideal pipeline of {} stages and {micro} micro-batches: {}",
            bubbles.join(", "),
            pipeline.stages.len(),
            percent(ideal.numerator, ideal.denominator)
        ))
        .cause("the layers are divided unevenly: the embedding, the loss or a long block makes this stage the slowest")
        .advice(format!("move layers from {name} to its neighbours, or use more and smaller micro-batches"))
        .holds("steps, or groups of steps", self.columns as f64, ">=", MIN_COLUMNS as f64, "")
        .holds(
            "own time above the mean of the stages, in standard errors",
            self.excess_errors,
            ">=",
            STANDARD_ERRORS,
            "",
        )
        .holds(
            "cost per step",
            per_step as f64,
            ">=",
            (steps.median_ns * MIN_COST_PERCENT) as f64 / 100.0,
            "ns",
        )
        .holds("own time above the mean of the stages", self.mean_excess_ns, ">", 0.0, "ns")
        .ranks(stage.ranks.iter().copied().map(RankIndex))
        .look_at(stage.ranks.first().map(|&rank| facts.worst_steps(steps.world, RankIndex(rank))).unwrap_or_default())
        .cost(
            per_step * steps.board.count as i64,
            "(m − 1) / m of the slowest stage's own time above the mean of the stages, summed over whole steps: the gain \
             of evenly divided work",
            &[WAITING, HOST],
        )
        .of_step(per_step, steps.mean_ns)
    }
}

/// Returns the own time of a stage's fastest replica by column, in ns per step. A single late replica does not make a
/// stage slow.
fn own_times(facts: &Facts<'_>, world: u32, stage: &Stage) -> Option<Vec<f64>> {
    let board = facts.parts.measures.steps.boards.get(world as usize)?;
    let known = facts.parts.identities.worlds.get(world as usize)?;
    let rows: Vec<usize> = stage
        .ranks
        .iter()
        .map(|rank| known.ranks.iter().position(|of_world| of_world.0 == *rank))
        .collect::<Option<_>>()?;
    let of_column = |column: &crate::measures::step_board::matrix::Column| {
        let own = rows
            .iter()
            .filter_map(|&row| column.cells.get(row))
            .map(|cell| cell.host_ns);
        own.min().map(|ns| ns as f64 / f64::from(column.steps.max(1)))
    };
    board.matrix.columns.iter().map(of_column).collect()
}

/// Returns the mean of values, and its distance from 0 in standard errors.
fn standard_errors(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, mean / (variance / n).sqrt().max(1.0))
}
