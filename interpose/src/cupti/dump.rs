//! For rankscope's developers: the first records as CUPTI wrote them, saved to a file, where RANKSCOPE_CUPTI_DUMP names a
//! directory. What a real library writes is replayed in tests.

use super::state;
use crate::core::configuration;
use rankscope_cupti_sys::dump;
use std::fs;
use std::path::PathBuf;

/// Bytes that are kept.
const MOST_BYTES: usize = 4 << 20;

/// What was saved so far.
pub struct Dump {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The record that was handed out last: where the next one begins it ends.
    last: *const u8,
}

impl Dump {
    /// If it was asked for.
    pub fn wanted() -> Option<Self> {
        let directory = configuration::cupti_dump()?;
        Some(Self {
            path: directory.join(format!("{}.cuptidump", std::process::id())),
            bytes: Vec::new(),
            last: std::ptr::null(),
        })
    }

    /// A record begins here.
    pub fn next(&mut self, record: *const u8) {
        self.keep_until(record);
        self.last = record;
    }

    /// The buffer with these bytes ends.
    pub fn end(&mut self, buffer: *const u8, valid_bytes: usize) {
        self.keep_until(buffer.wrapping_add(valid_bytes));
        self.last = std::ptr::null();
    }

    fn keep_until(&mut self, end: *const u8) {
        let length = (end as usize).wrapping_sub(self.last as usize);
        if self.last.is_null() || length > MOST_BYTES || self.bytes.len() + length > MOST_BYTES {
            return;
        }
        // SAFETY: both lie in one buffer, which CUPTI has filled up to its end and which our thread holds.
        let record = unsafe { std::slice::from_raw_parts(self.last, length) };
        dump::put(record, &mut self.bytes);
    }

    /// Writes the file. Its descriptor is in the program's table for that moment: nothing for a job that matters.
    pub fn write(&mut self) {
        let mut file = dump::head(state::version()).into_bytes();
        file.append(&mut self.bytes);
        let _ = fs::write(&self.path, file);
    }
}
