//! `report.html`: one file that needs nothing else, opens from a disk or a mail, and prints.
//!
//! It is well-formed XML as well as HTML, so that a test can read it back; it runs no script and loads nothing, which
//! its own policy enforces.

mod breakdown;
mod steps;
pub(super) mod svg;
pub(super) mod table;
mod tables;

use super::beside_hta;
use super::figures::{self, counted, drawn, moment, part, quoted, rule, time};
use super::markup::{element, escape, html};
use super::prose::{Prose, prose};
use super::structure;
use super::words::{self, Line, Mood};
use crate::heatmap::{self, Kind, picture};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rankscope_analysis::selection::rollup::rollups;
use rankscope_formats::session::{DeviceActivity, Finding, Session, TrafficRow};
use std::fmt::Write;
use std::ops::Range;

const STYLE: &str = include_str!("style.css");
/// Worlds whose steps are drawn.
const MOST_WORLDS: u32 = 4;

/// How heat maps are drawn on the page: small enough that the page stays so whatever the job's size.
const MAP: picture::Look = picture::Look {
    most: (860, 512),
    cell: (28, 26),
    margin: 0,
    most_elements: 1_200,
    with_words: false,
    spread: None,
    clips: false,
};

/// The page; `moved` is the session's table `traffic`.
pub fn page(session: &Session, moved: &[TrafficRow]) -> String {
    page_with(session, moved, None)
}

/// The page with a picture of the timeline, a PNG.
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
        "Who caused waiting",
        Some(&prose![
            "Of each gap between arrivals every rank that was still missing gets an equal part; \
             exposed is what passed while the waiting program could not go on."
        ]),
        &tables::blame(session),
    );
    traffic_section(&mut out, session, moved);
    structure_section(&mut out, session);
    named_times_section(&mut out, session);
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
                "A device's times come onto the axis by what the run itself tells of its clock; they lie at most so much too late."
            ]),
            &tables::devices(session),
        );
    }
    section(&mut out, "Communicators", None, &tables::communicators(session));
    section(
        &mut out,
        "What could not be recorded",
        None,
        &tables::losses(session),
    );
    section(
        &mut out,
        "What did not match",
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
                    " in all; the first of them:"
                ]
            })
            .as_ref(),
        &tables::problems(session),
    );
    foot(&mut out, session);
    out
}

