//! Named host time: input, checkpoints, evaluation and garbage collection. There is one rule for each.

use crate::findings::draft::part::{HOST, IDLE, OUTSIDE};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use crate::model::interval::Interval;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::PauseKind;
use rankscope_formats::session::Severity;

/// Minimum share of the time, in percent.
const MIN_PERCENT: i64 = 2;

/// Training waits for input.
pub const INPUT: Rule = Rule {
    id: "input-bound",
    title: "Training waits for input",
    means: "In each step, the training threads fetch or prepare input instead of computing. The data loader is too \
            slow.",
    fires: "Marks, NVTX ranges or annotations name at least 2 % of the step time of all ranks together as input. \
            Only time on training threads counts that is not blocked for communication. With recorded device work, \
            only device stalls with this cause count.",
    silent: "Input that other threads or processes prepare. Ranks whose other kernels are unknown. Input that \
            nothing names.",
    find: Some(input),
    find_declared: None,
};

/// Checkpoints delay training.
pub const CHECKPOINT: Rule = Rule {
    id: "checkpoint-pause",
    title: "Checkpoints delay training",
    means: "The training threads write or read checkpoints themselves, and do not train during that time.",
    fires: "On the training threads, torch.save, torch.load, and marks or ranges that name a checkpoint take at \
            least 2 % of the run.",
    silent: "Checkpoints that other threads write in the background. Other ways of writing, unless a mark names \
            them.",
    find: Some(checkpoint),
    find_declared: None,
};

/// Evaluation takes part of the run.
pub const EVALUATION: Rule = Rule {
    id: "evaluation-time",
    title: "Part of the run is evaluation",
    means: "The model is evaluated between training steps. This time is counted separately, and is not in the \
            statistics of steps.",
    fires: "On the training threads, marks or ranges that name evaluation or validation take at least 2 % of the \
            run.",
    silent: "Evaluation that nothing names.",
    find: Some(evaluation),
    find_declared: None,
};

/// Garbage collection delays training.
pub const GARBAGE: Rule = Rule {
    id: "garbage-collection",
    title: "Garbage collection delays training",
    means: "The interpreter collects garbage on the training threads, at a different time on each rank. All ranks \
            wait for each other.",
    fires: "Marks or ranges name at least 2 % of the step time of all ranks together as garbage collection. With \
            recorded device work, only device stalls with this cause count.",
    silent: "Collections that nothing names: Python does not report them to the hooks.",
    find: Some(garbage),
    find_declared: None,
};

/// Parameters and texts of one rule.
struct PauseRule {
    rule: &'static Rule,
    kind: PauseKind,
    /// True: time in steps counts, with device work only as far as devices stall for it. False: time in the run counts.
    in_steps: bool,
    subject: &'static str,
    /// End of the title, after the share of the ranks' time.
    title: &'static str,
    cause: &'static str,
    advice: &'static str,
    lies_in: &'static [&'static str],
}

fn input(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &PauseRule {
            rule: &INPUT,
            kind: PauseKind::Input,
            in_steps: true,
            subject: "the input",
            title: "of the step time is spent on input",
            cause: "the data loader does not keep up: too few workers, slow storage, or preparation on the training \
                    thread",
            advice: "use more workers, prefetching and pinned memory; prepare or cache data that is the same in each \
                     epoch",
            lies_in: &[HOST, IDLE],
        },
    )
}

fn checkpoint(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &PauseRule {
            rule: &CHECKPOINT,
            kind: PauseKind::Checkpoint,
            in_steps: false,
            subject: "checkpoints",
            title: "of the run is spent on writing or reading checkpoints",
            cause: "the training threads write checkpoints themselves",
            advice: "write checkpoints asynchronously (async_save of torch.distributed.checkpoint), sharded by rank, \
                     less often, or to faster storage first",
            lies_in: &[HOST, IDLE, OUTSIDE],
        },
    )
}

fn evaluation(facts: &Facts<'_>) -> Vec<Draft> {
    let rule = find(
        facts,
        &PauseRule {
            rule: &EVALUATION,
            kind: PauseKind::Evaluation,
            in_steps: false,
            subject: "evaluation",
            title: "of the run is evaluation",
            cause: "the program evaluates between training steps",
            advice: "evaluate less often or on fewer batches, if that is acceptable",
            lies_in: &[HOST, IDLE, OUTSIDE],
        },
    );
    rule.into_iter()
        .map(|draft| draft.severity(Severity::Note))
        .collect()
}

fn garbage(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &PauseRule {
            rule: &GARBAGE,
            kind: PauseKind::GarbageCollection,
            in_steps: true,
            subject: "garbage collection",
            title: "of the step time is garbage collection",
            cause: "the interpreter's collector runs in the middle of steps, at a different time on each rank",
            advice: "call gc.freeze() after start-up, then gc.disable(), and gc.collect() at the same step on all \
                     ranks",
            lies_in: &[HOST, IDLE],
        },
    )
}

