//! Devices that compute more in some steps than in others.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};

/// Points of utilisation between which steps may swing (METRICS.md, section 10).
const MOST_POINTS: f64 = 20.0;
/// Steps whose devices must be known.
const FEWEST_STEPS: u64 = 20;

/// The use of devices swings.
pub const RULE: Rule = Rule {
    id: "utilisation-swings",
    title: "The devices' utilisation swings from step to step",
    means: "The share of a step in which a rank's devices compute differs from step to step: work of different size, or \
            something that sometimes comes in between.",
    fires: "Over at least 20 steps with all of the devices' work recorded, the middle four fifths of the steps (p10 to p90) lie \
            more than 20 points of utilisation apart.",
    silent: "A few steps aside, low but steady utilisation, and runs without --kernels.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut swinging: Vec<(u32, f64, f64, u64)> = Vec::new();
    for steps in facts.worlds() {
        for (sketch, &rank) in steps.board.utilisation.iter().zip(steps.ranks) {
            let (low, high) = (sketch.quantile(0.1), sketch.quantile(0.9));
            if sketch.count() >= FEWEST_STEPS && high - low > MOST_POINTS {
                swinging.push((rank, low, high, sketch.count()));
            }
        }
    }
    swinging.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
    let Some(&(widest, low, high, count)) = swinging.first() else {
        return Vec::new();
    };
    let ranks: Vec<u32> = swinging.iter().map(|entry| entry.0).collect();
    let draft = Draft::new(
        RULE.id,
        "the devices' utilisation",
        format!(
            "the devices of {} compute between {low:.0} % and {high:.0} % of a step (p10 to p90 of {count} steps)",
            facts.name(widest)
        ),
    )
    .severity("warning")
    .evidence(format!("ranks that swing so: {}", some(&facts.names(&ranks))))
    .cause("input of uneven size, input that sometimes comes late, or other work on the device")
    .advice("look at the steps with the lowest utilisation: what the device waits for there is in the table stalls")
    .holds("steps with known utilisation", count as f64, ">=", FEWEST_STEPS as f64, "")
    .holds("points between p10 and p90", high - low, ">", MOST_POINTS, "")
    .ranks(ranks)
    .without_cost("what steady utilisation would win is not known");
    vec![draft]
}
