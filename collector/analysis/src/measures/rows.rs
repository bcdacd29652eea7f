//! Rows of operations and instances that are not written yet.

use crate::measures::figures::{Figures, InstanceId, Subject};
use crate::model::operation::{NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation};
use rankscope_formats::ids::{MemberIndex, RankIndex};
use rankscope_formats::session::{InstanceRow, InstanceState, OperationRow, PackedRows, Table, WaitClass};
use rankscope_ranklog::Operation;

/// Rows of one table, by rank, in their order. Packed rows take a tenth of the memory, and readers must unpack them.
pub enum RankRows<T: Table> {
    /// As they are.
    Plain(Vec<Vec<T>>),
    /// Packed.
    Packed(Vec<PackedRows<T>>),
}

impl<T: Table> RankRows<T> {
    /// Creates empty lists.
    pub fn new(ranks: usize, are_packed: bool) -> Self {
        if are_packed {
            Self::Packed((0..ranks).map(|_| PackedRows::default()).collect())
        } else {
            Self::Plain((0..ranks).map(|_| Vec::new()).collect())
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        match self {
            Self::Plain(rows) => rows.len(),
            Self::Packed(rows) => rows.len(),
        }
    }

    /// Returns the number of rows of a rank.
    pub fn len(&self, rank: RankIndex) -> usize {
        match self {
            Self::Plain(rows) => rows.get(rank.index()).map_or(0, Vec::len),
            Self::Packed(rows) => rows.get(rank.index()).map_or(0, PackedRows::len),
        }
    }

    /// Adds a row of a rank. Rows of other ranks are dropped.
    #[inline]
    pub fn push(&mut self, rank: RankIndex, row: T) {
        match self {
            Self::Plain(rows) => {
                if let Some(rows) = rows.get_mut(rank.index()) {
                    rows.push(row);
                }
            }
            Self::Packed(rows) => {
                if let Some(rows) = rows.get_mut(rank.index()) {
                    rows.push(row);
                }
            }
        }
    }
}

/// Rows in the order in which instances were processed.
pub struct Rows {
    /// Operations of each rank.
    pub operations: RankRows<OperationRow>,
    /// Instances.
    pub instances: Vec<InstanceRow>,
}

/// Columns of an operation that come from the other members of its instance.
#[derive(Clone, Copy)]
pub struct InstanceColumns {
    /// Number of the instance, if it has one.
    pub instance: Option<u64>,
    /// State of the instance.
    pub state: InstanceState,
    /// Exposed wait, in ns.
    pub exposed_wait_ns: Option<i64>,
    /// Hidden wait, in ns.
    pub hidden_wait_ns: Option<i64>,
    /// End of the wait.
    pub waited_until_ns: Option<i64>,
    /// Class of the instance.
    pub class: WaitClass,
    /// Position in the order of arrival.
    pub arrival_order: Option<u32>,
}

impl InstanceColumns {
    /// Returns the columns of an instance without figures.
    pub fn unmeasured(instance: Option<u64>, state: InstanceState) -> Self {
        Self {
            instance,
            state,
            exposed_wait_ns: None,
            hidden_wait_ns: None,
            waited_until_ns: None,
            class: WaitClass::None,
            arrival_order: None,
        }
    }
}

impl Rows {
    /// Creates empty lists.
    pub fn new(ranks: usize) -> Self {
        Self {
            operations: RankRows::new(ranks, false),
            instances: Vec::new(),
        }
    }

