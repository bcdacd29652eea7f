//! Page of a run in periods: a single self-contained file, as that of a session.

use super::chart::{self, MAX_FINDINGS};
use super::findings::{self, Recurring, recurring};
use super::lines;
use super::links::Links;
use crate::figures::{bytes, count, drawn, moment, part, quoted, time};
use crate::html::table::{Column, Table};
use crate::html::{class, figure, open, paragraph, section};
use crate::markup::{element, html};
use crate::prose::{Prose, prose};
use crate::reasons::Reasons;
use crate::source::{number, sum};
use rankscope_formats::session::{PeriodFinding, Periods, Severity};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Writes the page, with links to the reports of periods.
pub fn page(list: &Periods, links: &Links) -> String {
    let all = recurring(list);
    let mut out = String::with_capacity(1 << 16);
    head(&mut out, list, &all);
    verdicts(&mut out, list);
    if let Some(picture) = chart::draw(list, &all) {
        out.push_str("<h2>All periods over time</h2>\n");
        figure(&mut out, &picture, &chart_note(&all));
    }
    section(
        &mut out,
        "Findings over all periods",
        Some(&findings_note(list)),
        &findings_table(list, &all),
    );
    section(
        &mut out,
        "Periods",
        Some(&prose![
            "The newest first. Shares are of the ranks' time in the period. A start is a link if the period has a report."
        ]),
        &periods_table(list, links),
    );
    foot(&mut out, list);
    out
}

