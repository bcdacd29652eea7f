//! Time of the hosts that has a name: input, checkpoints, evaluation, garbage collection. One rule for each.

use crate::findings::draft::part::{HOST, IDLE, OUTSIDE};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::PauseKind;

/// Share of the time from which it is told, percent.
const LEAST_PERCENT: i64 = 2;

/// Training waits for its input.
pub const INPUT: Rule = Rule {
    id: "input-bound",
    title: "Training waits for its input",
    means: "In each step the training threads fetch or prepare input instead of computing: the data loader is too slow.",
    fires: "Time that marks, ranges or annotations name as input, on training threads and not blocked for communication, is at \
            least 2 % of the step time of all ranks together; where devices' work is recorded, so long they do not compute because \
            of it.",
    silent: "Input that is prepared by other threads or processes, ranks whose devices' other kernels are not known, and input that \
             nothing names.",
    find: Some(input),
    of_stated: None,
};

/// Checkpoints hold up training.
pub const CHECKPOINT: Rule = Rule {
    id: "checkpoint-pause",
    title: "Writing or reading checkpoints holds up training",
    means: "The training threads write or read files of parameters themselves, and nothing is trained meanwhile.",
    fires: "torch.save, torch.load and what marks or ranges name as checkpoints take at least 2 % of the run on the threads that \
            train.",
    silent: "Checkpoints that other threads write in the background, and ways of writing that neither the hooks nor a mark names.",
    find: Some(checkpoint),
    of_stated: None,
};

/// Evaluation takes its time.
pub const EVALUATION: Rule = Rule {
    id: "evaluation-time",
    title: "Part of the run is evaluation, not training",
    means: "The model is evaluated between steps of training. It is counted apart, and belongs to no step's statistics.",
    fires: "What marks or ranges name as evaluation or validation takes at least 2 % of the run on the threads that train.",
    silent: "Evaluation that nothing names.",
    find: Some(evaluation),
    of_stated: None,
};

/// The garbage collector holds up training.
pub const GARBAGE: Rule = Rule {
    id: "garbage-collection",
    title: "Garbage collection holds up training",
    means: "The interpreter collects garbage on the threads that train, each rank at another time, and all wait for each other.",
    fires: "What marks or ranges name as garbage collection is at least 2 % of the step time of all ranks together; where devices' \
            work is recorded, so long they do not compute because of it.",
    silent: "Collections that nothing names: Python does not tell of them.",
    find: Some(garbage),
    of_stated: None,
};

/// What a rule has to say of its kind of time.
struct Told {
    rule: &'static Rule,
    kind: PauseKind,
    /// Of steps, and as far as devices wait for it; else of the run.
    in_steps: bool,
    subject: &'static str,
    /// `{}` of the ranks' time …
    title: &'static str,
    cause: &'static str,
    advice: &'static str,
    lies_in: &'static [&'static str],
}

fn input(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &Told {
            rule: &INPUT,
            kind: PauseKind::Input,
            in_steps: true,
            subject: "the input",
            title: "of the step time goes into waiting for input",
            cause: "the data loader does not keep up: too few workers, slow storage, or preparation on the training thread",
            advice: "more workers, prefetching, pinned memory; prepare or cache what is the same in each epoch",
            lies_in: &[HOST, IDLE],
        },
    )
}

fn checkpoint(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &Told {
            rule: &CHECKPOINT,
            kind: PauseKind::Checkpoint,
            in_steps: false,
            subject: "checkpoints",
            title: "of the run goes into writing or reading checkpoints",
            cause: "checkpoints are written by the threads that train",
            advice: "write asynchronously (torch.distributed.checkpoint's async_save), by each rank its shard, less often, or to faster \
                 storage first",
            lies_in: &[HOST, IDLE, OUTSIDE],
        },
    )
}

fn evaluation(facts: &Facts<'_>) -> Vec<Draft> {
    let told = find(
        facts,
        &Told {
            rule: &EVALUATION,
            kind: PauseKind::Evaluation,
            in_steps: false,
            subject: "evaluation",
            title: "of the run is evaluation",
            cause: "the program evaluates between steps of training",
            advice: "evaluate less often or on fewer batches, if that is more than wanted",
            lies_in: &[HOST, IDLE, OUTSIDE],
        },
    );
    told.into_iter().map(|draft| draft.severity("note")).collect()
}

