//! The scorecard.

use super::line::{Level, Line};
use crate::figures::{self, quoted, rule};
use crate::prose::{Prose, prose};
use rankscope_formats::session::{Score, Scorecard};

/// Returns the total of a scorecard, or why there is none.
pub fn score_total(card: &Scorecard) -> Line {
    match card.total.get() {
        Ok(&total) => {
            let grade = card.grade.as_deref().unwrap_or("");
            let capped = match (&card.capped_by, card.uncapped.get()) {
                (Some(kind), Ok(&uncapped)) => Some(prose![
                    "; without its costliest finding (",
                    quoted(kind, "/scorecard/capped_by"),
                    ") ",
                    figures::decimal(uncapped, 0, "/scorecard/uncapped/value")
                ]),
                _ => None,
            };
            let level = match grade {
                "excellent" => Level::Good,
                "good" => Level::Plain,
                _ => Level::Warning,
            };
            Line::new(
                level,
                prose![
                    figures::decimal(total, 0, "/scorecard/total/value"),
                    " of ",
                    rule("100"),
                    format!(", {grade}"),
                    capped
                ],
            )
        }
        Err(reason) => Line::new(
            Level::Plain,
            prose!["– (", quoted(reason, "/scorecard/total/reason"), ")"],
        ),
    }
}

/// Formats the weight of a dimension in METRICS.md, and its effective weight if other dimensions are unknown.
pub fn score_weight(score: &Score, from: &str) -> Prose {
    let weight = figures::percent_as_is(
        f64::from(score.weight_percent),
        0,
        format!("{from}/weight_percent"),
    );
    match score.applied_percent.get() {
        Ok(&applied) if (applied - f64::from(score.weight_percent)).abs() > 0.05 => {
            let applied = figures::percent_as_is(applied, 1, format!("{from}/applied_percent/value"));
            prose![weight, " → ", applied]
        }
        _ => weight.into(),
    }
}
