//! State of c10d's hooks in one thread.

use std::cell::Cell;

/// Maximum number of open files in PyTorch's format that are remembered per thread.
pub const FILES: usize = 4;

/// State of c10d's hooks in one thread.
pub struct TorchThread {
    /// Nesting depth of blocking waits. Only the outermost wait is time that a training thread lost.
    pub blocked_depth: Cell<u32>,
    /// Nesting depth of process-group calls. Only the outermost call names the operation.
    pub process_group_depth: Cell<u32>,
    /// Operation of the outermost process-group call; 0 outside one.
    pub process_group_operation: Cell<u8>,
    /// Work object that this worker thread executes; 0 if none.
    pub work: Cell<u64>,
    /// Operation of the last library call inside that work.
    pub work_operation: Cell<u8>,
    /// Number of calls of `work_operation` inside that work before the last one.
    pub work_calls: Cell<u32>,
    /// Files in PyTorch's format that this thread has open.
    pub open_files: [Cell<OpenFile>; FILES],
}

impl TorchThread {
    pub(super) const fn new() -> Self {
        Self {
            blocked_depth: Cell::new(0),
            process_group_depth: Cell::new(0),
            process_group_operation: Cell::new(0),
            work: Cell::new(0),
            work_operation: Cell::new(0),
            work_calls: Cell::new(0),
            open_files: [const { Cell::new(OpenFile::NONE) }; FILES],
        }
    }
}

/// File that is being written or read.
#[derive(Clone, Copy)]
pub struct OpenFile {
    /// Address of the file's writer or reader; 0 for none.
    pub object: usize,
    /// Time at which the file was opened.
    pub enter_ticks: u64,
}

impl OpenFile {
    /// No file.
    pub const NONE: Self = Self {
        object: 0,
        enter_ticks: 0,
    };
}
