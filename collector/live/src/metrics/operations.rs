//! Metrics of operations: counters and histograms of instances, and bandwidth by size.

use super::job::Registered;
use super::labels::{
    MAX_BANDWIDTHS, MAX_OPERATIONS, Number, OfBandwidth, OfOperation, OfTransfer, SizeRange,
};
use super::tally::Added;
use crate::top::document::TopDocument;
use crate::window::Window;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use rankscope_formats::session::InstanceRow;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

/// Upper limits of the buckets of transfer times, in seconds: from 10 µs to 10 s.
const TRANSFER_SECONDS: [f64; 19] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

type Transfers = Family<OfTransfer, Histogram, fn() -> Histogram>;

/// Metric families of operations.
#[derive(Debug)]
pub struct OperationMetrics {
    operations: Family<OfOperation, Counter>,
    payload: Family<OfOperation, Counter>,
    exposed_wait: Family<OfOperation, Counter<f64, AtomicU64>>,
    transfer: Transfers,
    bandwidth: Family<OfBandwidth, Number>,
    /// Pairs of operation and role that have series.
    known: BTreeSet<(&'static str, String)>,
}

impl OperationMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let mut known = Registered(registry);
        let transfer: Transfers = Family::new_with_constructor(|| Histogram::new(TRANSFER_SECONDS));
        known.add(
            "transfer",
            "Transfer times of instances, without the wait for late ranks",
            Some(Unit::Seconds),
            transfer.clone(),
        );
        Self {
            operations: known.plain(
                "instances",
                "Completed instances: matching calls of all members count as one",
            ),
            payload: known.with("instance_size", "Sizes of completed instances", Unit::Bytes),
            exposed_wait: known.with(
                "exposed_wait_rank",
                "Exposed wait in completed instances, summed over the ranks",
                Unit::Seconds,
            ),
            transfer,
            bandwidth: known.plain(
                "bus_bandwidth_bytes_per_second",
                "Median bus bandwidth in the window, by size class",
            ),
            known: BTreeSet::new(),
        }
    }

    /// Takes over a window.
    pub fn update(&mut self, window: &Window, document: &TopDocument, added: &Added<'_>) {
        for row in &added.instances {
            self.count(window, row);
        }
        self.bandwidth.clear();
        for class in document.bandwidth.iter().take(MAX_BANDWIDTHS) {
            if let (Some(bytes_per_s), Some(size_from_bytes)) =
                (class.bus_bytes_per_s.value, class.size_from_bytes)
            {
                let labels = OfBandwidth {
                    operation: class.operation.clone(),
                    role: class.role.clone(),
                    members: class.members,
                    size_from_bytes,
                };
                self.bandwidth.get_or_create(&labels).set(bytes_per_s);
            }
        }
    }

    fn count(&mut self, window: &Window, row: &InstanceRow) {
        let communicator = window.session.communicators.get(row.communicator.index());
        let role = communicator.map_or("", |communicator| communicator.role.as_str());
        let operation = row.operation.name();
        let size = SizeRange::of(row.size_bytes);
        let labels = OfOperation {
            operation,
            role: self.bounded(operation, role),
            size,
        };
        self.operations.get_or_create(&labels).inc();
        if let Some(bytes) = row.size_bytes {
            self.payload.get_or_create(&labels).inc_by(bytes);
        }
        if let Some(rank_ns) = row.exposed_wait_rank_ns.filter(|&rank_ns| rank_ns > 0) {
            let wait = self.exposed_wait.get_or_create(&labels);
            wait.inc_by(rank_ns as f64 / 1e9);
        }
        if let Some(ns) = row.transfer_ns.filter(|&ns| ns > 0) {
            let transfers = self.transfer.get_or_create(&OfTransfer { operation, size });
            transfers.observe(ns as f64 / 1e9);
        }
    }

    /// Returns the role as a label. Roles beyond the limit are `other`.
    fn bounded(&mut self, operation: &'static str, role: &str) -> String {
        let pair = (operation, role.to_owned());
        if self.known.contains(&pair) {
            return pair.1;
        }
        if self.known.len() >= MAX_OPERATIONS {
            return "other".to_owned();
        }
        self.known.insert(pair);
        role.to_owned()
    }
}
