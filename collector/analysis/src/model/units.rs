//! Formats numbers for people: three significant digits and a unit.

/// Formats nanoseconds as ns, µs, ms, s, minutes or hours.
pub fn time(ns: i64) -> String {
    time_f(ns as f64)
}

/// Formats a time like [`time`], for quantiles and means.
pub fn time_f(ns: f64) -> String {
    let magnitude = ns.abs();
    if magnitude == 0.0 {
        "0".to_owned()
    } else if magnitude < 999.5 {
        format!("{ns:.0} ns")
    } else if magnitude < 999.5e3 {
        format!("{} µs", digits(ns / 1e3))
    } else if magnitude < 999.5e6 {
        format!("{} ms", digits(ns / 1e6))
    } else if magnitude < 119.95e9 {
        format!("{} s", digits(ns / 1e9))
    } else {
        let seconds = (magnitude / 1e9).round() as u64;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let sign = if ns < 0.0 { "-" } else { "" };
        if hours > 0 {
            format!("{sign}{hours} h {minutes:02} min")
        } else {
            format!("{sign}{minutes} min {seconds:02} s")
        }
    }
}

/// Formats rank-nanoseconds, the time summed over ranks: `11.3 rank-s`.
pub fn rank_time(ns: i64) -> String {
    let ns = ns as f64;
    let magnitude = ns.abs();
    if magnitude == 0.0 {
        "0".to_owned()
    } else if magnitude < 999.5e3 {
        format!("{} rank-µs", digits(ns / 1e3))
    } else if magnitude < 999.5e6 {
        format!("{} rank-ms", digits(ns / 1e6))
    } else {
        format!("{} rank-s", digits(ns / 1e9))
    }
}

/// Formats bytes in powers of 1000, as usual for bandwidth.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Formats bytes in powers of 1024, as usual for buffers.
pub fn binary_bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Formats a bandwidth. 1 GB/s is 10⁹ bytes per second.
pub fn rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Formats a share as a percentage. Shares below 10 % keep a decimal digit.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // A share just below 1 must not be shown as 100 %.
    let is_nearly_all = percent > 99.0 && percent < 100.0;
    if is_nearly_all && percent > 99.9 {
        "> 99.9 %".to_owned()
    } else if percent == 0.0 || (percent.abs() >= 9.95 && !is_nearly_all) {
        format!("{percent:.0} %")
    } else if percent.abs() < 0.05 {
        format!("{}0.1 %", if percent < 0.0 { "> -" } else { "< " })
    } else {
        format!("{percent:.1} %")
    }
}

