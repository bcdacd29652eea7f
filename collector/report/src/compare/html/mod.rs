//! HTML page of a comparison: a single self-contained file. It shares head, style sheet, tables and charts with the
//! report's page.
//!
//! The modules: [`axis`] maps values to positions. Charts are [`runs`] (each gated metric, and all steps of each run),
//! [`parts`] (from one step time to the other), [`ranks`], and [`forest`] (all metrics). [`worst_steps`] shows pictures
//! of the viewer, and [`tables`] the numbers. Every number names its source in `rankscope compare --json`.

mod axis;
mod chart;
mod forest;
mod parts;
mod ranks;
mod runs;
mod tables;
mod worst_steps;

pub use worst_steps::{Side, StepPicture};

use crate::compare::phrases;
use crate::compare::severities;
use crate::figures::{percent, quoted};
use crate::html::{class, details, figure, open, paragraph, section};
use crate::markup::{element, escape};
use crate::prose::{Prose, prose};
use crate::sentences::Level;
use rankscope_formats::comparison::Comparison;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// Maximum number of rows of a list that are shown unfolded.
const MAX_UNFOLDED: usize = 12;

/// Returns the page, with pictures of long steps of both sides if there are any.
pub fn comparison_page(comparison: &Comparison, pictures: &[StepPicture]) -> String {
    let mut out = String::with_capacity(1 << 17);
    head(&mut out, comparison);
    first(&mut out, comparison);
    section(&mut out, "Gates", None, &tables::gates(comparison));
    gated(&mut out, comparison);
    why(&mut out, comparison);
    of_ranks(&mut out, comparison);
    what_changed(&mut out, comparison);
    of_metrics(&mut out, comparison);
    worst_steps::section(&mut out, comparison, pictures);
    section(
        &mut out,
        "Differences between the runs",
        None,
        &tables::differences(comparison),
    );
    section(&mut out, "Runs used", None, &tables::runs(comparison));
    method(&mut out, comparison);
    foot(&mut out, comparison);
    out
}

