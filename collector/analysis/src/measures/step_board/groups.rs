//! Groups of ranks that are compared with each other: the replicas of each stage, or all ranks.

use std::collections::BTreeMap;

/// Groups of compared ranks of a world, by row.
pub struct Groups {
    all: Vec<Vec<usize>>,
    /// Number of compared ranks per rank, including the rank.
    pub sizes: Vec<usize>,
}

impl Groups {
    /// Forms the groups. `group_of` has the group of each rank.
    pub fn new(group_of: &[u32]) -> Self {
        let mut by_group: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (rank, &group) in group_of.iter().enumerate() {
            by_group.entry(group).or_default().push(rank);
        }
        let all: Vec<Vec<usize>> = by_group.into_values().collect();
        let mut sizes = vec![0; group_of.len()];
        for group in &all {
            group.iter().for_each(|&rank| sizes[rank] = group.len());
        }
        Self { all, sizes }
    }

    /// Returns the groups.
    pub fn iter(&self) -> impl Iterator<Item = &[usize]> {
        self.all.iter().map(Vec::as_slice)
    }

    /// Returns the ranks that a rank is compared with, including itself.
    pub fn peers(&self, rank: usize) -> &[usize] {
        self.iter()
            .find(|group| group.contains(&rank))
            .unwrap_or_default()
    }
}
