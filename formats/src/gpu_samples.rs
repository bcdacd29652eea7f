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
    /// Reason why there are no samples, or no further ones; `None` if there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
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

/// A line of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum GpuLine {
    /// A recording begins.
    Header(Header),
    /// A sample of the recording.
    Sample(Sample),
}

/// Reader of a file, line by line. What is not readable is a problem, and the rest is kept.
pub struct Reader<R> {
    source: R,
    line: Vec<u8>,
    /// Offset of the next line.
    offset: u64,
    /// Number of GPUs of the last header; `None` before the first.
    gpus: Option<usize>,
    problems: Vec<Problem>,
    unlisted: usize,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the start of a file.
    pub fn new(source: R) -> Self {
        Self {
            source,
            line: Vec::new(),
            offset: 0,
            gpus: None,
            problems: Vec::new(),
            unlisted: 0,
        }
    }

    /// Returns the next line that can be read; `None` at the end, and if the source cannot be read further.
    pub fn next_line(&mut self) -> Option<GpuLine> {
        loop {
            let offset = self.offset;
            match self.read_line() {
                Ok(Some(true)) => {}
                Ok(Some(false)) => continue,
                Ok(None) => return None,
                Err(error) => {
                    self.problem(offset, format!("the file could not be read further: {error}"));
                    return None;
                }
            }
            match self.parsed() {
                Ok(Some(line)) => return Some(line),
                Ok(None) => {}
                Err(what) => self.problem(offset, format!("{what}; the line was skipped")),
            }
        }
    }

    /// Reads a line. Returns false if it is not whole, and `None` at the end.
    fn read_line(&mut self) -> io::Result<Option<bool>> {
        self.line.clear();
        let offset = self.offset;
        let read = Read::take(&mut self.source, MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        let is_whole = self.line.ends_with(b"\n");
        let is_long = !is_whole && read as u64 == MAX_LINE_BYTES;
        let skipped = if is_long {
            self.source.skip_until(b'\n')?
        } else {
            0
        };
        self.offset += (read + skipped) as u64;
        if !is_whole {
            let what = if is_long {
                "a line is too long"
            } else {
                "the last line is incomplete"
            };
            self.problem(offset, format!("{what}; it was skipped"));
        }
        Ok(Some(is_whole))
    }

    fn parsed(&mut self) -> Result<Option<GpuLine>, String> {
        if self.line.trim_ascii().is_empty() {
            return Ok(None);
        }
        // Samples are by far the most lines.
        if let Ok(sample) = serde_json::from_slice::<Sample>(&self.line) {
            return match self.gpus {
                Some(gpus) if (sample.gpu as usize) < gpus => Ok(Some(GpuLine::Sample(sample))),
                Some(_) => Err(format!("no header names GPU {}", sample.gpu)),
                None => Err("a sample precedes the header".to_owned()),
            };
        }
        match serde_json::from_slice::<Header>(&self.line) {
            Ok(header) if header.format == FORMAT => {
                self.gpus = Some(header.gpus.len());
                Ok(Some(GpuLine::Header(header)))
            }
            Ok(header) => Err(format!("the format '{}' is unknown", header.format)),
            Err(error) => Err(format!("neither a header nor a sample: {error}")),
        }
    }

    fn problem(&mut self, offset: u64, what: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { offset, what });
        } else {
            self.unlisted += 1;
        }
    }

    /// Returns the problems so far.
    pub fn problems(&self) -> Vec<Problem> {
        let more = (self.unlisted > 0).then(|| Problem {
            offset: self.offset,
            what: format!("{} more lines were skipped", self.unlisted),
        });
        self.problems.iter().cloned().chain(more).collect()
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

    fn read(text: &str) -> (Vec<GpuLine>, Vec<Problem>) {
        let mut reader = Reader::new(text.as_bytes());
        let lines = std::iter::from_fn(|| reader.next_line()).collect();
        (lines, reader.problems())
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
        let expected = [
            GpuLine::Header(header()),
            GpuLine::Sample(sample),
            GpuLine::Header(header()),
            GpuLine::Sample(Sample::default()),
        ];
        assert_eq!(read(&text), (expected.into(), Vec::new()));
        assert_eq!(
            (sample.is_thermal(), sample.is_power(), sample.is_hardware()),
            (Some(false), Some(true), Some(false))
        );
        assert_eq!(Sample::default().is_power(), None);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_with_its_place() {
        let early = line(&Sample::default());
        let last = r#"{"raw_ns":2,"#;
        let text =
            early.clone() + &line(&header()) + "{}\n" + r#"{"raw_ns":1,"gpu":7}"# + "\n\n" + &early + last;
        let (lines, problems) = read(&text);
        assert_eq!(
            lines,
            [GpuLine::Header(header()), GpuLine::Sample(Sample::default())]
        );
        let offsets: Vec<u64> = problems.iter().map(|problem| problem.offset).collect();
        let third = (early.len() + line(&header()).len()) as u64;
        assert_eq!(
            offsets,
            [0, third, third + 3, (text.len() - last.len()) as u64],
            "{problems:?}"
        );
        assert!(problems[3].what.contains("incomplete"));
        let (_, many) = read(&"x\n".repeat(100));
        assert_eq!(many.len(), MAX_PROBLEMS + 1);
        assert!(many[MAX_PROBLEMS].what.contains("84 more lines"));
        let (long, problems) = read(&("x".repeat(3 << 20) + "\n" + &line(&header())));
        assert_eq!((long.len(), problems.len()), (1, 1));
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
