//! Recorder of one process. It is started once. Lanes feed it, and one background thread drains it.
//!
//! The caller owns the thread; the preloaded library creates it with all signals blocked. Everything that opens,
//! writes, grows or allocates happens in [`Recorder::run`], on that thread.

use super::area::{Area, ChunkHeader, chunk_state, state};
use super::clock::{self, Calibration, Counter, ticks};
use super::codec::{self, Group};
use super::definition::{self, KIND_PROPERTY, Payload};
use super::flight::Flight;
use super::free_ring::FreeRing;
use super::lanes::LaneSet;
use super::loss::{Loss, LossCause};
use super::place::{self, Room, SEGMENT_EXTENSION};
use super::process;
use super::record::{Record, RecordKind};
use super::segment::{self, FileHeader, FrameKind};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Recording options of a process.
#[derive(Clone, Debug)]
pub struct Options {
    /// Absolute path of the run directory.
    pub run_dir: PathBuf,
    /// Directory for the live area. With `None` it is the first usable one of shared memory, the run directory and
    /// /var/tmp.
    pub live_dir: Option<PathBuf>,
    /// Maximum size of the live area, in bytes.
    pub live_bytes: u64,
    /// Size of the segment file at which recording stops, in bytes.
    pub max_disk_bytes: u64,
    /// Free disk space below which recording stops, in bytes. With `None` it is 5 % of the file system, but at least 1
    /// GiB and at most 64 GiB.
    pub min_free_bytes: Option<u64>,
    /// Maximum time for which a half-full chunk may stay out of the segments.
    pub partial_flush: Duration,
    /// Flight mode: no records are written while the process runs, and the live area keeps the last ones.
    pub flight: Option<FlightOptions>,
}

/// Options of flight mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlightOptions {
    /// Time that is kept; `None` if only the size of the live area limits it.
    pub keep: Option<Duration>,
}

/// Property with the time that flight mode keeps.
pub const FLIGHT_PROPERTY: &str = "flight";
/// Property with which a process in flight mode begins to close its log.
pub const FLIGHT_CLOSING_PROPERTY: &str = "flight_closing";
/// Property of a copied log: time of the copy, in nanoseconds since 1970.
pub const COPIED_PROPERTY: &str = "copied_unix_ns";
/// Property with the tick before which records of flight mode may have been dropped.
pub const FLIGHT_FROM_PROPERTY: &str = "flight_from_ticks";

impl Options {
    /// Returns the default options for a run directory.
    pub fn new(run_dir: PathBuf) -> Self {
        Self {
            run_dir,
            live_dir: None,
            live_bytes: 8 << 20,
            max_disk_bytes: 4 << 30,
            min_free_bytes: None,
            partial_flush: Duration::from_secs(10),
            flight: None,
        }
    }
}

const NOT_STARTED: u32 = 0;
const RECORDING: u32 = 1;
const FAILED: u32 = 2;
const FINISHED: u32 = 3;

/// The program has paused recording (`Recorder::paused`).
const PAUSED: u32 = 1;
/// Recording has ended in this process.
const ENDED: u32 = 2;

/// Recorder of a process. Its constructor is `const`, so that it can be a static without initialisation.
pub struct Recorder {
    /// Lanes that accept records now; null while starting, while paused, and after the end.
    active: AtomicPtr<LaneSet>,
    /// Lanes once they exist, also while paused.
    set: AtomicPtr<LaneSet>,
    status: AtomicU32,
    /// 0, [`PAUSED`] or [`ENDED`].
    paused: AtomicU32,
    wake: AtomicU32,
    starting_losses: [AtomicU64; RecordKind::COUNT],
    starting_first: AtomicU64,
    starting_last: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Creates a recorder that does not record yet.
    pub const fn new() -> Self {
        Self {
            active: AtomicPtr::new(std::ptr::null_mut()),
            set: AtomicPtr::new(std::ptr::null_mut()),
            status: AtomicU32::new(NOT_STARTED),
            paused: AtomicU32::new(0),
            wake: AtomicU32::new(0),
            starting_losses: [const { AtomicU64::new(0) }; RecordKind::COUNT],
            starting_first: AtomicU64::new(0),
            starting_last: AtomicU64::new(0),
        }
    }

