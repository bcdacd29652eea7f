//! Draws the screen into a buffer of any size. Colours only repeat what the text says.

use super::columns::{Column, DASH, figure, long_call_ns, share};
use super::document::{TopClass, TopDocument, TopRow, TopState, TopWarning};
use super::view::{Panel, RowsOf, View};
use rankscope_analysis::model::units;
use rankscope_formats::session::Severity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use std::time::Duration;

/// Time without a record of the job after which the screen says so, in nanoseconds.
const IDLE_NS: i64 = 5_000_000_000;
/// Age of the figures after which the screen marks it.
const OLD: Duration = Duration::from_secs(10);
/// Height from which the panels below the table are larger.
const TALL: usize = 30;
/// Smallest number of rows of the table. Panels are left out on a lower screen.
const MIN_ROWS: usize = 4;

/// Keys, for the last line and for the help.
const KEYS: &str = "q quit  ? help  s sort  r reverse  / filter  h hosts/ranks  w warnings  p pause";

/// The keys and columns, on a screen of 80 columns and 24 lines.
const HELP: [&str; 22] = [
    "Keys. Any key leaves this page.",
    "  ↑ ↓ PgUp PgDn Home End   select a row; the line below the table describes it",
    "  s S                      sort by the next or previous column; r reverses",
    "  /                        filter: part of a name, host or state, or ranks 0-63",
    "  Esc                      remove the filter",
    "  h                        hosts or ranks; Enter shows the ranks of a host",
    "  w                        all warnings with their evidence",
    "  p                        pause: keep these figures",
    "  q                        quit",
    "",
    "Columns. All figures are of the part of the run that the second line states.",
    "  CAUSED   exposed waiting that the rank caused on others, summed over them",
    "  LAST     share of launches in which the rank arrived last",
    "  WAIT     exposed wait, as a share of the rank's time",
    "  EXPOSED  exposed communication, as a share of the rank's time",
    "  OPS/S    operations per second",
    "  IN CALL  duration of the longest operation in progress, from 1 s on",
    "  MEMORY   resident memory; CPU: busy processors; GPU: utilization",
    "  LEFT     memory that is left on the host; NETWORK: its busiest interface",
    "",
    "– means unknown; the line below the table has the reason.",
    "Definitions: docs/METRICS.md. Findings: rankscope rules.",
];

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Theme {
    /// False if the user set NO_COLOR, or if nobody would see them.
    pub has_colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            Severity::Warning => self.colour(Color::Yellow),
            Severity::Note | Severity::Unknown => Style::new(),
        }
    }

    fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

/// Everything that the screen shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Figures; `None` until the first read.
    pub document: Option<&'a TopDocument>,
    /// Choices of the user.
    pub view: &'a View,
    /// Name of the run.
    pub run: &'a str,
    /// Age of the figures.
    pub age: Duration,
    /// Time between the starts of two reads.
    pub interval: Duration,
    /// Why the last read failed, if it did.
    pub problem: Option<&'a str>,
    /// False for a screen that nobody can press keys on.
    pub has_keys: bool,
    /// Colours.
    pub theme: Theme,
}

/// Draws the screen. Returns the number of rows of the table, for page up and page down.
pub fn draw(area: Rect, buffer: &mut Buffer, shown: &Shown<'_>) -> usize {
    let (lines, rows) = screen(area.width as usize, area.height as usize, shown);
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_style(Rect::new(area.x, y, area.width, 1), line.style);
        buffer.set_line(area.x, y, line, area.width);
    }
    rows
}

