//! Bandwidths (METRICS.md, section 2).

use super::of_arrays;
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use rankscope_ranklog::Operation;
use std::sync::Arc;

/// Nanoseconds per second.
const NS_PER_S: f64 = 1e9;

fn bytes_per_s(bytes: Option<u64>, ns: Option<i64>) -> Option<f64> {
    let ns = ns.filter(|&ns| ns > 0)?;
    Some(bytes? as f64 / ns as f64 * NS_PER_S)
}

pub fn algbw() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let (bytes, ns) = (
            arguments[0].as_primitive::<UInt64Type>(),
            arguments[1].as_primitive::<Int64Type>(),
        );
        let values = bytes.iter().zip(ns).map(|(bytes, ns)| bytes_per_s(bytes, ns));
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
    of_arrays(
        "algbw",
        vec![DataType::UInt64, DataType::Int64],
        DataType::Float64,
        compute,
    )
}

pub fn busbw() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let operations = arguments[0].as_string::<i32>();
        let bytes = arguments[1].as_primitive::<UInt64Type>();
        let ns = arguments[2].as_primitive::<Int64Type>();
        let ranks = arguments[3].as_primitive::<UInt32Type>();
        let values = operations.iter().zip(bytes).zip(ns.iter().zip(ranks)).map(
            |((operation, bytes), (ns, ranks))| {
                let factor = Operation::named(operation?)?.bus_factor(ranks?)?;
                Some(bytes_per_s(bytes, ns)? * factor)
            },
        );
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
    let arguments = vec![
        DataType::Utf8,
        DataType::UInt64,
        DataType::Int64,
        DataType::UInt32,
    ];
    of_arrays("busbw", arguments, DataType::Float64, compute)
}
