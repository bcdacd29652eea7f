//! Sentences about all periods, shared by the terminal and the page.

use super::findings::{self, Recurring};
use super::rows::missing_between;
use crate::figures::{count, counted, drawn, moment, percent, quoted, share as share_of_ratio, time};
use crate::prose::{Prose, prose};
use crate::reasons::Reasons;
use crate::sentences::{self, Level, Line};
use crate::source::{among, less, max, min, number, share, sum};
use rankscope_formats::session::{Figure, Period, Periods, Ratio, Severity};

/// Sentence with its label.
pub type Labelled = (&'static str, Line);

fn line(level: Level, text: Prose) -> Line {
    Line {
        level,
        text,
        advice: None,
    }
}

/// Returns the sentences before all figures of single periods.
pub fn lines(list: &Periods) -> Vec<Labelled> {
    if list.periods.is_empty() {
        return vec![("Periods", line(Level::Warning, "no period has records".into()))];
    }
    let mut lines = vec![("Periods", periods(list))];
    lines.extend(span(list).map(|line| ("Time", line)));
    lines.extend(gaps(list).map(|line| ("", line)));
    lines.push(("Ranks", ranks(list)));
    lines.push(("Steps", steps(list)));
    lines.push(("Waiting", waiting(list)));
    lines
}

/// Returns the sentences about what is missing.
pub fn losses(list: &Periods) -> Vec<Labelled> {
    let total = |of: fn(&Period) -> u64| list.periods.iter().map(of).fold(0, u64::saturating_add);
    let from = |field: &str| sum(&[format!("/periods/*/{field}")]);
    let in_periods = |of: fn(&Period) -> u64| {
        let with = list
            .periods
            .iter()
            .enumerate()
            .filter(|(_, period)| of(period) > 0);
        let with: Vec<usize> = with.map(|(at, _)| at).collect();
        let source = number(among("/periods", with.iter().copied(), "/name"));
        let first = with.first().map(|&at| start(list, at));
        let which = if with.len() > 1 { ", the first at " } else { " at " };
        prose![
            ", in ",
            counted(with.len() as u64, "period", source),
            which,
            first
        ]
    };
    let lost = total(|period| period.lost);
    let mut lines = vec![(
        "Losses",
        if lost == 0 {
            line(Level::Good, "no records were lost".into())
        } else {
            let lost = counted(lost, "record", from("lost"));
            line(
                Level::Bad,
                prose![lost, " lost", in_periods(|period| period.lost)],
            )
        },
    )];
    let left_out = total(|period| period.left_out);
    if left_out > 0 {
        let text = prose![
            counted(left_out, "instance", from("left_out")),
            " left out, because they did not complete soon after the end of their period",
            in_periods(|period| period.left_out)
        ];
        lines.push(("", line(Level::Warning, text)));
    }
    if let Some(first) = list.missed.first() {
        let what = first.file.as_ref().unwrap_or(&first.what);
        let field = if first.file.is_some() { "file" } else { "what" };
        let text = prose![
            counted(list.missed.len() as u64, "log", number("/missed/*/what")),
            if list.missed.len() == 1 { " has" } else { " have" },
            " records in no period, because they came after the period was final: ",
            quoted(what, format!("/missed/0/{field}")),
            if list.missed.len() > 1 { ", …" } else { "" },
            ". Merge into another directory to see them"
        ];
        lines.push(("", line(Level::Bad, text)));
    }
    let problems = total(|period| period.problems);
    if problems > 0 {
        let text = prose![
            counted(problems, "problem", from("problems")),
            " with the recordings",
            in_periods(|period| period.problems),
            "; the report of a period lists them"
        ];
        lines.push(("Problems", line(Level::Warning, text)));
    }
    lines
}

/// Returns the finding with the largest total cost, as the headline of the run.
pub fn headline(list: &Periods, all: &[Recurring]) -> Line {
    let Some(first) = all.first() else {
        return line(Level::Good, "no findings in any period".into());
    };
    let mut text = prose![first.name(list), ": ", in_periods(list, first)];
    if let Some(total_ns) = first.total_ns {
        let total = time(total_ns, sum(&[first.costs()]));
        text.push(prose![", ", total, " of job time in all"]);
    }
    line(sentences::level(first.severity), text)
}

/// `in 12 of 168 periods`.
pub fn in_periods(list: &Periods, of: &Recurring) -> Prose {
    let all = list.periods.len() as u64;
    prose![
        "in ",
        count(of.places.len() as u64, number(of.all("kind"))),
        " of ",
        counted(all, "period", number("/periods/*/name"))
    ]
}

/// Returns the limits of the lists of findings, if a list may be cut.
pub fn cut_findings(list: &Periods) -> Option<Prose> {
    let is_full = |period: &Period| period.findings.len() >= Period::MAX_FINDINGS;
    list.periods.iter().any(is_full).then(|| {
        let most = drawn(Period::MAX_FINDINGS.to_string());
        prose![
            "The list has at most ",
            most,
            " findings of a period, the costliest."
        ]
    })
}

/// Returns the start of a period.
pub fn start(list: &Periods, at: usize) -> Prose {
    let period = list.periods.get(at);
    period
        .map(|period| moment(period.from_unix_ns, format!("/periods/{at}/from_unix_ns")))
        .into()
}

/// Formats a share of the ranks' time, or a dash with its reason.
pub fn ratio(figure: &Figure<Ratio>, from: &str, reasons: &mut Reasons) -> Prose {
    reasons.figure(figure, from, |ratio, from| share_of_ratio(ratio, &from))
}

/// Returns the costliest finding of a period.
pub fn worst_of_period(list: &Periods, at: usize) -> Prose {
    let worst = findings::Place {
        period: at,
        finding: 0,
    };
    findings::name(list, worst)
}

/// Returns the greatest severity of the findings of a period.
pub fn severity(period: &Period) -> Option<Severity> {
    period.findings.iter().map(|finding| finding.severity).min()
}

fn periods(list: &Periods) -> Line {
    let count_of = list.periods.len() as u64;
    let finals = list
        .periods
        .iter()
        .enumerate()
        .filter(|(_, period)| period.is_final);
    let finals: Vec<usize> = finals.map(|(at, _)| at).collect();
    let mut text = prose![
        counted(count_of, "period", number("/periods/*/name")),
        " of ",
        time(list.length_ns, "/length_ns"),
    ];
    let is_one = list.periods.len() == 1;
    if finals.len() == list.periods.len() {
        text.push(if is_one { ", final" } else { ", all final" });
    } else if finals.is_empty() {
        text.push(if is_one {
            ", not final: the next merge replaces it"
        } else {
            ", none final: the next merge replaces them"
        });
    } else {
        let source = number(among("/periods", finals.iter().copied(), "/name"));
        text.push(prose![
            ", ",
            count(finals.len() as u64, source),
            " of them final; the next merge replaces the others"
        ]);
    }
    line(Level::Plain, text)
}

fn span(list: &Periods) -> Option<Line> {
    let (first, last) = (list.periods.first()?, list.periods.last()?);
    let at = list.periods.len() - 1;
    let (from, until) = ("/periods/0/from_unix_ns", format!("/periods/{at}/until_unix_ns"));
    let length_ns = last.until_unix_ns.saturating_sub(first.from_unix_ns);
    let text = prose![
        time(length_ns, less(&until, from)),
        ", from ",
        moment(first.from_unix_ns, from),
        " to ",
        moment(last.until_unix_ns, until)
    ];
    Some(line(Level::Plain, text))
}

fn gaps(list: &Periods) -> Option<Line> {
    let pairs = list.periods.windows(2);
    let missing = pairs
        .map(|pair| match pair {
            [before, after] => missing_between(list, before, after),
            _ => 0,
        })
        .fold(0, u64::saturating_add);
    let last = list.periods.len().checked_sub(1)?;
    let all = less(
        format!("/periods/{last}/until_unix_ns"),
        "/periods/0/from_unix_ns",
    );
    let source = less(share(all, "/length_ns"), number("/periods/*/name"));
    let text = prose![
        "nothing was recorded in ",
        counted(missing, "period", source),
        " between them"
    ];
    (missing > 0).then(|| line(Level::Warning, text))
}

fn ranks(list: &Periods) -> Line {
    const FROM: &str = "/periods/*/ranks";
    let ranks = || list.periods.iter().map(|period| period.ranks);
    let (least, most) = (ranks().min().unwrap_or(0), ranks().max().unwrap_or(0));
    let operations = list.periods.iter().map(|period| period.operations);
    let operations = operations.fold(0, u64::saturating_add);
    let mut text = Prose::default();
    if least < most {
        text.push(prose![count(least, min(FROM)), " to "]);
    }
    text.push(prose![
        counted(most, "rank", max(FROM)),
        ", ",
        counted(operations, "operation", sum(&["/periods/*/operations"])),
    ]);
    let level = if least < most {
        Level::Warning
    } else {
        Level::Plain
    };
    line(level, text)
}

fn steps(list: &Periods) -> Line {
    const MEDIAN: &str = "/periods/*/median_step_ns/value";
    let steps = list.periods.iter().map(|period| period.steps);
    let steps = steps.fold(0, u64::saturating_add);
    let medians = || {
        list.periods
            .iter()
            .filter_map(|period| period.median_step_ns.value)
    };
    let mut text = prose![counted(steps, "whole step", sum(&["/periods/*/steps"]))];
    if let (Some(least), Some(most)) = (medians().min(), medians().max()) {
        text.push("; the median step of a period takes ");
        if least < most {
            text.push(prose![time(least, min(MEDIAN)), " to "]);
        }
        text.push(time(most, max(MEDIAN)));
    }
    line(Level::Plain, text)
}

fn waiting(list: &Periods) -> Line {
    let sums = |of: fn(&Period) -> &Figure<Ratio>| {
        let known = || list.periods.iter().filter_map(move |period| of(period).value);
        // The rank-time of a large job in a week exceeds 64 bits.
        let part: i128 = known().map(|ratio| i128::from(ratio.numerator)).sum();
        let all: i128 = known().map(|ratio| i128::from(ratio.denominator)).sum();
        (all > 0).then(|| part as f64 / all as f64)
    };
    let from = |field: &str| {
        let of = |part: &str| sum(&[format!("/periods/*/{field}/value/{part}")]);
        share(of("numerator"), of("denominator"))
    };
    let communication = sums(|period| &period.exposed_communication);
    let wait = sums(|period| &period.exposed_wait);
    let (Some(communication), Some(wait)) = (communication, wait) else {
        return line(Level::Plain, "no rank has any time in these periods".into());
    };
    let text = prose![
        "exposed communication ",
        percent(communication, from("exposed_communication")),
        " and exposed wait ",
        percent(wait, from("exposed_wait")),
        " of the time of all ranks. The wait is a part of the communication"
    ];
    line(Level::Plain, text)
}
