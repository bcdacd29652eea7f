//! One pass over the instances that begin in the window.

use super::lateness::Lateness;
use super::operations::Operations;
use super::parallel::{each_row, in_parallel};
use super::request::{SelectError, SelectionRequest};
use super::scopes::Scopes;
use rankscope_formats::session::{InstanceState, RowGroups, SelectedInstance, Session, part_path};
use std::path::Path;

/// Sums over the instances of a window.
pub struct Found {
    pub scopes: Scopes,
    pub operations: Operations,
    pub lateness: Lateness,
}

/// Sums the instances that begin in the window, row group by row group.
pub fn sum_up(
    directory: &Path,
    session: &Session,
    request: &SelectionRequest<'_>,
) -> Result<Found, SelectError> {
    let scopes = Scopes::new(session, request);
    let make = || (Operations::default(), Lateness::new(session));
    let (mut operations, mut lateness) = make();
    let (from, to) = request.window;
    let groups = RowGroups::<SelectedInstance>::open(&part_path::<SelectedInstance>(directory))?;
    let needed = groups.between(from, to);
    let sums = in_parallel(
        needed.len(),
        request.cancelled,
        make,
        |(operations, lateness), piece| {
            each_row(
                &groups,
                needed[piece],
                request.cancelled,
                |row: &SelectedInstance| {
                    if let Some(scope) = scope_of(row, request, &scopes) {
                        operations.take(row, scope);
                        lateness.take(row);
                    }
                },
            )
        },
    )?;
    for (more_operations, more_lateness) in &sums {
        operations.merge(more_operations);
        lateness.merge(more_lateness);
    }
    Ok(Found {
        scopes,
        operations,
        lateness,
    })
}

/// Returns the scope of an instance that counts.
pub fn scope_of(row: &SelectedInstance, request: &SelectionRequest<'_>, scopes: &Scopes) -> Option<u32> {
    let (from, to) = request.window;
    // A captured call did not run. Each of its replays is an instance.
    let counts = row.start_ns >= from && row.start_ns < to && row.state != InstanceState::Template;
    counts.then(|| scopes.number(row.communicator)).flatten()
}
