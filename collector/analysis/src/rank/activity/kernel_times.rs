//! Sums by kernel.

use super::sums::KernelTime;
use crate::model::count_and_time::CountAndTime;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Maximum number of kernels with sums.
const MAX_KERNELS: usize = 1 << 14;
/// Maximum number of kernels in a summary.
const MAX_TOP: usize = 12;

/// The times of one rank's kernels, by the number of their name.
#[derive(Default)]
pub struct KernelTimes {
    by_name: FxHashMap<i32, CountAndTime>,
}

impl KernelTimes {
    /// Adds a kernel.
    pub fn add(&mut self, name: i32, ns: i64) {
        let is_full = self.by_name.len() >= MAX_KERNELS;
        match self.by_name.get_mut(&name) {
            Some(sum) => sum.add(ns),
            None if is_full => {}
            None => {
                self.by_name.insert(name, CountAndTime { count: 1, ns });
            }
        }
    }

    /// Returns the kernels with most time.
    pub fn top(&self) -> Vec<KernelTime> {
        let mut top: Vec<KernelTime> = self
            .by_name
            .iter()
            .map(|(&name, &runs)| KernelTime { name, runs })
            .collect();
        top.sort_by_key(|kernel| (Reverse(kernel.runs.ns), kernel.name));
        top.truncate(MAX_TOP);
        top
    }
}
