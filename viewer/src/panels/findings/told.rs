//! What the list of findings says, as text: made once per session, since a frame has no time for sentences.

use crate::model::{Action, Opened, PickedInstance, Window};
use rankscope_collector::report::units;
use rankscope_collector::report::words::{self, Line, Mood};
use rankscope_formats::session::{Finding, LookAt, LossSummary, ProblemSummary, Session};

/// Ranks that a finding lists as links.
const MOST_RANKS: usize = 12;
/// Losses listed one by one.
pub const MOST_LOSSES: usize = 200;
/// Room around a moment that is shown, as a share of it.
const MARGIN: f64 = 0.25;

/// Everything the panel says of a session.
pub struct Told {
    /// Who was seen; the first line of everything.
    pub coverage: Said,
    /// What else is to be said about that.
    pub coverage_notes: Vec<Said>,
    /// The first sentence of the report, where no finding says it.
    pub headline: Option<Said>,
    /// In the session's order, which is that of their cost.
    pub findings: Vec<ToldFinding>,
    /// What could not be recorded: the sum, then by cause.
    pub losses: Vec<Said>,
    /// The largest of them one by one.
    pub lost: Vec<ToldMoment>,
    /// How many `lost` leaves out.
    pub more_lost: usize,
    /// Calls that could not be matched.
    pub matching: Vec<Said>,
    /// How many problems reading had.
    pub problems_total: u64,
    /// Those that the summary lists.
    pub problems: Vec<String>,
}

