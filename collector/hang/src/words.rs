//! Words for ranks, times and operations.

use crate::view::{Call, Communicator, Position};
use rankscope_analysis::model::units;

/// Maximum number of ranges in a list of ranks.
const MAX_RANGES: usize = 12;

/// Formats numbers as a list of ranges: `0-3, 8`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown: Vec<String> = ranges
        .iter()
        .take(MAX_RANGES)
        .map(|&(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    let more = if ranges.len() > MAX_RANGES { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Formats numbers of ranks: `rank 3`, `ranks 0-2`.
pub fn ranks(numbers: &[u32]) -> String {
    match numbers {
        [one] => format!("rank {one}"),
        _ => format!("ranks {}", ranges(numbers)),
    }
}

/// Formats a time: whole seconds from 10 s on.
pub fn time(ns: i64) -> String {
    const SECOND_NS: i64 = 1_000_000_000;
    match ns / SECOND_NS {
        ..10 => units::time(ns),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Names an operation with its number: `all-reduce number 12`.
pub fn operation(call: &Call) -> String {
    let name = call.operation.name();
    match call.position {
        Position::Numbered(number) => format!("{name} number {number}"),
        Position::Used { tag: 0, sequence, .. } => format!("{name} number {sequence}"),
        Position::Used { tag, sequence, .. } => format!("{name} number {sequence} with tag {tag}"),
        Position::Message {
            sender,
            receiver,
            tag,
        } => format!("{name} from member {sender} to member {receiver} with tag {tag}"),
    }
}

/// Names an operation with its communicator.
pub fn operation_of(call: &Call, communicator: Option<&Communicator>) -> String {
    let operation = operation(call);
    match communicator {
        Some(communicator) => format!("{operation} on {}", communicator.name),
        None => operation,
    }
}

/// Describes the arguments of a call in which members may disagree.
pub fn arguments(call: &Call) -> String {
    let mut out = call.operation.name().to_owned();
    if let Some(bytes) = call.bytes {
        out.push_str(&format!(" of {}", units::bytes(bytes)));
    }
    if call.element_bytes > 0 {
        out.push_str(&format!(" ({} bytes per element)", call.element_bytes));
    }
    if call.peer >= 0 {
        out.push_str(&format!(" with root {}", call.peer));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_are_short() {
        assert_eq!(ranges(&[8, 0, 1, 2, 3, 3]), "0-3, 8");
        assert_eq!(ranges(&[4, 5]), "4, 5");
        assert_eq!(ranks(&[7]), "rank 7");
        let odd: Vec<u32> = (0..100).map(|number| 2 * number).collect();
        assert!(ranges(&odd).ends_with(", …") && ranges(&odd).len() < 60);
    }

    #[test]
    fn long_times_have_no_decimals() {
        assert_eq!(time(62_400_000_000), "62 s");
        assert_eq!(time(3_723_000_000_000), "62 min 3 s");
        assert_eq!(time(9_000_000_000_000), "2 h 30 min");
    }
}
