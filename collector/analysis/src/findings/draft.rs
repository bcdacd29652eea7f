//! A finding while a rule writes it down.

use rankscope_formats::session::{Condition, Figure, Finding, Lateness, LookAt, Ratio, Session};

/// Cost from which a finding is critical, percent of a step or of the run.
const CRITICAL_COST_PERCENT: i64 = 10;

/// Parts of the job's time in which a cost may lie.
pub mod part {
    /// Waiting for peers.
    pub const WAITING: &str = "waiting";
    /// Transfers that the program or its device could not go on for.
    pub const TRANSFER: &str = "transfer";
    /// The program's own time.
    pub const HOST: &str = "host";
    /// Devices that did nothing.
    pub const IDLE: &str = "device-idle";
    /// Time outside of steps: start-up, between attempts.
    pub const OUTSIDE: &str = "outside-steps";
}

/// A finding that is being written. Its severity follows from its cost where the rule says nothing.
pub struct Draft {
    finding: Finding,
    is_rated: bool,
}

impl Draft {
    /// Of this kind, about `subject`.
    pub fn new(kind: &str, subject: impl Into<String>, title: impl Into<String>) -> Self {
        let mut finding = Finding::new(kind, "note", title);
        finding.subject = Some(subject.into());
        Self {
            finding,
            is_rated: false,
        }
    }

    /// Says how serious it is: `critical`, `warning` or `note`.
    pub fn severity(mut self, severity: &str) -> Self {
        severity.clone_into(&mut self.finding.severity);
        self.is_rated = true;
        self
    }

    /// One more sentence that supports it.
    pub fn evidence(mut self, sentence: impl Into<String>) -> Self {
        self.finding.evidence.push(sentence.into());
        self
    }

    /// What probably causes it.
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.finding.cause = Some(cause.into());
        self
    }

    /// What to try.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.finding.advice = Some(advice.into());
        self
    }

    /// A condition that holds: what, its value, `>=` and the like, the limit, the unit of both.
    pub fn holds(mut self, what: &str, value: f64, is: &str, limit: f64, unit: &str) -> Self {
        self.finding.path.push(Condition {
            what: what.to_owned(),
            value,
            is: is.to_owned(),
            limit,
            unit: unit.to_owned(),
        });
        self
    }

    /// Ranks concerned.
    pub fn ranks(mut self, ranks: impl IntoIterator<Item = u32>) -> Self {
        self.finding.ranks.extend(ranks);
        self
    }

    /// Hosts concerned.
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = u32>) -> Self {
        self.finding.hosts.extend(hosts);
        self
    }

    /// Moments to look at, the most telling first; the rest is cut.
    pub fn look_at(mut self, moments: impl IntoIterator<Item = LookAt>) -> Self {
        let room = Finding::MOST_TO_LOOK_AT.saturating_sub(self.finding.look_at.len());
        self.finding.look_at.extend(moments.into_iter().take(room));
        self
    }

    /// What it costs the job, ns; how that was computed; in which parts of its time it lies.
    pub fn cost(mut self, ns: i64, basis: impl Into<String>, lies_in: &[&str]) -> Self {
        self.finding.cost_ns = Figure::known(ns.max(0));
        self.finding.cost_basis = Some(basis.into());
        self.finding.lies_in = lies_in.iter().map(|&part| part.to_owned()).collect();
        self
    }

    /// Its cost per step, beside the median step, both in ns.
    pub fn of_step(mut self, per_step_ns: i64, median_ns: i64) -> Self {
        self.finding.cost_of_step = Ratio::figure(per_step_ns, median_ns, "no median step");
        self
    }

    /// Why it has no cost.
    pub fn without_cost(mut self, reason: &str) -> Self {
        self.finding.cost_ns = Figure::unknown(reason);
        self
    }

    /// How a rank is late.
    pub fn lateness(mut self, lateness: Lateness) -> Self {
        self.finding.lateness = Some(lateness);
        self
    }

    /// The finding, with its share of the session's time.
    pub fn finish(self, session: &Session) -> Finding {
        let mut finding = self.finding;
        let run_ns = session.axis.end_ns - session.axis.start_ns;
        if let Some(cost) = finding.cost_ns.value {
            finding.cost_of_run = Ratio::figure(cost, run_ns, "the run has no length");
            if !self.is_rated {
                let ratio = finding.cost_of_step.value.or(finding.cost_of_run.value);
                let is_critical = ratio
                    .is_some_and(|ratio| ratio.numerator * 100 >= ratio.denominator * CRITICAL_COST_PERCENT);
                if is_critical { "critical" } else { "warning" }.clone_into(&mut finding.severity);
            }
        }
        finding
    }
}
