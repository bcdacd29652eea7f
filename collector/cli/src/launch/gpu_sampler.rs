//! Samples the GPUs of this host by NVML while a job runs.
//!
//! The samples are taken here, and not in the job: NVML may be slow, and a GPU that does not answer blocks it. A host without
//! GPUs of NVIDIA has no NVML, and this does nothing. No real GPU has run this code yet; its tests use a double of NVML.

use anyhow::{Context, Result};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use rankscope_formats::gpu_samples::{FORMAT, Gpu, Header, NAME, Sample};
use rankscope_ranklog::{clock, process};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The library, as the driver installs it.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Maximum number of GPUs of a host.
const MAX_GPUS: u32 = 64;
/// Maximum time in which the thread may end. NVML may hang.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// The thread that samples. Dropping it ends the samples.
pub struct GpuSampler {
    ends: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl GpuSampler {
    /// Starts the samples of a run, after its job was started. `None` means no samples.
    pub fn start(run_directory: &Path, interval: Option<Duration>) -> Option<Self> {
        let interval = interval?;
        let (ends, end) = channel();
        let (finished, ended) = channel();
        let directory = run_directory.to_owned();
        let run = move || {
            // The sender is dropped when the thread ends.
            let _finished = finished;
            if let Err(error) = record(&directory, interval, &end) {
                tracing::debug!("the GPUs are not sampled: {error:#}");
            }
        };
        thread::Builder::new()
            .name("gpu-sampler".to_owned())
            .spawn(run)
            .ok()?;
        Some(Self {
            ends: Some(ends),
            ended,
        })
    }
}

impl Drop for GpuSampler {
    fn drop(&mut self) {
        self.ends = None;
        if self.ended.recv_timeout(LAST_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("NVML does not answer; the last samples of the GPUs may be missing");
        }
    }
}

/// Samples all GPUs until `end` is closed.
fn record(directory: &Path, interval: Duration, end: &Receiver<()>) -> Result<()> {
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init()?;
    let header = header(&nvml)?;
    if header.gpus.is_empty() {
        return Ok(());
    }
    let path = path(directory, &header);
    let Some(mut file) = open(&path)? else {
        return Ok(());
    };
    write(&mut file, [&header])?;
    let mut due = Instant::now();
    loop {
        let samples: Vec<Sample> = (0..)
            .zip(&header.gpus)
            .map(|(number, gpu)| sample(&nvml, number, gpu))
            .collect();
        write(&mut file, &samples).with_context(|| format!("cannot write {}", path.display()))?;
        // A late sample does not make the next ones follow at once.
        due = (due + interval).max(Instant::now());
        match end.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn header(nvml: &Nvml) -> Result<Header> {
    let count = nvml.device_count()?.min(MAX_GPUS);
    let gpus = (0..count).filter_map(|index| {
        let device = nvml.device_by_index(index).ok()?;
        Some(Gpu {
            address: device.pci_info().ok()?.bus_id,
            uuid: device.uuid().ok(),
            model: device.name().ok(),
            max_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
        })
    });
    let properties = process::properties();
    let property = |name: &str| {
        let found = properties.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    Ok(Header {
        format: FORMAT.to_owned(),
        host: process::host_name(),
        boot_id: property("boot_id"),
        time_namespace: property("time_namespace"),
        driver: nvml.sys_driver_version().ok(),
        gpus: gpus.collect(),
    })
}

/// Returns the path of this host's file. Hosts may share the run directory.
fn path(directory: &Path, header: &Header) -> PathBuf {
    let boot = header.boot_id.as_deref().unwrap_or_default();
    let boot: String = boot.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let host: String = header
        .host
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '-' {
                letter
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    let (begin, end) = NAME;
    directory.join(format!("{begin}{host}-{boot}{end}"))
}

/// Opens the file for this process alone; `None` if another launcher samples the host. The lock ends with the process.
fn open(path: &Path) -> Result<Option<File>> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // Some network file systems have no locks. Several launchers then append whole lines.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

/// Appends whole lines at once.
fn write<'a, T: Serialize + 'a>(file: &mut File, values: impl IntoIterator<Item = &'a T>) -> Result<()> {
    let mut lines = Vec::new();
    for value in values {
        serde_json::to_writer(&mut lines, value)?;
        lines.push(b'\n');
    }
    file.write_all(&lines)?;
    Ok(())
}

fn sample(nvml: &Nvml, number: u32, gpu: &Gpu) -> Sample {
    let empty = Sample {
        raw_ns: clock::clock_ns(libc::CLOCK_MONOTONIC_RAW),
        gpu: number,
        ..Sample::default()
    };
    // The index of a GPU may change when one is lost. Its address does not.
    let Ok(device) = nvml.device_by_pci_bus_id(gpu.address.as_str()) else {
        return empty;
    };
    Sample {
        utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        memory_used_bytes: device.memory_info().ok().map(|memory| memory.used),
        sm_clock_mhz: device.clock_info(Clock::SM).ok(),
        memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
        power_milliwatts: device.power_usage().ok(),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        throttle_reasons: device
            .current_throttle_reasons()
            .ok()
            .map(|reasons| reasons.bits()),
        ..empty
    }
}
