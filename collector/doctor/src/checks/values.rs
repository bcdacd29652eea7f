//! Values that a library does not know.
//!
//! Sources: NCCL's documentation, "Environment Variables" (NCCL_ALGO, NCCL_PROTO, NCCL_DEBUG, NCCL_NVLS_ENABLE), and
//! ibv_modify_qp(3) for the size of the timeout and of the retry counter.

use crate::check::Check;
use crate::facts::topology::Topology;
use crate::facts::variables::Variables;
use crate::facts::version::Version;

/// Algorithms, and the first version of NCCL that has each.
const ALGORITHMS: [(&str, (u32, u32)); 7] = [
    ("tree", (2, 0)),
    ("ring", (2, 0)),
    ("collnetdirect", (2, 14)),
    ("collnetchain", (2, 14)),
    ("nvls", (2, 17)),
    ("nvlstree", (2, 18)),
    ("pat", (2, 23)),
];
const PROTOCOLS: [&str; 3] = ["ll", "ll128", "simple"];
const DEBUG_LEVELS: [&str; 5] = ["VERSION", "WARN", "INFO", "ABORT", "TRACE"];
/// Largest values of fields of a queue pair: five bits, and three bits.
const MAX_IB_TIMEOUT: i64 = 31;
const MAX_IB_RETRIES: i64 = 7;
/// Parts of the names of NVIDIA's GPUs before Hopper, and of those without NVSwitch. They have no NVLink SHARP.
const WITHOUT_NVLS: [&str; 12] = [
    "P100", "V100", "T4", "A100", "A800", "A30", "A40", "A10", "L4", "RTX", "GeForce", "Quadro",
];

/// Returns the names in a value such as `^tree`, or since 2.24 `allreduce:ring,tree;broadcast:ring`.
fn words(value: &str) -> Vec<String> {
    value
        .split(';')
        .map(|part| part.rsplit(':').next().unwrap_or(part))
        .map(|part| part.trim().trim_start_matches('^'))
        .flat_map(|part| part.split(','))
        .map(|word| word.trim().to_ascii_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Checks values against a version of NCCL; without a version every known value is accepted.
pub fn check(variables: &Variables, nccl: Option<Version>) -> Vec<Check> {
    let mut out = Vec::new();
    if let Some(value) = variables.get("NCCL_ALGO") {
        out.extend(words(value).iter().find_map(|word| algorithm(value, word, nccl)));
    }
    if let Some(value) = variables.get("NCCL_PROTO")
        && let Some(word) = words(value)
            .iter()
            .find(|word| !PROTOCOLS.contains(&word.as_str()))
    {
        out.push(
            Check::of_variable(
                "value-unknown",
                format!("NCCL_PROTO={value}: NCCL knows no protocol {word}"),
            )
            .advise("set LL, LL128 or Simple"),
        );
    }
    if let Some(value) = variables.get("NCCL_DEBUG")
        && !DEBUG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(value))
    {
        out.push(
            Check::of_variable(
                "value-unknown",
                format!("NCCL_DEBUG={value}: NCCL knows no such level, so nothing is logged"),
            )
            .advise("set VERSION, WARN, INFO or TRACE"),
        );
    }
    for (name, least, most) in [
        ("NCCL_IB_TIMEOUT", 1, MAX_IB_TIMEOUT),
        ("NCCL_IB_RETRY_CNT", 0, MAX_IB_RETRIES),
    ] {
        if let Some(number) = variables.number(name)
            && !(least..=most).contains(&number)
        {
            out.push(
                Check::of_variable(
                    "value-out-of-range",
                    format!("{name}={number} is not between {least} and {most}"),
                )
                .because("the adapter's field is not larger: it refuses the value, or uses another"),
            );
        }
    }
    out
}

fn algorithm(value: &str, word: &str, nccl: Option<Version>) -> Option<Check> {
    match ALGORITHMS.iter().find(|(name, _)| *name == word) {
        // Before 2.14 this was the name of the first CollNet algorithm. Later versions may accept it.
        None if word == "collnet" => None,
        None => Some(
            Check::of_variable(
                "value-unknown",
                format!("NCCL_ALGO={value}: NCCL knows no algorithm {word}"),
            )
            .advise("set Tree, Ring, CollnetDirect, CollnetChain, NVLS, NVLSTree or PAT"),
        ),
        Some((_, (major, minor))) => {
            let nccl = nccl.filter(|nccl| !nccl.is_at_least(*major, *minor))?;
            Some(Check::of_variable(
                "value-unknown",
                format!("NCCL_ALGO={value}: {word} exists from NCCL {major}.{minor} on, and this is {nccl}"),
            ))
        }
    }
}

/// Checks values against the GPUs.
pub fn with_devices(variables: &Variables, topology: &Topology) -> Option<Check> {
    if variables.get("NCCL_NVLS_ENABLE") != Some("1") {
        return None;
    }
    let models: Vec<&str> = topology
        .gpus
        .iter()
        .filter_map(|gpu| gpu.model.as_deref())
        .collect();
    let lacks = |model: &&&str| {
        model
            .split([' ', '-'])
            .any(|word| WITHOUT_NVLS.iter().any(|name| word.starts_with(name)))
    };
    let model = models.iter().find(lacks)?;
    Some(
        Check::of_variable(
            "nvls-unsupported",
            format!("NCCL_NVLS_ENABLE=1, and {model} has no NVLink SHARP"),
        )
        .because("NVLink SHARP needs GPUs from Hopper on, with NVSwitch from the third generation on")
        .advise("unset NCCL_NVLS_ENABLE: NCCL uses it where it exists"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)], nccl: [u32; 3]) -> Vec<String> {
        let variables = Variables::from_pairs(pairs.iter().copied());
        let checks = check(&variables, Some(Version(nccl)));
        checks.into_iter().map(|check| check.title).collect()
    }

    #[test]
    fn both_forms_of_algorithms_are_read() {
        let none: [String; 0] = [];
        assert_eq!(found(&[("NCCL_ALGO", "Ring,Tree")], [2, 18, 3]), none);
        assert_eq!(found(&[("NCCL_ALGO", "^NVLS,NVLSTree")], [2, 18, 3]), none);
        assert_eq!(
            found(&[("NCCL_ALGO", "ring;allreduce:tree,collnetdirect")], [2, 28, 9]),
            none
        );
        assert_eq!(found(&[("NCCL_ALGO", "PAT")], [2, 18, 3]).len(), 1);
        assert_eq!(found(&[("NCCL_ALGO", "butterfly")], [2, 28, 9]).len(), 1);
    }

    #[test]
    fn fields_of_the_adapter_are_narrow() {
        assert!(found(&[("NCCL_IB_TIMEOUT", "23")], [2, 28, 9]).is_empty());
        assert_eq!(
            found(
                &[("NCCL_IB_TIMEOUT", "3600"), ("NCCL_IB_RETRY_CNT", "10")],
                [2, 28, 9]
            )
            .len(),
            2
        );
    }
}