fn head(out: &mut String, comparison: &Comparison) {
    open(out, &prose!["Comparison: ", comparison.verdict.name()], STYLE);
    let level = severities::of_comparison(comparison.verdict);
    let headline = prose![
        prose![quoted(comparison.verdict, "/verdict")].capitalised(),
        ": ",
        quoted(&comparison.headline, "/headline")
    ];
    let _ = writeln!(
        out,
        "<h1>Comparison of training runs</h1>\n{}",
        element(
            "p",
            &format!(r#" class="headline {}""#, class(level)),
            &headline,
            "span"
        )
    );
}

/// Adds what a reader must know before any figure: what can be found, why there is no verdict, what is compared.
fn first(out: &mut String, comparison: &Comparison) {
    out.push_str("<div class=\"verdicts\"><dl>\n");
    let list = |texts: &[String], field: &str| -> Vec<Prose> {
        let texts = texts.iter().enumerate();
        texts
            .map(|(at, text)| quoted(text, format!("/{field}/{at}")).into())
            .collect()
    };
    let can_find: Vec<Prose> = phrases::can_find(comparison).into_iter().collect();
    entry(out, "Sensitivity", Level::Plain, &can_find);
    entry(
        out,
        "Reasons",
        Level::Warning,
        &list(&comparison.reasons, "reasons"),
    );
    entry(out, "Note", Level::Plain, &list(&comparison.cautions, "cautions"));
    entry(
        out,
        "Base",
        Level::Plain,
        &[phrases::side(&comparison.base, "/base")],
    );
    entry(
        out,
        "New",
        Level::Plain,
        &[phrases::side(&comparison.new, "/new")],
    );
    let _ = write!(
        out,
        "<dt>Timeline</dt><dd>{}</dd>\n</dl></div>\n",
        closer(comparison)
    );
}

/// Returns how to see both sides in the viewer.
fn closer(comparison: &Comparison) -> String {
    match phrases::view_command(comparison) {
        // A path consists of letters and digits from the JSON. It is not a measured value.
        Ok(command) => format!(
            "<code data-as=\"drawn\" class=\"command\">{}</code>",
            escape(&command)
        ),
        Err(reason) => format!("– {}", escape(reason)),
    }
}

fn entry(out: &mut String, name: &str, level: Level, texts: &[Prose]) {
    if texts.is_empty() {
        return;
    }
    let _ = write!(out, "<dt>{name}</dt><dd>");
    for text in texts {
        out.push_str(&element(
            "div",
            &format!(r#" class="{}""#, class(level)),
            text,
            "span",
        ));
    }
    out.push_str("</dd>\n");
}

fn gated(out: &mut String, comparison: &Comparison) {
    let pictures = runs::of_gates(comparison);
    let boxes = runs::boxes(comparison);
    if pictures.is_empty() && boxes.is_none() {
        return;
    }
    out.push_str("<h2>Distribution of the runs</h2>\n");
    if !pictures.is_empty() {
        let note = prose![
            "A point is the mean of one run, a line across the points the mean of a side. The bar below is the \
             change from the base's mean with its interval. A change beyond the dashed line exceeds the limit. A \
             gate fails if the whole bar is beyond it. It passes if the short mark on the bar is within the limit: a \
             larger change is excluded except for ",
            percent(comparison.method.pass_alpha, "/method/pass_alpha"),
            " of cases."
        ];
        for (title, picture) in &pictures {
            let _ = write!(out, "{}{picture}", element("h3", "", title, "span"));
        }
        let _ = writeln!(out, "{}", paragraph("faint", &note));
    }
    if let Some(boxes) = boxes {
        out.push_str("<h3>Step times of each run</h3>\n");
        figure(out, &boxes.picture, &boxes.note);
    }
}

fn why(out: &mut String, comparison: &Comparison) {
    out.push_str("<h2>Why the step time changed</h2>\n");
    if let Some(reason) = &comparison.attribution.reason {
        let reason = prose!["– ", quoted(reason, "/attribution/reason")];
        let _ = writeln!(out, "{}", paragraph("plain", &reason));
        return;
    }
    let _ = writeln!(out, "{}", paragraph("plain", &phrases::step_change(comparison)));
    if let Some(picture) = parts::waterfall(comparison) {
        figure(
            out,
            &picture,
            &prose![
                "From the base's step at the top to the new one at the bottom: each bar starts where the one above \
                 ends. A bar to the right is added time, one to the left removed time. The axis need not start at \
                 zero."
            ],
        );
    }
    if let Some(picture) = parts::steps(comparison) {
        figure(out, &picture, &prose!["The same steps, from zero."]);
    }
    details(out, "Table", &tables::parts(comparison));
}

fn of_ranks(out: &mut String, comparison: &Comparison) {
    let Some(picture) = ranks::draw(comparison) else {
        return;
    };
    out.push_str("<h2>Ranks</h2>\n");
    figure(out, &picture.picture, &picture.note);
    details(
        out,
        "Ranks with the most unusual change",
        &tables::ranks(comparison),
    );
}

fn what_changed(out: &mut String, comparison: &Comparison) {
    let all = comparison.changes.len();
    let first = all.min(MAX_UNFOLDED);
    section(
        out,
        "Changes",
        Some(&prose!["Times are changes of the mean step."]),
        &tables::changes(comparison, 0..first),
    );
    let more = tables::changes(comparison, first..all);
    if !more.is_empty() {
        details(out, "More changes", &more);
    }
}

fn of_metrics(out: &mut String, comparison: &Comparison) {
    if comparison.metrics.is_empty() && comparison.not_compared.is_empty() {
        return;
    }
    out.push_str("<h2>Metrics</h2>\n");
    if let Some(picture) = forest::draw(comparison) {
        figure(out, &picture.picture, &picture.note);
    }
    details(out, "All metrics", &tables::metrics(comparison));
    let not_compared = tables::not_compared(comparison);
    if !not_compared.is_empty() {
        details(out, "Metrics that cannot be compared", &not_compared);
    }
}

fn method(out: &mut String, comparison: &Comparison) {
    out.push_str("<h2>Method</h2>\n");
    for sentence in phrases::method(comparison) {
        let _ = writeln!(out, "{}", paragraph("plain", &sentence));
    }
}

fn foot(out: &mut String, comparison: &Comparison) {
    let made = prose![
        "Made by ",
        quoted(&comparison.tool.name, "/tool/name"),
        " ",
        quoted(&comparison.tool.version, "/tool/version"),
        ". A value that could not be computed is shown as – with its reason."
    ];
    let _ = write!(
        out,
        "<footer class=\"faint\">{}</footer>\n</body></html>\n",
        paragraph("faint", &made)
    );
}
