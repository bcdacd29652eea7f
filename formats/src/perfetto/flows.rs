//! Flows: arrows between slices, and the check that the engine will draw them.
//!
//! The engine processes slices by time, and in the order of the file at equal times. The first slice that names a flow
//! is its source. Each further slice gets an arrow from the slice before it. A slice that *ends* the flow gets the last
//! arrow. A flow that ends before it has a source is lost.

use std::collections::HashMap;
use std::num::NonZeroU64;

use super::Error;

/// Number of a flow, unique in the trace. 0 is excluded, because old fields of the engine use it as "none".
pub type FlowId = NonZeroU64;

/// State of one flow.
struct Seen {
    machine: u32,
    /// Time of the earliest source or step, in nanoseconds.
    source_ns: Option<u64>,
    /// Time of the end while no source is known, in nanoseconds.
    end_ns: Option<u64>,
}

/// All flows that do not yet have both a source and an end: 40 bytes and a map entry each. Flows that never end stay in
/// it, so it is only for tests and debug builds.
#[derive(Default)]
pub(super) struct FlowLedger {
    flows: HashMap<FlowId, Seen>,
}

impl FlowLedger {
    /// Checks one event at `time_ns` that carries `flows` and ends `ends`.
    pub(super) fn check(
        &self,
        machine: u32,
        time_ns: u64,
        flows: &[FlowId],
        ends: &[FlowId],
    ) -> Result<(), Error> {
        for flow in flows.iter().chain(ends) {
            if self.flows.get(flow).is_some_and(|seen| seen.machine != machine) {
                return Err(Error::FlowAcrossMachines(flow.get()));
            }
        }
        for flow in flows {
            // The end is before this source in the file, so it must have a later time.
            if let Some(end_ns) = self.flows.get(flow).and_then(|seen| seen.end_ns)
                && end_ns <= time_ns
            {
                return Err(Error::FlowOrder {
                    flow: flow.get(),
                    end_ns,
                    source_ns: time_ns,
                });
            }
        }
        for flow in ends.iter().filter(|flow| !flows.contains(flow)) {
            if let Some(source_ns) = self.flows.get(flow).and_then(|seen| seen.source_ns)
                && source_ns > time_ns
            {
                return Err(Error::FlowOrder {
                    flow: flow.get(),
                    end_ns: time_ns,
                    source_ns,
                });
            }
        }
        Ok(())
    }

    /// Records an event that has been checked and is written.
    pub(super) fn note(&mut self, machine: u32, time_ns: u64, flows: &[FlowId], ends: &[FlowId]) {
        for &flow in flows {
            let seen = self.flows.entry(flow).or_insert(Seen {
                machine,
                source_ns: None,
                end_ns: None,
            });
            if seen.end_ns.is_some() {
                self.flows.remove(&flow);
            } else {
                seen.source_ns = Some(seen.source_ns.map_or(time_ns, |earliest| earliest.min(time_ns)));
            }
        }
        for &flow in ends {
            let seen = self.flows.entry(flow).or_insert(Seen {
                machine,
                source_ns: None,
                end_ns: None,
            });
            if seen.source_ns.is_some() {
                self.flows.remove(&flow);
            } else {
                seen.end_ns = Some(time_ns);
            }
        }
    }

    /// Returns the number of flows that ended without a source.
    pub(super) fn without_source(&self) -> usize {
        self.flows
            .values()
            .filter(|seen| seen.source_ns.is_none())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> FlowId {
        FlowId::new(number).expect("not 0")
    }

    impl FlowLedger {
        fn accept(&mut self, machine: u32, ns: u64, flows: &[FlowId], ends: &[FlowId]) -> Result<(), Error> {
            self.check(machine, ns, flows, ends)?;
            self.note(machine, ns, flows, ends);
            Ok(())
        }
    }

    #[test]
    fn ends_after_sources_pass() {
        let mut ledger = FlowLedger::default();
        ledger.accept(0, 10, &[id(1)], &[]).expect("source");
        ledger
            .accept(0, 10, &[], &[id(1)])
            .expect("end at the same time, later in the file");
        ledger
            .accept(0, 20, &[], &[id(2)])
            .expect("end first in the file");
        ledger
            .accept(0, 19, &[id(2)], &[])
            .expect("but its source is earlier");
        assert_eq!(ledger.without_source(), 0);
        assert!(ledger.flows.is_empty());
    }

    #[test]
    fn ends_before_sources_are_refused() {
        let mut ledger = FlowLedger::default();
        ledger.accept(0, 10, &[], &[id(1)]).expect("may yet get a source");
        assert_eq!(ledger.without_source(), 1);
        assert!(matches!(
            ledger.accept(0, 10, &[id(1)], &[]),
            Err(Error::FlowOrder { .. })
        ));
        ledger.accept(0, 20, &[id(2)], &[]).expect("source");
        assert!(matches!(
            ledger.accept(0, 19, &[], &[id(2)]),
            Err(Error::FlowOrder { .. })
        ));
        assert!(matches!(
            ledger.accept(1, 30, &[], &[id(2)]),
            Err(Error::FlowAcrossMachines(2))
        ));
    }
}
