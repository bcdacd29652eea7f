//! Changes in the new runs: the likely causes of a change of the step time.
//!
//! [`program`] compares the requested operations, [`times`] the times of operations, kernels and pauses, [`ranks`] the
//! ranks and hosts, [`findings`] the findings of the reports, and [`environment`] the variables that control
//! communication.

mod change;
mod environment;
mod findings;
mod program;
mod ranks;
mod times;

use super::Run;
use super::judge::Judged;
use super::layout::{Layout, Side};
use rankscope_formats::comparison::Change;

/// Changes and their summary.
pub struct Changes {
    /// Changes, the most important first.
    pub all: Vec<Change>,
    /// Operation class whose waiting grew most, and its growth in nanoseconds of the mean step.
    pub waits: Option<(String, f64)>,
    /// Operation class whose transfer grew most, and its growth in nanoseconds of the mean step.
    pub transfers: Option<(String, f64)>,
    /// Rank whose own time grew more than that of the others, and its growth in nanoseconds of its mean step.
    pub slower_rank: Option<(u32, f64)>,
}

/// Finds the changes between the compared runs.
pub fn changes(base: &[Run], new: &[Run], layout: &Layout, judged: &Judged) -> Changes {
    let compared_base: Vec<&Run> = layout.compared(Side::Base).iter().map(|&at| &base[at]).collect();
    let compared_new: Vec<&Run> = layout.compared(Side::New).iter().map(|&at| &new[at]).collect();
    let mut all = program::changes(&compared_base, &compared_new);
    let times = times::changes(judged, &compared_base, &compared_new);
    all.extend(times.all);
    let ranks = ranks::changes(base, new, layout);
    all.extend(ranks.all);
    all.extend(findings::changes(&compared_base, &compared_new));
    all.extend(environment::changes(&compared_base, &compared_new));
    // Changes of the program come first because they explain the rest; then changes by cost.
    let rank = |change: &Change| {
        let is_program = change.kind.starts_with("operation-added")
            || [
                "operation-removed",
                "operation-count",
                "operation-resized",
                "operations-reordered",
                "communicators",
            ]
            .contains(&change.kind.as_str());
        (
            !is_program,
            change.step_ns.value.is_none(),
            -change.step_ns.value.unwrap_or(0.0).abs(),
        )
    };
    all.sort_by(|one, other| {
        let (one, other) = (rank(one), rank(other));
        one.0
            .cmp(&other.0)
            .then(one.1.cmp(&other.1))
            .then(one.2.total_cmp(&other.2))
    });
    Changes {
        all,
        waits: times.waits,
        transfers: times.transfers,
        slower_rank: ranks.slower,
    }
}
