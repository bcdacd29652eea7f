//! The structure of a job: what its communicators are for, who is whose peer, and its pipelines (METRICS.md, sections 1
//! and 8).

use super::{Figure, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The structure of one world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorldStructure {
    /// Position in [`super::Session::worlds`].
    pub world: u32,
    /// Its communicators of the same role and shape, by size.
    pub groups: Vec<RoleGroup>,
    /// Ranks that hold the same position in the replicas of the model are peers: each list is one position. One list where
    /// nothing divides the model, so that every rank is a replica.
    pub peers: Vec<Vec<u32>>,
    /// How the peers were learnt: `data-groups`, `stages`, `all-ranks`.
    pub peers_source: String,
    /// Its pipelines, one for each number of stages.
    pub pipelines: Vec<Pipeline>,
    /// Why messages are no pipeline's, where there are messages; `null` if there are none or all are one's.
    pub no_pipeline: Option<String>,
}

/// Communicators that stand side by side: of one role, each with its own ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleGroup {
    /// What they are for: see [`super::CommunicatorSummary::role`].
    pub role: String,
    /// How that was learnt: see [`super::CommunicatorSummary::role_source`].
    pub role_source: String,
    /// Members of each.
    pub size: u32,
    /// Distance of the numbers of neighbouring members in the world; `null` if it is not the same everywhere.
    pub stride: Option<u32>,
    /// See [`super::CommunicatorSummary::scope`]; `mixed` if they differ.
    pub scope: String,
    /// Positions in [`super::Session::communicators`].
    pub communicators: Vec<u32>,
}

/// Stages that hand micro-batches on to one another, in one or more chains of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pipeline {
    /// Chains: each has one rank of each stage, the first stage first.
    pub chains: Vec<Vec<u32>>,
    /// Micro-batches of a step, counted from the messages from the first stage to the second. Unknown if that differs from
    /// step to step.
    pub micro_batches: Figure<u32>,
    /// Messages that carry one micro-batch from stage to stage, as the repetition of their sizes tells.
    pub messages_per_micro_batch: u32,
    /// The share of the time that a stage waits in an ideal pipeline of even stages: (p − 1) / (m + p − 1).
    pub ideal_bubble: Figure<Ratio>,
    /// What an even division of the work would win, by the mean step, ns: (m − 1) / m of what the slowest stage has to do
    /// more than the mean.
    pub imbalance_per_step_ns: Figure<i64>,
    /// The stages, the first one first.
    pub stages: Vec<Stage>,
}

/// A stage of a pipeline; its times are sums over its ranks and the steps that all ranks have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Its ranks, one of each chain.
    pub ranks: Vec<u32>,
    /// Steps in the sums, of each rank.
    pub steps: u64,
    /// Step time, rank-ns.
    pub window_rank_ns: i64,
    /// Own time: without what its threads or devices were blocked for communication, rank-ns.
    pub own_rank_ns: i64,
    /// Exposed waiting in receives along the chain, rank-ns.
    pub bubble_rank_ns: i64,
    /// The same as a share of step time; or why there is none.
    pub bubble: Figure<Ratio>,
}