    /// Adds an operation.
    pub fn push_operation(&mut self, operation: &RankOperation, columns: InstanceColumns) {
        let row = OperationRow {
            instance: columns.instance,
            communicator: (operation.communicator != NO_COMMUNICATOR).then_some(operation.communicator),
            library: operation.library,
            operation: operation.operation,
            requested: operation.requested,
            tag: operation.tag,
            sequence: operation.sequence,
            issue_ns: (operation.issue_ns != NO_TIME).then_some(operation.issue_ns),
            called_ns: (operation.called_ns != NO_TIME).then_some(operation.called_ns),
            enter_ns: operation.enter_ns,
            leave_ns: (operation.leave_ns != NO_TIME).then_some(operation.leave_ns),
            returned_ns: (operation.returned_ns != NO_TIME).then_some(operation.returned_ns),
            bytes: operation.known_bytes(),
            element_bytes: operation.element_bytes,
            algorithm: operation.algorithm,
            protocol: operation.protocol,
            channels: operation.channels,
            peer: u32::try_from(operation.peer).map(MemberIndex).ok(),
            thread_id: operation.thread_id,
            direct: operation.direct,
            state: operation.state,
            matched: columns.state,
            step: (operation.step != NO_STEP).then_some(operation.step),
            exposed_wait_ns: columns.exposed_wait_ns,
            hidden_wait_ns: columns.hidden_wait_ns,
            waited_until_ns: columns.waited_until_ns,
            class: columns.class,
            arrival_order: columns.arrival_order,
            launch_operations: u32::from(operation.launch_operations()),
        };
        self.operations.push(operation.rank, row);
    }

    /// Adds an instance without figures. `size` is the number of members that it needs.
    pub fn push_instance<'m>(
        &mut self,
        id: InstanceId,
        members: impl Iterator<Item = &'m RankOperation>,
        size: usize,
        state: InstanceState,
    ) {
        self.instances.push(instance_row(id, members, size, state));
    }

    /// Adds a complete instance without separate figures. `launch` is the number of the launch that has them, if it is
    /// known.
    pub fn push_unmeasured(&mut self, id: InstanceId, members: &[RankOperation], launch: Option<u64>) {
        let row = instance_row(id, members.iter(), members.len(), InstanceState::Complete);
        self.instances.push(InstanceRow { launch, ..row });
        let columns = InstanceColumns::unmeasured(Some(id.number), InstanceState::Complete);
        for member in members {
            self.push_operation(member, columns);
        }
    }

    /// Adds a complete instance with its figures. `operation` is what its members called, and `whole` are the members
    /// with the times that were measured.
    pub fn push_measured(
        &mut self,
        whole: &[RankOperation],
        operation: Operation,
        figures: &Figures<'_>,
        last_rank: Option<RankIndex>,
    ) {
        let Figures {
            subject,
            wait,
            bandwidth,
            waited,
            ..
        } = figures;
        let row = instance_row(
            figures.instance,
            whole.iter(),
            whole.len(),
            InstanceState::Complete,
        );
        self.instances.push(InstanceRow {
            operation,
            launch: match subject {
                Subject::Launch(launch) => Some(launch.id),
                _ => None,
            },
            last_rank,
            size_bytes: bandwidth.size_bytes,
            transfer_ns: (!matches!(subject, Subject::GroupedMessage)).then_some(wait.transfer_ns),
            shortest_duration: bandwidth.shortest_used,
            exposed_wait_rank_ns: Some(waited.exposed_ns),
            hidden_wait_rank_ns: Some(waited.hidden_ns),
            class: figures.wait_class(),
            algorithm_bytes_per_s: bandwidth.algorithm,
            bus_bytes_per_s: bandwidth.bus,
            ..row
        });
    }
}

/// Returns the row of an instance without figures.
fn instance_row<'m>(
    id: InstanceId,
    members: impl Iterator<Item = &'m RankOperation>,
    size: usize,
    state: InstanceState,
) -> InstanceRow {
    let mut row = InstanceRow::empty(id.number, id.communicator, size as u32, state);
    for member in members {
        if row.seen == 0 {
            row.operation = member.operation;
            row.tag = member.tag;
            row.sequence = member.sequence;
            row.step = (member.step != NO_STEP).then_some(member.step);
        }
        row.seen += 1;
        row.start_ns = row.start_ns.min(member.enter_ns);
        let end = if member.leave_ns == NO_TIME {
            member.enter_ns
        } else {
            member.leave_ns
        };
        row.end_ns = row.end_ns.max(end);
        row.first_arrival_ns = row.first_arrival_ns.min(member.arrival_ns());
        row.last_arrival_ns = row.last_arrival_ns.max(member.arrival_ns());
    }
    row
}
