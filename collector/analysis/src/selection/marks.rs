//! Finds the instances that a bin of a histogram counts, so that a viewer can mark them.

use super::instances::scope_of;
use super::operations::{Key, duration_of, key_of, transfer_of};
use super::parallel::{each_row, in_parallel};
use super::request::{SelectError, SelectionRequest};
use super::scopes::Scopes;
use crate::matching::size_class;
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::{
    RowGroups, SelectedInstance, SelectedOperations, Session, TimeHistogram, part_path,
};
use std::ops::Range;
use std::path::Path;

/// An instance to mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number in the table `instances`.
    pub instance: u64,
    /// Index into [`Session::communicators`].
    pub communicator: CommunicatorId,
    /// First enter, in ns on the axis.
    pub start_ns: i64,
    /// Last leave, in ns on the axis.
    pub end_ns: i64,
}

/// Instances to mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Instances by start time, up to the requested number.
    pub list: Vec<Mark>,
    /// Total number of instances.
    pub total: u64,
}

/// Returns the instances of a selected class whose duration, in the sense of `class.histogram`, is within `times_ns`.
/// Returns at most the first `most` instances by start time.
pub fn marks(
    directory: &Path,
    session: &Session,
    class: &SelectedOperations,
    times_ns: Range<i64>,
    most: usize,
    request: SelectionRequest<'_>,
) -> Result<Marks, SelectError> {
    let scopes = Scopes::new(session, &request);
    let Ok(TimeHistogram { of, .. }) = class.histogram.get() else {
        return Ok(Marks::default());
    };
    let time_of = if of == "transfer" {
        transfer_of
    } else {
        duration_of
    };
    let is_of_class = |key: Key| {
        // Sizes are ranges. The lower limit identifies the class.
        let size = class.size_from_bytes.map_or(u32::MAX, size_class);
        key.size == size
            && key.is_launch == class.launches
            && key.operation.name() == class.operation
            && scopes.get(key.scope).is_some_and(|scope| {
                scope.library == class.library
                    && scope.role == class.role
                    && scope.scope == class.scope
                    && scope.members == class.members
            })
    };
    let (from, to) = request.window;
    let groups = RowGroups::<SelectedInstance>::open(&part_path::<SelectedInstance>(directory))?;
    let needed = groups.between(from, to);
    let found = in_parallel(needed.len(), request.cancelled, Marks::default, |found, piece| {
        each_row(
            &groups,
            needed[piece],
            request.cancelled,
            |row: &SelectedInstance| {
                let in_bin = time_of(row).is_some_and(|ns| times_ns.contains(&ns));
                let scope = in_bin.then(|| scope_of(row, &request, &scopes)).flatten();
                if scope.is_some_and(|scope| is_of_class(key_of(row, scope))) {
                    found.take(
                        Mark {
                            instance: row.instance,
                            communicator: row.communicator,
                            start_ns: row.start_ns,
                            end_ns: row.end_ns,
                        },
                        most,
                    );
                }
            },
        )
    })?;
    let mut all = Marks::default();
    for of_thread in found {
        all.total += of_thread.total;
        all.list.extend(of_thread.list);
    }
    all.keep_first(most);
    Ok(all)
}

impl Marks {
    fn take(&mut self, mark: Mark, most: usize) {
        self.total += 1;
        self.list.push(mark);
        // Row groups have no order, so any may contain earlier instances.
        if self.list.len() >= most.saturating_mul(2).max(1024) {
            self.keep_first(most);
        }
    }

    fn keep_first(&mut self, most: usize) {
        self.list
            .sort_unstable_by_key(|mark| (mark.start_ns, mark.instance));
        self.list.truncate(most);
    }
}
