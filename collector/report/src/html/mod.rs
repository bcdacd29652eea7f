//! `report.html`: a single self-contained file that can be mailed and printed.
//!
//! It is well-formed XML as well as HTML, so that a test can parse it. It runs no script and loads nothing; its content
//! security policy enforces this.

mod breakdown;
mod steps;
pub(super) mod svg;
pub(super) mod table;
mod tables;

use super::figures::{self, counted, drawn, moment, part, quoted, rule, time};
use super::markup::{element, escape, html};
use super::prose::{Prose, prose};
use super::structure;
use crate::heatmap::{self, Kind, picture};
use crate::hta_figures;
use crate::sentences;
use crate::sentences::{Level, Line};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rankscope_analysis::selection::rollup::rollups;
use rankscope_formats::session::Window;
use rankscope_formats::session::{DeviceActivity, Finding, Session, TrafficRow};
use std::fmt::Write;
use std::ops::Range;

const STYLE: &str = include_str!("style.css");
/// Maximum number of worlds whose steps are drawn.
const MAX_WORLDS: u32 = 4;

/// Size of heat maps on the page. It bounds the size of the page for jobs of any size.
const MAP: picture::PictureStyle = picture::PictureStyle {
    most: (860, 512),
    cell: (28, 26),
    margin: 0,
    most_elements: 1_200,
    with_words: false,
    spread: None,
    clips: false,
};

/// Writes the page; `moved` is the session's table `traffic`.
pub fn page(session: &Session, moved: &[TrafficRow]) -> String {
    page_with(session, moved, None)
}

/// Writes the page with a picture of the timeline (PNG).
pub fn page_with(session: &Session, moved: &[TrafficRow], timeline: Option<&[u8]>) -> String {
    let mut out = String::with_capacity(1 << 16);
    head(&mut out, session);
    verdicts(&mut out, session);
    findings(&mut out, session);
    if let Some(png) = timeline {
        timeline_section(&mut out, png);
    }
    scorecard(&mut out, session);
    breakdown_section(&mut out, session);
    activity_section(&mut out, session);
    waits(&mut out, session);
    steps_section(&mut out, session);
    let operations = tables::operations(session);
    let pictured = match heat_map(session, moved, Kind::Busbw) {
        Ok(figure) if !operations.is_empty() => figure,
        _ => String::new(),
    };
    section(
        &mut out,
        "Operations by kind and size",
        Some(&operations_note(session)),
        &format!("{pictured}{operations}"),
    );
    section(
        &mut out,
        "Waiting caused by each rank",
        Some(&prose![
            "Each gap between arrivals is divided equally among the ranks that were still missing. Exposed: the \
             waiting program could not continue."
        ]),
        &tables::blame(session),
    );
    traffic_section(&mut out, session, moved);
    structure_section(&mut out, session);
    named_times_section(&mut out, session);
    counters_section(&mut out, session);
    rolled_up_section(&mut out, session, moved);
    section(&mut out, "Ranks and their logs", None, &tables::ranks(session));
    section(
        &mut out,
        "Hosts and clocks",
        Some(&clocks(session)),
        &format!("{}{}", tables::hosts(session), tables::clock_pairs(session)),
    );
    if !session.devices.is_empty() {
        section(
            &mut out,
            "Devices",
            Some(&prose![
                "Device times are converted to the axis with evidence from the run itself. They are late by at most \
                 the given error."
            ]),
            &tables::devices(session),
        );
    }
    section(&mut out, "Communicators", None, &tables::communicators(session));
    section(&mut out, "Losses", None, &tables::losses(session));
    section(
        &mut out,
        "Unmatched operations",
        listed(session.matching.listed.len()).as_ref(),
        &tables::unmatched(session),
    );
    section(
        &mut out,
        "Problems with the recordings",
        (session.problems.total > session.problems.listed.len() as u64)
            .then(|| {
                prose![
                    figures::count(session.problems.total, "/problems/total"),
                    " in total; the first of them:"
                ]
            })
            .as_ref(),
        &tables::problems(session),
    );
    foot(&mut out, session);
    out
}

