//! Pipelines from messages: ranks that hand something on from one to the next and get something back (METRICS.md,
//! section 8). Which end is the first is told by who sends before it has received.

use super::sample::{Message, Sample};
use crate::model::operation::NO_STEP;
use std::collections::BTreeMap;

/// Share of the sampled steps that must look alike, percent.
const ALIKE_PERCENT: usize = 90;
/// Steps without which nothing is said.
const FEWEST_STEPS: usize = 3;
/// Peers with a smaller share of a rank's messages are no neighbours in a chain, percent: now and then a stage sends
/// something to another one.
const LEAST_NEIGHBOUR_PERCENT: usize = 5;

/// Pipelines that were found.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// By number of stages.
    pub pipelines: Vec<Pipeline>,
}

/// Chains of the same number of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Each has one rank of each stage, the first first.
    pub chains: Vec<Vec<u32>>,
    /// Ranks by stage.
    pub stages: Vec<Vec<u32>>,
    /// Micro-batches of a step, if these are always as many.
    pub micro_batches: Option<u32>,
    /// Messages for each from stage to stage.
    pub per_micro_batch: u32,
}

/// Finds the pipelines among the ranks of a world, or says why messages are none's.
pub fn find(samples: &BTreeMap<u32, Sample>, has_steps: bool) -> Result<Chains, String> {
    if !has_steps {
        return Err("no steps are known, by which the ends of a chain could be told apart".to_owned());
    }
    let neighbours: BTreeMap<u32, Vec<u32>> = samples
        .iter()
        .filter(|(_, sample)| !sample.messages.is_empty())
        .map(|(&rank, sample)| (rank, neighbours(sample)))
        .collect();
    let mut by_length: BTreeMap<usize, Vec<Vec<u32>>> = BTreeMap::new();
    for path in paths(&neighbours)? {
        let oriented = orient(path, samples)?;
        by_length.entry(oriented.len()).or_default().push(oriented);
    }
    let pipelines = by_length
        .into_iter()
        .map(|(length, mut chains)| {
            chains.sort();
            let stages = (0..length)
                .map(|stage| chains.iter().map(|chain| chain[stage]).collect())
                .collect();
            let counted: Vec<Option<(u32, u32)>> =
                chains.iter().map(|chain| micro_batches(chain, samples)).collect();
            let first = counted.first().copied().flatten();
            let alike = first.filter(|_| counted.iter().all(|other| *other == first));
            Pipeline {
                stages,
                micro_batches: alike.map(|(count, _)| count),
                per_micro_batch: alike.map_or(1, |(_, messages)| messages),
                chains,
            }
        })
        .collect();
    Ok(Chains { pipelines })
}

/// Those with whom a rank exchanges a good part of its messages.
fn neighbours(sample: &Sample) -> Vec<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for message in &sample.messages {
        *counts.entry(message.peer).or_default() += 1;
    }
    let all = sample.messages.len();
    counts.retain(|_, count| *count * 100 >= all * LEAST_NEIGHBOUR_PERCENT);
    counts.into_keys().collect()
}

/// The sets of ranks that messages connect, each a path from one end to the other.
fn paths(neighbours: &BTreeMap<u32, Vec<u32>>) -> Result<Vec<Vec<u32>>, String> {
    let mut visited: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    if let Some((rank, peers)) = neighbours.iter().find(|(_, peers)| peers.len() > 2) {
        return Err(format!(
            "rank {rank} exchanges messages with {} others: no chain",
            peers.len()
        ));
    }
    for (rank, peers) in neighbours {
        if let Some(peer) = peers
            .iter()
            .find(|peer| neighbours.get(peer).is_none_or(|back| !back.contains(rank)))
        {
            return Err(format!(
                "of rank {peer} not all messages with rank {rank} were seen"
            ));
        }
    }
    for (&end, peers) in neighbours {
        if peers.len() != 1 || visited.contains(&end) {
            continue;
        }
        let mut path = vec![end];
        let (mut before, mut at) = (end, peers[0]);
        loop {
            path.push(at);
            let next = neighbours[&at].iter().copied().find(|&next| next != before);
            let Some(next) = next else { break };
            (before, at) = (at, next);
        }
        visited.extend(&path);
        all.push(path);
    }
    if visited.len() != neighbours.len() {
        return Err("messages go round in a ring, whose stages, if it has any, have no first one".to_owned());
    }
    Ok(all)
}

