//! Counters of a rank's GPUs, from the samples that `rankscope run` took by NVML.

use super::sums::{CounterSum, GpuSum};
use rankscope_formats::gpu_samples::{Gpu, Sample};
use rankscope_formats::session::{CounterRow, CounterSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Utilization from which a sample counts as busy, in percent.
const BUSY_PERCENT: u32 = 50;

/// Value of a counter in a sample; `None` if NVML does not know it.
type Value = fn(&Sample) -> Option<f64>;

/// Names of the counters after `gpu_`, and their values.
const COUNTERS: [(&str, Value); 9] = [
    ("utilization_percent", |sample| {
        sample.utilization_percent.map(f64::from)
    }),
    ("memory_used_bytes", |sample| {
        sample.memory_used_bytes.map(|bytes| bytes as f64)
    }),
    ("sm_clock_mhz", |sample| sample.sm_clock_mhz.map(f64::from)),
    ("memory_clock_mhz", |sample| {
        sample.memory_clock_mhz.map(f64::from)
    }),
    ("power_watts", |sample| {
        sample
            .power_milliwatts
            .map(|milliwatts| f64::from(milliwatts) / 1e3)
    }),
    ("temperature_celsius", |sample| {
        sample.temperature_celsius.map(f64::from)
    }),
    ("throttled_by_temperature", |sample| {
        sample.is_thermal().map(f64::from)
    }),
    ("throttled_by_power", |sample| sample.is_power().map(f64::from)),
    ("throttled_by_hardware", |sample| {
        sample.is_hardware().map(f64::from)
    }),
];

/// Samples of one GPU on the axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuTrack {
    /// Ordinal of the device in its process, if the process has several.
    device: Option<u32>,
    /// Samples by time, in nanoseconds on the axis.
    samples: Vec<(i64, Sample)>,
    /// Number of samples that were emitted or left out.
    taken: usize,
    sum: GpuSum,
}

impl GpuTrack {
    /// Creates the track at its first sample.
    pub fn new(gpu: &Gpu, device: Option<u32>, mut samples: Vec<(i64, Sample)>) -> Self {
        samples.sort_by_key(|&(at_ns, _)| at_ns);
        Self {
            sum: GpuSum::new(gpu, device),
            device,
            samples,
            taken: 0,
        }
    }

    fn prefix(&self) -> String {
        self.device
            .map_or_else(|| "gpu".to_owned(), |device| format!("gpu_{device}"))
    }
}

/// Counters of the GPUs of one rank.
#[derive(Debug, Default)]
pub struct GpuCounters {
    tracks: Vec<GpuTrack>,
    sums: BTreeMap<String, CounterSum>,
}

impl GpuCounters {
    /// Creates the counters of these GPUs.
    pub fn new(tracks: Vec<GpuTrack>) -> Self {
        Self {
            tracks,
            sums: BTreeMap::new(),
        }
    }

    /// Emits the samples from `from_ns` to `until_ns` that were not emitted yet. Earlier ones are left out.
    pub fn emit(&mut self, from_ns: i64, until_ns: i64, mut out: impl FnMut(CounterRow)) {
        for track in &mut self.tracks {
            let prefix = track.prefix();
            while let Some(&(at_ns, sample)) = track
                .samples
                .get(track.taken)
                .filter(|(at_ns, _)| *at_ns <= until_ns)
            {
                track.taken += 1;
                if at_ns < from_ns {
                    continue;
                }
                track.sum.add(&sample);
                for (name, value) in COUNTERS {
                    let Some(value) = value(&sample) else {
                        continue;
                    };
                    let name = format!("{prefix}_{name}");
                    let sum = self
                        .sums
                        .entry(name.clone())
                        .or_insert_with(|| CounterSum::new(name.clone(), CounterSource::System));
                    sum.add(at_ns, value);
                    out(CounterRow { name, at_ns, value });
                }
            }
        }
    }

    /// Returns the sums of the counters.
    pub fn counters(&self) -> impl Iterator<Item = &CounterSum> {
        self.sums.values()
    }

    /// Returns the sums of the GPUs.
    pub fn gpus(&self) -> Vec<GpuSum> {
        self.tracks.iter().map(|track| track.sum.clone()).collect()
    }
}

impl GpuSum {
    /// Returns the sums of a GPU without samples.
    pub fn new(gpu: &Gpu, device: Option<u32>) -> Self {
        Self {
            gpu: gpu.clone(),
            device,
            ..Self::default()
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        if sample
            .utilization_percent
            .is_none_or(|percent| percent < BUSY_PERCENT)
        {
            return;
        }
        self.busy += 1;
        if let Some(clock) = sample.sm_clock_mhz {
            self.busy_with_clock += 1;
            self.busy_clock_sum_mhz += u64::from(clock);
        }
        if sample.throttle_reasons.is_some() {
            self.busy_with_reasons += 1;
            self.thermal += u64::from(sample.is_thermal() == Some(true));
            self.power += u64::from(sample.is_power() == Some(true));
            self.hardware += u64::from(sample.is_hardware() == Some(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::gpu_samples::throttle;

    fn sample(clock: u32, busy: bool, reasons: u64) -> Sample {
        Sample {
            utilization_percent: Some(if busy { 98 } else { 3 }),
            sm_clock_mhz: Some(clock),
            throttle_reasons: Some(reasons),
            ..Sample::default()
        }
    }

    #[test]
    fn samples_are_emitted_once_and_in_order() {
        let samples = vec![
            (30, sample(1500, true, throttle::THERMAL)),
            (10, sample(1980, true, 0)),
            (20, sample(300, false, throttle::THERMAL)),
            (40, sample(1980, true, 0)),
        ];
        let mut counters = GpuCounters::new(vec![GpuTrack::new(&Gpu::default(), Some(3), samples)]);
        let mut out = Vec::new();
        counters.emit(15, 30, |row| out.push(row));
        counters.emit(15, 30, |row| out.push(row));
        let clocks: Vec<(i64, f64)> = out
            .iter()
            .filter(|row| row.name == "gpu_3_sm_clock_mhz")
            .map(|row| (row.at_ns, row.value))
            .collect();
        assert_eq!(clocks, [(20, 300.0), (30, 1500.0)]);
        counters.emit(15, i64::MAX, |row| out.push(row));
        let sums = counters.gpus();
        let sum = &sums[0];
        assert_eq!((sum.samples, sum.busy, sum.thermal, sum.power), (3, 2, 1, 0));
        assert_eq!((sum.busy_with_clock, sum.busy_clock_sum_mhz), (2, 3480));
        assert_eq!(
            counters.counters().count(),
            5,
            "what NVML does not know has no counter"
        );
    }
}