fn head(out: &mut String, list: &Periods, all: &[Recurring]) {
    let title = match list.directories.first() {
        Some(path) => {
            let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
            prose![part(name, "/directories/0")]
        }
        None => prose!["rankscope"],
    };
    open(out, &title, STYLE);
    let first = lines::headline(list, all);
    let headline = format!(r#" class="headline {}""#, class(first.level));
    let made_by = prose![
        "a run in periods · ",
        quoted(&list.tool.name, "/tool/name"),
        " ",
        quoted(&list.tool.version, "/tool/version")
    ];
    let _ = write!(
        out,
        "{}\n{}\n{}\n",
        element("h1", "", &title, "span"),
        element("p", &headline, &first.text, "span"),
        paragraph("faint", &made_by)
    );
}

fn verdicts(out: &mut String, list: &Periods) {
    out.push_str("<div class=\"verdicts\"><dl>\n");
    let mut is_open = false;
    for (name, line) in lines::lines(list).into_iter().chain(lines::losses(list)) {
        // A sentence without a label belongs to the one before.
        if !name.is_empty() {
            let end = if is_open { "</dd>\n" } else { "" };
            let _ = write!(out, "{end}<dt>{name}</dt><dd>");
            is_open = true;
        }
        let level = format!(r#" class="{}""#, class(line.level));
        out.push_str(&element("div", &level, &line.text, "span"));
    }
    out.push_str(if is_open {
        "</dd>\n</dl></div>\n"
    } else {
        "</dl></div>\n"
    });
}

fn chart_note(all: &[Recurring]) -> Prose {
    let mut note = prose!["Shares are of the ranks' time. A mark shows its exact values under the pointer."];
    if all.len() > MAX_FINDINGS {
        note.push(prose![
            " The rows are the ",
            drawn(MAX_FINDINGS.to_string()),
            " findings with the largest total cost; the table has all."
        ]);
    }
    note
}

fn findings_note(list: &Periods) -> Prose {
    let mut note = prose![
        "Findings of one kind about one subject are one row: the largest total cost first, unknown costs last."
    ];
    if let Some(cut) = lines::cut_findings(list) {
        note.push(prose![" ", cut]);
    }
    note
}

fn findings_table(list: &Periods, all: &[Recurring]) -> String {
    let mut table = Table::new(&[
        Column::Long("finding"),
        Column::Number("periods"),
        Column::Word("first"),
        Column::Word("last"),
        Column::Number("total cost"),
        Column::Number("largest cost"),
        Column::Long("the costliest"),
    ]);
    for of in all {
        let start = |place: Option<&findings::Place>| {
            place.map_or_else(Prose::default, |place| lines::start(list, place.period))
        };
        let worst = findings::at(list, of.worst);
        let row = vec![
            of.name(list),
            count(of.places.len() as u64, number(of.all("kind"))).into(),
            start(of.places.first()),
            start(of.places.last()),
            total(of, worst, &mut table.reasons),
            cost(worst, of.worst, &mut table.reasons),
            prose![
                lines::start(list, of.worst.period),
                worst.map(|finding| prose![": ", quoted(&finding.title, of.worst.of("title"))])
            ],
        ];
        table.push_as(row_class(Some(of.severity)), row);
    }
    table.finish()
}

/// Formats the sum of the known costs.
fn total(of: &Recurring, worst: Option<&PeriodFinding>, reasons: &mut Reasons) -> Prose {
    let Some(total_ns) = of.total_ns else {
        return cost(worst, of.worst, reasons);
    };
    let mut text = prose![time(total_ns, sum(&[of.costs()]))];
    if of.with_cost.len() < of.places.len() {
        text.push(reasons.dash("and an unknown cost in some of the periods"));
    }
    text
}

fn cost(finding: Option<&PeriodFinding>, place: findings::Place, reasons: &mut Reasons) -> Prose {
    finding.map_or_else(Prose::default, |finding| {
        reasons.figure(&finding.cost_ns, &place.of("cost_ns"), |&ns, from| time(ns, from))
    })
}

/// Returns the class of a row: a coloured edge by severity.
fn row_class(severity: Option<Severity>) -> &'static str {
    match severity {
        Some(Severity::Critical) => "critical-row",
        Some(Severity::Warning) => "caution-row",
        _ => "",
    }
}

fn periods_table(list: &Periods, links: &Links) -> String {
    let mut table = Table::new(&[
        Column::Word("start"),
        Column::Word("state"),
        Column::Number("ranks"),
        Column::Number("operations"),
        Column::Number("bytes"),
        Column::Number("steps"),
        Column::Number("median step"),
        Column::Number("exposed communication"),
        Column::Number("exposed wait"),
        Column::Number("left out"),
        Column::Number("lost"),
        Column::Number("problems"),
        Column::Number("findings"),
        Column::Word("costliest finding"),
    ])
    .all_in("rankscope report --json");
    for (at, period) in list.periods.iter().enumerate().rev() {
        let of = |field: &str| format!("/periods/{at}/{field}");
        let start = moment(period.from_unix_ns, of("from_unix_ns"));
        let start = match links.to(period) {
            Some(href) => Prose::from((start, href)),
            None => start.into(),
        };
        // A column without any number is left out.
        let some = |value: u64, field: &str| (value > 0).then(|| count(value, of(field)));
        let findings = number(of("findings/*/kind"));
        let row: Vec<Prose> = vec![
            start,
            if period.is_final { "" } else { "not final" }.into(),
            count(period.ranks, of("ranks")).into(),
            count(period.operations, of("operations")).into(),
            bytes(period.bytes, of("bytes")).into(),
            count(period.steps, of("steps")).into(),
            table
                .reasons
                .figure(&period.median_step_ns, &of("median_step_ns"), |&ns, from| {
                    time(ns, from)
                }),
            lines::ratio(
                &period.exposed_communication,
                &of("exposed_communication"),
                &mut table.reasons,
            ),
            lines::ratio(&period.exposed_wait, &of("exposed_wait"), &mut table.reasons),
            some(period.left_out, "left_out").into(),
            some(period.lost, "lost").into(),
            some(period.problems, "problems").into(),
            count(period.findings.len() as u64, findings).into(),
            lines::worst_of_period(list, at),
        ];
        table.push_as(row_class(lines::severity(period)), row);
    }
    table.finish()
}

fn foot(out: &mut String, list: &Periods) {
    let directories = list.directories.iter().enumerate();
    let directories = directories.map(|(at, path)| quoted(path, format!("/directories/{at}")));
    let made = prose![
        "Made from ",
        Prose::join(directories, ", "),
        ". A value that could not be computed is shown as – with its reason."
    ];
    let _ = write!(
        out,
        "<footer class=\"faint\"><p>{}</p></footer>\n</body></html>\n",
        html(&made)
    );
}