    /// Resets the recorder in a forked child, because the lanes belong to the parent.
    pub fn reset_after_fork(&self) {
        self.active.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.set.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.status.store(NOT_STARTED, Ordering::Relaxed);
        self.wake.store(0, Ordering::Relaxed);
        // A pause that the program has requested goes on in the child. The end of the parent's recording does not.
        let _ = self
            .paused
            .compare_exchange(ENDED, 0, Ordering::Relaxed, Ordering::Relaxed);
        for count in &self.starting_losses {
            count.store(0, Ordering::Relaxed);
        }
        self.starting_first.store(0, Ordering::Relaxed);
    }

    /// Returns the lanes that accept records now.
    #[inline]
    pub fn lanes(&self) -> Option<&'static LaneSet> {
        // SAFETY: the pointer is null or comes from `Box::leak` in `run`.
        unsafe { self.active.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the lanes also while recording is paused. Definitions and losses use this.
    pub fn lanes_even_if_paused(&self) -> Option<&'static LaneSet> {
        // SAFETY: as in `lanes`.
        unsafe { self.set.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the lanes from their creation until the recording ends, also during a pause. For records of work that ran
    /// before the pause.
    pub fn lanes_until_the_end(&self) -> Option<&'static LaneSet> {
        match self.status.load(Ordering::Acquire) {
            NOT_STARTED | RECORDING => self.lanes_even_if_paused(),
            _ => None,
        }
    }

    /// Returns true once records are accepted, or once it is known that they never will be.
    pub fn is_settled(&self) -> bool {
        self.status.load(Ordering::Acquire) != NOT_STARTED
    }

    /// Returns true if recording could not start.
    pub fn has_failed(&self) -> bool {
        self.status.load(Ordering::Acquire) == FAILED
    }

    /// Waits until [`Recorder::is_settled`], at most `limit`. Only for cold calls, such as building a communicator.
    pub fn wait_until_settled(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.is_settled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            futex_wait(&self.status, NOT_STARTED, left);
        }
    }

    /// Accepts no records until [`Recorder::resume`]. Definitions and sequence numbers continue.
    pub fn pause(&self) {
        self.change_pause(0, PAUSED);
    }

    /// Accepts records again.
    pub fn resume(&self) {
        self.change_pause(PAUSED, 0);
    }

    /// Changes the state of the pause, unless recording has ended.
    fn change_pause(&self, from: u32, to: u32) {
        let _ = self
            .paused
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        self.apply_pause();
    }

    /// Makes the active lanes those that the current state requires. Each change of the state is followed by this call. It
    /// repeats the store if another thread has changed the state meanwhile, so the last change takes effect.
    fn apply_pause(&self) {
        let wanted = || match self.paused.load(Ordering::SeqCst) {
            0 => self.set.load(Ordering::SeqCst),
            _ => std::ptr::null_mut(),
        };
        loop {
            let lanes = wanted();
            self.active.store(lanes, Ordering::SeqCst);
            if wanted() == lanes {
                return;
            }
        }
    }

