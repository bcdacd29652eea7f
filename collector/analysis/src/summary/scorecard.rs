//! Scorecard: scores of a run from 0 to 100 (METRICS.md, section 9).

use crate::findings::shown;
use crate::model::declared::DeclaredLimits;
use crate::model::units;
use rankscope_formats::session::{Figure, Score, Scorecard, Session};

/// Minimum number of known dimensions of a total.
const MIN_DIMENSIONS: usize = 3;
/// Maximum total while one finding costs more than [`CAPPING_PERCENT`] of the run.
const CAP: f64 = 69.0;
/// Cost of a finding above which the total is capped, in percent of the run.
const CAPPING_PERCENT: i64 = 10;
/// Minimum totals of the grades `excellent` and `good`.
const GRADES: [(f64, &str); 2] = [(85.0, "excellent"), (70.0, "good")];
/// Grade below both.
const LOWEST_GRADE: &str = "needs work";
/// Points of stability that each failed operation costs.
const POINTS_PER_FAILURE: f64 = 10.0;
/// Factor of the spread of step times in stability.
const SPREAD_WEIGHT: f64 = 5.0;

struct Ratio {
    score: f64,
    numerator: f64,
    denominator: f64,
    basis: String,
}

/// Returns the scorecard of a session, with declared peaks and limits.
pub fn scorecard(session: &Session, stated: &DeclaredLimits) -> Scorecard {
    let mut dimensions = vec![
        dimension("bandwidth", 30, "bytes", bandwidth(session, stated)),
        dimension("latency", 25, "ns", latency(session, stated)),
        dimension("balance", 25, "ns", balance(session)),
        dimension("stability", 20, "ns", stability(session)),
    ];
    let known = dimensions.iter().filter(|score| score.score.value.is_some());
    let (count, weights) = known.fold((0, 0), |(count, weights), score| {
        (count + 1, weights + score.weight_percent)
    });
    if count < MIN_DIMENSIONS {
        let reason = format!("{count} of 4 dimensions are known, and a total needs {MIN_DIMENSIONS}");
        for score in &mut dimensions {
            score.applied_percent = Figure::unknown(&reason);
        }
        return Scorecard {
            dimensions,
            total: Figure::unknown(&reason),
            uncapped: Figure::unknown(reason),
            capped_by: None,
            grade: None,
        };
    }
    let mut uncapped = 0.0;
    for score in &mut dimensions {
        let Some(value) = score.score.value else {
            score.applied_percent = Figure::unknown("the dimension is unknown");
            continue;
        };
        let applied = f64::from(score.weight_percent) / f64::from(weights) * 100.0;
        score.applied_percent = Figure::known(applied);
        uncapped += value * applied / 100.0;
    }
    let capping = session.findings.iter().find(|finding| {
        let ratio = finding.cost_of_run.value;
        ratio.is_some_and(|ratio| ratio.numerator * 100 > ratio.denominator * CAPPING_PERCENT)
    });
    let total = if capping.is_some() {
        uncapped.min(CAP)
    } else {
        uncapped
    };
    let is_capped = total < uncapped;
    let grade = GRADES.iter().find(|(least, _)| total >= *least);
    Scorecard {
        dimensions,
        total: Figure::known(total),
        uncapped: if is_capped {
            Figure::known(uncapped)
        } else {
            Figure::unknown("the total is not capped")
        },
        capped_by: capping.filter(|_| is_capped).map(|finding| finding.kind.clone()),
        grade: Some(grade.map_or(LOWEST_GRADE, |(_, word)| *word).to_owned()),
    }
}

fn dimension(name: &str, weight_percent: u32, unit: &str, ratio: Result<Ratio, String>) -> Score {
    let of = |pick: fn(&Ratio) -> f64| match &ratio {
        Ok(ratio) => Figure::known(pick(ratio)),
        Err(reason) => Figure::unknown(reason),
    };
    Score {
        name: name.to_owned(),
        score: of(|ratio| ratio.score),
        weight_percent,
        applied_percent: Figure::unknown("not computed yet"),
        numerator: of(|ratio| ratio.numerator),
        denominator: of(|ratio| ratio.denominator),
        unit: unit.to_owned(),
        basis: ratio.map_or_else(|reason| reason, |ratio| ratio.basis),
    }
}

