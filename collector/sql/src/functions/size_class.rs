//! Classes of payloads.

use super::of_arrays;
use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub fn size_class() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        // Above 2^53, the nearest double has the same class, except just below a power of two.
        let bytes = arguments[0].as_primitive::<Float64Type>();
        let lower = |bytes: f64| match rankscope_analysis::matching::size_class(bytes as u64) {
            _ if bytes < 0.0 => None,
            0 => Some(0),
            class => Some(1 << (class - 1)),
        };
        Ok(Arc::new(UInt64Array::from_iter(
            bytes.iter().map(|bytes| bytes.and_then(lower)),
        )))
    }
    of_arrays("size_class", vec![DataType::Float64], DataType::UInt64, compute)
}