    /// Counts a record that arrived before the lanes exist. Later it counts nothing: a record that is skipped while
    /// paused is not a loss.
    #[cold]
    pub fn count_while_starting(&self, kind: RecordKind, now_ticks: u64) {
        if self.status.load(Ordering::Relaxed) == NOT_STARTED {
            let _ = self.starting_first.compare_exchange(
                0,
                now_ticks.max(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            self.starting_last.fetch_max(now_ticks, Ordering::Relaxed);
            self.starting_losses[kind as usize % RecordKind::COUNT].fetch_add(1, Ordering::Release);
        }
    }

    /// Requests that the background thread writes everything and closes the log, and waits at most `limit` for it.
    ///
    /// It also waits while the thread is still starting, because the losses counted until then would otherwise
    /// disappear. Call it only if [`Recorder::run`] was started. If the time is too short nothing is lost: the live
    /// area remains for the collector.
    pub fn finish(&self, limit: Duration) {
        self.wake.store(1, Ordering::Release);
        futex_wake(&self.wake);
        let deadline = Instant::now() + limit;
        loop {
            let status = self.status.load(Ordering::Acquire);
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(status, NOT_STARTED | RECORDING) || left.is_zero() {
                return;
            }
            futex_wait(&self.status, status, left);
        }
    }

    /// Marks recording as failed and wakes all threads that wait for its start.
    pub fn abandon(&self) {
        self.set_status(FAILED);
    }

    fn set_status(&self, status: u32) {
        self.status.store(status, Ordering::Release);
        futex_wake(&self.status);
    }

    /// Runs the background thread from start to end.
    ///
    /// `on_ready` runs before the first record is accepted, and writes the definitions that already exist.
    /// `each_second` receives the run directory and returns the number of the recorder's other threads. `on_last` is
    /// called when only threads of the recorder are left, and ends those that record.
    pub fn run(
        &'static self,
        options: &Options,
        on_ready: fn(&LaneSet),
        each_second: fn(&Path) -> usize,
        on_last: fn(),
    ) {
        let Some(mut drain) = Drain::start(options) else {
            self.set_status(FAILED);
            return;
        };
        let set = drain.set;
        self.set
            .store(std::ptr::from_ref(set).cast_mut(), Ordering::SeqCst);
        on_ready(set);
        self.apply_pause();
        set.area.set_state(state::RECORDING);
        self.set_status(RECORDING);
        self.take_over_starting_losses(set);
        let mut last_check = Instant::now();
        loop {
            futex_wait(&self.wake, 0, drain.pause_length());
            if self.wake.load(Ordering::Acquire) != 0 {
                break;
            }
            drain.cycle(false);
            if last_check.elapsed() >= Duration::from_secs(1) {
                last_check = Instant::now();
                let others = each_second(&options.run_dir);
                // If the main thread has left by pthread_exit, the program ends with its last thread. The recorder must
                // not be this last thread.
                if process::only_own_threads_are_left(1 + others) {
                    on_last();
                    break;
                }
            }
        }
        // A later resume must not accept records that nobody writes any more.
        self.paused.store(ENDED, Ordering::SeqCst);
        self.apply_pause();
        drain.close();
        self.set_status(FINISHED);
    }

    fn take_over_starting_losses(&self, set: &LaneSet) {
        for &kind in RecordKind::ALL {
            let count = self.starting_losses[kind as usize].swap(0, Ordering::Acquire);
            if count > 0 {
                let first = self.starting_first.load(Ordering::Relaxed);
                let last = self.starting_last.load(Ordering::Relaxed);
                set.area.count_loss(LossCause::Starting, kind, count, first, last);
            }
        }
    }
}

fn futex_wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let time = libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the time live through the call. A wrong or missed wake-up only ends the wait.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const time,
        );
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: waking waiters on a live word has no other effect.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}

/// State of the background thread: what has been written, and what is due.
struct Drain {
    set: &'static LaneSet,
    options: Options,
    segment: SegmentFile,
    live_path: Option<PathBuf>,
    counter: Counter,
    quantum_bits: u32,
    definitions_flushed: u64,
    last_partial: Instant,
    last_flush: Instant,
    first_calibration: Option<Calibration>,
    last_calibration: Instant,
    calibration_interval: Duration,
    last_space_check: Instant,
    reported_losses: Vec<Loss>,
    records_since_watermark: usize,
    last_look_at_calls: Instant,
    /// Long calls in progress that the segments list: lane and enter, in ticks.
    listed_calls: Vec<(u32, u64)>,
    /// Present in flight mode, until the log is closed.
    flight: Option<Flight>,
    stopped: bool,
    /// Frames for the next write. The buffer is reused between cycles, as is `payload`.
    frames: Vec<u8>,
    payload: Vec<u8>,
    /// Number of consecutive cycles with nothing to write. The thread then sleeps longer.
    idle_cycles: u32,
}

const CALIBRATION_INTERVAL_FIRST: Duration = Duration::from_secs(1);
const CALIBRATION_INTERVAL_LAST: Duration = Duration::from_secs(10);
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two looks at the calls in progress.
const CALLS_INTERVAL: Duration = Duration::from_secs(1);
/// A call in progress that lasts this long is listed in the segments, in seconds. So readers on other hosts see it.
const LONG_CALL_S: u64 = 2;
/// Minimum number of full chunks that are written as a frame before half-full ones are due.
const FULL_CHUNKS: usize = 32;
/// Maximum number of records in one frame. It bounds the memory of writer and reader.
const RECORDS_PER_FRAME: usize = 1 << 15;
/// Approximate maximum number of records between two watermarks. A reader keeps them in memory in order to sort the
/// lanes into one order.
const RECORDS_PER_WATERMARK: usize = 1 << 16;

