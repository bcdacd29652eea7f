//! Finds pipelines from messages: chains of ranks that send data forward and receive data back (METRICS.md, section 8).
//! The first stage is the end that sends before it receives.

use super::sample::{Message, Sample};
use crate::model::operation::NO_STEP;
use rankscope_formats::ids::{RankIndex, StepIndex};
use std::collections::BTreeMap;

/// Minimum share of the sampled steps that must be alike, in percent.
const ALIKE_PERCENT: usize = 90;
/// Minimum number of sampled steps.
const MIN_STEPS: usize = 3;
/// Minimum share of a rank's messages with a neighbour in a chain, in percent. A stage may occasionally send to other
/// ranks.
const MIN_NEIGHBOUR_PERCENT: usize = 5;

/// Pipelines of a world.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// Pipelines by number of stages.
    pub pipelines: Vec<Pipeline>,
}

/// Chains with the same number of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Chains with one rank of each stage, the first stage first.
    pub chains: Vec<Vec<RankIndex>>,
    /// Ranks by stage.
    pub stages: Vec<Vec<RankIndex>>,
    /// Number of micro-batches per step, if it is constant.
    pub micro_batches: Option<u32>,
    /// Number of messages per micro-batch from stage to stage.
    pub per_micro_batch: u32,
}

/// Name of a rank in a reason: its number in its world, or the position of its log.
type NameOf<'a> = &'a dyn Fn(RankIndex) -> String;

