//! DistributedDataParallel's search for unused parameters.

use crate::findings::draft::part::{HOST, TRANSFER};
use crate::findings::facts::StepTime;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;

/// Minimum cost of a finding, in percent of step time.
const MIN_COST_PERCENT: f64 = 1.0;
/// Minimum share of steps with a search, in percent.
const MIN_STEPS_PERCENT: f64 = 50.0;

/// DDP searches for unused parameters.
pub const RULE: Rule = Rule {
    id: "unused-parameter-search",
    title: "DDP searches for unused parameters in each step",
    means: "With find_unused_parameters=True, DDP walks the autograd graph after each forward pass. After the last \
            gradient bucket, it all-reduces one number per parameter.",
    fires: "c10d::Reducer::search_unused_parameters ran in at least half of the steps. The search and the transfer \
            of the additional all-reduce take at least 1 % of step time.",
    silent: "DDP without find_unused_parameters. DDP with static_graph=True, which searches once. Searches that cost \
            less. The recording does not show whether the model has unused parameters; if it has, the search is \
            needed, as the advice says.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    Searches::measure(facts)
        .filter(Searches::fires)
        .map(|searches| searches.draft())
        .into_iter()
        .collect()
}

/// Searches for unused parameters.
struct Searches<'a> {
    time: StepTime<'a>,
    /// Number of searches, above 0, summed over ranks.
    count: u64,
    /// Their duration, summed over ranks, in ns.
    duration_ns: i64,
    /// Median transfer of the additional all-reduce, in ns.
    bitmap_median_ns: Option<f64>,
}

impl<'a> Searches<'a> {
    fn measure(facts: &Facts<'a>) -> Option<Self> {
        let time = facts.step_time()?;
        let (mut count, mut duration_ns) = (0, 0);
        for entry in &time.entries {
            if let Some(sums) = facts.sums(entry.rank as usize) {
                count += sums.reducer.unused_searches;
                duration_ns += sums.reducer.unused_searches_ns;
            }
        }
        // The bitmap has one number per parameter. It is the smallest all-reduce that occurs in each step.
        let bitmap = facts
            .session
            .operations
            .iter()
            .filter(|class| {
                class.operation == "all-reduce" && !class.launches && class.operations >= count * 9 / 10
            })
            .filter_map(|class| Some((class.size_from_bytes?, class.transfer_ns.value?.p50)))
            .min_by_key(|&(size, _)| size);
        (count > 0).then_some(Self {
            time,
            count,
            duration_ns,
            bitmap_median_ns: bitmap.map(|(_, median)| median),
        })
    }

    fn fires(&self) -> bool {
        self.steps_percent() >= MIN_STEPS_PERCENT && self.cost_percent() >= MIN_COST_PERCENT
    }

    /// Returns the share of steps with a search, in percent.
    fn steps_percent(&self) -> f64 {
        self.count as f64 / self.time.steps as f64 * 100.0
    }

    /// Returns the time of the searches and the additional all-reduces, mean over ranks, in ns.
    fn cost_ns(&self) -> i64 {
        let ranks = self.time.ranks();
        let bitmaps_ns = self.bitmap_median_ns.map_or(0, |median| median as i64) * self.count as i64 / ranks;
        self.duration_ns / ranks + bitmaps_ns
    }

    /// Returns the share of step time in the searches and the additional all-reduces, in percent.
    fn cost_percent(&self) -> f64 {
        (self.cost_ns() * self.time.ranks()) as f64 / self.time.window_ns as f64 * 100.0
    }

    fn draft(&self) -> Draft {
        let (time, searches, searched) = (&self.time, self.count, self.duration_ns);
        let (steps_percent, cost_percent) = (self.steps_percent(), self.cost_percent());
        let cost = self.cost_ns();
        let draft = Draft::new(
            RULE.id,
            "DDP's search for unused parameters",
            format!(
                "DDP searches for unused parameters in each step: {} per rank, {cost_percent:.1} % of step time",
                shown(cost)
            ),
        )
        .evidence(format!(
            "{searches} searches in {} steps, summed over ranks, took {}, {} of step time",
            time.steps,
            shown(searched),
            percent(searched, time.window_ns)
        ))
        .evidence(match self.bitmap_median_ns {
            Some(median) => format!(
                "each step all-reduces one additional number per parameter: about {} of transfer",
                shown(median as i64)
            ),
            None => "the duration of the additional all-reduce is unknown".to_owned(),
        })
        .cause("find_unused_parameters=True")
        .advice(
            "set find_unused_parameters=False if every parameter gets a gradient in every step (PyTorch reports an error \
             if not); set static_graph=True if the same parameters never get one",
        )
        .holds("searches per step", steps_percent, ">=", MIN_STEPS_PERCENT, "%")
        .holds("share of step time in the search and its all-reduce", cost_percent, ">=", MIN_COST_PERCENT, "%")
        .ranks(time.entries.iter().map(|entry| RankIndex(entry.rank)))
        .cost(
            cost,
            "measured time in the search, mean over ranks, plus the median transfer of the smallest all-reduce of each \
             step",
            &[HOST, TRANSFER],
        );
        time.add_cost_of_step(draft, cost)
    }
}