impl Drain {
    fn start(options: &Options) -> Option<Self> {
        let counter = clock::counter();
        place::make_run_directory(&options.run_dir).ok()?;
        let nonce = nonce();
        let pid = std::process::id();
        let segment = SegmentFile::create(options, counter, nonce, pid).ok()?;
        let Some(placed) = place::place_area(
            options.live_bytes,
            nonce,
            options.live_dir.as_deref(),
            &options.run_dir,
        ) else {
            segment.remove();
            return None;
        };
        let Some(set) = lane_set(placed.area, nonce, pid, counter) else {
            segment.remove();
            if let Some(path) = &placed.path {
                let _ = fs::remove_file(path);
            }
            return None;
        };
        let mut drain = Self {
            set,
            options: options.clone(),
            segment,
            live_path: placed.path,
            counter,
            quantum_bits: clock::quantum_bits(),
            definitions_flushed: 0,
            last_partial: Instant::now(),
            last_flush: Instant::now(),
            first_calibration: None,
            last_calibration: Instant::now(),
            calibration_interval: CALIBRATION_INTERVAL_FIRST,
            last_space_check: Instant::now(),
            reported_losses: Vec::new(),
            records_since_watermark: 0,
            last_look_at_calls: Instant::now(),
            listed_calls: Vec::new(),
            flight: None,
            stopped: false,
            frames: Vec::new(),
            payload: Vec::new(),
            idle_cycles: 0,
        };
        drain.define_process();
        drain.calibrate();
        let chunks = drain.set.area.layout().chunk_count;
        drain.flight = drain
            .options
            .flight
            .map(|options| Flight::new(options.keep, chunks));
        drain.put_definitions();
        // Written even if there is too little space to record: the losses are in the live area, and these bytes contain
        // its path.
        drain.write_frames();
        drain.check_space();
        Some(drain)
    }

    fn define_process(&self) {
        let area = &self.set.area;
        let live = self
            .live_path
            .as_ref()
            .map_or_else(|| "none".to_owned(), |path| path.display().to_string());
        let quantum = (1u32 << self.quantum_bits).to_string();
        let flight = self.options.flight.map(|options| {
            let kept = options.keep.map(|keep| keep.as_secs_f64().to_string());
            (
                FLIGHT_PROPERTY.to_owned(),
                kept.unwrap_or_else(|| "area".to_owned()),
            )
        });
        for (key, value) in process::properties().into_iter().chain(flight).chain([
            ("live_path".to_owned(), live),
            ("clock.counter".to_owned(), self.counter.name().to_owned()),
            ("clock.quantum_ticks".to_owned(), quantum),
        ]) {
            area.define(
                KIND_PROPERTY,
                Payload::property(&key, value.as_bytes()).as_bytes(),
            );
        }
    }

    fn pause_length(&self) -> Duration {
        let chunks = u64::from(self.set.area.layout().chunk_count);
        // In flight mode fewer chunks are free, and a burst must find enough.
        let (is_crowded, most_idle) = match self.flight {
            Some(_) => (Flight::is_crowded(self.set), 2),
            None => (self.set.free.len() < chunks / 2 && !self.stopped, 9),
        };
        if is_crowded {
            Duration::from_millis(1)
        } else {
            Duration::from_millis(u64::from(10 * (1 + self.idle_cycles.min(most_idle))))
        }
    }

    /// Runs one cycle of the background thread. With `everything`, all due times count as reached.
    fn cycle(&mut self, everything: bool) {
        if self.last_calibration.elapsed() >= self.calibration_interval || everything {
            self.calibrate();
        }
        if self.flight.is_some() {
            return self.flight_cycle();
        }
        if self.last_space_check.elapsed() >= Duration::from_secs(1) {
            self.check_space();
        }
        let has_listed = self.last_look_at_calls.elapsed() >= CALLS_INTERVAL && self.list_long_calls();
        // A reader of the list also needs the records before it.
        let partial = everything
            || has_listed
            || self.last_partial.elapsed() >= self.options.partial_flush
            || self.records_since_watermark >= RECORDS_PER_WATERMARK;
        let crowded = self.set.free.len() < u64::from(self.set.area.layout().chunk_count) / 2;
        let due = partial
            || crowded
            || self.last_flush.elapsed() >= FLUSH_INTERVAL && self.full_chunks() >= FULL_CHUNKS;
        let mut wrote = false;
        if due && !self.stopped {
            let watermark = ticks();
            self.put_definitions();
            wrote = self.put_records(partial);
            self.put_losses();
            if partial && wrote {
                segment::put_frame(
                    FrameKind::Watermark,
                    0,
                    &watermark.to_le_bytes(),
                    &mut self.frames,
                );
                self.records_since_watermark = 0;
            }
            self.write_frames();
            self.last_flush = Instant::now();
            if partial {
                self.last_partial = self.last_flush;
            }
        }
        self.idle_cycles = if wrote {
            0
        } else {
            self.idle_cycles.saturating_add(1)
        };
    }

