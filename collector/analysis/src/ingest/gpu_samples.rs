//! Samples of GPUs in run directories, joined with the ranks that use the GPUs.
//!
//! The files are read once, line by line. Memory is bounded: if there are too many samples, every second one of a GPU is
//! dropped, as often as necessary.

use crate::clocks::clock::{Clocks, Line};
use crate::identity::Identities;
use crate::model::part_window::PartWindow;
use crate::rank::{GpuSum, GpuTrack};
use rankscope_formats::gpu_samples::{Gpu, GpuLine, Header, NAME, PciAddress, Reader, Sample};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::reader::RankLog;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Maximum number of samples over all GPUs: about 400 MB.
const MAX_SAMPLES: usize = 1 << 22;
/// Two samples of a GPU that are closer than this come from two launchers. The shortest interval is 1 s.
const SAME_SAMPLE_NS: i64 = 300_000_000;

/// A GPU of one host.
type Place = (usize, PciAddress);

/// Samples of one GPU on the axis.
struct Sampled {
    gpu: Gpu,
    is_of_rank: bool,
    /// Kept samples: every `stride`-th.
    samples: Vec<(i64, Sample)>,
    stride: usize,
    /// Number of samples so far.
    count: usize,
    /// Sums of a GPU that no rank uses. Its samples are not kept.
    sum: GpuSum,
}

impl Sampled {
    fn add(&mut self, at_ns: i64, sample: Sample, most: usize) {
        if !self.is_of_rank {
            self.sum.add(&sample);
            return;
        }
        if self.count.is_multiple_of(self.stride) {
            self.samples.push((at_ns, sample));
        }
        self.count += 1;
        if self.samples.len() > most {
            self.stride *= 2;
            let mut number = 0usize;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }
}

/// Samples of all GPUs of a run.
#[derive(Default)]
pub struct SampledGpus {
    by_place: BTreeMap<Place, Sampled>,
}

/// What the samples are joined with.
struct Run<'a> {
    clocks: &'a Clocks,
    logs: &'a [RankLog],
    part: PartWindow,
    /// GPUs of ranks.
    of_ranks: &'a BTreeMap<Place, ()>,
    /// Maximum number of samples per GPU.
    most: usize,
}

impl SampledGpus {
    /// Reads the files of run directories, for a part of the run. Files and lines that cannot be read
    /// are problems.
    pub fn of_directories(
        directories: &[PathBuf],
        (clocks, identities, logs): (&Clocks, &Identities, &[RankLog]),
        part: PartWindow,
        problems: &mut Vec<ProblemSummary>,
    ) -> Self {
        let mut out = Self::default();
        let paths: Vec<PathBuf> = directories
            .iter()
            .filter(|directory| directory.is_dir())
            .flat_map(|directory| files(directory))
            .collect();
        if paths.is_empty() {
            return out;
        }
        let places = identities.ranks.iter().flat_map(|rank| {
            let host = clocks.host_of[rank.log];
            devices_of(&logs[rank.log])
                .into_values()
                .map(move |address| ((host, address), ()))
        });
        let of_ranks: BTreeMap<Place, ()> = places.collect();
        let run = Run {
            clocks,
            logs,
            part,
            most: MAX_SAMPLES / of_ranks.len().max(1),
            of_ranks: &of_ranks,
        };
        for path in &paths {
            let mut problem = |offset_bytes: Option<u64>, what: String| {
                problems.push(ProblemSummary::of_file(path, offset_bytes, what));
            };
            match File::open(path) {
                Ok(file) => {
                    let mut reader = Reader::new(BufReader::new(file));
                    for what in out.read(&mut reader, &run) {
                        problem(None, what);
                    }
                    for found in reader.problems() {
                        problem(Some(found.offset), found.what);
                    }
                }
                Err(error) => problem(None, format!("the samples of GPUs could not be read: {error}")),
            }
        }
        if let Some(stride) = out
            .by_place
            .values()
            .map(|sampled| sampled.stride)
            .max()
            .filter(|&stride| stride > 1)
        {
            problems.push(ProblemSummary {
                rank: None,
                file: None,
                offset_bytes: None,
                what: format!("there are too many samples of GPUs; of some GPUs, one in {stride} was kept"),
            });
        }
        out
    }

