//! Spans that are operations of the program: those with the field `op`.
//!
//! What a span's fields say is kept from its creation to its entry, without a lock and without an allocation.

use crate::operation::Operation;
use rankscope_recorder::api::Api;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of places; a power of two.
const PLACES: usize = 256;
/// Maximum number of places that are searched for one span.
const MAX_STEPS: usize = 16;
/// Identifier of a place that is being filled.
const RESERVED: u64 = u64::MAX;
/// Bits of [`Place::what`]: the peer, then the operation, then whether the span was entered.
const OPERATION_SHIFT: u32 = 32;
const WAS_ENTERED: u64 = 1 << 40;

/// Communicator of the program, which the fields `rank` and `world` define; 0 before.
static WORLD: AtomicUsize = AtomicUsize::new(0);

/// Fields of a span or an event that the analysis knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFields {
    /// Number of this member.
    pub rank: Option<u64>,
    /// Number of members.
    pub world: Option<u64>,
    /// Operation.
    pub operation: Option<Operation>,
    /// Payload of this member, in bytes.
    pub bytes: u64,
    /// Peer of a message, or root of a collective.
    pub peer: Option<u64>,
}

impl KnownFields {
    /// Defines the program's communicator, if these are the first fields with a rank and a number of ranks.
    pub fn define_world(&self, api: &Api) {
        let (Some(rank), Some(world)) = (self.rank, self.world) else {
            return;
        };
        let (Ok(rank), Ok(world)) = (u32::try_from(rank), u32::try_from(world)) else {
            return;
        };
        // A second thread that comes here at the same time defines the same communicator under another handle.
        if rank < world && WORLD.load(Ordering::Acquire) == 0 {
            const NAME: &str = "world";
            // SAFETY: the text has this length.
            let handle = unsafe { (api.communicator)(NAME.as_ptr().cast(), NAME.len(), rank, world) };
            let first = WORLD.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Relaxed);
            if first.is_err() && handle != 0 {
                (api.end_communicator)(handle);
            }
        }
    }
}

/// Open spans that are operations.
#[derive(Debug)]
pub struct Operations {
    /// Number of places that are in use.
    used: AtomicUsize,
    places: Box<[Place]>,
}

#[derive(Debug, Default)]
struct Place {
    /// Identifier of the span; 0 for a free place.
    id: AtomicU64,
    bytes: AtomicU64,
    what: AtomicU64,
}

impl Operations {
    /// Creates an empty table of 6 KiB.
    pub fn new() -> Self {
        Self {
            used: AtomicUsize::new(0),
            places: (0..PLACES).map(|_| Place::default()).collect(),
        }
    }

    fn search(&self, id: u64) -> impl Iterator<Item = &Place> {
        let start = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        (start..start + MAX_STEPS).map(|at| &self.places[at % PLACES])
    }

    fn find(&self, id: u64) -> Option<&Place> {
        self.search(id)
            .find(|place| place.id.load(Ordering::Acquire) == id)
    }

    /// Keeps what the fields of a new span say, if it is an operation. Without a communicator it is none. `id` is never 0.
    pub fn created(&self, api: &Api, id: u64, fields: &KnownFields) {
        let Some(operation) = fields.operation else { return };
        if WORLD.load(Ordering::Acquire) == 0 {
            return;
        }
        let reserved = self.search(id).find(|place| {
            let free = place
                .id
                .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed);
            free.is_ok()
        });
        let Some(place) = reserved else {
            count_wrong_use(api);
            return;
        };
        let peer = fields
            .peer
            .and_then(|peer| i32::try_from(peer).ok())
            .unwrap_or(-1);
        let what = u64::from(peer.cast_unsigned()) | u64::from(operation.number()) << OPERATION_SHIFT;
        place.bytes.store(fields.bytes, Ordering::Relaxed);
        place.what.store(what, Ordering::Relaxed);
        place.id.store(id, Ordering::Release);
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins the operation of a span that this thread enters. Returns false if the span is no operation.
    #[inline]
    pub fn entered(&self, api: &Api, id: u64) -> bool {
        self.used.load(Ordering::Relaxed) > 0 && self.begin(api, id)
    }

    fn begin(&self, api: &Api, id: u64) -> bool {
        let Some(place) = self.find(id) else { return false };
        let what = place.what.fetch_or(WAS_ENTERED, Ordering::Relaxed);
        let (peer, operation) = (what as u32, (what >> OPERATION_SHIFT) as u8);
        // Only the first entry is the operation. With handle 0, which is no communicator, the recorder counts the others as
        // losses.
        let communicator = if what & WAS_ENTERED == 0 {
            WORLD.load(Ordering::Acquire)
        } else {
            0
        };
        let bytes = place.bytes.load(Ordering::Relaxed);
        (api.begin_collective)(communicator, operation, bytes, 0, peer.cast_signed(), 0);
        true
    }

    /// Forgets a span that was closed.
    #[inline]
    pub fn closed(&self, id: u64) {
        if self.used.load(Ordering::Relaxed) > 0
            && let Some(place) = self.find(id)
        {
            place.id.store(0, Ordering::Release);
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Counts an operation that is not recorded: its communicator is unknown to the recorder.
fn count_wrong_use(api: &Api) {
    (api.begin_collective)(0, Operation::Barrier.number(), 0, 0, -1, 0);
    (api.end_collective)(0);
}
