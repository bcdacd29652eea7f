//! Lost records, by cause.

use super::line::{Level, Line};
use crate::figures::{count, counted, percent, quoted};
use crate::prose::prose;
use crate::source::{among, share, sum};
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::{LossSummary, Session};

/// Returns the lost records.
pub fn losses(session: &Session) -> Vec<Line> {
    const LOST: &str = "/totals/lost";
    let lost = session.totals.lost;
    if lost == 0 && session.losses.is_empty() {
        let torn = session
            .ranks
            .iter()
            .filter(|rank| rank.ending == LogEnding::Torn)
            .count();
        let line = if torn > 0 {
            Line::new(
                Level::Bad,
                "ends of logs are missing; the number of lost records is not known",
            )
        } else if session.problems.total > 0 {
            Line::new(
                Level::Plain,
                "no loss was counted, but the recordings have problems",
            )
        } else {
            Line::new(Level::Good, "no records were lost")
        };
        return vec![line];
    }
    let all = session.totals.records + lost;
    let from = sum(&["/totals/records", LOST]);
    let of_all = (all > 0).then(|| {
        let of_all = percent(lost as f64 / all as f64, share(LOST, &from));
        prose![" (", of_all, ")"]
    });
    let mut lines = vec![Line::new(
        if lost == 0 { Level::Plain } else { Level::Bad },
        prose![
            count(lost, LOST),
            " of ",
            counted(all, "record", from),
            " lost",
            of_all
        ],
    )];
    for loss in losses_by_cause(&session.losses) {
        let at = loss.at[0];
        let plural = if loss.count == 1 { "" } else { "s" };
        lines.push(
            Line::new(
                Level::Plain,
                prose![
                    count(
                        loss.count,
                        sum(&[among("/losses", loss.at.iter().copied(), "/count")])
                    ),
                    " ",
                    quoted(&loss.first.kind, format!("/losses/{at}/kind")),
                    format!(" record{plural}, cause "),
                    quoted(&loss.first.cause, format!("/losses/{at}/cause"))
                ],
            )
            .with_advice(quoted(&loss.first.advice, format!("/losses/{at}/advice"))),
        );
    }
    lines
}

/// Losses of one cause and kind.
struct CauseOfLoss<'a> {
    first: &'a LossSummary,
    count: u64,
    /// Positions in the list.
    at: Vec<usize>,
}

/// Groups losses by cause and kind, the largest first.
fn losses_by_cause(losses: &[LossSummary]) -> Vec<CauseOfLoss<'_>> {
    let mut sums: Vec<CauseOfLoss> = Vec::new();
    for (at, loss) in losses.iter().enumerate() {
        let is_same = |known: &CauseOfLoss| known.first.cause == loss.cause && known.first.kind == loss.kind;
        match sums.iter_mut().find(|known| is_same(known)) {
            Some(known) => {
                known.count += loss.count;
                known.at.push(at);
            }
            None => sums.push(CauseOfLoss {
                first: loss,
                count: loss.count,
                at: vec![at],
            }),
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.count));
    sums
}
