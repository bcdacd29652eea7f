//! Saves CUPTI's first records unchanged to a file, for developers of rankscope. RANKSCOPE_CUPTI_DUMP names the
//! directory. Tests replay the records of real libraries.

use super::state;
use crate::core::configuration;
use rankscope_cupti_sys::dump;
use std::fs;
use std::path::PathBuf;

/// Maximum number of bytes that are kept.
const MOST_BYTES: usize = 4 << 20;

/// Records saved so far.
pub struct Dump {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Record that was reported last. It ends where the next one starts.
    last: *const u8,
}

impl Dump {
    /// Creates a dump if one was requested.
    pub fn wanted() -> Option<Self> {
        let directory = configuration::cupti_dump()?;
        Some(Self {
            path: directory.join(format!("{}.cuptidump", std::process::id())),
            bytes: Vec::new(),
            last: std::ptr::null(),
        })
    }

    /// Reports that a record starts here.
    pub fn next(&mut self, record: *const u8) {
        self.keep_until(record);
        self.last = record;
    }

    /// Reports the end of the buffer with these bytes.
    pub fn end(&mut self, buffer: *const u8, valid_bytes: usize) {
        self.keep_until(buffer.wrapping_add(valid_bytes));
        self.last = std::ptr::null();
    }

    fn keep_until(&mut self, end: *const u8) {
        let length = (end as usize).wrapping_sub(self.last as usize);
        if self.last.is_null() || length > MOST_BYTES || self.bytes.len() + length > MOST_BYTES {
            return;
        }
        // SAFETY: `last` and `end` are in one buffer, and `end` is not before `last`. CUPTI has filled the buffer up to
        // `end`, and only the CUPTI thread holds it.
        let record = unsafe { std::slice::from_raw_parts(self.last, length) };
        dump::put(record, &mut self.bytes);
    }

    /// Writes the file. Its descriptor is in the program's table for that moment, which is acceptable only because this
    /// is for developers.
    pub fn write(&mut self) {
        let mut file = dump::head(state::version()).into_bytes();
        file.append(&mut self.bytes);
        let _ = fs::write(&self.path, file);
    }
}
