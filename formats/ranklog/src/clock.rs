//! Clock of the recorder: the counter from which timestamps are read, and calibrations that relate it to the kernel's
//! clocks.

use crate::numbered::numbered_enum;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

numbered_enum! {
    /// Source of ticks. The live header stores it as a number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Counter: u32, from_u32 {
        /// The x86-64 time-stamp counter. It is used only while the kernel's own clock source is `tsc`.
        TimeStampCounter = 1 => "tsc",
        /// `CLOCK_MONOTONIC_RAW` in nanoseconds.
        MonotonicRaw = 2 => "monotonic-raw",
        /// The aarch64 virtual counter `CNTVCT_EL0`.
        VirtualCounter = 3 => "cntvct",
    }
}

impl Counter {
    /// Returns the best counter that the kernel itself uses now. Reads one small file, so it is not for the hot path.
    pub fn choose() -> Self {
        #[cfg(target_arch = "x86_64")]
        if kernel_clock_source_is(b"tsc") {
            return Self::TimeStampCounter;
        }
        #[cfg(target_arch = "aarch64")]
        if kernel_clock_source_is(b"arch_sys_counter") {
            return Self::VirtualCounter;
        }
        Self::MonotonicRaw
    }

    /// Returns true while the kernel still uses this counter. It can mark the time-stamp counter unstable at run time.
    pub fn still_trusted(self) -> bool {
        match self {
            Self::TimeStampCounter => kernel_clock_source_is(b"tsc"),
            Self::VirtualCounter => kernel_clock_source_is(b"arch_sys_counter"),
            Self::MonotonicRaw => true,
        }
    }
}

fn kernel_clock_source_is(name: &[u8]) -> bool {
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // SAFETY: the path is a NUL-terminated literal, `buffer` is a valid local, and the descriptor is closed below.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let mut buffer = [0u8; 64];
        let got = libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(fd);
        let got = usize::try_from(got).unwrap_or(0);
        buffer[..got].trim_ascii() == name
    }
}

/// Counter in use, as a number; 0 until the first timestamp, which chooses it.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Returns the counter of this process. The first caller chooses it once: a call that was entered before the recorder
/// runs must be left by the same clock.
pub fn counter() -> Counter {
    if let Some(counter) = Counter::from_u32(COUNTER.load(Ordering::Relaxed)) {
        return counter;
    }
    let chosen = Counter::choose();
    match COUNTER.compare_exchange(0, chosen as u32, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            learn_stated_rate(chosen);
            chosen
        }
        Err(other) => Counter::from_u32(other).unwrap_or(chosen),
    }
}

/// Ticks per second as last measured. The initial value is a guess for time-stamp counters.
static TICKS_PER_SECOND: AtomicU64 = AtomicU64::new(2_000_000_000);

/// Replaces the guess by the frequency that the machine states, if it states one.
fn learn_stated_rate(counter: Counter) {
    let stated = match counter {
        Counter::MonotonicRaw => Some(1_000_000_000),
        #[cfg(target_arch = "aarch64")]
        Counter::VirtualCounter => {
            let frequency: u64;
            // SAFETY: CNTFRQ_EL0 is readable where CNTVCT_EL0 is.
            unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
            // Firmware that does not set it leaves 0.
            (frequency > 0).then_some(frequency)
        }
        _ => None,
    };
    if let Some(rate) = stated {
        TICKS_PER_SECOND.store(rate, Ordering::Relaxed);
    }
}

/// Returns approximately how many ticks a second has. Use it for timeouts, never for measurements.
#[inline]
pub fn ticks_per_second() -> u64 {
    TICKS_PER_SECOND.load(Ordering::Relaxed)
}

/// Returns the quantum to which segments round ticks, as the exponent of a power of two. It is the largest power that
/// is at most the time of one counter reading, because timestamps are not more precise. Measures for a few
/// microseconds, so it is not for the hot path.
pub fn quantum_bits() -> u32 {
    let mut costs = [0u64; 33];
    for cost in &mut costs {
        let before = ticks();
        for _ in 0..16 {
            std::hint::black_box(ticks());
        }
        *cost = ticks().saturating_sub(before) / 17;
    }
    costs.sort_unstable();
    costs[costs.len() / 2]
        .max(1)
        .ilog2()
        .min(super::codec::MAX_QUANTUM_BITS)
}

