//! The one place that writes values of the JSON for people: with their unit and their rounding, and with their source.

pub use super::prose::Shown;
use super::prose::{Form, Prose, prose};
use super::source;
use rankscope_analysis::findings;
use rankscope_analysis::model::date;
use rankscope_analysis::model::kernel_name;
use rankscope_analysis::model::labels;
use rankscope_analysis::model::units;
use rankscope_formats::session::{Ratio, Session};

fn shown(text: impl Into<String>, form: Form, source: impl Into<String>) -> Shown {
    Shown {
        text: text.into(),
        form,
        source: source.into(),
    }
}

/// A time.
pub fn time(ns: i64, from: impl Into<String>) -> Shown {
    shown(units::time(ns), Form::Time, from)
}

/// As [`time`], for quantiles and means.
pub fn time_f(ns: f64, from: impl Into<String>) -> Shown {
    shown(units::time_f(ns), Form::Time, from)
}

/// Time summed over ranks.
pub fn rank_time(ns: i64, from: impl Into<String>) -> Shown {
    shown(units::rank_time(ns), Form::RankTime, from)
}

/// A date.
pub fn moment(unix_ns: i64, from: impl Into<String>) -> Shown {
    shown(date::utc(unix_ns), Form::Moment, from)
}

/// A count.
pub fn count(count: u64, from: impl Into<String>) -> Shown {
    shown(units::count(count), Form::Number, from)
}

/// A count and the thing counted: `1 step`, `2 steps`.
pub fn counted(number: u64, thing: &str, from: impl Into<String>) -> Prose {
    let plural = if number == 1 { "" } else { "s" };
    prose![count(number, from), format!(" {thing}{plural}")]
}

/// A number that is a name, as it is: a process, a tag.
pub fn plain(number: impl Into<i128>, from: impl Into<String>) -> Shown {
    shown(number.into().to_string(), Form::Number, from)
}

/// A number with so many digits behind the point.
pub fn decimal(value: f64, digits: usize, from: impl Into<String>) -> Shown {
    shown(format!("{value:.digits$}"), Form::Number, from)
}

/// A very small number: `1.2e-7`.
pub fn tiny(value: f64, from: impl Into<String>) -> Shown {
    shown(format!("{value:.1e}"), Form::Number, from)
}

/// Bytes.
pub fn bytes(bytes: u64, from: impl Into<String>) -> Shown {
    shown(units::bytes(bytes), Form::Bytes, from)
}

/// Bytes per second.
pub fn rate(bytes_per_s: f64, from: impl Into<String>) -> Shown {
    shown(units::rate(bytes_per_s), Form::Rate, from)
}

/// A share.
pub fn percent(share: f64, from: impl Into<String>) -> Shown {
    shown(units::percent(share), Form::Percent, from)
}

/// The share of a ratio; `from` points to the ratio.
pub fn share(ratio: &Ratio, from: &str) -> Shown {
    percent(
        ratio.share(),
        source::share(format!("{from}/numerator"), format!("{from}/denominator")),
    )
}

/// A value that the JSON has in percent, with so many digits behind the point.
pub fn percent_as_is(percent: f64, digits: usize, from: impl AsRef<str>) -> Shown {
    shown(
        format!("{percent:.digits$} %"),
        Form::Percent,
        source::share(from, "100"),
    )
}

/// A mean in the unit that the JSON names for it: see `compare::metrics`.
pub fn mean(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    let (text, form) = written(value, unit);
    shown(units::with_minus(text), form, from)
}

/// As [`mean`], of a difference, with its sign. Shares differ by percentage points.
pub fn change(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    if unit == "share" {
        return shown(units::signed(value, points_text(value)), Form::Points, from);
    }
    let (text, form) = written(value, unit);
    shown(units::signed(value, text), form, from)
}

/// A difference as a share of what there was, with its sign.
pub fn relative_change(share: f64, from: impl Into<String>) -> Shown {
    shown(units::signed(share, units::relative(share)), Form::Percent, from)
}

/// The same without a sign: how far something may be off.
pub fn relative(share: f64, from: impl Into<String>) -> Shown {
    shown(units::relative(share), Form::Percent, from)
}

/// A difference of shares without a sign.
pub fn points(share: f64, from: impl Into<String>) -> Shown {
    shown(points_text(share), Form::Points, from)
}

fn points_text(share: f64) -> String {
    let percent = units::relative(share);
    format!("{}pp", percent.trim_end_matches('%'))
}

fn written(value: f64, unit: &str) -> (String, Form) {
    match unit {
        "ns" => (units::time_f(value), Form::Time),
        "bytes/s" => (units::rate(value), Form::Rate),
        "bytes" => (units::bytes_f(value), Form::Bytes),
        "share" => (units::percent(value), Form::Percent),
        _ => (units::mean_count(value), Form::Number),
    }
}

/// A text of the JSON as it is.
pub fn quoted(text: impl Into<String>, from: impl Into<String>) -> Shown {
    shown(text, Form::Text, from)
}

/// A part of a text of the JSON.
pub fn part(text: impl Into<String>, from: impl Into<String>) -> Shown {
    shown(text, Form::Part, from)
}

/// A rank's name.
pub fn rank(session: &Session, rank: u32) -> Shown {
    quoted(labels::rank_name(session, rank), format!("/ranks/{rank}/name"))
}

/// A host's name.
pub fn host(session: &Session, host: u32) -> Shown {
    let name = session
        .hosts
        .get(host as usize)
        .map_or_else(String::new, |host| host.name.clone());
    quoted(name, format!("/hosts/{host}/name"))
}

/// A kernel's name as people read it.
pub fn kernel(name: &str, from: impl Into<String>) -> Shown {
    part(kernel_name::short(name), from)
}

/// Two limits of a class of sizes; `text` has both.
pub fn sizes(text: String, from: impl Into<String>) -> Shown {
    shown(text, Form::Sizes, from)
}

/// A value with the unit that the JSON names for it; `from` points to the condition's value.
pub fn in_unit(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    shown(findings::in_unit(value, unit), Form::Condition, from)
}

/// A place on an axis.
pub fn tick(text: impl Into<String>) -> Shown {
    shown(text, Form::Tick, "")
}

/// How the page is drawn.
pub fn drawn(text: impl Into<String>) -> Shown {
    shown(text, Form::Drawn, "")
}

/// A number that is part of a definition.
pub fn rule(text: impl Into<String>) -> Shown {
    shown(text, Form::Rule, "")
}
