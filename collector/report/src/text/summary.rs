//! Summary of a session on a terminal: first coverage and losses, then the figures, then where to find details.

use super::table::TextTable;
use super::writer::{Text, wrapped};
use crate::hta_figures;
use crate::prose::Prose;
use crate::reasons::Reasons;
use crate::sentences;
use crate::sentences::{Level, Line};
use crate::{Places, TextLayout, rollup_rows, structure};
use rankscope_analysis::model::labels;
use rankscope_analysis::model::units;
use rankscope_analysis::selection::rollup::{By, Rollup};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Window;
use rankscope_formats::session::{Finding, RankBreakdown, Session};

/// Maximum number of displayed ranks, operation classes and findings. The page has all of them.
const MAX_RANKS: usize = 16;
const MAX_CLASSES: usize = 12;
const MAX_FINDINGS: usize = 6;
const BAR: usize = 24;

/// Formats the summary.
pub fn summary_text(session: &Session, places: &Places, layout: &TextLayout) -> String {
    let mut text = Text::new("\n", layout);
    text.labelled("Coverage", &sentences::coverage(session));
    for note in sentences::coverage_notes(session) {
        text.labelled("", &note);
    }
    for (at, line) in sentences::losses(session).iter().enumerate() {
        text.labelled(if at == 0 { "Losses" } else { "" }, line);
    }
    text.labelled("Summary", &sentences::headline(session));
    text.labelled("Run", &sentences::run(session));
    for (at, line) in structure::sentences(session).iter().enumerate() {
        text.labelled(if at == 0 { "Structure" } else { "" }, line);
    }
    for (at, line) in sentences::devices(session).iter().enumerate() {
        text.labelled(if at == 0 { "Devices" } else { "" }, line);
    }
    for (at, line) in sentences::activity(session).iter().enumerate() {
        text.labelled(if at == 0 { "Kernels" } else { "" }, line);
    }
    text.labelled("Steps", &sentences::steps(session));
    for line in sentences::throughput(session) {
        text.labelled("", &line);
    }
    for line in sentences::named_times(session) {
        text.labelled("Host time", &line);
    }
    for line in sentences::counters(session) {
        text.labelled("Counters", &line);
    }
    for line in sentences::system_counters(session) {
        text.labelled("System", &line);
    }
    for (at, line) in sentences::matching(session).iter().enumerate() {
        text.labelled(if at == 0 { "Matching" } else { "" }, line);
    }
    text.clocks(session);
    text.operations(session);
    text.breakdown(session);
    text.stages(session);
    text.activity(session);
    text.beside_hta(session);
    text.lateness(session);
    text.other_findings(session);
    text.scorecard(session);
    text.problems(session);
    text.places(places);
    text.out
}

/// Formats sums by rank, device, host or role. All rows are shown because they were requested.
pub fn rollup_text(rollup: &Rollup, layout: &TextLayout) -> String {
    let mut text = Text::new("", layout);
    let mut reasons = Reasons::default();
    let table = if rollup.by == By::Role.name() {
        let mut table = TextTable::new(1, &rollup_rows::ROLE_COLUMNS);
        let roles = rollup.roles.iter();
        roles.for_each(|role| table.push(plain_cells(&rollup_rows::role_row(role, "", &mut reasons))));
        table
    } else {
        let mut table = TextTable::new(1, &rollup_rows::GROUP_COLUMNS);
        let groups = rollup.groups.iter().chain(&rollup.total);
        groups.for_each(|group| table.push(plain_cells(&rollup_rows::group_row(group, "", &mut reasons))));
        table
    };
    text.table(&table, &reasons);
    text.out
}

fn plain_cells(row: &[Prose]) -> Vec<String> {
    row.iter().map(Prose::plain).collect()
}

impl Text {
    fn clocks(&mut self, session: &Session) {
        for (at, text) in sentences::clocks(session).into_iter().enumerate() {
            let line = Line {
                level: Level::Plain,
                text,
                advice: None,
            };
            self.labelled(if at == 0 { "Clocks" } else { "" }, &line);
        }
    }

