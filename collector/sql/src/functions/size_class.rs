//! Classes of payloads.

use super::of_arrays;
use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub fn size_class() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let bytes = arguments[0].as_primitive::<UInt64Type>();
        let lower = |bytes: u64| match rankscope_analysis::matching::size_class(bytes) {
            0 => 0,
            class => 1 << (class - 1),
        };
        Ok(Arc::new(UInt64Array::from_iter(
            bytes.iter().map(|bytes| bytes.map(lower)),
        )))
    }
    of_arrays("size_class", vec![DataType::UInt64], DataType::UInt64, compute)
}
