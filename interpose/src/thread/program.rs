//! State of a thread for the functions by which a program marks its work.

use super::state;
use crate::core::api::{Thread, Threads};
use crate::core::collectives::CollectiveThread;
use crate::core::marks::MarkThread;

/// State of one thread.
pub struct ProgramThread {
    /// Open spans.
    pub marks: MarkThread,
    /// The program's own operation.
    pub collective: CollectiveThread,
}

impl ProgramThread {
    pub(super) const fn new() -> Self {
        Self {
            marks: MarkThread::new(),
            collective: CollectiveThread::new(),
        }
    }
}

/// The threads of this process.
pub struct ProgramThreads;

impl Threads for ProgramThreads {
    #[inline]
    fn current() -> Thread {
        let thread = state();
        Thread {
            lane: &thread.lane,
            marks: &thread.program.marks,
            collective: &thread.program.collective,
        }
    }
}
