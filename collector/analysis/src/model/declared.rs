//! Declared limits of the machine: the peak bandwidth of its paths, and the latency that is still good.
//!
//! They are options of the report, not of the merge. A session holds what was recorded, and the sums from which any
//! peak or limit gives its score. A different peak needs no second merge, and no opinion becomes part of a recording.

use rankscope_formats::bench::BenchResults;
use rankscope_formats::session::Scope;
use std::fmt;
use std::str::FromStr;

/// Scopes that can be named, with their short forms.
const SCOPES: [(Scope, &str); 3] = [
    (Scope::InsideHost, "inside"),
    (Scope::AcrossHosts, "across"),
    (Scope::Mixed, "mixed"),
];

/// Declared peaks and limits by scope of the communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredLimits {
    /// Peak bus bandwidth, in bytes per second.
    pub peaks: Vec<ScopedValue>,
    /// Longest transfer of a launch of at most 64 KiB that is still good, in nanoseconds.
    pub latency_limits: Vec<ScopedValue>,
}

impl DeclaredLimits {
    /// Returns the peak and the latency that `rankscope bench` has measured. They hold for ranks in the same locations.
    pub fn of_bench(results: &BenchResults) -> Self {
        let scoped = |value: Option<f64>| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            value
                .map(|value| ScopedValue {
                    scope: Some(results.scope),
                    value,
                })
                .into_iter()
                .collect()
        };
        let peak = results.peak.as_ref();
        Self {
            peaks: scoped(peak.map(|peak| peak.bus_bytes_per_s)),
            latency_limits: scoped(peak.and_then(|peak| peak.small_transfer_p99_ns)),
        }
    }

    /// Adds declarations, which take precedence over equal ones.
    pub fn extend(&mut self, other: Self) {
        self.peaks.extend(other.peaks);
        self.latency_limits.extend(other.latency_limits);
    }

    /// Returns true if nothing was declared.
    pub fn is_empty(&self) -> bool {
        self.peaks.is_empty() && self.latency_limits.is_empty()
    }

    /// Returns the peak of a scope, in bytes per second.
    pub fn peak(&self, scope: Scope) -> Option<f64> {
        for_scope(&self.peaks, scope)
    }

    /// Returns the latency limit of a scope, in nanoseconds.
    pub fn latency_limit(&self, scope: Scope) -> Option<f64> {
        for_scope(&self.latency_limits, scope)
    }
}

/// Returns the value of a scope, or the value for all scopes. The last declaration wins.
fn for_scope(values: &[ScopedValue], scope: Scope) -> Option<f64> {
    let of = |scope: Option<Scope>| {
        let found = values.iter().rev().find(|value| value.scope == scope);
        found.map(|value| value.value)
    };
    of(Some(scope)).or_else(|| of(None))
}

/// A value for one scope or for all scopes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopedValue {
    /// Scope; `None` for all.
    pub scope: Option<Scope>,
    /// Value above 0. The list that contains it defines its unit.
    pub value: f64,
}

/// An invalid declaration.
#[derive(Debug, PartialEq, Eq)]
pub struct DeclaredLimitError(String);

impl fmt::Display for DeclaredLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeclaredLimitError {}

/// Splits `[SCOPE=]VALUE`.
fn parted(text: &str) -> Result<(Option<Scope>, &str), DeclaredLimitError> {
    let Some((scope, value)) = text.split_once('=') else {
        return Ok((None, text.trim()));
    };
    let known = SCOPES
        .iter()
        .find(|(known, short)| known.name() == scope.trim() || *short == scope.trim());
    match known {
        Some((scope, _)) => Ok((Some(*scope), value.trim())),
        None => Err(DeclaredLimitError(format!(
            "unknown scope '{scope}': use inside-host, across-hosts or mixed"
        ))),
    }
}

/// Splits a text into a number above 0 and the unit after it.
fn number(text: &str) -> Result<(f64, &str), DeclaredLimitError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let value = f64::from_str(&text[..end])
        .ok()
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| DeclaredLimitError(format!("'{text}' does not start with a number above 0")))?;
    Ok((value, text[end..].trim()))
}

/// Parses a peak, `[SCOPE=]GB/s`: `450`, `inside-host=450`, `across=48GB/s`.
pub fn peak(text: &str) -> Result<ScopedValue, DeclaredLimitError> {
    let (scope, value) = parted(text)?;
    let (value, unit) = number(value)?;
    let factor = match unit {
        "" | "GB/s" => 1e9,
        "MB/s" => 1e6,
        "Gbit/s" => 1e9 / 8.0,
        _ => {
            return Err(DeclaredLimitError(format!(
                "unknown unit '{unit}' of a peak: use GB/s, MB/s or Gbit/s"
            )));
        }
    };
    Ok(ScopedValue {
        scope,
        value: value * factor,
    })
}

/// Parses a latency limit, `[SCOPE=]TIME` with its unit: `50us`, `across-hosts=120us`.
pub fn latency_limit(text: &str) -> Result<ScopedValue, DeclaredLimitError> {
    let (scope, value) = parted(text)?;
    let (value, unit) = number(value)?;
    let factor = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => {
            return Err(DeclaredLimitError(format!(
                "'{text}' needs a unit: ns, us, ms or s"
            )));
        }
    };
    Ok(ScopedValue {
        scope,
        value: value * factor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_and_limits_are_read_with_scope_and_unit() {
        assert_eq!(
            peak("450"),
            Ok(ScopedValue {
                scope: None,
                value: 450e9
            })
        );
        let across = Some(Scope::AcrossHosts);
        assert_eq!(
            peak("across=400Gbit/s"),
            Ok(ScopedValue {
                scope: across,
                value: 50e9
            })
        );
        assert_eq!(
            latency_limit("across-hosts=120us"),
            Ok(ScopedValue {
                scope: across,
                value: 120e3
            })
        );
        assert_eq!(latency_limit("1.5ms").map(|limit| limit.value), Ok(1.5e6));
        for wrong in ["", "-1", "0", "x", "here=3", "3km", "NaN", "inf"] {
            assert!(peak(wrong).is_err(), "{wrong}");
        }
        assert!(latency_limit("50").is_err(), "without a unit nobody knows");
    }

    #[test]
    fn a_specific_scope_takes_precedence_over_all() {
        let stated = DeclaredLimits {
            peaks: vec![peak("100").expect("a peak"), peak("inside=450").expect("a peak")],
            latency_limits: Vec::new(),
        };
        assert_eq!(stated.peak(Scope::InsideHost), Some(450e9));
        assert_eq!(stated.peak(Scope::AcrossHosts), Some(100e9));
        assert_eq!(stated.latency_limit(Scope::InsideHost), None);
    }
}