fn find(facts: &Facts<'_>, rule: &PauseRule) -> Vec<Draft> {
    NamedTime::measure(facts, rule)
        .filter(NamedTime::fires)
        .map(|time| time.draft(facts, rule))
        .into_iter()
        .collect()
}

/// Named time of one rank.
struct RankNamedTime {
    rank: RankIndex,
    /// Named time that the rule counts: of the run, of the steps, or of the device's stalls.
    ns: i64,
    /// Observed time that contains it.
    window_ns: i64,
    /// Number of named intervals.
    count: u64,
}

/// Named time of one kind.
struct NamedTime {
    /// Ranks with such time, the largest time first.
    ranks: Vec<RankNamedTime>,
    /// Sum over these ranks, in rank-ns.
    ns: i64,
    /// Observed time that contains it, above 0, in rank-ns.
    window_ns: i64,
    /// Number of ranks that have a share.
    ranks_known: i64,
}

impl NamedTime {
    fn measure(facts: &Facts<'_>, rule: &PauseRule) -> Option<Self> {
        let not_seen = &facts.session.named_times.not_seen;
        if not_seen.iter().any(|kind| kind.kind == rule.kind.name()) {
            return None;
        }
        let mut time = Self {
            ranks: Vec::new(),
            ns: 0,
            window_ns: 0,
            ranks_known: 0,
        };
        for rank in 0..facts.session.ranks.len() as u32 {
            let Some(entry) = named_time_of(facts, rule, RankIndex(rank)) else {
                continue;
            };
            time.ranks_known += i64::from(entry.window_ns > 0);
            time.ns += entry.ns;
            time.window_ns += entry.window_ns;
            if entry.ns > 0 {
                time.ranks.push(entry);
            }
        }
        time.ranks
            .sort_by_key(|entry| (std::cmp::Reverse(entry.ns), entry.rank));
        (time.window_ns != 0).then_some(time)
    }

    fn fires(&self) -> bool {
        self.ns * 100 >= self.window_ns * MIN_PERCENT
    }

    fn draft(&self, facts: &Facts<'_>, rule: &PauseRule) -> Draft {
        let ns = self.ns;
        let names: Vec<String> = self
            .ranks
            .iter()
            .map(|entry| format!("{} {}", facts.name(entry.rank), shown(entry.ns)))
            .collect();
        let times: u64 = self.ranks.iter().map(|entry| entry.count).sum();
        let dearest = self.ranks.first().map_or(0, |entry| entry.ns);
        // In the run, all ranks wait for the slowest one. In steps, each rank has its own time.
        let cost = if rule.in_steps {
            ns / self.ranks_known.max(1)
        } else {
            dearest
        };
        let draft = Draft::new(
            rule.rule.id,
            rule.subject,
            format!("{} {}", percent(ns, self.window_ns), rule.title),
        )
        .evidence(format!("{} in {times} intervals: {}", shown(ns), some(&names)))
        .cause(rule.cause)
        .advice(rule.advice)
        .holds(
            if rule.in_steps {
                "share of the step time"
            } else {
                "share of the run"
            },
            ns as f64 / self.window_ns as f64 * 100.0,
            ">=",
            MIN_PERCENT as f64,
            "%",
        )
        .ranks(self.ranks.iter().map(|entry| entry.rank))
        .cost(
            cost,
            if rule.in_steps {
                "this time in whole steps, mean over ranks"
            } else {
                "this time on the slowest rank; the other ranks wait for it or do the same"
            },
            rule.lies_in,
        );
        match facts.step_time() {
            Some(time) if rule.in_steps => time.add_cost_of_step(draft, cost),
            _ => draft,
        }
    }
}

/// Returns the named time of one rank, or `None` if it is unknown whether the time counts.
fn named_time_of(facts: &Facts<'_>, rule: &PauseRule, rank: RankIndex) -> Option<RankNamedTime> {
    let sums = facts.sums(rank.index())?;
    let named = facts
        .session
        .named_times
        .ranks
        .iter()
        .find(|entry| entry.rank == rank.0);
    let part = named.and_then(|entry| entry.parts.iter().find(|part| part.kind == rule.kind.name()));
    let count = part.map_or(0, |part| part.count);
    let counted = |ns: i64, window_ns: i64| RankNamedTime {
        rank,
        ns,
        window_ns,
        count,
    };
    if !rule.in_steps {
        let run_ns = sums.log.span.map_or(0, Interval::duration_ns);
        return Some(counted(part.map_or(0, |part| part.in_run_ns), run_ns));
    }
    let activity = facts.session.activity.iter().find(|known| known.rank == rank.0);
    if let Some(activity) = activity.filter(|known| known.window_ns > 0) {
        let mut stalls = activity.device_stalls.by_cause.iter();
        let stalled = stalls.find(|sum| sum.cause == rule.kind.name());
        return Some(counted(stalled.map_or(0, |sum| sum.ns), activity.window_ns));
    }
    let is_whole = facts.in_steps().iter().any(|known| known.rank == rank.0);
    is_whole.then(|| {
        counted(
            part.map_or(0, |part| part.in_steps_ns),
            sums.steps.in_steps.window_ns,
        )
    })
}
