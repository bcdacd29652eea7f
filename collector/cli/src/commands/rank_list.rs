//! List of ranks as typed by users: `0-3,8`.

use rankscope_formats::session::Session;

/// Rank numbers in ascending order, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankList(pub Vec<u32>);

impl std::str::FromStr for RankList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: u32 = 1 << 20;
        let wrong = || format!("'{text}' is not a list of ranks; write it as 0-3,8");
        let mut ranks = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.trim().parse().map_err(|_| wrong())?;
            let last: u32 = last.trim().parse().map_err(|_| wrong())?;
            if first > last || last >= MOST {
                return Err(wrong());
            }
            ranks.extend(first..=last);
        }
        ranks.sort_unstable();
        ranks.dedup();
        Ok(Self(ranks))
    }
}

impl RankList {
    /// Returns the positions in the session of the ranks with these numbers.
    pub fn positions(&self, session: &Session) -> anyhow::Result<Vec<u32>> {
        let mut positions = Vec::new();
        for number in &self.0 {
            let before = positions.len();
            let of_number = session
                .ranks
                .iter()
                .filter(|rank| rank.number.value == Some(*number));
            positions.extend(of_number.map(|rank| rank.index));
            if positions.len() == before {
                let seen: Vec<String> = session
                    .ranks
                    .iter()
                    .filter_map(|rank| rank.number.value)
                    .map(|number| number.to_string())
                    .collect();
                anyhow::bail!(
                    "there is no rank {number} in this session; it has {}",
                    seen.join(", ")
                );
            }
        }
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_ranks() {
        assert_eq!("8,0-3,2".parse(), Ok(RankList(vec![0, 1, 2, 3, 8])));
        for text in ["", "a", "3-1", "1-", "0-99999999"] {
            assert!(text.parse::<RankList>().is_err(), "{text}");
        }
    }
}