    fn operations(&mut self, session: &Session) {
        if session.operations.is_empty() {
            return;
        }
        self.heading("Operations");
        let mut reasons = Reasons::default();
        let mut table = TextTable::new(
            2,
            &[
                "operation",
                "size",
                "ranks",
                "count",
                "bytes",
                "Σ wait",
                "transfer",
                "busbw",
                "bound by",
                "transfer p99",
            ],
        );
        let libraries = session
            .operations
            .iter()
            .any(|class| class.library != session.operations[0].library);
        for class in session.operations.iter().take(MAX_CLASSES) {
            let mut operation = sentences::operation(class);
            if libraries {
                operation = format!("{} {operation}", class.library);
            }
            if class.role != "world" {
                operation.push_str(&format!(" ({})", class.role));
            }
            table.push(vec![
                operation,
                sentences::size_class(class).unwrap_or_else(|| "not known".to_owned()),
                class.members.to_string(),
                units::count(class.operations),
                reasons.plain(&class.bytes, |&bytes| units::bytes(bytes)),
                sentences::class_wait(class, class.exposed_wait_rank_ns + class.hidden_wait_rank_ns, "")
                    .plain(),
                reasons.plain(&class.transfer_ns, |times| units::time_f(times.p50)),
                reasons.plain(&class.bus_bytes_per_s, |rates| units::rate(rates.p50)),
                sentences::bound_by(class).unwrap_or("").to_owned(),
                reasons.plain(&class.transfer_ns, |times| units::time_f(times.p99)),
            ]);
        }
        self.table(&table, &reasons);
        for class in session.operations.iter().take(MAX_CLASSES) {
            if let Some(requested) = sentences::requested(class) {
                let sizes =
                    sentences::size_class(class).map_or_else(String::new, |sizes| format!(" of {sizes}"));
                self.faint(&format!("{}{sizes}: {requested}", sentences::operation(class)));
            }
        }
        if session.operations.len() > MAX_CLASSES {
            self.line(&format!(
                "  … {} more kinds and sizes on the page",
                session.operations.len() - MAX_CLASSES
            ));
        }
        let connect = &session.connect;
        if connect.calls > 0 {
            self.faint(&format!(
                "communicators built: {}, {} over all ranks, longest {}",
                units::counted(connect.calls, "call"),
                units::time(connect.duration_rank_ns),
                units::time(connect.longest_ns)
            ));
        }
    }

    /// Adds the breakdown of device time, if any is known.
    fn activity(&mut self, session: &Session) {
        let known: Vec<_> = session
            .activity
            .iter()
            .filter(|entry| entry.window_ns > 0)
            .take(MAX_RANKS)
            .collect();
        if known.is_empty() {
            return;
        }
        self.heading("Where the devices' time went");
        let mut reasons = Reasons::default();
        let mut table = TextTable::new(
            1,
            &[
                "rank",
                "window",
                "compute",
                "overlapped",
                "transfer",
                "waiting",
                "memory",
                "idle",
                "overlap",
            ],
        );
        for entry in known {
            let part = |ns: i64| sentences::share_of(ns, entry.window_ns, "", "").plain();
            table.push(vec![
                labels::rank_name(session, RankIndex(entry.rank)),
                units::time(entry.window_ns),
                part(entry.compute_only_ns),
                part(entry.overlapped_ns),
                part(entry.exposed_communication_ns - entry.exposed_wait_ns),
                match labels::waits_unknown(session) {
                    Some(reason) => reasons.dash(reason).plain(),
                    None => part(entry.exposed_wait_ns),
                },
                part(entry.exposed_memory_ns),
                part(entry.idle_ns),
                reasons.plain(&entry.overlap, |ratio| units::percent(ratio.share())),
            ]);
        }
        self.table(&table, &reasons);
        if session.activity.iter().any(|entry| !entry.adds_up) {
            let wrong = self
                .paint
                .bad("the parts of a device do not add up to the window; this is a bug of rankscope");
            self.line(&format!("  {wrong}"));
        }
        for line in sentences::stalls(session) {
            self.faint(&line.plain());
        }
    }

