//! Hardware and software of the ranks, from the headers of their logs. Two runs must have these in common to be
//! compared.

use crate::measures::merge_result::MergeResult;
use crate::model::sources::{CUPTI, EVENTS, PLUGIN};
use rankscope_formats::session::Surrounding;
use std::collections::{BTreeMap, BTreeSet};

/// Property with the GPU models that ranks use.
pub const DEVICE_MODEL: &str = "device_model";

/// Properties that are copied unchanged.
const KEPT: [&str; 10] = [
    DEVICE_MODEL,
    "executable",
    "kernel",
    "library.nccl.version",
    "processor_model",
    "processors",
    "rankscope_version",
    PLUGIN,
    EVENTS,
    CUPTI,
];

/// Prefixes of variables that affect communication, or how much a rank computes at once.
const STEERING: [&str; 9] = [
    "env.NCCL_",
    "env.RCCL_",
    "env.GLOO_",
    "env.UCX_",
    "env.FI_",
    "env.OMP_",
    "env.TORCH_",
    "env.CUDA_",
    "env.OMPI_MCA_",
];

/// Maximum number of values of a variable. A variable with more values names ranks or devices and configures nothing.
const MAX_VALUES: usize = 4;

/// Returns the properties of all ranks, by name and value.
pub fn surroundings(parts: &MergeResult<'_>) -> Vec<Surrounding> {
    let mut found: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for rank in &parts.identities.ranks {
        let Some(log) = parts.logs.get(rank.log) else {
            continue;
        };
        // A rank counts once per GPU model that it uses, for any number of devices of that model.
        let models: BTreeSet<&str> = log
            .properties
            .iter()
            .filter(|(property, _)| property.starts_with("device.") && property.ends_with(".model"))
            .map(|(_, model)| model.as_str())
            .collect();
        for model in models {
            *found.entry(DEVICE_MODEL).or_default().entry(model).or_default() += 1;
        }
        for (property, value) in &log.properties {
            let is_kept = KEPT.contains(&property.as_str());
            if is_kept || STEERING.iter().any(|beginning| property.starts_with(beginning)) {
                *found.entry(property).or_default().entry(value).or_default() += 1;
            }
        }
    }
    found
        .into_iter()
        .filter(|(property, values)| KEPT.contains(property) || values.len() <= MAX_VALUES)
        .flat_map(|(property, values)| {
            values.into_iter().map(move |(value, ranks)| Surrounding {
                property: property.to_owned(),
                value: value.to_owned(),
                ranks,
            })
        })
        .collect()
}