/// Formats a count with commas between thousands.
pub fn count(count: u64) -> String {
    let plain = count.to_string();
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 step`, `2 steps`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// Formats a change with its sign: `+6.10 ms`, `−6.10 ms`. A change that rounds to zero has no sign.
pub fn signed(change: f64, shown: String) -> String {
    if !shown.contains(|digit: char| matches!(digit, '1'..='9')) {
        shown.trim_start_matches('-').to_owned()
    } else if change > 0.0 {
        format!("+{shown}")
    } else {
        with_minus(shown)
    }
}

/// Replaces a leading hyphen by a minus sign, which is as wide as the plus sign.
pub fn with_minus(shown: String) -> String {
    match shown.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => shown,
    }
}

/// Formats a change relative to the base, without a plus sign: `6.1 %`, `0.04 %`, `1,200 %`.
pub fn relative(share: f64) -> String {
    let percent = share * 100.0;
    let magnitude = percent.abs();
    if magnitude == 0.0 {
        "0 %".to_owned()
    } else if magnitude >= 99.95 {
        let sign = if percent < 0.0 { "-" } else { "" };
        format!("{sign}{} %", count(magnitude.round() as u64))
    } else if magnitude >= 0.095 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.2} %")
    }
}

/// Formats a mean of counts: `12.5`, or `1,234` for large values, where a fraction has no use.
pub fn mean_count(mean: f64) -> String {
    if mean.fract() == 0.0 || mean.abs() >= 999.5 {
        let sign = if mean <= -0.5 { "-" } else { "" };
        format!("{sign}{}", count(mean.abs().round() as u64))
    } else {
        digits(mean)
    }
}

/// Formats a value of a counter in the unit that its name gives (`counter_unit`).
pub fn counter_value(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    let shown = match unit {
        _ if !value.is_finite() => "no number".to_owned(),
        // Counters may have any value, and the other formats have digits for usual ones.
        "count" if magnitude >= 1e15 || (magnitude > 0.0 && magnitude < 1e-3) => format!("{value:.2e}"),
        "count" => mean_count(value),
        unit if magnitude >= 1e18 => format!("{value:.2e} {unit}"),
        "ns" => time_f(value),
        "bytes/s" => rate(value),
        "bytes" => bytes_f(value),
        unit => format!("{} {unit}", digits(value)),
    };
    with_minus(shown)
}

/// Formats a mean or a change of bytes in powers of 1000.
pub fn bytes_f(mean: f64) -> String {
    scaled(mean.round(), 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        // A value that would be printed as 1000 belongs to the next unit.
        if value.abs() < base - 0.5 || units.peek().is_none() {
            let is_whole_bytes = unit.starts_with('B') && value.fract() == 0.0;
            return if is_whole_bytes {
                format!("{value:.0} {unit}")
            } else {
                format!("{} {unit}", digits(value))
            };
        }
        value /= base;
    }
    digits(value)
}

/// Formats three significant digits. Trailing zeros of a fraction stay because they show the precision.
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 99.95 || magnitude == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits_and_change_units() {
        let cases = [
            (0, "0"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_900, "1.00 ms"),
            (1_234_567_890, "1.23 s"),
            (119_000_000_000, "119 s"),
            (125_000_000_000, "2 min 05 s"),
            (7_384_000_000_000, "2 h 03 min"),
            (-2_500_000, "-2.50 ms"),
        ];
        for (ns, shown) in cases {
            assert_eq!(time(ns), shown);
        }
    }

    #[test]
    fn rank_time_is_distinguished_from_time() {
        assert_eq!(rank_time(11_300_000_000), "11.3 rank-s");
        assert_eq!(rank_time(2_500_000), "2.50 rank-ms");
        assert_eq!(rank_time(0), "0");
    }

    #[test]
    fn sizes_rates_and_shares() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500_000), "1.50 MB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(binary_bytes(65_536), "64.0 KiB");
        assert_eq!(rate(12.5e9), "12.5 GB/s");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "< 0.1 %");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(percent(0.998), "99.8 %");
        assert_eq!(percent(0.99999), "> 99.9 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "step"), "1 step");
    }

    #[test]
    fn changes_have_a_sign_and_small_ones_their_digits() {
        let change = |share: f64| signed(share, relative(share));
        let cases = [
            (0.0, "0 %"),
            (0.061, "+6.1 %"),
            (-0.061, "−6.1 %"),
            (0.000_4, "+0.04 %"),
            (-0.000_01, "0.00 %"),
            (0.123, "+12.3 %"),
            (12.0, "+1,200 %"),
            (-2.0, "−200 %"),
        ];
        for (share, shown) in cases {
            assert_eq!(change(share), shown);
        }
        assert_eq!(signed(2.5e6, time_f(2.5e6)), "+2.50 ms");
        assert_eq!(signed(-0.2, time_f(-0.2)), "0 ns");
        assert_eq!(mean_count(148.0), "148");
        assert_eq!(mean_count(12.5), "12.5");
        assert_eq!(mean_count(-12_345.6), "-12,346");
        assert_eq!(bytes_f(-1_500_000.4), "-1.50 MB");
    }

    #[test]
    fn values_of_counters_have_their_unit_at_any_size() {
        let cases = [
            (1536.0, "bytes", "1.54 kB"),
            (2.5e9, "bytes/s", "2.50 GB/s"),
            (1_250_000.0, "ns", "1.25 ms"),
            (-4.0, "count", "−4"),
            (3e-7, "count", "3.00e-7"),
            (0.0, "count", "0"),
            (2.5, "count", "2.50"),
            (1e300, "count", "1.00e300"),
            (-1e300, "ns", "−1.00e300 ns"),
            (f64::NAN, "bytes", "no number"),
        ];
        for (value, unit, shown) in cases {
            assert_eq!(counter_value(value, unit), shown);
        }
    }
}
