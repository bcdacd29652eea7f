//! What a comparison is asked for, on the command line or in `rankscope.toml`.

use super::gate::{Gate, GateError};
use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file with a project's own settings.
pub const FILE: &str = "rankscope.toml";

/// How a comparison decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What fails it.
    pub gates: Vec<Gate>,
    /// Highest probability that any gate fails although nothing changed.
    pub family_alpha: f64,
    /// A change within this share is called unchanged.
    pub margin: f64,
    /// Differences between runs that do not matter.
    pub accepted: Vec<String>,
    /// What becomes of an inconclusive result.
    pub inconclusive: Inconclusive,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gates: Gate::defaults(),
            family_alpha: 0.01,
            margin: 0.05,
            accepted: Vec::new(),
            inconclusive: Inconclusive::Say,
        }
    }
}

/// What becomes of an inconclusive result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inconclusive {
    /// Exit status 3.
    #[default]
    Say,
    /// Exit status 0.
    Pass,
    /// Exit status 1.
    Fail,
}

/// `rankscope.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Its part for comparisons.
    #[serde(default)]
    pub compare: CompareSection,
}

/// `[compare]` of `rankscope.toml`. Options of the command line go before.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CompareSection {
    /// See `--fail-on`.
    pub fail_on: Option<Vec<String>>,
    /// See `--alpha`, in percent.
    pub alpha_percent: Option<f64>,
    /// See `--unchanged-within`, in percent.
    pub unchanged_within_percent: Option<f64>,
    /// See `--accept`.
    pub accept: Option<Vec<String>>,
    /// See `--inconclusive`.
    pub inconclusive: Option<Inconclusive>,
}

/// Settings could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no TOML, or has a key that there is not.
    #[error("{path}: {source}")]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// A limit in it cannot be understood.
    #[error("{path}: {source}")]
    Gate {
        /// The file.
        path: PathBuf,
        /// Which, and why.
        source: GateError,
    },
    /// A number is beyond what makes sense.
    #[error("{path}: {what}")]
    Number {
        /// The file.
        path: PathBuf,
        /// Which, and what it may be.
        what: String,
    },
}

impl Settings {
    /// Takes over what a file says.
    pub fn read(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = fs::read_to_string(path).map_err(|source| SettingsError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        let file: File = toml::from_str(&text).map_err(|source| SettingsError::Toml {
            path: path.to_path_buf(),
            source: Box::new(source),
        })?;
        let section = file.compare;
        if let Some(rules) = section.fail_on {
            let gates = rules
                .iter()
                .map(|rule| rule.parse())
                .collect::<Result<_, GateError>>();
            self.gates = gates.map_err(|source| SettingsError::Gate {
                path: path.to_path_buf(),
                source,
            })?;
        }
        let share = |name: &str, percent: f64| {
            let is_share = percent > 0.0 && percent < 50.0;
            is_share
                .then_some(percent / 100.0)
                .ok_or_else(|| SettingsError::Number {
                    path: path.to_path_buf(),
                    what: format!("{name} = {percent} is not above 0 and below 50"),
                })
        };
        if let Some(percent) = section.alpha_percent {
            self.family_alpha = share("alpha-percent", percent)?;
        }
        if let Some(percent) = section.unchanged_within_percent {
            self.margin = share("unchanged-within-percent", percent)?;
        }
        if let Some(accepted) = section.accept {
            if let Some(unknown) = accepted
                .iter()
                .find(|what| !super::comparable::NAMES.contains(&what.as_str()))
            {
                return Err(SettingsError::Number {
                    path: path.to_path_buf(),
                    what: format!(
                        "accept: '{unknown}' is none of {}",
                        super::comparable::NAMES.join(", ")
                    ),
                });
            }
            self.accepted = accepted;
        }
        if let Some(inconclusive) = section.inconclusive {
            self.inconclusive = inconclusive;
        }
        Ok(())
    }
}

/// The project's own settings: in this directory, or above it up to the root of its repository.
pub fn find(from: &Path) -> Option<PathBuf> {
    for directory in from.ancestors() {
        let file = directory.join(FILE);
        if file.is_file() {
            return Some(file);
        }
        if directory.join(".git").exists() {
            return None;
        }
    }
    None
}