/// Bandwidth: 100 · min(1, Σ bus bytes / Σ(t · peak)) over transfer-bound launches of scopes with a declared peak.
fn bandwidth(session: &Session, stated: &DeclaredLimits) -> Result<Ratio, String> {
    if stated.peaks.is_empty() {
        return Err("no peak is declared (rankscope report --peaks or --peak-busbw)".to_owned());
    }
    let (mut moved, mut possible, mut launches, mut left_out) = (0.0, 0.0, 0, 0);
    for class in &session.operations {
        let bound = class.transfer_bound;
        match stated.peak(class.scope) {
            Some(peak) => {
                moved += bound.bus_bytes;
                possible += bound.transfer_ns / 1e9 * peak;
                launches += bound.launches;
            }
            None => left_out += bound.launches,
        }
    }
    if possible <= 0.0 {
        return Err("no transfer-bound launch in a scope with a declared peak has a bandwidth".to_owned());
    }
    let others = if left_out > 0 {
        format!("; {left_out} launches in scopes without a declared peak are excluded")
    } else {
        String::new()
    };
    Ok(Ratio {
        score: 100.0 * (moved / possible).min(1.0),
        numerator: moved,
        denominator: possible,
        basis: format!(
            "{} of bus traffic, of {} that the declared peaks allow in the time of {launches} transfer-bound \
             launches{others}",
            units::bytes(moved as u64),
            units::bytes(possible as u64)
        ),
    })
}

/// Latency: 100 · min(1, limit / p99 transfer of launches ≤ 64 KiB). Of several scopes, the lowest counts.
fn latency(session: &Session, stated: &DeclaredLimits) -> Result<Ratio, String> {
    if stated.latency_limits.is_empty() {
        return Err("no limit is declared (rankscope report --peaks or --latency-limit)".to_owned());
    }
    let scopes = session.small_launches.iter().filter_map(|small| {
        let limit = stated.latency_limit(small.scope)?;
        (small.transfer_ns.p99 > 0.0).then_some((small, limit))
    });
    let (small, limit) = scopes
        .min_by(|one, other| (one.1 / one.0.transfer_ns.p99).total_cmp(&(other.1 / other.0.transfer_ns.p99)))
        .ok_or("no launch of at most 64 KiB in a scope with a declared limit has a transfer")?;
    let p99 = small.transfer_ns.p99;
    Ok(Ratio {
        score: 100.0 * (limit / p99).min(1.0),
        numerator: limit,
        denominator: p99,
        basis: format!(
            "limit {} / p99 of {} over {} launches of at most 64 KiB ({})",
            shown(limit as i64),
            shown(p99 as i64),
            small.transfer_ns.count,
            small.scope
        ),
    })
}

/// Balance: 100 · (1 − exposed wait / window).
fn balance(session: &Session) -> Result<Ratio, String> {
    if session.ranks.len() < 2 {
        return Err("a single rank waits for no other rank".to_owned());
    }
    if let Some(entry) = session
        .breakdown
        .iter()
        .find(|entry| entry.operations_without_times > 0)
    {
        let name = session
            .ranks
            .get(entry.rank as usize)
            .map_or("a rank", |rank| rank.name.as_str());
        return Err(format!(
            "completion times of operations of {name} were not recorded"
        ));
    }
    if session.totals.operations > 0 && session.totals.instances == 0 {
        return Err("no operation has the records of all its members".to_owned());
    }
    let window: i64 = session.breakdown.iter().map(|entry| entry.window_ns).sum();
    let waited: i64 = session.breakdown.iter().map(|entry| entry.exposed_wait_ns).sum();
    if window <= 0 {
        return Err("no rank has a window".to_owned());
    }
    Ok(Ratio {
        score: (100.0 * (1.0 - waited as f64 / window as f64)).clamp(0.0, 100.0),
        numerator: waited as f64,
        denominator: window as f64,
        basis: format!(
            "{} of {} rank-time is exposed wait for peers",
            shown(waited),
            shown(window)
        ),
    })
}

/// Stability: max(0, 100 · max(0, 1 − 5 · IQR / median of steps) − 10 per failed operation).
fn stability(session: &Session) -> Result<Ratio, String> {
    let steps = &session.steps.duration_ns;
    let quantiles = steps.get().map_err(str::to_owned)?;
    if quantiles.p50 <= 0.0 {
        return Err("the median step has no length".to_owned());
    }
    let spread = quantiles.p75 - quantiles.p25;
    let failed = session.totals.failed;
    let steady = 100.0 * (1.0 - SPREAD_WEIGHT * spread / quantiles.p50).max(0.0);
    Ok(Ratio {
        score: (steady - POINTS_PER_FAILURE * failed as f64).max(0.0),
        numerator: spread,
        denominator: quantiles.p50,
        basis: format!(
            "half of the steps are within {} around a median of {}; {failed} operations failed",
            shown(spread as i64),
            shown(quantiles.p50 as i64)
        ),
    })
}
