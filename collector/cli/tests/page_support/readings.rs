//! Conversion of a shown number back to the values that it may represent, with the rounding undone.

use super::sources::Found;

/// Values that a shown number may represent: from, to, both inclusive.
type Span = (f64, f64);

/// Times that are means are truncated to whole nanoseconds.
const CUT_NS: f64 = 1.0;

/// Checks that `text`, written in this form, shows `found`.
pub fn check(form: &str, text: &str, found: &Found) -> Result<(), String> {
    match (form, found) {
        ("text", Found::Text(known)) => same(&spaced(text), &spaced(known)),
        ("part", Found::Text(known)) => is_part(text, known),
        ("moment", Found::Numbers(numbers)) => same(text, &moment(one(numbers)?)),
        ("sizes", Found::Numbers(numbers)) => sizes(text, numbers),
        ("text" | "part", Found::Numbers(_)) => Err("not a text".to_owned()),
        (_, Found::Text(known)) => Err(format!("the text '{known}' is no number")),
        (_, Found::Numbers(numbers)) => {
            let value = one(numbers)?;
            let (from, to) = span(form, text)?;
            if (from..=to).contains(&value) {
                Ok(())
            } else {
                Err(format!("{value} is not in {from}..={to}"))
            }
        }
    }
}

fn one(numbers: &[f64]) -> Result<f64, String> {
    match numbers {
        [one] => Ok(*one),
        others => Err(format!("{} values for one number", others.len())),
    }
}

fn same(shown: &str, known: &str) -> Result<(), String> {
    if shown == known {
        Ok(())
    } else {
        Err(format!("it is '{known}'"))
    }
}

