//! SQL functions for collectives and time intervals. Each calls the code of the merge, so queries and reports agree.

mod bandwidth;
mod intervals;
mod percentile;
mod size_class;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Description of a function.
pub struct Function {
    /// Name.
    pub name: &'static str,
    /// Name with its arguments.
    pub usage: &'static str,
    /// Meaning of the result, with its unit.
    pub meaning: &'static str,
}

/// All functions, in the order of the book.
pub const ALL: [Function; 6] = [
    Function {
        name: "algbw",
        usage: "algbw(bytes, ns)",
        meaning: "Algorithm bandwidth in bytes per second: payload divided by transfer time.",
    },
    Function {
        name: "busbw",
        usage: "busbw(operation, bytes, ns, ranks)",
        meaning: "Bus bandwidth in bytes per second, as METRICS.md defines it. Null for operations without one, such as a barrier.",
    },
    Function {
        name: "size_class",
        usage: "size_class(bytes)",
        meaning: "Lower end of the payload's size class in bytes: a power of two, or 0. The report groups by it.",
    },
    Function {
        name: "overlaps",
        usage: "overlaps(start_ns, end_ns, start_ns, end_ns)",
        meaning: "True if two intervals overlap by more than an endpoint.",
    },
    Function {
        name: "overlap_ns",
        usage: "overlap_ns(start_ns, end_ns, start_ns, end_ns)",
        meaning: "Overlap of two intervals, in nanoseconds.",
    },
    Function {
        name: "percentile",
        usage: "percentile(value, share)",
        meaning: "Percentile of a group's values: 0.99 is the p99. It uses the report's sketch, whose relative error is at most 1/128.",
    },
];

/// Adds all functions.
///
/// # Errors
/// A function that cannot be replaced.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for function in [
        bandwidth::algbw(),
        bandwidth::busbw(),
        size_class::size_class(),
        intervals::overlaps(),
        intervals::overlap_ns(),
    ] {
        registry.register_udf(Arc::new(function))?;
    }
    registry.register_udaf(Arc::new(percentile::percentile()))?;
    Ok(())
}

/// A function of a row.
#[derive(Debug)]
struct RowFunction {
    name: &'static str,
    arguments: Vec<DataType>,
    result: DataType,
    signature: Signature,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

// The name identifies the function. Addresses of code do not.
impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Makes a function of these types, which gets one array per argument. Any number is accepted where a number is wanted.
fn of_arrays(
    name: &'static str,
    arguments: Vec<DataType>,
    result: DataType,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    ScalarUDF::from(RowFunction {
        name,
        arguments,
        result,
        signature: Signature::user_defined(Volatility::Immutable),
        compute,
    })
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let fits = |given: &DataType, wanted: &DataType| match wanted {
            DataType::Utf8 => is_text(given),
            _ => given.is_numeric() || given.is_null(),
        };
        let all_fit = given.len() == self.arguments.len()
            && given
                .iter()
                .zip(&self.arguments)
                .all(|(given, wanted)| fits(given, wanted));
        if !all_fit {
            let usage = ALL.iter().find(|function| function.name == self.name);
            return plan_err!(
                "wrong arguments: {}",
                usage.map_or(self.name, |function| function.usage)
            );
        }
        Ok(self.arguments.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_are_scalars = arguments
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let result = (self.compute)(&arrays)?;
        Ok(match all_are_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, value) => is_text(value),
        other => other.is_string() || other.is_null(),
    }
}