/// Returns the screen as plain text of at most this many columns and lines.
pub fn text(width: usize, height: usize, shown: &Shown<'_>) -> String {
    let (lines, _) = screen(width, height, shown);
    let mut out = String::new();
    for line in lines {
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Returns the lines of the screen, and the number of rows of the table.
fn screen(width: usize, height: usize, shown: &Shown<'_>) -> (Vec<Line<'static>>, usize) {
    let height = height - usize::from(shown.has_keys).min(height);
    let (mut lines, rows) = body(width, height, shown);
    lines.resize(height, Line::default());
    if shown.has_keys {
        lines.push(footer(width, shown));
    }
    (lines, rows)
}

/// Returns everything but the last line.
fn body(width: usize, height: usize, shown: &Shown<'_>) -> (Vec<Line<'static>>, usize) {
    if shown.view.panel == Panel::Help {
        return (HELP.iter().map(|text| fitting(text, width)).collect(), 1);
    }
    let Some(document) = shown.document else {
        let name = format!("rankscope top  {}", shown.run);
        let state = shown.problem.unwrap_or("reading the run for the first time");
        return (
            vec![
                Line::styled(fit(&name, width), shown.theme.heading()),
                fitting(state, width),
            ],
            1,
        );
    };
    let mut lines = header(width, document, shown);
    let left = height.saturating_sub(lines.len());
    if shown.view.panel == Panel::Warnings {
        lines.extend(all_warnings(width, left, document, shown));
        return (lines, 1);
    }
    let rows = shown.view.rows(document);
    let is_tall = height >= TALL;
    let (mut most_classes, mut most_warnings) = if is_tall { (8, 6) } else { (3, 2) };
    // The heading, the titles and some rows of the table, and the line about the selected row.
    let around = 3;
    // A short table leaves room for the panels.
    let spare = left.saturating_sub(around + rows.len().max(MIN_ROWS) + 2 + most_classes + 1 + most_warnings);
    most_classes += spare / 2;
    most_warnings += spare - spare / 2;
    let mut warnings = warnings(width, most_warnings, document, shown.theme);
    let mut classes = classes(width, most_classes, document, shown.theme);
    if left < around + MIN_ROWS + classes.len() + warnings.len() {
        classes.clear();
    }
    if left < around + MIN_ROWS + warnings.len() {
        warnings.clear();
    }
    let visible = left
        .saturating_sub(around + classes.len() + warnings.len())
        .min(rows.len().max(MIN_ROWS));
    lines.extend(table(width, visible, document, &rows, shown));
    lines.push(detail(width, &rows, document, shown));
    lines.extend(classes);
    lines.extend(warnings);
    (lines, visible.max(1))
}

/// Cuts a text to a width, with a sign that it was cut.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

fn fitting(text: &str, width: usize) -> Line<'static> {
    Line::raw(fit(text, width))
}

/// Keeps the end of a path, which distinguishes runs.
fn path_end(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let kept: String = path.chars().skip(length + 1 - width.max(1)).collect();
    format!("…{kept}")
}

/// Joins phrases by two spaces as long as they fit. Later phrases are left out.
fn phrases(width: usize, phrases: &[String]) -> String {
    let mut out = String::new();
    for phrase in phrases.iter().filter(|phrase| !phrase.is_empty()) {
        let gap = if out.is_empty() { 0 } else { 3 };
        if !out.is_empty() && out.chars().count() + gap + phrase.chars().count() > width {
            break;
        }
        out.push_str(&" ".repeat(gap));
        out.push_str(phrase);
    }
    fit(&out, width)
}

/// Returns a left and a right part in one line. The left part is cut if both do not fit.
fn left_and_right(left: &str, right: &str, width: usize) -> String {
    let room = width.saturating_sub(right.chars().count() + 1);
    let left = fit(left, room);
    let gap = width.saturating_sub(left.chars().count() + right.chars().count());
    fit(&format!("{left}{}{right}", " ".repeat(gap)), width)
}

fn age(age: Duration) -> String {
    match age.as_secs() {
        ..120 => format!("{:.1} s", age.as_secs_f64()),
        seconds => units::time_f(seconds as f64 * 1e9),
    }
}

fn header(width: usize, document: &TopDocument, shown: &Shown<'_>) -> Vec<Line<'static>> {
    let theme = shown.theme;
    let mut lines = vec![
        Line::styled(first_line(width, document, shown), theme.heading()),
        fitting(&window_line(width, document, shown), width),
        fitting(&rates_line(width, document), width),
    ];
    if let Some((text, severity)) = alert(document, shown) {
        lines.push(Line::styled(fit(&text, width), theme.severity(severity)));
    }
    lines
}

fn first_line(width: usize, document: &TopDocument, shown: &Shown<'_>) -> String {
    let pause = if shown.view.is_paused { "PAUSED, " } else { "" };
    let old = if shown.age > OLD.max(shown.interval * 3) {
        "OLD: "
    } else {
        ""
    };
    let right = format!("{pause}{old}data {} old", age(shown.age));
    let attempt = match document.attempt.number {
        1 => String::new(),
        number => format!("attempt {number}"),
    };
    let seen = match document.ranks_expected.value {
        Some(expected) => format!(
            "{} of {} ranks",
            units::count(document.ranks_seen.into()),
            units::count(expected.into())
        ),
        None => units::counted(document.ranks_seen.into(), "rank"),
    };
    let running = format!(
        "{seen}, {} running here",
        units::count(document.ranks_running.into())
    );
    let hosts = units::counted(document.hosts.len() as u64, "host");
    let facts = [attempt, running, hosts]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("   ");
    let name = width
        .saturating_sub(facts.chars().count() + right.chars().count() + 5)
        .max(8);
    left_and_right(&format!("{}   {facts}", path_end(shown.run, name)), &right, width)
}

fn window_line(width: usize, document: &TopDocument, shown: &Shown<'_>) -> String {
    let window = &document.window;
    let requested = units::time(window.requested_ns);
    let length = figure(&window.length_ns, |&ns| units::time(ns));
    let records = units::counted(window.records, "record");
    let part = if window.is_shortened {
        format!(
            "last {length} of {requested} (limit {} records)",
            units::count(window.most_records)
        )
    } else {
        format!("last {length}, {records}")
    };
    let mut cost = format!("read in {}", units::time(document.read_for_ns));
    if shown.has_keys {
        cost += &format!(", every {}", units::time_f(shown.interval.as_secs_f64() * 1e9));
    }
    let lost = match document.lost {
        0 => String::new(),
        lost => format!("{} LOST", units::counted(lost, "record")),
    };
    phrases(width, &[part, lost, cost])
}

fn rates_line(width: usize, document: &TopDocument) -> String {
    let rates = |median: &str| {
        [
            format!(
                "{} steps/s{median}",
                figure(&document.steps_per_s, |&rate| units::digits(rate))
            ),
            format!(
                "{} ops/s",
                figure(&document.operations_per_s, |&rate| units::mean_count(
                    rate.round()
                ))
            ),
            document
                .payload_bytes_per_s
                .value
                .map_or_else(|| format!("{DASH} bytes/s"), |rate| units::rate(rate.round())),
            format!("exposed {}", share(&document.exposed_communication)),
            format!("wait {}", share(&document.exposed_wait)),
        ]
    };
    let median = document.step_median_ns.value;
    let full = rates(&median.map_or_else(String::new, |ns| format!(" (median {})", units::time(ns))));
    let length: usize = full.iter().map(|phrase| phrase.chars().count() + 3).sum();
    // The median is the least of them.
    let short = rates("");
    phrases(width, if length <= width + 3 { &full } else { &short })
}

/// Returns the most important message about the state of the job.
fn alert(document: &TopDocument, shown: &Shown<'_>) -> Option<(String, Severity)> {
    if let Some(problem) = shown.problem {
        return Some((format!("cannot read the run now: {problem}"), Severity::Critical));
    }
    let idle_ns = document.idle_for_ns.value? + shown.age.as_nanos() as i64;
    let is_idle = document.idle_for_ns.value.is_some_and(|ns| ns > IDLE_NS);
    let states = |state: TopState| document.ranks.iter().filter(|row| row.state == state).count();
    if document.ranks_running > 0 && is_idle {
        let text = format!(
            "no operation completed for {}: rankscope status {}",
            units::time(idle_ns),
            shown.run
        );
        return Some((text, Severity::Critical));
    }
    match (states(TopState::Killed), states(TopState::Elsewhere)) {
        (killed @ 1.., _) => {
            let text = format!(
                "{} killed or crashed; the last record is {} old",
                units::counted(killed as u64, "process").replace("processs", "processes"),
                units::time(idle_ns)
            );
            Some((text, Severity::Critical))
        }
        (_, elsewhere @ 1..) if is_idle => {
            let text = format!(
                "{} of other machines; the last record is {} old",
                units::counted(elsewhere as u64, "rank"),
                units::time(idle_ns)
            );
            Some((text, Severity::Warning))
        }
        _ if document.ranks_running == 0 && states(TopState::Ended) > 0 => Some((
            format!(
                "the run has ended, {} ago: rankscope report {}",
                units::time(idle_ns),
                shown.run
            ),
            Severity::Note,
        )),
        _ => None,
    }
}

fn heading(text: &str, width: usize, theme: Theme) -> Line<'static> {
    let text = fit(&format!("── {text} "), width);
    let rest = width.saturating_sub(text.chars().count());
    Line::styled(format!("{text}{}", "─".repeat(rest)), theme.heading())
}

/// Returns the columns that fit, and their widths.
fn columns(width: usize, rows: &[&TopRow], is_hosts: bool, sort: Column) -> Vec<(Column, usize)> {
    let mut chosen: Vec<(Column, usize)> = Vec::new();
    let mut used = 0;
    // The column by which rows are sorted is always shown.
    let wanted = [Column::Name, sort].into_iter().chain(Column::BY_IMPORTANCE);
    for column in wanted.filter(|column| column.is_of(is_hosts)) {
        let has_any = || rows.iter().any(|row| column.reason(row).is_none());
        let is_extra = matches!(column, Column::Gpu | Column::Available | Column::Network);
        if chosen.iter().any(|&(known, _)| known == column) || is_extra && !has_any() {
            continue;
        }
        let own = column.width(rows) + usize::from(!chosen.is_empty()) * 2;
        if used + own > width && !chosen.is_empty() {
            continue;
        }
        used += own;
        chosen.push((column, column.width(rows)));
    }
    let place = |column: Column| Column::BY_IMPORTANCE.iter().position(|&known| known == column);
    chosen.sort_by_key(|&(column, _)| place(column));
    chosen
}

fn table(
    width: usize,
    visible: usize,
    document: &TopDocument,
    rows: &[&TopRow],
    shown: &Shown<'_>,
) -> Vec<Line<'static>> {
    let view = shown.view;
    let is_hosts = view.rows_of(document) == RowsOf::Hosts;
    let (kind, all) = if is_hosts {
        ("hosts", document.hosts.len())
    } else {
        ("ranks", document.ranks.len())
    };
    let at = view.position(rows);
    // The selection stays visible.
    let first = at
        .saturating_sub(visible.saturating_sub(1))
        .min(rows.len().saturating_sub(visible));
    let range = match rows.len() {
        0 => "none".to_owned(),
        count if count > visible => format!(
            "{}–{} of {}",
            first + 1,
            (first + visible).min(count),
            units::count(count as u64)
        ),
        count => units::count(count as u64),
    };
    let filter = if view.filter.is_empty() {
        String::new()
    } else {
        format!(
            ", filter {:?} of {}",
            view.filter.text(),
            units::count(all as u64)
        )
    };
    let reversed = if view.is_reversed { " reversed" } else { "" };
    let mut lines = vec![heading(
        &format!("{kind} {range}{filter}, by {}{reversed}", view.sort.name()),
        width,
        shown.theme,
    )];
    let columns = columns(width, rows, is_hosts, view.sort);
    let cells = |text: &dyn Fn(Column) -> String| {
        let parts: Vec<String> = columns
            .iter()
            .map(|&(column, width)| {
                let text = fit(&text(column), width);
                if column.is_text() {
                    format!("{text:<width$}")
                } else {
                    format!("{text:>width$}")
                }
            })
            .collect();
        parts.join("  ")
    };
    let title = |column: Column| {
        let mark = if view.is_reversed { "▲" } else { "▼" };
        format!(
            "{}{}",
            column.title(),
            if column == view.sort { mark } else { "" }
        )
    };
    lines.push(Line::styled(fit(&cells(&title), width), shown.theme.faint()));
    for (position, row) in rows.iter().enumerate().skip(first).take(visible) {
        let text = fit(&cells(&|column| column.cell(row)), width);
        let style = match row.state {
            TopState::Killed => shown.theme.severity(Severity::Critical),
            _ => Style::new(),
        };
        let style = if shown.has_keys && position == at {
            style.add_modifier(Modifier::REVERSED)
        } else {
            style
        };
        lines.push(Line::styled(format!("{text:<width$}"), style));
    }
    lines.resize(2 + visible, Line::default());
    lines
}