fn head(out: &mut String, session: &Session) {
    let first = words::headline(session);
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
            &format!(r#" class="headline {}""#, class(first.mood)),
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

/// A page's beginning, up to where its body begins; `style` is what it has beside the style sheet of all.
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

/// What a reader must know before any figure: who was seen, what was lost, who is late.
fn verdicts(out: &mut String, session: &Session) {
    out.push_str("<div class=\"verdicts\"><dl>\n");
    entry(
        out,
        "Coverage",
        &[vec![words::coverage(session)], words::coverage_notes(session)].concat(),
    );
    entry(out, "Losses", &words::losses(session));
    entry(out, "Run", &[words::run(session)]);
    let devices = words::devices(session);
    if !devices.is_empty() {
        entry(out, "Devices", &devices);
    }
    let activity = words::activity(session);
    if !activity.is_empty() {
        entry(out, "Kernels", &activity);
    }
    entry(out, "Steps", &[words::steps(session)]);
    entry(out, "Who is late", &[words::verdict(session)]);
    entry(out, "Matching", &words::matching(session));
    if session.problems.total > 0 {
        let text = prose![
            counted(session.problems.total, "problem", "/problems/total"),
            " with the recordings, listed below"
        ];
        entry(
            out,
            "Problems",
            &[Line {
                mood: Mood::Warning,
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
            &format!(r#" class="{}""#, class(line.mood)),
            &line.text,
            "span",
        ));
        if let Some(advice) = &line.advice {
            out.push_str(&element("div", r#" class="advice""#, advice, "span"));
        }
    }
    out.push_str("</dd>\n");
}

pub(super) fn class(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "good",
        Mood::Plain => "plain",
        Mood::Warning => "warning",
        Mood::Bad => "bad",
    }
}

fn findings(out: &mut String, session: &Session) {
    if session.findings.is_empty() {
        return;
    }
    out.push_str("<h2>Findings</h2>\n");
    for (at, finding) in session.findings.iter().enumerate() {
        let line = words::finding_line(at, finding);
        let mood = class(line.mood);
        let heading = element("h3", &format!(r#" class="{mood}""#), &line.text, "span");
        let _ = write!(out, r#"<div class="finding is-{mood}">{heading}"#);
        out.push_str(&items(&evidence(at, finding)));
        if let Some(advice) = &line.advice {
            out.push_str(&paragraph("advice", advice));
        }
        let behind = words::behind(at, finding);
        if !behind.is_empty() {
            let _ = write!(
                out,
                "<details><summary>how that was decided and counted, where to look</summary>{}</details>",
                items(&behind)
            );
        }
        out.push_str("</div>\n");
    }
}

/// A list; nothing if it has nothing.
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
    let total = words::score_total(card);
    let _ = writeln!(
        out,
        "<h2>Scorecard</h2>{}",
        paragraph(class(total.mood), &total.text)
    );
    out.push_str(&tables::scorecard(card));
}

fn evidence(at: usize, finding: &Finding) -> Vec<Prose> {
    let mut evidence = words::evidence(at, finding);
    if let Some(late) = &finding.lateness {
        let of = |field: &str| format!("/findings/{at}/lateness/{field}");
        evidence.push(prose![
            quoted(&late.class, of("class")),
            ", in ",
            counted(late.episodes, "episode", of("episodes")),
            "; chance alone would do as much with p = ",
            figures::tiny(late.p_value, of("p_value"))
        ]);
    }
    evidence
}

fn breakdown_section(out: &mut String, session: &Session) {
    // The devices' own picture says more.
    if session
        .breakdown
        .iter()
        .all(|entry| words::is_told_by_devices(session, entry))
    {
        return;
    }
    let Some(picture) = breakdown::draw(session) else {
        return;
    };
    out.push_str("<h2>Where each rank's time went</h2>\n");
    let what = match session
        .breakdown
        .first()
        .map(|entry| (entry.window.as_str(), entry.steps))
    {
        Some(("steps", steps)) => prose!["All ", counted(steps, "whole step", "/breakdown/0/steps")],
        _ => prose!["From the first to the last record"],
    };
    let note = prose![
        what,
        ". Exposed: the training thread could not go on because of communication; what ran behind its back \
         costs nothing and is not in the bars.",
        if session.breakdown.len() > breakdown::MOST_ROWS {
            " Neighbouring ranks share a bar."
        } else {
            ""
        }
    ];
    figure(out, &picture, &note);
    details(out, "The figures", &tables::breakdown(session));
}

fn activity_section(out: &mut String, session: &Session) {
    if session.activity.is_empty() {
        return;
    }
    out.push_str("<h2>Where the devices' time went</h2>\n");
    if let Some(picture) = breakdown::draw_devices(session) {
        let note = match session.activity.iter().find(|entry| entry.window_ns > 0) {
            Some(entry) if entry.window == "steps" => {
                "Whole steps in which all of the devices' work was recorded. A kernel of communication spins while a peer is \
                 late: that part is the exposed wait."
            }
            _ => "All of the time in which all of the devices' work was recorded.",
        };
        figure(out, &picture, &prose![note]);
    }
    out.push_str(&tables::activity(session));
    let has = |is_there: fn(&DeviceActivity) -> bool| session.activity.iter().any(is_there);
    if has(|entry| entry.device_stalls.count > 0) {
        details(out, "Why the devices did not compute", &tables::stalls(session));
    }
    if has(|entry| !entry.recurring_stalls.is_empty()) {
        let places = tables::recurring_stalls(session);
        details(out, "Where they did not in each step", &places);
    }
    details(out, "Why streams did nothing", &tables::idle(session));
    details(out, "The kernels that took most time", &tables::kernels(session));
    if let Some(figures) = beside_hta::figures(session) {
        let note = paragraph("note", &prose![beside_hta::NOTE, "."]);
        let table = tables::beside_hta(session, figures);
        details(out, "As Holistic Trace Analysis counts", &(note + &table));
    }
}

fn waits(out: &mut String, session: &Session) {
    out.push_str(&heatmap::svg::shared());
    out.push_str("<h2>Who waited when</h2>\n");
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

/// A heat map with its notes, or why there is none.
fn heat_map(session: &Session, moved: &[TrafficRow], kind: Kind) -> Result<String, Prose> {
    let picture = heatmap::of_summary(session, moved, kind)?;
    let drawn = picture::draw(&picture, &MAP).ok_or("there is nothing to draw")?;
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
            "<h3>By proxies</h3>\n<p class=\"faint\">As the proxies of NCCL measured it; what goes by shared memory, directly \
             between devices or through another process's proxy is not in it. Waits are summed over steps, which overlap.</p>\n{}",
            tables::traffic(session)
        );
    }
}

fn named_times_section(out: &mut String, session: &Session) {
    let lines = words::named_times(session)
        .into_iter()
        .chain(words::throughput(session))
        .map(|line| line.text);
    let note = Prose::join(lines, ". ");
    if note.is_empty() {
        return;
    }
    section(
        out,
        "Named parts of the hosts' time",
        Some(&note),
        &tables::named_times(session),
    );
}

/// Sums by host, by device, by role: every level adds up to the one below it.
fn rolled_up_section(out: &mut String, session: &Session, moved: &[TrafficRow]) {
    let sums = rollups(session, moved);
    section(
        out,
        "By host, device and role",
        Some(&prose![
            "Sums over ranks; shares are of all their windows together. What is not known of one rank is not known of its group."
        ]),
        &tables::rolled_up(&sums.host, "/rollups/host"),
    );
    // Where no device was seen its level says nothing that the host's does not.
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
        details(out, "Ranks of the same position in the replicas", &peers);
    }
}

fn steps_section(out: &mut String, session: &Session) {
    out.push_str("<h2>Steps</h2>\n");
    let _ = writeln!(out, "<p>{}</p>", html(&words::steps(session).text));
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
    for world in 0..worlds.min(MOST_WORLDS) {
        let Some(picture) = steps::draw(session, world) else {
            continue;
        };
        if worlds > 1 {
            let _ = writeln!(out, "{}", heading(&prose!["World ", drawn(world.to_string())]));
        }
        let note = match session.steps.steps_per_entry {
            0 | 1 => prose!["The longest rank of each step."],
            steps => prose![
                "The longest rank of each step, mean over ",
                figures::plain(steps, "/steps/steps_per_entry"),
                " steps."
            ],
        };
        figure(out, &picture, &note);
    }
    if worlds > MOST_WORLDS {
        let more = drawn((worlds - MOST_WORLDS).to_string());
        let _ = writeln!(out, "<p>{}</p>", html(&prose!["… ", more, " more worlds"]));
    }
}

fn operations_note(session: &Session) -> Prose {
    let connect = &session.connect;
    let mut note = prose![
        "Medians where nothing else is said. Σ wait: over all ranks. Bandwidth: of launches that waited for at most ",
        rule("20 %"),
        " of their time; effective: over the whole duration of all."
    ];
    if connect.calls > 0 {
        note.push(prose![
            " Not in the table: building communicators, ",
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
            "One host, one clock: every time is right within ± ",
            time(session.axis.error_inside_host_ns, "/axis/error_inside_host_ns"),
            "."
        ];
    }
    let sentences = words::clocks(session).into_iter();
    Prose::join(sentences.map(|sentence| prose![sentence.capitalised(), "."]), " ")
}

fn listed(count: usize) -> Option<Prose> {
    (count >= rankscope_formats::session::Matching::MAX_LISTED)
        .then(|| prose!["The first ", drawn(count.to_string()), "."])
}

fn heading(text: &Prose) -> String {
    element("h3", "", text, "span")
}

/// A heading, a note and what they are about; nothing if that is empty.
/// What the viewer shows of the whole run.
fn timeline_section(out: &mut String, png: &[u8]) {
    let image = format!(
        "<img class=\"timeline\" alt=\"the timeline of all ranks\" src=\"data:image/png;base64,{}\"/>",
        BASE64_STANDARD.encode(png)
    );
    let _ = writeln!(out, "<h2>Timeline</h2>");
    figure(
        out,
        &image,
        &prose![
            "As the viewer (rankscope view) opens it: there one can look closer, at one instance on all ranks, at any range of time."
        ],
    );
}

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
        ". What could not be computed is shown as – with its reason."
    ];
    let _ = write!(
        out,
        "<footer class=\"faint\"><p>{}</p></footer>\n</body></html>\n",
        html(&made)
    );
}

/// Name of a row that stands for one rank or for neighbours.
fn row_label(session: &Session, row: &Range<usize>, rank: impl Fn(usize) -> u32) -> Prose {
    let first = figures::rank(session, rank(row.start));
    if row.len() == 1 {
        return first.into();
    }
    let last = figures::rank(session, rank(row.end - 1));
    let number = last.text.rsplit(' ').next().unwrap_or(&last.text).to_owned();
    prose![first, " – ", part(number, last.source)]
}
