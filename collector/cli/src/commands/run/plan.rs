//! Order and directories of the runs of a batch.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Command that the other is compared with.
    Base,
    /// Command that is judged, and the only one without `--against`.
    New,
}

impl Side {
    /// Returns the name of the side's directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::New => "new",
        }
    }
}

/// Runs of one or two commands.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs in the order of their recording.
    pub runs: Vec<Planned>,
    /// Whether there are two sides.
    pub is_against: bool,
}

/// Run to record.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Side of the run.
    pub side: Side,
    /// Directory of the recording.
    pub directory: PathBuf,
    /// Directory to which a failed run is moved.
    pub failed: PathBuf,
    /// Command to run.
    pub command: Vec<OsString>,
}

impl Plan {
    /// Plans `repeat` runs of the command. With `against`, equally many runs of that command alternate: base, new, new,
    /// base, and so on.
    pub fn new(directory: &Path, repeat: u32, command: &[OsString], against: Option<&str>) -> Self {
        let base = against.map(|line| ["sh", "-c", line].map(OsString::from).to_vec());
        let is_against = base.is_some();
        let planned = |side: Side, number: u32| {
            let folder = if is_against {
                directory.join(side.name())
            } else {
                directory.to_path_buf()
            };
            let words = match (&base, side) {
                (Some(base), Side::Base) => base.clone(),
                _ => command.to_vec(),
            };
            Planned {
                side,
                directory: folder.join(format!("run-{number}")),
                failed: folder.join(format!("failed-run-{number}")),
                command: words,
            }
        };
        let sides = |number: u32| match (is_against, number % 2) {
            (false, _) => vec![Side::New],
            (true, 1) => vec![Side::Base, Side::New],
            (true, _) => vec![Side::New, Side::Base],
        };
        let numbers = 1..=repeat;
        Self {
            runs: numbers
                .flat_map(|number| sides(number).into_iter().map(move |side| (side, number)))
                .map(|(side, number)| planned(side, number))
                .collect(),
            is_against,
        }
    }

    /// Returns the readable position of a run: `run 3 of 10 (new)`.
    pub fn shown(&self, position: usize) -> String {
        let of = format!("run {} of {}", position + 1, self.runs.len());
        match self.runs.get(position) {
            Some(run) if self.is_against => format!("{of} ({})", run.side.name()),
            _ => of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commands_take_turns() {
        let command = ["new".into()];
        let plan = Plan::new(Path::new("d"), 4, &command, Some("old --x"));
        let order: String = plan
            .runs
            .iter()
            .map(|run| if run.side == Side::Base { 'A' } else { 'B' })
            .collect();
        assert_eq!(order, "ABBAABBA");
        let places: Vec<String> = plan
            .runs
            .iter()
            .map(|run| run.directory.display().to_string())
            .collect();
        assert_eq!(places[..3], ["d/base/run-1", "d/new/run-1", "d/new/run-2"]);
        assert_eq!(plan.runs[0].command, ["sh", "-c", "old --x"]);
        assert_eq!(plan.runs[1].command, ["new"]);
        assert_eq!(plan.shown(2), "run 3 of 8 (new)");
    }

    #[test]
    fn one_command_is_repeated() {
        let plan = Plan::new(Path::new("d"), 3, &["job".into()], None);
        let places: Vec<String> = plan
            .runs
            .iter()
            .map(|run| run.directory.display().to_string())
            .collect();
        assert_eq!(places, ["d/run-1", "d/run-2", "d/run-3"]);
        assert_eq!(plan.shown(2), "run 3 of 3");
    }
}
