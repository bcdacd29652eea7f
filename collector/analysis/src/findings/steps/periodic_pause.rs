//! Steps at regular distances that take far longer on all ranks.

use crate::findings::draft::part::HOST;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::Severity;
use rankscope_formats::session::{LookAt, StepSummary};

/// Minimum duration of a long step, in percent of the median.
const LONG_PERCENT: i64 = 150;
/// Minimum number of long steps.
const MIN_LONG: usize = 3;
/// Minimum number of steps.
const MIN_STEPS: usize = 20;
/// Minimum share of the distances between long steps that are equal within one step, in percent.
const REGULAR_PERCENT: usize = 80;
/// Minimum distance, in steps. A shorter one is a pattern of the steps themselves.
const MIN_DISTANCE: u64 = 4;
/// Minimum cost of a finding, in percent of all steps.
const MIN_COST_PERCENT: i64 = 2;
/// Maximum share of the additional time that is waiting for peers, in percent.
const MAX_WAITING_PERCENT: i64 = 30;

/// A pause at regular distances.
pub const RULE: Rule = Rule {
    id: "periodic-pause",
    title: "All ranks pause every N steps",
    means: "At regular distances, a step takes far longer on all ranks at once. Checkpoints, evaluation and garbage \
            collection have this pattern.",
    fires: "At least three of at least 20 steps take at least 1.5 times the median. Their excess is at least half \
            of that of the third-longest step. At least 80 % of their distances are equal within one step, and \
            the usual distance is at least four steps. Less than 30 % of the additional time is waiting for peers. \
            The additional time is at least 2 % of the time of all steps.",
    silent: "Long steps at irregular distances. A slow first step. Steps that are long because one rank is late. \
            Runs that are too long for one entry per step: the session then joins several steps.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let steps = &facts.session.steps;
    let Some(median) = steps
        .median_ns
        .value
        .filter(|&median| median > 0 && steps.steps_per_entry == 1)
    else {
        return Vec::new();
    };
    let worlds = facts.worlds();
    worlds
        .iter()
        .filter_map(|world| {
            let list: Vec<&StepSummary> = steps
                .list
                .iter()
                .filter(|step| step.world == world.world)
                .collect();
            Pauses::measure(&list, median, world.ranks.len() as i64)
        })
        .filter(Pauses::fires)
        .map(|pauses| pauses.draft())
        .collect()
}

/// The long steps of a world, and the distances between them.
struct Pauses<'a> {
    median_ns: i64,
    /// Number of steps of the world.
    steps: usize,
    /// Duration of all steps.
    all_ns: i64,
    /// The long steps, in the order of time; at least [`MIN_LONG`].
    long: Vec<&'a StepSummary>,
    /// Time of the long steps beyond the median step.
    excess_ns: i64,
    /// Part of the excess that is waiting for peers, mean over ranks.
    waiting_ns: i64,
    /// Median distance between long steps, in steps.
    distance: u64,
    /// Share of the distances that are equal to the median within one step, in percent.
    regular_percent: usize,
}

impl<'a> Pauses<'a> {
    fn measure(list: &[&'a StepSummary], median_ns: i64, ranks: i64) -> Option<Self> {
        let long = long_steps(list, median_ns)?;
        let mut distances: Vec<u64> = long.windows(2).map(|pair| pair[1].step - pair[0].step).collect();
        distances.sort_unstable();
        let distance = distances[distances.len() / 2];
        let alike = distances.iter().filter(|&&each| each.abs_diff(distance) <= 1);
        let wait = |step: &StepSummary| step.exposed_wait_rank_ns / ranks;
        let mut waits: Vec<i64> = list.iter().map(|step| wait(step)).collect();
        waits.sort_unstable();
        let usual_wait = waits[waits.len() / 2];
        Some(Self {
            median_ns,
            steps: list.len(),
            all_ns: list.iter().map(|step| step.duration_ns).sum(),
            excess_ns: long.iter().map(|step| step.duration_ns - median_ns).sum(),
            waiting_ns: long.iter().map(|step| (wait(step) - usual_wait).max(0)).sum(),
            distance,
            regular_percent: alike.count() * 100 / distances.len(),
            long,
        })
    }

    fn fires(&self) -> bool {
        self.distance >= MIN_DISTANCE
            && self.regular_percent >= REGULAR_PERCENT
            && self.waiting_ns * 100 < self.excess_ns * MAX_WAITING_PERCENT
            && self.excess_ns * 100 >= self.all_ns * MIN_COST_PERCENT
    }

    fn draft(&self) -> Draft {
        let (excess, all, usual) = (self.excess_ns, self.all_ns, self.distance);
        let each = excess / self.long.len() as i64;
        let mut moments: Vec<&StepSummary> = self.long.clone();
        moments.sort_by_key(|step| std::cmp::Reverse(step.duration_ns));
        Draft::new(
            RULE.id,
            format!("a pause every {usual} steps"),
            format!(
                "every {usual} steps, all ranks take {} longer: {} of the time of all steps",
                shown(each),
                percent(excess, all)
            ),
        )
        .evidence(format!(
            "{} of {} steps take at least 1.5 times the median of {}; {} of the additional time is waiting for peers",
            self.long.len(),
            self.steps,
            shown(self.median_ns),
            percent(self.waiting_ns, excess)
        ))
        .cause("something runs every N steps: a checkpoint, an evaluation or the garbage collector; the recording does \
                not show which")
        .advice(
            "mark the program's parts with NVTX ranges to see the cause; write checkpoints asynchronously, evaluate less \
             often, or call gc.freeze() after start-up and gc.collect() between epochs",
        )
        .holds("long steps", self.long.len() as f64, ">=", MIN_LONG as f64, "")
        .holds("equal distances", self.regular_percent as f64, ">=", REGULAR_PERCENT as f64, "%")
        .holds(
            "waiting for peers, as a share of the additional time",
            self.waiting_ns as f64 / excess as f64 * 100.0,
            "<",
            MAX_WAITING_PERCENT as f64,
            "%",
        )
        .holds(
            "share of the time of all steps",
            excess as f64 / all as f64 * 100.0,
            ">=",
            MIN_COST_PERCENT as f64,
            "%",
        )
        .look_at(moments.iter().map(|step| LookAt {
            what: format!("a step of {}", shown(step.duration_ns)),
            rank: None,
            instance: None,
            step: Some(step.step),
            start_ns: step.start_ns,
            end_ns: step.end_ns,
        }))
        .cost(excess, "time of the long steps beyond the median step", &[HOST])
        .severity(if excess * 10 >= all { Severity::Critical } else { Severity::Warning })
    }
}

/// Returns the long steps, if there are enough steps and long ones.
fn long_steps<'a>(list: &[&'a StepSummary], median_ns: i64) -> Option<Vec<&'a StepSummary>> {
    if list.len() < MIN_STEPS {
        return None;
    }
    // Steps that are long for other reasons must not hide the rhythm. A step needs half the excess of the
    // third-longest.
    let mut durations: Vec<i64> = list.iter().map(|step| step.duration_ns).collect();
    durations.sort_unstable_by_key(|&duration| std::cmp::Reverse(duration));
    let longest = durations[MIN_LONG - 1];
    let least = (median_ns * LONG_PERCENT / 100).max(median_ns + (longest - median_ns) / 2);
    let long: Vec<&StepSummary> = list
        .iter()
        .copied()
        .filter(|step| step.duration_ns >= least)
        .collect();
    (long.len() >= MIN_LONG).then_some(long)
}
