//! Gates: limits that fail a comparison, as typed by users: `step_time>+2%`, `exposed_wait>+2%step`, `busbw[all-reduce
//! *]<-10%`.

use super::metrics::{self, Better, Metric, Unit};
use rankscope_formats::comparison::full_name;

/// Default limits if none is declared: METRICS.md's step time, and its two parts for exposed communication.
pub const DEFAULT: [&str; 3] = [
    "step_time>+2%",
    "exposed_wait>+2%step",
    "exposed_transfer>+2%step",
];

/// Maximum change of a metric for the worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Share of the metric's own base.
    OfItself(f64),
    /// Share of the base's step time; only for times.
    OfStep(f64),
    /// Amount in the metric's unit.
    By(f64),
}

/// Limit of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Rule as typed.
    pub rule: String,
    /// Metric.
    pub metric: &'static str,
    /// Pattern of subjects if the metric has subjects: `*` matches any text.
    pub subject: Option<String>,
    /// Limit, at least 0.
    pub limit: Limit,
}

/// Error in a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{rule}' is not a valid limit: {why}")]
pub struct GateError {
    /// Rule as typed.
    pub rule: String,
    /// Problem, and the correct form.
    pub why: String,
}

impl std::str::FromStr for Gate {
    type Err = GateError;

    fn from_str(rule: &str) -> Result<Self, GateError> {
        parse(rule).map_err(|why| GateError {
            rule: rule.to_owned(),
            why,
        })
    }
}

fn parse(rule: &str) -> Result<Gate, String> {
    // A subject may contain any character: the last bracket ends it.
    let after_subject = rule.rfind(']').map_or(0, |at| at + 1);
    let at = rule[after_subject..]
        .find(['>', '<'])
        .map(|at| at + after_subject)
        .ok_or("write METRIC>+AMOUNT, for example step_time>+2%")?;
    let (name, rest) = rule.split_at(at);
    let (sign, amount) = rest.split_at(1);
    let name = name.trim();
    let (name, subject) = match name.split_once('[') {
        Some((name, subject)) => {
            let subject = subject.strip_suffix(']').ok_or("a subject ends with ]")?;
            (name.trim(), Some(subject.to_owned()))
        }
        None => (name, None),
    };
    let metric = metrics::find(name).ok_or_else(|| unknown_metric(name))?;
    match (metric.subject, &subject) {
        (Some(of), None) => {
            return Err(format!(
                "{name} has one value per {of}: write {name}[*] for all of them"
            ));
        }
        (None, Some(_)) => return Err(format!("{name} has only one value; remove the brackets")),
        _ => {}
    }
    let amount = amount.trim();
    let (expected, direction) = match metric.better {
        Better::Lower => (">", '+'),
        Better::Higher => ("<", '-'),
    };
    let shown = subject
        .as_deref()
        .map_or_else(|| name.to_owned(), |subject| format!("{name}[{subject}]"));
    let example = format!("{shown}{expected}{direction}5%");
    if sign != expected {
        return Err(format!(
            "{} is better for {name}: write {example}",
            if metric.better == Better::Lower {
                "less"
            } else {
                "more"
            }
        ));
    }
    let amount = amount
        .strip_prefix(direction)
        .ok_or_else(|| format!("the amount is a change and needs a sign: write {example}"))?;
    Ok(Gate {
        rule: rule.to_owned(),
        metric: metric.name,
        subject,
        limit: limit(amount, metric)?,
    })
}

fn unknown_metric(name: &str) -> String {
    let nearest = metrics::nearest(name);
    if nearest.is_empty() {
        format!("unknown metric '{name}'; rankscope compare --metrics lists all metrics")
    } else {
        format!("unknown metric '{name}'; did you mean {}?", nearest.join(" or "))
    }
}

