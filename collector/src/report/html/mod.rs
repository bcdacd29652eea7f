//! `report.html`: one file that needs nothing else, opens from a disk or a mail, and prints.
//!
//! It is well-formed XML as well as HTML, so that a test can read it back; it runs no script and loads nothing, which
//! its own policy enforces.

mod breakdown;
mod date;
mod steps;
mod svg;
mod table;
mod tables;

use super::beside_hta;
use super::markup::escape;
use super::structure;
use super::units;
use super::words::{self, Line, Mood};
use crate::heatmap::{self, Kind, picture};
use crate::rollup::{By, rollup};
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
    let mut out = String::with_capacity(1 << 16);
    head(&mut out, session);
    verdicts(&mut out, session);
    findings(&mut out, session);
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
        Some(
            "Of each gap between arrivals every rank that was still missing gets an equal part; \
             exposed is what passed while the waiting program could not go on.",
        ),
        &tables::blame(session),
    );
    traffic_section(&mut out, session, moved);
    structure_section(&mut out, session);
    named_times_section(&mut out, session);
    rolled_up_section(&mut out, session, moved);
    section(
        &mut out,
        "Ranks and their logs",
        cut(session.ranks.len()).as_deref(),
        &tables::ranks(session),
    );
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
            Some(
                "A device's times come onto the axis by what the run itself tells of its clock; they lie at most so much too late.",
            ),
            &tables::devices(session),
        );
    }
    section(
        &mut out,
        "Communicators",
        cut(session.communicators.len()).as_deref(),
        &tables::communicators(session),
    );
    section(
        &mut out,
        "What could not be recorded",
        None,
        &tables::losses(session),
    );
    section(
        &mut out,
        "What did not match",
        listed(session.matching.listed.len()).as_deref(),
        &tables::unmatched(session),
    );
    section(
        &mut out,
        "Problems with the recordings",
        (session.problems.total > session.problems.listed.len() as u64)
            .then(|| {
                format!(
                    "{} in all; the first of them:",
                    units::count(session.problems.total)
                )
            })
            .as_deref(),
        &tables::problems(session),
    );
    foot(&mut out, session);
    out
}