/// Finds the pipelines among the ranks of a world. The error says why the messages form no pipeline.
pub fn find(
    samples: &BTreeMap<RankIndex, Sample>,
    has_steps: bool,
    name_of: NameOf<'_>,
) -> Result<Chains, String> {
    if !has_steps {
        return Err("without steps, the ends of a chain cannot be distinguished".to_owned());
    }
    let neighbours: BTreeMap<RankIndex, Vec<RankIndex>> = samples
        .iter()
        .filter(|(_, sample)| !sample.messages.is_empty())
        .map(|(&rank, sample)| (rank, neighbours(sample)))
        .collect();
    let mut by_length: BTreeMap<usize, Vec<Vec<RankIndex>>> = BTreeMap::new();
    for path in paths(&neighbours, name_of)? {
        let oriented = orient(path, samples, name_of)?;
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

/// Returns the peers that exchange a significant share of a rank's messages with it.
fn neighbours(sample: &Sample) -> Vec<RankIndex> {
    let mut counts: BTreeMap<RankIndex, usize> = BTreeMap::new();
    for message in &sample.messages {
        *counts.entry(message.peer).or_default() += 1;
    }
    let all = sample.messages.len();
    counts.retain(|_, count| *count * 100 >= all * MIN_NEIGHBOUR_PERCENT);
    counts.into_keys().collect()
}

/// Returns the sets of ranks that messages connect, each as a path from one end to the other.
fn paths(
    neighbours: &BTreeMap<RankIndex, Vec<RankIndex>>,
    name_of: NameOf<'_>,
) -> Result<Vec<Vec<RankIndex>>, String> {
    let mut visited: Vec<RankIndex> = Vec::new();
    let mut all = Vec::new();
    if let Some((rank, peers)) = neighbours.iter().find(|(_, peers)| peers.len() > 2) {
        return Err(format!(
            "{} exchanges messages with {} other ranks: not a chain",
            name_of(*rank),
            peers.len()
        ));
    }
    for (rank, peers) in neighbours {
        if let Some(peer) = peers
            .iter()
            .find(|peer| neighbours.get(peer).is_none_or(|back| !back.contains(rank)))
        {
            return Err(format!(
                "{} lacks messages that {} exchanged with it",
                name_of(*peer),
                name_of(*rank)
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
        return Err("messages form a ring, so no rank is the first stage".to_owned());
    }
    Ok(all)
}

/// Returns the messages of a rank by whole step.
fn by_step(sample: &Sample) -> Vec<Vec<&Message>> {
    let mut steps: BTreeMap<StepIndex, Vec<&Message>> = BTreeMap::new();
    for message in sample.messages.iter().filter(|message| message.step != NO_STEP) {
        steps.entry(message.step).or_default().push(message);
    }
    steps.into_values().collect()
}

/// Returns whether a sufficient share of a rank's steps begins with such a message; `None` with too few steps.
fn begins_with(sample: &Sample, is: impl Fn(&Message) -> bool) -> Option<bool> {
    let steps = by_step(sample);
    let alike = steps
        .iter()
        .filter(|step| step.first().is_some_and(|first| is(first)))
        .count();
    (steps.len() >= MIN_STEPS).then_some(alike * 100 >= steps.len() * ALIKE_PERCENT)
}

/// Returns the path with its first stage first.
fn orient(
    mut path: Vec<RankIndex>,
    samples: &BTreeMap<RankIndex, Sample>,
    name_of: NameOf<'_>,
) -> Result<Vec<RankIndex>, String> {
    let starts = |rank: RankIndex| {
        let sends_first = samples
            .get(&rank)
            .and_then(|sample| begins_with(sample, |first| first.is_send));
        sends_first.ok_or_else(|| {
            format!(
                "too few steps of {} were recorded to distinguish the ends of its chain",
                name_of(rank)
            )
        })
    };
    let ends = [path.first(), path.last()].map(|end| end.copied().unwrap_or_default());
    match (starts(ends[0])?, starts(ends[1])?) {
        (true, false) => {}
        (false, true) => path.reverse(),
        (true, true) => {
            return Err(format!(
                "both ends of a chain ({} and {}) send first: an exchange, not a pipeline",
                name_of(ends[0]),
                name_of(ends[1])
            ));
        }
        (false, false) => {
            return Err(format!(
                "neither end of a chain ({} and {}) sends first in most steps",
                name_of(ends[0]),
                name_of(ends[1])
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
                "steps of {} do not begin with a message from {}: not a pipeline",
                name_of(rank),
                name_of(before)
            ));
        }
    }
    Ok(path)
}

/// Returns the number of micro-batches per step and of messages per micro-batch, from the messages of the first stage
/// to the second. Returns `None` if steps differ.
fn micro_batches(chain: &[RankIndex], samples: &BTreeMap<RankIndex, Sample>) -> Option<(u32, u32)> {
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

/// Returns the length of the shortest part whose repetition gives the list.
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

    /// Numbers in the world begin at 10 here, so that they differ from positions in the session.
    fn name(rank: RankIndex) -> String {
        format!("rank {}", rank.0 + 10)
    }

    fn message(at_ns: i64, peer: u32, is_send: bool, step: u32, bytes: u64) -> Message {
        Message {
            at_ns,
            peer: RankIndex(peer),
            is_send,
            bytes,
            step: StepIndex(step),
        }
    }

    fn ranks(numbers: &[u32]) -> Vec<RankIndex> {
        numbers.iter().copied().map(RankIndex).collect()
    }

    fn sampled(lists: Vec<(u32, Vec<Message>)>) -> BTreeMap<RankIndex, Sample> {
        lists
            .into_iter()
            .map(|(rank, mut messages)| {
                messages.sort_by_key(|message| message.at_ns);
                let sample = Sample {
                    messages,
                    ..Sample::default()
                };
                (RankIndex(rank), sample)
            })
            .collect()
    }

    /// Creates a chain in which each of `micro` micro-batches passes forward and back, with messages of `sizes` in each
    /// direction.
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
    fn parallel_chains_are_one_pipeline_and_its_micro_batches_are_counted() {
        // The rank numbers do not show which end is the first stage.
        let mut lists = pipeline(&[6, 4, 2], 4, &[SIZE]);
        lists.extend(pipeline(&[7, 5, 3], 4, &[SIZE]));
        let found = find(&sampled(lists), true, &name).expect("a pipeline").pipelines;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chains, [ranks(&[6, 4, 2]), ranks(&[7, 5, 3])]);
        assert_eq!(found[0].stages, [ranks(&[6, 7]), ranks(&[4, 5]), ranks(&[2, 3])]);
        assert_eq!((found[0].micro_batches, found[0].per_micro_batch), (Some(4), 1));
    }

    #[test]
    fn several_tensors_of_one_micro_batch_are_recognised_by_their_sizes() {
        let found = find(&sampled(pipeline(&[0, 1], 3, &[SIZE, 2 * SIZE])), true, &name).expect("a pipeline");
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
        let reason = find(&sampled(exchange), true, &name).expect_err("no pipeline");
        assert!(
            reason.contains("both ends of a chain (rank 10 and rank 13)"),
            "{reason}"
        );

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
        let reason = find(&sampled(ring), true, &name).expect_err("no pipeline");
        assert!(reason.contains("ring"), "{reason}");

        let mut star = pipeline(&[0, 1], 2, &[SIZE]);
        for leaf in [2, 3] {
            let mut more = pipeline(&[0, leaf], 2, &[SIZE]);
            star[0].1.append(&mut more[0].1);
            star.push(more.remove(1));
        }
        let reason = find(&sampled(star), true, &name).expect_err("no pipeline");
        assert!(
            reason.contains("rank 10 exchanges messages with 3 other"),
            "{reason}"
        );

        assert!(find(&sampled(pipeline(&[0, 1], 2, &[SIZE])), false, &name).is_err());
    }

    #[test]
    fn micro_batches_that_change_from_step_to_step_are_unknown() {
        let mut lists = pipeline(&[0, 1], 2, &[SIZE]);
        for step in 0..3 {
            let at = i64::from(step) * 100_000 + 50;
            lists[0].1.push(message(at, 1, true, step, 8));
            lists[1].1.push(message(at + 5, 0, false, step, 8));
        }
        // A third message of another size in three of five steps.
        let found = find(&sampled(lists), true, &name).expect("a pipeline");
        assert_eq!(found.pipelines[0].micro_batches, None);
        assert_eq!(period(&[1, 2, 1, 2]), 2);
        assert_eq!(period(&[1, 2, 1]), 3);
        assert_eq!(period(&[7]), 1);
    }
}
