//! Named times of a host: input, checkpoints, evaluation, garbage collection, the optimizer.
//!
//! The sources are marks, ranges, annotations and the recorder's hooks. Only names count as evidence. Garbage
//! collection has a name only if the program marks it or an import contains it.

use rankscope_formats::session::PauseKind;
use rankscope_ranklog::marks::{CHECKPOINT_LOAD, CHECKPOINT_SAVE};

/// Kinds in order of precedence. If a name fits several, the first one counts.
pub const KINDS: [PauseKind; 6] = [
    PauseKind::GarbageCollection,
    PauseKind::Checkpoint,
    PauseKind::Evaluation,
    PauseKind::Input,
    PauseKind::Optimizer,
    PauseKind::BetweenPasses,
];

/// Number of kinds.
pub const COUNT: usize = KINDS.len();

/// Lower-case words that identify a kind.
const WORDS: [(PauseKind, &[&str]); 5] = [
    (PauseKind::GarbageCollection, &["gc", "garbage"]),
    (
        PauseKind::Checkpoint,
        &["checkpoint", "checkpoints", "ckpt", "checkpointing"],
    ),
    (
        PauseKind::Evaluation,
        &["eval", "evaluate", "evaluation", "validate", "validation", "val"],
    ),
    (
        PauseKind::Input,
        &[
            "dataloader",
            "dataloading",
            "loader",
            "input",
            "inputs",
            "prefetch",
            "fetch",
        ],
    ),
    (PauseKind::Optimizer, &["optimizer", "optimiser"]),
];

/// If one of these words occurs together with `checkpoint`, the name means activation checkpointing. That recomputes
/// activations and belongs to training.
const RECOMPUTES: [&str; 5] = ["activation", "activations", "recompute", "forward", "backward"];

/// Pairs of words that identify a kind together, but not alone.
const PAIRS: [(PauseKind, &str, &str); 5] = [
    (PauseKind::Input, "data", "load"),
    (PauseKind::Input, "data", "loading"),
    (PauseKind::Input, "load", "batch"),
    (PauseKind::Input, "next", "batch"),
    (PauseKind::Input, "get", "batch"),
];

/// Returns the kind that a name identifies, or `None`.
pub fn kind_of(name: &str) -> Option<PauseKind> {
    if name == CHECKPOINT_SAVE || name == CHECKPOINT_LOAD {
        return Some(PauseKind::Checkpoint);
    }
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let has = |word: &str| words.contains(&word);
    let found = WORDS
        .iter()
        .find(|(kind, said)| {
            let recomputes = *kind == PauseKind::Checkpoint && RECOMPUTES.into_iter().any(has);
            said.iter().any(|word| has(word)) && !recomputes
        })
        .map(|&(kind, _)| kind);
    found.or_else(|| {
        let pair = PAIRS.into_iter().find(|(_, one, other)| has(one) && has(other));
        pair.map(|(kind, ..)| kind)
    })
}

/// Returns the index of a kind in [`KINDS`].
pub fn position(kind: PauseKind) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(COUNT - 1)
}

/// Returns the unit that a mark with a trailing number counts: `tokens 4096`, `samples=32`.
pub fn counts(text: &str) -> Option<&'static str> {
    let what = text.trim_end_matches(|c: char| !c.is_alphabetic()).to_lowercase();
    ["tokens", "samples"].into_iter().find(|known| *known == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_pause_gives_its_kind() {
        for (name, expected) in [
            (
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                Some(PauseKind::Input),
            ),
            ("load_data", Some(PauseKind::Input)),
            ("get_batch", Some(PauseKind::Input)),
            ("Optimizer.step#AdamW.step", Some(PauseKind::Optimizer)),
            ("save-checkpoint", Some(PauseKind::Checkpoint)),
            (CHECKPOINT_SAVE, Some(PauseKind::Checkpoint)),
            ("activation checkpointing", None),
            ("validation_epoch", Some(PauseKind::Evaluation)),
            ("gc.collect", Some(PauseKind::GarbageCollection)),
            ("evaluation input", Some(PauseKind::Evaluation)),
            ("forward", None),
            ("value_head", None),
            ("aten::batch_norm", None),
            ("step 12", None),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }

    #[test]
    fn the_counted_unit_is_before_the_number() {
        for (text, expected) in [
            ("tokens #", Some("tokens")),
            ("Samples=#", Some("samples")),
            ("tokens", Some("tokens")),
            ("step #", None),
            ("more tokens #", None),
        ] {
            assert_eq!(counts(text), expected, "{text}");
        }
    }
}