fn head(out: &mut String, session: &Session) {
    let title = session.directories.first().map_or("rankscope", String::as_str);
    let first = words::headline(session);
    let title = title.rsplit('/').find(|part| !part.is_empty()).unwrap_or(title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\
         <title>{title} – rankscope</title>\n<style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"headline {mood}\">{headline}</p>\n<p class=\"faint\">recorded {date} · {tool} {version}</p>\n",
        title = escape(title),
        mood = class(first.mood),
        headline = escape(&first.text),
        date = date::utc(session.axis.origin_unix_ns),
        tool = escape(&session.tool.name),
        version = escape(&session.tool.version),
    );
    if let Some(command) = session.ranks.iter().find_map(|rank| rank.command_line.as_deref()) {
        let _ = writeln!(out, r#"<p class="command">{}</p>"#, escape(command));
    }
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
        let text = format!(
            "{} with the recordings, listed below",
            units::counted(session.problems.total, "problem")
        );
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
        let _ = write!(
            out,
            r#"<div class="{}">{}</div>"#,
            class(line.mood),
            escape(&line.text)
        );
        if let Some(advice) = &line.advice {
            let _ = write!(out, r#"<div class="advice">{}</div>"#, escape(advice));
        }
    }
    out.push_str("</dd>\n");
}

fn class(mood: Mood) -> &'static str {
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
    for finding in &session.findings {
        let line = words::finding_line(finding);
        let mood = class(line.mood);
        let _ = write!(
            out,
            r#"<div class="finding is-{mood}"><h3 class="{mood}">{}</h3>"#,
            escape(&line.text)
        );
        let evidence = evidence(finding);
        if !evidence.is_empty() {
            out.push_str("<ul>");
            for part in evidence {
                let _ = write!(out, "<li>{}</li>", escape(&part));
            }
            out.push_str("</ul>");
        }
        if let Some(advice) = &line.advice {
            let _ = write!(out, r#"<p class="advice">{}</p>"#, escape(advice));
        }
        let behind = words::behind(finding);
        if !behind.is_empty() {
            out.push_str("<details><summary>how that was decided and counted, where to look</summary><ul>");
            for part in behind {
                let _ = write!(out, "<li>{}</li>", escape(&part));
            }
            out.push_str("</ul></details>");
        }
        out.push_str("</div>\n");
    }
}

fn scorecard(out: &mut String, session: &Session) {
    let Some(card) = &session.scorecard else { return };
    let total = words::score_total(card);
    let _ = writeln!(
        out,
        r#"<h2>Scorecard</h2><p class="{}">{}</p>"#,
        class(total.mood),
        escape(&total.text)
    );
    out.push_str(&tables::scorecard(card));
}

fn evidence(finding: &Finding) -> Vec<String> {
    let mut evidence = finding.evidence.clone();
    evidence.extend(words::cause_and_cost(finding));
    if let Some(late) = &finding.lateness {
        evidence.push(format!(
            "{}, in {}; chance alone would do as much with p = {:.1e}",
            late.class,
            units::counted(late.episodes, "episode"),
            late.p_value
        ));
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
        Some(("steps", steps)) => format!("All {}", units::counted(steps, "whole step")),
        _ => "From the first to the last record".to_owned(),
    };
    let note = format!(
        "{what}. Exposed: the training thread could not go on because of communication; what ran behind its back \
         costs nothing and is not in the bars.{}",
        if session.breakdown.len() > breakdown::MOST_ROWS {
            " Neighbouring ranks share a bar."
        } else {
            ""
        }
    );
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
        figure(out, &picture, note);
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
        let note = format!("<p class=\"note\">{}.</p>", escape(beside_hta::NOTE));
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
    let mut reasons: Vec<String> = Vec::new();
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
        let _ = writeln!(out, "<p>– {}</p>", escape(&reason));
    }
}

/// A heat map with its notes, or why there is none.
fn heat_map(session: &Session, moved: &[TrafficRow], kind: Kind) -> Result<String, String> {
    let picture = heatmap::of_summary(session, moved, kind)?;
    let drawn = picture::draw(&picture, &MAP).ok_or("there is nothing to draw")?;
    let mut out = String::new();
    figure(
        &mut out,
        &heatmap::svg::element(&drawn.scene),
        &picture.notes.join(" "),
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
                let _ = writeln!(out, "<p>– {title}: {}</p>", escape(&reason));
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
    let lines: Vec<String> = words::named_times(session)
        .into_iter()
        .chain(words::counted(session))
        .map(|line| line.text)
        .collect();
    if lines.is_empty() {
        return;
    }
    section(
        out,
        "Named parts of the hosts' time",
        Some(&lines.join(". ")),
        &tables::named_times(session),
    );
}

/// Sums by host, by device, by role: every level adds up to the one below it.
fn rolled_up_section(out: &mut String, session: &Session, moved: &[TrafficRow]) {
    let by = |by: By| rollup(session, moved, by);
    section(
        out,
        "By host, device and role",
        Some(
            "Sums over ranks; shares are of all their windows together. What is not known of one rank is not known of its group.",
        ),
        &tables::rolled_up(&by(By::Host)),
    );
    // Where no device was seen its level says nothing that the host's does not.
    if session.activity.iter().any(|known| !known.streams.is_empty()) {
        details(out, "By device", &tables::rolled_up(&by(By::Device)));
    }
    details(out, "Operations by role", &tables::roles(&by(By::Role)));
}

fn structure_section(out: &mut String, session: &Session) {
    let sentences = structure::sentences(session);
    let note: Vec<String> = sentences.into_iter().map(|line| line.text).collect();
    let content = [tables::stages(session), tables::groups(session)].concat();
    if content.is_empty() {
        return;
    }
    section(out, "Structure of the job", Some(&note.join("; ")), &content);
    let peers = tables::peers(session);
    if !peers.is_empty() {
        details(out, "Ranks of the same position in the replicas", &peers);
    }
}

fn steps_section(out: &mut String, session: &Session) {
    out.push_str("<h2>Steps</h2>\n");
    let _ = writeln!(out, "<p>{}</p>", escape(&words::steps(session).text));
    if let Some(pattern) = &session.steps.pattern {
        let _ = writeln!(
            out,
            r#"<p class="faint">pattern: <span class="command">{}</span></p>"#,
            escape(pattern)
        );
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
            let _ = writeln!(out, "<h3>World {world}</h3>");
        }
        let note = match session.steps.steps_per_entry {
            0 | 1 => "The longest rank of each step.".to_owned(),
            steps => format!("The longest rank of each step, mean over {steps} steps."),
        };
        figure(out, &picture, &note);
    }
    if worlds > MOST_WORLDS {
        let _ = writeln!(out, "<p>… {} more worlds</p>", worlds - MOST_WORLDS);
    }
}