fn head(out: &mut String, session: &Session) {
    let first = sentences::headline(session);
    let title = match session.directories.first() {
        Some(path) => {
            let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
            prose![part(name, "/directories/0")]
        }
        None => prose!["rankscope"],
    };
    open(out, &title, "");
    let _ = write!(
        out,
        "{heading}\n{headline}\n{recorded}\n",
        heading = element("h1", "", &title, "span"),
        headline = element(
            "p",
            &format!(r#" class="headline {}""#, class(first.level)),
            &first.text,
            "span"
        ),
        recorded = paragraph(
            "faint",
            &prose![
                "recorded ",
                moment(session.axis.origin_unix_ns, "/axis/origin_unix_ns"),
                " · ",
                quoted(&session.tool.name, "/tool/name"),
                " ",
                quoted(&session.tool.version, "/tool/version")
            ]
        ),
    );
    let mut ranks = session.ranks.iter().enumerate();
    if let Some((at, command)) = ranks.find_map(|(at, rank)| Some((at, rank.command_line.as_deref()?))) {
        let command = quoted(command, format!("/ranks/{at}/command_line"));
        let _ = writeln!(out, "{}", paragraph("command", &prose![command]));
    }
}

/// Starts a page, up to the start of its body; `style` is added to the common style sheet.
pub(super) fn open(out: &mut String, title: &Prose, style: &str) {
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\
         <title>{title} – rankscope</title>\n<style>\n{STYLE}{style}</style></head>\n<body>\n",
        title = escape(&title.plain()),
    );
}

/// Adds what a reader must know before any figure: coverage, losses, late ranks.
fn verdicts(out: &mut String, session: &Session) {
    out.push_str("<div class=\"verdicts\"><dl>\n");
    entry(
        out,
        "Coverage",
        &[
            vec![sentences::coverage(session)],
            sentences::coverage_notes(session),
        ]
        .concat(),
    );
    entry(out, "Losses", &sentences::losses(session));
    entry(out, "Run", &[sentences::run(session)]);
    let devices = sentences::devices(session);
    if !devices.is_empty() {
        entry(out, "Devices", &devices);
    }
    let activity = sentences::activity(session);
    if !activity.is_empty() {
        entry(out, "Kernels", &activity);
    }
    entry(out, "Steps", &[sentences::steps(session)]);
    entry(out, "Late ranks", &[sentences::verdict(session)]);
    entry(out, "Matching", &sentences::matching(session));
    if session.problems.total > 0 {
        let text = prose![
            counted(session.problems.total, "problem", "/problems/total"),
            " with the recordings, listed below"
        ];
        entry(
            out,
            "Problems",
            &[Line {
                level: Level::Warning,
                text,
                advice: None,
            }],
        );
    }
    out.push_str("</dl></div>\n");
}

