//! What runs units.

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Runs units, in other processes or on other machines.
pub trait UnitRunner: Debug + Send + Sync {
    /// Calls [`run_unit`](crate::merge::units::unit::run_unit) somewhere for each of these units, at least once, and waits
    /// for all of them. Each attempt gets a name of its own. `directory` has the inputs, and is on storage that all
    /// processes reach by this path. Calls `progress` often, from this thread.
    ///
    /// # Errors
    /// Text for people: why units did not run, and what to do.
    fn run(&self, directory: &Path, units: Range<u32>, progress: &mut dyn FnMut()) -> Result<(), String>;

    /// Returns the time after which files that other machines created are in this machine's list of a directory.
    fn visible_after(&self) -> Duration {
        Duration::ZERO
    }
}