/// Returns the line about the selected row: what it does, and why figures are unknown.
fn detail(width: usize, rows: &[&TopRow], document: &TopDocument, shown: &Shown<'_>) -> Line<'static> {
    let Some(row) = rows.get(shown.view.position(rows)) else {
        let text = if shown.view.filter.is_empty() {
            "no rank has a log yet"
        } else {
            "no row has this text; Esc removes the filter"
        };
        return fitting(text, width);
    };
    let is_hosts = row.host.is_none();
    let mut parts = vec![row.name.clone()];
    if let Some((call, ns)) = row.in_call.as_ref().zip(long_call_ns(row)) {
        parts.push(format!("in {call}, {}", units::time(ns)));
    }
    // Only columns on the screen have a dash to explain.
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (column, _) in columns(width, rows, is_hosts, shown.view.sort) {
        let Some(reason) = column.reason(row) else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, titles)) => titles.push(column.title()),
            None => reasons.push((reason.to_owned(), vec![column.title()])),
        }
    }
    parts.extend(
        reasons
            .into_iter()
            .map(|(reason, titles)| format!("{} {DASH}: {reason}", titles.join(", "))),
    );
    if let Err(reason) = document.steps_per_s.get() {
        parts.push(format!("steps {DASH}: {reason}"));
    }
    if let Some(pid) = row.pid {
        parts.push(format!("pid {pid}"));
    }
    if row.lost > 0 {
        parts.push(format!("{} lost", units::counted(row.lost, "record")));
    }
    Line::styled(fit(&parts.join(" · "), width), shown.theme.faint())
}

