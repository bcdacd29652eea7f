//! Models and addresses of the GPUs that the process uses. Two runs on different GPUs must not be compared. The address
//! joins a rank with the samples of its GPU.

use super::driver;
use crate::core::life;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use std::ffi::c_char;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of devices, one bit each. Devices with higher ordinals are not written.
const MAX_DEVICES: u32 = u64::BITS;
/// Size of the buffer for a text, in bytes, with the final NUL.
const MOST_BYTES: usize = 128;

/// One bit for each ordinal whose model and address are in this log.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Forgets which devices were written, because a new log contains none.
pub fn forget() {
    WRITTEN.store(0, Ordering::Relaxed);
}

/// Writes the model and address of the calling thread's current device, if there is one.
#[cold]
pub fn learn_current() {
    let mut device = 0;
    // SAFETY: `device` is a local. The driver numbers its devices by their ordinals.
    if unsafe { driver::current_device(&raw mut device) } == driver::SUCCESS
        && let Ok(ordinal) = u32::try_from(device)
    {
        learn(ordinal);
    }
}

/// Writes the model and address of a device, once. The program must have initialised the driver.
#[cold]
pub fn learn(ordinal: u32) {
    if ordinal >= MAX_DEVICES {
        return;
    }
    let bit = 1 << ordinal;
    if WRITTEN.load(Ordering::Relaxed) & bit != 0 {
        return;
    }
    let Some(set) = life::definitions() else {
        return;
    };
    if WRITTEN.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    let mut device = 0;
    // SAFETY: `device` is a local. The function needs neither a context nor the device itself.
    if unsafe { driver::device_at(&raw mut device, ordinal as i32) } != driver::SUCCESS {
        return;
    }
    // SAFETY: the caller passes a buffer with its size. Both functions need neither a context nor the device itself.
    let model = text(|buffer, most_bytes| unsafe { driver::device_name(buffer, most_bytes, device) });
    define(set, ordinal, "model", &model);
    // SAFETY: as above.
    let address = text(|buffer, most_bytes| unsafe { driver::device_address(buffer, most_bytes, device) });
    define(set, ordinal, "address", &address);
}

/// Returns a text of the driver, NUL-terminated; empty if the driver refuses.
fn text(read: impl Fn(*mut c_char, i32) -> i32) -> [u8; MOST_BYTES] {
    let mut buffer = [0; MOST_BYTES];
    if read(buffer.as_mut_ptr().cast(), MOST_BYTES as i32) == driver::SUCCESS {
        buffer
    } else {
        [0; MOST_BYTES]
    }
}

/// Writes the property `device.ORDINAL.WHAT`, unless its value is empty.
fn define(set: &LaneSet, ordinal: u32, what: &str, value: &[u8; MOST_BYTES]) {
    let value_bytes = value.iter().position(|&byte| byte == 0).unwrap_or(MOST_BYTES);
    let mut key = [0; 32];
    let mut room = key.as_mut_slice();
    let room_bytes = room.len();
    if value_bytes == 0 || write!(room, "device.{ordinal}.{what}").is_err() {
        return;
    }
    let key_bytes = room_bytes - room.len();
    if let Ok(key) = std::str::from_utf8(&key[..key_bytes]) {
        let payload = Payload::property(key, &value[..value_bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}
