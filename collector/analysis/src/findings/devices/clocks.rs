//! GPUs whose clocks are reduced, and GPUs with lower clocks than their peers.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Figure, GpuSummary, Ratio, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of busy samples of a GPU.
const MIN_BUSY_SAMPLES: u64 = 20;
/// Minimum number of busy samples with reduced clocks. NVML may report one while a clock changes.
const MIN_THROTTLED_SAMPLES: i64 = 3;
/// Share of busy samples from which a reduction by temperature or hardware is reported, in percent.
const MIN_THROTTLED_PERCENT: f64 = 5.0;
/// Share of busy samples from which a reduction by the power limit is reported, in percent.
const MIN_POWER_PERCENT: f64 = 50.0;
/// Share of the highest clock below which a reduction by the power limit is reported, in percent.
const MAX_CLOCK_PERCENT: f64 = 90.0;
/// Share of the peers' median clock below which a GPU is reported, in percent.
const MAX_OF_PEERS_PERCENT: f64 = 95.0;
/// Minimum number of GPUs of one model for a comparison.
const MIN_PEERS: usize = 3;

/// Reduced clocks.
pub const THROTTLED: Rule = Rule {
    id: "throttled-gpu",
    title: "A GPU is throttled under load",
    means: "The GPU computes more slowly than it could. If only some GPUs are affected, all ranks wait for them.",
    fires: "NVML reports reduced clocks in at least three and 5 % of the busy samples, because of the temperature or by the \
            hardware: a warning. It is a note if the power limit reduces them in at least 50 %, and the mean clock is \
            below 90 % of the highest. A sample is busy if the utilization is at least 50 %; at least 20 are needed.",
    silent: "Idle GPUs. A power limit that costs less than a tenth of the clock. Clocks that an administrator has set. \
             Runs without samples of the GPUs, or whose ranks have no GPU address.",
    find: Some(throttled),
    find_declared: None,
};

/// Lower clocks than those of peers.
pub const SLOW_CLOCK: Rule = Rule {
    id: "slow-clock",
    title: "A GPU runs at a lower clock than its peers",
    means: "The rank of this GPU computes more slowly than the other ranks, and they wait for it.",
    fires: "The mean clock over busy samples is below 95 % of the median over all GPUs of this model. At least three GPUs \
            of the model have 20 busy samples.",
    silent: "Jobs on fewer than three GPUs of a model. Different models. Clocks that are low on all GPUs. GPUs that their \
             power limit slows down: those with the most work have the lowest clocks.",
    find: Some(slow_clock),
    find_declared: None,
};

/// Why clocks are reduced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Temperature,
    Hardware,
    Power,
}

impl Reason {
    /// Most specific first: a reduction because of the temperature may also be one by the hardware.
    const ALL: [Self; 3] = [Self::Temperature, Self::Hardware, Self::Power];

    fn ratio(self, gpu: &GpuSummary) -> Option<Ratio> {
        let share: &Figure<Ratio> = match self {
            Self::Temperature => &gpu.throttled_by_temperature,
            Self::Hardware => &gpu.throttled_by_hardware,
            Self::Power => &gpu.throttled_by_power,
        };
        share.value
    }

    fn share(self, gpu: &GpuSummary) -> f64 {
        self.ratio(gpu).map_or(0.0, Ratio::share) * 100.0
    }

    fn limit(self) -> f64 {
        match self {
            Self::Temperature | Self::Hardware => MIN_THROTTLED_PERCENT,
            Self::Power => MIN_POWER_PERCENT,
        }
    }

    fn fires(self, gpu: &GpuSummary) -> bool {
        let is_often = self.ratio(gpu).is_some_and(|ratio| {
            ratio.denominator >= MIN_BUSY_SAMPLES as i64
                && ratio.numerator >= MIN_THROTTLED_SAMPLES
                && ratio.share() * 100.0 >= self.limit()
        });
        is_often
            && match self {
                Self::Temperature | Self::Hardware => true,
                Self::Power => of_highest_percent(gpu).is_some_and(|percent| percent < MAX_CLOCK_PERCENT),
            }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Temperature => "by temperature",
            Self::Hardware => "by the hardware",
            Self::Power => "by the power limit",
        }
    }

    fn cause(self) -> &'static str {
        match self {
            Self::Temperature => {
                "cooling: a fan, the air flow, the liquid loop, or the temperature of the room"
            }
            Self::Hardware => {
                "the power supply, an external signal, or a temperature that NVML does not report separately"
            }
            Self::Power => "the work needs more power than the limit of the GPU allows",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Temperature | Self::Hardware => {
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on the host; exclude the host until it is repaired"
            }
            Self::Power => {
                "nvidia-smi -q -d POWER shows the limit and its range; all GPUs of a job should have the same"
            }
        }
    }
}

/// Returns the mean clock as a share of the highest, in percent.
fn of_highest_percent(gpu: &GpuSummary) -> Option<f64> {
    let highest = gpu.max_sm_clock_mhz.filter(|&highest| highest > 0)?;
    Some(gpu.busy_sm_clock_mhz.value? / f64::from(highest) * 100.0)
}

fn ranks_of(gpus: &[&GpuSummary]) -> Vec<RankIndex> {
    let ranks: BTreeSet<RankIndex> = gpus.iter().filter_map(|gpu| gpu.rank.map(RankIndex)).collect();
    ranks.into_iter().collect()
}