/// A sentence.
pub struct Said {
    /// How serious.
    pub mood: Mood,
    /// The sentence.
    pub text: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// A finding.
pub struct ToldFinding {
    /// How serious.
    pub mood: Mood,
    /// `critical · late-rank`.
    pub class: String,
    /// One sentence.
    pub title: String,
    /// What it cost the job, or `–`.
    pub cost: String,
    /// The cost as the report says it and how it was computed, or why there is none.
    pub cost_meaning: String,
    /// Share of the run, or nothing.
    pub share: String,
    /// The same, 0 to 1.
    pub share_of_run: f32,
    /// Evidence, likely cause and cost, a sentence each.
    pub evidence: Vec<String>,
    /// How the cost was computed.
    pub basis: Option<String>,
    /// The conditions that were checked, all of which hold.
    pub conditions: Vec<String>,
    /// What to try.
    pub advice: Option<String>,
    /// Moments to look at.
    pub moments: Vec<ToldMoment>,
    /// Ranks concerned, with their names.
    pub ranks: Vec<(u32, String)>,
    /// How many `ranks` leaves out.
    pub more_ranks: usize,
    /// Names of the hosts concerned.
    pub hosts: Vec<String>,
}

/// A moment that can be gone to.
pub struct ToldMoment {
    /// What there is to see.
    pub text: String,
    /// What to show.
    pub window: Window,
    /// Where.
    pub rank: Option<u32>,
    /// What to mark there.
    pub picked: Option<PickedInstance>,
}

impl ToldMoment {
    /// Asks for it to be shown.
    pub fn go(&self, actions: &mut Vec<Action>) {
        actions.push(Action::Show(self.window));
        if let Some(rank) = self.rank {
            actions.push(Action::Rank(Some(rank)));
        }
        if let Some(picked) = self.picked {
            actions.push(Action::Pick(Some(picked)));
        }
    }
}

impl Told {
    /// Of a session.
    pub fn of(opened: &Opened) -> Self {
        let session = &opened.session;
        let mut losses: Vec<&LossSummary> = session.losses.iter().collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
        let lost: Vec<ToldMoment> = losses
            .iter()
            .take(MOST_LOSSES)
            .map(|loss| lost(session, loss))
            .collect();
        Self {
            coverage: words::coverage(session).into(),
            coverage_notes: words::coverage_notes(session)
                .into_iter()
                .map(Said::from)
                .collect(),
            headline: session
                .findings
                .is_empty()
                .then(|| words::headline(session).into()),
            findings: session
                .findings
                .iter()
                .enumerate()
                .map(|(at, finding)| told_finding(session, at, finding))
                .collect(),
            losses: words::losses(session).into_iter().map(Said::from).collect(),
            more_lost: losses.len() - lost.len(),
            lost,
            matching: words::matching(session).into_iter().map(Said::from).collect(),
            problems_total: session.problems.total,
            problems: session
                .problems
                .listed
                .iter()
                .map(|problem| told_problem(session, problem))
                .collect(),
        }
    }
}

impl From<Line> for Said {
    fn from(line: Line) -> Self {
        Self {
            mood: line.mood,
            text: line.text.capitalised().plain(),
            advice: line.advice.map(|advice| advice.plain()),
        }
    }
}

fn told_finding(session: &Session, at: usize, finding: &Finding) -> ToldFinding {
    let of_run = finding.cost_of_run.get().ok().copied();
    let cost = words::cost(at, finding);
    let basis = finding
        .cost_basis
        .as_ref()
        .map(|basis| format!("Counted as cost: {basis}."));
    let mut cost_meaning = match (&cost, finding.cost_ns.get()) {
        (Some(cost), _) => cost.clone().capitalised().plain(),
        (None, Err(reason)) => format!("No cost: {reason}"),
        (None, Ok(_)) => String::new(),
    };
    if let Some(ratio) = of_run {
        cost_meaning.push_str(&format!(
            ".\nShare: {} of {} of the run",
            units::time(ratio.numerator),
            units::time(ratio.denominator)
        ));
    }
    if let Some(basis) = &basis {
        cost_meaning.push_str(&format!(".\n{basis}"));
    }
    let ranks: Vec<(u32, String)> = finding
        .ranks
        .iter()
        .take(MOST_RANKS)
        .map(|&rank| (rank, words::rank_name(session, rank)))
        .collect();
    ToldFinding {
        mood: words::mood(&finding.severity),
        class: format!("{} · {}", finding.severity, finding.kind),
        title: words::finding_line(at, finding).text.capitalised().plain(),
        cost: finding
            .cost_ns
            .get()
            .map_or_else(|_| "–".to_owned(), |&ns| units::time(ns)),
        cost_meaning,
        share: of_run.map_or_else(String::new, |ratio| units::percent(ratio.share())),
        share_of_run: of_run.map_or(0.0, |ratio| ratio.share() as f32).clamp(0.0, 1.0),
        evidence: words::evidence(at, finding)
            .into_iter()
            .map(|text| text.capitalised().plain())
            .collect(),
        basis,
        conditions: finding
            .path
            .iter()
            .map(|condition| words::condition(condition, "").plain())
            .collect(),
        advice: finding.advice.clone(),
        moments: finding.look_at.iter().map(told_moment).collect(),
        more_ranks: finding.ranks.len() - ranks.len(),
        ranks,
        hosts: finding
            .hosts
            .iter()
            .filter_map(|&host| session.hosts.get(host as usize))
            .map(|host| host.name.clone())
            .collect(),
    }
}

fn told_moment(moment: &LookAt) -> ToldMoment {
    ToldMoment {
        text: words::moment(moment, "").capitalised().plain(),
        window: around(moment.start_ns, moment.end_ns),
        rank: moment.rank,
        picked: moment.instance.map(|instance| PickedInstance {
            instance,
            communicator: None,
            from_ns: moment.start_ns,
            to_ns: moment.end_ns,
        }),
    }
}

/// What is shown of a stretch of time, ns: with some of what is before and behind it.
fn around(start_ns: i64, end_ns: i64) -> Window {
    Window::between(start_ns, end_ns).with_margin(MARGIN)
}

fn lost(session: &Session, loss: &LossSummary) -> ToldMoment {
    let who = match loss.rank {
        Some(rank) => words::rank_name(session, rank),
        None => loss.source.clone(),
    };
    ToldMoment {
        text: format!(
            "{who}: {} {}, {}, {} – {}",
            units::count(loss.count),
            loss.kind,
            loss.cause,
            units::time(loss.first_ns),
            units::time(loss.last_ns)
        ),
        window: around(loss.first_ns, loss.last_ns),
        rank: loss.rank,
        picked: None,
    }
}

fn told_problem(session: &Session, problem: &ProblemSummary) -> String {
    let rank = problem.rank.map(|rank| words::rank_name(session, rank));
    let place = match (&problem.file, problem.offset_bytes) {
        (Some(file), Some(offset)) => Some(format!("{file}, byte {}", units::count(offset))),
        (Some(file), None) => Some(file.clone()),
        (None, _) => None,
    };
    let parts = [rank, place, Some(problem.what.clone())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}
