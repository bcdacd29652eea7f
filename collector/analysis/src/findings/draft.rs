//! Builder of a finding.

use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Condition, Figure, Finding, Lateness, LookAt, Ratio, Session, Severity};

/// Cost from which a finding is critical, in percent of a step or of the run.
const CRITICAL_COST_PERCENT: i64 = 10;

/// Parts of the job's time to which a cost can belong.
pub mod part {
    /// Waits for peers.
    pub const WAITING: &str = "waiting";
    /// Exposed transfers: the program or its device is blocked.
    pub const TRANSFER: &str = "transfer";
    /// Host time of the program.
    pub const HOST: &str = "host";
    /// Idle time of devices.
    pub const IDLE: &str = "device-idle";
    /// Time outside of steps: start-up, and between attempts.
    pub const OUTSIDE: &str = "outside-steps";
}

/// A finding under construction. If the rule sets no severity, the cost determines it.
pub struct Draft {
    finding: Finding,
    is_rated: bool,
}

impl Draft {
    /// Creates a finding of this kind about `subject`.
    pub fn new(kind: &str, subject: impl Into<String>, title: impl Into<String>) -> Self {
        let mut finding = Finding::new(kind, Severity::Note, title);
        finding.subject = Some(subject.into());
        Self {
            finding,
            is_rated: false,
        }
    }

    /// Sets the severity.
    pub fn severity(mut self, severity: Severity) -> Self {
        self.finding.severity = severity;
        self.is_rated = true;
        self
    }

    /// Adds a sentence of evidence.
    pub fn evidence(mut self, sentence: impl Into<String>) -> Self {
        self.finding.evidence.push(sentence.into());
        self
    }

    /// Sets the likely cause.
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.finding.cause = Some(cause.into());
        self
    }

    /// Sets the advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.finding.advice = Some(advice.into());
        self
    }

    /// Adds a condition that holds: name, value, relation (such as `>=`), limit, and the unit of value and limit.
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

    /// Adds affected ranks.
    pub fn ranks(mut self, ranks: impl IntoIterator<Item = RankIndex>) -> Self {
        self.finding.ranks.extend(ranks.into_iter().map(|rank| rank.0));
        self
    }

    /// Adds affected hosts.
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = u32>) -> Self {
        self.finding.hosts.extend(hosts);
        self
    }

    /// Adds moments to look at, the most relevant first. Moments beyond the maximum are dropped.
    pub fn look_at(mut self, moments: impl IntoIterator<Item = LookAt>) -> Self {
        let free = Finding::MAX_TO_LOOK_AT.saturating_sub(self.finding.look_at.len());
        self.finding.look_at.extend(moments.into_iter().take(free));
        self
    }

    /// Sets the cost for the job in ns, how it was computed, and the parts of the job's time to which it belongs.
    pub fn cost(mut self, ns: i64, basis: impl Into<String>, lies_in: &[&str]) -> Self {
        self.finding.cost_ns = Figure::known(ns.max(0));
        self.finding.cost_basis = Some(basis.into());
        self.finding.lies_in = lies_in.iter().map(|&part| part.to_owned()).collect();
        self
    }

    /// Sets the cost per step and the mean step, both in ns.
    pub fn of_step(mut self, per_step_ns: i64, mean_ns: i64) -> Self {
        self.finding.cost_of_step = Ratio::figure(per_step_ns, mean_ns, "no mean step");
        self
    }

    /// Sets the reason why the finding has no cost.
    pub fn without_cost(mut self, reason: &str) -> Self {
        self.finding.cost_ns = Figure::unknown(reason);
        self
    }

    /// Sets how a rank is late.
    pub fn lateness(mut self, lateness: Lateness) -> Self {
        self.finding.lateness = Some(lateness);
        self
    }

    /// Returns the finding with its share of the run. Sets the severity if the rule did not.
    pub fn finish(self, session: &Session) -> Finding {
        let mut finding = self.finding;
        let run_ns = session.axis.end_ns - session.axis.start_ns;
        debug_assert!(
            finding.cost_of_step.value.is_none_or(is_a_part),
            "the cost exceeds the steps: {finding:?}"
        );
        if let Some(cost) = finding.cost_ns.value {
            finding.cost_of_run = Ratio::figure(cost, run_ns, "the run has no length");
            if !self.is_rated {
                let ratio = finding.cost_of_step.value.or(finding.cost_of_run.value);
                let is_critical = ratio
                    .is_some_and(|ratio| ratio.numerator * 100 >= ratio.denominator * CRITICAL_COST_PERCENT);
                finding.severity = if is_critical {
                    Severity::Critical
                } else {
                    Severity::Warning
                };
            }
        }
        finding
    }
}

/// Returns true if the share is at most 1.
fn is_a_part(share: Ratio) -> bool {
    share.numerator <= share.denominator
}
