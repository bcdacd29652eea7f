//! Variables that communication libraries would get: from the environment, and from NCCL's configuration files.

use crate::surroundings::Surroundings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Value of a variable and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Value, not empty.
    pub value: String,
    /// NCCL's configuration file that sets it; `None` for the environment.
    pub file: Option<PathBuf>,
}

/// Variables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, Variable>);

impl Variables {
    /// Reads the environment and NCCL's files (src/misc/param.cc: NCCL_CONF_FILE, else ~/.nccl.conf, then
    /// /etc/nccl.conf). A variable that is set is never replaced.
    pub fn read(surroundings: &Surroundings) -> Self {
        let mut out = Self::from_pairs(surroundings.variables());
        let own = surroundings
            .variable("NCCL_CONF_FILE")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(surroundings.variable("HOME")?).join(".nccl.conf")));
        for file in own.into_iter().chain([PathBuf::from("/etc/nccl.conf")]) {
            let text = surroundings.read(&file).unwrap_or_default();
            for (name, value) in text.lines().filter_map(setting) {
                out.0.entry(name.to_owned()).or_insert_with(|| Variable {
                    value: value.to_owned(),
                    file: Some(file.clone()),
                });
            }
        }
        out
    }

    /// Takes variables of an environment, without empty ones.
    pub fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let set = pairs.filter(|(_, value)| !value.is_empty());
        Self(
            set.map(|(name, value)| {
                let variable = Variable {
                    value: value.to_owned(),
                    file: None,
                };
                (name.to_owned(), variable)
            })
            .collect(),
        )
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|variable| variable.value.as_str())
    }

    /// Whether the variable is set to a number other than 0.
    pub fn is_on(&self, name: &str) -> bool {
        self.number(name).is_some_and(|number| number != 0)
    }

    /// Returns the value as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.trim().parse().ok()
    }

    /// Returns all variables by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.0.iter().map(|(name, variable)| (name.as_str(), variable))
    }
}

/// Returns name and value of a line of a configuration file.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    (is_name && !name.is_empty() && !value.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_settings() {
        assert_eq!(setting("NCCL_DEBUG=WARN "), Some(("NCCL_DEBUG", "WARN")));
        assert_eq!(setting("# NCCL_DEBUG=WARN"), None);
        assert_eq!(setting("NCCL_DEBUG="), None);
    }

    #[test]
    fn the_environment_comes_before_the_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        std::fs::write(
            dir.path().join("etc/nccl.conf"),
            "NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n",
        )
        .expect("written");
        let environment = [("NCCL_DEBUG".to_owned(), "WARN".to_owned())].into();
        let read = Variables::read(&Surroundings::prepared(dir.path(), environment));
        assert_eq!(read.get("NCCL_DEBUG"), Some("WARN"));
        assert_eq!(read.get("NCCL_ALGO"), Some("Ring"));
    }
}