/// Parses a share, a share of the step, or an amount in the metric's unit.
fn limit(amount: &str, metric: &Metric) -> Result<Limit, String> {
    let split = amount
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(amount.len());
    let (number, unit) = amount.split_at(split);
    let number: f64 = number
        .parse()
        .map_err(|_| format!("'{amount}' does not start with a number"))?;
    let unit = unit.trim();
    if !number.is_finite() {
        return Err(format!("{amount} is too large"));
    }
    if unit == "%" && metric.better == Better::Higher && number >= 100.0 {
        return Err(format!("{} cannot fall by {number} %", metric.name));
    }
    let scale = |units: &[(&str, f64)]| {
        let found = units.iter().find(|(name, _)| *name == unit);
        found.map(|(_, scale)| Limit::By(number * scale)).ok_or_else(|| {
            let known: Vec<&str> = units
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| !name.is_empty())
                .collect();
            let own = if known.is_empty() {
                "a plain number".to_owned()
            } else {
                known.join(", ")
            };
            format!("'{unit}' is not a unit of {}; use %, {own}", metric.name)
        })
    };
    match (unit, metric.unit) {
        ("%", _) => Ok(Limit::OfItself(number / 100.0)),
        ("%step", Unit::Nanoseconds) => Ok(Limit::OfStep(number / 100.0)),
        (_, Unit::Nanoseconds) => scale(&[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]),
        (_, Unit::Bytes) => scale(&[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1024.0 * 1024.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
        ]),
        (_, Unit::BytesPerSecond) => scale(&[("MB/s", 1e6), ("GB/s", 1e9)]),
        (_, Unit::Share) => scale(&[("pp", 0.01)]),
        (_, Unit::Count) => scale(&[("", 1.0)]),
    }
}

impl Gate {
    /// Returns the limits of [`DEFAULT`].
    pub fn defaults() -> Vec<Self> {
        let rules = DEFAULT.iter().map(|rule| rule.parse());
        rules.collect::<Result<_, GateError>>().unwrap_or_default()
    }

    /// Whether the gate applies to this metric.
    pub fn is_of(&self, metric: &str, subject: Option<&str>) -> bool {
        self.metric == metric
            && match (&self.subject, subject) {
                (None, None) => true,
                (Some(pattern), Some(subject)) => matches(pattern, subject),
                _ => false,
            }
    }

    /// Returns metric and pattern as typed.
    pub fn full_name(&self) -> String {
        full_name(self.metric, self.subject.as_deref())
    }
}

/// Whether the text matches the pattern, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(rule: &str) -> String {
        rule.parse::<Gate>().expect_err(rule).to_string()
    }

    #[test]
    fn limits_are_read_as_people_write_them() {
        let gate: Gate = "exposed_wait > +5%".parse().expect("a limit");
        assert_eq!((gate.metric, gate.limit), ("exposed_wait", Limit::OfItself(0.05)));
        let gate: Gate = "exposed_transfer>+2%step".parse().expect("a limit");
        assert_eq!(gate.limit, Limit::OfStep(0.02));
        let gate: Gate = "time_to_first_step>+1.5s".parse().expect("a limit");
        assert_eq!(gate.limit, Limit::By(1.5e9));
        let gate: Gate = "overlap<-5pp".parse().expect("a limit");
        assert_eq!(gate.limit, Limit::By(0.05));
        let gate: Gate = "operations>+0".parse().expect("a limit");
        assert_eq!(gate.limit, Limit::By(0.0));
        let gate: Gate = "kernel_time[void f<int>(a > b)]>+10%".parse().expect("a limit");
        assert!(gate.is_of("kernel_time", Some("void f<int>(a > b)")));
        let gate: Gate = "busbw[all-reduce * inside-host]<-10%".parse().expect("a limit");
        assert!(gate.is_of("busbw", Some("all-reduce 1-2 MiB world inside-host")));
        assert!(!gate.is_of("busbw", Some("all-reduce 1-2 MiB world across-hosts")));
        assert_eq!(Gate::defaults().len(), DEFAULT.len());
    }

    #[test]
    fn mistakes_say_what_to_write() {
        assert!(error("step_tiem>+2%").contains("did you mean step_time"));
        assert!(error("busbw[*]>+5%").contains("write busbw[*]<-5%"));
        assert!(error("step_time>2%").contains("write step_time>+5%"));
        assert!(error("busbw<-5%").contains("busbw[*]"));
        assert!(error("step_time[rank 1]>+5%").contains("remove the brackets"));
        assert!(error("step_time>+5parsec").contains("'parsec' is not a unit"));
        assert!(error("overlap<-5%step").contains("not a unit"));
        assert!(error("busbw[*]<-100%").contains("cannot fall"));
        assert!(error(&format!("step_time>+{}%", "9".repeat(400))).contains("too large"));
        assert!(error("step_time").contains("step_time>+2%"));
        assert!(error("").contains("METRIC>+AMOUNT"));
    }

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, text, is_match) in [
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "a__b__c", true),
            ("a*b*c", "acb", false),
            ("abc", "abcd", false),
            ("*gemm*", "x_gemm_y", true),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }
}
