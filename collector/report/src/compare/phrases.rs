//! Sentences about a comparison, shared by all formats.

use super::shown;
use crate::figures;
use crate::figures::{count, counted, moment, quoted, rule};
use crate::prose::{Prose, prose};
use crate::source::{among, number, sum};
use rankscope_analysis::model::units;
use rankscope_formats::comparison::{Better, DifferenceEffect};
use rankscope_formats::comparison::{Comparison, Detectable, MetricResult, RunUsed, SideSummary};

/// Maximum number of directories in a line.
const MAX_DIRECTORIES: usize = 3;

/// Returns the metric with this full name, and its position.
pub fn metric<'a>(comparison: &'a Comparison, full_name: &str) -> Option<(String, &'a MetricResult)> {
    let mut metrics = comparison.metrics.iter().enumerate();
    let (at, metric) = metrics.find(|(_, metric)| metric.full_name() == full_name)?;
    Some((format!("/metrics/{at}"), metric))
}

/// Formats metric and subject, each with its source.
pub fn name(metric: &MetricResult, at: &str) -> Prose {
    let name = quoted(&metric.metric, format!("{at}/metric"));
    match &metric.subject {
        Some(subject) => prose![name, "[", quoted(subject, format!("{at}/subject")), "]"],
        None => name.into(),
    }
}

/// Adds a full stop if it is missing. Single sentences of the JSON have none.
pub fn ended(sentence: impl Into<Prose>) -> Prose {
    let mut sentence = sentence.into();
    if !sentence.plain().ends_with(['.', '!', '?']) {
        sentence.push(".");
    }
    sentence
}

/// Returns the reason for a gate's verdict, and the number of runs that would decide it.
pub fn gate_reason(comparison: &Comparison, at: usize) -> Prose {
    let Some(gate) = comparison.gates.get(at) else {
        return Prose::default();
    };
    let of = |field: &str| format!("/gates/{at}/{field}");
    let reason = quoted(&gate.reason, of("reason"));
    match gate.runs_needed {
        None => reason.into(),
        Some(runs) => prose![
            ended(reason),
            " ",
            repeats(comparison, runs, of("runs_needed")),
            " per side would decide."
        ],
    }
}

/// Formats `23 runs`, or batches if these are the unit of variation.
pub fn repeats(comparison: &Comparison, number: u32, from: String) -> Prose {
    if comparison.method.unit == "batches" {
        prose![count(u64::from(number), from), " batches"]
    } else {
        counted(u64::from(number), "run", from)
    }
}

/// Returns the rule of a gate, with its metric if a rule with a pattern became several gates.
pub fn gate_name(comparison: &Comparison, at: usize) -> Prose {
    let Some(gate) = comparison.gates.get(at) else {
        return Prose::default();
    };
    let rule = quoted(&gate.rule, format!("/gates/{at}/rule"));
    let alike = comparison.gates.iter().filter(|other| other.rule == gate.rule);
    if alike.count() > 1 {
        prose![rule, ": ", quoted(&gate.metric, format!("/gates/{at}/metric"))]
    } else {
        rule.into()
    }
}

/// Formats a change of values: `49.8 ms to 52.8 ms, +6.1 % ± 0.8 %`.
pub fn values(metric: &MetricResult, at: &str) -> Prose {
    prose![
        shown::value(metric.base, &metric.unit, format!("{at}/base")),
        " to ",
        shown::value(metric.new, &metric.unit, format!("{at}/new")),
        ", ",
        shown::change(metric, at)
    ]
}

/// Returns the smallest detectable change of a gated metric, with the sign of a change for the worse.
pub fn smallest(comparison: &Comparison, at: usize, detectable: &Detectable) -> Prose {
    let of = |field: &str| format!("/detectable/{at}/{field}");
    let name = quoted(&detectable.metric, of("metric"));
    let known = metric(comparison, &detectable.metric);
    // The sizes are those of changes for the worse: a rise, or a fall if higher is better.
    let falls = known
        .as_ref()
        .is_some_and(|(_, metric)| metric.better == Better::Higher);
    let is_share = known.as_ref().is_some_and(|(_, metric)| metric.unit == "share");
    let unit = known.as_ref().map_or("ns", |(_, metric)| metric.unit.as_str());
    let sized = |value: f64, from: String| {
        let worse = if falls { -value.abs() } else { value.abs() };
        // If the stored value has the other sign, the source negates it.
        let from = if worse == value {
            from
        } else {
            format!("less(0,{from})")
        };
        (worse, from)
    };
    match (&detectable.relative.value, &detectable.change.value) {
        (Some(relative), _) if !is_share && relative.is_finite() => {
            let (worse, from) = sized(*relative, of("relative/value"));
            prose![name, " from ", figures::relative_change(worse, from)]
        }
        (_, Some(change)) if known.is_some() && change.is_finite() => {
            let (worse, from) = sized(*change, of("change/value"));
            prose![name, " from ", figures::change(worse, unit, from)]
        }
        _ => {
            let (figure, field) = match detectable.change.value {
                Some(_) => (&detectable.relative, "relative/reason"),
                None => (&detectable.change, "change/reason"),
            };
            let reason = match &figure.reason {
                Some(reason) => quoted(reason, of(field)).into(),
                None => Prose::from("not computed"),
            };
            prose![name, ": nothing (", reason, ")"]
        }
    }
}

