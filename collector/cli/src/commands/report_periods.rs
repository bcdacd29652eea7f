//! `rankscope report` of a run that was merged in periods.

use super::print::message as warn;
use super::results::REPORT;
use super::{Exit, print};
use anyhow::{Context, Result, bail};
use rankscope_analysis::model::date;
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_analysis::model::units;
use rankscope_formats::files;
use rankscope_formats::session::{Periods, beside_session};
use rankscope_report::{Places, TextLayout, periods};
use std::path::{Path, PathBuf};

/// A run in periods.
pub struct InPeriods<'a> {
    /// Directory as it was named.
    pub given: &'a Path,
    /// Session directory of the run.
    pub session: PathBuf,
    /// List of the periods.
    pub list: Periods,
}

/// Result of a range.
pub enum OfRange {
    /// The session of the only period in the range.
    Session(PathBuf),
    /// The list of several periods in the range.
    Several(Periods),
}

impl InPeriods<'_> {
    /// Fails because an option needs one session.
    pub fn refuse<T>(&self, option: &str) -> Result<T> {
        let needed = self.list.one_is_needed(self.given, &self.session);
        bail!("{option} needs one session: {needed}")
    }

    /// Prints the overview of all periods, and writes its page. Without a file for it, `--json` writes none.
    pub fn print(self, html: Option<PathBuf>, is_json: bool) -> Result<Exit> {
        let is_requested = html.is_some();
        let beside = beside_session(&self.session).join(REPORT);
        let mut html = html.or_else(|| (!is_json).then_some(beside));
        if let Some(file) = &html {
            let written = periods::write_html(&self.list, &self.session, file)
                .with_context(|| format!("cannot write {}", file.display()));
            match written {
                // Without permission to write into the bucket, the overview is printed nevertheless.
                Err(error) if !is_requested && files::is_remote(file) => {
                    let error = print::error_line(&error);
                    warn(&format!("{error}; name a file of this machine with --html"));
                    html = None;
                }
                other => other?,
            }
        }
        if is_json {
            print::json(&self.list)?;
        } else {
            let places = Places {
                session: self.session,
                trace: None,
                report: html,
            };
            print::text(&periods::text(&self.list, &places, &TextLayout::of_stdout()))?;
        }
        Ok(Exit::Fine)
    }

    /// Returns what a range selects. The axis of all periods has the zero of the run, so no session is read.
    pub fn in_range(&self, range: TimeRange) -> Result<OfRange> {
        let from_ns = range.from_ns.unwrap_or(i64::MIN);
        let to_ns = range.to_ns.unwrap_or(i64::MAX);
        let mut inside: Vec<_> = self.list.between(from_ns, to_ns).cloned().collect();
        match (inside.len(), inside.pop()) {
            (1, Some(only)) => Ok(OfRange::Session(only.path(&self.session))),
            (_, Some(last)) => {
                inside.push(last);
                Ok(OfRange::Several(Periods {
                    periods: inside,
                    ..self.list.clone()
                }))
            }
            (_, None) => bail!("no period has records {}; {}", shown(range), self.span()),
        }
    }

    /// Prints the overview of several periods.
    pub fn print_several(&self, range: TimeRange, several: &Periods, is_json: bool) -> Result<Exit> {
        if is_json {
            print::json(several)?;
        } else {
            let all = self.list.periods.len();
            let text = periods::text_of_range(several, &shown(range), all, &TextLayout::of_stdout());
            print::text(&text)?;
        }
        Ok(Exit::Fine)
    }

    /// Returns the span of all periods as a text.
    fn span(&self) -> String {
        let (Some(first), Some(last)) = (self.list.periods.first(), self.list.periods.last()) else {
            return "the run has no period yet".to_owned();
        };
        let until_ns = last.until_unix_ns.saturating_sub(self.list.origin_unix_ns);
        let origin_unix_ns = self.list.origin_unix_ns.max(first.from_unix_ns);
        format!(
            "the run has {} from {} to {} after its start ({} to {})",
            units::counted(self.list.periods.len() as u64, "period"),
            units::time(origin_unix_ns.saturating_sub(self.list.origin_unix_ns)),
            units::time(until_ns),
            date::utc(origin_unix_ns),
            date::utc(last.until_unix_ns)
        )
    }
}

/// `between 10 s and 12 s`.
fn shown(range: TimeRange) -> String {
    match (range.from_ns, range.to_ns) {
        (Some(from), Some(to)) => format!("between {} and {}", units::time(from), units::time(to)),
        (Some(from), None) => format!("after {}", units::time(from)),
        (None, Some(to)) => format!("before {}", units::time(to)),
        (None, None) => "at any time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND_NS: i64 = 1_000_000_000;

    /// Two periods of 10 s, the first of which began 4 s before the run, and one after a gap of one period.
    fn run() -> InPeriods<'static> {
        let ratio = json!({"value": {"numerator": 1, "denominator": 4}, "reason": null});
        let period = |from_s: i64| {
            json!({
                "name": format!("at-{from_s}"), "from_unix_ns": from_s * SECOND_NS,
                "until_unix_ns": (from_s + 10) * SECOND_NS, "is_final": true, "ranks": 2, "operations": 5,
                "bytes": 7, "steps": 3, "median_step_ns": {"value": null, "reason": "no steps"},
                "exposed_communication": ratio, "exposed_wait": ratio, "left_out": 0, "lost": 0, "problems": 0,
                "findings": [],
            })
        };
        let list = json!({
            "version": 1, "tool": {"name": "rankscope", "version": "0"}, "directories": ["run"],
            "length_ns": 10 * SECOND_NS, "origin_unix_ns": 1_004 * SECOND_NS,
            "periods": [period(1_000), period(1_010), period(1_030)],
        });
        InPeriods {
            given: Path::new("run"),
            session: PathBuf::from("run/session"),
            list: serde_json::from_value(list).expect("a list"),
        }
    }

    #[test]
    fn a_range_is_on_the_axis_of_the_run() {
        let names = |range: &str| match run().in_range(range.parse().expect("a range")) {
            Ok(OfRange::Session(path)) => vec![path.display().to_string()],
            Ok(OfRange::Several(list)) => list.periods.into_iter().map(|period| period.name).collect(),
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(names("0s..6s"), ["run/session/periods/at-1000"]);
        assert_eq!(names("6s..7s"), ["run/session/periods/at-1010"]);
        assert_eq!(names("5s..7s"), ["at-1000", "at-1010"]);
        assert_eq!(names("20s.."), ["run/session/periods/at-1030"]);
        assert_eq!(names("..10h"), ["at-1000", "at-1010", "at-1030"]);
        let span = "the run has 3 periods from 0 to 36.0 s after its start (1970-01-01 00:16:44 UTC to 1970-01-01 00:17:20 UTC)";
        assert_eq!(
            names("40s..50s"),
            [format!("no period has records between 40.0 s and 50.0 s; {span}")]
        );
        assert_eq!(
            names("16s..26s"),
            [format!("no period has records between 16.0 s and 26.0 s; {span}")]
        );
    }
}
