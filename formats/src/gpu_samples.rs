//! Samples of a host's GPUs, which `rankscope run` reads from NVML: a file of JSON lines in the run directory.
//!
//! A line is a [`Header`] or a [`Sample`]. A header begins a recording: it names the host's clock and its GPUs. A later
//! command in the same directory appends another header. The process may be killed at any time, so the last line may be
//! incomplete.

use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read};

/// Value of [`Header::format`].
pub const FORMAT: &str = "rankscope-gpu-samples-1";
/// Beginning and end of a file's name.
pub const NAME: (&str, &str) = ("gpus-", ".jsonl");
/// Maximum length of a line, in bytes. The rest of a longer one is skipped.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum number of samples of a file that are kept: six days of eight GPUs at one per second.
const MAX_SAMPLES: usize = 1 << 22;
/// Maximum number of problems that are listed one by one.
const MAX_PROBLEMS: usize = 16;

/// Begin of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the host, for display.
    #[serde(default)]
    pub host: String,
    /// ID of the boot. With the time namespace it identifies the clock of [`Sample::raw_ns`].
    pub boot_id: Option<String>,
    /// Inode of the time namespace.
    pub time_namespace: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// The GPUs. [`Sample::gpu`] is a position in this list.
    pub gpus: Vec<Gpu>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// PCI address, as NVML writes it: `00000000:17:00.0`.
    pub address: String,
    /// Unique ID.
    pub uuid: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Highest clock of the multiprocessors, in MHz.
    pub max_sm_clock_mhz: Option<u32>,
}

/// State of one GPU at one time. A value is missing if NVML does not know it for this GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time on the host's `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub raw_ns: i64,
    /// Position in [`Header::gpus`].
    pub gpu: u32,
    /// Share of the last sampling period (1/6 s to 1 s) in which a kernel ran, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
    /// Used memory of the device, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// Clock of the multiprocessors, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// Power draw, in milliwatts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_milliwatts: Option<u32>,
    /// Temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u32>,
    /// Reasons why clocks are reduced: bits of `nvmlClocksThrottleReasons` ([`throttle`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_reasons: Option<u64>,
}

/// Bits of [`Sample::throttle_reasons`], from nvml.h (`nvmlClocksThrottleReason…`).
pub mod throttle {
    /// The power limit reduces the clocks (`SwPowerCap`).
    pub const POWER_CAP: u64 = 0x04;
    /// The hardware reduces the clocks by half or more (`HwSlowdown`): temperature, power supply or an external signal.
    pub const HARDWARE: u64 = 0x08;
    /// The temperature of the GPU or its memory is too high (`SwThermalSlowdown`).
    pub const THERMAL: u64 = 0x20;
    /// The hardware reduces the clocks because of the temperature (`HwThermalSlowdown`).
    pub const HARDWARE_THERMAL: u64 = 0x40;
    /// The power supply reduces the clocks (`HwPowerBrakeSlowdown`).
    pub const POWER_BRAKE: u64 = 0x80;
}

impl Sample {
    /// Returns true if the clocks are reduced because of the temperature; `None` if unknown.
    pub fn is_thermal(&self) -> Option<bool> {
        self.has(throttle::THERMAL | throttle::HARDWARE_THERMAL)
    }

    /// Returns true if the power limit or the power supply reduces the clocks; `None` if unknown.
    pub fn is_power(&self) -> Option<bool> {
        self.has(throttle::POWER_CAP | throttle::POWER_BRAKE)
    }

    /// Returns true if the hardware reduces the clocks; `None` if unknown.
    pub fn is_hardware(&self) -> Option<bool> {
        self.has(throttle::HARDWARE | throttle::HARDWARE_THERMAL | throttle::POWER_BRAKE)
    }

    fn has(&self, reasons: u64) -> Option<bool> {
        self.throttle_reasons.map(|bits| bits & reasons != 0)
    }
}

/// Location of a device on the PCI bus, which libraries write with different numbers of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u32,
    device: u32,
    function: u32,
}

impl PciAddress {
    /// Reads an address: `00000000:17:00.0` (NVML), `0000:17:00.0` (CUDA and Linux) or `17:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let (place, function) = text.trim().rsplit_once('.').unwrap_or((text.trim(), "0"));
        let mut numbers = place.rsplit(':');
        let device = hex(numbers.next()?)?;
        let bus = hex(numbers.next()?)?;
        let domain = numbers.next().map_or(Some(0), hex)?;
        let function = hex(function)?;
        numbers.next().is_none().then_some(Self {
            domain,
            bus,
            device,
            function,
        })
    }
}

/// One recording of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Its header.
    pub header: Header,
    /// Its samples, in the order of the file.
    pub samples: Vec<Sample>,
}

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuSamples {
    /// Recordings in the order of the file.
    pub recordings: Vec<Recording>,
    /// Lines that could not be read.
    pub problems: Vec<Problem>,
    kept: usize,
    left_out: usize,
    unreadable: usize,
}

