//! Decompression on a separate thread, in parallel with the parsing.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};

/// Size of a block, in bytes.
const BLOCK_BYTES: usize = 1 << 18;
/// Maximum number of blocks that wait to be read.
const WAITING: usize = 4;

/// Content of a gzip stream.
pub struct Unpacked {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    read: usize,
}

impl Unpacked {
    /// Starts the decompression.
    ///
    /// # Errors
    ///
    /// If the thread cannot be created.
    pub fn start(packed: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("unpack".to_owned())
            .spawn(move || {
                let mut input = MultiGzDecoder::new(packed);
                loop {
                    let mut block = Vec::with_capacity(BLOCK_BYTES);
                    let read = (&mut input).take(BLOCK_BYTES as u64).read_to_end(&mut block);
                    // The bytes before the error are valid.
                    let is_over = !matches!(read, Ok(1..));
                    if !block.is_empty() && sender.send(Ok(block)).is_err() {
                        return;
                    }
                    if let Err(error) = read {
                        let _ = sender.send(Err(error));
                    }
                    if is_over {
                        return;
                    }
                }
            })?;
        Ok(Self {
            blocks,
            block: Vec::new(),
            read: 0,
        })
    }
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.block.len() {
            match self.blocks.recv() {
                Ok(block) => {
                    self.block = block?;
                    self.read = 0;
                }
                Err(_) => return Ok(0),
            }
        }
        let take = out.len().min(self.block.len() - self.read);
        out[..take].copy_from_slice(&self.block[self.read..self.read + take]);
        self.read += take;
        Ok(take)
    }
}
