//! Structure of a job: the purpose of its communicators, the peers of each rank, and its pipelines (METRICS.md,
//! sections 1 and 8).

use super::ranks::Scope;
use super::{Figure, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Structure of one world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorldStructure {
    /// Index into [`super::Session::worlds`].
    pub world: u32,
    /// Communicators of the world, grouped by role and shape, ordered by size.
    pub groups: Vec<RoleGroup>,
    /// Ranks at the same position in the replicas of the model. Each inner list is one position, and its ranks are
    /// peers. There is one list of all ranks if nothing divides the model: every rank is then a replica.
    pub peers: Vec<Vec<u32>>,
    /// Source of the peers: `data-groups`, `stages` or `all-ranks`.
    pub peers_source: String,
    /// Pipelines of the world, one for each number of stages.
    pub pipelines: Vec<Pipeline>,
    /// Reason why some messages belong to no pipeline. `null` if there are no messages, or if all of them belong to a
    /// pipeline.
    pub no_pipeline: Option<String>,
}

/// Communicators of the same role and shape, each with its own ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleGroup {
    /// Purpose of the communicators: see [`super::CommunicatorSummary::role`].
    pub role: String,
    /// Source of the role: see [`super::CommunicatorSummary::role_source`].
    pub role_source: String,
    /// Number of members of each communicator.
    pub size: u32,
    /// Distance between the world numbers of neighbouring members. `null` if it is not the same everywhere.
    pub stride: Option<u32>,
    /// Reach of the communicators. `mixed` if the communicators differ.
    pub scope: Scope,
    /// Indices into [`super::Session::communicators`].
    pub communicators: Vec<u32>,
}

/// Pipeline: stages that pass micro-batches along one or more chains of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pipeline {
    /// Chains of the pipeline. Each has one rank of each stage, the first stage first.
    pub chains: Vec<Vec<u32>>,
    /// Number of micro-batches per step, counted from the messages from the first stage to the second. Unknown if it
    /// varies between steps.
    pub micro_batches: Figure<u32>,
    /// Number of messages that carry one micro-batch from stage to stage, derived from the repetition of the message
    /// sizes.
    pub messages_per_micro_batch: u32,
    /// Share of the time that a stage waits in an ideal pipeline of even stages: (p − 1) / (m + p − 1).
    pub ideal_bubble: Figure<Ratio>,
    /// Time that an even division of the work would save per mean step, in nanoseconds. Computed as (m − 1) / m times
    /// the excess of the slowest stage's own time over the mean.
    pub imbalance_per_step_ns: Figure<i64>,
    /// Stages of the pipeline, the first one first.
    pub stages: Vec<Stage>,
}

/// Stage of a pipeline. Its times are sums over its ranks and over the steps that all ranks have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Ranks of the stage, one of each chain.
    pub ranks: Vec<u32>,
    /// Number of steps in the sums, per rank.
    pub steps: u64,
    /// Step time, in rank-nanoseconds.
    pub window_rank_ns: i64,
    /// Own time: step time in which the stage's threads or devices were not blocked for communication, in
    /// rank-nanoseconds.
    pub own_rank_ns: i64,
    /// Exposed wait in receives along the chain, in rank-nanoseconds.
    pub bubble_rank_ns: i64,
    /// The bubble as a share of step time, or the reason why it is unknown.
    pub bubble: Figure<Ratio>,
}