    /// Adds the stages of pipelines, if any.
    fn stages(&mut self, session: &Session) {
        let mut reasons = Reasons::default();
        let rows = structure::stage_rows(session, &mut reasons);
        if rows.is_empty() {
            return;
        }
        self.heading("Stages of the pipeline, mean per rank and step");
        let mut table = TextTable::new(2, &structure::STAGE_COLUMNS);
        let rows = rows.iter().take(MAX_RANKS);
        rows.for_each(|row| table.push(plain_cells(row)));
        self.table(&table, &reasons);
    }

    /// Adds the figures of Holistic Trace Analysis for an import, if they were requested.
    fn beside_hta(&mut self, session: &Session) {
        let Some(figures) = hta_figures::figures(session) else {
            return;
        };
        self.heading("Figures of Holistic Trace Analysis");
        let mut table = TextTable::new(1, &hta_figures::COLUMNS);
        for row in hta_figures::rows(session, figures).into_iter().take(MAX_RANKS) {
            table.push(plain_cells(&row));
        }
        self.table(&table, &Reasons::default());
        self.faint(hta_figures::NOTE);
    }

    fn breakdown(&mut self, session: &Session) {
        // For ranks with device activity the device breakdown shows more.
        let is_shown_by_device = |entry: &RankBreakdown| sentences::has_device_breakdown(session, entry);
        if session.breakdown.iter().all(is_shown_by_device) {
            return;
        }
        let window = match session.breakdown[0].window {
            Window::Steps => format!(
                "over {}",
                units::counted(session.breakdown[0].steps, "whole step")
            ),
            Window::Run => "from first to last record".to_owned(),
        };
        self.heading(&format!("Where the time went, {window}"));
        let mut reasons = Reasons::default();
        let bar = if self.width >= 80 { "" } else { "-" };
        let mut table = TextTable::new(
            1,
            &[
                "rank",
                "window",
                "host time",
                "transfer",
                "waiting",
                "other blocked",
                "overlap",
                bar,
            ],
        );
        for entry in shown_ranks(session) {
            table.push(self.breakdown_row(session, entry, &mut reasons));
        }
        self.bars(&table, &reasons);
        self.parts_that_do_not_add_up(session);
        if session.breakdown.len() > MAX_RANKS {
            self.line(&format!(
                "  … {} more ranks, which wait less, on the page",
                session.breakdown.len() - MAX_RANKS
            ));
        }
    }

    fn breakdown_row(&self, session: &Session, entry: &RankBreakdown, reasons: &mut Reasons) -> Vec<String> {
        let part = |ns: i64| {
            if entry.window_ns > 0 {
                units::percent(ns as f64 / entry.window_ns as f64)
            } else {
                "–".to_owned()
            }
        };
        // An incomplete part must not be shown like a complete one.
        let timed = |ns: i64| {
            if entry.leaves_out() {
                "–".to_owned()
            } else {
                part(ns)
            }
        };
        vec![
            labels::rank_name(session, RankIndex(entry.rank)),
            units::time(entry.window_ns),
            timed(entry.host_ns),
            timed(sentences::exposed_transfer_ns(entry)),
            match labels::waits_unknown(session) {
                Some(reason) => reasons.dash(reason).plain(),
                None => timed(entry.exposed_wait_ns),
            },
            part(entry.other_blocked_ns),
            reasons.plain(&entry.overlap, |ratio| units::percent(ratio.share())),
            self.bar(entry),
        ]
    }

    /// Reports ranks whose parts do not add up to the window.
    fn parts_that_do_not_add_up(&mut self, session: &Session) {
        let wrong: Vec<String> = session
            .breakdown
            .iter()
            .filter(|entry| !entry.adds_up)
            .map(|entry| labels::rank_name(session, RankIndex(entry.rank)))
            .collect();
        if !wrong.is_empty() {
            let text = format!(
                "the parts do not add up to the window; this is a bug of rankscope: {}",
                sentences::some_of(&wrong, 8)
            );
            for part in wrapped(&text, self.width - 2) {
                let part = self.paint.bad(&part);
                self.line(&format!("  {part}"));
            }
        }
    }