/// Returns the smallest detectable changes and their meaning, or nothing without gates.
pub fn can_find(comparison: &Comparison) -> Option<Prose> {
    let all = comparison.detectable.iter().enumerate();
    let sizes: Vec<Prose> = all.map(|(at, of)| smallest(comparison, at, of)).collect();
    if sizes.is_empty() {
        return None;
    }
    let mut text = prose!["This comparison can find: ", Prose::join(sizes, "; "), "."];
    if comparison.detectable.iter().any(|of| of.change.value.is_some()) {
        text.push(prose![
            " A change for the worse of this size is found in ",
            rule("95 %"),
            " of cases."
        ]);
    }
    Some(text)
}

/// Returns the effect of a difference on the verdict.
pub fn effect(effect: DifferenceEffect) -> &'static str {
    match effect {
        DifferenceEffect::Blocks => "no verdict is possible",
        DifferenceEffect::CannotPass => "a regression counts, a pass does not",
        DifferenceEffect::Accepted => effect.name(),
    }
}

/// Returns the change of the step time.
pub fn step_change(comparison: &Comparison) -> Prose {
    let of = |field: &str| format!("/attribution/{field}");
    let attribution = &comparison.attribution;
    let time = figures::time;
    prose![
        "The step of the mean rank took ",
        time(attribution.base_step_ns, of("base_step_ns")),
        ", now ",
        time(attribution.new_step_ns, of("new_step_ns")),
        ": ",
        figures::change(attribution.change_ns as f64, "ns", of("change_ns")),
        ". The parts add up to it."
    ]
}

/// Describes the runs of a side.
pub fn side(side: &SideSummary, of: &str) -> Prose {
    let compared = || side.runs.iter().filter(|run| run.is_compared);
    let for_noise = side.runs.iter().filter(|run| !run.is_compared).count();
    if side.runs.is_empty() {
        return "no runs".into();
    }
    let mut text = Prose::default();
    if let Some(label) = &side.label {
        text.push(prose![quoted(label, format!("{of}/label")), ": "]);
    }
    text.push(counted(
        side.runs.len() as u64,
        "run",
        number(format!("{of}/runs/*")),
    ));
    if side.batches > 1 {
        text.push(prose![
            " in ",
            count(u64::from(side.batches), format!("{of}/batches")),
            " batches"
        ]);
    }
    if for_noise > 0 {
        text.push(prose![
            " (",
            figures::drawn(units::count(for_noise as u64)),
            " of them only for the noise)"
        ]);
    }
    if let Some(first) = side.runs.first() {
        text.push(prose![
            ", from ",
            moment(first.name.started_unix_ns, format!("{of}/runs/0/started_unix_ns"))
        ]);
    }
    let total = |field: fn(&RunUsed) -> u64| compared().map(field).sum::<u64>();
    let compared_at: Vec<usize> = (0..side.runs.len())
        .filter(|&at| side.runs[at].is_compared)
        .collect();
    let from = |field: &str| sum(&[among(&format!("{of}/runs"), compared_at.iter().copied(), field)]);
    if !compared_at.is_empty() {
        text.push(prose![
            "; ",
            counted(total(|run| run.steps), "step", from("/steps")),
            ", ",
            count(total(|run| run.warm_up), from("/warm_up")),
            " more left out as warm-up, ",
            counted(total(|run| run.outliers), "outlier", from("/outliers"))
        ]);
    }
    text
}

/// Returns the directories of a side, as many as fit into a line.
pub fn directories(side: &SideSummary, of: &str) -> Prose {
    let runs = side.runs.iter().enumerate().take(MAX_DIRECTORIES);
    let mut text = Prose::join(
        runs.map(|(at, run)| quoted(&run.name.directory, format!("{of}/runs/{at}/directory"))),
        ", ",
    );
    if let Some(more) = side
        .runs
        .len()
        .checked_sub(MAX_DIRECTORIES)
        .filter(|more| *more > 0)
    {
        text.push(prose![" and ", figures::drawn(more.to_string()), " more"]);
    }
    text
}

