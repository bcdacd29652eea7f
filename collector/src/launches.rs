//! Launches of several collectives, put together from their instances: what is counted of them is counted once
//! (METRICS.md, sections 1 to 3).

use crate::bandwidth::{bus_bytes, size_bytes};
use crate::rank::{Blocked, RankOperation};
use rankscope_formats::Operation;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Launches that wait for the rest of their instances. One whose instances do not all come whole waits in vain.
const MOST_OPEN: usize = 1024;

/// By which all members know a launch: communicator, number of its first collective, replay.
type Key = (u32, u32, u32);

/// A launch of which instances came.
pub struct Launch {
    /// Number of its first instance, which carries its figures.
    pub number: u64,
    /// Position of its communicator.
    pub communicator: u32,
    /// The calls of that instance.
    pub first: Vec<RankOperation>,
    /// The same from the launch's begin to its end.
    pub whole: Vec<RankOperation>,
    /// Σ S of its instances; `None` if one has none.
    pub size_bytes: Option<u64>,
    /// Payload of one member over all instances; `None` if one is unknown.
    pub own_bytes: Option<u64>,
    /// Σ S·f.
    pub bus_bytes: Option<f64>,
    /// What was called, if all are the same.
    pub operation: Option<Operation>,
    /// Nothing else is in it.
    pub is_pure: bool,
    /// Its collectives.
    pub collectives: u16,
    came: u16,
}

/// What became of an instance that shares its launch.
pub enum Taken {
    /// The launch is whole.
    Whole(Box<Launch>),
    /// It waits for more; the number of its first instance.
    Waits(u64),
    /// Its members did not launch alike, or too much came in between: it has no launch.
    Alone,
}

/// Launches that are being put together.
#[derive(Default)]
pub struct Launches {
    open: FxHashMap<Key, Box<Launch>>,
    order: VecDeque<Key>,
    /// Launches that were given up: their first calls are to be handed on as they are.
    pub given_up: Vec<Launch>,
}

impl Launches {
    /// Takes a complete instance of collectives that share their launch.
    pub fn take(&mut self, number: u64, communicator: u32, members: &[RankOperation]) -> Taken {
        let first = &members[0];
        let is_alike = members.iter().all(|member| {
            member.launch_first == first.launch_first
                && member.launch_collectives == first.launch_collectives
                && member.launch_operations == first.launch_operations
        });
        if !is_alike {
            return Taken::Alone;
        }
        let key = (communicator, first.launch_first, first.tag);
        if first.sequence == first.launch_first {
            let launch = Launch {
                number,
                communicator,
                first: members.to_vec(),
                whole: members.to_vec(),
                size_bytes: size_bytes(members),
                own_bytes: first.known_bytes(),
                bus_bytes: bus_bytes(members),
                operation: Some(first.operation),
                is_pure: first.launch_operations == first.launch_collectives,
                collectives: first.launch_collectives,
                came: 1,
            };
            if let Some(before) = self.open.insert(key, Box::new(launch)) {
                self.given_up.push(*before);
            }
            self.order.push_back(key);
            while self.open.len() > MOST_OPEN {
                let Some(oldest) = self.order.pop_front() else {
                    break;
                };
                self.given_up
                    .extend(self.open.remove(&oldest).map(|launch| *launch));
            }
            while let Some(oldest) = self.order.front()
                && !self.open.contains_key(oldest)
            {
                self.order.pop_front();
            }
        } else {
            let Some(launch) = self.open.get_mut(&key) else {
                return Taken::Alone;
            };
            launch.add(members);
        }
        match self.open.get(&key) {
            Some(launch) if launch.came == launch.collectives => {
                self.open.remove(&key).map_or(Taken::Alone, Taken::Whole)
            }
            _ => Taken::Waits(self.open.get(&key).map_or(number, |launch| launch.number)),
        }
    }

    /// Nothing comes any more.
    pub fn finish(&mut self) {
        let mut left: Vec<Launch> = self.open.drain().map(|(_, launch)| *launch).collect();
        left.sort_unstable_by_key(|launch| launch.number);
        self.given_up.extend(left);
    }
}

impl Launch {
    fn add(&mut self, members: &[RankOperation]) {
        for (whole, member) in self.whole.iter_mut().zip(members) {
            whole.enter_ns = whole.enter_ns.min(member.enter_ns);
            whole.leave_ns = whole.leave_ns.max(member.leave_ns);
            whole.clock_error_ns = whole.clock_error_ns.max(member.clock_error_ns);
            // Kernels: blocked throughout.
            whole.blocked = Blocked::one(whole.enter_ns, whole.leave_ns);
        }
        let sum = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
        self.size_bytes = sum(self.size_bytes, size_bytes(members));
        self.own_bytes = sum(self.own_bytes, members[0].known_bytes());
        self.bus_bytes = self
            .bus_bytes
            .zip(bus_bytes(members))
            .map(|(one, other)| one + other);
        self.operation = self.operation.filter(|&same| same == members[0].operation);
        self.came += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(sequence: u32, first: u32, times: [(i64, i64); 2]) -> Vec<RankOperation> {
        let member = |member: u32, (enter, leave)| RankOperation {
            sequence,
            launch_first: first,
            launch_operations: 3,
            launch_collectives: 3,
            ..RankOperation::sample(member, enter, leave)
        };
        vec![member(0, times[0]), member(1, times[1])]
    }

    #[test]
    fn a_launch_is_whole_with_its_last_instance_and_counts_once() {
        let mut launches = Launches::default();
        let one = launches.take(70, 0, &instance(4, 4, [(10, 50), (20, 50)]));
        assert!(matches!(one, Taken::Waits(70)));
        let two = launches.take(71, 0, &instance(5, 4, [(5, 40), (20, 60)]));
        assert!(matches!(two, Taken::Waits(70)));
        let Taken::Whole(launch) = launches.take(72, 0, &instance(6, 4, [(11, 41), (21, 61)])) else {
            panic!("whole");
        };
        let times: Vec<_> = launch
            .whole
            .iter()
            .map(|member| (member.enter_ns, member.leave_ns))
            .collect();
        assert_eq!(times, [(5, 50), (20, 61)]);
        assert_eq!((launch.number, launch.size_bytes), (70, Some(3 * 1024)));
        assert_eq!(launch.first[0].enter_ns, 10);
        // f of an all-reduce of two is 1.
        assert_eq!(launch.bus_bytes, Some(3072.0));
        assert!(launches.open.is_empty());
    }

    #[test]
    fn members_that_launch_differently_have_no_launch_in_common() {
        let mut launches = Launches::default();
        let mut members = instance(4, 4, [(10, 50), (20, 50)]);
        members[1].launch_collectives = 2;
        assert!(matches!(launches.take(1, 0, &members), Taken::Alone));
        let late = instance(6, 4, [(10, 50), (20, 50)]);
        assert!(
            matches!(launches.take(2, 0, &late), Taken::Alone),
            "its first never came"
        );
    }

    #[test]
    fn what_never_becomes_whole_is_given_up_in_the_end() {
        let mut launches = Launches::default();
        for number in 0..MOST_OPEN as u32 + 5 {
            let members = instance(number, number, [(10, 50), (20, 50)]);
            assert!(matches!(
                launches.take(u64::from(number), 0, &members),
                Taken::Waits(_)
            ));
        }
        assert_eq!(launches.given_up.len(), 5);
        launches.finish();
        assert_eq!(launches.given_up.len(), MOST_OPEN + 5);
    }
}
