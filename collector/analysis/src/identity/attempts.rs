//! Divides worlds into attempts.

use crate::clocks::clock::Clocks;
use crate::identity::environment::{AttemptIdentity, elastic};
use crate::identity::worlds::DraftWorld;
use crate::model::interval::Interval;
use rankscope_ranklog::reader::RankLog;

/// Minimum overlap of the lifetimes of two worlds of one attempt, as a percentage of the shorter lifetime. A process may outlive
/// its attempt for a moment, while the next one starts.
const MIN_COMMON_PERCENT: i128 = 50;

/// Attempts in order of time, and the attempt of each world.
pub struct Attempts {
    /// The attempts.
    pub all: Vec<AttemptIdentity>,
    /// Index of the attempt of each world.
    pub of_worlds: Vec<u32>,
}

impl Attempts {
    /// Divides worlds into attempts. The elastic run and restart identify an attempt, if the launcher provided them. Of
    /// other launchers, worlds whose lifetimes overlap are of one attempt: groups of actors with different roles, or programs
    /// that a script starts side by side.
    pub fn of(worlds: &[DraftWorld], logs: &[RankLog], clocks: &Clocks) -> Self {
        let identities: Vec<Option<AttemptIdentity>> = worlds
            .iter()
            .map(|world| world.numbers.values().find_map(|&log| elastic(&logs[log])))
            .collect();
        let unnamed = identities.iter().filter(|identity| identity.is_none()).count();
        let lifetime_of = |world: &DraftWorld| {
            if unnamed > 1 {
                lifetime(world, logs, clocks)
            } else {
                // Nothing to compare it with.
                Interval::new(0, 0)
            }
        };
        let mut attempts = Self {
            all: Vec::new(),
            of_worlds: Vec::with_capacity(worlds.len()),
        };
        // The newest attempt without an identity: its index, and the lifetimes of its worlds.
        let mut newest: Option<(u32, Vec<Interval>)> = None;
        let mut restarts = 0;
        for (world, identity) in worlds.iter().zip(identities) {
            let index = if let Some(identity) = identity {
                attempts.index_of(identity)
            } else {
                let lifetime = lifetime_of(world);
                match &mut newest {
                    Some((index, lifetimes)) if lifetimes.iter().any(|other| overlap(&lifetime, other)) => {
                        lifetimes.push(lifetime);
                        *index
                    }
                    _ => {
                        let index = attempts.add(AttemptIdentity {
                            run_id: None,
                            restart: restarts,
                        });
                        restarts += 1;
                        newest = Some((index, vec![lifetime]));
                        index
                    }
                }
            };
            attempts.of_worlds.push(index);
        }
        attempts
    }

    fn index_of(&mut self, identity: AttemptIdentity) -> u32 {
        match self.all.iter().position(|known| *known == identity) {
            Some(index) => index as u32,
            None => self.add(identity),
        }
    }

    fn add(&mut self, identity: AttemptIdentity) -> u32 {
        self.all.push(identity);
        self.all.len() as u32 - 1
    }
}

/// Returns the time from the first communicator of a world to the last record of its processes.
fn lifetime(world: &DraftWorld, logs: &[RankLog], clocks: &Clocks) -> Interval {
    let end_ns = |&log: &usize| {
        // A process that hangs goes on reading its clocks. One that recorded nothing has only these readings.
        let last_reading = || logs[log].calibrations.last().map(|reading| reading.ticks);
        let ticks = logs[log].tail(0).end_ticks.or_else(last_reading)?;
        Some(clocks.line(log).ns(ticks))
    };
    let first_reading_ns = |&log: &usize| {
        let reading = logs[log].calibrations.first()?;
        Some(clocks.line(log).ns(reading.ticks))
    };
    let processes = || world.numbers.values();
    // No communicator is older than its processes.
    let start_ns = processes()
        .filter_map(first_reading_ns)
        .min()
        .map_or(world.start_ns, |first_ns| first_ns.max(world.start_ns));
    let end_ns = processes().filter_map(end_ns).max();
    Interval::new(start_ns, end_ns.unwrap_or(start_ns).max(start_ns))
}

fn overlap(one: &Interval, other: &Interval) -> bool {
    let length = |interval: &Interval| i128::from(interval.end_ns) - i128::from(interval.start_ns);
    let common = i128::from(one.end_ns.min(other.end_ns)) - i128::from(one.start_ns.max(other.start_ns));
    common >= 0 && common * 100 >= length(one).min(length(other)) * MIN_COMMON_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_are_of_one_attempt_if_they_share_half_of_the_shorter_lifetime() {
        let together = |one: (i64, i64), other: (i64, i64)| {
            let (one, other) = (Interval::new(one.0, one.1), Interval::new(other.0, other.1));
            assert_eq!(overlap(&one, &other), overlap(&other, &one));
            overlap(&one, &other)
        };
        assert!(together((0, 100), (5, 95)), "side by side");
        assert!(together((0, 100), (50, 300)), "the second one starts later");
        assert!(!together((0, 100), (99, 200)), "a process outlives its attempt");
        assert!(!together((0, 100), (101, 200)), "one after the other");
        assert!(together((0, 100), (50, 50)), "a process that was killed at once");
        assert!(!together((i64::MIN, -5), (5, i64::MAX)));
    }
}
