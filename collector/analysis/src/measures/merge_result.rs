//! Result of a merge, borrowed by the findings and the summary.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::measures::all::Measures;
use crate::model::part_window::PartWindow;
use crate::rank::{GpuSum, RankSums};
use crate::steps::plan::StepPlan;
use crate::structure::Structure;
use rankscope_formats::ras::RasStatus;
use rankscope_formats::session::ProblemSummary;
use rankscope_formats::status::Status;
use rankscope_ranklog::reader::RankLog;
use std::path::PathBuf;

/// Input of the summary.
pub struct MergeResult<'a> {
    /// Run directories and logs that were merged.
    pub directories: &'a [PathBuf],
    /// The logs.
    pub logs: &'a [RankLog],
    /// The merged part, if only a part of the run was merged.
    pub part: Option<PartWindow>,
    /// The axis.
    pub clocks: &'a Clocks,
    /// Identities of ranks and communicators.
    pub identities: &'a Identities,
    /// Steps of each world.
    pub plans: &'a [StepPlan],
    /// Structure of each world.
    pub structures: &'a [Structure],
    /// Sums of each rank.
    pub sums: &'a [RankSums],
    /// Measures over all instances.
    pub measures: &'a Measures<'a>,
    /// Status files of NCCL's RAS subsystem in the run directories.
    pub ras: Vec<RasStatus>,
    /// Reports of hangs in the run directories, in the order of their times.
    pub hangs: Vec<Status>,
    /// Sampled GPUs that no rank uses.
    pub other_gpus: Vec<GpuSum>,
    /// Problems during the merge.
    pub problems: Vec<ProblemSummary>,
}