fn operations_note(session: &Session) -> String {
    let connect = &session.connect;
    let mut note =
        "Medians where nothing else is said. Σ wait: over all ranks. Bandwidth: of launches that waited for \
                    at most 20 % of their time; effective: over the whole duration of all."
            .to_owned();
    if connect.calls > 0 {
        note.push_str(&format!(
            " Not in the table: building communicators, {}, {} over all ranks, longest {}.",
            units::counted(connect.calls, "call"),
            units::time(connect.duration_rank_ns),
            units::time(connect.longest_ns)
        ));
    }
    note
}

fn clocks(session: &Session) -> String {
    if session.hosts.len() == 1 {
        return format!(
            "One host, one clock: every time is right within ± {}.",
            units::time(session.axis.error_inside_host_ns)
        );
    }
    let sentences: Vec<String> = words::clocks(session)
        .into_iter()
        .map(|sentence| {
            let mut letters = sentence.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string());
            format!("{}{}.", first.unwrap_or_default(), letters.as_str())
        })
        .collect();
    sentences.join(" ")
}

fn cut(count: usize) -> Option<String> {
    (count > tables::MOST).then(|| format!("The first {} of {}.", tables::MOST, units::count(count as u64)))
}

fn listed(count: usize) -> Option<String> {
    (count >= rankscope_formats::session::Matching::MAX_LISTED).then(|| format!("The first {count}."))
}

/// A heading, a note and what they are about; nothing if that is empty.
fn section(out: &mut String, title: &str, note: Option<&str>, content: &str) {
    if content.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h2>{}</h2>", escape(title));
    if let Some(note) = note {
        let _ = writeln!(out, r#"<p class="faint">{}</p>"#, escape(note));
    }
    let _ = writeln!(out, "{content}");
}

fn figure(out: &mut String, picture: &str, note: &str) {
    let _ = writeln!(
        out,
        "<figure>{picture}<figcaption>{}</figcaption></figure>",
        escape(note)
    );
}

fn details(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(
        out,
        "<details><summary>{}</summary>{content}</details>",
        escape(title)
    );
}

fn foot(out: &mut String, session: &Session) {
    let _ = write!(
        out,
        "<footer class=\"faint\"><p>Made from {} on {}. What could not be computed is shown as – with its reason.</p>\
         </footer>\n</body></html>\n",
        escape(&session.directories.join(", ")),
        date::utc(session.written_unix_ns)
    );
}

/// Name of a row that stands for one rank or for neighbours.
fn row_label(session: &Session, row: &Range<usize>, rank: impl Fn(usize) -> u32) -> String {
    let first = words::rank_name(session, rank(row.start));
    if row.len() == 1 {
        return first;
    }
    let last = words::rank_name(session, rank(row.end - 1));
    format!("{first} – {}", last.rsplit(' ').next().unwrap_or(&last))
}
