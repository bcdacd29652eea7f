//! Synthetic rank logs of a DistributedDataParallel job on Gloo, written record by record from a small model of the
//! job. Every wait in them is therefore known.
//!
//! Tests share this module with the examples `synthetic` and `merge_bench`.
#![allow(dead_code, reason = "each test and example uses its part")]

use rankscope_ranklog::clock::{Calibration, Counter};
use rankscope_ranklog::definition::{IdentitySource, KIND_COMMUNICATOR, KIND_PROPERTY, KIND_TEXT, Payload};
use rankscope_ranklog::loss::Loss;
use rankscope_ranklog::marks::UNUSED_SEARCH;
use rankscope_ranklog::record::{BlockedIn, FLAG_DIRECT, Record, RecordKind};
use rankscope_ranklog::writer::LogWriter;
use rankscope_ranklog::{Library, Operation};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Counter ticks at which synthetic jobs start.
pub const START: u64 = 1_000_000_000;
/// Number of the text that names DDP's search for unused parameters.
pub const SEARCH_TEXT: u32 = 900;
/// Lane and thread id of the training thread.
pub const TRAINING: (u32, u32) = (0, 100);
/// Lane and thread id of Gloo's worker thread.
pub const WORKER: (u32, u32) = (1, 101);

/// A log that is being written, buffered between watermarks.
pub struct SyntheticLog<W: Write> {
    writer: LogWriter<W>,
    lanes: Vec<Vec<Record>>,
    held: usize,
    last: u64,
}

impl SyntheticLog<BufWriter<File>> {
    /// Creates a log of `rank` in `directory`, on a host of this name.
    pub fn create(directory: &Path, rank: u32, size: u32, host: &str) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let file = BufWriter::new(File::create(directory.join(format!("rank-{rank}.rslog")))?);
        Self::new(file, rank, size, host)
    }
}

impl<W: Write> SyntheticLog<W> {
    /// Writes a log of `rank` of `size` into any writer.
    pub fn new(out: W, rank: u32, size: u32, host: &str) -> io::Result<Self> {
        Self::new_of(out, rank, size, host, 0, 0)
    }

    /// Does the same for another process: its nonce and pid differ by `nonce` and `process`.
    pub fn new_of(out: W, rank: u32, size: u32, host: &str, nonce: u64, process: u32) -> io::Result<Self> {
        Self::new_at(out, (rank, size), host, (nonce, process), START)
    }

    /// Does the same for a process that started at this tick.
    pub fn new_at(
        out: W,
        (rank, size): (u32, u32),
        host: &str,
        (nonce, process): (u64, u32),
        begin: u64,
    ) -> io::Result<Self> {
        let nonce = 0x5EED_0000_0000_0000 | nonce | u64::from(rank);
        let mut writer = LogWriter::new(out, Counter::MonotonicRaw, nonce, 4000 + 100 * process + rank)?;
        let mut properties: Vec<(u8, Payload)> = Vec::new();
        for (key, value) in [
            ("host", host.to_owned()),
            ("boot_id", format!("boot-of-{host}")),
            ("time_namespace", "4026531834".to_owned()),
            ("command_line", "python train.py".to_owned()),
            ("env.RANK", rank.to_string()),
            ("env.WORLD_SIZE", size.to_string()),
        ] {
            properties.push((KIND_PROPERTY, Payload::property(key, value.as_bytes())));
        }
        writer.definitions(&properties)?;
        writer.calibrations(&[calibration(begin)])?;
        Ok(Self {
            writer,
            lanes: Vec::new(),
            held: 0,
            last: begin,
        })
    }

    /// Adds a property.
    pub fn property(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.writer
            .definitions(&[(KIND_PROPERTY, Payload::property(key, value.as_bytes()))])
    }

    /// Adds any definition.
    pub fn definition(&mut self, kind: u8, payload: Payload) -> io::Result<()> {
        self.writer.definitions(&[(kind, payload)])
    }

