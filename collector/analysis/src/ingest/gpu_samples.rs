//! Samples of GPUs in run directories, joined with the ranks that use the GPUs.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::rank::{GpuSum, GpuTrack};
use rankscope_formats::gpu_samples::{Gpu, GpuSamples, Header, NAME, PciAddress, Sample};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::reader::RankLog;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// A GPU with its samples. The time of a sample is on the host's MONOTONIC_RAW.
struct Sampled {
    gpu: Gpu,
    /// Host, as a position in [`Clocks::hosts`].
    host: usize,
    samples: Vec<Sample>,
}

/// Samples of all GPUs of a run.
#[derive(Default)]
pub struct SampledGpus {
    by_place: BTreeMap<(usize, PciAddress), Sampled>,
}

impl SampledGpus {
    /// Reads the files of run directories. Files and lines that cannot be read are problems.
    pub fn of_directories(
        directories: &[PathBuf],
        clocks: &Clocks,
        problems: &mut Vec<ProblemSummary>,
    ) -> Self {
        let mut out = Self::default();
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            for path in files(directory) {
                let mut problem = |offset_bytes: Option<u64>, what: String| {
                    problems.push(ProblemSummary {
                        rank: None,
                        file: Some(path.display().to_string()),
                        offset_bytes,
                        what,
                    });
                };
                match File::open(&path).and_then(|file| GpuSamples::read(BufReader::new(file))) {
                    Ok(read) => {
                        for found in read.problems {
                            problem(Some(found.offset), found.what);
                        }
                        for recording in read.recordings {
                            if let Err(what) = out.add(&recording.header, &recording.samples, clocks) {
                                problem(None, what);
                            }
                        }
                    }
                    Err(error) => problem(None, format!("the samples of GPUs could not be read: {error}")),
                }
            }
        }
        out
    }

    fn add(&mut self, header: &Header, samples: &[Sample], clocks: &Clocks) -> Result<(), String> {
        let is_same =
            |known: &Option<String>, of_header: &Option<String>| of_header.is_some() && known == of_header;
        let host = clocks.hosts.iter().position(|host| {
            is_same(&host.boot_id, &header.boot_id) && is_same(&host.time_namespace, &header.time_namespace)
        });
        let Some(host) = host else {
            return Err(format!(
                "no rank has the clock of host {}, so the samples of its GPUs have no time; they were left out",
                header.host
            ));
        };
        for (gpu, number) in header.gpus.iter().zip(0..) {
            let Some(address) = PciAddress::parse(&gpu.address) else {
                return Err(format!(
                    "'{}' is no PCI address; the samples of this GPU were left out",
                    gpu.address
                ));
            };
            let of_gpu = samples.iter().filter(|sample| sample.gpu == number);
            let sampled = self.by_place.entry((host, address)).or_insert_with(|| Sampled {
                gpu: gpu.clone(),
                host,
                samples: Vec::new(),
            });
            sampled.samples.extend(of_gpu);
        }
        Ok(())
    }

    /// Returns the GPUs of a rank on the axis, with the number of the device if it has several.
    pub fn of_rank(
        &self,
        rank: RankIndex,
        identities: &Identities,
        clocks: &Clocks,
        logs: &[RankLog],
    ) -> Vec<GpuTrack> {
        if self.by_place.is_empty() {
            return Vec::new();
        }
        let log = identities.ranks[rank.index()].log;
        let host = clocks.host_of[log];
        let devices = devices_of(&logs[log]);
        let found: Vec<(u32, &Sampled)> = devices
            .into_iter()
            .filter_map(|(device, address)| Some((device, self.by_place.get(&(host, address))?)))
            .collect();
        let is_only = found.len() == 1;
        found
            .into_iter()
            .filter_map(|(device, sampled)| {
                let line = clocks.line_of_raw(logs, sampled.host)?;
                let samples = sampled.samples.iter().map(|sample| {
                    let at_ns = line.ns(sample.raw_ns.cast_unsigned());
                    (at_ns, *sample)
                });
                Some(GpuTrack::new(
                    &sampled.gpu,
                    (!is_only).then_some(device),
                    samples.collect(),
                ))
            })
            .collect()
    }
    /// Returns the GPUs that no rank uses.
    pub fn of_no_rank(&self, identities: &Identities, clocks: &Clocks, logs: &[RankLog]) -> Vec<GpuSum> {
        let of_ranks: BTreeSet<(usize, PciAddress)> = identities
            .ranks
            .iter()
            .flat_map(|rank| {
                let host = clocks.host_of[rank.log];
                devices_of(&logs[rank.log])
                    .into_values()
                    .map(move |address| (host, address))
            })
            .collect();
        let others = self
            .by_place
            .iter()
            .filter(|(place, _)| !of_ranks.contains(place));
        others
            .map(|(_, sampled)| GpuSum::of_all(&sampled.gpu, &sampled.samples))
            .collect()
    }
}

/// Returns the devices of a log by their ordinals, as its properties `device.N.address` name them.
fn devices_of(log: &RankLog) -> BTreeMap<u32, PciAddress> {
    let properties = log.properties.iter();
    properties
        .filter_map(|(key, value)| {
            let ordinal = key.strip_prefix("device.")?.strip_suffix(".address")?;
            Some((ordinal.parse().ok()?, PciAddress::parse(value)?))
        })
        .collect()
}

/// Returns the files of a run directory, in the order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (begin, end) = NAME;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(begin) && name.ends_with(end)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Removes the files of a run directory.
///
/// # Errors
///
/// If a file cannot be removed.
pub fn remove(directory: &Path) -> io::Result<()> {
    files(directory).iter().try_for_each(fs::remove_file)
}
