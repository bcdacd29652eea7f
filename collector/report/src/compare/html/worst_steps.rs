//! Longest steps of both sides next to each other, as the viewer shows them.

use super::tables;
use crate::compare::phrases;
use crate::figures::{drawn, plain, quoted, time};
use crate::markup::html;
use crate::prose::{Prose, prose};
use crate::source::{less, share};
use crate::{figures, markup};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rankscope_formats::comparison::{Comparison, SideSummary};
use std::fmt::Write;

/// Side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Base.
    Base,
    /// New runs, which are judged.
    New,
}

/// Picture of one step's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPicture {
    /// Side of the run.
    pub side: Side,
    /// Position of the run in [`SideSummary::runs`].
    pub run: usize,
    /// Number of the step, as in [`rankscope_formats::comparison::WorstStep::step`].
    pub step: u64,
    /// Picture as PNG.
    pub png: Vec<u8>,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::New => "new",
        }
    }

    fn of(self, comparison: &Comparison) -> &SideSummary {
        match self {
            Self::Base => &comparison.base,
            Self::New => &comparison.new,
        }
    }
}

/// Adds the pictures in two columns. Without pictures it lists the steps, and how to see them.
pub fn section(out: &mut String, comparison: &Comparison, pictures: &[StepPicture]) {
    let table = tables::worst_steps(comparison);
    if table.is_empty() && pictures.is_empty() {
        return;
    }
    out.push_str("<h2>Longest steps</h2>\n");
    if pictures.is_empty() {
        let how = match phrases::view_command(comparison) {
            Ok(command) => format!(
                "<p>There are no pictures. To see the steps, aligned: <code data-as=\"drawn\" class=\"command\">{}</code></p>\n",
                markup::escape(&command)
            ),
            Err(reason) => format!("<p>There are no pictures: {}.</p>\n", markup::escape(reason)),
        };
        let _ = writeln!(out, "{how}{}", folded(&table));
        return;
    }
    out.push_str("<div class=\"sides\">\n");
    for side in [Side::Base, Side::New] {
        let _ = writeln!(out, "<div><h3>{}</h3>", side.name());
        let mut of_side = pictures.iter().filter(|picture| picture.side == side).peekable();
        if of_side.peek().is_none() {
            out.push_str("<p class=\"faint\">– no picture of this side</p>\n");
        }
        for picture in of_side {
            let image = format!(
                "<img class=\"timeline\" alt=\"timeline of all ranks in a long step of the {} runs\" src=\"data:image/png;base64,{}\"/>",
                side.name(),
                BASE64_STANDARD.encode(&picture.png)
            );
            let _ = writeln!(
                out,
                "<figure>{image}<figcaption>{}</figcaption></figure>",
                html(&caption(comparison, picture))
            );
        }
        out.push_str("</div>\n");
    }
    let _ = writeln!(out, "</div>\n{}", folded(&table));
}

fn folded(table: &str) -> String {
    let mut out = String::new();
    if !table.is_empty() {
        crate::html::details(&mut out, "List of these steps", table);
    }
    out
}

fn caption(comparison: &Comparison, picture: &StepPicture) -> Prose {
    let name = picture.side.name();
    let mut text = prose![
        name,
        " run ",
        drawn((picture.run + 1).to_string()),
        ", step ",
        drawn(picture.step.to_string())
    ];
    let Some(run) = picture.side.of(comparison).runs.get(picture.run) else {
        return text;
    };
    let of = |field: &str| format!("/{name}/runs/{}/{field}", picture.run);
    let mut steps = run.worst_steps.iter().enumerate();
    if let Some((at, step)) = steps.find(|(_, step)| step.step == picture.step) {
        let ns = step.end_ns - step.start_ns;
        let length = less(
            of(&format!("worst_steps/{at}/end_ns")),
            of(&format!("worst_steps/{at}/start_ns")),
        );
        text = prose![
            name,
            " run ",
            drawn((picture.run + 1).to_string()),
            ", step ",
            plain(step.step, of(&format!("worst_steps/{at}/step"))),
            ": ",
            time(ns, length.clone())
        ];
        if let Some(times) = run.step_time.filter(|times| times.p50 > 0.0) {
            let times_of = figures::percent(ns as f64 / times.p50, share(length, of("step_time/p50")));
            text.push(prose![", ", times_of, " of the run's median step"]);
        }
    }
    text.push(prose![" (", quoted(&run.name.directory, of("directory")), ")"]);
    text
}
