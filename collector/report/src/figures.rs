//! Formatting of all values of the JSON, with unit, rounding and source.

pub use super::prose::Shown;
use super::prose::{Form, Prose, prose};
use super::source;
use rankscope_analysis::findings;
use rankscope_analysis::model::date;
use rankscope_analysis::model::kernel_name;
use rankscope_analysis::model::labels;
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Ratio, Session};

fn shown(text: impl Into<String>, form: Form, source: impl Into<String>) -> Shown {
    Shown {
        text: text.into(),
        form,
        source: source.into(),
    }
}

/// Formats a time.
pub fn time(ns: i64, from: impl Into<String>) -> Shown {
    shown(units::time(ns), Form::Time, from)
}

/// Like [`time`], for quantiles and means.
pub fn time_f(ns: f64, from: impl Into<String>) -> Shown {
    shown(units::time_f(ns), Form::Time, from)
}

/// Formats a time summed over ranks.
pub fn rank_time(ns: i64, from: impl Into<String>) -> Shown {
    shown(units::rank_time(ns), Form::RankTime, from)
}

/// Formats a date.
pub fn moment(unix_ns: i64, from: impl Into<String>) -> Shown {
    shown(date::utc(unix_ns), Form::Moment, from)
}

/// Formats a count.
pub fn count(count: u64, from: impl Into<String>) -> Shown {
    shown(units::count(count), Form::Number, from)
}

/// Formats a count with its noun: `1 step`, `2 steps`.
pub fn counted(number: u64, thing: &str, from: impl Into<String>) -> Prose {
    let plural = if number == 1 { "" } else { "s" };
    prose![count(number, from), format!(" {thing}{plural}")]
}

/// Formats a number that is a name, without separators: a process, a tag.
pub fn plain(number: impl Into<i128>, from: impl Into<String>) -> Shown {
    shown(number.into().to_string(), Form::Number, from)
}

/// Formats a number with `digits` decimal places.
pub fn decimal(value: f64, digits: usize, from: impl Into<String>) -> Shown {
    shown(format!("{value:.digits$}"), Form::Number, from)
}

/// Formats a very small number: `1.2e-7`.
pub fn tiny(value: f64, from: impl Into<String>) -> Shown {
    shown(format!("{value:.1e}"), Form::Number, from)
}

/// Formats bytes.
pub fn bytes(bytes: u64, from: impl Into<String>) -> Shown {
    shown(units::bytes(bytes), Form::Bytes, from)
}

/// Formats bytes per second.
pub fn rate(bytes_per_s: f64, from: impl Into<String>) -> Shown {
    shown(units::rate(bytes_per_s), Form::Rate, from)
}

/// Formats a share.
pub fn percent(share: f64, from: impl Into<String>) -> Shown {
    shown(units::percent(share), Form::Percent, from)
}

/// Formats the share of a ratio; `from` points to the ratio.
pub fn share(ratio: &Ratio, from: &str) -> Shown {
    percent(
        ratio.share(),
        source::share(format!("{from}/numerator"), format!("{from}/denominator")),
    )
}

/// Formats a value that is in percent in the JSON, with `digits` decimal places.
pub fn percent_as_is(percent: f64, digits: usize, from: impl AsRef<str>) -> Shown {
    shown(
        format!("{percent:.digits$} %"),
        Form::Percent,
        source::share(from, "100"),
    )
}

/// Formats a mean in the unit that the JSON names for it (see `compare::metrics`).
pub fn mean(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    let (text, form) = written(value, unit);
    shown(units::with_minus(text), form, from)
}

/// Like [`mean`], for a difference, with its sign. Differences of shares are in percentage points.
pub fn change(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    if unit == "share" {
        return shown(units::signed(value, points_text(value)), Form::Points, from);
    }
    let (text, form) = written(value, unit);
    shown(units::signed(value, text), form, from)
}

/// Formats a difference relative to the base, with its sign.
pub fn relative_change(share: f64, from: impl Into<String>) -> Shown {
    shown(units::signed(share, units::relative(share)), Form::Percent, from)
}

/// Formats a relative uncertainty, without a sign.
pub fn relative(share: f64, from: impl Into<String>) -> Shown {
    shown(units::relative(share), Form::Percent, from)
}

/// Formats a difference of shares, without a sign.
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

/// Formats a text of the JSON unchanged.
pub fn quoted(text: impl Into<String>, from: impl Into<String>) -> Shown {
    shown(text, Form::Text, from)
}

/// Formats a part of a text of the JSON.
pub fn part(text: impl Into<String>, from: impl Into<String>) -> Shown {
    shown(text, Form::Part, from)
}

/// Formats the name of a rank.
pub fn rank(session: &Session, rank: u32) -> Shown {
    quoted(
        labels::rank_name(session, RankIndex(rank)),
        format!("/ranks/{rank}/name"),
    )
}

/// Formats the name of a host.
pub fn host(session: &Session, host: u32) -> Shown {
    let name = session
        .hosts
        .get(host as usize)
        .map_or_else(String::new, |host| host.name.clone());
    quoted(name, format!("/hosts/{host}/name"))
}

/// Formats the short name of a kernel.
pub fn kernel(name: &str, from: impl Into<String>) -> Shown {
    part(kernel_name::short(name), from)
}

/// Formats the two limits of a size class; `text` has both.
pub fn sizes(text: String, from: impl Into<String>) -> Shown {
    shown(text, Form::Sizes, from)
}

/// Formats a value with the unit that the JSON names for it; `from` points to the value of the condition.
pub fn in_unit(value: f64, unit: &str, from: impl Into<String>) -> Shown {
    shown(findings::in_unit(value, unit), Form::Condition, from)
}

/// Formats a position on an axis.
pub fn tick(text: impl Into<String>) -> Shown {
    shown(text, Form::Tick, "")
}

/// Formats a property of the page's layout.
pub fn drawn(text: impl Into<String>) -> Shown {
    shown(text, Form::Drawn, "")
}

/// Formats a number that is part of a definition.
pub fn rule(text: impl Into<String>) -> Shown {
    shown(text, Form::Rule, "")
}
