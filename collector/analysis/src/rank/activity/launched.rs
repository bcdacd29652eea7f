//! Device work since the last step. It shows when the work ended that was launched in a step.

use super::in_order::{InOrder, Moment};

/// Maximum number of launches that are stored until their step ends.
const MAX_LAUNCHED: usize = 1 << 20;

/// Device work that is evaluated when its step ends.
struct Launched {
    launch_ns: i64,
    end_ns: i64,
}

impl Moment for Launched {
    fn moment_ns(&self) -> i64 {
        self.launch_ns
    }
}

/// The launched work of one rank.
#[derive(Default)]
pub struct LaunchedWork {
    work: InOrder<Launched>,
}

impl LaunchedWork {
    /// Adds device work.
    pub fn add(&mut self, launch_ns: i64, end_ns: i64) {
        if self.work.len() >= MAX_LAUNCHED {
            // There are no steps.
            self.work = InOrder::default();
        }
        self.work.push(Launched { launch_ns, end_ns });
    }

    /// Returns the latest end of the work that was launched before a time of the host. Returns `None` if there is none
    /// since the last call.
    pub fn end_before(&mut self, host_ns: i64) -> Option<i64> {
        let mut end_ns = None;
        while let Some(work) = self.work.next_until(host_ns) {
            end_ns = end_ns.max(Some(work.end_ns));
        }
        end_ns
    }
}