    /// Adds a communicator.
    pub fn communicator(&mut self, index: u32, rank: u32, size: u32, identity: u8) -> io::Result<()> {
        self.communicator_of(Library::Gloo, index, rank, size, identity)
    }

    /// Adds a communicator of another library.
    pub fn communicator_of(
        &mut self,
        library: Library,
        index: u32,
        rank: u32,
        size: u32,
        identity: u8,
    ) -> io::Result<()> {
        let payload = Payload::communicator(
            index,
            library,
            IdentitySource::KeyAndBlob,
            rank,
            size,
            [identity; 16],
            START + u64::from(index),
            u32::MAX,
            b"default/0",
        );
        self.writer.definitions(&[(KIND_COMMUNICATOR, payload)])
    }

    /// Appends a record to a lane. The records of a lane must be in the order in which they were emitted.
    pub fn push(&mut self, lane: u32, record: Record) {
        let lane = lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Vec::new);
        }
        self.last = self.last.max(record.leave_ticks);
        self.lanes[lane].push(record);
        self.held += 1;
    }

    /// Writes the buffered records, and a watermark: everything emitted before `ticks` is written.
    pub fn flush(&mut self, ticks: u64) -> io::Result<()> {
        // One frame holds the records of all lanes, as the recorder writes it.
        let lanes: Vec<(u32, u32, &[Record])> = (0..)
            .zip(&self.lanes)
            .filter(|(_, records)| !records.is_empty())
            .map(|(lane, records)| (lane, 100 + lane, records.as_slice()))
            .collect();
        self.writer.records(&lanes)?;
        self.lanes.iter_mut().for_each(Vec::clear);
        self.held = 0;
        self.writer.watermark(ticks)
    }

    /// Flushes once this many records are held.
    pub fn flush_if(&mut self, records: usize, ticks: u64) -> io::Result<()> {
        if self.held >= records {
            self.flush(ticks)
        } else {
            Ok(())
        }
    }

    /// Adds losses.
    pub fn losses(&mut self, losses: &[Loss]) -> io::Result<()> {
        self.writer.losses(losses)
    }

    /// Adds calls in flight at the end.
    pub fn in_flight(&mut self, calls: &[(u32, u32, Record)]) -> io::Result<()> {
        self.writer.in_flight(calls)
    }

    /// Closes the log.
    pub fn end(mut self) -> io::Result<W> {
        self.flush(self.last + 1)?;
        self.writer.calibrations(&[calibration(self.last + 1)])?;
        self.writer.end()
    }
}

fn calibration(ticks: u64) -> Calibration {
    Calibration {
        ticks,
        monotonic_raw_ns: ticks as i64,
        realtime_ns: ticks as i64 + 1_700_000_000_000_000_000,
        half_width_ticks: 20,
        realtime_half_width_ticks: 20,
        realtime_maxerror_us: 500,
        counter_trusted: 1,
        ..Calibration::default()
    }
}

/// Makes a library call for a work.
pub fn call(operation: Operation, enter: u64, leave: u64, tag: u32, bytes: u64, work: u64) -> Record {
    Record {
        operation: operation as u8,
        flags: if work == 0 { FLAG_DIRECT } else { 0 },
        element_bytes: 4,
        enter_ticks: enter,
        leave_ticks: leave,
        bytes,
        communicator: 0,
        tag,
        aux: work,
        ..Record::new(RecordKind::Call)
    }
}

/// Makes the issue of a work.
pub fn issue(operation: Operation, at: u64, work: u64) -> Record {
    Record {
        operation: operation as u8,
        enter_ticks: at,
        leave_ticks: at,
        object: work,
        ..Record::new(RecordKind::Issue)
    }
}

/// Makes the execution of a work.
pub fn execute(enter: u64, leave: u64, work: u64) -> Record {
    Record {
        enter_ticks: enter,
        leave_ticks: leave,
        object: work,
        ..Record::new(RecordKind::Execute)
    }
}

