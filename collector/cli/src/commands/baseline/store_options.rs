//! Which store is meant.

use anyhow::{Result, bail};
use clap::Args;
use rankscope_compare::baseline::store::is_git;
use rankscope_compare::baseline::{Store, StoreError, open};
use std::path::PathBuf;

/// The store if nobody names one.
const DEFAULT: &str = ".rankscope-baselines";
/// Variable that names another.
const VARIABLE: &str = "RANKSCOPE_BASELINES";

/// Where the baseline is.
#[derive(Debug, Args)]
pub struct StoreOptions {
    /// The baseline: a directory, or git:BRANCH. Without it RANKSCOPE_BASELINES, else .rankscope-baselines.
    #[arg(long, value_name = "DIR|git:BRANCH")]
    store: Option<String>,

    /// The git repository of the branch; without it the one that the working directory is in.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

impl StoreOptions {
    /// The store that is meant; it need not be there yet.
    pub fn open(&self) -> Result<Store> {
        let named = self.store.clone().or_else(|| std::env::var(VARIABLE).ok());
        let name = named
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| DEFAULT.to_owned());
        if self.repo.is_some() && !is_git(&name) {
            bail!("--repo goes with --store git:BRANCH, and {name} is a directory");
        }
        Ok(open(&name, self.repo.as_deref())?)
    }
}

/// Pushing the branch.
#[derive(Debug, Args)]
pub struct PushOptions {
    /// Fetch what others pushed to the branch, and push it afterwards, to origin or the remote that is named.
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, require_equals = true, default_missing_value = "origin")]
    push: Option<String>,
}

impl PushOptions {
    /// Fetches, if the branch is to be pushed.
    pub fn before(&self, store: &Store) -> Result<(), StoreError> {
        self.push.as_deref().map_or(Ok(()), |remote| store.pull(remote))
    }

    /// Pushes, if that was asked for.
    pub fn after(&self, store: &Store) -> Result<(), StoreError> {
        self.push.as_deref().map_or(Ok(()), |remote| store.push(remote))
    }
}
