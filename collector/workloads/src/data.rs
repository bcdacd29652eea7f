//! Elements: their types, the inputs of the ranks, and the results that an operation must give.
//!
//! Inputs are small integers, so that sums are exact in every type and in every order.

use crate::case::{Case, Pattern};

/// Type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// 8-bit unsigned integer.
    Uint8,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// IEEE half precision.
    Float16,
    /// The upper half of a float32.
    Bfloat16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
}

impl DataType {
    /// All types.
    pub const ALL: [Self; 7] = [
        Self::Uint8,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Bfloat16,
        Self::Float32,
        Self::Float64,
    ];

    /// Returns the name, as PyTorch has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// Returns the size of an element, in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Returns the largest number up to which the type has every integer.
    const fn most_exact(self) -> u32 {
        match self {
            Self::Uint8 => 255,
            Self::Bfloat16 => 256,
            Self::Float16 => 2048,
            _ => 1 << 24,
        }
    }

    /// Appends a number as an element.
    fn put(self, value: u32, out: &mut Vec<u8>) {
        match self {
            Self::Uint8 => out.push(value as u8),
            Self::Int32 => out.extend((value as i32).to_ne_bytes()),
            Self::Int64 => out.extend(i64::from(value).to_ne_bytes()),
            Self::Float16 => out.extend(half(value).to_ne_bytes()),
            Self::Bfloat16 => out.extend(((value as f32).to_bits() >> 16).to_ne_bytes()[..2].iter()),
            Self::Float32 => out.extend((value as f32).to_ne_bytes()),
            Self::Float64 => out.extend(f64::from(value).to_ne_bytes()),
        }
    }
}

/// Returns an integer of at most 2048 as IEEE half precision.
fn half(value: u32) -> u16 {
    if value == 0 {
        return 0;
    }
    let exponent = value.ilog2();
    // The mantissa has 10 bits behind the leading one.
    let mantissa = (value << 10 >> exponent) & 0x3ff;
    ((exponent + 15) << 10 | mantissa) as u16
}

/// Difference between the first elements of neighbouring ranks. It is coprime to every possible number of inputs, so that
/// neighbours differ.
const STRIDE: u64 = 17;
/// Elements of all inputs repeat after this number, so that they need not be computed one by one.
const PERIOD: u64 = 251;

/// Returns the number of different inputs, or `None` if the sum of all ranks is not exact in this type.
fn different(data_type: DataType, ranks: u32) -> Option<u32> {
    let most = data_type.most_exact() / ranks.max(1);
    (most >= 1).then(|| most.min(12) + 1)
}

/// Returns element `index` of a rank's input.
fn element(case: &Case, rank: u32, index: u64) -> u32 {
    let different = different(case.data_type, case.ranks).unwrap_or(1);
    ((u64::from(rank) * STRIDE + index % PERIOD) % u64::from(different)) as u32
}

/// Returns the input of a rank.
pub fn input(case: &Case, rank: u32) -> Vec<u8> {
    repeated(case, case.send_elements(rank), |index| element(case, rank, index))
}

/// Returns the output that a rank must get, or `None` if the type cannot hold it exactly. It is empty for a rank that gets
/// none.
pub fn expected(case: &Case, rank: u32) -> Option<Vec<u8>> {
    different(case.data_type, case.ranks)?;
    let count = case.elements;
    let received = case.receive_elements(rank);
    let sum = |index: u64| (0..case.ranks).map(|rank| element(case, rank, index)).sum();
    let mine = u64::from(rank) * count;
    Some(match case.pattern {
        Pattern::AllReduce | Pattern::Reduce => repeated(case, received, sum),
        Pattern::ReduceScatter => repeated(case, received, |index| sum(mine + index)),
        Pattern::Broadcast => repeated(case, received, |index| element(case, 0, index)),
        Pattern::Scatter => repeated(case, received, |index| element(case, 0, mine + index)),
        Pattern::SendReceive => {
            let before = case.previous(rank);
            repeated(case, received, |index| element(case, before, index))
        }
        Pattern::AllGather | Pattern::Gather | Pattern::AllToAll => {
            let mut out = Vec::new();
            let senders = if received == 0 { 0 } else { case.ranks };
            for sender in 0..senders {
                let skipped = if case.pattern == Pattern::AllToAll {
                    mine
                } else {
                    0
                };
                out.extend(repeated(case, count, |index| {
                    element(case, sender, skipped + index)
                }));
            }
            out
        }
    })
}

