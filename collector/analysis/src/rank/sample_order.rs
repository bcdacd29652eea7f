//! Samples of counters in the order of their time.
//!
//! A rate is known at the end of its interval, and its time is the begin. So later samples are held until no rate can precede
//! them.

use rankscope_formats::session::CounterRow;

/// Maximum number of held samples. On overflow all are emitted, and a later rate is out of order.
const MAX_HELD: usize = 1 << 16;

/// Samples that are held.
#[derive(Debug, Default)]
pub struct SampleOrder {
    held: Vec<CounterRow>,
    /// No rate begins earlier. `None` before the first rate: nothing is held.
    reached_ns: Option<i64>,
}

impl SampleOrder {
    /// Adds a sample of the system. It was taken at `end_ns`, and the next interval begins there.
    pub fn add_of_system(&mut self, row: CounterRow, end_ns: i64) {
        self.reached_ns = Some(
            self.reached_ns
                .map_or(end_ns, |reached_ns| reached_ns.max(end_ns)),
        );
        self.held.push(row);
    }

    /// Adds any other sample.
    pub fn add(&mut self, row: CounterRow) {
        self.held.push(row);
    }

    /// Emits the samples that no later one can precede, in order. With `is_end`, emits all.
    pub fn emit(&mut self, is_end: bool, out: &mut Vec<CounterRow>) {
        if self.held.is_empty() {
            return;
        }
        self.held.sort_by_key(|row| row.at_ns);
        let ready = match self.reached_ns {
            Some(reached_ns) if !is_end && self.held.len() <= MAX_HELD => {
                self.held.partition_point(|row| row.at_ns < reached_ns)
            }
            _ => self.held.len(),
        };
        out.extend(self.held.drain(..ready));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_ns: i64) -> CounterRow {
        CounterRow {
            name: "loss".to_owned(),
            at_ns,
            value: 1.0,
        }
    }

    fn emitted(rows: &mut SampleOrder, is_end: bool) -> Vec<i64> {
        let mut out = Vec::new();
        rows.emit(is_end, &mut out);
        out.iter().map(|row| row.at_ns).collect()
    }

    #[test]
    fn a_rate_precedes_the_samples_of_its_interval() {
        let mut rows = SampleOrder::default();
        rows.add(row(5));
        assert_eq!(emitted(&mut rows, false), [5], "there are no rates");
        // The first interval is from 0 to 10, the second to 20.
        rows.add_of_system(row(0), 10);
        rows.add_of_system(row(10), 10);
        assert_eq!(emitted(&mut rows, false), [0]);
        for at_ns in [12, 17] {
            rows.add(row(at_ns));
        }
        assert_eq!(emitted(&mut rows, false), [0; 0]);
        rows.add_of_system(row(10), 20);
        rows.add_of_system(row(20), 20);
        assert_eq!(emitted(&mut rows, false), [10, 10, 12, 17]);
        assert_eq!(emitted(&mut rows, true), [20]);
    }

    #[test]
    fn memory_is_bounded_without_further_rates() {
        let mut rows = SampleOrder::default();
        rows.add_of_system(row(0), 10);
        for at_ns in 0..=MAX_HELD as i64 {
            rows.add(row(20 + at_ns));
        }
        assert_eq!(emitted(&mut rows, false).len(), MAX_HELD + 2);
    }
}
