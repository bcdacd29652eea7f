//! Problems of matching.

use super::line::{Level, Line};
use crate::figures::{count, counted, quoted};
use crate::prose::prose;
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::Session;

/// Returns the problems of matching, or nothing if all calls matched.
pub fn matching(session: &Session) -> Vec<Line> {
    let matching = &session.matching;
    let mut lines = Vec::new();
    // A run that still records has records that are not written yet.
    let goes_on = session.ranks.iter().any(|rank| rank.ending == LogEnding::Running);
    let (unfinished, yet) = if goes_on {
        (Level::Plain, " yet")
    } else {
        (Level::Warning, "")
    };
    let mut say = |number: u64, field: &str, level: Level, thing: &str, what: &str| {
        if number > 0 {
            let number = counted(number, thing, format!("/matching/{field}"));
            lines.push(Line::new(level, prose![number, " ", what]));
        }
    };
    say(
        matching.mismatched,
        "mismatched",
        Level::Bad,
        "instance",
        "with members that disagree in operation, type, root or size",
    );
    say(
        matching.incomplete,
        "incomplete",
        unfinished,
        "instance",
        &format!("without the record of a member{yet}"),
    );
    say(
        matching.unmatched_messages,
        "unmatched_messages",
        unfinished,
        "message",
        &format!("with only a send or only a receive{yet}"),
    );
    say(
        matching.without_key,
        "without_key",
        Level::Warning,
        "operation",
        "that could not be matched",
    );
    say(
        matching.shared_without_figures,
        "shared_without_figures",
        Level::Warning,
        "instance",
        "in launches without figures: members grouped their calls differently, or a part is missing",
    );
    say(
        matching.causality_violations,
        "causality_violations",
        Level::Bad,
        "instance",
        "in which a member left before a needed member entered: clocks are wrong",
    );
    for (at, reason) in matching.incomplete_reasons.iter().enumerate() {
        let from = format!("/matching/incomplete_reasons/{at}");
        lines.push(Line::new(
            Level::Plain,
            prose![
                "incomplete: ",
                count(reason.count, format!("{from}/count")),
                " × ",
                quoted(&reason.reason, format!("{from}/reason"))
            ],
        ));
    }
    lines
}