/// Normalises a text as a browser shows it: without control characters, and with a capital at the start of a sentence.
fn spaced(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn is_part(text: &str, known: &str) -> Result<(), String> {
    let shown = text.replace("{anonymous}", "(anonymous namespace)");
    let shown = shown.trim_end_matches('…');
    if !shown.is_empty() && known.contains(shown) {
        Ok(())
    } else {
        Err(format!("no part of '{known}'"))
    }
}

/// Returns the values that round to the shown number.
fn rounded(text: &str, unit: f64) -> Result<Span, String> {
    let plain = text.replace(',', "");
    let value: f64 = plain.parse().map_err(|_| format!("'{text}' is no number"))?;
    let (mantissa, power) = match plain.split_once('e') {
        Some((mantissa, power)) => (
            mantissa,
            power
                .parse::<i32>()
                .map_err(|_| format!("'{text}' is no number"))?,
        ),
        None => (plain.as_str(), 0),
    };
    let digits = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
    let half = 0.5 * 10f64.powi(power - digits as i32) * unit;
    // A value exactly on the edge may have been rounded either way.
    let edge = half * 1e-6 + value.abs() * unit * 1e-12;
    Ok((value * unit - half - edge, value * unit + half + edge))
}

fn in_units(text: &str, units: &[(&str, f64)]) -> Result<Span, String> {
    let (number, unit) = text.rsplit_once(' ').ok_or("there is no unit")?;
    let unit = units.iter().find(|(name, _)| *name == unit);
    rounded(
        number,
        unit.ok_or_else(|| format!("the unit of '{text}' is not known"))?
            .1,
    )
}

const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Returns the values that a number may represent.
pub fn span(form: &str, text: &str) -> Result<Span, String> {
    let text = text.replace('−', "-");
    let text = text.as_str();
    match form {
        "number" => rounded(text, 1.0),
        "time" => time(text).map(|(from, to)| (from - CUT_NS, to + CUT_NS)),
        "rank-time" if text == "0" => Ok((0.0, 0.0)),
        "rank-time" => in_units(text, &[("rank-µs", 1e3), ("rank-ms", 1e6), ("rank-s", 1e9)]),
        "bytes" => bytes(text, ""),
        "rate" => bytes(text, "/s"),
        "percent" => percent(text),
        "points" => rounded(text.strip_suffix(" pp").ok_or("there is no pp")?, 0.01),
        "condition" => condition(text),
        other => Err(format!("nothing is written as '{other}'")),
    }
}

fn time(text: &str) -> Result<Span, String> {
    let (sign, plain) = match text.strip_prefix('-') {
        Some(plain) => (-1.0, plain),
        None => (1.0, text),
    };
    let parts: Vec<&str> = plain.split(' ').collect();
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let (from, to) = match parts.as_slice() {
        ["0"] => (0.0, 0.0),
        // Seconds are rounded first, then split into hours and minutes.
        [minutes, "min", seconds, "s"] => {
            let s = number(minutes)? * 60.0 + number(seconds)?;
            ((s - 0.5) * 1e9, (s + 0.5) * 1e9)
        }
        [hours, "h", minutes, "min"] => {
            let s = number(hours)? * 3600.0 + number(minutes)? * 60.0;
            ((s - 0.5) * 1e9, (s + 59.5) * 1e9)
        }
        _ => in_units(plain, &TIMES)?,
    };
    Ok(if sign < 0.0 { (-to, -from) } else { (from, to) })
}

fn bytes(text: &str, per: &str) -> Result<Span, String> {
    let (number, unit) = text.rsplit_once(' ').ok_or("there is no unit")?;
    let unit = unit
        .strip_suffix(per)
        .and_then(|unit| unit.strip_suffix('B'))
        .and_then(|prefix| {
            ["", "k", "M", "G", "T", "P"]
                .iter()
                .position(|known| *known == prefix)
        })
        .ok_or_else(|| format!("the unit of '{text}' is not known"))?;
    rounded(number, 1000f64.powi(unit as i32))
}

fn percent(text: &str) -> Result<Span, String> {
    match text {
        "< 0.1 %" => return Ok((0.0, 0.0005)),
        "> -0.1 %" => return Ok((-0.0005, 0.0)),
        "> 99.9 %" => return Ok((0.999, 1.0)),
        _ => {}
    }
    rounded(text.strip_suffix(" %").ok_or("there is no %")?, 0.01)
}

/// Parses a number of a finding's condition. Percentages are percentages in the JSON too, and small probabilities are
/// words.
fn condition(text: &str) -> Result<Span, String> {
    if text == "below one in a million" {
        return Ok((0.0, 1e-6));
    }
    match text.rsplit_once(' ') {
        Some((number, "%")) => rounded(number, 1.0),
        Some((number, "bytes")) => rounded(number, 1.0),
        Some(_) => in_units(text, &TIMES),
        None => rounded(text, 1.0),
    }
}

/// Checks a size class such as `64–128 KiB`. The first limit may omit its unit, and a class of a single size has one
/// limit.
fn sizes(text: &str, numbers: &[f64]) -> Result<(), String> {
    let &[from, below] = numbers else {
        return Err(format!("{} values for two limits", numbers.len()));
    };
    let of = |text: &str, unit_of: &str| -> Result<Span, String> {
        let unit = unit_of.rsplit_once(' ').map_or("", |(_, unit)| unit);
        let number = text.rsplit_once(' ').map_or(text, |(number, _)| number);
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let power = units.iter().position(|known| *known == unit);
        rounded(
            number,
            1024f64.powi(power.ok_or_else(|| format!("no unit in '{text}'"))? as i32),
        )
    };
    let is_in = |(least, most): Span, value: f64| (least..=most).contains(&value);
    let fits = match text.split_once('–') {
        None => is_in(of(text, text)?, from) && below <= from + 1.0,
        Some((first, second)) => {
            let unit_of = if first.contains(' ') { first } else { second };
            is_in(of(first, unit_of)?, from) && is_in(of(second, second)?, below)
        }
    };
    if fits {
        Ok(())
    } else {
        Err(format!("the limits are {from} and {below}"))
    }
}

/// Returns the date of a time by counting days year by year.
fn moment(unix_ns: f64) -> String {
    let seconds = (unix_ns / 1e9).floor() as i64;
    let (mut days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let mut year = 1970;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + i64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!(
        "{year:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
        month + 1,
        days + 1,
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[test]
fn what_is_shown_stands_for_what_it_was_rounded_from_and_for_nothing_else() {
    let fits = |form: &str, text: &str, value: f64| check(form, text, &Found::Numbers(vec![value])).is_ok();
    for (form, text, yes, no) in [
        ("time", "12.3 ms", 12_345_678.0, 12_400_000.0),
        ("time", "999 ns", 999.0, 1_010.0),
        ("time", "2 min 05 s", 125.4e9, 126.1e9),
        ("time", "2 h 03 min", 7_384e9, 7_450e9),
        ("time", "-2.50 ms", -2_500_000.0, 2_500_000.0),
        ("time", "0", 0.0, 40.0),
        ("rank-time", "11.3 rank-s", 11.26e9, 11.2e9),
        ("number", "1,234", 1_234.0, 1_235.0),
        ("number", "1.2e-7", 1.21e-7, 1.3e-7),
        ("bytes", "1.50 MB", 1_503_000.0, 1_510_000.0),
        ("rate", "12.5 GB/s", 12.52e9, 12.6e9),
        ("percent", "12 %", 0.123, 0.126),
        ("percent", "< 0.1 %", 0.000_3, 0.002),
        ("condition", "50.0 %", 50.0, 0.5),
        ("time", "+2.70 ms", 2_700_000.0, -2_700_000.0),
        ("percent", "+1,200 %", 12.0, 12.1),
        ("percent", "−0.04 %", -0.000_4, 0.000_4),
        ("points", "−0.8 pp", -0.008, -0.8),
    ] {
        assert!(fits(form, text, yes), "{text}: {yes}");
        assert!(!fits(form, text, no), "{text}: {no}");
    }
    let sizes =
        |text: &str, from: f64, below: f64| check("sizes", text, &Found::Numbers(vec![from, below])).is_ok();
    assert!(sizes("64–128 KiB", 65_536.0, 131_072.0) && !sizes("64–128 KiB", 65_536.0, 262_144.0));
    assert!(sizes("512 KiB–1 MiB", 524_288.0, 1_048_576.0) && sizes("0 B", 0.0, 1.0));
    assert_eq!(moment(951_782_400e9), "2000-02-29 00:00:00 UTC");
    assert_eq!(moment(1_795_255_201.9e9), "2026-11-21 10:00:01 UTC");
    let text =
        |form: &str, shown: &str, known: &str| check(form, shown, &Found::Text(known.to_owned())).is_ok();
    assert!(text("text", "Rank 3 is late", "rank 3 is late") && !text("text", "rank 3", "rank 33"));
    assert!(text("part", "ncclKernel", "ncclKernel(int)") && !text("part", "", "x"));
}
