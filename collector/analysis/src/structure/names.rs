//! Roles from the names of groups: `mesh_tp`, `pipeline_parallel_group`, `dp_cp`.

/// Roles, and the words that mean them in names.
const WORDS: [(&str, &[&str]); 5] = [
    ("tensor", &["tp", "tensor", "mp"]),
    ("pipeline", &["pp", "pipe", "pipeline"]),
    (
        "data",
        &["dp", "data", "ddp", "fsdp", "hsdp", "replicate", "shard"],
    ),
    ("expert", &["ep", "expert", "experts", "moe"]),
    ("context", &["cp", "context", "sp", "sequence", "ulysses"]),
];

/// All roles and combinations of roles that a name can give, as static strings.
const JOINED: [&str; 31] = [
    "tensor",
    "pipeline",
    "data",
    "expert",
    "context",
    "tensor+pipeline",
    "tensor+data",
    "tensor+expert",
    "tensor+context",
    "pipeline+data",
    "pipeline+expert",
    "pipeline+context",
    "data+expert",
    "data+context",
    "expert+context",
    "tensor+pipeline+data",
    "tensor+pipeline+expert",
    "tensor+pipeline+context",
    "tensor+data+expert",
    "tensor+data+context",
    "tensor+expert+context",
    "pipeline+data+expert",
    "pipeline+data+context",
    "pipeline+expert+context",
    "data+expert+context",
    "tensor+pipeline+data+expert",
    "tensor+pipeline+data+context",
    "tensor+pipeline+expert+context",
    "tensor+data+expert+context",
    "pipeline+data+expert+context",
    "tensor+pipeline+data+expert+context",
];

/// Returns the role that a group's name gives, if any.
pub fn role(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    let said: Vec<&str> = WORDS
        .iter()
        .filter(|(_, known)| words.iter().any(|word| known.contains(word)))
        .map(|&(role, _)| role)
        .collect();
    let joined = said.join("+");
    JOINED.into_iter().find(|known| *known == joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_of_a_name_give_the_role() {
        for (name, expected) in [
            ("mesh_tp", Some("tensor")),
            ("TENSOR_MODEL_PARALLEL_GROUP", Some("tensor")),
            ("pipeline_parallel_group", Some("pipeline")),
            ("mesh_dp_shard", Some("data")),
            ("mesh_dp_cp", Some("data+context")),
            ("expert_tensor_parallel", Some("tensor+expert")),
            ("default_pg/0/", None),
            ("mesh_pipe2", Some("pipeline")),
            ("cpu:gloo", None),
            ("steps", None),
            ("", None),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    #[test]
    fn every_union_of_words_has_a_name() {
        for set in 1..32_usize {
            let name: Vec<&str> = (0..5)
                .filter(|bit| set & (1 << bit) != 0)
                .map(|bit| WORDS[bit].1[0])
                .collect();
            assert!(role(&name.join("_")).is_some(), "{name:?}");
        }
    }
}
