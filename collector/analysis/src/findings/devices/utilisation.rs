//! Device utilisation that differs between steps.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;

/// Minimum difference between the 10th and 90th percentile, in points of utilisation (METRICS.md, section 10).
const MAX_POINTS: f64 = 20.0;
/// Minimum number of steps with recorded device work.
const MIN_STEPS: u64 = 20;

/// Swings of device utilisation.
pub const RULE: Rule = Rule {
    id: "utilisation-swings",
    title: "Device utilisation swings from step to step",
    means: "The share of a step in which a rank's devices compute varies between steps. The size of the work varies, \
            or something interrupts it occasionally.",
    fires: "The 10th and 90th percentile of a rank's device utilisation per step differ by more than 20 points. \
            At least 20 steps have complete device records.",
    silent: "A few unusual steps. Low but steady utilisation. Runs without --kernels.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut swinging: Vec<(RankIndex, f64, f64, u64)> = Vec::new();
    for steps in facts.worlds() {
        for (sketch, &rank) in steps.board.utilisation.iter().zip(steps.ranks) {
            let (low, high) = (sketch.quantile(0.1), sketch.quantile(0.9));
            if sketch.count() >= MIN_STEPS && high - low > MAX_POINTS {
                swinging.push((rank, low, high, sketch.count()));
            }
        }
    }
    swinging.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
    let Some(&(widest, low, high, count)) = swinging.first() else {
        return Vec::new();
    };
    let ranks: Vec<RankIndex> = swinging.iter().map(|entry| entry.0).collect();
    let draft = Draft::new(
        RULE.id,
        "the devices' utilisation",
        format!(
            "the devices of {} compute for {low:.0} % to {high:.0} % of a step (p10 to p90 of {count} steps)",
            facts.name(widest)
        ),
    )
    .severity(Severity::Warning)
    .evidence(format!("ranks with such swings: {}", some(&facts.names(&ranks))))
    .cause("input of uneven size, input that is sometimes late, or other work on the device")
    .advice("check the steps with the lowest utilisation; the table stalls lists what the device waits for")
    .holds(
        "steps with known utilisation",
        count as f64,
        ">=",
        MIN_STEPS as f64,
        "",
    )
    .holds("points between p10 and p90", high - low, ">", MAX_POINTS, "")
    .ranks(ranks)
    .without_cost("the gain of steady utilisation is unknown");
    vec![draft]
}
