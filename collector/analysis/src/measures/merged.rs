//! What a merge learned, borrowed by the findings and the summary.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::measures::analysis::Analysis;
use crate::rank::RankSums;
use crate::steps::finder::StepPlan;
use crate::structure::Structure;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::reader::RankLog;
use std::path::PathBuf;

/// Everything a summary is made from.
pub struct Merged<'a> {
    /// Run directories and logs that were merged.
    pub directories: &'a [PathBuf],
    /// The logs.
    pub logs: &'a [RankLog],
    /// Where the part begins that was merged, if it was not all of the run.
    pub from_ns: Option<i64>,
    /// The axis.
    pub clocks: &'a Clocks,
    /// Who is who.
    pub identities: &'a Identities,
    /// Steps of each world.
    pub plans: &'a [StepPlan],
    /// Structure of each world.
    pub structures: &'a [Structure],
    /// Sums of each rank.
    pub sums: &'a [RankSums],
    /// Everything about instances.
    pub analysis: &'a Analysis<'a>,
    /// What was not as it should be.
    pub problems: Vec<ProblemSummary>,
}
