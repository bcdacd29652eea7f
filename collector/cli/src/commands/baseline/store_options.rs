//! Options that select a store.

use anyhow::{Result, bail};
use clap::Args;
use rankscope_compare::baseline::store::is_git;
use rankscope_compare::baseline::{Store, StoreError, open};
use std::path::PathBuf;

/// Default store.
const DEFAULT: &str = ".rankscope-baselines";
/// Environment variable with the store.
const VARIABLE: &str = "RANKSCOPE_BASELINES";

/// Location of the baseline.
#[derive(Debug, Args)]
pub struct StoreOptions {
    /// Baseline: a directory, or git:BRANCH (default: RANKSCOPE_BASELINES, else .rankscope-baselines).
    #[arg(long, value_name = "DIR|git:BRANCH")]
    store: Option<String>,

    /// Git repository of the branch (default: the repository of the working directory).
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

impl StoreOptions {
    /// Opens the selected store. It need not exist yet.
    pub fn open(&self) -> Result<Store> {
        let named = self.store.clone().or_else(|| std::env::var(VARIABLE).ok());
        let name = named
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| DEFAULT.to_owned());
        if self.repo.is_some() && !is_git(&name) {
            bail!("--repo requires --store git:BRANCH, but {name} is a directory");
        }
        Ok(open(&name, self.repo.as_deref())?)
    }
}

/// Options to push the branch.
#[derive(Debug, Args)]
pub struct PushOptions {
    /// Fetch the branch first, and push it afterwards, to origin or to the named remote.
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, require_equals = true, default_missing_value = "origin")]
    push: Option<String>,
}

impl PushOptions {
    /// Fetches the branch if it is to be pushed.
    pub fn before(&self, store: &Store) -> Result<(), StoreError> {
        self.push.as_deref().map_or(Ok(()), |remote| store.pull(remote))
    }

    /// Pushes the branch if requested.
    pub fn after(&self, store: &Store) -> Result<(), StoreError> {
        self.push.as_deref().map_or(Ok(()), |remote| store.push(remote))
    }
}
