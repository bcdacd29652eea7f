//! Numbers of static texts, by their addresses: a lookup without a lock and without hashing the text.

use rankscope_recorder::api::Api;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of slots; a power of two.
const PLACES: usize = 4096;
/// Maximum number of slots that are probed.
const MAX_STEPS: usize = 16;

struct Place {
    address: AtomicUsize,
    /// Length of the text in the upper half, and its number plus one in the lower; 0 while it is being stored.
    value: AtomicU64,
}

static PLACE: [Place; PLACES] = [const {
    Place {
        address: AtomicUsize::new(0),
        value: AtomicU64::new(0),
    }
}; PLACES];

/// Returns the number of a text.
#[inline]
pub fn number(api: &Api, text: &'static str) -> u32 {
    let address = text.as_ptr() as usize;
    let start = (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % PLACES;
    for step in 0..MAX_STEPS {
        let place = &PLACE[(start + step) % PLACES];
        match place.address.load(Ordering::Acquire) {
            found if found == address => {
                let value = place.value.load(Ordering::Acquire);
                // Two texts can begin at the same address: one is the start of the other.
                if value != 0 && (value >> 32) as usize == text.len() {
                    return (value as u32).wrapping_sub(1);
                }
            }
            0 => return store(api, text, place),
            _ => {}
        }
    }
    intern(api, text)
}

/// Returns the number of any text.
pub fn intern(api: &Api, text: &str) -> u32 {
    // SAFETY: the text has this length.
    unsafe { (api.text)(text.as_ptr().cast(), text.len()) }
}

/// Returns the number of a value or a message. There is room for fewer of them than of names.
pub fn value(api: &Api, text: &str) -> u32 {
    // SAFETY: the text has this length.
    unsafe { (api.value_text)(text.as_ptr().cast(), text.len()) }
}

#[cold]
fn store(api: &Api, text: &'static str, place: &Place) -> u32 {
    let number = intern(api, text);
    let address = text.as_ptr() as usize;
    let taken = place
        .address
        .compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_ok() && number != u32::MAX {
        let value = (text.len() as u64) << 32 | u64::from(number.wrapping_add(1));
        place.value.store(value, Ordering::Release);
    }
    number
}
