//! Instances of the operations that are being exported.

use super::ordered::Ordered;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{InstanceRow, InstanceState, RowGroups, TableError};
use rustc_hash::FxHashMap;

/// Maximum number of instances kept while their operations are read.
const INSTANCES_AROUND: u64 = 400_000;

/// Attributes of an instance that are shown on each of its calls.
#[derive(Clone, Copy)]
pub struct InstanceFacts {
    /// Duration of the transfer.
    pub transfer_ns: Option<i64>,
    /// Algorithm bandwidth, in bytes per second.
    pub algorithm: Option<f64>,
    /// Bus bandwidth, in bytes per second.
    pub bus: Option<f64>,
    /// The last rank to arrive.
    pub last_rank: Option<RankIndex>,
}

/// Instances around the operations that are being read.
pub struct Instances {
    reader: Ordered<InstanceRow>,
    known: FxHashMap<u64, InstanceFacts>,
    until_ns: i64,
    newest: u64,
}

impl Instances {
    /// Reads the table of instances from its start.
    pub fn new(table: &RowGroups<InstanceRow>) -> Result<Self, TableError> {
        Ok(Self {
            reader: Ordered::of(table.read()?),
            known: FxHashMap::default(),
            until_ns: i64::MIN,
            newest: 0,
        })
    }

    /// Returns the instance of an operation that was entered at `enter_ns`. An instance starts with its first member.
    pub fn of(&mut self, number: u64, enter_ns: i64) -> Result<Option<InstanceFacts>, TableError> {
        if enter_ns > self.until_ns {
            while self.reader.peek()?.is_some_and(|row| row.start_ns <= enter_ns) {
                if let Some(row) = self.reader.next()? {
                    self.until_ns = row.start_ns;
                    self.newest = self.newest.max(row.instance);
                    if row.state == InstanceState::Complete {
                        self.known.insert(
                            row.instance,
                            InstanceFacts {
                                transfer_ns: row.transfer_ns,
                                algorithm: row.algorithm_bytes_per_s,
                                bus: row.bus_bytes_per_s,
                                last_rank: row.last_rank,
                            },
                        );
                    }
                }
            }
            if self.known.len() as u64 > 2 * INSTANCES_AROUND {
                let oldest = self.newest.saturating_sub(INSTANCES_AROUND);
                self.known.retain(|&number, _| number >= oldest);
            }
        }
        Ok(self.known.get(&number).copied())
    }
}
