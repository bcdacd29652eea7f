//! Where a rank's time went (METRICS.md, section 5), moment by moment. The merge sums the same parts per step.

use super::classify::classify;
use crate::intervals::Intervals;
use crate::model::interval::Interval;
use rankscope_formats::index::{LaneKind, Span, ViewError, ViewWriter, part};

/// Maximum number of intervals of one kind that are collected before they are laid out.
const FOLD_AT: usize = 1 << 15;

/// Maximum number of threads of a host with a lane; the first ones have it.
const MAX_THREADS: usize = 64;

/// Lays out the parts of one rank. Intervals arrive nearly in order of their start.
#[derive(Default)]
pub(super) struct Parts {
    communication: Intervals,
    waiting: Intervals,
    compute: Intervals,
    /// Communication on devices: works of communication libraries.
    on_device: Intervals,
    memory: Intervals,
    threads: Vec<Thread>,
    device: Option<Lane>,
    /// Times with complete device records.
    covered: Intervals,
    start_ns: i64,
    /// True if only the blocked time of the host's threads is known.
    is_own_unknown: bool,
    /// Everything before this is laid out.
    from_ns: i64,
    scratch: [Vec<Interval>; 6],
}

struct Thread {
    /// Lanes by thread; `None` for a rank without blocked threads.
    id: Option<u32>,
    blocked: Intervals,
    blocked_ns: i64,
    lane: Lane,
}

/// A lane whose last span may still grow.
struct Lane {
    number: usize,
    open: Option<Span>,
}

impl Lane {
    fn new(writer: &mut ViewWriter, device: bool) -> Self {
        Self {
            number: writer.lane(LaneKind::Parts { device }, 0),
            open: None,
        }
    }

