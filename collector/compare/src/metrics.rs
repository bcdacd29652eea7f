//! Metrics of a comparison: name, unit and direction. METRICS.md defines their meaning; this file has no second
//! definitions.

pub use rankscope_formats::comparison::Better;

/// Unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// Share, 0 to 1.
    Share,
    /// Number of things.
    Count,
}

impl Unit {
    /// Returns the name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::BytesPerSecond => "bytes/s",
            Self::Bytes => "bytes",
            Self::Share => "share",
            Self::Count => "count",
        }
    }
}

/// Metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of the metric.
    pub name: &'static str,
    /// Noun of the subject in brackets; `None`: the metric has no subjects.
    pub subject: Option<&'static str>,
    /// Unit of the values.
    pub unit: Unit,
    /// Direction that is better.
    pub better: Better,
    /// Meaning in words.
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $subject:expr, $unit:ident, $better:ident, $meaning:literal;)*) => {
        $($(#[$doc])* pub const $constant: &str = $name;)*

        /// All metrics, in the order in which they are listed.
        pub const ALL: &[Metric] = &[$(Metric {
            name: $name,
            subject: $subject,
            unit: Unit::$unit,
            better: Better::$better,
            meaning: $meaning,
        },)*];
    };
}

const CLASS: Option<&str> = Some("operation class");
const RANK: Option<&str> = Some("rank");

metrics! {
    /// Step time.
    STEP_TIME = "step_time", None, Nanoseconds, Lower, "time of a training step, mean over ranks";
    /// Step time per token or sample.
    STEP_TIME_PER = "step_time_per", Some("counted thing"), Nanoseconds, Lower, "step time for each token or sample that the program counts";
    /// Host part of a step, for ranks without device records.
    HOST_TIME = "host_time", None, Nanoseconds, Lower, "time of a step in which the training thread is not blocked for communication";
    /// Part of a step: computation only.
    COMPUTE_ONLY = "compute_only", None, Nanoseconds, Lower, "time of a step in which the device computes and does not communicate";
    /// Part of a step: computation and communication.
    OVERLAPPED = "overlapped", None, Nanoseconds, Lower, "time of a step in which the device computes and communicates at once";
    /// Part of a step: exposed wait.
    EXPOSED_WAIT = "exposed_wait", None, Nanoseconds, Lower, "time of a step spent waiting for peers while nothing is computed";
    /// Part of a step: exposed transfer.
    EXPOSED_TRANSFER = "exposed_transfer", None, Nanoseconds, Lower, "time of a step in which data moves while nothing is computed";
    /// Part of a step: exposed memory activity.
    EXPOSED_MEMORY = "exposed_memory", None, Nanoseconds, Lower, "time of a step in which the device only copies or sets memory";
    /// Part of a step: blocked without an operation.
    OTHER_BLOCKED = "other_blocked", None, Nanoseconds, Lower, "time of a step in which the training thread is blocked while no operation runs";
    /// Part of a step: idle.
    IDLE = "idle", None, Nanoseconds, Lower, "time of a step in which the device does nothing";
    /// Communication.
    COMMUNICATION = "communication", None, Nanoseconds, Lower, "time of a step with communication, overlapped or not";
    /// Hidden wait.
    HIDDEN_WAIT = "hidden_wait", None, Nanoseconds, Lower, "time of a step spent waiting for peers that computation \
        hides";
    /// Overlap.
    OVERLAP = "overlap", None, Share, Higher, "share of the communication that computation hides";
    /// Wait share.
    WAIT_SHARE = "wait_share", None, Share, Lower, "share of the time inside operations that is waiting for peers";
    /// Operations.
    OPERATIONS = "operations", None, Count, Lower, "operations of a step, mean over ranks";
    /// Bytes.
    BYTES = "bytes", None, Bytes, Lower, "payload of a step's operations, mean over ranks";
    /// Transfer time of a class.
    TRANSFER_TIME = "transfer_time", CLASS, Nanoseconds, Lower, "transfer time of one launch";
    /// Bus bandwidth of a class.
    BUSBW = "busbw", CLASS, BytesPerSecond, Higher, "bus bandwidth of launches with a wait share of at most 20 %";
    /// Exposed wait in a class.
    OPERATION_WAIT = "operation_wait", CLASS, Nanoseconds, Lower, "exposed wait of a step in these operations, mean over ranks";
    /// Transfer time of a class per step.
    OPERATION_TRANSFER = "operation_transfer", CLASS, Nanoseconds, Lower, "transfer time of all launches of a step, summed up";
    /// Time of a kernel.
    KERNEL_TIME = "kernel_time", Some("kernel"), Nanoseconds, Lower, "time of a step in this kernel, mean over ranks";
    /// Time of copies.
    COPY_TIME = "copy_time", None, Nanoseconds, Lower, "time of a step in device copies, mean over ranks";
    /// Copied bytes.
    COPY_BYTES = "copy_bytes", None, Bytes, Lower, "bytes that a device copies in a step, mean over ranks";
    /// Idle gaps of streams.
    STREAM_IDLE = "stream_idle", Some("cause"), Nanoseconds, Lower, "idle gaps of a step on all streams by cause, mean over ranks";
    /// Stalls.
    STALL_TIME = "stall_time", None, Nanoseconds, Lower, "time of a step in stalls, mean over ranks";
    /// Stalls by cause.
    STALL_CAUSE = "stall_cause", Some("cause"), Nanoseconds, Lower, "time of a step in stalls of this cause, mean over ranks";
    /// Named host time.
    PAUSE = "pause", Some("kind"), Nanoseconds, Lower, "named host time of a step on training threads, mean over \
        ranks";
    /// Lateness.
    LATENESS = "lateness", RANK, Nanoseconds, Lower, "own delay of a step, where it is above 0: host time beyond the median of the rank's peers";
    /// Caused wait.
    CAUSED_WAIT = "caused_wait", RANK, Nanoseconds, Lower, "exposed wait of a step that this rank causes, sum over the ranks that wait";
    /// Time to build communicators.
    CONNECT_TIME = "connect_time", None, Nanoseconds, Lower, "time for building communicators, mean over ranks";
    /// Start-up.
    TIME_TO_FIRST_STEP = "time_to_first_step", None, Nanoseconds, Lower, "time from the first record to the first step";
    /// Losses.
    LOST_SHARE = "lost_share", None, Share, Lower, "share of the records that were lost";
    /// Overhead of the recorder.
    RECORDER_SHARE = "recorder_share", None, Share, Lower, "share of the recorded time that is overhead of CUPTI";
}

/// Returns the metric with this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name)
}

/// Returns the names most similar to an unknown one, the nearest first.
pub fn nearest(name: &str) -> Vec<&'static str> {
    const MIN_ALIKE: f64 = 0.7;
    let mut alike: Vec<(f64, &str)> = ALL
        .iter()
        .map(|metric| (strsim::jaro_winkler(name, metric.name), metric.name))
        .filter(|&(likeness, _)| likeness >= MIN_ALIKE)
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised() {
        assert_eq!(nearest("step_tiem").first(), Some(&"step_time"));
        assert_eq!(nearest("exposed-wait").first(), Some(&"exposed_wait"));
        assert!(nearest("zzzz").is_empty());
        for (at, metric) in ALL.iter().enumerate() {
            assert!(
                ALL[..at].iter().all(|other| other.name != metric.name),
                "{}",
                metric.name
            );
        }
    }
}
