//! Overview of a run in periods for a terminal.

use super::findings::{self, Recurring, recurring};
use super::lines;
use super::rows::{self, MAX_ROWS, NEWEST, missing_between};
use crate::figures::{quoted, time};
use crate::prose::{Prose, prose};
use crate::reasons::Reasons;
use crate::sentences;
use crate::source::sum;
use crate::text::table::TextTable;
use crate::text::writer::{Text, wrapped};
use crate::{Places, TextLayout};
use rankscope_analysis::model::units;
use rankscope_formats::session::{Figure, PERIODS_FILE, Period, Periods, Ratio, Severity};
use std::ops::Range;

/// Maximum number of shown findings. The page has all.
const MAX_FINDINGS: usize = 8;
/// Widest finding in the table, in columns.
const FINDING_WIDTH: usize = 26;
/// Text before ` UTC`, and text without seconds, in letters.
const WITH_SECONDS: usize = 19;
const WITHOUT_SECONDS: usize = 16;

/// Formats the overview of a run in periods. `places.session` is the session directory of the run.
pub fn text(list: &Periods, places: &Places, layout: &TextLayout) -> String {
    let mut text = Text::new("\n", layout);
    overview(&mut text, list);
    text.heading("Details");
    if let Some(report) = &places.report {
        text.place(
            &report.display(),
            "the page: charts over time, all periods and findings",
        );
    }
    let all_final = list.periods.iter().filter(|period| period.is_final);
    // A period after the last operation has nothing to show. Of several maxima, the last one is returned.
    if let Some(newest) = all_final.max_by_key(|period| period.operations > 0) {
        let which = match newest.operations > 0 {
            true => "the newest final period with operations",
            false => "the newest final period",
        };
        text.place(
            &newest.path(&places.session).display(),
            &format!("{which}: a session for report, view, heatmap, export and compare"),
        );
    }
    text.place(
        &places.session.join(PERIODS_FILE).display(),
        "all figures of this text; report --json prints them",
    );
    text.out
}

/// Formats the overview of the periods in a range of time. `list` has only these, and `of` is the number of all periods of the run.
pub fn text_of_range(list: &Periods, range: &str, of: usize, layout: &TextLayout) -> String {
    let mut text = Text::new("\n", layout);
    let count = list.periods.len();
    let only = format!(
        "Only {count} of {of} periods: those with time {range}, counted from the start of the run. They are shown whole, also outside \
         this range. For the exact figures of a range, name one inside a single period."
    );
    for part in wrapped(&only, text.width) {
        let part = text.paint.warning(&part);
        text.line(&part);
    }
    overview(&mut text, list);
    text.out
}

fn overview(text: &mut Text, list: &Periods) {
    let all = recurring(list);
    for (label, line) in lines::lines(list) {
        text.labelled(label, &line);
    }
    if list.periods.is_empty() {
        return;
    }
    text.labelled("Findings", &lines::headline(list, &all));
    table(text, list);
    findings_block(text, list, &all);
    text.line("");
    for (label, line) in lines::losses(list) {
        text.labelled(label, &line);
    }
}

/// Formats the start of a period. All starts have seconds if one needs them.
fn start(list: &Periods, at: usize) -> String {
    let is_whole = list.length_ns % 60_000_000_000 == 0;
    let length = if is_whole { WITHOUT_SECONDS } else { WITH_SECONDS };
    lines::start(list, at).plain().chars().take(length).collect()
}

fn table(text: &mut Text, list: &Periods) {
    text.heading("Periods, by their start in UTC");
    let shown = rows::shown(list);
    let mut reasons = Reasons::default();
    let mut table = TextTable::new(
        2,
        &[
            "start",
            "costliest finding",
            "median step",
            "exposed wait",
            "exposed comm.",
            "steps",
            "operations",
            "ranks",
        ],
    );
    let between = |what: String| vec!["…".to_owned(), what];
    let left_out = |range: Range<usize>| {
        let count = units::counted(range.len() as u64, "period");
        let mut row = between(format!("{count} left out"));
        row.extend(largest(list, range));
        row
    };
    let mut before: Option<usize> = None;
    for &at in &shown {
        let Some(period) = list.periods.get(at) else {
            continue;
        };
        let next = before.map_or(0, |before| before + 1);
        if next < at {
            table.push(left_out(next..at));
        } else if let Some(last) = before.and_then(|before| list.periods.get(before)) {
            let missing = missing_between(list, last, period);
            if missing > 0 {
                let missing = units::counted(missing, "period");
                table.push(between(format!("{missing} without records")));
            }
        }
        before = Some(at);
        let mark = if period.is_final { "" } else { " *" };
        table.push(vec![
            format!("{}{mark}", start(list, at)),
            short(&lines::worst_of_period(list, at)),
            reasons.plain(&period.median_step_ns, |&ns| units::time(ns)),
            lines::ratio(&period.exposed_wait, "", &mut reasons).plain(),
            lines::ratio(&period.exposed_communication, "", &mut reasons).plain(),
            units::count(period.steps),
            units::count(period.operations),
            units::count(period.ranks),
        ]);
    }
    text.table(&table, &reasons);
    let has_open = shown
        .iter()
        .any(|&at| list.periods.get(at).is_some_and(|period| !period.is_final));
    if has_open {
        text.faint("* not final: its run may still record, and the next merge replaces it");
    }
    text.faint("exposed wait and exposed communication: shares of the ranks' time");
    if shown.len() < list.periods.len() {
        text.faint(&format!(
            "{MAX_ROWS} of {} periods: the newest {NEWEST}, and of the others the {} with the largest cost of a finding, then the \
             largest exposed wait. The page has all.",
            list.periods.len(),
            MAX_ROWS - NEWEST
        ));
    }
}