/// Makes a record of a blocked thread.
pub fn blocked(place: BlockedIn, enter: u64, leave: u64, work: u64) -> Record {
    Record {
        enter_ticks: enter,
        leave_ticks: leave,
        object: work,
        aux: place as u64,
        ..Record::new(RecordKind::Blocked)
    }
}

/// A DistributedDataParallel job.
///
/// Each step has a forward pass. Then gradient buckets become ready one after the other during the backward pass, and
/// the reducer waits for all of them.
#[derive(Clone)]
pub struct Ddp {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of steps after the first one, which has only one bucket.
    pub steps: u32,
    /// Number of buckets per step.
    pub buckets: u32,
    /// Own time of a rank in a step before its first bucket, in nanoseconds.
    pub forward_ns: u64,
    /// Time between buckets, in nanoseconds.
    pub bucket_ns: u64,
    /// Transfer time of a bucket once all ranks have arrived, in nanoseconds.
    pub transfer_ns: u64,
    /// Bytes of a bucket.
    pub bytes: u64,
    /// A rank and its additional own time per step, in nanoseconds.
    pub slow: Option<(u32, u64)>,
    /// Further ranks with additional own time.
    pub also_slow: Vec<(u32, u64)>,
    /// Period in steps and length in nanoseconds of a pause of all ranks.
    pub pause: Option<(u32, u64)>,
    /// Duration of DDP's search for unused parameters in each step, in nanoseconds. An additional all-reduce of few
    /// bytes then ends each step. 0: no search.
    pub search_ns: u64,
    /// Number of hosts over which the ranks are spread evenly, in consecutive blocks.
    pub hosts: u32,
    /// Seed of a few percent of noise in own times. 0: no noise.
    pub noise: u32,
}

impl Default for Ddp {
    fn default() -> Self {
        Self {
            ranks: 4,
            steps: 50,
            buckets: 3,
            forward_ns: 600_000,
            bucket_ns: 100_000,
            transfer_ns: 50_000,
            bytes: 1 << 20,
            slow: None,
            also_slow: Vec::new(),
            pause: None,
            search_ns: 0,
            hosts: 1,
            noise: 0,
        }
    }
}

impl Ddp {
    /// Returns the number of operations that all ranks together record.
    pub fn operations(&self) -> u64 {
        u64::from(self.ranks) * (2 + 1 + u64::from(self.steps) * u64::from(self.buckets))
    }