    /// Runs one cycle in flight mode. Only new definitions are written: a reader finds the live area by them.
    fn flight_cycle(&mut self) {
        let has_dropped = self
            .flight
            .as_mut()
            .is_some_and(|flight| flight.drop_oldest(self.set));
        self.idle_cycles = if has_dropped {
            0
        } else {
            self.idle_cycles.saturating_add(1)
        };
        // Calibrations are in the live area.
        self.frames.clear();
        self.put_definitions();
        self.write_frames();
    }

    /// Ends flight mode: from here on records are written. First come the calibrations, which other logs have already.
    fn end_flight(&mut self) {
        if self.flight.take().is_none() {
            return;
        }
        let from = self.set.area.flight_from_ticks().to_string();
        put_property(FLIGHT_CLOSING_PROPERTY, "1", &mut self.frames);
        put_property(FLIGHT_FROM_PROPERTY, &from, &mut self.frames);
        let mut calibrations = self.set.area.calibrations();
        calibrations.sort_by_key(|entry| entry.ticks);
        let bytes: Vec<u8> = calibrations.iter().flat_map(|entry| entry.to_bytes()).collect();
        segment::put_frame(FrameKind::Calibrations, 0, &bytes, &mut self.frames);
        self.write_frames();
    }

    /// Writes the long calls in progress into the segments if they changed. A reader on another host has no live area.
    /// Returns true if it wrote any.
    fn list_long_calls(&mut self) -> bool {
        self.last_look_at_calls = Instant::now();
        if self.stopped {
            return false;
        }
        let before = ticks().saturating_sub(LONG_CALL_S.saturating_mul(clock::ticks_per_second()));
        let mut calls = self.set.area.in_flight(self.set.used_lanes());
        calls.retain(|(_, _, record)| record.enter_ticks <= before);
        let listed: Vec<(u32, u64)> = calls
            .iter()
            .map(|(lane, _, record)| (*lane, record.enter_ticks))
            .collect();
        if listed == self.listed_calls {
            return false;
        }
        // The communicators of the calls come first.
        self.put_definitions();
        self.put_in_flight(&calls);
        if self.write_frames() {
            self.listed_calls = listed;
        }
        !calls.is_empty()
    }

    fn put_in_flight(&mut self, calls: &[(u32, u32, Record)]) {
        let mut payload = Vec::new();
        for (lane, thread_id, record) in calls {
            put_in_flight(*lane, *thread_id, record, &mut payload);
        }
        segment::put_frame(FrameKind::InFlight, 0, &payload, &mut self.frames);
    }

    fn calibrate(&mut self) {
        let entry = Calibration::take(self.counter);
        clock::learn_rate(self.first_calibration.get_or_insert(entry), &entry);
        self.set.area.push_calibration(&entry);
        segment::put_frame(FrameKind::Calibrations, 0, &entry.to_bytes(), &mut self.frames);
        self.last_calibration = Instant::now();
        self.calibration_interval = (self.calibration_interval * 2).min(CALIBRATION_INTERVAL_LAST);
    }

    fn put_definitions(&mut self) {
        self.payload.clear();
        let end = self
            .set
            .area
            .copy_definitions(self.definitions_flushed, &mut self.payload);
        if end > self.definitions_flushed {
            let position = self.definitions_flushed as u32;
            segment::put_frame(FrameKind::Definitions, position, &self.payload, &mut self.frames);
            self.definitions_flushed = end;
        }
    }

    fn put_losses(&mut self) {
        let losses = self.set.area.losses();
        if losses != self.reported_losses {
            segment::put_frame(FrameKind::Losses, 0, &losses_payload(&losses), &mut self.frames);
            self.reported_losses = losses;
        }
    }