/// Derives the rate of the counter from two calibrations.
pub fn learn_rate(first: &Calibration, later: &Calibration) {
    let elapsed_ns = later.monotonic_raw_ns.saturating_sub(first.monotonic_raw_ns);
    let elapsed_ticks = later.ticks.saturating_sub(first.ticks);
    if elapsed_ns > 1_000_000 && elapsed_ticks > 0 {
        let rate = u128::from(elapsed_ticks) * 1_000_000_000 / elapsed_ns as u128;
        TICKS_PER_SECOND.store(
            u64::try_from(rate).unwrap_or(u64::MAX >> 8).max(1),
            Ordering::Relaxed,
        );
    }
}

/// Reads the counter of this process ([`counter`]).
#[inline]
pub fn ticks() -> u64 {
    let counter = COUNTER.load(Ordering::Relaxed);
    #[cfg(target_arch = "x86_64")]
    if counter == Counter::TimeStampCounter as u32 {
        // SAFETY: every x86-64 processor has RDTSC. The kernel uses it as its clock source, so it is not disabled.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    #[cfg(target_arch = "aarch64")]
    if counter == Counter::VirtualCounter as u32 {
        let value: u64;
        // SAFETY: CNTVCT_EL0 is readable from user space where the kernel's vDSO uses it, which `choose` checked.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        return value;
    }
    if counter == 0 {
        return first_ticks();
    }
    clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64
}

#[cold]
fn first_ticks() -> u64 {
    counter();
    ticks()
}

/// Reads one of the kernel's clocks, in nanoseconds.
pub fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec; a clock that does not exist leaves it zero.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Reading of all clocks at the same moment. It takes 64 bytes in the live header and in segments (RANKLOG.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Calibration {
    /// Value of the counter, in ticks, in the middle of the bracket around the readings of the kernel clocks.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub monotonic_raw_ns: i64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// Half the width of the bracket, in ticks: the error of `ticks` relative to `monotonic_raw_ns`.
    pub half_width_ticks: u32,
    /// Half the width of the bracket around the wall clock, in ticks.
    pub realtime_half_width_ticks: u32,
    /// The kernel's bound on the error of the wall clock (adjtimex `maxerror`), in µs; `u32::MAX` if unknown.
    pub realtime_maxerror_us: u32,
    /// Status bits of adjtimex. If `STA_UNSYNC` (0x40) is set, the wall clock is not synchronised.
    pub adjtimex_status: u32,
    /// 1 while the kernel uses the counter, else 0.
    pub counter_trusted: u32,
    /// Always 0.
    pub reserved: u32,
    /// `CLOCK_BOOTTIME`, in nanoseconds. It jumps against MONOTONIC_RAW when the machine was suspended.
    pub boottime_ns: i64,
}

const _: () = assert!(size_of::<Calibration>() == 56);

/// Size of a calibration in a file, in bytes: the fields and eight zero bytes.
pub const CALIBRATION_BYTES: usize = 64;

impl Calibration {
    /// Reads all clocks. It takes the best of sixteen bracketed reads, about ten microseconds, so it is not for the hot
    /// path.
    pub fn take(counter: Counter) -> Self {
        let mut best = Self {
            half_width_ticks: u32::MAX,
            ..Self::default()
        };
        let mut realtime_best = u32::MAX;
        for _ in 0..16 {
            let before = ticks();
            let raw = clock_ns(libc::CLOCK_MONOTONIC_RAW);
            let between = ticks();
            let real = clock_ns(libc::CLOCK_REALTIME);
            let after = ticks();
            let half = half_width_ticks(before, between);
            if half < best.half_width_ticks {
                best.half_width_ticks = half;
                best.ticks = before + between.saturating_sub(before) / 2;
                best.monotonic_raw_ns = raw;
            }
            let half = half_width_ticks(between, after);
            if half < realtime_best {
                realtime_best = half;
                // `boottime_ns` temporarily holds the raw time of this wall-clock reading. The reading is moved to the
                // time of `monotonic_raw_ns` below. The 16 brackets last microseconds, in which the slew of the wall
                // clock is negligible.
                best.realtime_ns = real;
                best.realtime_half_width_ticks = half;
                best.boottime_ns = raw;
            }
        }
        // Moves the wall-clock reading to the time of `monotonic_raw_ns`, so that one entry describes one moment.
        // `boottime_ns` held the raw time of that reading.
        best.realtime_ns += best.monotonic_raw_ns - best.boottime_ns;
        best.boottime_ns = clock_ns(libc::CLOCK_BOOTTIME);
        let mut timex: libc::timex = {
            // SAFETY: timex is plain data; all zero is `modes = 0`, which only reads.
            unsafe { std::mem::zeroed() }
        };
        // SAFETY: `timex` is a valid pointer to a local, and `modes` is 0, so nothing is changed.
        let state = unsafe { libc::adjtimex(&raw mut timex) };
        best.realtime_maxerror_us = if state < 0 {
            u32::MAX
        } else {
            u32::try_from(timex.maxerror).unwrap_or(u32::MAX)
        };
        best.adjtimex_status = timex.status as u32;
        best.counter_trusted = u32::from(counter.still_trusted());
        best
    }

    /// Returns the entry in its file format.
    pub fn to_bytes(&self) -> [u8; CALIBRATION_BYTES] {
        let mut out = [0u8; CALIBRATION_BYTES];
        out[0..8].copy_from_slice(&self.ticks.to_le_bytes());
        out[8..16].copy_from_slice(&self.monotonic_raw_ns.to_le_bytes());
        out[16..24].copy_from_slice(&self.realtime_ns.to_le_bytes());
        out[24..28].copy_from_slice(&self.half_width_ticks.to_le_bytes());
        out[28..32].copy_from_slice(&self.realtime_half_width_ticks.to_le_bytes());
        out[32..36].copy_from_slice(&self.realtime_maxerror_us.to_le_bytes());
        out[36..40].copy_from_slice(&self.adjtimex_status.to_le_bytes());
        out[40..44].copy_from_slice(&self.counter_trusted.to_le_bytes());
        out[48..56].copy_from_slice(&self.boottime_ns.to_le_bytes());
        out
    }

    /// Decodes an entry; `None` if it was never written (all zero).
    pub fn from_bytes(bytes: &[u8; CALIBRATION_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let entry = Self {
            ticks: u64_at(0),
            monotonic_raw_ns: u64_at(8) as i64,
            realtime_ns: u64_at(16) as i64,
            half_width_ticks: u32_at(24),
            realtime_half_width_ticks: u32_at(28),
            realtime_maxerror_us: u32_at(32),
            adjtimex_status: u32_at(36),
            counter_trusted: u32_at(40),
            reserved: 0,
            boottime_ns: u64_at(48) as i64,
        };
        (entry.ticks != 0).then_some(entry)
    }
}

/// Returns half the width of the interval between two readings of the counter. A reading means any time within its tick,
/// so the interval is one tick wider than the difference. That is a quarter of a nanosecond on x86-64, but 40 ns with
/// the 25 MHz counters of some aarch64 machines, where two readings are often equal.
fn half_width_ticks(first: u64, second: u64) -> u32 {
    u32::try_from(second.saturating_sub(first).div_ceil(2) + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_readings_are_one_tick_apart_at_most() {
        assert_eq!(half_width_ticks(7, 7), 1);
        assert_eq!(half_width_ticks(7, 8), 2);
        assert_eq!(half_width_ticks(0, 100), 51);
        assert_eq!(half_width_ticks(0, u64::MAX), u32::MAX);
    }

    #[test]
    fn a_calibration_survives_its_bytes_and_brackets_the_clock() {
        let counter = counter();
        let before = ticks();
        let entry = Calibration::take(counter);
        let after = ticks();
        assert!(before <= entry.ticks && entry.ticks <= after);
        assert_eq!(Calibration::from_bytes(&entry.to_bytes()), Some(entry));
        assert_eq!(Calibration::from_bytes(&[0; CALIBRATION_BYTES]), None);
    }
}
