//! Requests of the program: operations of a step, their sizes and order, communicators.

use super::change::untimed;
use crate::Run;
use crate::comparable::{fewest_steps, is_other_count, number};
use rankscope_analysis::model::units;
use rankscope_formats::comparison::{Change, CommunicatorsOfRun, OperationOfRun};
use rankscope_formats::session::Scope;
use std::collections::{BTreeMap, BTreeSet};

/// Relative difference up to which payloads count as equal data. The parts of a split buffer are padded.
const SAME_BYTES: f64 = 0.01;

/// Operations of one kind on communicators of one role and scope.
type Family<'a> = (&'a str, &'a str, Scope);

/// Compares the first run of each side. An earlier check ensures that the runs of a side agree.
pub fn changes(base: &[&Run], new: &[&Run]) -> Vec<Change> {
    let (Some(base), Some(new)) = (base.first(), new.first()) else {
        return Vec::new();
    };
    let steps = fewest_steps(&base.summary, &new.summary);
    let mut out = operations(&base.summary.operations, &new.summary.operations, steps);
    let (one, other) = (&base.summary.steps.sequence, &new.summary.steps.sequence);
    if out.is_empty() && one.is_some() && other.is_some() && one != other {
        let text = "the operations of a step are the same, but their order is different".to_owned();
        out.push(untimed("operations-reordered", text, None));
    }
    out.extend(communicators(
        &base.summary.communicators,
        &new.summary.communicators,
    ));
    out
}

fn operations(base: &[OperationOfRun], new: &[OperationOfRun], steps: u64) -> Vec<Change> {
    fn family(of: &OperationOfRun) -> Family<'_> {
        (&of.operation, &of.role, of.scope)
    }
    let families: BTreeSet<Family<'_>> = base.iter().chain(new).map(family).collect();
    let mut out = Vec::new();
    for of in families {
        let count = |side: &[OperationOfRun]| -> BTreeMap<String, f64> {
            let members = side.iter().filter(|found| family(found) == of);
            members
                .map(|found| (found.class.clone(), found.instances_per_step))
                .collect()
        };
        let bytes = |side: &[OperationOfRun]| -> f64 {
            side.iter()
                .filter(|found| family(found) == of)
                .map(|found| found.bytes_per_step)
                .sum()
        };
        let (before, after) = (count(base), count(new));
        let classes: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let differ: Vec<&String> = classes
            .into_iter()
            .filter(|class| is_other_count(value(&before, class), value(&after, class), steps))
            .collect();
        if differ.is_empty() {
            continue;
        }
        let (bytes_before, bytes_after) = (bytes(base), bytes(new));
        let same_bytes = bytes_before > 0.0
            && (bytes_after - bytes_before).abs() <= SAME_BYTES * bytes_before.max(bytes_after);
        let (operation, role, scope) = of;
        let grew = differ
            .iter()
            .any(|class| value(&after, class) > value(&before, class));
        let shrank = differ
            .iter()
            .any(|class| value(&after, class) < value(&before, class));
        if same_bytes && grew && shrank {
            let total = |of: &BTreeMap<String, f64>| differ.iter().map(|class| value(of, class)).sum::<f64>();
            let text = format!(
                "{operation} ({role}, {scope}) resized: the same {} per step in {} instead of {} operations ({} \
                 instead of {})",
                units::bytes(bytes_after.round() as u64),
                number(total(&after)),
                number(total(&before)),
                list(&after, &differ, of),
                list(&before, &differ, of),
            );
            out.push(untimed("operation-resized", text, None));
            continue;
        }
        for class in differ {
            let (one, other) = (value(&before, class), value(&after, class));
            let (kind, text, is_worse) = if one == 0.0 {
                (
                    "operation-added",
                    format!("added: {} {class} per step", number(other)),
                    Some(true),
                )
            } else if other == 0.0 {
                (
                    "operation-removed",
                    format!("removed: {} {class} per step", number(one)),
                    Some(false),
                )
            } else {
                let text = format!("{class}: {} → {} per step", number(one), number(other));
                ("operation-count", text, Some(other > one))
            };
            out.push(untimed(kind, text, is_worse));
        }
    }
    out
}

fn value(of: &BTreeMap<String, f64>, class: &str) -> f64 {
    of.get(class).copied().unwrap_or(0.0)
}

/// Formats the classes that differ: `4 × 1-2 MiB`.
fn list(counts: &BTreeMap<String, f64>, differ: &[&String], (operation, role, scope): Family<'_>) -> String {
    let shown: Vec<String> = differ
        .iter()
        .filter(|class| value(counts, class) > 0.0)
        .map(|class| {
            // The family is named before, so only the size is listed.
            let rest = class.strip_prefix(operation).unwrap_or(class);
            let size = rest.strip_suffix(&format!(" {role} {scope}")).unwrap_or(rest);
            format!("{} × {}", number(value(counts, class)), size.trim())
        })
        .collect();
    if shown.is_empty() {
        "none".to_owned()
    } else {
        shown.join(", ")
    }
}

fn communicators(base: &[CommunicatorsOfRun], new: &[CommunicatorsOfRun]) -> Vec<Change> {
    let name =
        |of: &CommunicatorsOfRun| format!("{} {} of {} ranks, {}", of.library, of.role, of.size, of.scope);
    let count = |side: &[CommunicatorsOfRun]| -> BTreeMap<String, u32> {
        side.iter().map(|of| (name(of), of.count)).collect()
    };
    let (before, after) = (count(base), count(new));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differ: Vec<String> = names
        .into_iter()
        .filter_map(|name| {
            let (one, other) = (before.get(name).unwrap_or(&0), after.get(name).unwrap_or(&0));
            (one != other).then(|| format!("{name}: {one} → {other}"))
        })
        .collect();
    if differ.is_empty() {
        Vec::new()
    } else {
        vec![untimed(
            "communicators",
            format!("communicators changed: {}", differ.join("; ")),
            None,
        )]
    }
}