/// Messages of a rank by whole step.
fn by_step(sample: &Sample) -> Vec<Vec<&Message>> {
    let mut steps: BTreeMap<u32, Vec<&Message>> = BTreeMap::new();
    for message in sample.messages.iter().filter(|message| message.step != NO_STEP) {
        steps.entry(message.step).or_default().push(message);
    }
    steps.into_values().collect()
}

/// Share of a rank's steps that begin with a message like this; `None` with too few steps.
fn begins_with(sample: &Sample, is: impl Fn(&Message) -> bool) -> Option<bool> {
    let steps = by_step(sample);
    let alike = steps
        .iter()
        .filter(|step| step.first().is_some_and(|first| is(first)))
        .count();
    (steps.len() >= FEWEST_STEPS).then_some(alike * 100 >= steps.len() * ALIKE_PERCENT)
}

/// The path with its first stage first.
fn orient(mut path: Vec<u32>, samples: &BTreeMap<u32, Sample>) -> Result<Vec<u32>, String> {
    let starts = |rank: u32| {
        let told = samples
            .get(&rank)
            .and_then(|sample| begins_with(sample, |first| first.is_send));
        told.ok_or_else(|| {
            format!("too few steps of rank {rank} were seen to tell the ends of its chain apart")
        })
    };
    let ends = [path.first(), path.last()].map(|end| end.copied().unwrap_or(0));
    match (starts(ends[0])?, starts(ends[1])?) {
        (true, false) => {}
        (false, true) => path.reverse(),
        (true, true) => {
            return Err(format!(
                "both ends of a chain (ranks {} and {}) send first: an exchange, no pipeline",
                ends[0], ends[1]
            ));
        }
        (false, false) => {
            return Err(format!(
                "neither end of a chain (ranks {} and {}) sends first in most steps",
                ends[0], ends[1]
            ));
        }
    }
    for pair in path.windows(2) {
        let [before, rank] = [pair[0], pair[1]];
        let follows = samples
            .get(&rank)
            .and_then(|sample| begins_with(sample, |first| !first.is_send && first.peer == before));
        if follows != Some(true) {
            return Err(format!(
                "steps of rank {rank} do not begin with what rank {before} sends: no pipeline"
            ));
        }
    }
    Ok(path)
}

/// Micro-batches of a step and messages for each, from what the first stage sends to the second; `None` where steps
/// differ.
fn micro_batches(chain: &[u32], samples: &BTreeMap<u32, Sample>) -> Option<(u32, u32)> {
    let (first, second) = (chain.first()?, chain.get(1)?);
    let steps = by_step(samples.get(first)?);
    let forward: Vec<Vec<u64>> = steps
        .iter()
        .map(|step| {
            let sent = step
                .iter()
                .filter(|message| message.is_send && message.peer == *second);
            sent.map(|message| message.bytes).collect()
        })
        .collect();
    let usual = forward.get(forward.len() / 2)?;
    let alike = forward.iter().filter(|sizes| *sizes == usual).count();
    if usual.is_empty() || alike * 100 < forward.len() * ALIKE_PERCENT {
        return None;
    }
    let period = period(usual);
    Some(((usual.len() / period) as u32, period as u32))
}