fn classes(width: usize, most: usize, document: &TopDocument, theme: Theme) -> Vec<Line<'static>> {
    let classes = &document.bandwidth;
    let title = match classes.len() {
        count if count > most => format!("bandwidth by size class, {most} of {count}"),
        _ => "bandwidth by size class".to_owned(),
    };
    let mut lines = vec![heading(&title, width, theme)];
    if classes.is_empty() {
        lines.push(Line::raw("no operation in the window"));
        return lines;
    }
    let row = |cells: [String; 6], why: &str| {
        let [operation, size, rate, transfer, bus, effective] = cells;
        let operation = fit(&operation, 18);
        let size = fit(&size, 13);
        let text = format!(
            "{operation:<18}  {size:>13}  {rate:>10}  {transfer:>9}  {bus:>9}  {effective:>9}  {why}"
        );
        fitting(text.trim_end(), width)
    };
    let titles = ["OPERATION", "SIZE", "OPS/S", "TRANSFER", "BUSBW", "EFFECTIVE"].map(str::to_owned);
    lines.push(row(titles, "").style(theme.faint()));
    lines.extend(classes.iter().take(most).map(|class: &TopClass| {
        let figures = [
            &class.bus_bytes_per_s,
            &class.transfer_p50_ns,
            &class.effective_bytes_per_s,
        ];
        let why = figures.into_iter().find_map(|figure| figure.get().err());
        row(
            [
                class.operation.clone(),
                class.size.clone().unwrap_or_else(|| DASH.to_owned()),
                figure(&class.operations_per_s, |&rate| units::mean_count(rate.round())),
                figure(&class.transfer_p50_ns, |&ns| units::time_f(ns)),
                figure(&class.bus_bytes_per_s, |&rate| units::rate(rate.round())),
                figure(&class.effective_bytes_per_s, |&rate| units::rate(rate.round())),
            ],
            &why.map_or_else(String::new, |why| format!("{DASH}: {why}")),
        )
    }));
    lines
}

