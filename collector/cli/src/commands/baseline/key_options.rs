//! Options that select entries by parts of their key.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use rankscope_compare::baseline::KeyFilter;

/// Selection of entries.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// Use only entries of this branch.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    branch: Option<String>,

    /// Use only entries of this machine.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    machine: Option<String>,

    /// Use only entries of this job.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
}

impl KeyOptions {
    /// Returns the filter for these options.
    pub fn filter(&self) -> KeyFilter {
        KeyFilter {
            branch: self.branch.clone(),
            machine: self.machine.clone(),
            job: self.job.clone(),
        }
    }
}
