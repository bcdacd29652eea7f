//! Which fault fires at a request.

use crate::fault::{Effect, Fault};

/// The faults of a server, with their counts.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    faults: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    fault: Fault,
    matched: u64,
    fired: u64,
}

impl Schedule {
    /// These faults, none of which has matched yet.
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        let counted = |fault| Counted {
            fault,
            matched: 0,
            fired: 0,
        };
        Self {
            faults: faults.into_iter().map(counted).collect(),
        }
    }

    /// The effect on a request: that of the first fault that fires. Later faults do not count the request.
    pub(crate) fn effect(&mut self, method: &str, path: &str, query: &str) -> Option<Effect> {
        self.faults
            .iter_mut()
            .find_map(|counted| counted.fires(method, path, query))
    }

    /// How often each fault has fired, in their order.
    pub(crate) fn fired(&self) -> Vec<u64> {
        self.faults.iter().map(|counted| counted.fired).collect()
    }
}

impl Counted {
    fn fires(&mut self, method: &str, path: &str, query: &str) -> Option<Effect> {
        let fault = &self.fault;
        let matches = (fault.method.is_empty() || fault.method == method)
            && path.contains(&fault.path)
            && query.contains(&fault.query);
        if !matches {
            return None;
        }
        self.matched += 1;
        let fires = self.matched > fault.skip
            && (self.matched - fault.skip).is_multiple_of(fault.every)
            && self.fired < fault.first;
        self.fired += u64::from(fires);
        fires.then_some(fault.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(fault: Fault, requests: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(vec![fault]);
        (1..=requests)
            .filter(|_| schedule.effect("GET", "/runs/a", "").is_some())
            .collect()
    }

    fn close() -> Fault {
        Fault::new("GET", "/runs/", Effect::Close)
    }

    #[test]
    fn a_fault_fires_at_the_chosen_matches() {
        assert_eq!(fires(close(), 3), [1, 2, 3]);
        assert_eq!(fires(close().first(2), 5), [1, 2]);
        assert_eq!(fires(close().skip(1).first(2), 5), [2, 3]);
        assert_eq!(fires(close().every(3), 7), [3, 6]);
        assert_eq!(fires(close().skip(1).every(2).first(1), 9), [3]);
    }

    #[test]
    fn a_fault_matches_by_method_path_and_query() {
        let mut schedule = Schedule::new(vec![close().query("part="), Fault::new("", "/b", Effect::Close)]);
        assert_eq!(schedule.effect("PUT", "/runs/a", "part=1"), None);
        assert_eq!(schedule.effect("GET", "/runs/a", ""), None);
        assert_eq!(schedule.effect("GET", "/runs/a", "part=1"), Some(Effect::Close));
        assert_eq!(schedule.effect("DELETE", "/runs/b", ""), Some(Effect::Close));
        assert_eq!(schedule.fired(), [1, 1]);
    }
}
