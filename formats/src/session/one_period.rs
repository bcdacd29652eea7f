//! Message for a command that needs one session, if the run was merged in periods.

use super::periods::Periods;
use std::path::Path;

/// Number of periods that a message names.
const NAMED: usize = 3;

impl Periods {
    /// Returns why the run at `given` cannot be used as one session, and the paths of its newest periods, which can. `session` is the
    /// session directory of the run.
    pub fn one_is_needed(&self, given: &Path, session: &Path) -> String {
        let given = given.display();
        let newest: Vec<String> = self
            .periods
            .iter()
            .rev()
            .take(NAMED)
            .map(|period| {
                let state = if period.is_final { "" } else { " (not final)" };
                format!("\n  {}{state}", period.path(session).display())
            })
            .collect();
        match self.periods.len() {
            0 => format!("{given} is merged in periods, and has no period yet"),
            1 => format!(
                "{given} is merged in periods; name its period:{}",
                newest.concat()
            ),
            count => format!(
                "{given} is merged in {count} periods; name one of them, for example one of the newest:{}",
                newest.concat()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::periods::test_support::list_of;

    #[test]
    fn the_newest_periods_are_named_as_paths() {
        let session = Path::new("run/session");
        let message = |names: &[&str]| list_of(names).one_is_needed(Path::new("run"), session);
        assert_eq!(
            message(&["a", "b", "c", "d"]),
            "run is merged in 4 periods; name one of them, for example one of the newest:\n  run/session/periods/d (not final)\n  \
             run/session/periods/c\n  run/session/periods/b"
        );
        assert_eq!(
            message(&["a"]),
            "run is merged in periods; name its period:\n  run/session/periods/a (not final)"
        );
        assert_eq!(message(&[]), "run is merged in periods, and has no period yet");
    }
}
