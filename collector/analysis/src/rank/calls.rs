//! Blocking calls of communication libraries, joined with the work objects of c10d that they run for.

use super::context::LogContext;
use super::event::Stamp;
use super::held::{HeldFor, HeldOperations};
use super::threads::HostThreads;
use super::works::Works;
use crate::model::operation::{Blocked, RankOperation};
use rankscope_formats::session::OperationState;
use std::num::NonZeroU64;

/// Holds a blocking call until it is known when the program waited for it. Without a work object the program called the
/// library directly.
pub fn called(
    mut operation: RankOperation,
    work: Option<NonZeroU64>,
    stamp: &Stamp,
    context: &LogContext<'_>,
    works: &mut Works,
    threads: &mut HostThreads,
    held: &mut HeldOperations,
) {
    held.sums.add(&operation);
    let completed = u64::from(operation.state == OperationState::Completed);
    let (enter_ns, leave_ns) = (stamp.enter_ns, stamp.leave_ns);
    threads.breakdown.communicated(enter_ns, leave_ns);
    let Some(object) = work else {
        // Its thread is blocked throughout.
        operation.direct = true;
        operation.blocked = Blocked::one(enter_ns, leave_ns);
        threads.breakdown.blocked(stamp.lane, enter_ns, leave_ns);
        threads.issued(stamp);
        held.sums.waited += completed;
        held.hold(operation, HeldFor::nothing(stamp.lane));
        return;
    };
    match works.called(object.get(), enter_ns) {
        Some(work) => {
            operation.issue_ns = work.issue_ns;
            operation.requested = work.requested();
            threads.breakdown.queued(work.issue_ns, enter_ns);
            held.hold(operation, HeldFor::waits_of(work.lane, object));
        }
        // The issue is missing: it was lost, or is before the part that is read. So neither the request nor the
        // waiting thread is known.
        None => {
            operation.is_cut = context.window.has_start();
            held.sums.waited += completed * u64::from(operation.is_cut);
            held.hold(operation, HeldFor::nothing(stamp.lane));
        }
    }
}