fn throttled(facts: &Facts<'_>) -> Vec<Draft> {
    let mut affected: BTreeMap<Reason, Vec<&GpuSummary>> = BTreeMap::new();
    for gpu in facts.session.gpus.iter().filter(|gpu| gpu.rank.is_some()) {
        if let Some(reason) = Reason::ALL.into_iter().find(|reason| reason.fires(gpu)) {
            affected.entry(reason).or_default().push(gpu);
        }
    }
    affected
        .into_iter()
        .filter_map(|(reason, gpus)| draft_throttled(facts, reason, &gpus))
        .collect()
}

fn draft_throttled(facts: &Facts<'_>, reason: Reason, gpus: &[&GpuSummary]) -> Option<Draft> {
    let worst = gpus
        .iter()
        .max_by(|one, other| reason.share(one).total_cmp(&reason.share(other)))?;
    let ranks = ranks_of(gpus);
    let mut draft = Draft::new(
        THROTTLED.id,
        some(&facts.names(&ranks)),
        format!(
            "GPU clocks of {} are throttled {} in up to {:.0} % of the busy samples",
            some(&facts.names(&ranks)),
            reason.text(),
            reason.share(worst)
        ),
    )
    .severity(if reason == Reason::Power {
        Severity::Note
    } else {
        Severity::Warning
    })
    .cause(reason.cause())
    .advice(reason.advice())
    .holds(
        "busy samples with reduced clocks",
        reason.share(worst),
        ">=",
        reason.limit(),
        "%",
    )
    .holds(
        "busy samples",
        worst.busy_samples as f64,
        ">=",
        MIN_BUSY_SAMPLES as f64,
        "",
    )
    .ranks(ranks);
    if let Some(percent) = of_highest_percent(worst).filter(|_| reason == Reason::Power) {
        draft = draft.holds(
            "mean clock as a share of the highest",
            percent,
            "<",
            MAX_CLOCK_PERCENT,
            "%",
        );
    }
    for gpu in gpus {
        let clock = match (gpu.busy_sm_clock_mhz.value, gpu.max_sm_clock_mhz) {
            (Some(clock), Some(highest)) => format!(", {clock:.0} of {highest} MHz on average"),
            (Some(clock), None) => format!(", {clock:.0} MHz on average"),
            _ => String::new(),
        };
        draft = draft.evidence(format!(
            "{}: {:.1} %{clock}",
            place(facts, gpu),
            reason.share(gpu)
        ));
    }
    Some(draft.without_cost("how much a step gains from a higher clock depends on its kernels"))
}

/// Returns the rank and address of a GPU.
fn place(facts: &Facts<'_>, gpu: &GpuSummary) -> String {
    match gpu.rank {
        Some(rank) => format!("{}, GPU {}", facts.name(RankIndex(rank)), gpu.address),
        None => format!("GPU {}", gpu.address),
    }
}

fn slow_clock(facts: &Facts<'_>) -> Vec<Draft> {
    let mut models: BTreeMap<&str, Vec<(&GpuSummary, f64)>> = BTreeMap::new();
    for gpu in &facts.session.gpus {
        if let (Some(_), Some(model), Some(clock)) = (gpu.rank, &gpu.model, gpu.busy_sm_clock_mhz.value)
            && gpu.busy_samples >= MIN_BUSY_SAMPLES
        {
            models.entry(model).or_default().push((gpu, clock));
        }
    }
    models
        .into_iter()
        .filter(|(_, gpus)| gpus.len() >= MIN_PEERS)
        .filter_map(|(model, gpus)| draft_slow(facts, model, &gpus))
        .collect()
}

fn draft_slow(facts: &Facts<'_>, model: &str, gpus: &[(&GpuSummary, f64)]) -> Option<Draft> {
    let mut clocks: Vec<f64> = gpus.iter().map(|&(_, clock)| clock).collect();
    clocks.sort_unstable_by(f64::total_cmp);
    let median = *clocks.get(clocks.len() / 2)?;
    let percent = |clock: f64| clock / median * 100.0;
    let mut slow: Vec<(&GpuSummary, f64)> = gpus
        .iter()
        .copied()
        .filter(|&(gpu, clock)| {
            percent(clock) < MAX_OF_PEERS_PERCENT && Reason::Power.share(gpu) < MIN_THROTTLED_PERCENT
        })
        .collect();
    slow.sort_by(|one, other| one.1.total_cmp(&other.1));
    let &(_, lowest) = slow.first()?;
    let ranks = ranks_of(&slow.iter().map(|&(gpu, _)| gpu).collect::<Vec<_>>());
    let mut draft = Draft::new(
        SLOW_CLOCK.id,
        some(&facts.names(&ranks)),
        format!(
            "GPU clocks of {} are lower than those of their peers, down to {:.0} % of the median",
            some(&facts.names(&ranks)),
            percent(lowest)
        ),
    )
    .severity(Severity::Warning)
    .cause("reduced clocks, an application clock that was set on this GPU only, or a lower power limit")
    .advice("compare nvidia-smi -q -d CLOCK,POWER,PERFORMANCE between this host and another one")
    .holds(
        "clock as a share of the median",
        percent(lowest),
        "<",
        MAX_OF_PEERS_PERCENT,
        "%",
    )
    .holds(
        "GPUs of this model",
        gpus.len() as f64,
        ">=",
        MIN_PEERS as f64,
        "",
    )
    .ranks(ranks)
    .evidence(format!("median of {} {model}: {median:.0} MHz", gpus.len()));
    for (gpu, clock) in slow {
        draft = draft.evidence(format!("{}: {clock:.0} MHz", place(facts, gpu)));
    }
    Some(draft.without_cost("the waits for a late rank are a finding of their own"))
}