    /// Returns the number of full chunks. Many chunks at once pack better than single ones.
    fn full_chunks(&self) -> usize {
        let area = &self.set.area;
        (0..area.layout().chunk_count)
            .filter(|&index| area.chunk_header(index).state == chunk_state::FULL)
            .count()
    }

    /// Packs and writes full chunks, and half-full ones too if `partial`. Frees the chunks that are safely written.
    fn put_records(&mut self, partial: bool) -> bool {
        let mut groups: Vec<Group> = Vec::new();
        let mut due: Vec<(u32, ChunkHeader, u32)> = Vec::new();
        let mut pending = 0;
        let mut wrote = false;
        for index in 0..self.set.area.layout().chunk_count {
            let header = self.set.area.chunk_header(index);
            if header.state == chunk_state::FREE || (header.state == chunk_state::OWNED && !partial) {
                continue;
            }
            let mut records: Vec<Record> = Vec::new();
            self.set
                .area
                .copy_records(index, header.generation, header.flushed, &mut records);
            let count = records.len() as u32;
            if count > 0 {
                for record in &mut records {
                    record.generation = 0;
                }
                pending += records.len();
                self.records_since_watermark += records.len();
                groups.push(Group {
                    lane: header.lane,
                    thread_id: header.thread_id,
                    ordinal: header.ordinal,
                    chunk: index,
                    generation: header.generation,
                    first: header.flushed,
                    records,
                });
            }
            if count > 0 || header.state == chunk_state::FULL {
                due.push((index, header, count));
            }
            if pending >= RECORDS_PER_FRAME {
                wrote |= self.write_groups(&mut groups, &mut due);
                pending = 0;
            }
        }
        wrote | self.write_groups(&mut groups, &mut due)
    }

    fn write_groups(&mut self, groups: &mut Vec<Group>, due: &mut Vec<(u32, ChunkHeader, u32)>) -> bool {
        if due.is_empty() {
            return false;
        }
        if !groups.is_empty() {
            groups.sort_by_key(|group| (group.lane, group.ordinal));
            self.payload.clear();
            codec::encode(groups, self.quantum_bits, &mut self.payload);
            segment::put_frame(FrameKind::Records, 0, &self.payload, &mut self.frames);
            groups.clear();
        }
        let written = self.write_frames();
        for (index, header, count) in due.drain(..) {
            if !written {
                continue;
            }
            if header.state == chunk_state::FULL {
                self.set.area.recycle_chunk(index);
                if !self.stopped {
                    self.set.free.push(index);
                }
            } else {
                self.set.area.set_chunk_flushed(index, header.flushed + count);
            }
        }
        written
    }

    /// Appends the collected `frames` to the file. On failure the frames are dropped. Their chunks are kept and tried
    /// again, so only definitions and losses need separate treatment.
    fn write_frames(&mut self) -> bool {
        if self.frames.is_empty() {
            return true;
        }
        if self.stopped {
            self.frames.clear();
            return false;
        }
        let outcome = self.segment.append(&self.frames);
        match outcome {
            Ok(()) => {
                self.frames.clear();
                self.set.disk_failing.store(0, Ordering::Relaxed);
                self.set.area.set_segment_bytes(self.segment.bytes);
                self.set.area.set_definitions_flushed(self.definitions_flushed);
                if self.segment.bytes >= self.options.max_disk_bytes {
                    self.stop();
                }
                true
            }
            Err(_) => {
                self.set.disk_failing.store(1, Ordering::Relaxed);
                self.frames.clear();
                // The live area still contains all definitions and losses. They are written again with the next frames.
                self.definitions_flushed = 0;
                self.reported_losses.clear();
                false
            }
        }
    }

    fn check_space(&mut self) {
        self.last_space_check = Instant::now();
        // In flight mode no record is written, and the last part at the end is small.
        if self.options.flight.is_some() {
            return;
        }
        if let Ok(room) = Room::of(&self.options.run_dir, self.options.min_free_bytes)
            && room.is_short()
        {
            self.stop();
        }
    }

