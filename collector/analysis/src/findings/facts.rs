//! What rules look at: the session's figures, and what they were computed from.

use crate::identity::world_error;
use crate::measures::blame::BlameLedger;
use crate::measures::merged::Merged;
use crate::measures::step_board::StepBoard;
use crate::rank::RankSums;
use crate::steps::finder::LEAST_CONFIDENCE;
use rankscope_formats::session::{LookAt, RankBreakdown, Session, StepSummary};
use std::collections::BTreeMap;

/// Steps without which nothing is said about steps.
pub const FEWEST_STEPS: u64 = 5;

/// What rules look at.
pub struct Facts<'a> {
    /// The figures, without the findings.
    pub session: &'a Session,
    /// What they were computed from.
    pub parts: &'a Merged<'a>,
}

/// The steps of one world that can be relied upon.
pub struct WorldSteps<'a> {
    /// Position in the session's worlds.
    pub world: u32,
    /// The steps.
    pub board: &'a StepBoard,
    /// Its ranks: positions in the session.
    pub ranks: &'a [u32],
    /// Median step, ns; above 0.
    pub median_ns: i64,
    /// Clock interval between its hosts, ± ns.
    pub error_ns: i64,
}

impl<'a> Facts<'a> {
    /// A rank's name.
    pub fn name(&self, rank: u32) -> String {
        let known = self.session.ranks.get(rank as usize);
        known.map_or_else(|| format!("log {rank}"), |rank| rank.name.clone())
    }

    /// Names of ranks.
    pub fn names(&self, ranks: &[u32]) -> Vec<String> {
        ranks.iter().map(|&rank| self.name(rank)).collect()
    }

    /// What the header of a rank's log says.
    pub fn properties(&self, rank: usize) -> Option<&'a BTreeMap<String, String>> {
        let log = self.parts.identities.ranks.get(rank)?.log;
        Some(&self.parts.logs.get(log)?.properties)
    }

    /// What was summed up of a rank.
    pub fn sums(&self, rank: usize) -> Option<&'a RankSums> {
        self.parts.sums.get(rank)
    }

    /// Who caused waiting.
    pub fn blame(&self) -> &'a BlameLedger {
        &self.parts.analysis.blame
    }

    /// Worlds with at least two ranks and enough steps that are surely steps.
    pub fn worlds(&self) -> Vec<WorldSteps<'a>> {
        let boards = self.parts.analysis.boards.iter();
        let worlds = self.parts.identities.worlds.iter();
        let all = boards.zip(self.parts.plans).zip(worlds).zip(0..);
        all.filter_map(|(((board, plan), known), world)| {
            let median_ns = board.duration.quantile(0.5) as i64;
            let is_sure = plan
                .confidence()
                .is_some_and(|confidence| confidence >= LEAST_CONFIDENCE);
            let enough = known.ranks.len() >= 2 && board.count >= FEWEST_STEPS && median_ns > 0;
            (is_sure && enough).then(|| WorldSteps {
                world,
                board,
                ranks: &known.ranks,
                median_ns,
                error_ns: world_error(self.parts.clocks, self.parts.identities, &known.ranks),
            })
        })
        .collect()
    }

    /// Hosts with more ranks than processors: host, ranks, processors. Hosts whose logs do not say are left out.
    pub fn crowded(&self) -> Vec<(u32, usize, usize)> {
        let hosts = (0..).zip(&self.session.hosts);
        hosts
            .filter_map(|(index, host)| {
                let processors = host.ranks.iter().filter_map(|&rank| {
                    let told = self.properties(rank as usize)?.get("processors")?;
                    told.parse::<usize>().ok()
                });
                let processors = processors.max()?;
                (host.ranks.len() > processors).then_some((index, host.ranks.len(), processors))
            })
            .collect()
    }

    /// Parts of whole steps, where they leave nothing out: of ranks with enough steps.
    pub fn in_steps(&self) -> Vec<&'a RankBreakdown> {
        in_steps(self.session)
    }

    /// The steps of a world in which a rank was the latest by most.
    pub fn worst_steps(&self, world: u32, rank: u32) -> Vec<LookAt> {
        let latest = |step: &&StepSummary| step.world == world && step.latest_rank == Some(rank);
        let mut steps: Vec<&StepSummary> = self.session.steps.list.iter().filter(latest).collect();
        steps.sort_by_key(|step| (std::cmp::Reverse(step.latest_delay_ns), step.step));
        let name = self.name(rank);
        let moments = steps.into_iter().take(3).map(|step| LookAt {
            what: format!(
                "{name} is {} late",
                super::shown(step.latest_delay_ns.unwrap_or(0))
            ),
            rank: Some(rank),
            instance: None,
            step: Some(step.step),
            start_ns: step.start_ns,
            end_ns: step.end_ns,
        });
        moments.collect()
    }
}

/// Parts of whole steps, where they leave nothing out: of ranks with enough steps.
pub fn in_steps(session: &Session) -> Vec<&RankBreakdown> {
    let entries = session.breakdown.iter();
    entries
        .filter(|entry| {
            entry.window == "steps"
                && entry.steps >= FEWEST_STEPS
                && entry.window_ns > 0
                && !entry.leaves_out()
        })
        .collect()
}

/// Exposed communication that is no waiting for peers, of these ranks together, rank-ns.
pub fn exposed_transfer_ns(entries: &[&RankBreakdown]) -> i64 {
    let of = |entry: &&RankBreakdown| (entry.exposed_communication_ns - entry.exposed_wait_ns).max(0);
    entries.iter().map(of).sum()
}
