//! Printed form of results: a summary line, then the results by subject.

use crate::check::{Check, Severity};
use std::fmt::Write;

/// Returns a number with its noun: `1 problem`, `2 problems`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the first names of a list, and the number of the others: `a, b and 3 more`.
pub fn first_of<T: AsRef<str>>(names: &[T], most: usize, separator: &str) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(T::as_ref).collect();
    let shown = shown.join(separator);
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the summary, such as `2 problems, 1 warning`.
pub fn summary(checks: &[Check]) -> String {
    let (bad, warnings) = (Severity::Bad.count(checks), Severity::Warn.count(checks));
    match (bad, warnings) {
        (0, 0) => "no problems".to_owned(),
        (0, _) => counted(warnings, "warning"),
        (_, 0) => counted(bad, "problem"),
        _ => format!("{}, {}", counted(bad, "problem"), counted(warnings, "warning")),
    }
}

/// Returns the printed form. Checks must be in the order of their subjects.
pub fn print(checks: &[Check]) -> String {
    let mut out = summary(checks);
    out.push('\n');
    let mut subject = None;
    for check in checks {
        if subject != Some(check.subject) {
            subject = Some(check.subject);
            let _ = write!(out, "\n{}\n", check.subject.title());
        }
        let mut line = |mark: &str, text: &str| {
            let _ = writeln!(out, "{mark:>4}  {}", text.replace('\n', "\n      "));
        };
        line(check.severity.mark(), &check.title);
        if let Some(detail) = &check.detail {
            line("", detail);
        }
        if let Some(advice) = &check.advice {
            line("", &format!("→ {advice}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Subject;

    #[test]
    fn the_summary_counts_problems_and_warnings() {
        let of = |severities: &[Severity]| {
            let checks: Vec<Check> = severities
                .iter()
                .map(|severity| Check::new(Subject::Machine, *severity, "x", "a fact"))
                .collect();
            summary(&checks)
        };
        assert_eq!(of(&[Severity::Ok, Severity::Note]), "no problems");
        assert_eq!(of(&[Severity::Warn]), "1 warning");
        assert_eq!(
            of(&[Severity::Bad, Severity::Warn, Severity::Bad]),
            "2 problems, 1 warning"
        );
    }

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(first_of(&["a", "b"], 2, ", "), "a, b");
        assert_eq!(first_of(&["a", "b", "c", "d"], 2, "; "), "a; b and 2 more");
        assert_eq!(counted(0, "log"), "0 logs");
    }

    #[test]
    fn details_are_below_their_fact() {
        let check = Check::new(Subject::Machine, Severity::Warn, "x", "a fact")
            .because("a reason\nin two lines")
            .advise("an action");
        assert_eq!(
            print(&[check]),
            "1 warning\n\nMachine\nwarn  a fact\n      a reason\n      in two lines\n      → an action\n"
        );
    }
}
