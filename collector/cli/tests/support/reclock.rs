//! Rewriting of a recorded log as if its host had a different clock.
//!
//! Every timestamp, calibration and creation time passes through a known function of true time, and the host gets a
//! different boot id. Records are otherwise unchanged.

use rankscope_ranklog::clock::{CALIBRATION_BYTES, Calibration, Counter};
use rankscope_ranklog::codec;
use rankscope_ranklog::definition::{KIND_COMMUNICATOR, KIND_PROPERTY, Payload, commit_word, framed_bytes};
use rankscope_ranklog::layout::LOSS_ENTRY_BYTES;
use rankscope_ranklog::record::{RECORD_BYTES, Record, RecordKind};
use rankscope_ranklog::segment::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, put_frame,
};
use std::path::Path;

/// Clock of a host.
#[derive(Clone, Debug, Default)]
pub struct TestClock {
    /// Time that it shows at true time 0, in nanoseconds.
    pub offset_ns: i64,
    /// Drift, in parts per billion.
    pub drift_ppb: i64,
    /// Amplitude of the drift's oscillation, in parts per billion.
    pub swing_ppb: i64,
    /// Period of the oscillation, in seconds.
    pub swing_s: f64,
    /// Start and length of a sleep, in nanoseconds of true time.
    pub sleep: Option<(i64, i64)>,
    /// True time of a step of the wall clock, and its size, in nanoseconds.
    pub step: Option<(i64, i64)>,
    /// Error of the wall clock, in nanoseconds. The kernel does not report it.
    pub wall_ns: i64,
}

impl TestClock {
    /// Returns the time of MONOTONIC_RAW, in nanoseconds.
    pub fn shows(&self, true_ns: i64) -> i64 {
        let awake = match self.sleep {
            Some((from, length)) => true_ns - (true_ns - from).clamp(0, length),
            None => true_ns,
        };
        let drift = i128::from(awake) * i128::from(self.drift_ppb) / 1_000_000_000;
        let swing = if self.swing_ppb == 0 {
            0.0
        } else {
            let turn = std::f64::consts::TAU / self.swing_s;
            self.swing_ppb as f64 / turn * (1.0 - (turn * awake as f64 / 1e9).cos())
        };
        awake + self.offset_ns + drift as i64 + swing as i64
    }

    /// Returns the time of the wall clock, in nanoseconds since 1970.
    pub fn wall(&self, true_ns: i64) -> i64 {
        let stepped = self.step.map_or(0, |(at, by)| if true_ns >= at { by } else { 0 });
        1_700_000_000_000_000_000 + true_ns + self.wall_ns + stepped
    }

    /// Returns a reading of all its clocks.
    pub fn calibration(&self, true_ns: i64) -> Calibration {
        let raw = self.shows(true_ns);
        Calibration {
            ticks: raw as u64,
            monotonic_raw_ns: raw,
            realtime_ns: self.wall(true_ns),
            half_width_ticks: 20,
            realtime_half_width_ticks: 20,
            realtime_maxerror_us: u32::MAX,
            adjtimex_status: 0x40,
            counter_trusted: 1,
            boottime_ns: true_ns,
            reserved: 0,
        }
    }
}

