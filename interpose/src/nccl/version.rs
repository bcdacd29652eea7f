//! The NCCL version that the program has loaded. It is read once, when the first communicator is created, and written
//! into the log's header.

use crate::core::life;
use crate::core::resolve;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::nccl_version;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// Property of the header with the version.
const VERSION: &str = "library.nccl.version";
/// Property of the header with the file that contains the library. A program may have linked NCCL statically, and RCCL
/// has the same functions.
const FILE: &str = "library.nccl.file";
/// Maximum length of a file name, in bytes. Longer names are truncated.
const MOST_BYTES: usize = 64;

/// True once a thread has asked, or is asking. No thread waits for another: a child that was forked meanwhile would
/// wait forever.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// Name of the file, followed by zeros; written before [`KNOWN`].
static NAME: [AtomicU8; MOST_BYTES] = [const { AtomicU8::new(0) }; MOST_BYTES];
/// Number of the library's version; 0 until it is known.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Asks the library that contains the function `real`; only the first call does so.
#[cold]
pub fn learn(real: usize) {
    if IS_ASKED.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(version) = ask(real) else { return };
    let mut name = [0; MOST_BYTES];
    let name_bytes = resolve::file_name(real, &mut name);
    for (place, byte) in NAME.iter().zip(&name[..name_bytes]) {
        place.store(*byte, Ordering::Relaxed);
    }
    KNOWN.store(version, Ordering::Release);
    if let Some(set) = life::definitions() {
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
    // SAFETY: `address` is `ncclGetVersion`, which has this signature in every version. It only writes the number, to a
    // local.
    let outcome = unsafe {
        let function = std::mem::transmute::<usize, Ask>(address);
        function(&raw mut version)
    };
    u32::try_from(version)
        .ok()
        .filter(|&version| outcome == super::result::SUCCESS && version > 0)
}

/// Returns the version as the library numbers it, such as 22809; 0 while it is unknown.
pub fn number() -> u32 {
    KNOWN.load(Ordering::Acquire)
}

/// Writes the version and the file name. Runs when the recorder is ready.
pub fn define(set: &LaneSet) {
    let version = KNOWN.load(Ordering::Acquire);
    if version == 0 {
        return;
    }
    let [major, minor, patch] = nccl_version::parts(version);
    let mut text = [0; 32];
    let mut room = text.as_mut_slice();
    let room_bytes = room.len();
    let written = write!(room, "{major}.{minor}.{patch}").map(|()| room_bytes - room.len());
    if let Ok(bytes) = written {
        let payload = Payload::property(VERSION, &text[..bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
    let mut name = [0; MOST_BYTES];
    for (byte, place) in name.iter_mut().zip(&NAME) {
        *byte = place.load(Ordering::Relaxed);
    }
    let name_bytes = name.iter().position(|&byte| byte == 0).unwrap_or(MOST_BYTES);
    if name_bytes > 0 {
        let payload = Payload::property(FILE, &name[..name_bytes]);
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}
