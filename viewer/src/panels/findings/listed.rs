//! Texts of the list of findings. They are created once per session, because building sentences in every frame is too
//! slow.

use crate::model::{Action, Opened, PickedInstance, Window};
use crate::panels::severity_colours::Level;
use rankscope_analysis::model::labels;
use rankscope_analysis::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Finding, LookAt, LossSummary, ProblemSummary, Session};
use rankscope_report::sentences;
use rankscope_report::sentences::Line;

/// Maximum number of ranks that a finding lists as links.
const MAX_RANKS: usize = 12;
/// Maximum number of losses that are listed separately.
pub const MAX_LOSSES: usize = 200;
/// Margin around a time range that is shown, as a share of its length.
const MARGIN: f64 = 0.25;

/// All texts of the panel.
pub struct ListedFindings {
    /// Which ranks were recorded; always the first line.
    pub coverage: Sentence,
    /// Further remarks about the recorded ranks.
    pub coverage_notes: Vec<Sentence>,
    /// First sentence of the report, if no finding contains it.
    pub headline: Option<Sentence>,
    /// Findings in the order of the session, which is by cost.
    pub findings: Vec<ListedFinding>,
    /// Dropped records: the total, then by cause.
    pub losses: Vec<Sentence>,
    /// The largest losses, one by one.
    pub lost: Vec<ListedMoment>,
    /// Number of losses that are missing in `lost`.
    pub more_lost: usize,
    /// Calls that could not be matched.
    pub matching: Vec<Sentence>,
    /// Number of problems during reading.
    pub problems_total: u64,
    /// The problems that the summary lists.
    pub problems: Vec<String>,
}

/// A sentence.
pub struct Sentence {
    /// Severity.
    pub severity: Level,
    /// The sentence.
    pub text: String,
    /// Advice.
    pub advice: Option<String>,
}

/// A finding.
pub struct ListedFinding {
    /// Severity.
    pub severity: Level,
    /// Severity and rule, such as `critical · late-rank`.
    pub class: String,
    /// Title, one sentence.
    pub title: String,
    /// Cost for the job, or `–`.
    pub cost: String,
    /// Cost in the words of the report and its computation, or the reason why there is none.
    pub cost_meaning: String,
    /// Share of the run, or an empty string.
    pub share: String,
    /// Share of the run, from 0 to 1.
    pub share_of_run: f32,
    /// Evidence, likely cause and cost, one sentence each.
    pub evidence: Vec<String>,
    /// Computation of the cost.
    pub basis: Option<String>,
    /// Conditions of the rule that were checked. All of them hold.
    pub conditions: Vec<String>,
    /// Advice.
    pub advice: Option<String>,
    /// Time ranges of interest.
    pub moments: Vec<ListedMoment>,
    /// Affected ranks with their names.
    pub ranks: Vec<NamedRank>,
    /// Number of ranks that are missing in `ranks`.
    pub more_ranks: usize,
    /// Names of the affected hosts.
    pub hosts: Vec<String>,
}

/// A rank with its name.
pub struct NamedRank {
    /// Position of the rank in the session.
    pub rank: RankIndex,
    /// Displayed name.
    pub name: String,
}

/// A link to a time range.
pub struct ListedMoment {
    /// Text of the link.
    pub text: String,
    /// Time range to show.
    pub window: Window,
    /// Rank to select.
    pub rank: Option<RankIndex>,
    /// Instance to pick.
    pub picked: Option<PickedInstance>,
}

