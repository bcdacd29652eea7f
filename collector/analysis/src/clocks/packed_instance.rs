//! Instances in little memory, for a caller that keeps them until all logs are read.

use super::evidence::{HostEnds, Instance, Proof};
use rankscope_formats::session::{put_signed, put_unsigned, take_signed, take_unsigned};

/// Bit of a host's number: it has an enter.
const ENTER: u64 = 1;
/// Bit of a host's number: it has a leave.
const LEAVE: u64 = 2;

/// Numbers as differences from the one before.
#[derive(Default)]
struct Differences(i64);

impl Differences {
    fn put(&mut self, value: i64, out: &mut Vec<u8>) {
        put_signed(value.wrapping_sub(self.0), out);
        self.0 = value;
    }

    fn take(&mut self, from: &mut &[u8]) -> Option<i64> {
        self.0 = self.0.wrapping_add(take_signed(from)?);
        Some(self.0)
    }
}

impl Instance {
    /// Appends the proofs to `out`.
    pub fn pack(&self, out: &mut Vec<u8>) {
        let (mut enters, mut leaves) = (Differences::default(), Differences::default());
        put_unsigned(
            (self.hosts.len() as u64) << 1 | u64::from(self.leave_together),
            out,
        );
        for ends in &self.hosts {
            let has = |ns: Option<i64>, bit: u64| if ns.is_some() { bit } else { 0 };
            let bits = has(ends.enter_ns, ENTER) | has(ends.leave_ns, LEAVE);
            put_unsigned((ends.host as u64) << 2 | bits, out);
            if let Some(enter_ns) = ends.enter_ns {
                enters.put(enter_ns, out);
            }
            if let Some(leave_ns) = ends.leave_ns {
                leaves.put(leave_ns, out);
            }
        }
        put_unsigned(self.single.len() as u64, out);
        for proof in &self.single {
            put_unsigned(proof.from as u64, out);
            put_unsigned(proof.to as u64, out);
            enters.put(proof.enter_ns, out);
            leaves.put(proof.leave_ns, out);
        }
    }

    /// Replaces the proofs by some that were packed. Returns `None` if the bytes are none.
    pub fn unpack(&mut self, from: &mut &[u8]) -> Option<()> {
        self.clear();
        let (mut enters, mut leaves) = (Differences::default(), Differences::default());
        let head = take_unsigned(from)?;
        self.leave_together = head & 1 != 0;
        for _ in 0..head >> 1 {
            let number = take_unsigned(from)?;
            let mut time = |bit: u64, times: &mut Differences| match number & bit {
                0 => Some(None),
                _ => times.take(from).map(Some),
            };
            self.hosts.push(HostEnds {
                host: (number >> 2) as usize,
                enter_ns: time(ENTER, &mut enters)?,
                leave_ns: time(LEAVE, &mut leaves)?,
            });
        }
        for _ in 0..take_unsigned(from)? {
            self.single.push(Proof {
                from: take_unsigned(from)? as usize,
                to: take_unsigned(from)? as usize,
                enter_ns: enters.take(from)?,
                leave_ns: leaves.take(from)?,
            });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::RankOperation;
    use rankscope_ranklog::Operation;

    /// Instances of each kind, with times far apart and close together.
    fn instances() -> Vec<Instance> {
        let mut all = Vec::new();
        let kinds = [
            (Operation::AllReduce, -1),
            (Operation::Broadcast, 1),
            (Operation::Reduce, 0),
            (Operation::Scan, -1),
        ];
        for (operation, peer) in kinds {
            let members: Vec<RankOperation> = (0..40u32)
                .map(|number| RankOperation {
                    operation,
                    peer,
                    ..RankOperation::sample(number, -(1i64 << (number % 50)), 7 << 40)
                })
                .collect();
            let mut instance = Instance::default();
            instance.read(&members, |rank| rank.index() * 7 % 13);
            assert!(!instance.is_empty());
            all.push(instance);
        }
        all
    }

    #[test]
    fn instances_survive_the_round_trip() {
        let mut packed = Vec::new();
        let instances = instances();
        instances.iter().for_each(|instance| instance.pack(&mut packed));
        let (mut back, mut from) = (Instance::default(), packed.as_slice());
        for instance in &instances {
            back.unpack(&mut from).expect("an instance");
            assert_eq!(back.hosts, instance.hosts);
            assert_eq!(back.single, instance.single);
            assert_eq!(back.leave_together, instance.leave_together);
        }
        assert!(from.is_empty());
        let mut last = Vec::new();
        instances.last().expect("some").pack(&mut last);
        assert!(
            back.unpack(&mut &last[..last.len() - 1]).is_none(),
            "it is cut off"
        );
    }
}
