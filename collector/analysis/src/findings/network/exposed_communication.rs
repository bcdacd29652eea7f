//! Communication that the job does not hide.

use super::small_buckets::transfer_rank_ns;
use crate::findings::draft::part::{TRANSFER, WAITING};
use crate::findings::facts::{StepTime, exposed_transfer_ns};
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::OperationClass;
use rankscope_formats::session::Severity;

/// Share of step time above which exposed communication is reported (METRICS.md, section 10), in percent.
const MAX_PERCENT: i64 = 30;

/// A large part of the step time is exposed communication.
pub const RULE: Rule = Rule {
    id: "exposed-communication",
    title: "A large part of the step time is exposed communication",
    means: "For a large part of each step, communication blocks the program or its device.",
    fires: "Exposed communication, including waits for peers, exceeds 30 % of the step time of all ranks together.",
    silent: "Communication that computation hides. Ranks whose operations have no times. Hosts with more ranks than \
            processors: their ranks wait for a processor.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    if !facts.crowded().is_empty() {
        return Vec::new();
    }
    Exposed::measure(facts)
        .filter(Exposed::fires)
        .map(|exposed| exposed.draft(facts))
        .into_iter()
        .collect()
}

/// Exposed communication in whole steps.
struct Exposed<'a> {
    time: StepTime<'a>,
    /// Exposed communication, summed over ranks, in rank-ns.
    all_ns: i64,
    /// The part of it that is transfer and not waiting for peers, in rank-ns.
    transfer_ns: i64,
}

impl<'a> Exposed<'a> {
    fn measure(facts: &Facts<'a>) -> Option<Self> {
        let time = facts.step_time()?;
        Some(Self {
            all_ns: time
                .entries
                .iter()
                .map(|entry| entry.exposed_communication_ns)
                .sum(),
            transfer_ns: exposed_transfer_ns(&time.entries),
            time,
        })
    }

    fn fires(&self) -> bool {
        self.all_ns * 100 > self.time.window_ns * MAX_PERCENT
    }

    fn draft(&self, facts: &Facts<'_>) -> Draft {
        let (exposed, transfer, window) = (self.all_ns, self.transfer_ns, self.time.window_ns);
        let waiting = exposed - transfer;
        let ranks = self.time.ranks();
        let draft = Draft::new(
            RULE.id,
            "communication",
            format!(
                "{} of the ranks' step time is exposed communication",
                percent(exposed, window)
            ),
        )
        .evidence(format!(
            "{} is waiting for peers and {} is transfer, of {} step time over {ranks} ranks",
            percent(waiting, window),
            percent(transfer, window),
            shown(window)
        ));
        let draft = with_dearest(draft, &facts.session.operations);
        let draft = if waiting > transfer {
            draft
                .cause("ranks spend more time waiting for each other than transferring data")
                .advice(
                    "find the late ranks first; more overlap does not help while ranks wait for each other",
                )
        } else {
            draft
                .cause("there is too little computation to hide the communication, or the communication starts too late")
                .advice(
                    "use larger batches per rank or gradient accumulation; overlap more (DDP's buckets, FSDP's \
                     prefetch); send fewer bytes (lower precision, compression); use a faster path between ranks",
                )
        };
        let draft = draft
            .severity(Severity::Warning)
            .holds(
                "exposed communication as a share of step time",
                exposed as f64 / window as f64 * 100.0,
                ">",
                MAX_PERCENT as f64,
                "%",
            )
            .ranks(self.time.entries.iter().map(|entry| RankIndex(entry.rank)))
            .cost(
                exposed / ranks,
                "exposed communication in whole steps, mean over ranks; an upper bound, reached only if all of it could \
                 be hidden",
                &[WAITING, TRANSFER],
            );
        self.time.add_cost_of_step(draft, exposed / ranks)
    }
}

/// Adds the class of operations with the most transfer time to the evidence.
fn with_dearest(draft: Draft, operations: &[OperationClass]) -> Draft {
    let dearest = operations
        .iter()
        .map(|class| (class, transfer_rank_ns(std::iter::once(class))))
        .filter(|&(_, rank_ns)| rank_ns > 0.0)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    let Some((class, rank_ns)) = dearest else {
        return draft;
    };
    draft
        .evidence(format!(
            "{} over {} ranks has the most transfer time: {}, summed over ranks",
            class.operation,
            class.members,
            shown(rank_ns as i64)
        ))
        .look_at(class.slowest.clone())
}