fn severity_sign(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "!!",
        Severity::Warning => "! ",
        Severity::Note | Severity::Unknown => "  ",
    }
}

fn warning_title(warning: &TopWarning) -> String {
    format!("{} {}", severity_sign(warning.severity), warning.title)
}

fn warnings(width: usize, most: usize, document: &TopDocument, theme: Theme) -> Vec<Line<'static>> {
    let all = &document.warnings;
    let title = match all.len() {
        0 => "no warnings".to_owned(),
        count if count > most => format!("{most} of {count} warnings; w shows all"),
        count => units::counted(count as u64, "warning"),
    };
    let mut lines = vec![heading(&title, width, theme)];
    lines.extend(all.iter().take(most).map(|warning| {
        Line::styled(
            fit(&warning_title(warning), width),
            theme.severity(warning.severity),
        )
    }));
    lines
}

/// Returns all warnings with evidence and advice, from the line to which the user scrolled.
fn all_warnings(
    width: usize,
    height: usize,
    document: &TopDocument,
    shown: &Shown<'_>,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for warning in &document.warnings {
        let style = shown.theme.severity(warning.severity);
        lines.extend(
            wrap(&warning_title(warning), width, "")
                .into_iter()
                .map(|text| Line::styled(text, style)),
        );
        let more = warning
            .evidence
            .iter()
            .map(String::as_str)
            .chain(warning.advice.as_deref());
        for text in more {
            lines.extend(wrap(text, width, "   ").into_iter().map(Line::raw));
        }
        lines.push(Line::raw(format!("   rankscope rules {}", warning.kind)));
    }
    let title = match document.warnings.len() {
        0 => "no warnings".to_owned(),
        count => units::counted(count as u64, "warning"),
    };
    let visible = height.saturating_sub(1);
    let first = shown.view.scrolled.min(lines.len().saturating_sub(visible));
    let title = if lines.len() > visible {
        format!(
            "{title}, lines {}–{} of {}",
            first + 1,
            (first + visible).min(lines.len()),
            lines.len()
        )
    } else {
        title
    };
    let mut out = vec![heading(&title, width, shown.theme)];
    out.extend(lines.into_iter().skip(first).take(visible));
    out
}

/// Breaks a text between words. Each line begins with `indent`.
fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(&fit(word, width.saturating_sub(indent.len())));
    }
    lines.push(line);
    lines
}

fn footer(width: usize, shown: &Shown<'_>) -> Line<'static> {
    match &shown.view.typed {
        Some(typed) => fitting(
            &format!("filter: {typed}▏  text, or ranks 0-63,128; Enter keeps it, Esc removes it"),
            width,
        ),
        None => Line::styled(fit(KEYS, width), shown.theme.faint()),
    }
}
