//! Grouping of long lists for bounded pictures: neighbours share a row or a column.

use std::ops::Range;

/// Splits `0..count` into at most `most` ranges of one length; the last may be shorter.
pub fn groups(count: usize, most: usize) -> Vec<Range<usize>> {
    if count == 0 {
        return Vec::new();
    }
    let length = count.div_ceil(most.max(1));
    (0..count)
        .step_by(length)
        .map(|start| start..(start + length).min(count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_everything_and_stay_few() {
        for count in [0, 1, 63, 64, 65, 1000] {
            let groups = groups(count, 64);
            assert!(groups.len() <= 64);
            assert_eq!(groups.iter().map(Range::len).sum::<usize>(), count);
            assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
