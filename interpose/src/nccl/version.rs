//! Which NCCL the program has loaded: asked once, when its first communicator is made, and written into the header.

use crate::life;
use crate::resolve;
use rankscope_formats::ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_formats::ranklog::lanes::LaneSet;
use std::io::Write;
use std::sync::OnceLock;

/// What the header says of it.
const VERSION: &str = "library.nccl.version";
/// The file that holds it: a program may have linked NCCL statically, and RCCL has the same functions.
const FILE: &str = "library.nccl.file";
/// Longest name kept.
const MOST_BYTES: usize = 64;

struct Known {
    version: u32,
    file: [u8; MOST_BYTES],
    file_bytes: usize,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Asks the library that holds the function `real`, the first time.
#[cold]
pub fn learn(real: usize) {
    if KNOWN.get().is_some() {
        return;
    }
    let Some(version) = ask(real) else { return };
    let mut file = [0; MOST_BYTES];
    let file_bytes = resolve::file_name(real, &mut file);
    let is_first = KNOWN
        .set(Known {
            version,
            file,
            file_bytes,
        })
        .is_ok();
    if is_first && let Some(set) = life::definitions() {
        define(set);
    }
}

fn ask(real: usize) -> Option<u32> {
    type Ask = unsafe extern "C" fn(*mut i32) -> u32;
    let address = resolve::beside(real, c"ncclGetVersion");
    if address == 0 {
        return None;
    }
    let mut version = 0;
    // SAFETY: the function has this signature in every version, and only writes the number.
    let outcome = unsafe {
        let function = std::mem::transmute::<usize, Ask>(address);
        function(&raw mut version)
    };
    u32::try_from(version)
        .ok()
        .filter(|&version| outcome == super::result::SUCCESS && version > 0)
}

/// Writes down which it is, when the recorder is ready.
pub fn define(set: &LaneSet) {
    let Some(known) = KNOWN.get() else { return };
    // 2.8 and before: 2804; later 20905.
    let (major, rest) = if known.version < 10_000 {
        (known.version / 1_000, known.version % 1_000)
    } else {
        (known.version / 10_000, known.version % 10_000)
    };
    let mut text = [0; 32];
    let mut room = text.as_mut_slice();
    let room_bytes = room.len();
    let written = write!(room, "{major}.{}.{}", rest / 100, rest % 100).map(|()| room_bytes - room.len());
    if let Ok(bytes) = written {
        let payload = Payload::property(VERSION, &text[..bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
    if known.file_bytes > 0 {
        let payload = Payload::property(FILE, &known.file[..known.file_bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}
