//! Machine of a key, from the hardware of runs. Runs of different machines must not share a key by accident.

use rankscope_analysis::summary::surroundings::DEVICE_MODEL;
use rankscope_formats::comparison::RunSummary;
use std::collections::BTreeSet;

/// Returns the machine of a run, for example `AMD EPYC 7B13, 16 processors, NVIDIA A100-SXM4-80GB`. `None`: the run
/// does not record its processor.
pub fn machine(run: &RunSummary) -> Option<String> {
    let models = values(run, "processor_model");
    let counts = values(run, "processors");
    if models.is_empty() || counts.is_empty() {
        return None;
    }
    let models: Vec<&str> = models.into_iter().collect();
    let mut counts: Vec<&str> = counts.into_iter().collect();
    counts.sort_by_key(|count| (count.len(), *count));
    let mut machine = format!("{}, {} processors", models.join(" and "), counts.join(" and "));
    if run.world.hosts.len() > 1 {
        machine = format!("{} hosts with {machine}", run.world.hosts.len());
    }
    let devices: Vec<&str> = values(run, DEVICE_MODEL).into_iter().collect();
    if !devices.is_empty() {
        machine = format!("{machine}, {}", devices.join(" and "));
    } else if ["nccl", "device"].contains(&run.kind.as_str()) {
        machine.push_str(", unknown devices");
    }
    Some(machine)
}

fn values<'a>(run: &'a RunSummary, property: &str) -> BTreeSet<&'a str> {
    let known = run.surroundings.iter().filter(|known| known.property == property);
    known.map(|known| known.value.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::test_runs::{run, surrounding};

    #[test]
    fn machines_of_other_kinds_have_other_names() {
        let plain = run("a");
        assert_eq!(machine(&plain).as_deref(), Some("Xeon, 16 processors"));
        let mut more = run("b");
        more.surroundings[1].value = "32".into();
        let mut devices = run("c");
        devices.kind = "nccl".into();
        let mut hosts = run("d");
        hosts.world.hosts.push("b".into());
        let mut model = devices.clone();
        model
            .surroundings
            .push(surrounding(DEVICE_MODEL, "NVIDIA A100-SXM4-80GB"));
        assert_eq!(
            machine(&model).as_deref(),
            Some("Xeon, 16 processors, NVIDIA A100-SXM4-80GB")
        );
        let names: BTreeSet<_> = [&plain, &more, &devices, &model, &hosts].map(machine).into();
        assert_eq!(names.len(), 5, "{names:?}");
    }

    #[test]
    fn a_run_without_surroundings_has_no_machine() {
        let mut unknown = run("a");
        unknown.surroundings.remove(0);
        assert_eq!(machine(&unknown), None);
    }
}