    /// Reads a file. Returns why hosts were not sampled.
    fn read(&mut self, reader: &mut Reader<BufReader<File>>, run: &Run<'_>) -> Vec<String> {
        let mut not_sampled = Vec::new();
        // Place of each GPU of the header, and the conversion of the host's clock. A host without ranks has none.
        let mut current: Option<(Vec<Option<Place>>, Line)> = None;
        while let Some(line) = reader.next_line() {
            match line {
                GpuLine::Header(header) => {
                    if let Some(problem) = &header.problem {
                        not_sampled.push(format!("GPUs of {} were not sampled: {problem}", header.host));
                    }
                    current = self.begin(&header, run);
                }
                GpuLine::Sample(sample) => {
                    let Some((places, line)) = &current else { continue };
                    let at_ns = line.ns(sample.raw_ns.cast_unsigned());
                    if let Some(place) = places.get(sample.gpu as usize).copied().flatten()
                        && run.part.contains(at_ns)
                        && let Some(sampled) = self.by_place.get_mut(&place)
                    {
                        sampled.add(at_ns, sample, run.most);
                    }
                }
            }
        }
        not_sampled
    }

    fn begin(&mut self, header: &Header, run: &Run<'_>) -> Option<(Vec<Option<Place>>, Line)> {
        // Kernels before 5.6 have no time namespaces.
        let is_host = |boot_id: &Option<String>, time_namespace: &Option<String>| {
            boot_id.is_some() && *boot_id == header.boot_id && *time_namespace == header.time_namespace
        };
        let mut hosts = run.clocks.hosts.iter();
        let host = hosts.position(|host| is_host(&host.boot_id, &host.time_namespace))?;
        let line = run.clocks.line_of_raw(run.logs, host)?;
        let places = header.gpus.iter().map(|gpu| {
            let place = (host, PciAddress::parse(&gpu.address)?);
            self.by_place.entry(place).or_insert_with(|| Sampled {
                gpu: gpu.clone(),
                is_of_rank: run.of_ranks.contains_key(&place),
                samples: Vec::new(),
                stride: 1,
                count: 0,
                sum: GpuSum::new(gpu, None),
            });
            Some(place)
        });
        Some((places.collect(), line))
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
        let found: Vec<(u32, &Sampled)> = devices_of(&logs[log])
            .into_iter()
            .filter_map(|(device, address)| Some((device, self.by_place.get(&(host, address))?)))
            .collect();
        let is_only = found.len() == 1;
        found
            .into_iter()
            .map(|(device, sampled)| {
                let mut samples = sampled.samples.clone();
                samples.sort_by_key(|&(at_ns, _)| at_ns);
                samples.dedup_by(|later, kept| later.0 - kept.0 < SAME_SAMPLE_NS);
                GpuTrack::new(&sampled.gpu, (!is_only).then_some(device), samples)
            })
            .collect()
    }

    /// Returns the GPUs that no rank uses.
    pub fn of_no_rank(&self) -> Vec<GpuSum> {
        let others = self.by_place.values().filter(|sampled| !sampled.is_of_rank);
        others.map(|sampled| sampled.sum.clone()).collect()
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
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_samples(path))
        .collect();
    found.sort();
    found
}

/// Returns true if this is the name of a file of samples.
pub fn is_samples(path: &Path) -> bool {
    let (begin, end) = NAME;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(begin) && name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_samples_are_thinned_evenly() {
        let mut sampled = Sampled {
            gpu: Gpu::default(),
            is_of_rank: true,
            samples: Vec::new(),
            stride: 1,
            count: 0,
            sum: GpuSum::default(),
        };
        for at_ns in 0..1000 {
            sampled.add(at_ns, Sample::default(), 100);
        }
        let times: Vec<i64> = sampled.samples.iter().map(|&(at_ns, _)| at_ns).collect();
        assert_eq!(sampled.stride, 16);
        assert_eq!(times, Vec::from_iter((0..1000).step_by(16)));
    }
}