    /// Writes one log per rank.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let mut logs = Vec::new();
        for rank in 0..self.ranks {
            let host = rank * self.hosts.max(1) / self.ranks.max(1);
            let host = format!("host-{}", char::from(b'a' + host as u8));
            let mut log = SyntheticLog::create(directory, rank, self.ranks, &host)?;
            log.communicator(0, rank, self.ranks, 7)?;
            if self.search_ns > 0 {
                log.definition(KIND_TEXT, Payload::text(SEARCH_TEXT, UNUSED_SEARCH.as_bytes()))?;
            }
            logs.push(log);
        }
        self.fill(&mut logs)?;
        for log in logs {
            log.end()?;
        }
        Ok(())
    }

    /// Fills logs whose communicator 0 has all ranks.
    pub fn fill<W: Write>(&self, logs: &mut [SyntheticLog<W>]) -> io::Result<()> {
        let n = self.ranks as usize;
        let mut random = self.noise;
        let mut noise = |of: u64| {
            if self.noise == 0 {
                return 0;
            }
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            of * u64::from(random >> 20) / 4096 / 50
        };
        // Time of each rank's training thread, and the time at which its worker is free.
        let mut now = vec![START + 1_000_000; n];
        let mut free = vec![START; n];
        let mut tag = 0;
        let mut issues = vec![Vec::new(); n];
        // Initial broadcasts, each issued and waited for before the next.
        for _ in 0..2 {
            for rank in 0..n {
                issues[rank].clear();
                issues[rank].push(now[rank]);
            }
            self.collective(Operation::Broadcast, 4096, tag, 0, &issues, &mut free, logs);
            for rank in 0..n {
                let work = work_of(tag);
                let end = free[rank] + 2_000;
                logs[rank].push(
                    TRAINING.0,
                    blocked(BlockedIn::WorkWait, now[rank] + 1_000, end, work),
                );
                now[rank] = end + 10_000;
            }
            tag += 1;
        }
        for step in 0..=self.steps {
            let buckets = if step == 0 { 1 } else { self.buckets };
            for rank in 0..n {
                let slow: u64 = self
                    .slow
                    .iter()
                    .chain(&self.also_slow)
                    .filter(|&&(slow, _)| slow as usize == rank)
                    .map(|&(_, ns)| ns)
                    .sum();
                let pause = self
                    .pause
                    .filter(|&(every, _)| step % every == every - 1)
                    .map_or(0, |(_, ns)| ns);
                let mut at = now[rank] + self.forward_ns + noise(self.forward_ns) + slow + pause;
                if self.search_ns > 0 {
                    let mark = Record {
                        enter_ticks: at,
                        leave_ticks: at + self.search_ns,
                        object: u64::from(SEARCH_TEXT),
                        ..Record::new(RecordKind::Mark)
                    };
                    logs[rank].push(TRAINING.0, mark);
                    at += self.search_ns;
                }
                issues[rank].clear();
                for _ in 0..buckets {
                    at += self.bucket_ns;
                    issues[rank].push(at);
                }
                if self.search_ns > 0 {
                    issues[rank].push(at + 2_000);
                }
            }
            let reduces = buckets + u32::from(self.search_ns > 0);
            for bucket in 0..reduces as usize {
                self.collective(
                    Operation::AllReduce,
                    if bucket < buckets as usize {
                        self.bytes
                    } else {
                        256
                    },
                    tag,
                    bucket,
                    &issues,
                    &mut free,
                    logs,
                );
                tag += 1;
            }
            for rank in 0..n {
                let ready = issues[rank][reduces as usize - 1] + 5_000;
                let end = ready.max(free[rank] + 2_000) + 3_000;
                logs[rank].push(TRAINING.0, blocked(BlockedIn::ReducerFinalize, ready, end, 0));
                now[rank] = end;
            }
            // Calls of later steps are emitted after the current time of every rank.
            let safe = now.iter().copied().min().unwrap_or(START);
            for log in logs.iter_mut() {
                log.flush_if(1 << 12, safe)?;
            }
        }
        Ok(())
    }

    /// Writes one collective: every worker starts it when it is free, and all leave together.
    #[allow(clippy::too_many_arguments, reason = "the state of the little model")]
    fn collective<W: Write>(
        &self,
        operation: Operation,
        bytes: u64,
        tag: u32,
        bucket: usize,
        issues: &[Vec<u64>],
        free: &mut [u64],
        logs: &mut [SyntheticLog<W>],
    ) {
        let work = work_of(tag);
        let enters: Vec<u64> = issues
            .iter()
            .zip(free.iter())
            .map(|(issues, free)| issues[bucket].max(*free) + 1_000)
            .collect();
        let leave = enters.iter().copied().max().unwrap_or(0) + self.transfer_ns;
        for (rank, log) in logs.iter_mut().enumerate() {
            let leave = leave + rank as u64;
            log.push(TRAINING.0, issue(operation, issues[rank][bucket], work));
            let mut call = call(operation, enters[rank], leave, tag, bytes, work);
            if operation == Operation::Broadcast {
                call.peer = 0;
            }
            log.push(WORKER.0, call);
            log.push(WORKER.0, execute(enters[rank] - 200, leave + 500, work));
            free[rank] = leave + 500;
        }
    }
}

/// Returns the address of a work. It is reused after 64 others, as an allocator does.
fn work_of(tag: u32) -> u64 {
    0x7F00_0000_0000 + u64::from(tag % 64) * 512
}