/// Returns the largest values of the first columns of numbers, for periods that share a row.
fn largest(list: &Periods, range: Range<usize>) -> Vec<String> {
    let periods = || list.periods.get(range.clone()).unwrap_or_default().iter();
    let share = |of: fn(&Period) -> &Figure<Ratio>| {
        let shares = periods().filter_map(|period| of(period).value).map(Ratio::share);
        shares.reduce(f64::max).map(units::percent)
    };
    let steps = periods().filter_map(|period| period.median_step_ns.value);
    [
        steps.max().map(units::time),
        share(|period| &period.exposed_wait),
        share(|period| &period.exposed_communication),
    ]
    .map(|value| value.map_or_else(String::new, |value| format!("≤ {value}")))
    .into()
}

/// Shortens the name of a finding for the table.
fn short(name: &Prose) -> String {
    let name = name.plain();
    if name.chars().count() <= FINDING_WIDTH {
        return name;
    }
    let start: String = name.chars().take(FINDING_WIDTH - 1).collect();
    format!("{start}…")
}

fn findings_block(text: &mut Text, list: &Periods, all: &[Recurring]) {
    if all.is_empty() {
        return;
    }
    text.heading("Findings over the periods, the largest total cost first");
    for of in all.iter().take(MAX_FINDINGS) {
        let level = sentences::level(of.severity);
        let heading = prose![of.name(list), ": ", lines::in_periods(list, of)].plain();
        let mark = if of.severity == Severity::Note { " " } else { "!" };
        for (row, part) in wrapped(&heading, text.width - 4).iter().enumerate() {
            let part = text.paint(level, part);
            text.line(&format!("  {} {part}", if row == 0 { mark } else { " " }));
        }
        let mut more = vec![seen(list, of), cost(list, of).plain()];
        if let Some(worst) = findings::at(list, of.worst) {
            let title = Prose::from(quoted(&worst.title, of.worst.of("title"))).plain();
            more.push(format!("{}: {title}", start(list, of.worst.period)));
        }
        for sentence in more {
            for part in wrapped(&sentence, text.width - 4) {
                text.line(&format!("    {part}"));
            }
        }
    }
    if all.len() > MAX_FINDINGS {
        text.line(&format!("  … {} more on the page", all.len() - MAX_FINDINGS));
    }
    if let Some(note) = lines::cut_findings(list) {
        text.faint(&note.plain());
    }
}

/// `first in 2026-11-28 17:00, last in 2026-11-29 04:00`.
fn seen(list: &Periods, of: &Recurring) -> String {
    let at =
        |place: Option<&findings::Place>| place.map_or_else(String::new, |place| start(list, place.period));
    match of.places.as_slice() {
        [only] => format!("only in {}", at(Some(only))),
        places => format!("first in {}, last in {}", at(places.first()), at(places.last())),
    }
}

fn cost(list: &Periods, of: &Recurring) -> Prose {
    let worst = findings::at(list, of.worst);
    let Some(total_ns) = of.total_ns else {
        let reason = worst.and_then(|worst| worst.cost_ns.get().err());
        return prose!["cost: not known", reason.map(|reason| format!(" ({reason})"))];
    };
    let unknown = of.places.len() - of.with_cost.len();
    let mut text = prose!["cost: ", time(total_ns, sum(&[of.costs()])), " of job time"];
    if let Some(worst) = worst
        && let Some(cost_ns) = worst.cost_ns.value
        && of.with_cost.len() > 1
    {
        let most = time(cost_ns, of.worst.of("cost_ns/value"));
        text.push(prose![
            " in all, at most ",
            most,
            ", in ",
            start(list, of.worst.period)
        ]);
    }
    if unknown > 0 {
        let unknown = units::counted(unknown as u64, "period");
        text.push(format!("; not known in {unknown}"));
    }
    text
}
