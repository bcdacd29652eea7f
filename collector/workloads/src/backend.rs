//! What a communication library must provide to be measured.

use crate::case::Case;
use anyhow::Result;
use rankscope_formats::bench::BenchLibrary;

/// Connected ranks of one library.
pub trait Backend {
    /// Returns the library.
    fn library(&self) -> BenchLibrary;

    /// Returns why a case cannot be measured, or `None`.
    fn why_not(&self, case: &Case) -> Option<&'static str>;

    /// Allocates the buffers of a case.
    fn prepare<'a>(&'a mut self, case: &Case) -> Result<Box<dyn Prepared + 'a>>;

    /// Allocates a buffer for messages of this size.
    fn messages<'a>(&'a mut self, bytes: u64) -> Result<Box<dyn Messages + 'a>>;
}

/// A case with its buffers.
pub trait Prepared {
    /// Writes this rank's input, and clears the output.
    fn fill(&mut self, input: &[u8]) -> Result<()>;

    /// Runs the operation this many times without a pause, and waits for the last one.
    fn run(&mut self, iterations: u32) -> Result<()>;

    /// Returns this rank's output, which is empty if it gets none.
    fn output(&mut self) -> Result<Vec<u8>>;
}

/// A buffer for messages.
pub trait Messages {
    /// Sends its content, and waits until the buffer can be used again.
    fn send(&mut self, to: u32) -> Result<()>;

    /// Receives into it, and waits for the message.
    fn receive(&mut self, from: u32) -> Result<()>;

    /// Sends `count` messages, and waits for the last one.
    fn send_all(&mut self, to: u32, count: u32) -> Result<()> {
        (0..count).try_for_each(|_| self.send(to))
    }

    /// Receives `count` messages, and waits for the last one.
    fn receive_all(&mut self, from: u32, count: u32) -> Result<()> {
        (0..count).try_for_each(|_| self.receive(from))
    }
}