    /// Adds the table with its bars in colour. Colours are added last because they would change the measured column
    /// widths.
    fn bars(&mut self, table: &TextTable, reasons: &Reasons) {
        let from = self.out.len();
        self.table(table, reasons);
        self.faint(&format!(
            "{HOST} host time  {TRANSFER} transfer  {WAIT} waiting for peers  {OTHER} other blocked"
        ));
        if self.paint.0 {
            let plain = self.out.split_off(from);
            for c in plain.chars() {
                match c {
                    HOST => self.out.push_str("\x1b[32m█\x1b[0m"),
                    TRANSFER => self.out.push_str("\x1b[34m█\x1b[0m"),
                    WAIT => self.out.push_str("\x1b[31m█\x1b[0m"),
                    OTHER => self.out.push_str("\x1b[90m█\x1b[0m"),
                    other => self.out.push(other),
                }
            }
        }
    }

    fn bar(&self, entry: &RankBreakdown) -> String {
        let parts = [
            (HOST, entry.host_ns),
            (TRANSFER, sentences::exposed_transfer_ns(entry)),
            (WAIT, entry.exposed_wait_ns),
            (OTHER, entry.other_blocked_ns),
        ];
        if entry.window_ns <= 0 || entry.leaves_out() {
            return String::new();
        }
        let mut bar = String::new();
        let mut sum = 0;
        for (mark, part) in parts {
            sum += part.max(0);
            let until = (sum as f64 / entry.window_ns as f64 * BAR as f64).round() as usize;
            while bar.chars().count() < until.min(BAR) {
                bar.push(mark);
            }
        }
        bar
    }

    fn lateness(&mut self, session: &Session) {
        self.heading("Late ranks");
        let late: Vec<_> = session
            .findings
            .iter()
            .enumerate()
            .filter(|(_, finding)| sentences::is_about_lateness(finding))
            .collect();
        if late.is_empty() {
            let line = sentences::verdict(session);
            for part in wrapped(&line.text.plain(), self.width - 2) {
                let part = self.paint(line.level, &part);
                self.line(&format!("  {part}"));
            }
            let share = sentences::mean_share(session, |entry| entry.exposed_wait_ns);
            let has_times = session.totals.enqueued == 0 && labels::waits_unknown(session).is_none();
            if let Some(share) = share.filter(|_| session.ranks.len() > 1 && has_times) {
                self.faint(&format!(
                    "total waiting for peers: {} of the ranks' time",
                    units::percent(share)
                ));
            }
        }
        for &(at, finding) in late.iter().take(MAX_FINDINGS) {
            self.finding(at, finding);
        }
        if late.len() > MAX_FINDINGS {
            self.line(&format!("  … {} more on the page", late.len() - MAX_FINDINGS));
        }
        // If lateness rotates, a table of names would still blame single ranks.
        if late.iter().all(|(_, finding)| finding.kind != "late-rank") {
            return;
        }
        // Start-up is not a step, and waiting during start-up is no rank's lateness.
        let in_steps = session.steps.count > 0;
        let mut table = TextTable::new(1, &["rank", "caused waiting", "job time lost", "arrived last"]);
        for entry in session
            .blame
            .ranks
            .iter()
            .filter(|entry| entry.caused_exposed_rank_ns > 0)
            .take(3)
        {
            let (caused, lost) = if in_steps {
                (
                    entry.caused_exposed_in_steps_rank_ns,
                    entry.job_lost_exposed_in_steps_ns,
                )
            } else {
                (entry.caused_exposed_rank_ns, entry.job_lost_exposed_ns)
            };
            let share = if entry.launches > 0 {
                format!(
                    "{} of {} ({})",
                    units::count(entry.last_arrivals),
                    units::count(entry.launches),
                    units::percent(entry.last_arrivals as f64 / entry.launches as f64)
                )
            } else {
                String::new()
            };
            table.push(vec![
                labels::rank_name(session, RankIndex(entry.rank)),
                units::rank_time(caused),
                units::time(lost),
                share,
            ]);
        }
        if !table.is_empty() {
            self.table(&table, &Reasons::default());
        }
    }

