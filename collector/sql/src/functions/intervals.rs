//! Intervals of time, from a start up to an end.

use super::of_arrays;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// Returns the common time of two intervals in each row, in nanoseconds; null if an end is unknown.
fn common(arguments: &[ArrayRef]) -> impl Iterator<Item = Option<i64>> {
    let of = |at: usize| arguments[at].as_primitive::<Int64Type>().iter();
    let (one, other) = (of(0).zip(of(1)), of(2).zip(of(3)));
    one.zip(other).map(|((start, end), (other_start, other_end))| {
        let (start, end) = (start?.max(other_start?), end?.min(other_end?));
        Some(end.saturating_sub(start).max(0))
    })
}

pub fn overlaps() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let values = common(arguments).map(|common| common.map(|ns| ns > 0));
        Ok(Arc::new(BooleanArray::from_iter(values)))
    }
    of_arrays("overlaps", vec![DataType::Int64; 4], DataType::Boolean, compute)
}

pub fn overlap_ns() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter(common(arguments))))
    }
    of_arrays("overlap_ns", vec![DataType::Int64; 4], DataType::Int64, compute)
}
