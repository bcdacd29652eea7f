//! Describes the ranks of a group in few words.

use rankscope_analysis::model::units::counted;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Session;

/// Maximum number of ranges of ranks in a description. With more, it has the number of ranks instead.
const MAX_RANGES: usize = 3;

/// Describes ranks by their numbers in the world, such as `ranks 40–47`. If that is too long, or if a number is
/// unknown, it has the number of ranks, such as `64 ranks`.
pub fn members(session: &Session, ranks: &[RankIndex]) -> String {
    let number = |rank: &RankIndex| session.ranks.get(rank.index())?.number.value;
    let numbers: Option<Vec<u32>> = ranks.iter().map(number).collect();
    let ranges = numbers.map(ranges).filter(|ranges| ranges.len() <= MAX_RANGES);
    match (ranges, ranks) {
        (Some(ranges), [_]) => format!("rank {}", ranges.join(", ")),
        (Some(ranges), [_, ..]) => format!("ranks {}", ranges.join(", ")),
        _ => counted(ranks.len() as u64, "rank"),
    }
}

/// Returns the ranges of consecutive numbers as texts.
fn ranges(mut numbers: Vec<u32>) -> Vec<String> {
    numbers.sort_unstable();
    let is_same_range = |one: &u32, next: &u32| one.checked_add(1) == Some(*next);
    let text = |range: &[u32]| match range {
        [first, .., last] => format!("{first}–{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    numbers.chunk_by(is_same_range).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_fixtures::sessions::Job;
    use rankscope_formats::session::Figure;

    #[test]
    fn few_ranges_are_named_and_many_ranks_are_counted() {
        let mut session = Job::new(64, 1).session();
        let text = |session: &Session, ranks: &[u32]| {
            let ranks: Vec<RankIndex> = ranks.iter().copied().map(RankIndex).collect();
            members(session, &ranks)
        };
        assert_eq!(text(&session, &[5]), "rank 5");
        assert_eq!(text(&session, &[40, 41, 42, 43, 44, 45, 46, 47]), "ranks 40–47");
        assert_eq!(text(&session, &[9, 0, 1, 8]), "ranks 0–1, 8–9");
        assert_eq!(text(&session, &[2, 6]), "ranks 2, 6");
        assert_eq!(text(&session, &[0, 8, 16, 24]), "4 ranks");
        session.ranks[41].number = Figure::unknown("no communicator");
        assert_eq!(text(&session, &[40, 41]), "2 ranks");
        assert_eq!(text(&session, &[41]), "1 rank");
    }
}