/// Returns `count` elements, whose values repeat.
fn repeated(case: &Case, count: u64, value: impl Fn(u64) -> u32) -> Vec<u8> {
    let total = (count * case.data_type.bytes()) as usize;
    let mut period = Vec::new();
    for index in 0..count.min(PERIOD) {
        case.data_type.put(value(index), &mut period);
    }
    let mut out = Vec::with_capacity(total);
    while out.len() < total {
        let next = period.len().min(total - out.len());
        out.extend_from_slice(&period[..next]);
    }
    out
}

/// Returns the number of elements that differ. Missing elements differ.
pub fn wrong(data_type: DataType, expected: &[u8], got: &[u8]) -> u64 {
    if expected == got {
        return 0;
    }
    let bytes = data_type.bytes() as usize;
    let pairs = expected.chunks(bytes).zip(got.chunks(bytes));
    let differing = pairs.filter(|(expected, got)| expected != got).count();
    (differing + expected.len().abs_diff(got.len()) / bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::test_case;

    /// Sums elements of all ranks, by the definition of each type.
    fn number(data_type: DataType, element: &[u8]) -> f64 {
        match data_type {
            DataType::Uint8 => f64::from(element[0]),
            DataType::Int32 => f64::from(i32::from_ne_bytes(element.try_into().expect("4"))),
            DataType::Int64 => i64::from_ne_bytes(element.try_into().expect("8")) as f64,
            DataType::Float16 => {
                let bits = u16::from_ne_bytes(element.try_into().expect("2"));
                let mantissa = f64::from(bits & 0x3ff) / 1024.0;
                match bits >> 10 {
                    0 => mantissa * 2f64.powi(-14),
                    exponent => (1.0 + mantissa) * 2f64.powi(i32::from(exponent) - 15),
                }
            }
            DataType::Bfloat16 => {
                let bits = u16::from_ne_bytes(element.try_into().expect("2"));
                f64::from(f32::from_bits(u32::from(bits) << 16))
            }
            DataType::Float32 => f64::from(f32::from_ne_bytes(element.try_into().expect("4"))),
            DataType::Float64 => f64::from_ne_bytes(element.try_into().expect("8")),
        }
    }

    #[test]
    fn sums_are_those_of_the_inputs_in_every_type() {
        for data_type in DataType::ALL {
            for ranks in [2, 3, 8, 64, 200] {
                let case = Case {
                    data_type,
                    ..test_case(Pattern::AllReduce, ranks, 600)
                };
                let bytes = data_type.bytes() as usize;
                let inputs: Vec<_> = (0..ranks).map(|rank| input(&case, rank)).collect();
                let expected = expected(&case, 1).expect("exact");
                for index in [0, 1, 250, 251, 599] {
                    let at = index * bytes..(index + 1) * bytes;
                    let sum: f64 = inputs
                        .iter()
                        .map(|input| number(data_type, &input[at.clone()]))
                        .sum();
                    assert_eq!(
                        number(data_type, &expected[at]),
                        sum,
                        "{data_type:?} {ranks} {index}"
                    );
                }
            }
        }
    }

    #[test]
    fn parts_come_from_the_right_rank_and_place() {
        let case = test_case(Pattern::AllToAll, 3, 4);
        let bytes = 16;
        let got = expected(&case, 1).expect("exact");
        for sender in 0..3u32 {
            let sent = input(&case, sender);
            let part = sender as usize * bytes..(sender as usize + 1) * bytes;
            assert_eq!(got[part], sent[bytes..2 * bytes]);
        }
        let case = test_case(Pattern::Scatter, 3, 4);
        assert_eq!(expected(&case, 2).expect("exact"), input(&case, 0)[32..48]);
        assert!(input(&case, 1).is_empty());
        let case = test_case(Pattern::SendReceive, 3, 4);
        assert_eq!(expected(&case, 0).expect("exact"), input(&case, 2));
    }

    #[test]
    fn differences_and_missing_elements_are_wrong() {
        let (a, b) = ([1, 0, 0, 0, 2, 0, 0, 0], [1, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(wrong(DataType::Int32, &a, &a), 0);
        assert_eq!(wrong(DataType::Int32, &a, &b), 1);
        assert_eq!(wrong(DataType::Int32, &a, &a[..4]), 1);
    }

    #[test]
    fn a_sum_that_the_type_cannot_hold_is_not_checked() {
        let case = Case {
            data_type: DataType::Uint8,
            ..test_case(Pattern::AllReduce, 300, 4)
        };
        assert_eq!(expected(&case, 0), None);
    }
}
