//! Fuzzy matching of names by some of their letters.
//!
//! Implemented here, because crates for fuzzy matching are made for hundreds of thousands of paths. The palette has a
//! few dozen short names.

/// How well a name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzyMatch {
    /// Higher scores are better: adjacent letters, and letters at the starts of words.
    pub score: i32,
    /// Positions of the matching characters in the name.
    pub places: Vec<usize>,
}

/// Returns how well a name matches; `None` if `typed` is not a subsequence of it. White space in `typed` is ignored.
pub fn fit(typed: &str, name: &str) -> Option<FuzzyMatch> {
    const BESIDE: i32 = 8;
    const WORD: i32 = 6;
    const BEGIN: i32 = 4;
    let lower = |text: &str| -> Vec<char> { text.chars().map(lower_char).collect() };
    let typed: Vec<char> = lower(typed).into_iter().filter(|c| !c.is_whitespace()).collect();
    let name = lower(name);
    // Each row has, per position `at`, the best score of the letters so far with the last one at `at`, and the position
    // of the letter before.
    let mut rows: Vec<Vec<Option<(i32, usize)>>> = Vec::with_capacity(typed.len());
    for (number, letter) in typed.iter().enumerate() {
        let mut row = vec![None; name.len()];
        let mut apart: Option<(i32, usize)> = None;
        for at in 0..name.len() {
            let before = number.checked_sub(1).and_then(|before| rows.get(before));
            if let Some((score, _)) = before.and_then(|row| row[at.checked_sub(2)?])
                && apart.is_none_or(|(best, _)| score > best)
            {
                apart = Some((score, at - 2));
            }
            if name[at] != *letter {
                continue;
            }
            let is_word = at == 0 || !name[at - 1].is_alphanumeric();
            let own = if is_word { WORD } else { 0 } + if at == 0 { BEGIN } else { 0 };
            row[at] = if number == 0 {
                Some((own - at.min(8) as i32 / 4, at))
            } else {
                let beside = before
                    .and_then(|row| row[at.checked_sub(1)?])
                    .map(|(score, _)| (score + BESIDE, at - 1));
                beside
                    .into_iter()
                    .chain(apart)
                    .max_by_key(|&(score, _)| score)
                    .map(|(score, from)| (score + own, from))
            };
        }
        rows.push(row);
    }
    let Some(last) = rows.last() else {
        return Some(FuzzyMatch {
            score: 0,
            places: Vec::new(),
        });
    };
    let best = |&(_, cell): &(usize, Option<(i32, usize)>)| cell.map(|(score, _)| score);
    let (mut at, cell) = last
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, cell)| cell.is_some())
        .max_by_key(best)?;
    let (score, _) = cell?;
    let mut places = vec![at];
    for row in rows.iter().skip(1).rev() {
        at = row[at]?.1;
        places.push(at);
    }
    places.reverse();
    Some(FuzzyMatch { score, places })
}

fn lower_char(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn starts_of_words_and_adjacent_letters_rank_higher() {
        let score = |typed, name| fit(typed, name).map_or(i32::MIN, |fit| fit.score);
        assert!(score("sa", "Show all") > score("sa", "Clear search and"));
        assert!(score("zoom", "Zoom in") > score("zoom", "Zone of other marks"));
        let places = |typed, name| fit(typed, name).map(|fit| fit.places);
        assert_eq!(places("ga", "Go ahead"), Some(vec![0, 3]));
        let empty = FuzzyMatch {
            score: 0,
            places: vec![],
        };
        assert_eq!(fit("", "anything"), Some(empty));
        assert_eq!(fit("xyz", "Go to"), None);
        assert_eq!(places("go to", "Go to"), Some(vec![0, 1, 3, 4]));
    }

    proptest! {
        #[test]
        fn a_name_matches_iff_it_has_the_letters_in_order(typed in "[ab ]{0,5}", name in "[abc ]{0,12}") {
            let letters: Vec<char> = typed.chars().filter(|c| *c != ' ').collect();
            let mut rest = name.chars();
            let is_in = letters.iter().all(|letter| rest.any(|c| c == *letter));
            let fitted = fit(&typed, &name);
            prop_assert_eq!(fitted.is_some(), is_in);
            if let Some(FuzzyMatch { places, .. }) = fitted {
                let meant: Vec<char> = places.iter().filter_map(|&at| name.chars().nth(at)).collect();
                prop_assert_eq!(meant, letters);
                prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
