//! Instances in a temporary file, for pairs of hosts that are solved one group after the other.

use crate::clocks::evidence::Instance;
use crate::merge::temporary_file::{TemporaryFile, TemporaryWriter};
use rankscope_formats::session::TableError;
use std::path::Path;

/// Number of bytes of instances that are written and read at once.
const BLOCK_BYTES: usize = 1 << 18;

/// Instances that are being written.
pub struct InstanceRunsWriter {
    file: TemporaryWriter,
    block: Vec<u8>,
}

impl InstanceRunsWriter {
    /// Creates the file in a directory.
    pub fn create(directory: &Path) -> Result<Self, TableError> {
        Ok(Self {
            file: TemporaryWriter::create(directory)?,
            block: Vec::new(),
        })
    }

    /// Appends an instance.
    pub fn write(&mut self, instance: &Instance) -> Result<(), TableError> {
        instance.pack(&mut self.block);
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), TableError> {
        self.file.append(&(self.block.len() as u64).to_le_bytes())?;
        self.file.append(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Ends writing.
    pub fn finish(mut self) -> Result<InstanceRuns, TableError> {
        self.end_block()?;
        let bytes = self.file.offset();
        Ok(InstanceRuns {
            file: self.file.finish()?,
            bytes,
        })
    }
}

/// Instances that were written.
pub struct InstanceRuns {
    file: TemporaryFile,
    bytes: u64,
}

impl InstanceRuns {
    /// Calls `visit` with each instance, in the order of writing.
    pub fn each(&self, mut visit: impl FnMut(&Instance)) -> Result<(), TableError> {
        let mut instance = Instance::default();
        let mut block = Vec::new();
        let mut offset = 0;
        while offset < self.bytes {
            let mut length = [0; 8];
            self.file.read(offset, &mut length)?;
            let length = u64::from_le_bytes(length);
            block.resize(length as usize, 0);
            self.file.read(offset + 8, &mut block)?;
            offset += 8 + length;
            let mut from = block.as_slice();
            while !from.is_empty() {
                instance.unpack(&mut from).ok_or_else(|| self.file.damaged())?;
                visit(&instance);
            }
        }
        Ok(())
    }
}
