//! Artificial runs for tests.

use rankscope_formats::comparison::{
    READABLE_FROM, RunName, RunSummary, STORED_VERSION, StepsUsed, StoredBatch, WorldOfRun,
};
use rankscope_formats::session::{Surrounding, Tool};

/// Returns a property that both ranks of a run have.
pub fn surrounding(property: &str, value: &str) -> Surrounding {
    Surrounding {
        property: property.to_owned(),
        value: value.to_owned(),
        ranks: 2,
    }
}

/// Returns a run with this name and with steps.
pub fn run(id: &str) -> RunSummary {
    RunSummary {
        tool: Tool {
            name: "rankscope".into(),
            version: "0.1.0".into(),
        },
        run: RunName {
            id: id.to_owned(),
            directory: format!("runs/{id}"),
            started_unix_ns: 1_795_255_201_000_000_000,
            duration_ns: 1_000_000_000,
        },
        kind: "host".into(),
        surroundings: vec![
            surrounding("processor_model", "Xeon"),
            surrounding("processors", "16"),
        ],
        world: WorldOfRun {
            worlds: 1,
            size: 2,
            ranks_seen: 2,
            hosts: vec!["a".into()],
            crowded_hosts: 0,
            records: 10,
            lost: 0,
            failed: 0,
        },
        steps: StepsUsed {
            partial: 0,
            source: "pattern".into(),
            reason: None,
            train: 20,
            evaluate: 0,
            checkpoint: 0,
            warm_up_rule: String::new(),
            warm_up: 2,
            counted: 18,
            outlier_rule: String::new(),
            outliers: 0,
            sequence: None,
        },
        parts: Vec::new(),
        ranks: Vec::new(),
        metrics: Vec::new(),
        operations: Vec::new(),
        communicators: Vec::new(),
        findings: Vec::new(),
    }
}

/// Returns an entry with one run.
pub fn entry(id: &str, branch: &str, added_unix_ns: i64) -> StoredBatch {
    StoredBatch {
        version: STORED_VERSION,
        readable_from: READABLE_FROM,
        branch: branch.into(),
        machine: "Xeon, 16 processors".into(),
        job: "train-2-ranks".into(),
        commit: None,
        added_unix_ns,
        runs: vec![run(id)],
    }
}
