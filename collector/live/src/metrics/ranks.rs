//! Metrics of single ranks and hosts, and quantiles over the ranks.

use super::job::{Registered, ratio};
use super::labels::{Number, OfHost, OfRank, OfStatistic};
use crate::top::document::{TopDocument, TopRow};
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use rankscope_formats::session::{Figure, Ratio};

/// A figure of a rank, and the quantiles over the ranks.
#[derive(Debug)]
struct RankFigure {
    /// Returns the figure of a rank in a window of this length in nanoseconds; `None` if it is unknown.
    get: fn(&TopRow, Option<i64>) -> Option<f64>,
    of_ranks: Family<OfRank, Number>,
    quantiles: Family<OfStatistic, Number>,
}

/// Metric families of ranks and hosts.
#[derive(Debug)]
pub struct RankMetrics {
    figures: Vec<RankFigure>,
    available_memory: Family<OfHost, Number>,
    /// Number of ranks up to which each has its own series.
    most: usize,
}

/// Quantiles over the ranks, and their labels.
const QUANTILES: [(f64, &str); 5] = [
    (0.0, "min"),
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (1.0, "max"),
];

impl RankMetrics {
    /// Registers the families. A job with more than `most` ranks has only quantiles.
    pub fn register(registry: &mut Registry, most: usize) -> Self {
        let mut known = Registered(registry);
        let mut figures = Vec::new();
        let mut add =
            |name: &str, help: &str, unit: Option<Unit>, get: fn(&TopRow, Option<i64>) -> Option<f64>| {
                let figure = RankFigure {
                    get,
                    of_ranks: Family::default(),
                    quantiles: Family::default(),
                };
                known.add(
                    &format!("rank_{name}"),
                    help,
                    unit.clone(),
                    figure.of_ranks.clone(),
                );
                known.add(
                    &format!("rank_statistic_{name}"),
                    &format!("Statistics over the ranks: {help}"),
                    unit,
                    figure.quantiles.clone(),
                );
                figures.push(figure);
            };
        add(
            "exposed_communication",
            "Exposed communication of a rank as a share of its time",
            Some(ratio()),
            |row, _| share(&row.exposed_communication),
        );
        add(
            "exposed_wait",
            "Exposed wait of a rank as a share of its time",
            Some(ratio()),
            |row, _| share(&row.exposed_wait),
        );
        add(
            "caused_exposed_wait",
            "Exposed wait of other ranks that a rank caused, in rank-seconds per second",
            None,
            |row, length_ns| Some(row.caused_exposed_rank_ns as f64 / length_ns? as f64),
        );
        add(
            "last_arrivals",
            "Launches in which a rank arrived last, as a share of those in which it took part",
            Some(ratio()),
            |row, _| share(&row.last_arrivals),
        );
        add(
            "operations_per_second",
            "Operations of a rank per second",
            None,
            |row, _| row.operations_per_s.value,
        );
        add(
            "call",
            "Duration of the operation that has been in progress for the longest time; 0 without one",
            Some(Unit::Seconds),
            |row, _| Some(row.in_call_for_ns.unwrap_or(0) as f64 / 1e9),
        );
        add(
            "resident_memory",
            "Resident memory of a rank",
            Some(Unit::Bytes),
            |row, _| row.resident_memory_bytes.value,
        );
        add("processors", "Busy processors of a rank", None, |row, _| {
            row.processors.value
        });
        add(
            "gpu_utilization",
            "Utilization of the GPUs of a rank",
            Some(ratio()),
            |row, _| row.gpu_utilization_percent.value.map(|percent| percent / 100.0),
        );
        Self {
            figures,
            available_memory: known.with(
                "host_available_memory",
                "Memory that is left on a host",
                Unit::Bytes,
            ),
            most,
        }
    }

    /// Takes over a window.
    pub fn update(&self, document: &TopDocument) {
        let length_ns = document.window.length_ns.value.filter(|&ns| ns > 0);
        for figure in &self.figures {
            figure.of_ranks.clear();
            figure.quantiles.clear();
            let mut values: Vec<f64> = Vec::with_capacity(document.ranks.len());
            for row in &document.ranks {
                let Some(value) = (figure.get)(row, length_ns) else {
                    continue;
                };
                values.push(value);
                if document.ranks.len() <= self.most {
                    figure.of_ranks.get_or_create(&labels(row)).set(value);
                }
            }
            values.sort_by(f64::total_cmp);
            for (quantile, label) in QUANTILES {
                if let Some(&value) = values.get(nearest_rank(values.len(), quantile)) {
                    let label = OfStatistic { statistic: label };
                    figure.quantiles.get_or_create(&label).set(value);
                }
            }
        }
        self.available_memory.clear();
        for row in document.hosts.iter().take(self.most) {
            if let Some(bytes) = row.available_memory_bytes.value {
                let label = OfHost {
                    host: row.name.clone(),
                };
                self.available_memory.get_or_create(&label).set(bytes);
            }
        }
    }
}

fn labels(row: &TopRow) -> OfRank {
    OfRank {
        rank: match row.rank_numbers[..] {
            [number] => number.to_string(),
            _ => row.name.clone(),
        },
        host: row.host.clone().unwrap_or_default(),
    }
}

/// Returns the index of a quantile by the nearest-rank method, as everywhere in METRICS.md.
fn nearest_rank(values: usize, quantile: f64) -> usize {
    ((quantile * values as f64).ceil() as usize).max(1) - 1
}

fn share(figure: &Figure<Ratio>) -> Option<f64> {
    figure.value.map(|ratio| ratio.share())
}