fn garbage(facts: &Facts<'_>) -> Vec<Draft> {
    find(
        facts,
        &Told {
            rule: &GARBAGE,
            kind: PauseKind::GarbageCollection,
            in_steps: true,
            subject: "garbage collection",
            title: "of the step time is garbage collection",
            cause: "the interpreter's collector runs in the middle of steps, at another time on each rank",
            advice: "gc.freeze() after start-up, gc.disable() and gc.collect() at the same step on all ranks",
            lies_in: &[HOST, IDLE],
        },
    )
}

/// Time of one rank that counts, and of how much; `None` if nothing says whether it counts.
fn of_rank(facts: &Facts<'_>, told: &Told, rank: u32) -> Option<(i64, i64, u64)> {
    let sums = facts.sums(rank as usize)?;
    let named = facts
        .session
        .named_times
        .ranks
        .iter()
        .find(|entry| entry.rank == rank);
    let part = named.and_then(|entry| entry.parts.iter().find(|part| part.kind == told.kind.name()));
    let count = part.map_or(0, |part| part.count);
    if !told.in_steps {
        let run_ns = sums.span_ns.map_or(0, |(first, last)| last - first);
        return Some((part.map_or(0, |part| part.in_run_ns), run_ns, count));
    }
    let activity = facts.session.activity.iter().find(|known| known.rank == rank);
    if let Some(activity) = activity.filter(|known| known.window_ns > 0) {
        let mut stalls = activity.device_stalls.by_cause.iter();
        let stalled = stalls.find(|sum| sum.cause == told.kind.name());
        return Some((stalled.map_or(0, |sum| sum.ns), activity.window_ns, count));
    }
    let is_whole = facts.in_steps().iter().any(|known| known.rank == rank);
    is_whole.then(|| {
        (
            part.map_or(0, |part| part.in_steps_ns),
            sums.in_steps.window_ns,
            count,
        )
    })
}

fn find(facts: &Facts<'_>, told: &Told) -> Vec<Draft> {
    let mut ranks: Vec<(u32, i64, u64)> = Vec::new();
    let (mut ns, mut window_ns, mut known) = (0, 0, 0);
    let is_seen = facts
        .session
        .named_times
        .not_seen
        .iter()
        .all(|kind| kind.kind != told.kind.name());
    for rank in (0..facts.session.ranks.len() as u32).filter(|_| is_seen) {
        let Some((of_rank, window, count)) = of_rank(facts, told, rank) else {
            continue;
        };
        known += i64::from(window > 0);
        ns += of_rank;
        window_ns += window;
        if of_rank > 0 {
            ranks.push((rank, of_rank, count));
        }
    }
    if window_ns == 0 || ns * 100 < window_ns * LEAST_PERCENT {
        return Vec::new();
    }
    ranks.sort_by_key(|&(rank, ns, _)| (std::cmp::Reverse(ns), rank));
    let names: Vec<String> = ranks
        .iter()
        .map(|&(rank, ns, _)| format!("{} {}", facts.name(rank), shown(ns)))
        .collect();
    let times: u64 = ranks.iter().map(|&(_, _, count)| count).sum();
    let dearest = ranks.first().map_or(0, |&(_, ns, _)| ns);
    // All ranks wait for the one that takes longest, in the run; in steps each has its own.
    let cost = if told.in_steps { ns / known.max(1) } else { dearest };
    let steps: Vec<_> = facts.worlds();
    let draft = Draft::new(
        told.rule.id,
        told.subject,
        format!("{} {}", percent(ns, window_ns), told.title),
    )
    .evidence(format!("{} in {times} times: {}", shown(ns), some(&names)))
    .cause(told.cause)
    .advice(told.advice)
    .holds(
        if told.in_steps {
            "of the step time"
        } else {
            "of the run"
        },
        ns as f64 / window_ns as f64 * 100.0,
        ">=",
        LEAST_PERCENT as f64,
        "%",
    )
    .ranks(ranks.iter().map(|&(rank, ..)| rank))
    .cost(
        cost,
        if told.in_steps {
            "its time in whole steps, by the mean rank"
        } else {
            "its time on the rank that takes longest: the others wait for that, or do the same"
        },
        told.lies_in,
    );
    let counted: u64 = steps.iter().map(|world| world.board.count).sum();
    vec![
        match (facts.session.steps.median_ns.value, told.in_steps && counted > 0) {
            (Some(median), true) => draft.of_step(cost / counted as i64, median),
            _ => draft,
        },
    ]
}
