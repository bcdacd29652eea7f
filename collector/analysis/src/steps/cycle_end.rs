//! Finds the position of a cycle at which a step ends.

use crate::steps::events::{Event, REDUCER};

/// Returns, for each position of a cycle of messages, whether a step can end there. A stage sends micro-batches and
/// receives their gradients. The number of unanswered messages is therefore smallest at the end of a step, and only
/// there. If sends and receives do not balance, every position qualifies.
fn answered(directions: &[i64]) -> Vec<bool> {
    let open: Vec<i64> = directions
        .iter()
        .scan(0, |open, direction| {
            *open += direction;
            Some(*open)
        })
        .collect();
    let least = open.iter().min().copied().unwrap_or(0);
    let returns = open.last() == Some(&0);
    open.iter().map(|&open| !returns || open == least).collect()
}

/// Rotates the cycle so that a step ends where communication ends: after the reducer's wait, else before the longest
/// pause. `directions` is known for cycles that consist of messages only.
pub(super) fn rotate(
    mut cycle: Vec<u32>,
    directions: Option<&[i64]>,
    window: &[Event],
    symbol: impl Fn(&Event) -> u32,
) -> Vec<u32> {
    let length = cycle.len();
    let mut pauses: Vec<Vec<i64>> = vec![Vec::new(); length];
    let mut at = 0;
    while at + length < window.len() {
        if (0..length).all(|position| symbol(&window[at + position]) == cycle[position]) {
            let mut done = window[at].end_ns;
            for (position, pauses) in pauses.iter_mut().enumerate() {
                done = done.max(window[at + position].end_ns);
                pauses.push(window[at + position + 1].start_ns - done);
            }
            at += length;
        } else {
            at += 1;
        }
    }
    let has_reducer = cycle.contains(&REDUCER);
    let opening: Vec<bool> = cycle
        .iter()
        .map(|&sought| {
            window
                .iter()
                .find(|&event| symbol(event) == sought)
                .is_some_and(|event| event.opens)
        })
        .collect();
    // A step ends between a reduction and a distribution: gradients end it, and parameters, input or activations begin
    // the next one. Such places also exist inside a step, but without an optimizer between them.
    let is_seam = |position: usize| !opening[position] && opening[(position + 1) % length];
    let has_seam = (0..length).any(is_seam);
    let may_end = directions.map_or_else(|| vec![true; length], answered);
    let last = (0..length)
        .filter(|&position| may_end[position])
        .filter(|&position| match (has_reducer, has_seam) {
            (true, _) => cycle[position] == REDUCER,
            (false, true) => is_seam(position),
            (false, false) => true,
        })
        .max_by_key(|&position| {
            pauses[position].sort_unstable();
            (
                pauses[position]
                    .get(pauses[position].len() / 2)
                    .copied()
                    .unwrap_or(i64::MIN),
                position,
            )
        })
        .unwrap_or(length - 1);
    cycle.rotate_left((last + 1) % length);
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_of_messages_ends_where_all_messages_are_answered() {
        // S S R S R R, beginning in the middle.
        assert_eq!(
            answered(&[1, -1, -1, 1, 1, -1]),
            [false, false, true, false, false, false]
        );
        // Only sends: no message is answered, and the step may end anywhere.
        assert_eq!(answered(&[1, 1]), [true, true]);
    }
}
