//! Formatting of numbers for display.

/// Formats a duration with three digits and a unit, such as `1.25 ms`.
pub fn duration_text(ns: i64) -> String {
    let sign = if ns < 0 { "−" } else { "" };
    let ns = ns.unsigned_abs() as f64;
    let (value, unit) = match ns {
        _ if ns < 1e3 => return format!("{sign}{ns:.0} ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "µs"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ if ns < 600e9 => (ns / 1e9, "s"),
        _ if ns < 7200e9 => (ns / 60e9, "min"),
        _ => (ns / 3600e9, "h"),
    };
    format!("{sign}{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Formats a time on the axis, such as `12.345 678 s`. The precision suffices to distinguish times that are `step_ns`
/// apart.
pub fn moment_text(ns: i64, step_ns: i64) -> String {
    let sign = if ns < 0 { "−" } else { "" };
    let total = ns.unsigned_abs();
    let digits = match step_ns {
        0..=9 => 9,
        _ => 9_usize.saturating_sub(step_ns.ilog10() as usize),
    };
    let (seconds, fraction) = (total / 1_000_000_000, total % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    let kept = &fraction[..digits.min(9)];
    let groups: Vec<&str> = (0..kept.len())
        .step_by(3)
        .map(|at| &kept[at..kept.len().min(at + 3)])
        .collect();
    let seconds_text = grouped(seconds);
    if groups.is_empty() {
        format!("{sign}{seconds_text} s")
    } else {
        format!("{sign}{seconds_text}.{} s", groups.join("\u{2009}"))
    }
}

/// Formats an integer with thin spaces between groups of thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// Formats a size in binary units, as is usual for buffers, such as `4 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        three_digits(value)
    };
    format!("{text} {}", UNITS[unit])
}

/// Formats a bandwidth. 1 GB/s is 10⁹ bytes per second (METRICS.md).
pub fn rate_text(bytes_per_s: f64) -> String {
    if bytes_per_s < 1e6 {
        format!("{} kB/s", three_digits(bytes_per_s / 1e3))
    } else if bytes_per_s < 1e9 {
        format!("{} MB/s", three_digits(bytes_per_s / 1e6))
    } else {
        format!("{} GB/s", three_digits(bytes_per_s / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(duration_text(999), "999 ns");
        assert_eq!(duration_text(1250), "1.25 µs");
        assert_eq!(duration_text(-12_500_000), "−12.5 ms");
        assert_eq!(duration_text(999_600), "1.00 ms");
        assert_eq!(duration_text(90_000_000_000), "90.0 s");
        assert_eq!(moment_text(12_345_678_901, 1_000), "12.345\u{2009}678 s");
        assert_eq!(moment_text(-1_500_000_000, 100_000_000), "−1.5 s");
        assert_eq!(moment_text(7_200_000_000_000, 1_000_000_000), "7\u{2009}200 s");
        assert_eq!(bytes_text(4 << 20), "4 MiB");
        assert_eq!(bytes_text(1536), "1.50 KiB");
        assert_eq!(rate_text(12.5e9), "12.5 GB/s");
    }
}
