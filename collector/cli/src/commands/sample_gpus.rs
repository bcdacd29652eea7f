//! `rankscope sample-gpus`: the process that samples the GPUs of this host for `rankscope run`. Users do not call it.
//!
//! A host without GPUs of NVIDIA has no NVML, and the process ends at once. No real GPU has run this code yet; its tests use a
//! double of NVML.

use super::Exit;
use super::print::error_line;
use crate::launch::{launcher_input, run_directory};
use anyhow::{Context, Result};
use clap::Args;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use rankscope_doctor::facts::nvml::LIBRARY;
use rankscope_formats::gpu_samples::{FORMAT, Gpu, Header, NAME, Sample};
use rankscope_ranklog::{clock, process};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of GPUs of a host.
const MAX_GPUS: u32 = 64;

/// Sample the GPUs of this host until the standard input is closed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rankscope run -- torchrun train.py   starts this command")]
pub struct SampleGpus {
    /// Run directory.
    directory: PathBuf,

    /// Interval, in seconds.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
}

impl SampleGpus {
    pub fn run(self) -> Result<Exit> {
        let interval = Duration::from_secs(u64::from(self.interval));
        if let Err(error) = record(&self.directory, interval) {
            note(&self.directory, interval, &error)?;
        }
        Ok(Exit::Fine)
    }
}

/// Returns true if the host has no GPU of NVIDIA, or no driver for it.
fn has_no_gpus(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded)
    )
}

/// Writes why there are no samples, or no further ones, once the run has a rank log.
fn note(directory: &Path, interval: Duration, error: &anyhow::Error) -> Result<()> {
    if has_no_gpus(error) {
        return Ok(());
    }
    let mut has_ended = false;
    while run_directory::logs(directory)?.is_empty() {
        if has_ended {
            return Ok(());
        }
        has_ended = launcher_input::has_ended(interval);
    }
    let header = Header {
        problem: Some(error_line(error)),
        ..of_this_host()
    };
    write(&mut new_file(directory, &header)?, [&header])
}

/// Samples all GPUs until the launcher ends.
fn record(directory: &Path, interval: Duration) -> Result<()> {
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init()?;
    let header = header(&nvml)?;
    if header.gpus.is_empty() {
        return Ok(());
    }
    let lock = Lock::new(directory, &header);
    let mut open: Option<(HeldLock, File)> = None;
    let mut due = Instant::now();
    loop {
        // Without a rank log the run directory may be removed. Another launcher may sample the same GPUs, and end earlier.
        if open.is_none()
            && !run_directory::logs(directory)?.is_empty()
            && let Some(held) = lock.take()?
        {
            let mut file = new_file(directory, &header)?;
            write(&mut file, [&header])?;
            open = Some((held, file));
        }
        if let Some((_, file)) = &mut open {
            let samples: Vec<Sample> = (0..)
                .zip(&header.gpus)
                .map(|(number, gpu)| sample(&nvml, number, gpu))
                .collect();
            write(file, &samples)?;
        }
        // A late sample does not make the next ones follow at once.
        due = (due + interval).max(Instant::now());
        if launcher_input::has_ended(due.saturating_duration_since(Instant::now())) {
            return Ok(());
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
    Ok(Header {
        driver: nvml.sys_driver_version().ok(),
        gpus: gpus.collect(),
        ..of_this_host()
    })
}

/// Returns a header that names this host, and no GPU.
fn of_this_host() -> Header {
    let properties = process::properties();
    let property = |name: &str| {
        let found = properties.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    Header {
        format: FORMAT.to_owned(),
        host: process::host_name(),
        boot_id: property("boot_id"),
        time_namespace: property("time_namespace"),
        ..Header::default()
    }
}

/// A held lock. It ends with the process.
struct HeldLock {
    path: PathBuf,
    _file: File,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Another launcher that waits for it creates it again. Two may then sample for a moment, which the merge notices.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Lock of all launchers that see the same GPUs of this host. It is in memory: some file systems of run directories have no
/// locks.
struct Lock(PathBuf);

impl Lock {
    fn new(directory: &Path, header: &Header) -> Self {
        let mut hasher = DefaultHasher::new();
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        directory.hash(&mut hasher);
        for gpu in &header.gpus {
            (&gpu.address, &gpu.uuid).hash(&mut hasher);
        }
        // SAFETY: getuid cannot fail.
        let user = unsafe { libc::getuid() };
        Self(Path::new("/dev/shm").join(format!("rankscope-gpus-{user}-{:016x}", hasher.finish())))
    }

    /// Takes the lock; `None` if another launcher holds it.
    fn take(&self) -> Result<Option<HeldLock>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.0);
        let file = file.with_context(|| format!("cannot create {}", self.0.display()))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(HeldLock {
                path: self.0.clone(),
                _file: file,
            })),
        }
    }
}

/// Creates the file of this process.
fn new_file(directory: &Path, header: &Header) -> Result<File> {
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
    let now = clock::clock_ns(libc::CLOCK_REALTIME);
    let path = directory.join(format!("{begin}{host}-{}-{now:x}{end}", std::process::id()));
    let file = File::options().create_new(true).append(true).open(&path);
    file.with_context(|| format!("cannot create {}", path.display()))
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
