//! Parts of a key, to find entries by.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use rankscope_compare::baseline::KeyFilter;

/// Which entries are meant.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// Only entries of this branch.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    branch: Option<String>,

    /// Only entries of this machine.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    machine: Option<String>,

    /// Only entries of this job.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
}

impl KeyOptions {
    /// What they must have.
    pub fn filter(&self) -> KeyFilter {
        KeyFilter {
            branch: self.branch.clone(),
            machine: self.machine.clone(),
            job: self.job.clone(),
        }
    }
}
