//! Environment variables that control communication.

use super::change::untimed;
use crate::Run;
use rankscope_formats::comparison::Change;
use std::collections::BTreeMap;

/// Variables set by rankscope itself.
const OWN: [&str; 1] = ["NCCL_PROFILER_PLUGIN"];

/// Returns the variables with a different value on the new side.
pub fn changes(base: &[&Run], new: &[&Run]) -> Vec<Change> {
    let (Some(base), Some(new)) = (base.first(), new.first()) else {
        return Vec::new();
    };
    let (before, after) = (variables(base), variables(new));
    let names: std::collections::BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    names
        .into_iter()
        .filter(|name| !OWN.contains(name) && before.get(name) != after.get(name))
        .map(|name| {
            let value =
                |of: &BTreeMap<&str, String>| of.get(name).cloned().unwrap_or_else(|| "not set".to_owned());
            untimed(
                "environment",
                format!("{name}: {} → {}", value(&before), value(&after)),
                None,
            )
        })
        .collect()
}

fn variables(run: &Run) -> BTreeMap<&str, String> {
    let mut out: BTreeMap<&str, String> = BTreeMap::new();
    for found in &run.summary.surroundings {
        if let Some(name) = found.property.strip_prefix("env.") {
            let value = out.entry(name).or_default();
            if !value.is_empty() {
                value.push_str(" and ");
            }
            value.push_str(&found.value);
        }
    }
    out
}