/// Returns the first directories of a side.
pub fn first_directories(side: &SideSummary) -> impl Iterator<Item = &str> {
    let runs = side.runs.iter().take(MAX_DIRECTORIES);
    runs.map(|run| run.name.directory.as_str())
}

/// Describes the method, in a few sentences per topic.
pub fn method(comparison: &Comparison) -> Vec<Prose> {
    let method = &comparison.method;
    let of = |field: &str| format!("/method/{field}");
    let percent = |value: f64, field: &str| figures::percent(value, of(field));
    let mut noise = prose![
        match method.unit.as_str() {
            "runs" => "Runs vary independently.",
            "batches" => "Batches of runs vary independently.",
            "blocks" => "Blocks of steps of one run vary independently, and runs by the stored noise.",
            _ => "No noise is known.",
        },
        if method.is_interleaved {
            " Base and new runs alternated, so that a drift of the machine affects both."
        } else {
            " Base and new runs did not alternate: a drift of the machine looks like a change."
        }
    ];
    if !method.noise.is_empty() {
        let how = ended(quoted(&method.noise, of("noise")));
        noise.push(prose![" Noise: ", how]);
    }
    if let Some(degrees) = method.degrees_of_freedom.value {
        let degrees = figures::mean(degrees, "count", of("degrees_of_freedom/value"));
        noise.push(prose![" Step time has ", degrees, " degrees of freedom."]);
    } else if let Some(reason) = &method.degrees_of_freedom.reason {
        let reason = quoted(reason, of("degrees_of_freedom/reason"));
        noise.push(prose![" Degrees of freedom: – (", reason, ")."]);
    }
    let rules = prose![
        "Warm-up: ",
        quoted(&method.warm_up_rule, of("warm_up_rule")),
        ". Outliers: ",
        quoted(&method.outlier_rule, of("outlier_rule")),
        ". ",
        outlier_effect(comparison)
    ];
    let chances = prose![
        "If nothing changed, any gate fails in at most ",
        percent(method.family_alpha, "family_alpha"),
        " of cases, a single one in ",
        percent(method.gate_alpha, "gate_alpha"),
        ". At its limit a gate passes in at most ",
        percent(method.pass_alpha, "pass_alpha"),
        ". Of the other metrics called changed at most ",
        percent(method.false_discovery_rate, "false_discovery_rate"),
        " are expected to be false; their intervals hold in ",
        percent(method.confidence, "confidence"),
        " of cases. Unchanged: within ",
        percent(method.margin, "margin"),
        ", as the interval shows."
    ];
    vec![noise, rules, chances]
}

/// Describes the effect of outliers on the step time.
pub fn outlier_effect(comparison: &Comparison) -> Prose {
    let of = |field: &str| format!("/method/outlier_effect/{field}");
    let figure = &comparison.method.outlier_effect;
    match (&figure.value, &figure.reason) {
        (Some(effect), _) => prose![
            "With them the step time changes by ",
            figures::relative_change(effect.change_with, of("value/change_with")),
            ", without them by ",
            figures::relative_change(effect.change_without, of("value/change_without")),
            " (",
            count(effect.base_outliers, of("value/base_outliers")),
            " in the base, ",
            count(effect.new_outliers, of("value/new_outliers")),
            " in the new runs)."
        ],
        (None, Some(reason)) => prose!["Their effect: – (", quoted(reason, of("reason")), ")."],
        (None, None) => "Their effect: –.".into(),
    }
}

/// Returns the command that shows both sides on one screen, or why there is none.
pub fn view_command(comparison: &Comparison) -> Result<String, &'static str> {
    let there = |side: &SideSummary| {
        let mut runs = side.runs.iter().filter(|run| !run.is_stored);
        let first = runs.clone().next();
        let run = runs.find(|run| run.is_compared).or(first);
        run.map(|run| run.name.directory.clone())
    };
    let new = there(&comparison.new).ok_or("no session of the new runs is stored")?;
    let base = there(&comparison.base).ok_or("no session of the base is stored")?;
    Ok(format!(
        "rankscope view {} --compare {}",
        shell_word(&new),
        shell_word(&base)
    ))
}

/// Quotes a path for a shell.
fn shell_word(path: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !path.is_empty() && path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_paths_back() {
        assert_eq!(shell_word("/scratch/run-1"), "/scratch/run-1");
        assert_eq!(shell_word("my run's"), r"'my run'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
