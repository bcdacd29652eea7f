//! Device work that waits for its order.

use super::in_order::Moment;
use rankscope_formats::session::{WorkClass, WorkKind};
use rankscope_ranklog::activity::{Activity, Work};

/// Device work.
#[derive(Clone, Copy)]
pub struct DeviceWork {
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Number of its stream in the log; `u32::MAX` if unknown.
    pub stream: u32,
    /// Correlation ID of the call that launched it.
    pub correlation: u32,
    /// Kind of work.
    pub kind: WorkKind,
    /// Number of a kernel's name; −1 if there is none.
    pub name: i32,
    /// Bytes copied or set.
    pub bytes: u64,
    /// Number of blocks of a kernel in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Node of the graph to which it belongs; 0 if none.
    pub graph_node: u64,
}

impl DeviceWork {
    /// Returns the device work of a record with these enter and leave times; `None` if the record is no work.
    #[inline]
    pub fn of(activity: &Activity, enter_ns: i64, leave_ns: i64) -> Option<Self> {
        let new = |work: &Work, kind| Self {
            start_ns: enter_ns,
            end_ns: leave_ns,
            stream: work.stream,
            correlation: work.correlation,
            kind,
            name: -1,
            bytes: 0,
            grid: [0; 3],
            block: [0; 3],
            graph_node: work.graph_node,
        };
        Some(match activity {
            Activity::Kernel {
                work,
                name,
                grid,
                block,
                ..
            } => Self {
                name: *name,
                grid: *grid,
                block: *block,
                ..new(work, WorkKind::Kernel)
            },
            Activity::Copy { work, bytes, .. } => Self {
                bytes: *bytes,
                ..new(work, WorkKind::Copy)
            },
            Activity::Set { work, bytes } => Self {
                bytes: *bytes,
                ..new(work, WorkKind::Set)
            },
            Activity::Graph { work, .. } => new(work, WorkKind::Graph),
            _ => return None,
        })
    }

    /// Returns true for a kernel.
    pub fn is_kernel(&self) -> bool {
        self.kind == WorkKind::Kernel
    }

    /// Returns its class.
    pub fn class(&self, is_communication: bool) -> WorkClass {
        match self.kind {
            _ if is_communication => WorkClass::Communication,
            WorkKind::Kernel | WorkKind::Graph => WorkClass::Compute,
            WorkKind::Copy | WorkKind::Set => WorkClass::Memory,
        }
    }
}

impl Moment for DeviceWork {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}
