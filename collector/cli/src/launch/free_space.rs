//! Check of the free disk space for a recording. The library stops recording before the disk is full, and the user gets
//! a warning.

use rankscope_ranklog::place::Room;
use std::path::Path;

/// Environment variable that overrides the minimum free space, in MiB. The library reads it, too.
const MIN_FREE_MIB: &str = "RANKSCOPE_MIN_FREE_MIB";

/// Returns why recording into `directory` would stop at once, with advice. `None` means enough or unknown space.
///
/// `floor_bytes` is the value of `--min-free`. The directory need not exist yet.
pub fn warning(directory: &Path, floor_bytes: Option<u64>) -> Option<String> {
    let asked = || -> Option<u64> { std::env::var(MIN_FREE_MIB).ok()?.trim().parse().ok() };
    let floor_bytes = floor_bytes.or_else(|| asked().map(|mib| mib << 20));
    let absolute = std::path::absolute(directory).ok()?;
    let existing = absolute.ancestors().find(|path| path.exists())?;
    let space = Room::of(existing, floor_bytes).ok()?;
    space.is_short().then(|| {
        format!(
            "{} has {:.1} GiB free of {:.1} GiB, and recording stops below {:.1} GiB: record elsewhere (-o DIR), or \
             lower the limit (--min-free SIZE)",
            existing.display(),
            gibibytes(space.free_bytes),
            gibibytes(space.total_bytes),
            gibibytes(space.floor_bytes)
        )
    })
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_for_a_missing_directory_is_that_of_its_nearest_parent() {
        let place = std::env::temp_dir().join("not/yet/there");
        let message = warning(&place, Some(u64::MAX)).expect("no disk has this much free space");
        assert!(
            message.contains("--min-free") && !message.contains("not/yet"),
            "{message}"
        );
        assert_eq!(warning(&place, Some(0)), None);
    }
}
