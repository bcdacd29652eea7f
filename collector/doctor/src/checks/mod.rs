//! Checks: functions from facts to results, one subject per file.

mod clock;
mod command;
mod container;
mod contradictions;
mod costs;
mod driver;
mod host_name;
mod interfaces;
mod libraries;
mod limits;
mod nearness;
mod network;
mod nvlink;
mod pcie;
mod preload;
mod rdma;
mod shared_memory;
pub mod sources;
mod torch_variables;
mod unknown_variables;
mod values;

use crate::check::{Check, Subject};
use crate::facts::Facts;
use crate::facts::libraries::{Kind, Library};
use crate::facts::variables::Variables;
use crate::facts::version::Version;
use crate::ignored::WhyIgnored;
use crate::launcher::Launcher;

/// Runs all checks, in the order of the subjects.
pub fn all(facts: &Facts, launcher: &Launcher, why_ignored: WhyIgnored) -> Vec<Check> {
    let version = |kind| facts.libraries.first(kind).and_then(Library::numbers);
    let mut out = Vec::new();
    out.extend(command::check(facts));
    out.extend(preload::check(facts, launcher));
    out.extend(libraries::check(facts));
    out.extend(sources::check(facts, launcher));
    out.extend(clock::check(&facts.machine));
    out.extend(shared_memory::check(&facts.machine));
    out.extend(limits::check(&facts.machine, &facts.topology));
    out.extend(container::check(&facts.machine));
    out.extend(driver::check(facts));
    out.extend(host_name::check(facts));
    out.extend(nvlink::check(&facts.topology));
    out.extend(pcie::check(&facts.topology));
    out.extend(rdma::check(&facts.topology));
    out.extend(nearness::check(&facts.topology));
    out.extend(network::check(&facts.topology));
    out.extend(unknown_variables::check(facts, why_ignored));
    out.extend(interfaces::check(&facts.variables, &facts.topology));
    out.extend(contradictions::with_devices(&facts.variables, &facts.topology));
    out.extend(values::with_devices(&facts.variables, &facts.topology));
    out.extend(of_variables(
        &facts.variables,
        version(Kind::Nccl),
        version(Kind::PyTorch),
    ));
    if !out.iter().any(|check| check.subject == Subject::Variables) {
        out.push(unknown_variables::nothing_found(facts));
    }
    out.sort_by_key(|check| (check.subject, std::cmp::Reverse(check.severity)));
    out
}

/// Runs the checks that need only variables, and versions if they are known. They also judge the variables of a
/// recorded run.
pub fn of_variables(variables: &Variables, nccl: Option<Version>, torch: Option<Version>) -> Vec<Check> {
    let mut out = contradictions::check(variables);
    out.extend(values::check(variables, nccl));
    out.extend(torch_variables::check(variables, torch));
    out.extend(costs::check(variables));
    out
}