    /// Stops recording permanently. It takes the free chunks away, so that records without a chunk are counted as
    /// losses of the disk.
    fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.set.disk_failing.store(1, Ordering::Relaxed);
            while self.set.free.pop().is_some() {}
            self.set.area.set_state(state::STOPPED);
        }
    }

    /// Writes everything and marks the log as complete. After that it removes the live area.
    fn close(&mut self) {
        self.end_flight();
        self.cycle(true);
        let calls = self.set.area.in_flight(self.set.used_lanes());
        // An empty list replaces an earlier one.
        if !calls.is_empty() || !self.listed_calls.is_empty() {
            self.put_in_flight(&calls);
        }
        segment::put_frame(FrameKind::End, 0, &[], &mut self.frames);
        if !self.stopped && self.write_frames() {
            self.set.area.set_state(state::CLOSED);
            if let Some(path) = &self.live_path {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Appends a frame with a property that is no part of the live area's definitions.
pub(super) fn put_property(key: &str, value: &str, out: &mut Vec<u8>) {
    let payload = Payload::property(key, value.as_bytes());
    let bytes = payload.as_bytes();
    let mut framed = definition::commit_word(KIND_PROPERTY, bytes)
        .to_le_bytes()
        .to_vec();
    framed.extend_from_slice(bytes);
    framed.resize(definition::framed_bytes(bytes.len()), 0);
    segment::put_frame(FrameKind::Definitions, 0, &framed, out);
}

/// Appends a call in progress in the format of an in-flight frame.
pub(super) fn put_in_flight(lane: u32, thread_id: u32, record: &Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&lane.to_le_bytes());
    out.extend_from_slice(&thread_id.to_le_bytes());
    for word in record.to_words() {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Returns the losses in the format of a frame.
pub(super) fn losses_payload(losses: &[Loss]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(losses.len() * super::layout::LOSS_ENTRY_BYTES);
    for loss in losses {
        payload.extend_from_slice(&loss.count.to_le_bytes());
        payload.extend_from_slice(&loss.first_ticks.to_le_bytes());
        payload.extend_from_slice(&loss.last_ticks.to_le_bytes());
        payload.extend_from_slice(&[loss.cause as u8, loss.kind as u8, 0, 0, 0, 0, 0, 0]);
    }
    payload
}

fn lane_set(area: Area, nonce: u64, pid: u32, counter: Counter) -> Option<&'static LaneSet> {
    area.initialise(nonce, pid, counter as u32, ticks());
    let layout = *area.layout();
    let lanes = place::map(LaneSet::bytes_for(layout.lane_count) as u64, -1).ok()?;
    let ring = place::map(FreeRing::bytes_for(layout.chunk_count) as u64, -1).ok()?;
    // SAFETY: fresh anonymous mappings are zeroed, page-aligned and never unmapped.
    Some(Box::leak(Box::new(unsafe {
        LaneSet::new(area, lanes, ring.cast::<AtomicU32>().cast_const())
    })))
}

fn nonce() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 {
        u64::from_le_bytes(bytes)
    } else {
        ticks() ^ u64::from(std::process::id()) << 40
    }
}

/// Segment file. It is never kept open: `closefrom` in the program would close the descriptor, and its number could
/// then belong to a file of the program.
struct SegmentFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
}

impl SegmentFile {
    fn create(options: &Options, counter: Counter, nonce: u64, pid: u32) -> io::Result<Self> {
        let host: String = process::host_name()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .take(64)
            .collect();
        let path = options
            .run_dir
            .join(format!("{host}-{pid}-{nonce:016x}.{SEGMENT_EXTENSION}"));
        // A process may end at any moment. The rename makes a log visible only once it has its header.
        let unfinished = path.with_extension("starting");
        let header = FileHeader {
            version: super::layout::FORMAT_VERSION,
            counter: counter as u32,
            nonce,
            pid,
        };
        let bytes = header.to_bytes();
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let written = (&made)
            .write_all(&bytes)
            .and_then(|()| made.metadata())
            .and_then(|meta| fs::rename(&unfinished, &path).map(|()| meta));
        let meta = match written {
            Ok(meta) => meta,
            Err(error) => {
                let _ = fs::remove_file(&unfinished);
                return Err(error);
            }
        };
        Ok(Self {
            path,
            device: meta.dev(),
            inode: meta.ino(),
            bytes: bytes.len() as u64,
        })
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Appends complete frames. After a failure the file is cut to its previous size, if the disk allows it.
    fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.path)?;
        let meta = file.metadata()?;
        if (meta.dev(), meta.ino()) != (self.device, self.inode) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the segment file was replaced",
            ));
        }
        if let Err(error) = file.write_all(frames) {
            let _ = file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += frames.len() as u64;
        Ok(())
    }
}