fn entry(out: &mut String, name: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "<dt>{name}</dt><dd>");
    for line in lines {
        out.push_str(&element(
            "div",
            &format!(r#" class="{}""#, class(line.level)),
            &line.text,
            "span",
        ));
        if let Some(advice) = &line.advice {
            out.push_str(&element("div", r#" class="advice""#, advice, "span"));
        }
    }
    out.push_str("</dd>\n");
}

pub(super) fn class(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Plain => "plain",
        Level::Warning => "warning",
        Level::Bad => "bad",
    }
}

fn findings(out: &mut String, session: &Session) {
    if session.findings.is_empty() {
        return;
    }
    out.push_str("<h2>Findings</h2>\n");
    for (at, finding) in session.findings.iter().enumerate() {
        let line = sentences::finding_line(at, finding);
        let level = class(line.level);
        let heading = element("h3", &format!(r#" class="{level}""#), &line.text, "span");
        let _ = write!(out, r#"<div class="finding is-{level}">{heading}"#);
        out.push_str(&items(&evidence(at, finding)));
        if let Some(advice) = &line.advice {
            out.push_str(&paragraph("advice", advice));
        }
        let details = sentences::details(at, finding);
        if !details.is_empty() {
            let _ = write!(
                out,
                "<details><summary>conditions, cost basis, and examples</summary>{}</details>",
                items(&details)
            );
        }
        out.push_str("</div>\n");
    }
}

/// Formats a list, or nothing if it is empty.
pub(super) fn items(texts: &[Prose]) -> String {
    let items: String = texts.iter().map(|text| element("li", "", text, "span")).collect();
    if items.is_empty() {
        items
    } else {
        format!("<ul>{items}</ul>")
    }
}

pub(super) fn paragraph(class: &str, text: &Prose) -> String {
    element("p", &format!(r#" class="{class}""#), text, "span")
}

fn scorecard(out: &mut String, session: &Session) {
    let Some(card) = &session.scorecard else { return };
    let total = sentences::score_total(card);
    let _ = writeln!(
        out,
        "<h2>Scorecard</h2>{}",
        paragraph(class(total.level), &total.text)
    );
    out.push_str(&tables::scorecard(card));
}

fn evidence(at: usize, finding: &Finding) -> Vec<Prose> {
    let mut evidence = sentences::evidence(at, finding);
    if let Some(late) = &finding.lateness {
        let of = |field: &str| format!("/findings/{at}/lateness/{field}");
        evidence.push(prose![
            quoted(&late.class, of("class")),
            ", in ",
            counted(late.episodes, "episode", of("episodes")),
            "; probability of this by chance: p = ",
            figures::tiny(late.p_value, of("p_value"))
        ]);
    }
    evidence
}

fn breakdown_section(out: &mut String, session: &Session) {
    // The device breakdown shows more.
    if session
        .breakdown
        .iter()
        .all(|entry| sentences::has_device_breakdown(session, entry))
    {
        return;
    }
    let Some(picture) = breakdown::draw(session) else {
        return;
    };
    out.push_str("<h2>Where each rank's time went</h2>\n");
    let what = match session.breakdown.first().map(|entry| (entry.window, entry.steps)) {
        Some((Window::Steps, steps)) => prose!["All ", counted(steps, "whole step", "/breakdown/0/steps")],
        _ => prose!["From the first to the last record"],
    };
    let note = prose![
        what,
        ". Exposed: the training thread could not continue because of communication. Communication in the background \
         costs nothing and is not in the bars.",
        if session.breakdown.len() > breakdown::MOST_ROWS {
            " Neighbouring ranks share a bar."
        } else {
            ""
        }
    ];
    figure(out, &picture, &note);
    details(out, "Table", &tables::breakdown(session));
}

fn activity_section(out: &mut String, session: &Session) {
    if session.activity.is_empty() {
        return;
    }
    out.push_str("<h2>Where the devices' time went</h2>\n");
    if let Some(picture) = breakdown::draw_devices(session) {
        let note = match session.activity.iter().find(|entry| entry.window_ns > 0) {
            Some(entry) if entry.window == Window::Steps => {
                "Complete steps in which all device activity was recorded. A communication kernel spins while a peer \
                 is late: that part is the exposed wait."
            }
            _ => "The time in which all device activity was recorded.",
        };
        figure(out, &picture, &prose![note]);
    }
    out.push_str(&tables::activity(session));
    let has = |is_there: fn(&DeviceActivity) -> bool| session.activity.iter().any(is_there);
    if has(|entry| entry.device_stalls.count > 0) {
        details(out, "Stalls by cause", &tables::stalls(session));
    }
    if has(|entry| !entry.recurring_stalls.is_empty()) {
        let places = tables::recurring_stalls(session);
        details(out, "Recurring stalls", &places);
    }
    details(out, "Idle gaps by cause", &tables::idle(session));
    details(
        out,
        "Kernels with the longest total time",
        &tables::kernels(session),
    );
    if let Some(figures) = hta_figures::figures(session) {
        let note = paragraph("note", &prose![hta_figures::NOTE, "."]);
        let table = tables::beside_hta(session, figures);
        details(out, "Figures of Holistic Trace Analysis", &(note + &table));
    }
}

fn waits(out: &mut String, session: &Session) {
    out.push_str(&heatmap::svg::shared());
    out.push_str("<h2>Waits over time</h2>\n");
    let maps = [
        (Kind::Wait, "Exposed wait"),
        (Kind::Delay, "Own delay"),
        (Kind::Communication, "Exposed communication"),
        (Kind::StepTime, "Step time"),
    ];
    let mut reasons: Vec<Prose> = Vec::new();
    for (kind, title) in maps {
        match heat_map(session, &[], kind) {
            Ok(figure) => {
                let _ = writeln!(out, "<h3>{title}</h3>\n{figure}");
            }
            Err(reason) => reasons.push(reason),
        }
    }
    reasons.dedup();
    for reason in reasons {
        let _ = writeln!(out, "<p>– {}</p>", html(&reason));
    }
}

/// Draws a heat map with its notes, or returns why there is none.
fn heat_map(session: &Session, moved: &[TrafficRow], kind: Kind) -> Result<String, Prose> {
    let picture = heatmap::of_summary(session, moved, kind)?;
    let drawn = picture::draw(&picture, &MAP).ok_or("no data for this map")?;
    let mut out = String::new();
    figure(
        &mut out,
        &heatmap::svg::element(&drawn.scene),
        &Prose::join(picture.notes, " "),
    );
    Ok(out)
}

fn traffic_section(out: &mut String, session: &Session, moved: &[TrafficRow]) {
    if moved.is_empty() && session.traffic.is_empty() {
        return;
    }
    out.push_str("<h2>Traffic between ranks</h2>\n");
    for (kind, title) in [(Kind::Traffic, "Bytes"), (Kind::TrafficBandwidth, "Bandwidth")] {
        match heat_map(session, moved, kind) {
            Ok(figure) => {
                let _ = writeln!(out, "<h3>{title}</h3>\n{figure}");
            }
            Err(reason) => {
                let _ = writeln!(out, "<p>– {title}: {}</p>", html(&reason));
            }
        }
    }
    if !session.traffic.is_empty() {
        let _ = writeln!(
            out,
            "<h3>By proxies</h3>\n<p class=\"faint\">As measured by NCCL's proxies. Traffic by shared memory, \
             directly between devices, or through the proxy of another process is not included. Waits are summed \
             over steps, which overlap.</p>\n{}",
            tables::traffic(session)
        );
    }
}

fn named_times_section(out: &mut String, session: &Session) {
    let lines = sentences::named_times(session)
        .into_iter()
        .chain(sentences::throughput(session))
        .map(|line| line.text);
    let note = Prose::join(lines, ". ");
    if note.is_empty() {
        return;
    }
    section(
        out,
        "Named parts of host time",
        Some(&note),
        &tables::named_times(session),
    );
}

fn counters_section(out: &mut String, session: &Session) {
    for line in sentences::counters(session) {
        section(out, "Counters", None, &paragraph("", &line.text));
    }
    for line in sentences::system_counters(session) {
        section(out, "System", None, &paragraph("", &line.text));
    }
}

/// Adds sums by host, device and role. Each level adds up to the level below it.
fn rolled_up_section(out: &mut String, session: &Session, moved: &[TrafficRow]) {
    let sums = rollups(session, moved);
    section(
        out,
        "By host, device and role",
        Some(&prose![
            "Sums over ranks. Shares refer to the sum of their windows. A value that is unknown for one rank is \
             unknown for its group."
        ]),
        &tables::rolled_up(&sums.host, "/rollups/host"),
    );
    // Without devices the device level would repeat the host level.
    if session.activity.iter().any(|known| !known.streams.is_empty()) {
        details(
            out,
            "By device",
            &tables::rolled_up(&sums.device, "/rollups/device"),
        );
    }
    details(
        out,
        "Operations by role",
        &tables::roles(&sums.role, "/rollups/role"),
    );
}

fn structure_section(out: &mut String, session: &Session) {
    let sentences = structure::sentences(session);
    let note = Prose::join(sentences.into_iter().map(|line| line.text), "; ");
    let content = [tables::stages(session), tables::groups(session)].concat();
    if content.is_empty() {
        return;
    }
    section(out, "Structure of the job", Some(&note), &content);
    let peers = tables::peers(session);
    if !peers.is_empty() {
        details(out, "Peers (same position in the replicas)", &peers);
    }
}

fn steps_section(out: &mut String, session: &Session) {
    out.push_str("<h2>Steps</h2>\n");
    let _ = writeln!(out, "<p>{}</p>", html(&sentences::steps(session).text));
    if let Some(pattern) = &session.steps.pattern {
        let pattern = prose![quoted(pattern, "/steps/pattern")];
        let pattern = element("span", r#" class="command""#, &pattern, "span");
        let _ = writeln!(out, r#"<p class="faint">pattern: {pattern}</p>"#);
    }
    let worlds = session
        .steps
        .list
        .iter()
        .map(|step| step.world + 1)
        .max()
        .unwrap_or(0);
    for world in 0..worlds.min(MAX_WORLDS) {
        let Some(picture) = steps::draw(session, world) else {
            continue;
        };
        if worlds > 1 {
            let _ = writeln!(out, "{}", heading(&prose!["World ", drawn(world.to_string())]));
        }
        let note = match session.steps.steps_per_entry {
            0 | 1 => prose!["The longest rank of each step."],
            steps => prose![
                "The longest rank of each step, mean of ",
                figures::plain(steps, "/steps/steps_per_entry"),
                " steps."
            ],
        };
        figure(out, &picture, &note);
    }
    if worlds > MAX_WORLDS {
        let more = drawn((worlds - MAX_WORLDS).to_string());
        let _ = writeln!(out, "<p>{}</p>", html(&prose!["… ", more, " more worlds"]));
    }
}

fn operations_note(session: &Session) -> Prose {
    let connect = &session.connect;
    let mut note = prose![
        "Medians unless noted. Σ wait: over all ranks. Bandwidth: of launches with a wait share of at most ",
        rule("20 %"),
        "; effective: over the whole duration of all launches."
    ];
    if connect.calls > 0 {
        note.push(prose![
            " Not in the table: building of communicators, ",
            counted(connect.calls, "call", "/connect/calls"),
            ", ",
            time(connect.duration_rank_ns, "/connect/duration_rank_ns"),
            " over all ranks, longest ",
            time(connect.longest_ns, "/connect/longest_ns"),
            "."
        ]);
    }
    note
}

fn clocks(session: &Session) -> Prose {
    if session.hosts.len() == 1 {
        return prose![
            "One host, one clock: every time is correct within ± ",
            time(session.axis.error_inside_host_ns, "/axis/error_inside_host_ns"),
            "."
        ];
    }
    let sentences = sentences::clocks(session).into_iter();
    Prose::join(sentences.map(|sentence| prose![sentence.capitalised(), "."]), " ")
}

fn listed(count: usize) -> Option<Prose> {
    (count >= rankscope_formats::session::Matching::MAX_LISTED)
        .then(|| prose!["The first ", drawn(count.to_string()), "."])
}

fn heading(text: &Prose) -> String {
    element("h3", "", text, "span")
}

/// Adds the timeline of the whole run as the viewer shows it.
fn timeline_section(out: &mut String, png: &[u8]) {
    let image = format!(
        "<img class=\"timeline\" alt=\"timeline of all ranks\" src=\"data:image/png;base64,{}\"/>",
        BASE64_STANDARD.encode(png)
    );
    let _ = writeln!(out, "<h2>Timeline</h2>");
    figure(
        out,
        &image,
        &prose![
            "Shown as in the viewer (rankscope view), which can zoom in to any range of time and to one instance on \
             all ranks."
        ],
    );
}

/// Adds a heading, a note and the content, or nothing if the content is empty.
pub(super) fn section(out: &mut String, title: &str, note: Option<&Prose>, content: &str) {
    if content.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h2>{}</h2>", escape(title));
    if let Some(note) = note {
        let _ = writeln!(out, "{}", paragraph("faint", note));
    }
    let _ = writeln!(out, "{content}");
}

pub(super) fn figure(out: &mut String, picture: &str, note: &Prose) {
    let _ = writeln!(
        out,
        "<figure>{picture}<figcaption>{}</figcaption></figure>",
        html(note)
    );
}

pub(super) fn details(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(
        out,
        "<details><summary>{}</summary>{content}</details>",
        escape(title)
    );
}

fn foot(out: &mut String, session: &Session) {
    let directories = session.directories.iter().enumerate();
    let directories = directories.map(|(at, path)| quoted(path, format!("/directories/{at}")));
    let made = prose![
        "Made from ",
        Prose::join(directories, ", "),
        " on ",
        moment(session.written_unix_ns, "/written_unix_ns"),
        ". A value that could not be computed is shown as – with its reason."
    ];
    let _ = write!(
        out,
        "<footer class=\"faint\"><p>{}</p></footer>\n</body></html>\n",
        html(&made)
    );
}

/// Returns the name of a row that represents one rank or several neighbours.
fn row_label(session: &Session, row: &Range<usize>, rank: impl Fn(usize) -> u32) -> Prose {
    let first = figures::rank(session, rank(row.start));
    if row.len() == 1 {
        return first.into();
    }
    let last = figures::rank(session, rank(row.end - 1));
    let number = last.text.rsplit(' ').next().unwrap_or(&last.text).to_owned();
    prose![first, " – ", part(number, last.source)]
}
