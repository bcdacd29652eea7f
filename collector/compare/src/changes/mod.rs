//! What is otherwise in the new runs: the likely causes of a change of the step time.
//!
//! [`program`] compares what the program asks for, [`times`] which operations, kernels and pauses take longer, [`ranks`] which ranks
//! and hosts, [`findings`] what the reports found, [`environment`] the variables that steer communication.

mod environment;
mod findings;
mod program;
mod ranks;
mod times;

use super::Run;
use super::judge::Judged;
use super::layout::{Layout, Side};
use rankscope_formats::comparison::Change;
use rankscope_formats::session::Figure;

/// What changed, and what is said of it.
pub struct Changes {
    /// The most telling first.
    pub all: Vec<Change>,
    /// The operation class whose waiting grew most, and by how much, ns of the mean step.
    pub waits: Option<(String, f64)>,
    /// The operation class whose transfer grew most, ns of the mean step.
    pub transfers: Option<(String, f64)>,
    /// The rank whose own time grew beyond that of the others, ns of its mean step.
    pub slower_rank: Option<(u32, f64)>,
}

/// Finds what changed between the compared runs.
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
    // What the program does otherwise explains the rest; then what costs most.
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

/// A change without a time of its own.
fn untimed(kind: &str, text: String, is_worse: Option<bool>) -> Change {
    Change {
        kind: kind.to_owned(),
        text,
        step_ns: Figure::unknown("it has no time of its own"),
        is_worse,
    }
}

/// A change with a time.
fn timed(kind: &str, text: String, ns: f64) -> Change {
    Change {
        kind: kind.to_owned(),
        text,
        step_ns: Figure::known(ns),
        is_worse: Some(ns > 0.0),
    }
}
