//! Models of the GPUs that the process uses. Two runs on different GPUs must not be compared.

use super::driver;
use crate::core::life;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use std::ffi::c_char;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of devices, one bit each. Devices with higher ordinals are not written.
const MAX_DEVICES: u32 = u64::BITS;
/// Size of the buffer for a model's name, in bytes, with the final NUL.
const MOST_BYTES: usize = 128;

/// One bit for each ordinal whose model is in this log.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Forgets which models were written, because a new log contains none.
pub fn forget() {
    WRITTEN.store(0, Ordering::Relaxed);
}

/// Writes the model of the calling thread's current device, if there is one.
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

/// Writes the model of a device, once. The program must have initialised the driver.
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
    let (mut device, mut name) = (0, [0_u8; MOST_BYTES]);
    // SAFETY: `device` and `name` are locals, and the second is passed with its length. Both functions need neither a
    // context nor the device itself.
    let outcome = unsafe {
        match driver::device_at(&raw mut device, ordinal as i32) {
            driver::SUCCESS => {
                driver::device_name(name.as_mut_ptr().cast::<c_char>(), MOST_BYTES as i32, device)
            }
            refused => refused,
        }
    };
    let name_bytes = name.iter().position(|&byte| byte == 0).unwrap_or(MOST_BYTES);
    if outcome != driver::SUCCESS || name_bytes == 0 {
        return;
    }
    let mut key = [0; 32];
    let mut room = key.as_mut_slice();
    let room_bytes = room.len();
    if write!(room, "device.{ordinal}.model").is_err() {
        return;
    }
    let key_bytes = room_bytes - room.len();
    if let Ok(key) = std::str::from_utf8(&key[..key_bytes]) {
        let payload = Payload::property(key, &name[..name_bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}