impl ListedMoment {
    /// Adds the actions that follow the link.
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

impl ListedFindings {
    /// Creates the texts of a session.
    pub fn of(opened: &Opened) -> Self {
        let session = &opened.session;
        let mut losses: Vec<&LossSummary> = session.losses.iter().collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
        let lost: Vec<ListedMoment> = losses
            .iter()
            .take(MAX_LOSSES)
            .map(|loss| lost(session, loss))
            .collect();
        Self {
            coverage: sentences::coverage(session).into(),
            coverage_notes: sentences::coverage_notes(session)
                .into_iter()
                .map(Sentence::from)
                .collect(),
            headline: session
                .findings
                .is_empty()
                .then(|| sentences::headline(session).into()),
            findings: session
                .findings
                .iter()
                .enumerate()
                .map(|(at, finding)| listed_finding(session, at, finding))
                .collect(),
            losses: sentences::losses(session)
                .into_iter()
                .map(Sentence::from)
                .collect(),
            more_lost: losses.len() - lost.len(),
            lost,
            matching: sentences::matching(session)
                .into_iter()
                .map(Sentence::from)
                .collect(),
            problems_total: session.problems.total,
            problems: session
                .problems
                .listed
                .iter()
                .map(|problem| problem_text(session, problem))
                .collect(),
        }
    }
}

impl From<Line> for Sentence {
    fn from(line: Line) -> Self {
        Self {
            severity: line.level,
            text: line.text.capitalised().plain(),
            advice: line.advice.map(|advice| advice.plain()),
        }
    }
}

fn listed_finding(session: &Session, at: usize, finding: &Finding) -> ListedFinding {
    let of_run = finding.cost_of_run.get().ok().copied();
    let cost = sentences::cost(at, finding);
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
    let ranks: Vec<NamedRank> = finding
        .ranks
        .iter()
        .take(MAX_RANKS)
        .map(|&rank| NamedRank {
            rank: RankIndex(rank),
            name: labels::rank_name(session, RankIndex(rank)),
        })
        .collect();
    ListedFinding {
        severity: sentences::level(finding.severity),
        class: format!("{} · {}", finding.severity, finding.kind),
        title: sentences::finding_line(at, finding).text.capitalised().plain(),
        cost: finding
            .cost_ns
            .get()
            .map_or_else(|_| "–".to_owned(), |&ns| units::time(ns)),
        cost_meaning,
        share: of_run.map_or_else(String::new, |ratio| units::percent(ratio.share())),
        share_of_run: of_run.map_or(0.0, |ratio| ratio.share() as f32).clamp(0.0, 1.0),
        evidence: sentences::evidence(at, finding)
            .into_iter()
            .map(|text| text.capitalised().plain())
            .collect(),
        basis,
        conditions: finding
            .path
            .iter()
            .map(|condition| sentences::condition(condition, "").plain())
            .collect(),
        advice: finding.advice.clone(),
        moments: finding.look_at.iter().map(listed_moment).collect(),
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

fn listed_moment(moment: &LookAt) -> ListedMoment {
    ListedMoment {
        text: sentences::moment(moment, "").capitalised().plain(),
        window: around(moment.start_ns, moment.end_ns),
        rank: moment.rank.map(RankIndex),
        picked: moment.instance.map(|instance| PickedInstance {
            instance,
            communicator: None,
            from_ns: moment.start_ns,
            to_ns: moment.end_ns,
        }),
    }
}

/// Returns a window with margins around a time range, in nanoseconds.
fn around(start_ns: i64, end_ns: i64) -> Window {
    Window::between(start_ns, end_ns).with_margin(MARGIN)
}

fn lost(session: &Session, loss: &LossSummary) -> ListedMoment {
    let who = match loss.rank {
        Some(rank) => labels::rank_name(session, RankIndex(rank)),
        None => loss.source.clone(),
    };
    ListedMoment {
        text: format!(
            "{who}: {} {}, {}, {} – {}",
            units::count(loss.count),
            loss.kind,
            loss.cause,
            units::time(loss.first_ns),
            units::time(loss.last_ns)
        ),
        window: around(loss.first_ns, loss.last_ns),
        rank: loss.rank.map(RankIndex),
        picked: None,
    }
}

fn problem_text(session: &Session, problem: &ProblemSummary) -> String {
    let rank = problem
        .rank
        .map(|rank| labels::rank_name(session, RankIndex(rank)));
    let place = match (&problem.file, problem.offset_bytes) {
        (Some(file), Some(offset)) => Some(format!("{file}, byte {}", units::count(offset))),
        (Some(file), None) => Some(file.clone()),
        (None, _) => None,
    };
    let parts = [rank, place, Some(problem.what.clone())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}