/// Rewrites the log at `from` to `to`, on a host of this name. `true_ns` converts its timestamps to true time, which
/// must be the same for all logs. `change` may alter records.
pub fn reclock(
    from: &Path,
    to: &Path,
    host: &str,
    clock: &TestClock,
    true_ns: &dyn Fn(u64) -> i64,
    change: &mut dyn FnMut(&mut Record),
) -> std::io::Result<()> {
    let bytes = std::fs::read(from)?;
    let shown = |ticks: u64| clock.shows(true_ns(ticks)) as u64;
    let mut header =
        FileHeader::from_bytes(bytes[..FILE_HEADER_BYTES].try_into().expect("a header")).expect("a log");
    header.counter = Counter::MonotonicRaw as u32;
    let mut out = header.to_bytes().to_vec();
    let mut at = FILE_HEADER_BYTES;
    while let Some(frame) = bytes.get(at..).and_then(FrameHeader::from_bytes) {
        let payload = &bytes[at + FRAME_HEADER_BYTES..][..frame.payload_bytes as usize];
        at += FRAME_HEADER_BYTES + frame.payload_bytes as usize;
        let kind = FrameKind::from_u8(frame.kind).expect("a known frame");
        let mut rewritten = Vec::new();
        match kind {
            FrameKind::Definitions => definitions(payload, host, &shown, &mut rewritten),
            FrameKind::Records => {
                let (mut groups, damage) = codec::decode(payload);
                assert!(damage.is_none());
                for record in groups.iter_mut().flat_map(|group| &mut group.records) {
                    if record.kind == RecordKind::Group as u8 {
                        record.aux = shown(record.aux);
                    }
                    record.enter_ticks = shown(record.enter_ticks);
                    record.leave_ticks = shown(record.leave_ticks);
                    change(record);
                }
                codec::encode(&groups, 0, &mut rewritten);
            }
            FrameKind::Calibrations => {
                for entry in payload.as_chunks::<CALIBRATION_BYTES>().0 {
                    if let Some(entry) = Calibration::from_bytes(entry) {
                        rewritten.extend_from_slice(&clock.calibration(true_ns(entry.ticks)).to_bytes());
                    }
                }
            }
            FrameKind::Watermark => {
                let ticks = u64::from_le_bytes(payload[..8].try_into().expect("eight bytes"));
                rewritten.extend_from_slice(&shown(ticks).to_le_bytes());
            }
            FrameKind::Losses => {
                for entry in payload.as_chunks::<LOSS_ENTRY_BYTES>().0 {
                    put_shown(entry, [8, 16], &shown, &mut rewritten);
                }
            }
            FrameKind::InFlight => {
                // Lane and thread precede the record. A call in flight has no leave.
                for entry in payload.as_chunks::<{ 8 + RECORD_BYTES }>().0 {
                    put_shown(entry, [16, 24], &shown, &mut rewritten);
                }
            }
            FrameKind::End => rewritten.extend_from_slice(payload),
        }
        put_frame(kind, frame.position, &rewritten, &mut out);
    }
    std::fs::write(to, out)
}

/// Writes an entry whose ticks are at these positions.
fn put_shown(entry: &[u8], places: [usize; 2], shown: &dyn Fn(u64) -> u64, out: &mut Vec<u8>) {
    let mut entry = entry.to_vec();
    for place in places {
        let ticks = u64::from_le_bytes(entry[place..place + 8].try_into().expect("eight bytes"));
        if ticks != 0 {
            entry[place..place + 8].copy_from_slice(&shown(ticks).to_le_bytes());
        }
    }
    out.extend_from_slice(&entry);
}

fn definitions(payload: &[u8], host: &str, shown: &dyn Fn(u64) -> u64, out: &mut Vec<u8>) {
    let mut at = 0;
    while at + 8 <= payload.len() {
        let word = u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        let (length, kind) = ((word & 0xFF_FFFF) as usize, (word >> 24) as u8);
        if word == 0 {
            break;
        }
        let mut bytes = payload[at + 8..][..length].to_vec();
        at += framed_bytes(length);
        if kind == KIND_COMMUNICATOR {
            let created = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"));
            bytes[32..40].copy_from_slice(&shown(created).to_le_bytes());
        }
        if kind == KIND_PROPERTY {
            for (key, value) in [("host", host.to_owned()), ("boot_id", format!("boot-of-{host}"))] {
                let known = Payload::property(key, b"");
                if bytes.starts_with(known.as_bytes()) && bytes.len() > known.as_bytes().len() {
                    bytes = Payload::property(key, value.as_bytes()).as_bytes().to_vec();
                }
            }
        }
        let start = out.len();
        out.extend_from_slice(&commit_word(kind, &bytes).to_le_bytes());
        out.extend_from_slice(&bytes);
        out.resize(start + framed_bytes(bytes.len()), 0);
    }
}
