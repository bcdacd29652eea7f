//! Metrics of the whole job, and of reading it.

use super::labels::{NoLabel, Number, OfBuild, OfHang, OfKind, OfState, OfWarning, seconds, set};
use super::tally::Added;
use crate::top::document::{TopDocument, TopState};
use crate::warnings::{Change, Warnings};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rankscope_formats::session::{Figure, Ratio};
use rankscope_formats::status::HangVerdict;
use std::sync::atomic::AtomicU64;

/// Upper limits of the buckets of step times, in seconds: from 1 ms to 5 minutes.
const STEP_SECONDS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0,
    300.0,
];

/// A number that is unknown at times.
type Unsteady = Family<NoLabel, Number>;

/// Metric families of the job.
#[derive(Debug)]
pub struct JobMetrics {
    ranks: Family<OfState, Gauge>,
    ranks_expected: Unsteady,
    attempt: Gauge,
    window: Unsteady,
    idle: Unsteady,
    steps_per_second: Unsteady,
    step_median: Unsteady,
    operations_per_second: Unsteady,
    payload_per_second: Unsteady,
    exposed_communication: Unsteady,
    exposed_wait: Unsteady,
    lost: Gauge,
    step_time: Histogram,
    uncounted: Counter<f64, AtomicU64>,
    hang: Gauge,
    hang_cause: Family<OfHang, Gauge>,
    hangs: Counter,
    warnings: Family<OfWarning, Gauge>,
    raised: Family<OfKind, Counter>,
    last_read: Number,
    read_time: Counter<f64, AtomicU64>,
    reads: Counter,
    failed_reads: Counter,
}