/// The shortest part of which a list is a whole number of repetitions.
fn period(sizes: &[u64]) -> usize {
    (1..=sizes.len())
        .find(|&period| {
            sizes.len().is_multiple_of(period)
                && sizes
                    .iter()
                    .zip(&sizes[period..])
                    .all(|(one, other)| one == other)
        })
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64;

    fn message(at_ns: i64, peer: u32, is_send: bool, step: u32, bytes: u64) -> Message {
        Message {
            at_ns,
            peer,
            is_send,
            bytes,
            step,
        }
    }

    fn sampled(lists: Vec<(u32, Vec<Message>)>) -> BTreeMap<u32, Sample> {
        lists
            .into_iter()
            .map(|(rank, mut messages)| {
                messages.sort_by_key(|message| message.at_ns);
                let sample = Sample {
                    messages,
                    ..Sample::default()
                };
                (rank, sample)
            })
            .collect()
    }

    /// A chain in which each of `micro` batches goes down and comes back, with `sizes` messages each way.
    fn pipeline(chain: &[u32], micro: usize, sizes: &[u64]) -> Vec<(u32, Vec<Message>)> {
        let stages = chain.len();
        let mut lists: Vec<(u32, Vec<Message>)> = chain.iter().map(|&rank| (rank, Vec::new())).collect();
        for step in 0..5 {
            for batch in 0..micro {
                for stage in 0..stages - 1 {
                    for (part, &bytes) in (0..).zip(sizes) {
                        let at = i64::from(step) * 100_000 + (batch * 100 + stage * 10) as i64 + part;
                        let back = at + 10_000 + 20 * (stages - stage) as i64 - 20 * stage as i64;
                        lists[stage]
                            .1
                            .push(message(at, chain[stage + 1], true, step, bytes));
                        lists[stage + 1]
                            .1
                            .push(message(at + 5, chain[stage], false, step, bytes));
                        lists[stage + 1]
                            .1
                            .push(message(back, chain[stage], true, step, bytes));
                        lists[stage]
                            .1
                            .push(message(back + 5, chain[stage + 1], false, step, bytes));
                    }
                }
            }
        }
        lists
    }

    #[test]
    fn chains_beside_each_other_are_one_pipeline_whose_micro_batches_are_counted() {
        // Numbers do not say which end is the first.
        let mut lists = pipeline(&[6, 4, 2], 4, &[SIZE]);
        lists.extend(pipeline(&[7, 5, 3], 4, &[SIZE]));
        let found = find(&sampled(lists), true).expect("a pipeline").pipelines;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chains, [vec![6, 4, 2], vec![7, 5, 3]]);
        assert_eq!(found[0].stages, [vec![6, 7], vec![4, 5], vec![2, 3]]);
        assert_eq!((found[0].micro_batches, found[0].per_micro_batch), (Some(4), 1));
    }

    #[test]
    fn several_tensors_of_one_micro_batch_are_told_by_their_sizes() {
        let found = find(&sampled(pipeline(&[0, 1], 3, &[SIZE, 2 * SIZE])), true).expect("a pipeline");
        let found = &found.pipelines[0];
        assert_eq!((found.micro_batches, found.per_micro_batch), (Some(3), 2));
    }

    #[test]
    fn exchanges_rings_stars_and_jobs_without_steps_are_no_pipelines() {
        let exchange = (0..4)
            .map(|rank: u32| {
                let peers = [rank.checked_sub(1), (rank < 3).then_some(rank + 1)];
                let messages = peers.into_iter().flatten().flat_map(|peer| {
                    (0..5).flat_map(move |step| {
                        let at = i64::from(step) * 100;
                        [
                            message(at, peer, true, step, SIZE),
                            message(at + 9, peer, false, step, SIZE),
                        ]
                    })
                });
                (rank, messages.collect())
            })
            .collect();
        let reason = find(&sampled(exchange), true).expect_err("no pipeline");
        assert!(reason.contains("both ends"), "{reason}");

        let ring = (0..4)
            .map(|rank: u32| {
                let (next, before) = ((rank + 1) % 4, (rank + 3) % 4);
                let messages = (0..5).flat_map(|step| {
                    let at = i64::from(step) * 100;
                    [
                        message(at, next, true, step, SIZE),
                        message(at + 9, before, false, step, SIZE),
                    ]
                });
                (rank, messages.collect())
            })
            .collect();
        let reason = find(&sampled(ring), true).expect_err("no pipeline");
        assert!(reason.contains("ring"), "{reason}");

        let mut star = pipeline(&[0, 1], 2, &[SIZE]);
        for leaf in [2, 3] {
            let mut more = pipeline(&[0, leaf], 2, &[SIZE]);
            star[0].1.append(&mut more[0].1);
            star.push(more.remove(1));
        }
        let reason = find(&sampled(star), true).expect_err("no pipeline");
        assert!(reason.contains("3 others"), "{reason}");

        assert!(find(&sampled(pipeline(&[0, 1], 2, &[SIZE])), false).is_err());
    }

    #[test]
    fn micro_batches_that_change_from_step_to_step_are_not_told() {
        let mut lists = pipeline(&[0, 1], 2, &[SIZE]);
        for step in 0..3 {
            let at = i64::from(step) * 100_000 + 50;
            lists[0].1.push(message(at, 1, true, step, 8));
            lists[1].1.push(message(at + 5, 0, false, step, 8));
        }
        // A third message of another size in three of five steps.
        let found = find(&sampled(lists), true).expect("a pipeline");
        assert_eq!(found.pipelines[0].micro_batches, None);
        assert_eq!(period(&[1, 2, 1, 2]), 2);
        assert_eq!(period(&[1, 2, 1]), 3);
        assert_eq!(period(&[7]), 1);
    }
}
