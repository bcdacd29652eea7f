//! Bandwidths (METRICS.md, section 2).

use super::of_arrays;
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use rankscope_ranklog::Operation;
use std::sync::Arc;

/// Nanoseconds per second.
const NS_PER_S: f64 = 1e9;

fn bytes_per_s(bytes: Option<f64>, ns: Option<f64>) -> Option<f64> {
    let (bytes, ns) = (bytes.filter(|&bytes| bytes >= 0.0)?, ns.filter(|&ns| ns > 0.0)?);
    Some(bytes / ns * NS_PER_S)
}

pub fn algbw() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let of = |at: usize| arguments[at].as_primitive::<Float64Type>();
        let values = of(0).iter().zip(of(1)).map(|(bytes, ns)| bytes_per_s(bytes, ns));
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
    of_arrays("algbw", vec![DataType::Float64; 2], DataType::Float64, compute)
}

pub fn busbw() -> ScalarUDF {
    fn compute(arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let operations = arguments[0].as_string::<i32>();
        let of = |at: usize| arguments[at].as_primitive::<Float64Type>();
        let values = operations.iter().zip(of(1)).zip(of(2).iter().zip(of(3))).map(
            |((operation, bytes), (ns, ranks))| {
                // A conversion to an integer saturates, and fewer than two members have no bandwidth.
                let factor = Operation::named(operation?)?.bus_factor(ranks? as u32)?;
                Some(bytes_per_s(bytes, ns)? * factor)
            },
        );
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
    let arguments = vec![
        DataType::Utf8,
        DataType::Float64,
        DataType::Float64,
        DataType::Float64,
    ];
    of_arrays("busbw", arguments, DataType::Float64, compute)
}
