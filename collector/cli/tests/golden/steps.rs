//! Detection of steps (METRICS.md, section 7). For any repeating sequence, number and length of the steps are those
//! that it was made with.

use crate::scene::{US, at, logs, merged, rooted};
use proptest::prelude::*;
use rankscope_ranklog::Operation::{AllReduce, Barrier, Broadcast};
use rankscope_ranklog::record::Record;

/// Makes one rank's calls: `before` barriers, then steps of one broadcast and `reduces` all-reduces, `period` µs each.
fn calls(before: u64, steps: u64, reduces: u64, period: u64) -> Vec<Record> {
    let mut now = 10;
    let mut out = Vec::new();
    for number in 0..before {
        out.push(at(Barrier, [now, now + 5], number as u32, 0));
        now += 7;
    }
    for step in 0..steps {
        let begin = Record {
            tag: 1_000 + step as u32,
            ..rooted(Broadcast, [now, now + 10], 0)
        };
        out.push(begin);
        for number in 0..reduces {
            let from = now + 20 + number * 15;
            let tag = (100_000 + step * reduces + number) as u32;
            out.push(at(AllReduce, [from, from + 10], tag, 4 << 20));
        }
        now += period;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_sequence_that_repeats_is_found(
        before in 0u64..6,
        steps in 12u64..40,
        reduces in 1u64..6,
        more in 0u64..500,
    ) {
        let period = 20 + reduces * 15 + 10 + more;
        let all = calls(before, steps, reduces, period);
        let folder = tempfile::tempdir().expect("a folder");
        logs(folder.path(), 2, |_, log| all.iter().for_each(|&record| log.push(0, record)));
        let (session, _) = merged(folder.path());
        let found = &session.steps;
        // The last step has no end. The start of a step inside the sequence is ambiguous, so one more step may be
        // missing.
        prop_assert!((steps - 2..=steps).contains(&found.count), "{} of {steps}", found.count);
        let median = *found.median_ns.get().expect("steps");
        prop_assert_eq!(median, period as i64 * US);
    }
}