impl JobMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let version = OfBuild {
            version: env!("CARGO_PKG_VERSION"),
        };
        registry.register("build", "Version of rankscope", Info::new(version));
        let mut known = Registered(registry);
        Self {
            ranks: known.plain(
                "ranks",
                "Ranks of the newest attempt, by the state of their process",
            ),
            ranks_expected: known.plain("ranks_expected", "Ranks that the worlds have"),
            attempt: known.plain("attempt", "Number of the newest attempt, from 1 on"),
            window: known.with("window", "Length of the window of the gauges", Unit::Seconds),
            idle: known.with(
                "idle",
                "Time from the last record of the job to the reading",
                Unit::Seconds,
            ),
            steps_per_second: known.plain("steps_per_second", "Whole training steps per second"),
            step_median: known.with("step_median", "Median step time in the window", Unit::Seconds),
            operations_per_second: known
                .plain("operations_per_second", "Operations per second, over all ranks"),
            payload_per_second: known.plain(
                "payload_bytes_per_second",
                "Payload of the operations in bytes per second, over all ranks",
            ),
            exposed_communication: known.with(
                "exposed_communication",
                "Exposed communication as a share of the ranks' time",
                ratio(),
            ),
            exposed_wait: known.with(
                "exposed_wait",
                "Exposed wait as a share of the ranks' time",
                ratio(),
            ),
            lost: known.plain("window_lost_records", "Records of the window that were lost"),
            step_time: {
                let histogram = Histogram::new(STEP_SECONDS);
                known.add(
                    "step_time",
                    "Step times, each the longest over the ranks",
                    Some(Unit::Seconds),
                    histogram.clone(),
                );
                histogram
            },
            uncounted: known.with(
                "uncounted",
                "Time of the job that no window covered: counters and histograms do not include it",
                Unit::Seconds,
            ),
            hang: known.plain("hang", "1 while the job hangs"),
            hang_cause: known.plain("hang_cause", "1 while the job hangs; its labels are the verdict"),
            hangs: known.plain("hangs", "Hangs since the start of rankscope serve"),
            warnings: known.plain("warning", "1 while a warning is raised"),
            raised: known.plain(
                "warnings",
                "Warnings that were raised since the start of rankscope serve",
            ),
            last_read: known.with(
                "last_read_timestamp",
                "Time of the last reading, since 1970",
                Unit::Seconds,
            ),
            read_time: known.with("read", "Time that reading took", Unit::Seconds),
            reads: known.plain("reads", "Readings of the run directory"),
            failed_reads: known.plain("failed_reads", "Readings that failed"),
        }
    }

    /// Takes over a window.
    pub fn update(&self, document: &TopDocument, added: &Added<'_>) {
        self.ranks.clear();
        for state in [
            TopState::Running,
            TopState::Elsewhere,
            TopState::Ended,
            TopState::Killed,
        ] {
            let number = document.ranks.iter().filter(|row| row.state == state).count();
            let label = OfState { state: state.name() };
            self.ranks.get_or_create(&label).set(number as i64);
        }
        let share = |figure: &Figure<Ratio>| figure.value.map(|ratio| ratio.share());
        set(&self.ranks_expected, document.ranks_expected.value.map(f64::from));
        self.attempt.set(i64::from(document.attempt.number));
        set(&self.window, seconds(&document.window.length_ns));
        set(&self.idle, seconds(&document.idle_for_ns));
        set(&self.steps_per_second, document.steps_per_s.value);
        set(&self.step_median, seconds(&document.step_median_ns));
        set(&self.operations_per_second, document.operations_per_s.value);
        set(&self.payload_per_second, document.payload_bytes_per_s.value);
        set(
            &self.exposed_communication,
            share(&document.exposed_communication),
        );
        set(&self.exposed_wait, share(&document.exposed_wait));
        self.lost.set(i64::try_from(document.lost).unwrap_or(i64::MAX));
        for entry in &added.steps {
            for _ in 0..entry.steps {
                self.step_time.observe(entry.duration_ns as f64 / 1e9);
            }
        }
        self.uncounted.inc_by(added.gap_ns as f64 / 1e9);
        self.last_read.set(document.read_unix_ns as f64 / 1e9);
        self.reads.inc();
        self.read_time.inc_by(document.read_for_ns as f64 / 1e9);
    }

    /// Takes over the raised warnings, and what the last window changed.
    pub fn warnings(&self, warnings: &Warnings, changes: &[Change]) {
        self.warnings.clear();
        for warning in warnings.raised() {
            let labels = OfWarning {
                kind: warning.kind.clone(),
                severity: warning.severity.name(),
                subject: warning.subject.clone().unwrap_or_default(),
            };
            self.warnings.get_or_create(&labels).set(1);
        }
        for change in changes {
            if let Change::Raised(warning) = change {
                let label = OfKind {
                    kind: warning.kind.clone(),
                };
                self.raised.get_or_create(&label).inc();
            }
        }
    }

    /// Counts a reading that failed.
    pub fn failed(&self) {
        self.failed_reads.inc();
    }

    /// Takes over the verdict on a hang; `None` if the job does not hang.
    pub fn hang(&self, verdict: Option<&HangVerdict>) {
        self.hang_cause.clear();
        let was_stuck = self.hang.set(i64::from(verdict.is_some())) != 0;
        let Some(verdict) = verdict else { return };
        if !was_stuck {
            self.hangs.inc();
        }
        let labels = OfHang {
            kind: verdict.kind.name(),
            rank: verdict.culprit_names.first().cloned().unwrap_or_default(),
            operation: verdict.operation.clone().unwrap_or_default(),
        };
        self.hang_cause.get_or_create(&labels).set(1);
    }
}

/// Returns the unit of shares. Prometheus uses the singular.
pub fn ratio() -> Unit {
    Unit::Other("ratio".to_owned())
}

/// Registers families, and returns them.
pub struct Registered<'a>(pub &'a mut Registry);

impl Registered<'_> {
    /// Registers a family without a unit.
    pub fn plain<M: prometheus_client::registry::Metric + Clone + Default>(
        &mut self,
        name: &str,
        help: &str,
    ) -> M {
        let metric = M::default();
        self.add(name, help, None, metric.clone());
        metric
    }

    /// Registers a family with a unit, which ends its name.
    pub fn with<M: prometheus_client::registry::Metric + Clone + Default>(
        &mut self,
        name: &str,
        help: &str,
        unit: Unit,
    ) -> M {
        let metric = M::default();
        self.add(name, help, Some(unit), metric.clone());
        metric
    }

    /// Registers a given family.
    pub fn add(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        metric: impl prometheus_client::registry::Metric,
    ) {
        match unit {
            Some(unit) => self.0.register_with_unit(name, help, unit, metric),
            None => self.0.register(name, help, metric),
        }
    }
}
