//! Libraries that LD_PRELOAD names already.

use crate::surroundings::Surroundings;

/// Entry of LD_PRELOAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path or name, as in the variable.
    pub name: String,
    /// Whether it is a path at which there is no file. The loader searches a name, and replaces `$LIB` and the like.
    pub is_missing: bool,
}

/// Returns the entries, in their order.
pub fn entries(surroundings: &Surroundings) -> Vec<Entry> {
    let list = surroundings.variable("LD_PRELOAD").unwrap_or_default();
    list.split([':', ' '])
        .filter(|name| !name.is_empty())
        .map(|name| Entry {
            name: name.to_owned(),
            is_missing: name.contains('/') && !name.contains('$') && !surroundings.exists(name),
        })
        .collect()
}
