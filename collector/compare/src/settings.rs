//! Settings of a comparison, from the command line or `rankscope.toml`.

use super::gate::{Gate, GateError};
use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of a project's settings file.
pub const FILE: &str = "rankscope.toml";

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits.
    pub gates: Vec<Gate>,
    /// Highest probability that any gate fails although nothing changed.
    pub family_alpha: f64,
    /// Share of the base within which a metric counts as unchanged.
    pub margin: f64,
    /// Accepted differences between runs.
    pub accepted: Vec<String>,
    /// Treatment of an inconclusive result.
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

/// Treatment of an inconclusive result.
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

/// Content of `rankscope.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Section for comparisons.
    #[serde(default)]
    pub compare: CompareSection,
}

/// Section `[compare]` of `rankscope.toml`. Options of the command line override it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CompareSection {
    /// Option `--fail-on`.
    pub fail_on: Option<Vec<String>>,
    /// Option `--alpha`, in percent.
    pub alpha_percent: Option<f64>,
    /// Option `--unchanged-within`, in percent.
    pub unchanged_within_percent: Option<f64>,
    /// Option `--accept`.
    pub accept: Option<Vec<String>>,
    /// Option `--inconclusive`.
    pub inconclusive: Option<Inconclusive>,
}

/// Error in settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file is not valid TOML, or has an unknown key.
    #[error("{path}: {source}")]
    Toml {
        /// Path of the file.
        path: PathBuf,
        /// Position and cause of the error.
        source: Box<toml::de::Error>,
    },
    /// A limit in the file is invalid.
    #[error("{path}: {source}")]
    Gate {
        /// Path of the file.
        path: PathBuf,
        /// Error in the limit.
        source: GateError,
    },
    /// A number is outside its range.
    #[error("{path}: {what}")]
    Number {
        /// Path of the file.
        path: PathBuf,
        /// Name of the number, and its range.
        what: String,
    },
}

impl Settings {
    /// Reads the settings of a file.
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
                        "accept: '{unknown}' is not one of {}",
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

/// Finds the project's settings file: in this directory, or in a parent up to the root of its repository.
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