impl GpuSamples {
    /// Reads a file. What is not readable is a problem, and the rest is kept.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn read(mut source: impl BufRead) -> io::Result<Self> {
        let mut out = Self::default();
        let (mut line, mut offset) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = source
                .by_ref()
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            let is_whole = line.ends_with(b"\n");
            let skipped = if is_whole || (read as u64) < MAX_LINE_BYTES {
                0
            } else {
                source.skip_until(b'\n')?
            };
            if is_whole {
                out.take_line(&line, offset);
            } else {
                let what = if skipped > 0 {
                    "a line is too long"
                } else {
                    "the last line is incomplete"
                };
                out.problem(offset, format!("{what}; it was skipped"));
            }
            offset += (read + skipped) as u64;
        }
        out.summarise(offset);
        Ok(out)
    }

    fn take_line(&mut self, line: &[u8], offset: u64) {
        if line.trim_ascii().is_empty() {
            return;
        }
        // Samples are by far the most lines.
        if let Ok(sample) = serde_json::from_slice::<Sample>(line) {
            self.take_sample(sample, offset);
            return;
        }
        match serde_json::from_slice::<Header>(line) {
            Ok(header) if header.format == FORMAT => self.recordings.push(Recording {
                header,
                samples: Vec::new(),
            }),
            Ok(header) => self.problem(
                offset,
                format!("the format '{}' is unknown; the line was skipped", header.format),
            ),
            Err(error) => self.problem(
                offset,
                format!("neither a header nor a sample: {error}; the line was skipped"),
            ),
        }
    }

    fn take_sample(&mut self, sample: Sample, offset: u64) {
        let has_room = self.kept < MAX_SAMPLES;
        match self.recordings.last_mut() {
            Some(recording) if (sample.gpu as usize) < recording.header.gpus.len() => {
                if has_room {
                    recording.samples.push(sample);
                    self.kept += 1;
                } else {
                    self.left_out += 1;
                }
            }
            Some(_) => self.problem(
                offset,
                format!("no header names GPU {}; the sample was skipped", sample.gpu),
            ),
            None => self.problem(offset, "a sample precedes the header; it was skipped".to_owned()),
        }
    }

    fn problem(&mut self, offset: u64, what: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { offset, what });
        } else {
            self.unreadable += 1;
        }
    }

    fn summarise(&mut self, end: u64) {
        if self.unreadable > 0 {
            self.problems.push(Problem {
                offset: end,
                what: format!("{} more lines were skipped", self.unreadable),
            });
        }
        if self.left_out > 0 {
            self.problems.push(Problem {
                offset: end,
                what: format!(
                    "only the first {MAX_SAMPLES} samples were read; {} follow",
                    self.left_out
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            format: FORMAT.to_owned(),
            boot_id: Some("b".to_owned()),
            gpus: vec![Gpu {
                address: "00000000:17:00.0".to_owned(),
                ..Gpu::default()
            }],
            ..Header::default()
        }
    }

    fn line(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("serialisable") + "\n"
    }

    fn read(text: &str) -> GpuSamples {
        GpuSamples::read(text.as_bytes()).expect("memory")
    }

    #[test]
    fn what_is_written_is_read() {
        let sample = Sample {
            raw_ns: 5,
            sm_clock_mhz: Some(1980),
            throttle_reasons: Some(throttle::POWER_CAP),
            ..Sample::default()
        };
        let text = line(&header()) + &line(&sample) + &line(&header()) + &line(&Sample::default());
        let read = read(&text);
        assert_eq!(read.problems, []);
        let recordings: Vec<(&Header, &[Sample])> = read
            .recordings
            .iter()
            .map(|recording| (&recording.header, &recording.samples[..]))
            .collect();
        assert_eq!(
            recordings,
            [(&header(), &[sample][..]), (&header(), &[Sample::default()][..])]
        );
        assert_eq!(
            (sample.is_thermal(), sample.is_power(), sample.is_hardware()),
            (Some(false), Some(true), Some(false))
        );
        assert_eq!(Sample::default().is_power(), None);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_with_its_place() {
        let early = line(&Sample::default());
        let text = early.clone()
            + &line(&header())
            + "{}\n"
            + r#"{"raw_ns":1,"gpu":7}"#
            + "\n"
            + &early
            + r#"{"raw_ns":2,"#;
        let found = read(&text);
        assert_eq!(found.recordings.len(), 1);
        assert_eq!(found.recordings[0].samples, [Sample::default()]);
        let offsets: Vec<u64> = found.problems.iter().map(|problem| problem.offset).collect();
        let third = (early.len() + line(&header()).len()) as u64;
        let last = text.rfind(r#"{"raw_ns":2,"#).expect("the line") as u64;
        assert_eq!(offsets, [0, third, third + 3, last], "{:?}", found.problems);
        assert!(found.problems[3].what.contains("incomplete"));
        let many = read(&"x\n".repeat(100));
        assert_eq!(many.problems.len(), MAX_PROBLEMS + 1);
        assert!(many.problems[MAX_PROBLEMS].what.contains("84 more lines"));
        let long = read(&("x".repeat(3 << 20) + "\n" + &line(&header())));
        assert_eq!((long.recordings.len(), long.problems.len()), (1, 1));
    }

    #[test]
    fn addresses_of_cuda_and_nvml_are_equal() {
        let address = PciAddress::parse("00000000:9B:00.0");
        assert!(address.is_some());
        for same in ["0000:9b:00.0", "9b:00.0", "0:9b:0.0", "0000:9B:00"] {
            assert_eq!(PciAddress::parse(same), address, "{same}");
        }
        assert_ne!(PciAddress::parse("00000001:9B:00.0"), address);
        for wrong in ["", "9b", "x:9b:00.0", "1:2:3:4.5", "9b:00.z"] {
            assert_eq!(PciAddress::parse(wrong), None, "{wrong}");
        }
    }
}