    fn take(
        &mut self,
        writer: &mut ViewWriter,
        start_ns: i64,
        end_ns: i64,
        class: u8,
    ) -> Result<(), ViewError> {
        match &mut self.open {
            Some(open) if open.class == class && open.end_ns == start_ns => open.end_ns = end_ns,
            open => {
                let span = Span {
                    start_ns,
                    end_ns,
                    class,
                    ..Span::default()
                };
                if let Some(before) = open.replace(span) {
                    writer.push(self.number, before)?;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, writer: &mut ViewWriter) -> Result<(), ViewError> {
        self.open
            .take()
            .map_or(Ok(()), |last| writer.push(self.number, last))
    }
}

impl Parts {
    /// Creates the parts of a rank whose first record is at `from_ns`.
    pub(super) fn new(from_ns: i64) -> Self {
        Self {
            start_ns: from_ns,
            from_ns,
            ..Self::default()
        }
    }

    /// Sets whether the rank has operations on a device without times. Then it is unknown whether its threads
    /// communicate while they are not blocked.
    pub(super) fn with_own_unknown(self, is_own_unknown: bool) -> Self {
        Self {
            is_own_unknown,
            ..self
        }
    }

    fn own(&self) -> u8 {
        if self.is_own_unknown {
            part::NOT_RECORDED
        } else {
            part::OWN
        }
    }

    /// Adds communication of the library, as the host or the library reports it.
    pub(super) fn communicated(&mut self, start_ns: i64, end_ns: i64) {
        self.communication.add(start_ns, end_ns);
    }

    /// Adds a wait for peers.
    pub(super) fn waited(&mut self, start_ns: i64, end_ns: i64) {
        self.waiting.add(start_ns, end_ns);
    }

    /// Adds time in which a thread was blocked for communication.
    pub(super) fn blocked(&mut self, writer: &mut ViewWriter, thread_id: u32, start_ns: i64, end_ns: i64) {
        let known = self
            .threads
            .iter()
            .position(|thread| thread.id == Some(thread_id));
        let position = match known {
            Some(position) => position,
            None if self.threads.len() < MAX_THREADS => {
                let own = self.own();
                let mut lane = Lane::new(writer, false);
                // Everything that was laid out before its first blocked time was its own time. It is no longer known
                // whether communication overlapped with it. This affects only threads that are first blocked after many
                // thousand intervals.
                if self.start_ns < self.from_ns {
                    lane.open = Some(Span {
                        start_ns: self.start_ns,
                        end_ns: self.from_ns,
                        class: own,
                        ..Span::default()
                    });
                }
                self.threads.push(Thread {
                    id: Some(thread_id),
                    blocked: Intervals::default(),
                    blocked_ns: 0,
                    lane,
                });
                self.threads.len() - 1
            }
            None => return,
        };
        let thread = &mut self.threads[position];
        thread.blocked.add(start_ns, end_ns);
        thread.blocked_ns += (end_ns - start_ns).max(0);
    }

    /// Adds communication on a device.
    pub(super) fn communicated_on_device(&mut self, start_ns: i64, end_ns: i64) {
        self.on_device.add(start_ns, end_ns);
    }

    /// Adds computation on a device.
    pub(super) fn computed(&mut self, start_ns: i64, end_ns: i64) {
        self.compute.add(start_ns, end_ns);
    }

    /// Adds memory operations of a device.
    pub(super) fn moved(&mut self, start_ns: i64, end_ns: i64) {
        self.memory.add(start_ns, end_ns);
    }

    /// Adds time with complete device records. Device parts are known only in such times.
    pub(super) fn covered(&mut self, writer: &mut ViewWriter, start_ns: i64, end_ns: i64) {
        self.device.get_or_insert_with(|| Lane::new(writer, true));
        self.covered.add(start_ns, end_ns);
    }

    /// Returns true if enough intervals are collected to be laid out.
    pub(super) fn is_full(&self) -> bool {
        let of_threads = self.threads.iter().map(|thread| thread.blocked.waiting());
        [
            &self.communication,
            &self.waiting,
            &self.compute,
            &self.on_device,
            &self.memory,
        ]
        .map(Intervals::waiting)
        .into_iter()
        .chain(of_threads)
        .any(|waiting| waiting > FOLD_AT)
    }

    /// Lays out everything before a moment. The parts lack intervals that begin before it and arrive later.
    pub(super) fn fold(&mut self, writer: &mut ViewWriter, until: i64) -> Result<(), ViewError> {
        let from = self.from_ns;
        if from >= until {
            return Ok(());
        }
        let mut error = None;
        let mut note = |outcome: Result<(), ViewError>| {
            if let Err(refused) = outcome {
                error.get_or_insert(refused);
            }
        };
        let own = self.own();
        let [communication, waiting, one, other, covered, on_device] = &mut self.scratch;
        self.communication.take(from, until, communication);
        self.waiting.take(from, until, waiting);
        if let Some(lane) = &mut self.device {
            self.compute.take(from, until, one);
            self.memory.take(from, until, other);
            self.covered.take(from, until, covered);
            self.on_device.take(from, until, on_device);
            classify(
                [one, on_device, waiting, other, covered],
                Interval::new(from, until),
                device_part,
                |start, end, class| {
                    // Before the first work, idleness is unknown, and a lane must begin with a known part.
                    let is_nothing = matches!(class, part::NOT_RECORDED | part::IDLE);
                    if lane.open.is_some() || !is_nothing {
                        note(lane.take(writer, start, end, class));
                    }
                },
            );
        }
        for thread in &mut self.threads {
            thread.blocked.take(from, until, one);
            let lane = &mut thread.lane;
            classify(
                [one, communication, waiting],
                Interval::new(from, until),
                host_part,
                |start, end, class| {
                    let class = if class == part::OWN { own } else { class };
                    note(lane.take(writer, start, end, class));
                },
            );
        }
        self.from_ns = until;
        error.map_or(Ok(()), Err)
    }

    /// Lays out the rest, up to the rank's last record.
    pub(super) fn finish(mut self, writer: &mut ViewWriter, until: i64) -> Result<(), ViewError> {
        if self.threads.is_empty() {
            self.threads.push(Thread {
                id: None,
                blocked: Intervals::default(),
                blocked_ns: 0,
                lane: Lane::new(writer, false),
            });
        }
        self.fold(writer, until)?;
        if let Some(lane) = &mut self.device {
            // The same applies after the last work.
            let is_nothing = |open: &Span| matches!(open.class, part::NOT_RECORDED | part::IDLE);
            lane.open = lane.open.take().filter(|open| !is_nothing(open));
            lane.end(writer)?;
        }
        // The thread that was blocked most represents the rank.
        self.threads
            .sort_by_key(|thread| std::cmp::Reverse(thread.blocked_ns));
        for (layer, thread) in self.threads.iter_mut().enumerate() {
            thread.lane.end(writer)?;
            writer.set_layer(thread.lane.number, layer as u32);
        }
        Ok(())
    }
}

/// Returns the class of a set: compute is bit 0, communication 1, waiting 2, memory 3, covered 4.
fn device_part(set: u8) -> u8 {
    match (set & 1 != 0, set & 2 != 0) {
        _ if set & 16 == 0 => part::NOT_RECORDED,
        (true, true) => part::OVERLAPPED,
        (true, false) => part::OWN,
        (false, true) if set & 4 != 0 => part::EXPOSED_WAIT,
        (false, true) => part::EXPOSED_TRANSFER,
        (false, false) if set & 8 != 0 => part::EXPOSED_MEMORY,
        (false, false) => part::IDLE,
    }
}

/// Returns the class of a set: blocked is bit 0, communication 1, waiting 2.
fn host_part(set: u8) -> u8 {
    match (set & 1 != 0, set & 2 != 0) {
        (true, true) if set & 4 != 0 => part::EXPOSED_WAIT,
        (true, true) => part::EXPOSED_TRANSFER,
        (true, false) => part::OTHER_BLOCKED,
        (false, true) => part::OVERLAPPED,
        (false, false) => part::OWN,
    }
}
