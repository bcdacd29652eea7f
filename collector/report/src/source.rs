//! Source of a displayed value in `rankscope report --json`: a JSON pointer, or a small expression over several.
//!
//! ```text
//! source  = pointer | number | function "(" source { "," source } ")"
//! pointer = JSON pointer in which "*" means all elements of a list and "2:5" those at 2, 3 and 4;
//!           parentheses in a name are pairs
//! ```
//! A pointer to several values means all of them that are not null. Functions: `sum`, `max`, `min`, `number` (how many)
//! and `list` of all values; `share(a,b)` = a / b, `less(a,b)` = a − b, `times(a,b)` = a · b.

use std::ops::Range;

fn call<S: AsRef<str>>(function: &str, of: &[S]) -> String {
    let of: Vec<&str> = of.iter().map(AsRef::as_ref).collect();
    format!("{function}({})", of.join(","))
}

/// Sum of all values.
pub fn sum<S: AsRef<str>>(of: &[S]) -> String {
    call("sum", of)
}

/// Largest value.
pub fn max(of: impl AsRef<str>) -> String {
    call("max", &[of])
}

/// Smallest value.
pub fn min(of: impl AsRef<str>) -> String {
    call("min", &[of])
}

/// Number of values.
pub fn number(of: impl AsRef<str>) -> String {
    call("number", &[of])
}

/// Several values next to each other.
pub fn list<S: AsRef<str>>(of: &[S]) -> String {
    call("list", of)
}

/// `part / whole`.
pub fn share(part: impl AsRef<str>, whole: impl AsRef<str>) -> String {
    call("share", &[part.as_ref(), whole.as_ref()])
}

/// `from − what`.
pub fn less(from: impl AsRef<str>, what: impl AsRef<str>) -> String {
    call("less", &[from.as_ref(), what.as_ref()])
}

/// `one · other`.
pub fn times(one: impl AsRef<str>, other: impl AsRef<str>) -> String {
    call("times", &[one.as_ref(), other.as_ref()])
}

/// Values of some elements of a list, with ascending `positions`: `/ranks/0:3/lost,/ranks/7/lost`.
pub fn among(list: &str, positions: impl IntoIterator<Item = usize>, rest: &str) -> String {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in positions {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    let pointers: Vec<String> = runs
        .iter()
        .map(|run| match run.len() {
            1 => format!("{list}/{}{rest}", run.start),
            _ => format!("{list}/{}:{}{rest}", run.start, run.end),
        })
        .collect();
    pointers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_listed_as_ranges() {
        assert_eq!(
            among("/ranks", [0, 1, 2, 7, 9, 10], "/lost"),
            "/ranks/0:3/lost,/ranks/7/lost,/ranks/9:11/lost"
        );
        assert_eq!(among("/ranks", [], "/lost"), "");
        assert_eq!(share(sum(&["/a", "/b"]), "/c"), "share(sum(/a,/b),/c)");
    }
}
