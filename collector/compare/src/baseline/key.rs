//! Key of an entry: the branch, the machine and the job of its runs.

use rankscope_formats::comparison::StoredBatch;
use std::fmt;

/// Branch, machine and job. Runs are compared with the entries of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Branch of the recorded program.
    pub branch: String,
    /// Machine, or type of machine, of the runs.
    pub machine: String,
    /// Name of the job.
    pub job: String,
}

impl Key {
    /// Returns the key of an entry.
    pub fn of(batch: &StoredBatch) -> Self {
        Self {
            branch: batch.branch.clone(),
            machine: batch.machine.clone(),
            job: batch.job.clone(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "branch {}, machine {}, job {}",
            self.branch, self.machine, self.job
        )
    }
}

/// Parts of a key; missing parts match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFilter {
    /// Required branch.
    pub branch: Option<String>,
    /// Required machine.
    pub machine: Option<String>,
    /// Required job.
    pub job: Option<String>,
}

impl KeyFilter {
    /// Matches exactly this key.
    pub fn only(key: &Key) -> Self {
        Self {
            branch: Some(key.branch.clone()),
            machine: Some(key.machine.clone()),
            job: Some(key.job.clone()),
        }
    }

    /// Whether a key has all given parts.
    pub fn matches(&self, key: &Key) -> bool {
        let is =
            |required: &Option<String>, has: &str| required.as_deref().is_none_or(|required| required == has);
        is(&self.branch, &key.branch) && is(&self.machine, &key.machine) && is(&self.job, &key.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_compares_only_the_parts_that_it_has() {
        let key = Key {
            branch: "main".into(),
            machine: "xeon".into(),
            job: "train".into(),
        };
        assert!(KeyFilter::default().matches(&key));
        assert!(KeyFilter::only(&key).matches(&key));
        let other = KeyFilter {
            job: Some("test".into()),
            ..KeyFilter::only(&key)
        };
        assert!(!other.matches(&key));
    }
}