    fn finding(&mut self, at: usize, finding: &Finding) {
        let line = sentences::finding_line(at, finding);
        for (row, part) in wrapped(&line.text.plain(), self.width - 4).iter().enumerate() {
            let part = self.paint(line.level, part);
            self.line(&format!("{}{part}", if row == 0 { "  ! " } else { "    " }));
        }
        let lines = sentences::evidence(at, finding)
            .into_iter()
            .chain(sentences::details(at, finding));
        for evidence in lines {
            for part in wrapped(&evidence.plain(), self.width - 4) {
                self.line(&format!("    {part}"));
            }
        }
        if let Some(advice) = &line.advice {
            self.arrow(&advice.plain(), 4);
        }
    }

    fn scorecard(&mut self, session: &Session) {
        let Some(card) = &session.scorecard else { return };
        self.heading("Scorecard");
        let total = sentences::score_total(card);
        for part in wrapped(&total.text.plain(), self.width - 2) {
            let part = self.paint(total.level, &part);
            self.line(&format!("  {part}"));
        }
        let mut reasons = Reasons::default();
        let mut table = TextTable::new(1, &["dimension", "score", "weight"]);
        for score in &card.dimensions {
            table.push(vec![
                score.name.clone(),
                reasons.plain(&score.score, |value| format!("{value:.0}")),
                sentences::score_weight(score, "").plain(),
            ]);
        }
        self.table(&table, &reasons);
        for score in card.dimensions.iter().filter(|score| score.score.value.is_some()) {
            self.faint(&format!("{}: {}", score.name, score.basis));
        }
    }

    fn other_findings(&mut self, session: &Session) {
        let others: Vec<_> = session
            .findings
            .iter()
            .enumerate()
            .filter(|(_, finding)| !sentences::is_about_lateness(finding))
            .collect();
        if others.is_empty() {
            return;
        }
        self.heading("Other findings");
        for &(at, finding) in others.iter().take(MAX_FINDINGS) {
            self.finding(at, finding);
        }
        if others.len() > MAX_FINDINGS {
            self.line(&format!("  … {} more on the page", others.len() - MAX_FINDINGS));
        }
    }

    fn problems(&mut self, session: &Session) {
        const MOST: usize = 3;
        let problems = &session.problems;
        if problems.total == 0 {
            return;
        }
        self.heading(&format!(
            "Problems with the recordings: {}",
            units::count(problems.total)
        ));
        for problem in problems.listed.iter().take(MOST) {
            let place = match (&problem.file, problem.offset_bytes) {
                (Some(file), Some(offset)) => format!("{file}: at byte {offset}: "),
                (Some(file), None) => format!("{file}: "),
                _ => String::new(),
            };
            for part in wrapped(&format!("{place}{}", problem.what), self.width - 2) {
                self.line(&format!("  {part}"));
            }
        }
        if problems.total > MOST as u64 {
            self.line(&format!(
                "  … {} more on the page",
                units::count(problems.total - MOST as u64)
            ));
        }
    }

    fn places(&mut self, places: &Places) {
        self.heading("Details");
        if let Some(report) = &places.report {
            self.place(&report.display(), "open it in a browser");
        }
        let run = places.session.parent().unwrap_or(&places.session);
        self.place(
            &format_args!("rankscope view {}", run.display()),
            "the timeline of all ranks in a native window",
        );
        if let Some(trace) = &places.trace {
            self.place(
                &trace.display(),
                "https://ui.perfetto.dev → Open trace file; the file stays on your machine",
            );
        }
        self.place(
            &places.session.display(),
            "Parquet tables and session.json, for data frames and SQL",
        );
    }
}

const HOST: char = '█';
const TRANSFER: char = '▒';
const WAIT: char = '░';
const OTHER: char = '·';

/// Returns the ranks that wait most, in the order of ranks.
fn shown_ranks(session: &Session) -> Vec<&RankBreakdown> {
    let mut entries: Vec<&RankBreakdown> = session.breakdown.iter().collect();
    if entries.len() > MAX_RANKS {
        entries.sort_by_key(|entry| (!entry.adds_up, entry.exposed_wait_ns));
        entries.reverse();
        entries.truncate(MAX_RANKS);
        entries.sort_by_key(|entry| entry.rank);
    }
    entries
}
